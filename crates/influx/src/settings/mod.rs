//! The `[influx]` table of the configuration: what the front end takes, from whom and how much.
//! Each field's comment is its entry in the reference.

mod backend;
mod backend_table;
mod cluster;
mod collisions;
mod fixed;
pub mod origin;
mod stamp;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use flow::progress::Timeouts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Size;
use wire::line::Precision;

pub use self::backend::{BackendKind, BackendSettings, DeliverySettings, ServerSettings, Start};
pub use self::backend_table::{BackendError, BackendTable};
pub use self::cluster::{
    ClusterSettings, PlacementSettings, RuleSettings, SetSettings, SplitSetting, SplitWord,
};
pub use self::collisions::CollisionSettings;
pub use self::fixed::FixedSettings;
pub use self::stamp::StampValue;
pub use units::secret::Secret;

/// With less memory for all answers there would be none at all.
const ANSWERS_BYTES_MIN: usize = 4 << 20;

/// `[influx]`: the InfluxDB gateway.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Where HTTP is taken: one address or a list of them.
    #[serde(deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<SocketAddr>")]
    pub listen: Vec<SocketAddr>,
    /// A certificate and its key: with it every HTTP listener speaks TLS only.
    pub tls: Option<flow::tls::Settings>,
    /// Where line protocol is taken over UDP.
    pub udp: Vec<UdpSettings>,
    /// Tags to add to each point, so that writers do not overwrite each other. `"peer"` stands for
    /// the client's address, `"peer-port"` for address and port (which makes new series with every
    /// connection), `"user"` for the user that writes, `"parameter:NAME"` for the parameter of that
    /// name in the URL of the write (none that InfluxDB has), anything else for itself. Where a
    /// write has no user or no such parameter, as over UDP, the tag is left out. A point that has
    /// the tag keeps its own. A change applies to new connections.
    pub stamp: BTreeMap<String, String>,
    /// Detection of points that overwrite each other.
    pub collisions: CollisionSettings,
    /// The retention policy of writes that name none; empty is the database's default policy.
    pub default_retention_policy: String,
    /// Create a database that a write names and that is not there. When off, such a write hears
    /// 404 as from InfluxDB. On where there is no configuration file at all.
    pub auto_create_database: bool,
    /// Accept the `u` suffix of unsigned integers, as an InfluxDB built with `uint64` does.
    pub unsigned_integers: bool,
    /// The version that `/ping` and `X-Influxdb-Version` report. Clients parse it to find out what
    /// the server can do.
    pub version: String,
    /// The largest body, on the wire. Above it 413.
    pub max_body_size: Size,
    /// The largest body after decompression. Above it 413.
    pub max_decompressed_size: Size,
    /// The most that all bodies of requests that are under way may take of memory, on the wire and
    /// after decompression together; above it 503. There is always enough for one of the largest.
    pub bodies_memory: Size,
    /// The most that answers to queries may take of memory until their clients have read them.
    /// Above it queries hear 503, and answers that have begun wait for their clients.
    pub answers_memory: Size,
    /// How many answers may wait for clients that have read nothing of them for 100 ms. The query
    /// of such an answer has neither a turn nor a thread, and at most 1 MiB of its answer is made
    /// ahead. Past this number, or once such answers have half of `answers-memory`, the connection
    /// of the client that has most of them is closed, at its oldest.
    pub unread_answers_max: usize,
    /// The largest request head. Above it 431.
    pub max_header_size: Size,
    /// Connections at once, all listeners together. One more hears 503 and is closed.
    pub max_connections: usize,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// Web pages that may write and query besides those of Weir's own origin: their origins as
    /// browsers send them, `"https://grafana.example.com"`, one or a list of them; `"*"` is every
    /// page there is. Those of other origins hear 403.
    #[serde(deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<String>")]
    pub cors: Vec<String>,
    /// The secret that JSON web tokens (`Authorization: Bearer`) are signed with; without it they
    /// are refused.
    pub token_secret: Secret,
    /// A file whose first line is the token secret; read at start and at each reload.
    pub token_secret_file: Option<PathBuf>,
    /// Who may write and query. Without any entry everybody may.
    pub user: Vec<UserSettings>,
    /// What every write is delivered to, each a complete copy: servers, and the store within Weir.
    /// Without any entry that store alone, as `name = "store"` and `embedded = true`.
    pub backend: Vec<BackendTable>,
    /// A cluster of the backends that are in a set. Backends in no set stay complete copies, which
    /// are not asked.
    pub cluster: Option<ClusterSettings>,
    /// The sets of a cluster, each of backends that are copies of each other.
    pub set: Vec<SetSettings>,
    /// Which sets of a cluster have which points.
    pub placement: Vec<PlacementSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8086))],
            tls: None,
            udp: Vec::new(),
            stamp: BTreeMap::new(),
            collisions: CollisionSettings::default(),
            default_retention_policy: String::new(),
            auto_create_database: false,
            unsigned_integers: false,
            version: "1.8.10".to_owned(),
            max_body_size: Size::from_bytes(25_000_000),
            max_decompressed_size: Size::from_bytes(100_000_000),
            bodies_memory: Size::from_mib(512),
            answers_memory: Size::from_mib(256),
            unread_answers_max: 256,
            max_header_size: Size::from_kib(64),
            max_connections: 16_384,
            timeouts: Timeouts::default(),
            cors: Vec::new(),
            token_secret: Secret::default(),
            token_secret_file: None,
            user: Vec::new(),
            backend: Vec::new(),
            cluster: None,
            set: Vec::new(),
            placement: Vec::new(),
        }
    }
}

