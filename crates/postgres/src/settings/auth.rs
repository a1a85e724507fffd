//! Who has to prove what: `[[postgres.auth]]` and `[postgres.auth-query]`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Duration;
use units::secret::Secret;

use super::Cidr;

/// By which way a client comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// A Unix socket, or TCP with TLS or without.
    #[default]
    Any,
    /// A Unix socket, as `local` of `pg_hba.conf`.
    Local,
    /// TCP, with TLS or without.
    Host,
    /// TCP, only with TLS.
    Hostssl,
    /// TCP, only without TLS.
    Hostnossl,
}

/// What a client has to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// That it knows the password, by SCRAM; over TLS bound to the channel where the client can.
    /// Needs a SCRAM verifier or the password itself.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// The same, and the client must bind it to the TLS channel, so that nobody between can pass
    /// it on.
    #[serde(rename = "scram-sha-256-plus")]
    ScramSha256Plus,
    /// That it knows the password, by md5, or by SCRAM where the verifier is for that. PostgreSQL
    /// is giving md5 up, and so should you.
    Md5,
    /// The password itself, which whoever is on the way can read without TLS.
    Password,
    /// By its TLS certificate, whose common name is the user's, or one that `map` gives the user;
    /// needs `client-ca` in `[postgres.tls]`.
    Cert,
    /// By the system's user whose process has opened the Unix socket, as the kernel says: it has
    /// the user's name, or one that `map` gives the user. The name is that of `/etc/passwd`; a
    /// user who is not there goes by its number.
    Peer,
    /// Nothing: whoever fits the rule is believed. For loopback addresses and Unix sockets.
    Trust,
    /// It is refused whatever it proves.
    Reject,
}

/// Which certificate a client has to show beside what the method asks for, as `clientcert` in
/// `pg_hba.conf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificate {
    /// One that `client-ca` has signed.
    VerifyCa,
    /// One whose common name is the user's, or one that `map` gives the user.
    VerifyFull,
}

impl ClientCertificate {
    /// The name as it is written in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

impl Method {
    /// Whether the client has to know a password.
    pub const fn asks_for_password(self) -> bool {
        !matches!(self, Self::Cert | Self::Peer | Self::Trust | Self::Reject)
    }

    /// The name as it is written in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScramSha256 => "scram-sha-256",
            Self::ScramSha256Plus => "scram-sha-256-plus",
            Self::Md5 => "md5",
            Self::Password => "password",
            Self::Cert => "cert",
            Self::Peer => "peer",
            Self::Trust => "trust",
            Self::Reject => "reject",
        }
    }
}

/// `[[postgres.auth]]`: what clients of a kind have to prove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AuthRule {
    /// By which way the client comes: `any`, `local`, `host`, `hostssl` or `hostnossl`, as in
    /// `pg_hba.conf`.
    #[serde(default)]
    pub from: From,
    /// The databases it is about; `"all"` is every one, `"sameuser"` the one named as the user.
    #[serde(default = "all")]
    pub database: Vec<String>,
    /// The users it is about; `"all"` is every one.
    #[serde(default = "all")]
    pub user: Vec<String>,
    /// The networks it is about, as `"10.0.0.0/8"` or `"::1"`; none is every one. Clients by a Unix
    /// socket have no address and fit no network.
    #[serde(default)]
    pub address: Vec<Cidr>,
    /// What the client has to prove: `scram-sha-256`, `scram-sha-256-plus`, `md5`, `password`,
    /// `cert`, `peer`, `trust` or `reject`.
    pub method: Method,
    /// The certificate that it has to show besides: `verify-ca` or `verify-full`; needs `client-ca`
    /// in `[postgres.tls]`.
    #[serde(default)]
    pub client_certificate: Option<ClientCertificate>,
    /// With `cert`, `peer` or `client-certificate = "verify-full"`: which users a certificate's
    /// common name, or a user of the system, may log in as, as `{ deploy = ["app", "report"] }`;
    /// `"all"` is any. Without it the names have to be the same.
    #[serde(default)]
    pub map: BTreeMap<String, Vec<String>>,
    /// With `method = "trust"`: believe clients from beyond this machine too. Whoever reaches the
    /// port is then every user.
    #[serde(default)]
    pub trust_strangers: bool,
}

