//! The files that `[postgres]` names, and its secrets.

use std::path::PathBuf;

use postgres::Settings;

use super::Findings;

/// Every file that must be there now, with the key that names it.
pub fn files(settings: &Settings) -> Vec<(String, &PathBuf)> {
    let mut named = Vec::new();
    if let Some(tls) = &settings.tls {
        named.push(("postgres.tls.certificate".to_owned(), Some(&tls.certificate)));
        named.push(("postgres.tls.key".to_owned(), Some(&tls.key)));
        named.push(("postgres.tls.client-ca".to_owned(), tls.client_ca.as_ref()));
    }
    for user in &settings.user {
        let key = format!("postgres.user {:?} password-file", user.name);
        named.push((key, user.password_file.as_ref()));
    }
    for database in &settings.database {
        let key = format!("postgres.database {:?} password-file", database.name);
        named.push((key, database.password_file.as_ref()));
    }
    if let Some(query) = &settings.auth_query {
        let key = "postgres.auth-query.password-file".to_owned();
        named.push((key, query.password_file.as_ref()));
    }
    for backend in &settings.backend {
        let of = |key: &str| format!("postgres.backend {:?} {key}", backend.name);
        named.push((of("password-file"), backend.password_file.as_ref()));
        named.push((of("ca"), backend.ca.as_ref()));
        named.push((of("certificate"), backend.certificate.as_ref()));
        named.push((of("key"), backend.key.as_ref()));
    }
    named.into_iter().filter_map(|(key, file)| Some((key, file?))).collect()
}

/// Whether certificates are such, and fit their keys.
pub fn certificates(settings: &Settings, found: &mut Findings) {
    for backend in &settings.backend {
        if let Some(authorities) = &backend.ca
            && let Err(error) = flow::tls::client_config(Some(authorities), false)
        {
            found.wrong(format!("postgres.backend {:?} ca: {error}", backend.name));
        }
    }
    let Some(tls) = &settings.tls else {
        return;
    };
    if let Err(error) = flow::tls::ServerTls::new(&tls.pair(), &["postgresql"]) {
        found.wrong(format!("postgres.tls: {error}"));
    }
    if let Some(authorities) = &tls.client_ca
        && let Err(error) = flow::tls::client_config(Some(authorities), false)
    {
        found.wrong(format!("postgres.tls client-ca: {error}"));
    }
}

/// Whether there is a secret in the file itself.
pub fn holds_secrets(settings: &Settings) -> bool {
    let users = settings.user.iter().map(|user| &user.password);
    let databases = settings.database.iter().map(|database| &database.password);
    let query = settings.auth_query.iter().map(|query| &query.password);
    let backends = settings.backend.iter().map(|backend| &backend.password);
    users.chain(databases).chain(query).chain(backends).any(|secret| !secret.is_empty())
}

/// Whether every worker can have a lane and a lease.
pub fn room(settings: &Settings, workers: usize, found: &mut Findings) {
    let size = settings.pool.size;
    if size < 2 * workers {
        found.doubtful(format!(
            "postgres.pool.size = {size} is less than two for each of {workers} workers, which \
             then wait for one another's server connections; write at least {}, or fewer workers",
            2 * workers
        ));
    }
}
