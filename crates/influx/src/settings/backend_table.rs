//! The `[[influx.backend]]` tables of the configuration, each a server or the embedded store. Each
//! field's comment is its entry in the reference.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::secret::Secret;
use units::{Duration, Size};

use super::backend::{BackendKind, BackendSettings, DeliverySettings, ServerSettings, Start};

/// `[[influx.backend]]`: one server that receives every write, or the store within Weir.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BackendTable {
    /// The backend's name: letters, digits, `.`, `_` and `-`, at most 64. The journal's cursor and
    /// the dead letters are kept under it; see `weir journal forget` before renaming one.
    pub name: String,
    /// Where the backend listens, as `http://10.0.0.1:8086`, without credentials. A path is put
    /// before `/write` and `/query`. Needed unless `embedded` is set.
    #[serde(default)]
    pub url: String,
    /// The backend is the time-series store within this process, see `[store]`: it has no `url`
    /// and none of the keys that are about a connection. One backend at most can be embedded.
    #[serde(default)]
    pub embedded: bool,
    /// The protocol: `influxdb` (1.x), `influxdb2` (2.x and 3) or `victoria-metrics`.
    #[serde(default)]
    pub kind: BackendKind,
    /// The user Weir authenticates as (Basic). Clients' credentials are never passed on.
    #[serde(default)]
    pub user: String,
    /// The password of `user`.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start and at each reload.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The organization, for `influxdb2`.
    #[serde(default)]
    pub org: String,
    /// The API token, for `influxdb2`.
    #[serde(default)]
    pub token: Secret,
    /// A file whose first line is the token; read at start and at each reload.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// A PEM file of certificate authorities to trust instead of the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Accept any certificate of this backend. Anyone on the path can then read and alter the
    /// data.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// How long a batch may take from the first byte sent to the last byte of the answer. A batch
    /// that times out twice is sent again in halves.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// How long a statement (`DROP DATABASE`, `DELETE`, ...) may take.
    #[serde(default = "default_statement_timeout")]
    pub statement_timeout: Duration,
    /// A batch is sent at this many points at the latest.
    #[serde(default = "default_batch_points")]
    pub batch_points: u32,
    /// A batch is sent at this many bytes at the latest. A single longer line is sent alone.
    #[serde(default = "default_batch_bytes")]
    pub batch_bytes: Size,
    /// How long the first point of a batch waits for company while no other batch is under way.
    #[serde(default = "default_linger")]
    pub linger: Duration,
    /// Compress batches. Costs about 10 ns a byte of CPU time in Weir; worth it over a slow
    /// network.
    #[serde(default)]
    pub gzip: bool,
    /// Points a second at most while the backend catches up (its backlog is older than 2 s), so
    /// that the backlog does not knock over a server that has just come back. 0 is without limit.
    #[serde(default)]
    pub catch_up_rate: u64,
    /// Create a database or retention policy that is missing here. When off, the backend stops
    /// with a message and keeps its backlog until someone has created it.
    #[serde(default = "default_create_missing")]
    pub create_missing: bool,
    /// Where a backend begins that the journal has not seen before: `end` or `oldest`.
    #[serde(default)]
    pub start: Start,
    /// How large the file of this backend's dead letters may become. When it is full, the backend
    /// stops with a message and keeps its backlog; see `weir dead-letters`.
    #[serde(default = "default_dead_letters_max")]
    pub dead_letters_max: Size,
}

fn default_timeout() -> Duration {
    Duration::from_secs(10)
}

fn default_statement_timeout() -> Duration {
    Duration::from_secs(120)
}

fn default_batch_points() -> u32 {
    10_000
}

fn default_batch_bytes() -> Size {
    Size::from_mib(4)
}

fn default_linger() -> Duration {
    Duration::from_millis(10)
}

fn default_create_missing() -> bool {
    true
}

fn default_dead_letters_max() -> Size {
    Size::from_mib(256)
}

/// What is wrong with a backend's settings.
#[derive(Debug, thiserror::Error)]
#[error("influx.backend {name:?}: {what}")]
pub struct BackendError {
    /// The backend's name as written.
    pub name: String,
    /// What is wrong and what to write instead.
    pub what: String,
}

