//! A server: how it is reached and logged in to, and how a connection that one client had is made
//! everybody's again.

mod asked;
mod credentials;
mod login;
mod restore;
mod sentinel;
pub mod shards;

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flow::dial::{Address, Socket, Target, Tls};
use flow::tls::{Check, ClientOptions};
use wire::resp::Version;

use crate::settings::{BackendSettings, is_of_this_machine, read_address};
pub use asked::{ControlConnection, said};
pub use credentials::{Credentials, Login};
pub use sentinel::Sentinels;
use shards::Shard;

/// A server, and how connections to it are opened. Clones are the same.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name in the configuration.
    pub name: Arc<str>,
    target: Target,
    /// Certificate authorities in place of the system's.
    ca: Option<PathBuf>,
    /// As whom Weir logs in; `None`: as nobody.
    login: Option<Credentials>,
    /// It logs in for a client, who hears the server's own words where it is refused.
    is_for_client: bool,
    /// It is told passwords of users beside Weir's own.
    knows_users: bool,
    /// It is used only where it says that it is a master.
    is_master: bool,
    /// It is a node of a Cluster.
    is_node: bool,
    /// Who knows where it is, where `target` does not say that.
    sentinels: Option<Sentinels>,
    /// Of which shard of a Cluster it is the master, where the nodes of that say where it is.
    shard: Option<Shard>,
}

/// What lanes are alike for: a server, a database of it, and the protocol's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionProfile {
    /// The number of the server.
    pub server: usize,
    pub database: u32,
    /// What the server answers in.
    pub version: Version,
    /// It is a replica, which is asked for nothing but reads.
    pub reads: bool,
    /// Its connections are for clients that are told of keys there: no lane goes to it.
    pub tracks: bool,
}

impl ConnectionProfile {
    /// Where a connection begins: in RESP2 and the first database.
    pub const FIRST: Self =
        Self { server: 0, database: 0, version: Version::Two, reads: false, tracks: false };
}

/// Why a server can not be asked, in words for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct ServerError {
    /// Why, in words for the client.
    pub words: Rc<str>,
    /// The server has said so itself: it is there.
    pub is_refusal: bool,
    /// Nobody takes connections there, which was told at once.
    pub takes_none: bool,
    /// Its own words, where it is a client's user that it refuses.
    pub said: Option<Rc<str>>,
}

impl ServerError {
    /// Of a server that has said nothing.
    pub fn silent(words: impl Into<Rc<str>>) -> Self {
        Self { words: words.into(), is_refusal: false, takes_none: false, said: None }
    }
}

