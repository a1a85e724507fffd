//! The files that `[redis]` names, its secrets, and what strangers could do.

use std::path::PathBuf;

use redis::settings::Settings;

use super::Found;

/// Every file that must be there now, with the key that names it.
pub fn files(settings: &Settings) -> Vec<(String, &PathBuf)> {
    let mut named = Vec::new();
    if let Some(tls) = &settings.tls {
        named.push(("redis.tls.certificate".to_owned(), Some(&tls.certificate)));
        named.push(("redis.tls.key".to_owned(), Some(&tls.key)));
    }
    for backend in &settings.backend {
        let of = |key: &str| format!("redis.backend {:?} {key}", backend.name);
        named.push((of("password-file"), backend.password_file.as_ref()));
        named.push((of("ca"), backend.ca.as_ref()));
    }
    named.into_iter().filter_map(|(key, file)| Some((key, file?))).collect()
}

/// Whether certificates are such, and fit their keys.
pub fn certificates(settings: &Settings, found: &mut Found) {
    if let Some(tls) = &settings.tls
        && let Err(error) = flow::tls::ServerTls::new(&tls.pair(), &[])
    {
        found.wrong(format!("redis.tls: {error}"));
    }
    for backend in &settings.backend {
        if let Some(authorities) = &backend.ca
            && let Err(error) = flow::tls::client_config(Some(authorities), false)
        {
            found.wrong(format!("redis.backend {:?} ca: {error}", backend.name));
        }
    }
}

/// What strangers could read or do.
pub fn exposure(settings: &Settings, found: &mut Found) {
    for address in settings.listen.iter().filter(|address| !address.ip().is_loopback()) {
        if settings.user.is_empty() {
            found.doubtful(format!(
                "redis.listen {address} is not loopback and there is no [[redis.user]]: whoever \
                 reaches it may read and write every key"
            ));
        }
        if settings.tls.is_none() {
            found.doubtful(format!(
                "redis.listen {address} is not loopback and there is no [redis.tls]: passwords, \
                 keys and values cross the network in clear text"
            ));
        }
    }
}

/// Whether passwords stand in the file.
pub fn holds_secrets(settings: &Settings) -> bool {
    settings.backend.iter().any(|of| !of.password.is_empty())
        || settings.user.iter().any(|of| !of.password.is_empty())
}