impl BackendTable {
    /// A backend with nothing but its name and address set.
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            embedded: false,
            kind: BackendKind::default(),
            user: String::new(),
            password: Secret::default(),
            password_file: None,
            org: String::new(),
            token: Secret::default(),
            token_file: None,
            ca: None,
            insecure_skip_verify: false,
            timeout: default_timeout(),
            statement_timeout: default_statement_timeout(),
            batch_points: default_batch_points(),
            batch_bytes: default_batch_bytes(),
            linger: default_linger(),
            gzip: false,
            catch_up_rate: 0,
            create_missing: default_create_missing(),
            start: Start::default(),
            dead_letters_max: default_dead_letters_max(),
        }
    }

    /// The store within this process.
    pub fn embedded(name: &str) -> Self {
        Self { embedded: true, ..Self::new(name, "") }
    }

    /// What the table says, once it has been checked.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn settings(&self) -> Result<BackendSettings, BackendError> {
        self.validate()?;
        // By name, so that no key is forgotten.
        let Self {
            name,
            url,
            embedded,
            kind,
            user,
            password,
            password_file,
            org,
            token,
            token_file,
            ca,
            insecure_skip_verify,
            timeout,
            statement_timeout,
            batch_points,
            batch_bytes,
            linger,
            gzip,
            catch_up_rate,
            create_missing,
            start,
            dead_letters_max,
        } = self.clone();
        let delivery = DeliverySettings { name, start, dead_letters_max };
        if embedded {
            return Ok(BackendSettings::Embedded(delivery));
        }
        Ok(BackendSettings::Server(Box::new(ServerSettings {
            delivery,
            url,
            kind,
            user,
            password,
            password_file,
            org,
            token,
            token_file,
            ca,
            insecure_skip_verify,
            timeout: timeout.get(),
            statement_timeout: statement_timeout.get(),
            batch_points,
            batch_bytes: batch_bytes.len(),
            linger: linger.get(),
            gzip,
            catch_up_rate,
            create_missing,
        })))
    }

    /// Checks what the types cannot: the name, the address and that limits are not zero.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn validate(&self) -> Result<(), BackendError> {
        let wrong =
            |what: &str| Err(BackendError { name: self.name.clone(), what: what.to_owned() });
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(named) {
            return wrong("name must be 1 to 64 letters, digits, '.', '_' or '-'");
        }
        if self.name.starts_with('.') {
            return wrong("name must not begin with '.'");
        }
        if self.embedded {
            return self.validate_embedded();
        }
        if self.url.is_empty() {
            return wrong("url is missing; write url = \"http://host:8086\" or embedded = true");
        }
        let Ok(uri) = self.url.parse::<http::Uri>() else {
            return wrong("url cannot be read; write http://host:8086");
        };
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return wrong("url must be http://host:port or https://host:port");
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return wrong("url must not hold credentials; use user and password-file");
        }
        if uri.query().is_some() {
            return wrong("url must not have a query; a database is named by each write");
        }
        if self.batch_points == 0 || self.batch_bytes.is_empty() {
            return wrong("batch-points and batch-bytes must be at least 1");
        }
        if self.batch_bytes.bytes() > u64::from(u32::MAX) / 4 {
            return wrong("batch-bytes must be at most 1GiB");
        }
        if self.timeout.get().is_zero() || self.statement_timeout.get().is_zero() {
            return wrong("timeout and statement-timeout must not be 0");
        }
        if self.kind == BackendKind::Influxdb2 && self.token.is_empty() && self.token_file.is_none()
        {
            return wrong("kind = \"influxdb2\" needs token or token-file");
        }
        if !self.password.is_empty() && self.password_file.is_some() {
            return wrong("password and password-file exclude each other");
        }
        Ok(())
    }

    /// Nothing that is about a connection may be said of the embedded store.
    fn validate_embedded(&self) -> Result<(), BackendError> {
        let plain = Self {
            start: self.start,
            dead_letters_max: self.dead_letters_max,
            ..Self::embedded(&self.name)
        };
        if *self == plain {
            return Ok(());
        }
        let what = "embedded = true goes with name, start and dead-letters-max only: the store is \
                    within Weir, so there is no url, kind, user or batch";
        Err(BackendError { name: self.name.clone(), what: what.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::{BackendKind, BackendSettings, BackendTable, Secret};

    #[test]
    fn a_name_and_a_url_are_enough() {
        let read: BackendTable =
            serde_json::from_str(r#"{"name":"a","url":"http://127.0.0.1:8086"}"#).unwrap();
        read.validate().unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", BackendTable::new("a", &read.url)));
        assert_eq!(read.batch_points, 10_000);
    }

    #[test]
    fn what_cannot_work_is_refused_at_start() {
        let good = BackendTable::new("a", "http://h:1");
        for name in ["", "a/b", "..", "ä"] {
            assert!(BackendTable { name: name.into(), ..good.clone() }.validate().is_err());
        }
        for url in ["h:1", "ftp://h", "http://u:p@h", "http://h/?db=x", "/write", "http://"] {
            let refused = BackendTable { url: url.into(), ..good.clone() }.validate();
            assert!(refused.is_err(), "{url}");
        }
        let embedded = BackendTable::embedded("a");
        embedded.validate().unwrap();
        assert!(BackendTable { url: "http://h".into(), ..embedded.clone() }.validate().is_err());
        assert!(BackendTable { gzip: true, ..embedded }.validate().is_err());
        assert!(BackendTable::new("a", "").validate().is_err());
        assert!(BackendTable { batch_points: 0, ..good.clone() }.validate().is_err());
        assert!(BackendTable { kind: BackendKind::Influxdb2, ..good }.validate().is_err());
    }

    #[test]
    fn a_table_is_of_a_server_or_of_the_embedded_store() {
        let settings = BackendTable::new("a", "http://h:1").settings().unwrap();
        let BackendSettings::Server(server) = settings else { panic!("{settings:?}") };
        assert_eq!((&*server.delivery.name, &*server.url), ("a", "http://h:1"));
        let settings = BackendTable::embedded("b").settings().unwrap();
        assert!(matches!(&settings, BackendSettings::Embedded(delivery) if delivery.name == "b"));
        let table = BackendTable { url: "http://h:1".to_owned(), ..BackendTable::embedded("c") };
        let refused = table.settings().unwrap_err().to_string();
        assert!(refused.starts_with("influx.backend \"c\": embedded = true goes with name"));
    }

    #[test]
    fn secrets_are_never_printed() {
        let secret =
            BackendTable { password: Secret::new("hunter2"), ..BackendTable::new("a", "http://h") };
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert!(!serde_json::to_string(&secret).unwrap().contains("hunter2"));
    }
}
