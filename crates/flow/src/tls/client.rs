//! TLS towards a server whose kind of check is the operator's to choose, as PostgreSQL's clients
//! have it.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::{Nameless, Settings, TlsError, certificates, file, native_roots, provider, roots_of};

/// What must be right about a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Nothing: whoever is on the way may be the server.
    Nothing,
    /// A trusted authority has signed it, for whatever name.
    Authority,
    /// The same, and the name is the one that was connected to.
    Name,
}

/// TLS towards a server.
#[derive(Debug, Clone, Copy)]
pub struct ClientOptions<'a> {
    /// A PEM file of the authorities to trust instead of this machine's.
    pub ca: Option<&'a Path>,
    /// What must be right about the server's certificate.
    pub check: Check,
    /// A certificate of our own, for servers that ask for one.
    pub identity: Option<&'a Settings>,
    /// Protocols offered by ALPN.
    pub protocols: &'a [&'a str],
}

impl ClientOptions<'_> {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them can not be read, or the machine has no roots and one is needed.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let roots = || self.ca.map_or_else(native_roots, roots_of);
        let builder = match self.check {
            Check::Nothing => {
                let unchecked = Arc::new(Nameless::any(algorithms));
                builder.dangerous().with_custom_certificate_verifier(unchecked)
            }
            Check::Authority => {
                let strict =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots()?), provider)
                        .build()
                        .map_err(|error| Error::General(error.to_string()))?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(strict)))
            }
            Check::Name => builder.with_root_certificates(roots()?),
        };
        let mut config = match self.identity {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = certificates(&pair.certificate)?;
                let key = PrivateKeyDer::from_pem_file(&pair.key);
                let key = key.map_err(|error| file("private key", &pair.key, &error))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|source| TlsError::Pair { settings: pair.clone(), source })?
            }
        };
        config.alpn_protocols =
            self.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }
}

/// Takes a certificate of a trusted authority for any name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, chain, name, ocsp, now) {
            // The name is what rustls looks at last, once the chain has been found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            done => done,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
