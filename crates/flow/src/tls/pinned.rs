//! TLS towards a server whose certificate is at hand: it must show that one, whatever name is in
//! it and whoever has signed it. For programs that read the server's own configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;

use super::{Accepts, Nameless, TlsError, certificates, provider};

/// TLS that takes the first certificate of a PEM file and no other.
///
/// # Errors
/// The file can't be read.
pub fn pinned_client(certificate: &Path) -> Result<ClientConfig, TlsError> {
    let pinned = certificates(certificate)?.into_iter().next();
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let verifier = Arc::new(Nameless { accepts: Accepts::Only(pinned), algorithms });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}