/// `[[influx.udp]]`: line protocol over UDP, without any answer to the sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct UdpSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The database of all points; created where it is missing.
    pub database: String,
    /// The retention policy of all points; empty is the database's default.
    pub retention_policy: String,
    /// The unit of the timestamps: n, u, ms, s, m or h.
    pub precision: String,
    /// The socket's receive buffer; `0` leaves the system's default.
    pub receive_buffer: Size,
}

impl Default for UdpSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8089)),
            database: "udp".to_owned(),
            retention_policy: String::new(),
            precision: "n".to_owned(),
            receive_buffer: Size::from_mib(4),
        }
    }
}

/// `[[influx.user]]`: one who may write or query.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UserSettings {
    /// The name that the client sends.
    pub name: String,
    /// The password's argon2 hash, as `weir hash-password` prints it.
    #[serde(skip_serializing)]
    pub password: String,
    /// May run every statement, in every database.
    #[serde(default)]
    pub admin: bool,
    /// The databases this user may read; `"*"` is all of them.
    #[serde(default = "all")]
    pub read: Vec<String>,
    /// The databases this user may write to; `"*"` is all of them.
    #[serde(default = "all")]
    pub write: Vec<String>,
}

impl std::fmt::Debug for UserSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserSettings")
            .field("name", &self.name)
            .field("admin", &self.admin)
            .field("read", &self.read)
            .field("write", &self.write)
            .finish_non_exhaustive()
    }
}

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}

/// What is wrong with the front end's settings: where, and what to write instead.
#[derive(Debug, thiserror::Error)]
#[error("influx.{at}: {what}")]
pub struct SettingsError {
    /// The key that is wrong, without `influx.`.
    pub at: String,
    /// What is wrong and what to write instead.
    pub what: String,
}

impl Settings {
    /// The backends, each checked.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub(crate) fn backends(&self) -> Result<Vec<BackendSettings>, BackendError> {
        self.backend.iter().map(BackendTable::settings).collect()
    }

    /// How much all bodies may take: as much as one of the largest does, in any case.
    pub(crate) fn bodies_memory_max(&self) -> usize {
        let one = self.max_body_size.len().saturating_add(self.max_decompressed_size.len());
        self.bodies_memory.len().max(one)
    }

    /// How much all answers may take: as much as some do, in any case.
    pub(crate) fn answers_memory_max(&self) -> usize {
        self.answers_memory.len().max(ANSWERS_BYTES_MIN)
    }

    /// The secret of JSON web tokens, read from its file where one is named.
    pub(crate) fn token_secret(&self) -> Result<Option<String>, SettingsError> {
        let Some(path) = &self.token_secret_file else {
            let given = (!self.token_secret.is_empty()).then(|| self.token_secret.reveal());
            return Ok(given.map(str::to_owned));
        };
        let text = std::fs::read_to_string(path).map_err(|error| SettingsError {
            at: "token-secret-file".to_owned(),
            what: format!("{} cannot be read: {error}", path.display()),
        })?;
        Ok(text.lines().next().map(str::to_owned))
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let wrong = |at: &str, what: String| Err(SettingsError { at: at.to_owned(), what });
        if self.listen.is_empty() {
            return wrong("listen", "needs at least one address".to_owned());
        }
        let positive = [
            ("max-body-size", self.max_body_size.bytes()),
            ("max-decompressed-size", self.max_decompressed_size.bytes()),
            ("max-connections", self.max_connections as u64),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return wrong(key, "must not be 0".to_owned());
        }
        if self.max_header_size.bytes() < 8192 {
            return wrong("max-header-size", "must be at least 8KiB".to_owned());
        }
        if self.max_decompressed_size.bytes() > u64::from(u32::MAX) / 2 {
            return wrong("max-decompressed-size", "must be at most 2GiB".to_owned());
        }
        if let Some(text) = self.cors.iter().find(|text| !origin::is_origin(text)) {
            let what = "is not an origin; write \"https://grafana.example.com\", without a path";
            return wrong("cors", format!("{text:?} {what}"));
        }
        for (key, value) in &self.stamp {
            if let Err(error) = StampValue::of(value).check(key) {
                return wrong("stamp", format!("{key} = {value:?}: {error}"));
            }
        }
        if let Err(what) = self.collisions.check() {
            return wrong("collisions", what);
        }
        for udp in &self.udp {
            if udp.database.is_empty() {
                return wrong("udp", "database must not be empty".to_owned());
            }
            if Precision::parse_v1(&udp.precision).is_none() {
                let what = format!("precision {:?} is none of n, u, ms, s, m, h", udp.precision);
                return wrong("udp", what);
            }
        }
        self.validate_users()
    }

    fn validate_users(&self) -> Result<(), SettingsError> {
        let mut names = std::collections::HashSet::new();
        for user in &self.user {
            let at = format!("user {:?}", user.name);
            let what = if user.name.is_empty() {
                "name must not be empty"
            } else if !names.insert(&user.name) {
                "is there twice"
            } else if argon2::PasswordHash::new(&user.password).is_err() {
                "password must be a hash; `weir hash-password` makes one"
            } else {
                continue;
            };
            return Err(SettingsError { at, what: what.to_owned() });
        }
        Ok(())
    }
}
