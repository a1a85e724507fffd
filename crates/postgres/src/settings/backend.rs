//! The settings of one server, `[[postgres.backend]]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Duration;
use units::secret::Secret;

use super::read_address;

/// What a backend may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// What it says it is at the moment; a promotion is followed.
    #[default]
    Auto,
    /// The primary. While it says that it is a replica, it is taken for one.
    Primary,
    /// A replica. Should it ever say that it is a primary, nothing is sent there.
    Replica,
}

/// Whether a backend is talked to under TLS, and what must be right about its certificate. The
/// words are those of PostgreSQL's `sslmode`. A Unix socket has none in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Without TLS: everything is sent in the clear.
    Disable,
    /// TLS where the server takes it, and nothing is checked.
    #[default]
    Prefer,
    /// TLS, and nothing is checked: whoever is on the way may be the server.
    Require,
    /// TLS, and a trusted authority has signed the certificate.
    VerifyCa,
    /// The same, and the certificate is for the name in `url`.
    VerifyFull,
}

/// How TLS begins on a connection to a backend. The words are those of PostgreSQL's
/// `sslnegotiation`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsNegotiation {
    /// The server is asked for it in the clear first.
    #[default]
    Postgres,
    /// At once, which saves a round trip; PostgreSQL 17 and later.
    Direct,
}

/// Whom a read goes to among the replicas that can take it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// The one with the fewest statements in flight for its weight.
    #[default]
    InFlight,
    /// The same among those whose round trip is about the shortest.
    Nearest,
}

/// What to do while several backends say that they are the primary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TwoPrimaries {
    /// Nothing is written anywhere until one of them is gone.
    #[default]
    Refuse,
    /// The one on the highest timeline is the primary, since it was promoted last; the others get
    /// nothing. Where two are on the same, nothing is written.
    HigherTimeline,
}

/// `[[postgres.backend]]`: one server, a primary or a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BackendSettings {
    /// The backend's name: letters, digits, `.`, `_` and `-`, at most 64.
    pub name: String,
    /// Where it listens, as `postgresql://10.0.0.1:5432`, or the directory of its Unix socket, as
    /// `/var/run/postgresql` or `/var/run/postgresql:5433`. The port is 5432 where none is given.
    pub url: String,
    /// What it may be: `auto`, `primary` or `replica`.
    #[serde(default)]
    pub role: Role,
    /// How much of the reads it takes in proportion to the others; 0 is none as long as another
    /// can.
    #[serde(default = "weight")]
    pub weight: u32,
    /// The user Weir itself logs in as, to ask for the role and the position. It needs no rights
    /// but those of `pg_monitor`, which tell it after a failover whom a replica follows.
    #[serde(default = "postgres")]
    pub user: String,
    /// The password of `user`.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start and at each reload.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The database Weir itself connects to.
    #[serde(default = "postgres")]
    pub database: String,
    /// Whether TLS is used, for clients' connections as well: `disable`, `prefer`, `require`,
    /// `verify-ca` or `verify-full`.
    #[serde(default)]
    pub tls: TlsMode,
    /// How TLS begins: `postgres` or `direct`.
    #[serde(default)]
    pub tls_negotiation: TlsNegotiation,
    /// A PEM file of certificate authorities to trust instead of the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// A PEM file with a certificate to show to the server, for its method `cert`.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// A PEM file with the private key of `certificate`.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// How long a connection may take, login included.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Duration,
}

fn weight() -> u32 {
    1
}

fn postgres() -> String {
    "postgres".to_owned()
}

fn connect_timeout() -> Duration {
    Duration::from_secs(5)
}

impl BackendSettings {
    /// A backend with nothing but its name and address set.
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            role: Role::default(),
            weight: weight(),
            user: postgres(),
            password: Secret::default(),
            password_file: None,
            database: postgres(),
            tls: TlsMode::default(),
            tls_negotiation: TlsNegotiation::default(),
            ca: None,
            certificate: None,
            key: None,
            connect_timeout: connect_timeout(),
        }
    }

    /// The password, from its file where it is there.
    ///
    /// # Errors
    /// The file can not be read.
    pub fn read_password(&self) -> std::io::Result<String> {
        let Some(path) = &self.password_file else {
            return Ok(self.password.reveal().to_owned());
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            std::io::Error::new(error.kind(), format!("password-file {}: {error}", path.display()))
        })?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first thing found wrong, and what to write instead.
    pub fn validate(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(what.to_owned());
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(named) {
            return wrong("name must be 1 to 64 letters, digits, '.', '_' or '-'");
        }
        let address = read_address(&self.url).map_err(|error| format!("{error}"))?;
        if self.weight > 1000 {
            return wrong("weight must be at most 1000");
        }
        if self.user.is_empty() || self.database.is_empty() {
            return wrong("user and database must not be empty: Weir asks the server for its role");
        }
        if !self.password.is_empty() && self.password_file.is_some() {
            return wrong("password and password-file exclude each other");
        }
        if self.certificate.is_some() != self.key.is_some() {
            return wrong("certificate and key go together");
        }
        let named = address.host().is_some_and(|host| host.parse::<std::net::IpAddr>().is_err());
        let direct = self.tls_negotiation == TlsNegotiation::Direct;
        if direct && matches!(self.tls, TlsMode::Disable | TlsMode::Prefer) {
            return wrong("tls-negotiation = \"direct\" needs tls = \"require\" or stricter");
        }
        if self.ca.is_some() && !matches!(self.tls, TlsMode::VerifyCa | TlsMode::VerifyFull) {
            let full = if named { "verify-full" } else { "verify-ca" };
            return Err(format!("ca has no effect: write tls = \"{full}\""));
        }
        if self.connect_timeout.get().is_zero() {
            return wrong("connect-timeout must not be 0");
        }
        Ok(())
    }
}
