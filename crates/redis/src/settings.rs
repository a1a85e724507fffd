//! The `[redis]` table of the configuration. Each field's comment is its entry in the reference.
//!
//! Plain values only: what they do is decided where they are used. [`Settings::validate`] refuses
//! what can't work and says what to write instead.

mod address;
mod aof;
mod auth;
mod backend;
mod command;
mod eject;
mod guard;
mod pool;
mod read_from;
mod reload;
mod sentinel;
#[cfg(test)]
mod tests;
mod user;
mod validate;

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

pub use address::{AddressError, Reached, read_address};
pub use aof::{AofSettings, MasterSettings, PortSettings, RewriteSettings};
pub use auth::Auth;
pub use backend::BackendSettings;
pub use command::{COMMAND_BYTES_MAX, CommandSettings};
pub use eject::EjectSettings;
pub use guard::{GuardSettings, Mode};
pub use pool::{MAIN, PoolSettings};
pub use read_from::ReadFrom;
pub use sentinel::SentinelSettings;
pub use user::{BackendLogin, UserSettings};
pub use validate::{SettingsError, is_of_this_machine, machine};

use crate::placement::{Distribution, Hash};

/// `[redis]`: the Redis gateway. Absent, it is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Where clients connect over TCP: one address or a list of them. `[]` leaves the Unix sockets
    /// only.
    #[serde(deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<SocketAddr>")]
    pub listen: Vec<SocketAddr>,
    /// The paths of Unix sockets to make.
    #[serde(deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<PathBuf>")]
    pub unix_sockets: Vec<PathBuf>,
    /// Who may connect to a Unix socket, as the octal mode of its file. Needs a restart.
    pub unix_socket_mode: String,
    /// TLS for clients over TCP. Needs a restart; its files are read again at a reload.
    pub tls: Option<TlsSettings>,
    /// Let clients from beyond this machine connect without TLS. Their passwords, keys and values
    /// can then be read on the way.
    pub allow_cleartext: bool,
    /// Client connections at once, all workers and pools together. One more hears
    /// `-ERR max number of clients reached` and is closed.
    pub max_connections: usize,
    /// Which server a key belongs to: `ketama`, `modula`, `random`, `jump`, or `cluster` where the
    /// servers are nodes of a Redis Cluster.
    pub distribution: Distribution,
    /// What a key's place is computed with; the names are twemproxy's.
    pub hash: Hash,
    /// Two characters, as `"{}"`: where a key has both, what is between them is hashed in its
    /// place, so that keys belong together.
    pub hash_tag: Option<String>,
    /// How many databases clients may `SELECT`. It must not be more than the servers have.
    pub databases: u32,
    /// The database in which clients begin.
    pub database: u32,
    /// How long a command may wait until it is sent, and from then on for its answer. Its client
    /// then hears an error that says whether the command may have run. Commands that block wait as
    /// long as they say.
    pub timeout: Duration,
    /// How long a client may be connected without a command; `0` is without limit.
    pub idle_timeout: Duration,
    /// How long the rest of a command may take to come, from one piece to the next; and how long a
    /// client may say nothing that has to log in.
    pub read_timeout: Duration,
    /// How long a client may take no byte of what is sent to it; then it is closed.
    pub write_timeout: Duration,
    /// Where reads go: to the `primary`, or to its `replicas`, which are found by asking it. A
    /// client that has written reads the primary until a replica has all that it wrote. A
    /// `[[redis.user]]` may have it otherwise.
    pub read_from: ReadFrom,
    /// Replicas that their primary has not heard from for longer are not read; and none, once Weir
    /// has not heard from the primary for longer.
    pub max_replica_lag: Duration,
    /// Connections of each worker to one server that carry the commands of many clients at once.
    /// A database other than 0 and RESP3 have lanes of their own. One that nobody has used for ten
    /// minutes is closed.
    pub lanes: usize,
    /// Commands under way on one lane at most.
    pub lane_depth: usize,
    /// How long those behind a reply wait that its client does not take as fast as it comes. Then
    /// it is kept for its client, up to `max-unread`. Behind a larger one they wait until
    /// `timeout`, and its client is closed.
    pub patience: Duration,
    /// Ask a server once for equal reads of several clients that wait together for the same lane:
    /// `GET`, `MGET`, `EXISTS`, `HGET`, `HGETALL`, `LRANGE`, `SMEMBERS`, `ZRANGE`, `ZSCORE` and
    /// their like. Nothing is cached: a read joins another only while nothing of that was sent, so
    /// each client hears what it could have heard alone. Reads in `MULTI`, of keys that are
    /// watched or tracked, and in a pipeline are asked by themselves. The server counts one, in
    /// `INFO commandstats`, in its `SLOWLOG` and `MONITOR`, and for the LRU and LFU of keys.
    pub share_reads: bool,
    /// Connections of each worker to one server, for one database and RESP version: those of
    /// `lanes`, and for clients that need one for themselves, as for `MULTI` or `BLPOP`.
    pub pool_size: usize,
    /// The largest command that is kept whole before it is sent. Beyond it, a command that ends
    /// with a large value, as `SET`, goes to its server as it comes; any other hears an error.
    pub max_command: Size,
    /// The largest value, as `proto-max-bulk-len` of a server.
    pub max_value: Size,
    /// Bytes of answers that wait behind a slower one, for one client.
    pub max_waiting: Size,
    /// Bytes of answers that a client has not taken, at which it is closed. Of one larger answer no
    /// more is read than the client takes; where that says its length, as a value, or half of this
    /// has come.
    pub max_unread: Size,
    /// Bytes of commands and answers that all clients of all pools may hold together: on their way,
    /// waiting behind others, or not taken. Less than 16 KiB of a client is not counted.
    pub max_memory: Size,
    /// Channels and patterns that one client may be subscribed to.
    pub max_subscriptions: usize,
    /// A command that a server has to itself for longer is kept for `SLOWLOG` and `WEIR SHOW SLOW`,
    /// without its values, the newest 128 of each pool; `0` keeps none.
    pub slow_command: Duration,
    /// The keys of a server that fails go to the others until it is tried again. For caches: a key
    /// that is written meanwhile is not found once the server is back, and what the server had
    /// before is. Without this table a server keeps its keys, and their commands fail.
    pub eject: Option<EjectSettings>,
    /// Who checks passwords: `weir`, by `[[redis.user]]`; or `pass`: `AUTH` is passed on, a server
    /// checks it each time, and a client is that server's user, with what that may do. Needs a
    /// restart.
    pub auth: Auth,
    /// Connections of each worker to one server for all users of the servers together, as `auth =
    /// "pass"` and `backend-user` have them: lanes, and those that clients have for themselves.
    /// Whoever needs one more waits for one that nobody uses. Those of subscribers are not counted.
    pub user_connections: usize,
    /// Who may log in. With `auth = "pass"` these are Weir's own administrators beside the servers'
    /// users; their names are not passed on. Otherwise, without any, whoever reaches the address is
    /// let in, and nobody is an administrator.
    pub user: Vec<UserSettings>,
    /// The servers. Without any, and with `[redis.aof]`, no client is served.
    pub backend: Vec<BackendSettings>,
    /// Commands that Weir's own list does not have, as those of a module, and that may share a
    /// connection with others. Each must give one reply, must not block, and must leave nothing on
    /// its connection: whoever names one here answers for that. Where its keys are is as
    /// `COMMAND INFO` of a server has it. They are for all pools.
    pub command: Vec<CommandSettings>,
    /// More pools: each is servers that share keys, and where their clients connect. What one does
    /// not say is as in `[redis]`, but for addresses and servers. `[redis]` is a pool itself only
    /// where it has a `[[redis.backend]]`, or there are no others.
    pub pool: Vec<PoolSettings>,
    /// `[redis.aof]`: append-only files that Weir keeps for servers, so that these need write none.
    /// Needs a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aof: Option<AofSettings>,
    /// `[redis.guard]`: what watches how servers persist, those of `[redis.aof]` and those of all
    /// pools. Needs a restart.
    pub guard: GuardSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 6379))],
            unix_sockets: Vec::new(),
            unix_socket_mode: "0777".to_owned(),
            tls: None,
            allow_cleartext: false,
            max_connections: 10_000,
            distribution: Distribution::Ketama,
            hash: Hash::Fnv1a64,
            hash_tag: None,
            databases: 16,
            database: 0,
            timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(0),
            read_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            read_from: ReadFrom::Primary,
            max_replica_lag: Duration::from_secs(10),
            lanes: 1,
            lane_depth: 1024,
            patience: Duration::from_millis(100),
            share_reads: false,
            pool_size: 100,
            max_command: Size::from_mib(16),
            max_value: Size::from_mib(512),
            max_waiting: Size::from_mib(64),
            max_unread: Size::from_mib(64),
            max_memory: Size::from_gib(1),
            max_subscriptions: 10_000,
            slow_command: Duration::from_millis(10),
            eject: None,
            auth: Auth::Weir,
            user_connections: 256,
            user: Vec::new(),
            backend: Vec::new(),
            command: Vec::new(),
            pool: Vec::new(),
            aof: None,
            guard: GuardSettings::default(),
        }
    }
}

