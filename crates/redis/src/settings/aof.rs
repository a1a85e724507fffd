//! `[redis.aof]`: the append-only files that Weir keeps for servers.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use flow::tls::Settings as Tls;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::secret::Secret;
use units::window::Window;
use units::{Duration, Size};

use super::validate::{Checked, wrong};
use super::{BackendSettings, SentinelSettings, read_address};

/// What goes from a master to Weir.
const DATA: &str = "every key and value";

/// `[redis.aof]`: append-only files that Weir keeps for servers, so that these need write none.
/// Needs a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AofSettings {
    /// Where the files are: each master has a directory of its name below it, which a server can
    /// be started with as its `dir`.
    pub dir: PathBuf,
    /// Bytes of a master's stream that wait for the disk. Beyond it Weir stops reading, and the
    /// master's output buffer grows to its `client-output-buffer-limit replica`.
    pub buffer: Size,
    /// The largest data set that is taken as a base, as an RDB file.
    pub base_max: Size,
    /// An increment of at least so many bytes is closed, and another begun, between two
    /// transactions.
    pub increment_size: Size,
    /// How many generations are kept beside the current one: each a base with what came after it.
    /// One that is pinned is kept in any case. Where the disk is full, the oldest goes before its
    /// time, and the current one never.
    pub keep: usize,
    /// For how long such a generation is kept at most; `"0"` is for ever.
    pub keep_for: Duration,
    /// How many bytes such generations have at most; `"0"` is any number.
    pub keep_bytes: Size,
    /// How many generations are pinned at most. At the limit a further one is kept as any other:
    /// those that were pinned first are the ones with what a master had before its trouble. One
    /// that has what was confirmed and the master lacks is pinned beyond it, once for each `weir
    /// redis accept`. So a master's directory has up to `keep` + `keep-pinned` + 2 bases with their
    /// increments.
    pub keep_pinned: usize,
    /// How many bytes a second are read of a master's files, to see whether they are still what was
    /// written: all that Weir finds when it starts, once, and then as `scrub-every` says. `"0"` is
    /// any number.
    pub scrub_rate: Size,
    /// After how long a file is read again.
    pub scrub_every: Duration,
    /// When new bases are taken beside the stream.
    pub rewrite: RewriteSettings,
    /// Who may do what where a master has a `listen`.
    pub port: PortSettings,
    /// A master whose full resync brings fewer of 100 keys than this, as one that comes back empty,
    /// is not told that anything is durable until they are back, or `weir redis accept`; the
    /// generation before is pinned. 0 believes it. It needs `+info`.
    pub accept_keys: u8,
    /// How long a master may be silent until the link is closed; it says something every
    /// `repl-ping-replica-period`.
    pub timeout: Duration,
    /// How often a master is asked for its rate and its limits, which needs
    /// `+info +config|get`.
    pub ask_every: Duration,
    /// For how long a master should keep what Weir does not take, as while its disk stands still
    /// or it is restarted, at the highest rate seen. `weir status` says what to set at the master
    /// where it does not; `tune` sets it.
    pub outage: Duration,
    /// The most that `tune` sets, and that is advised.
    pub tune_max: Size,
    /// The servers whose stream is followed.
    pub master: Vec<MasterSettings>,
}

impl Default for AofSettings {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("aof"),
            buffer: Size::from_mib(32),
            base_max: Size::from_mib(1 << 20),
            increment_size: Size::from_mib(256),
            keep: 1,
            keep_for: Duration::default(),
            keep_bytes: Size::default(),
            keep_pinned: 8,
            scrub_rate: Size::from_mib(32),
            scrub_every: Duration::from_secs(7 * 24 * 3600),
            rewrite: RewriteSettings::default(),
            port: PortSettings::default(),
            accept_keys: 90,
            timeout: Duration::from_secs(60),
            ask_every: Duration::from_secs(10),
            outage: Duration::from_secs(60),
            tune_max: Size::from_mib(512),
            master: Vec::new(),
        }
    }
}

/// `[redis.aof.rewrite]`: when a new base is taken beside the stream, besides `weir redis rewrite`.
/// Of the servers of one host, one sends a base at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RewriteSettings {
    /// When the increments have so many percent of their base's bytes, as Redis's
    /// `auto-aof-rewrite-percentage`; 0 is never.
    pub percentage: u32,
    /// And no fewer bytes than this, as its `auto-aof-rewrite-min-size`.
    pub min_size: Size,
    /// Once in each span of the day like this, in UTC, where more than 1 MiB was written since the
    /// last: `"02:00-05:00"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Default for RewriteSettings {
    fn default() -> Self {
        Self { percentage: 100, min_size: Size::from_mib(4 << 10), window: None }
    }
}