impl Server {
    /// Makes ready to reach a server; reads the files that its settings name.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn new(settings: &BackendSettings) -> Result<Self, String> {
        let Some(sentinel) = &settings.sentinel else { return Self::at_url(settings) };
        let url = sentinel.urls.first().cloned().unwrap_or_default();
        let like = Self::at_url(&BackendSettings { url, ..settings.clone() })?;
        Ok(Self { sentinels: Some(Sentinels::new(settings, sentinel)?), ..like })
    }

    fn at_url(settings: &BackendSettings) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("backend {:?}: {error}", settings.name);
        let reached = read_address(&settings.url).map_err(|error| named(&error))?;
        let host = reached.address.host().filter(|_| reached.tls);
        let tls = host.map(|host| tls(settings.ca.as_deref(), host)).transpose();
        let password = settings.password.or_from(settings.password_file.as_deref());
        let password = password.map_err(|error| named(&error))?;
        Ok(Self {
            name: settings.name.as_str().into(),
            target: Target {
                address: reached.address,
                tls: tls.map_err(|error| named(&error))?,
                connect_timeout: settings.connect_timeout.get(),
            },
            ca: settings.ca.clone(),
            login: (!password.is_empty()).then(|| {
                let user = settings.user.as_deref().map(str::as_bytes);
                Credentials::new(user, password.reveal().as_bytes())
            }),
            is_for_client: false,
            knows_users: false,
            is_master: false,
            is_node: false,
            sentinels: None,
            shard: None,
        })
    }

    /// The same, which is told passwords of users beside Weir's own.
    #[must_use]
    pub fn knowing_users(self) -> Self {
        Self { knows_users: true, ..self }
    }

    /// The same, logged in to in this way.
    #[must_use]
    pub fn logged_in(&self, login: &Login) -> Self {
        let login = match login {
            Login::Own => return self.clone(),
            Login::Mapped(credentials) => {
                return Self { login: Some(credentials.clone()), ..self.clone() };
            }
            Login::Nobody => None,
            Login::As(credentials) => Some(credentials.clone()),
        };
        Self { login, is_for_client: true, ..self.clone() }
    }

    /// Those who know where it is, where its settings do not say that.
    pub fn sentinels(&self) -> Option<&Sentinels> {
        self.sentinels.as_ref()
    }

    /// Who says where it is, where its settings do not, as the subject of a sentence.
    pub fn told_by(&self) -> Option<&'static str> {
        match (&self.sentinels, &self.shard) {
            (Some(_), _) => Some("its Sentinels"),
            (None, Some(_)) => Some("the nodes of its Cluster"),
            (None, None) => None,
        }
    }

    /// The server where Sentinels say that it is now. It has to say itself that it is a master.
    ///
    /// # Errors
    /// None of them says where it is.
    pub async fn located(&self) -> Result<Self, String> {
        let Some(sentinels) = &self.sentinels else { return Ok(self.clone()) };
        let target = sentinels.target(&self.target).await?;
        Ok(Self { target, is_master: true, sentinels: None, ..self.clone() })
    }

    /// How it is reached now, as its settings, Sentinels or the nodes of its Cluster say.
    async fn target_now(&self) -> Result<Target, String> {
        match (&self.sentinels, &self.shard) {
            (None, None) => Ok(self.target.clone()),
            (Some(sentinels), _) => sentinels.target(&self.target).await,
            (None, Some(shard)) => shard.target(&self.target).await,
        }
    }

    /// Where it is now.
    ///
    /// # Errors
    /// It is for others to say, and none of them does.
    pub async fn address_now(&self) -> Result<Address, String> {
        self.target_now().await.map(|target| target.address)
    }

    /// The same, as a node of a Cluster.
    #[must_use]
    pub fn into_node(self) -> Self {
        Self { is_node: true, ..self }
    }

    /// Whether Weir logs in to it as to the other one, and tells it as much.
    pub fn is_entered_as(&self, other: &Self) -> bool {
        self.login == other.login && self.knows_users == other.knows_users
    }

    /// Whether it is where the other one is.
    pub fn is_where(&self, other: &Self) -> bool {
        self.sentinels.is_none()
            && other.sentinels.is_none()
            && self.target.address == other.target.address
    }

    /// Ends once it is elsewhere than it was connected to last; never where nobody would know.
    pub async fn moved(&self) {
        let limit = self.target.connect_timeout;
        match (&self.sentinels, &self.shard) {
            (Some(sentinels), _) => sentinels.moved(limit).await,
            (None, Some(shard)) => shard.moved(limit).await,
            (None, None) => std::future::pending().await,
        }
    }

    /// Where it was when it was connected to last, of one that others know.
    pub fn last_at(&self) -> Option<(String, u16)> {
        let of_shard = || self.shard.as_ref()?.last();
        match self.sentinels.as_ref().map_or_else(of_shard, Sentinels::last_at)? {
            Address::Tcp { host, port } => Some((host, port)),
            Address::Unix(_) => None,
        }
    }

    /// Whether another host than this one's would read a password on its way there.
    pub fn tells_password(&self, host: &str) -> bool {
        let goes_out = !is_of_this_machine(host) && self.target.tls.is_none();
        (self.login.is_some() || self.knows_users) && goes_out
    }

    /// A server elsewhere that is logged in to as to this one, under TLS if this one is.
    ///
    /// # Errors
    /// The host is none that a certificate could have, or the file of authorities can't be read.
    pub fn at(&self, host: &str, port: u16) -> Result<Self, String> {
        let tls = self.target.tls.as_ref().map(|_| tls(self.ca.as_deref(), host)).transpose();
        let address = Address::Tcp { host: host.to_owned(), port };
        Ok(Self {
            name: address.to_string().into(),
            target: Target {
                address,
                tls: tls.map_err(|error| error.to_string())?,
                connect_timeout: self.target.connect_timeout,
            },
            is_master: false,
            sentinels: None,
            shard: None,
            ..self.clone()
        })
    }

    /// The host it is on; `None` of a Unix socket.
    pub fn host(&self) -> Option<&str> {
        self.target.address.host()
    }

    /// Whether it listens there.
    pub fn is_at(&self, host: &str, port: u16) -> bool {
        matches!(&self.target.address, Address::Tcp { host: own, port: at }
            if *at == port && own == host)
    }

    /// What its settings know it by, wherever it is now.
    pub fn known_as(&self) -> String {
        match self.sentinels.as_ref().and_then(Sentinels::question) {
            Some(of) => format!("{} by {}", of.master, of.url),
            None => self.url(),
        }
    }

    /// Where it listens, as it is written in the configuration.
    pub fn url(&self) -> String {
        if let Some(sentinels) = &self.sentinels {
            return sentinels.whereabouts().to_owned();
        }
        let scheme = if self.target.tls.is_some() { "rediss" } else { "redis" };
        match &self.target.address {
            Address::Unix(path) => path.display().to_string(),
            address @ Address::Tcp { .. } => format!("{scheme}://{address}"),
        }
    }
}

fn tls(ca: Option<&Path>, host: &str) -> Result<Tls, flow::tls::TlsError> {
    let options = ClientOptions { ca, check: Check::Name, identity: None, protocols: &[] };
    Tls::new(&options, host)
}

/// A connection to a server, logged in.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    /// The number of the place that it was opened for.
    pub number: usize,
    /// Which of the servers that have had this server's number it leads to.
    pub incarnation: u64,
    /// What the server knows it by.
    pub identity: Arc<Identity>,
}

/// What a server knows a connection by, as far as it tells that.
#[derive(Debug, Default)]
pub struct Identity {
    /// The connection's number at the server (`CLIENT ID`), if it tells that.
    pub id: Option<i64>,
    /// The server is told to let go whoever waits there, which may come late: nobody else is to
    /// have the connection.
    pub is_spent: AtomicBool,
}