/// `[redis.tls]`: TLS for clients over TCP, begun at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsSettings {
    /// A PEM file with the certificate, followed by those that lead to the root.
    pub certificate: PathBuf,
    /// A PEM file with its private key; it may be the same file.
    pub key: PathBuf,
}

impl TlsSettings {
    /// Certificate and key as a listener wants them.
    pub fn pair(&self) -> flow::tls::Settings {
        flow::tls::Settings { certificate: self.certificate.clone(), key: self.key.clone() }
    }
}

impl Settings {
    /// Whether clients are served: with `[redis.aof]` alone, none are.
    pub fn has_gateway(&self) -> bool {
        self.aof.is_none() || !self.backend.is_empty() || !self.pool.is_empty()
    }

    /// Whether the servers are nodes of a Redis Cluster.
    pub fn is_cluster(&self) -> bool {
        self.distribution == Distribution::Cluster
    }

    /// Whether servers check the passwords of clients.
    pub fn passes(&self) -> bool {
        self.auth == Auth::Pass
    }

    /// Whether clients have lanes as users of the servers: those that clients say they are, or
    /// those that the file has for them.
    pub fn servers_know_users(&self) -> bool {
        self.passes() || self.user.iter().any(UserSettings::has_backend_login)
    }

    /// Whether anybody reads from replicas.
    pub fn reads_replicas(&self) -> bool {
        let wants = |of: &UserSettings| of.read_from == Some(ReadFrom::Replicas);
        self.read_from == ReadFrom::Replicas || self.user.iter().any(wants)
    }

    /// The two characters of `hash-tag`.
    pub fn tag(&self) -> Option<[u8; 2]> {
        self.hash_tag.as_ref()?.as_bytes().try_into().ok()
    }
}
