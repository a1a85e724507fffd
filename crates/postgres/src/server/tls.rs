//! How a server is reached: its address, and whether and how TLS is used.

use std::time::Duration;

use flow::dial::{Address, Renewal, Target, Tls};
use flow::tls::{Check, ClientOptions, TlsError};

use crate::settings::{AddressError, BackendSettings, TlsMode, TlsNegotiation, read_address};

/// The protocol's name in ALPN ("Message Flow", SSL Session Encryption); direct TLS needs it.
pub const ALPN: &str = "postgresql";

/// Where a server is and how it is connected to. Connections of all kinds are opened with it.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where, with what TLS if any, and how long a connection may take, login included.
    pub target: Target,
    /// TLS begins without asking first.
    pub(super) direct: bool,
    /// Not in the clear, should the server have no TLS.
    pub(super) required: bool,
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
    #[error("{}{}", .0, advice(.0))]
    Tls(#[from] TlsError),
}

fn advice(error: &TlsError) -> &'static str {
    match error {
        TlsError::Name(_) => "; write tls = \"verify-ca\"",
        _ => "",
    }
}

impl ServerSettingsError {
    fn new(settings: &BackendSettings, what: What) -> Self {
        Self { name: settings.name.clone(), what: Box::new(what) }
    }
}

impl Server {
    /// A server in the clear.
    pub fn plain(address: Address, connect_timeout: Duration) -> Self {
        let target = Target { address, tls: None, connect_timeout };
        Self { target, direct: false, required: false }
    }

    /// As a backend's settings say; reads the files of certificates.
    ///
    /// # Errors
    /// The address is none, or a file can not be read.
    pub fn new(settings: &BackendSettings) -> Result<Self, ServerSettingsError> {
        Self::read(settings).map_err(|what| ServerSettingsError::new(settings, what))
    }

    /// Reads the files of certificates anew.
    ///
    /// # Errors
    /// A file can not be read.
    pub fn renew(
        &self,
        settings: &BackendSettings,
    ) -> Result<Option<Renewal>, ServerSettingsError> {
        let tls = self.target.tls.as_ref();
        let renewal = tls.map(|tls| with_options(settings, |options| tls.renew(options)));
        let wrong = |error: TlsError| ServerSettingsError::new(settings, error.into());
        renewal.transpose().map_err(wrong)
    }

    fn read(settings: &BackendSettings) -> Result<Self, What> {
        let address = read_address(&settings.url)?;
        let tls = match (settings.tls, address.host()) {
            (TlsMode::Disable, _) | (_, None) => None,
            (_, Some(host)) => Some(with_options(settings, |options| Tls::new(options, host))?),
        };
        Ok(Self {
            target: Target { address, tls, connect_timeout: settings.connect_timeout.get() },
            direct: settings.tls_negotiation == TlsNegotiation::Direct,
            required: settings.tls != TlsMode::Prefer,
        })
    }
}

/// Reads certificates as a backend's settings name them.
fn with_options<T>(settings: &BackendSettings, read: impl FnOnce(&ClientOptions<'_>) -> T) -> T {
    let pair = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => {
            Some(flow::tls::Settings { certificate: certificate.clone(), key: key.clone() })
        }
        _ => None,
    };
    read(&ClientOptions {
        ca: settings.ca.as_deref(),
        check: match settings.tls {
            TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => Check::Nothing,
            TlsMode::VerifyCa => Check::Authority,
            TlsMode::VerifyFull => Check::Name,
        },
        identity: pair.as_ref(),
        protocols: &[ALPN],
    })
}
