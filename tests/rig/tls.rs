//! A certificate for loopback, both ends of a TLS connection.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::http::Connection;

/// A self-signed certificate for 127.0.0.1 and localhost.
#[derive(Debug, Clone)]
pub struct Certificate {
    certificate: String,
    key: String,
}

impl Certificate {
    /// A new one.
    ///
    /// # Panics
    /// Never on a system with randomness.
    pub fn new() -> Self {
        Self::of(&["127.0.0.1", "localhost"])
    }

    /// A self-signed one for these names and addresses alone.
    ///
    /// # Panics
    /// Where a name is none.
    pub fn of(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate can be made");
        Self { certificate: made.cert.pem(), key: made.key_pair.serialize_pem() }
    }

    /// Writes both into `dir` and says where.
    ///
    /// # Panics
    /// When they can't be written.
    pub fn write(&self, dir: &Path) -> (PathBuf, PathBuf) {
        let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
        std::fs::write(&certificate, &self.certificate).expect("a file can be written");
        std::fs::write(&key, &self.key).expect("a file can be written");
        (certificate, key)
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("our own PEM")]
    }

    pub(crate) fn accept(&self, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("our own PEM");
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider's versions")
            .with_no_client_auth()
            .with_single_cert(self.chain(), key)
            .expect("our own certificate");
        let session = ServerConnection::new(Arc::new(config)).expect("a session");
        StreamOwned::new(session, stream)
    }

    /// A client that trusts this certificate and no other.
    ///
    /// # Errors
    /// As the system's, or the handshake's on first use.
    pub fn connect(&self, address: SocketAddr) -> std::io::Result<Connection> {
        Ok(Connection::over(self.stream(address, &[])?))
    }

    /// The same as a stream, of a client that offers these protocols by ALPN.
    ///
    /// # Errors
    /// As the system's, or the handshake's on first use.
    pub fn stream(
        &self,
        address: SocketAddr,
        protocols: &[&str],
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        for certificate in self.chain() {
            roots.add(certificate).map_err(std::io::Error::other)?;
        }
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(std::io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::from(address.ip());
        let session =
            ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30)))?;
        Ok(StreamOwned::new(session, stream))
    }
}

impl Default for Certificate {
    fn default() -> Self {
        Self::new()
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