/// `[redis.aof.port]`: who may do what at the ports that masters' `listen` opens. `INFO`, `ROLE`
/// and `PING` are answered; with `REPLICAOF` to it, a server is filled with what the files have,
/// which needs the password or a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PortSettings {
    /// The password of its only user, `default`. Without one, and without `client-ca`, no server
    /// is filled.
    pub password: Secret,
    /// A file whose first line is the password; read at start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// The certificate that clients are shown; with it only TLS is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// A PEM file of the authorities whose client certificates stand for the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// How many connections each port has; one more is closed at once.
    pub connections: usize,
    /// How many servers are filled at once from each port.
    pub fills: usize,
}

impl Default for PortSettings {
    fn default() -> Self {
        Self {
            password: Secret::default(),
            password_file: None,
            tls: None,
            client_ca: None,
            connections: 64,
            fills: 2,
        }
    }
}

impl PortSettings {
    /// Whether a password has a server filled.
    fn has_password(&self) -> bool {
        !self.password.is_empty() || self.password_file.is_some()
    }

    /// Whether servers can be filled: it says who may.
    pub fn fills(&self) -> bool {
        self.has_password() || self.client_ca.is_some()
    }

    fn validate(&self, masters: &[MasterSettings], allow_cleartext: bool) -> Checked {
        if self.client_ca.is_some() && self.tls.is_none() {
            return wrong("aof.port.client-ca", "is for TLS: add [redis.aof.port.tls]");
        }
        let is_open = |of: &MasterSettings| of.listen.is_some_and(|at| !at.ip().is_loopback());
        if self.has_password()
            && self.tls.is_none()
            && !allow_cleartext
            && masters.iter().any(is_open)
        {
            let what = "a password, and every key and value behind it, would travel in the clear: \
                        add [redis.aof.port.tls], or allow-cleartext";
            return wrong("aof.port", what);
        }
        Ok(())
    }
}

/// `[[redis.aof.master]]`: a server whose stream is followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MasterSettings {
    /// Its name, and its directory's: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Where it listens: `redis://10.0.0.1:6379`, `rediss://` for TLS, or a Unix socket's path.
    #[serde(default)]
    pub url: String,
    /// Who knows where it is, in place of `url`.
    #[serde(default)]
    pub sentinel: Option<SentinelSettings>,
    /// Nodes of a Redis Cluster, as `url`, in place of it: every master of it is followed, as the
    /// nodes say who that is, in a directory of its own each, `name` with the first letters of a
    /// node's id behind it. All nodes get the same user and password.
    #[serde(default, deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<String>")]
    pub cluster: Vec<String>,
    /// The user that Weir logs in as; without one, the password alone is sent. It needs
    /// `+psync +replconf +role`, and `+info +config|get` for what `weir status` says of it; of a
    /// Cluster also `+cluster|slots +cluster|info`.
    #[serde(default)]
    pub user: Option<String>,
    /// The password that Weir logs in with.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// A PEM file of certificate authorities to trust instead of the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Where Weir listens as a replica of it, as `0.0.0.0:7001`: the port is announced to the
    /// master, so that its `INFO` has it, and Sentinel finds that it is neither to be listed nor
    /// promoted. See `[redis.aof.port]`.
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// Replicas of it, as `url`, from the first of which that can a new base is taken, so that it
    /// is the replica that forks; where none can, the master does. They get the same user and
    /// password, so none is found out from what the master says.
    #[serde(default)]
    pub replicas: Vec<String>,
    /// How long a connection may take, login included.
    #[serde(default = "super::backend::connect_timeout")]
    pub connect_timeout: Duration,
    /// The machine it runs on, by any name: servers of one machine save and rewrite in turns where
    /// the guard acts. By default the address that `url`, Sentinels or its Cluster have for it.
    #[serde(default)]
    pub host: Option<String>,
    /// Raises its `repl-backlog-size` and its `client-output-buffer-limit` of replicas, so that
    /// they last for `outage`; they are never lowered. It needs `+config|set`, and holds until the
    /// server restarts.
    #[serde(default)]
    pub tune: bool,
}

impl MasterSettings {
    /// Where it is, for a person.
    pub fn whereabouts(&self) -> String {
        match self.cluster.is_empty() {
            true => self.backend().whereabouts(),
            false => format!("the masters of the Cluster of {}", self.cluster.join(", ")),
        }
    }

