//! Certificates of the configuration that end some day.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::Settings;
use crate::diagnosis::observation::Expiry;

/// The files of the certificates that Weir shows to clients and servers.
pub fn certificates(settings: &Settings) -> Vec<PathBuf> {
    let mut files: Vec<&Path> = Vec::new();
    files.extend(settings.admin.tls.iter().map(|tls| tls.certificate.as_path()));
    files.extend(settings.influx.tls.iter().map(|tls| tls.certificate.as_path()));
    let postgres = settings.postgres.iter().filter_map(|postgres| postgres.tls.as_ref());
    files.extend(postgres.map(|tls| tls.certificate.as_path()));
    let servers = settings.postgres.iter().flat_map(|postgres| &postgres.backend);
    files.extend(servers.filter_map(|server| server.certificate.as_deref()));
    let redis = settings.redis.iter().filter_map(|redis| redis.tls.as_ref());
    files.extend(redis.map(|tls| tls.certificate.as_path()));
    files.sort_unstable();
    files.dedup();
    files.into_iter().map(Path::to_path_buf).collect()
}

/// When the certificates end, as their files are now.
pub fn of(certificates: &[PathBuf]) -> Vec<Expiry> {
    let ends = certificates.iter().filter_map(|file| {
        let at = flow::tls::not_after(file)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let what = format!("certificate {}", file.display());
        Some(Expiry { what, at: at.as_secs_f64() })
    });
    ends.collect()
}
