//! What TLS towards a server is begun with.

use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::Socket;
use crate::tls::{ClientOptions, TlsError};

/// TLS with a server. Clones share its certificates, so that they are read anew for all.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ArcSwap<ClientConfig>>,
    name: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Files that were read anew and are not in force yet.
#[must_use = "the former files stay in force"]
pub struct Renewal {
    config: Arc<ArcSwap<ClientConfig>>,
    renewed: ClientConfig,
}

impl Tls {
    /// With the server `host`; reads the files.
    ///
    /// # Errors
    /// A file can not be read, or no certificate could be for such a host.
    pub fn new(options: &ClientOptions<'_>, host: &str) -> Result<Self, TlsError> {
        let config = Arc::new(ArcSwap::from_pointee(options.config()?));
        let name = ServerName::try_from(host.to_owned());
        Ok(Self { config, name: name.map_err(|_| TlsError::Name(host.to_owned()))? })
    }

    /// Reads the files anew.
    ///
    /// # Errors
    /// A file can not be read; the former certificates stay.
    pub fn renew(&self, options: &ClientOptions<'_>) -> Result<Renewal, TlsError> {
        Ok(Renewal { config: Arc::clone(&self.config), renewed: options.config()? })
    }

    pub(super) async fn shake_hands(&self, socket: Socket) -> io::Result<Socket> {
        let connector = TlsConnector::from(self.config.load_full());
        socket.encrypted(|stream| connector.connect(self.name.clone(), stream)).await
    }
}

impl Renewal {
    /// Makes connections from now on with these files.
    pub fn put_in_force(self) {
        self.config.store(Arc::new(self.renewed));
    }
}
