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
//   info: what a server says of itself

pub mod commands;
pub mod console;
pub mod desk;
pub mod fleet;
pub mod front;
pub mod gateway;
pub mod guard;
pub mod health;
pub mod hub;
pub mod info;
pub mod metrics;
pub mod migrate;
pub mod named;
pub mod placement;
pub mod pool;
pub mod replica;
pub mod scripts;
pub mod server;
pub mod servers;
pub mod session;
pub mod settings;
pub mod status;
pub mod topology;
pub mod unknown;
pub mod users;

pub use gateway::Gateway;
pub use guard::Guard;
pub use replica::Follower;
