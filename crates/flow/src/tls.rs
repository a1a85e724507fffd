//! TLS for listeners and towards backends, by rustls with *ring*.

mod client;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use client::{Check, ClientOptions};

/// A listener's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// A PEM file with the certificate, followed by those that lead to the root.
    pub certificate: PathBuf,
    /// A PEM file with its private key; it may be the same file.
    pub key: PathBuf,
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can not be read as PEM, or has not in it what it should.
    #[error("{what} in {}: {reason}", path.display())]
    File {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The certificate and the key do not fit, or are of no use to rustls.
    #[error("certificate {} with key {}: {source}", settings.certificate.display(),
            settings.key.display())]
    Pair {
        /// Where they are.
        settings: Settings,
        /// What is wrong.
        source: rustls::Error,
    },
    /// No root certificate was found on this machine.
    #[error("no root certificates on this machine: install ca-certificates, or name a `ca` file")]
    NoRoots,
    /// rustls refused the configuration.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
}

/// A listener's TLS, whose certificate can be read anew while it serves. Clones share it.
#[derive(Clone)]
pub struct ServerTls(Arc<Server>);

struct Server {
    settings: Settings,
    config: ArcSwap<ServerConfig>,
}

impl ServerTls {
    /// Reads certificate and key. `protocols` are offered by ALPN, as `["http/1.1"]`.
    ///
    /// # Errors
    /// A file can not be read, or the two do not fit.
    pub fn new(settings: &Settings, protocols: &[&str]) -> Result<Self, TlsError> {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
        let config = server_config(settings, protocols.collect())?;
        Ok(Self(Arc::new(Server {
            settings: settings.clone(),
            config: ArcSwap::from_pointee(config),
        })))
    }

    /// Reads the files anew: connections from now on see the new certificate.
    ///
    /// # Errors
    /// As for [`new`](Self::new); the former certificate stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let protocols = self.0.config.load().alpn_protocols.clone();
        let config = server_config(&self.0.settings, protocols)?;
        self.0.config.store(Arc::new(config));
        Ok(())
    }

    /// Where certificate and key are.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.0.config.load_full()).accept(stream).await
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerTls").field(&self.0.settings).finish()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn server_config(settings: &Settings, protocols: Vec<Vec<u8>>) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&settings.certificate)?;
    let path = &settings.key;
    let key = PrivateKeyDer::from_pem_file(path).map_err(|e| file("private key", path, &e))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|source| TlsError::Pair { settings: settings.clone(), source })?;
    config.alpn_protocols = protocols;
    // Sessions are resumed from tickets the clients keep, not from a store the workers share.
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |e| file("certificate", path, &e);
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if all.is_empty() {
        let none = rustls_pki_types::pem::Error::NoItemsFound;
        return Err(file("certificate", path, &none));
    }
    Ok(all)
}

fn file(what: &'static str, path: &Path, error: &rustls_pki_types::pem::Error) -> TlsError {
    TlsError::File { what, path: path.to_owned(), reason: error.to_string() }
}

/// TLS towards a backend: checked against the certificates in `ca`, else against this machine's
/// roots, or not at all when `insecure`.
///
/// # Errors
/// `ca` can not be read, or the machine has no roots.
pub fn client_config(ca: Option<&Path>, insecure: bool) -> Result<ClientConfig, TlsError> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    if insecure {
        let unchecked = Arc::new(Unchecked(algorithms));
        let builder = builder.dangerous().with_custom_certificate_verifier(unchecked);
        return Ok(builder.with_no_client_auth());
    }
    let roots = match ca {
        Some(path) => roots_of(path)?,
        None => native_roots()?,
    };
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn roots_of(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::File {
            what: "certificate",
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

fn native_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    Ok(roots)
}

/// Takes any certificate, for `insecure-skip-verify`. Signatures are still checked, so that at
/// least the peer holds the key of the certificate that it shows.
#[derive(Debug)]
struct Unchecked(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
