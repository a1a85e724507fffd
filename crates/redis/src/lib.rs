//! The Redis gateway: commands of many clients share a few pipelined connections to the servers,
//! and keys find their server by a ring, as with twemproxy.
//!
//! It keeps no data, never has a command run twice whose first run may hold, and puts nothing on a
//! connection that others share but what its own list of commands has, or the operator has named.
//!
//! The one path: a [`session`] has a command cut off what its client sent, [`commands`] says what
//! it is and where its keys are, [`placement`] which server has them; then it rides a lane of
//! [`flow::service`], or goes by a connection of the client's own. Beside it, [`replica`] follows
//! servers and keeps their append-only files, and [`guard`] watches how servers persist.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   a Redis command may share a connection: the table in commands/table.rs;
//     session/dispatch.rs says by which way it goes, or why it is refused, by how its client
//     stands
//   a client takes a connection for itself, asks by it and gives it back: session/dedicated.rs;
//     session/transaction.rs carries that out
//   servers and pools of Redis come and go with a reload: gateway.rs: changes makes ready,
//     fleet/spread.rs: respread puts servers in force, gateway/listening.rs the addresses;
//     flow/src/service.rs: Service::left ends what is left at one that has gone
//   a server's `COMMAND` takes away: commands/said.rs; fleet/taken.rs keeps what servers say
//   a key finds its server: placement/tag.rs says what of the key counts, placement/hash.rs
//     hashes that, placement/ring.rs leads from the hash to a server, fleet/spread.rs says
//     which has which place; of a Cluster, placement/tag.rs: slot, then fleet.rs
//   a connection that one Redis client had is shared again: server/restore.rs
//   a Redis server is ejected: health/ejections.rs; servers.rs says what is a failure
//   a node of a Cluster sends a command on: servers/redirects.rs
//   what a Redis command took is counted: servers/counts.rs, metrics/times.rs, by what
//     flow/src/service/ticket.rs tells
//   who may show or touch other clients of Redis: session/dispatch.rs: check_rights
//   a user of the Redis servers is let in, and whose lanes its client shares: session/passed.rs
//     has a server asked, servers/accounts.rs says who shares
//   a Redis channel finds its server, and a subscription is confirmed: front.rs: servers_of;
//     hub.rs
//   a master that came back with few keys, or without what was confirmed, is believed or not:
//     replica/keys.rs; Lineage in replica/answers.rs says what a data set lacks
//   a file of a generation is found damaged: replica/directory/lengths.rs by its length and
//     offsets, replica/scrub.rs by its content
//   what a followed master sends becomes durable: replica/writer.rs: Writer::stream writes a
//     group into replica/increment.rs, syncs it, then has the master told
//   an append-only file is gone on with, or a new one begun: replica/directory.rs,
//     replica/scan.rs
//   what is wrong with how a Redis server persists: guard/findings.rs
//   a read of Redis goes to a replica: session/replicas.rs; fleet/replicas.rs says which
//     replicas have what a client wrote
//   a Redis server is told to save or rewrite, or its file turned off: guard/decide.rs;
//     guard/key.rs says which Weir may
//   a master hears that its writes are durable: replica/link.rs: tell
//   a new base is due, and takes the current one's place: replica/rewrite.rs;
//     replica/directory/parted.rs
//   an older generation is removed: replica/directory/kept.rs

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   gateway: opens, binds, runs the workers, reloads and drains
//   pool: the servers that keys are spread over, and who may use them
//   guard: how servers persist, what is wrong with it, and who saves when
//   session: a client, and the way of each of its commands
//   front: what the clients of one worker share
//   hub: who is subscribed to what
//   servers: the servers as a worker asks for them
//   console: what operators are shown, and may say
//   fleet: the servers of a pool as they are now
//   replica: the append-only files that are kept for servers
//   server: how a server is reached, logged in to and shared again
//   topology: where servers are that others know of
//   desk: what is kept for operators
//   unknown: what servers say of commands that Weir does not know
//   users: who may log in
//   named: commands that the operator has named
//   scripts: which scripts servers are known to have
//   migrate: another proxy's configuration
//   settings, status
//   metrics: what is counted
//   commands: what a command is and where its keys are
//   health: which servers are ejected, and what was wrong with them last
//   placement: which server a key belongs to
//   server_memory: what servers say of their memory
//   info: what a server says of itself

pub mod commands;
mod console;
mod desk;
mod fleet;
mod front;
mod gateway;
pub mod guard;
mod health;
mod hub;
mod info;
mod metrics;
pub mod migrate;
mod named;
pub mod placement;
mod pool;
pub mod replica;
mod scripts;
mod server;
pub mod server_memory;
mod servers;
mod session;
pub mod settings;
pub mod status;
mod topology;
pub mod unknown;
mod users;

pub use gateway::Gateway;
pub use guard::Guard;
pub use replica::Follower;
pub use server_memory::ServerMemories;