fn all() -> Vec<String> {
    vec!["all".to_owned()]
}

impl AuthRule {
    /// A rule about everyone.
    pub fn everyone(method: Method) -> Self {
        Self {
            from: From::Any,
            database: all(),
            user: all(),
            address: Vec::new(),
            method,
            client_certificate: None,
            map: BTreeMap::new(),
            trust_strangers: false,
        }
    }

    /// Whether who is called `name` elsewhere may be `user` here.
    pub fn may_be(&self, name: &str, user: &str) -> bool {
        if self.map.is_empty() {
            return name == user;
        }
        let users = self.map.get(name);
        users.is_some_and(|users| users.iter().any(|known| known == user || known == "all"))
    }

    /// Whether `map` has a say in it.
    pub fn is_by_name(&self) -> bool {
        matches!(self.method, Method::Cert | Method::Peer)
            || self.client_certificate == Some(ClientCertificate::VerifyFull)
    }

    /// Whether the rule is about a client that comes from `address` (`None`: by a Unix socket),
    /// with TLS or without, and wants to be `user` in `database`.
    pub fn fits(&self, address: Option<IpAddr>, tls: bool, database: &str, user: &str) -> bool {
        let named = |names: &[String], wanted: &str| {
            names.iter().any(|name| name == "all" || name == wanted)
        };
        let sameuser = || database == user && self.database.iter().any(|name| name == "sameuser");
        self.comes(address, tls)
            && named(&self.user, user)
            && (named(&self.database, database) || sameuser())
    }

    /// Whether it is about clients that come from `address` (`None`: by a Unix socket), with TLS
    /// or without, whoever they want to be.
    pub fn comes(&self, address: Option<IpAddr>, tls: bool) -> bool {
        let way = match (self.from, address) {
            (From::Any, _) | (From::Local, None) | (From::Host, Some(_)) => true,
            (From::Hostssl, Some(_)) => tls,
            (From::Hostnossl, Some(_)) => !tls,
            (From::Local, Some(_)) | (From::Host | From::Hostssl | From::Hostnossl, None) => false,
        };
        let network = || match address {
            _ if self.address.is_empty() => true,
            Some(address) => self.address.iter().any(|network| network.contains(address)),
            None => false,
        };
        way && network()
    }

    /// Whether only clients of this machine can fit the rule.
    pub fn is_of_this_machine(&self) -> bool {
        let loopback = !self.address.is_empty() && self.address.iter().all(Cidr::is_loopback);
        self.from == From::Local || loopback
    }
}

/// `[postgres.auth-query]`: asks a server for the verifiers of users that are not in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AuthQuery {
    /// The user Weir asks as.
    pub user: String,
    /// The password of `user`; without one the entry of `[[postgres.user]]` is tried.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start and at each reload.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The database it is asked in; empty is the client's own, or the one that Weir itself connects
    /// to where there is none of that name. Without one it is not asked for the console, of whose
    /// name somebody could have made a database.
    #[serde(default)]
    pub database: String,
    /// What is asked; `$1` is the user's name. The answer is one row of name and verifier, the
    /// verifier null for who may not log in. It runs with `search_path` at `pg_catalog` alone, so
    /// a function of your own is named with its schema.
    #[serde(default = "query")]
    pub query: String,
    /// How long an answer is good for; `0` asks at each login.
    #[serde(default = "remember")]
    pub remember: Duration,
}

/// Takes `VALID UNTIL` into account, and names every object and operator with its schema, so that
/// nothing depends on a search path.
fn query() -> String {
    "SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() THEN NULL \
     ELSE rolpassword END FROM pg_catalog.pg_authid \
     WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin"
        .to_owned()
}

fn remember() -> Duration {
    Duration::from_secs(10)
}

impl AuthQuery {
    /// The password of `user`, from its file where one is named.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn secret(&self) -> std::io::Result<Secret> {
        self.password.or_from(self.password_file.as_deref())
    }

    /// The usual question, asked as `user`.
    pub fn new(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            password: Secret::default(),
            password_file: None,
            database: String::new(),
            query: query(),
            remember: remember(),
        }
    }
}
