//! A listener's side of TLS.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Settings, TlsError, certificates, file, provider, roots_of};

/// A listener's TLS, whose certificate can be read anew while it serves. Clones share it.
#[derive(Clone)]
pub struct ServerTls(Arc<Server>);

struct Server {
    settings: Settings,
    protocols: Vec<Vec<u8>>,
    client_ca: Option<PathBuf>,
    loaded: ArcSwap<CertifiedConfig>,
}

/// What was read from the files at one time.
struct CertifiedConfig {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

/// An encrypted connection of a client.
pub(crate) struct Encrypted {
    pub(crate) stream: TlsStream<TcpStream>,
    /// With the certificate that the client was shown.
    loaded: Arc<CertifiedConfig>,
}

impl Encrypted {
    pub(crate) fn server_certificate(&self) -> &[u8] {
        &self.loaded.certificate
    }

    pub(crate) fn client_certificate(&self) -> Option<&[u8]> {
        self.stream.get_ref().1.peer_certificates()?.first().map(AsRef::as_ref)
    }

    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.stream.get_ref().1.alpn_protocol()
    }
}

impl ServerTls {
    /// Reads certificate and key. `protocols` are offered by ALPN, as `["http/1.1"]`.
    ///
    /// # Errors
    /// A file can not be read, or the two do not fit.
    pub fn new(settings: &Settings, protocols: &[&str]) -> Result<Self, TlsError> {
        Self::with_clients(settings, protocols, None)
    }

    /// As [`new`](Self::new); clients are asked for a certificate when there is a `client_ca`, a
    /// PEM file. They need not have one, but one that those in the file do not vouch for fails the
    /// handshake.
    ///
    /// # Errors
    /// As of `new`, also for `client_ca`.
    pub fn with_clients(
        settings: &Settings,
        protocols: &[&str],
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let protocols: Vec<_> = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let loaded = load(settings, &protocols, client_ca)?;
        Ok(Self(Arc::new(Server {
            settings: settings.clone(),
            protocols,
            client_ca: client_ca.map(Path::to_owned),
            loaded: ArcSwap::from_pointee(loaded),
        })))
    }

    /// Reads the files anew.
    ///
    /// # Errors
    /// As for [`with_clients`](Self::with_clients); the former certificate stays.
    pub fn renew(&self) -> Result<Renewal, TlsError> {
        let Server { settings, protocols, client_ca, .. } = &*self.0;
        let loaded = load(settings, protocols, client_ca.as_deref())?;
        Ok(Renewal { server: self.clone(), loaded: Arc::new(loaded) })
    }

    /// Where certificate and key are.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Shakes hands on a connection that no front end keeps; gives whether the client has shown a
    /// certificate that those in `client_ca` vouch for.
    ///
    /// # Errors
    /// The client has given up, or is not let in.
    pub async fn shake(&self, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, bool)> {
        let encrypted = self.accept(stream).await?;
        let is_known = encrypted.client_certificate().is_some();
        Ok((encrypted.stream, is_known))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Encrypted> {
        let loaded = self.0.loaded.load_full();
        let stream = TlsAcceptor::from(Arc::clone(&loaded.config)).accept(stream).await?;
        Ok(Encrypted { stream, loaded })
    }
}

/// Files that were read anew and are not in force yet.
#[must_use = "the former files stay in force"]
pub struct Renewal {
    server: ServerTls,
    loaded: Arc<CertifiedConfig>,
}

impl Renewal {
    /// Shows the new certificate to connections from now on.
    pub fn put_in_force(self) {
        self.server.0.loaded.store(self.loaded);
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerTls").field(&self.0.settings).finish()
    }
}

fn load(
    settings: &Settings,
    protocols: &[Vec<u8>],
    client_ca: Option<&Path>,
) -> Result<CertifiedConfig, TlsError> {
    let chain = certificates(&settings.certificate)?;
    let path = &settings.key;
    let key = PrivateKeyDer::from_pem_file(path).map_err(|e| file("private key", path, &e))?;
    let none = rustls_pki_types::pem::Error::NoItemsFound;
    let leaf = chain.first().cloned();
    let certificate = leaf.ok_or_else(|| file("certificate", &settings.certificate, &none))?;
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let roots = Arc::new(roots_of(ca)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                .allow_unauthenticated()
                .build();
            builder.with_client_cert_verifier(verifier.map_err(|error| TlsError::File {
                what: "certificate",
                path: ca.to_owned(),
                reason: error.to_string(),
            })?)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|source| TlsError::Pair { settings: settings.clone(), source })?;
    config.alpn_protocols = protocols.to_vec();
    // Sessions are resumed from tickets the clients keep, not from a store the workers share.
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(CertifiedConfig { config: Arc::new(config), certificate })
}
