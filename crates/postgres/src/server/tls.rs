//! How a server is reached: its address, and whether and how TLS is used.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use flow::tls::{Check, ClientOptions, TlsError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::{Address, AddressError};
use crate::settings::{BackendSettings, TlsMode, TlsNegotiation};

/// The protocol's name in ALPN ("Message Flow", SSL Session Encryption); direct TLS needs it.
pub const ALPN: &str = "postgresql";

/// Where a server is and how it is connected to. Connections of all kinds are opened with it.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where.
    pub address: Address,
    /// Whether and how TLS is used; `None` is in the clear.
    pub tls: Option<Tls>,
    /// How long a connection may take, login included.
    pub connect_timeout: Duration,
}

/// TLS with a server.
#[derive(Clone)]
pub struct Tls {
    /// Clones share it, so that certificates are read anew for all.
    config: Arc<ArcSwap<ClientConfig>>,
    pub(super) name: ServerName<'static>,
    /// Without asking first.
    pub(super) direct: bool,
    /// Not in the clear, should the server have none.
    pub(super) required: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, direct, required, config: _ } = self;
        f.debug_struct("Tls")
            .field("name", name)
            .field("direct", direct)
            .field("required", required)
            .finish_non_exhaustive()
    }
}

/// A backend's settings can't be used.
#[derive(Debug, thiserror::Error)]
#[error("postgres.backend {name:?}: {what}")]
pub struct ServerSettingsError {
    name: String,
    /// Boxed, since it is many times the size of what is there when all is well.
    what: Box<What>,
}

#[derive(Debug, thiserror::Error)]
enum What {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0:?} is no name that a certificate could be for; write tls = \"verify-ca\"")]
    Name(String),
}

impl ServerSettingsError {
    fn new(settings: &BackendSettings, what: What) -> Self {
        Self { name: settings.name.clone(), what: Box::new(what) }
    }
}

impl Server {
    /// A server in the clear.
    pub fn plain(address: Address, connect_timeout: Duration) -> Self {
        Self { address, tls: None, connect_timeout }
    }

    /// As a backend's settings say; reads the files of certificates.
    ///
    /// # Errors
    /// The address is none, or a file can not be read.
    pub fn new(settings: &BackendSettings) -> Result<Self, ServerSettingsError> {
        Self::read(settings).map_err(|what| ServerSettingsError::new(settings, what))
    }

    /// Reads the files of certificates anew, for [`renew`](Self::renew).
    ///
    /// # Errors
    /// A file can not be read.
    pub fn renewed(
        &self,
        settings: &BackendSettings,
    ) -> Result<Option<ClientConfig>, ServerSettingsError> {
        let config = self.tls.as_ref().map(|_| Tls::config_of(settings));
        config.transpose().map_err(|what| ServerSettingsError::new(settings, what))
    }

    /// Makes connections from now on with other files.
    pub fn renew(&self, renewed: Option<ClientConfig>) {
        if let Some((tls, renewed)) = self.tls.as_ref().zip(renewed) {
            tls.config.store(Arc::new(renewed));
        }
    }

    fn read(settings: &BackendSettings) -> Result<Self, What> {
        let address: Address = settings.url.parse()?;
        let tls = match (settings.tls, address.host()) {
            (TlsMode::Disable, _) | (_, None) => None,
            (_, Some(host)) => Some(Tls::read(settings, host)?),
        };
        Ok(Self { address, tls, connect_timeout: settings.connect_timeout.get() })
    }
}

impl Tls {
    /// As connections are made with now.
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.config.load_full()
    }

    fn config_of(settings: &BackendSettings) -> Result<ClientConfig, What> {
        let pair = match (&settings.certificate, &settings.key) {
            (Some(certificate), Some(key)) => {
                Some(flow::tls::Settings { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        let options = ClientOptions {
            ca: settings.ca.as_deref(),
            check: match settings.tls {
                TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => Check::Nothing,
                TlsMode::VerifyCa => Check::Authority,
                TlsMode::VerifyFull => Check::Name,
            },
            identity: pair.as_ref(),
            protocols: &[ALPN],
        };
        Ok(options.config()?)
    }

    fn read(settings: &BackendSettings, host: &str) -> Result<Self, What> {
        let name = ServerName::try_from(host.to_owned());
        Ok(Self {
            config: Arc::new(ArcSwap::from_pointee(Self::config_of(settings)?)),
            name: name.map_err(|_| What::Name(host.to_owned()))?,
            direct: settings.tls_negotiation == TlsNegotiation::Direct,
            required: settings.tls != TlsMode::Prefer,
        })
    }
}