    /// How it is reached, as a backend is.
    pub fn backend(&self) -> BackendSettings {
        let sentinel = self.sentinel.clone();
        BackendSettings { sentinel, ..self.server(&self.name, &self.url) }
    }

    /// How the nodes of its Cluster are that are asked first.
    pub fn nodes(&self) -> Vec<BackendSettings> {
        self.cluster.iter().map(|url| self.server(url, url)).collect()
    }

    /// The same of one shard of its Cluster, reached as the first node is.
    pub fn of_shard(&self, name: &str) -> Self {
        let url = self.cluster.first().cloned().unwrap_or_default();
        Self { name: name.to_owned(), url, cluster: Vec::new(), ..self.clone() }
    }

    /// The same where it is now.
    pub fn moved_to(&self, (host, port): &(String, u16)) -> Self {
        let scheme = if self.url.starts_with("rediss://") { "rediss" } else { "redis" };
        let url = match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}"),
            false => format!("{scheme}://{host}:{port}"),
        };
        Self { url, ..self.clone() }
    }

    /// How its replicas are, which are on other hosts than it.
    pub fn replicas(&self) -> Vec<BackendSettings> {
        let replica = |url: &String| BackendSettings { host: None, ..self.server(url, url) };
        self.replicas.iter().map(replica).collect()
    }

    fn server(&self, name: &str, url: &str) -> BackendSettings {
        BackendSettings {
            name: name.to_owned(),
            url: url.to_owned(),
            sentinel: None,
            weight: 1,
            user: self.user.clone(),
            password: self.password.clone(),
            password_file: self.password_file.clone(),
            ca: self.ca.clone(),
            connect_timeout: self.connect_timeout,
            host: self.host.clone(),
        }
    }
}

impl AofSettings {
    pub(super) fn validate(&self, allow_cleartext: bool) -> Checked {
        if self.master.is_empty() {
            return wrong(
                "aof.master",
                "there is none; add [[redis.aof.master]] with name and url",
            );
        }
        if self.buffer.bytes() < 1 << 20 || self.increment_size.bytes() < 1 << 20 {
            return wrong("aof.buffer", "and increment-size must be at least 1MiB");
        }
        if self.ask_every.get().is_zero() {
            return wrong("aof.ask-every", "must not be 0; write \"10s\"");
        }
        if self.scrub_every.get().is_zero() {
            return wrong("aof.scrub-every", "must not be 0; write \"7d\"");
        }
        if self.accept_keys > 100 {
            return wrong(
                "aof.accept-keys",
                "is of 100 keys; write 90, or 0 to believe any master",
            );
        }
        if self.timeout.get().is_zero() {
            return wrong("aof.timeout", "must not be 0; write \"60s\"");
        }
        self.port.validate(&self.master, allow_cleartext)?;
        let mut names = HashSet::new();
        for master in &self.master {
            let at = format!("aof.master {:?}", master.name);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let is_name = !master.name.is_empty() && !master.name.starts_with('.');
            if !is_name || !master.name.chars().all(is_plain) || !names.insert(&master.name) {
                return wrong(at, "needs a name of letters, digits, - _ . that no other has");
            }
            master.validate(&at, allow_cleartext)?;
        }
        Ok(())
    }
}

impl MasterSettings {
    fn validate(&self, at: &str, allow_cleartext: bool) -> Checked {
        if !self.cluster.is_empty() {
            return self.validate_cluster(at, allow_cleartext);
        }
        for server in self.replicas().iter().chain([&self.backend()]) {
            server.validate(at, DATA, allow_cleartext)?;
        }
        Ok(())
    }

    fn validate_cluster(&self, at: &str, allow_cleartext: bool) -> Checked {
        if !self.url.is_empty() || self.sentinel.is_some() {
            return wrong(at, "needs one of url, sentinel and cluster");
        }
        if self.listen.is_some() {
            return wrong(at, "listen is of one master, and a Cluster has several: leave it out");
        }
        if !self.replicas.is_empty() {
            return wrong(
                at,
                "replicas are of one master, and a Cluster has several: leave it out",
            );
        }
        let is_tls = |url: &String| url.starts_with("rediss://");
        if self.cluster.iter().any(is_tls) && !self.cluster.iter().all(is_tls) {
            return wrong(at, "all of cluster must be rediss://, or none");
        }
        for node in self.nodes() {
            node.validate(at, DATA, allow_cleartext)?;
            if read_address(&node.url).is_ok_and(|reached| reached.address.host().is_none()) {
                return wrong(at, "a node of a Cluster is reached by TCP; write redis://host:port");
            }
        }
        Ok(())
    }
}
