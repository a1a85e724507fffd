//! TLS for listeners and towards backends, by rustls with *ring*.

mod client;
mod expiry;
mod pinned;
mod self_made;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use client::{Check, ClientOptions};
pub use expiry::not_after;
pub use pinned::pinned_client;
pub use self_made::{PROOF_BYTES, SecretProof, Side, self_made_server, unchecked_client};
pub(crate) use server::Encrypted;
pub use server::{Renewal, ServerTls};

/// The certificate that a listener shows its clients.
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
        /// The file's path as the settings give it.
        path: PathBuf,
        /// Why the file is of no use, in one clause.
        reason: String,
    },
    /// The certificate and the key do not fit, or are of no use to rustls.
    #[error("certificate {} with key {}: {source}", settings.certificate.display(),
            settings.key.display())]
    Pair {
        /// The settings that name the two files.
        settings: Settings,
        /// Why rustls takes no such pair.
        source: rustls::Error,
    },
    /// No root certificate was found on this machine.
    #[error("no root certificates on this machine: install ca-certificates, or name a `ca` file")]
    NoRoots,
    /// A server's certificate can not be for this, which is neither a name nor an address.
    #[error("{0:?} is not a name that a certificate could be for")]
    Name(
        /// The host as it was written.
        String,
    ),
    /// rustls refused the configuration.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
}

/// What to do about a server's certificate that is refused, in words; nothing where rustls's own
/// say it.
fn advice(error: &Error) -> Option<&'static str> {
    let Error::InvalidCertificate(why) = error else { return None };
    match why {
        // rustls hands on what webpki says as text alone.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => Some(
            "what the server shows is a certificate of an authority (CA:TRUE), as `openssl req \
             -x509` makes it, and not one that was made for a server: have that authority sign one \
             for the server, or make one with -addext basicConstraints=critical,CA:FALSE and name \
             it as `ca`",
        ),
        CertificateError::UnknownIssuer => Some(
            "nobody whom this machine trusts has signed the server's certificate: name the \
             certificate of its authority as `ca`",
        ),
        CertificateError::BadSignature => Some(
            "the authority in `ca` has the name of the one that signed it, and another key: name \
             its present certificate as `ca`",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Some("the server's certificate has expired, or this machine's clock is wrong")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Some("the server's certificate is not valid yet, or this machine's clock is wrong")
        }
        _ => None,
    }
}

/// What failed in a handshake, with what to do about it where that is known.
pub fn in_words(error: &io::Error) -> Option<String> {
    let refused = error.get_ref()?.downcast_ref::<Error>()?;
    advice(refused).map(|advice| format!("{refused}: {advice}"))
}

/// Version and cipher of a connection after its handshake, as `TLSv1.3/TLS13_AES_128_GCM_SHA256`.
pub fn described(connection: &rustls::CommonState) -> String {
    let version = connection.protocol_version().and_then(|version| version.as_str());
    let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
    let version = version.map_or_else(String::new, |name| name.replace("TLSv1_", "TLSv1."));
    format!("{version}/{}", suite.unwrap_or_default())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
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
        let unchecked = Arc::new(Nameless::any(algorithms));
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

/// Which certificates are taken, whatever name is in them and whoever has signed them.
#[derive(Debug)]
enum Accepts {
    /// All of them, for `insecure-skip-verify`.
    Any,
    /// The one that is pinned; none where there is none to pin.
    Only(Option<CertificateDer<'static>>),
}

/// Looks at no name and no authority. Signatures are still checked, so that at least the peer
/// holds the key of the certificate that it shows.
#[derive(Debug)]
struct Nameless {
    accepts: Accepts,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Nameless {
    fn any(algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { accepts: Accepts::Any, algorithms }
    }
}

impl ServerCertVerifier for Nameless {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_taken = match &self.accepts {
            Accepts::Any => true,
            Accepts::Only(pinned) => pinned.as_ref().is_some_and(|pinned| pinned == shown),
        };
        let other = CertificateError::ApplicationVerificationFailure.into();
        is_taken.then(ServerCertVerified::assertion).ok_or(other)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
