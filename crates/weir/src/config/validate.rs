//! The configuration as a whole: what no single setting can tell.

mod own;
mod postgres;
mod redis;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::{EMBEDDED, Problem, Settings};

/// A packet that is lost is sent again after 0.2 s at the earliest, then after twice as long.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// What was found: problems keep Weir from starting, warnings don't.
#[derive(Debug, Default)]
pub struct Findings {
    /// What keeps Weir from starting.
    pub problems: Vec<Problem>,
    /// What works and is still worth a word.
    pub warnings: Vec<String>,
}

impl Findings {
    fn wrong(&mut self, what: impl ToString) {
        self.problems.push(what.to_string().into());
    }

    fn doubtful(&mut self, what: String) {
        self.warnings.push(what);
    }
}

/// Everything wrong or doubtful about `settings`.
pub fn validate(settings: &Settings) -> Findings {
    let mut found = Findings::default();
    for checked in [
        settings.journal.validate().map_err(|error| error.to_string()),
        settings.influx.validate().map_err(|error| error.to_string()),
        influx::cluster::check(&settings.influx).map_err(|error| error.to_string()),
        settings.postgres.as_ref().map_or(Ok(()), |of| of.validate().map_err(|e| e.to_string())),
        settings.redis.as_ref().map_or(Ok(()), |of| of.validate().map_err(|e| e.to_string())),
        settings.store.validate().map_err(|error| error.to_string()),
        settings.admin.validate(),
        settings.log.validate().map_err(|error| error.to_string()),
    ] {
        if let Err(what) = checked {
            found.wrong(what);
        }
    }
    if settings.drain_timeout.get().is_zero() {
        found.wrong("drain-timeout must not be 0; requests that were begun would be cut off");
    }
    if settings.stall_limit.get().is_zero() {
        found.wrong("stall-limit must not be 0; write \"500ms\"");
    }
    let silence = settings.tcp_user_timeout.get();
    if !silence.is_zero() && silence < SILENCE_MIN {
        found.wrong(
            "tcp-user-timeout must be at least 1s, or \"0s\" for none; a few lost packets can take \
             as long",
        );
    }
    backends(settings, &mut found);
    store(settings, &mut found);
    addresses(settings, &mut found);
    own::servers(settings, &mut found);
    files(settings, &mut found);
    exposure(settings, &mut found);
    found
}

fn backends(settings: &Settings, found: &mut Findings) {
    let backends = &settings.influx.backend;
    if backends.iter().filter(|backend| backend.embedded).count() > 1 {
        found.wrong("more than one [[influx.backend]] is embedded; there is one [store]");
    }
    let mut urls = BTreeMap::new();
    let mut names = BTreeMap::new();
    for backend in backends {
        if let Err(error) = backend.validate() {
            found.wrong(error);
        }
        if names.insert(&backend.name, ()).is_some() {
            found.wrong(format!(
                "influx.backend {:?} is there twice; the name tells their cursors and dead \
                 letters apart",
                backend.name
            ));
        }
        let url = backend.url.trim_end_matches('/').to_ascii_lowercase();
        if !backend.embedded
            && let Some(other) = urls.insert(url, &backend.name)
        {
            found.doubtful(format!(
                "influx.backend {:?} and {other:?} have the same url: every write reaches that \
                 server twice",
                backend.name
            ));
        }
        if backend.insecure_skip_verify {
            found.doubtful(format!(
                "influx.backend {:?}: insecure-skip-verify lets anyone on the path read and alter \
                 the data; give `ca` instead",
                backend.name
            ));
        }
    }
}

/// Points that were kept within Weir are not to be out of sight without a word. A file that names
/// their store is about them; one that does not may only run beside them.
fn store(settings: &Settings, found: &mut Findings) {
    let dir = &settings.store.dir;
    if !settings.has_store() && !store::Store::is_empty_dir(dir) {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        let there = format!(
            "there are points in the store in {}, and no backend in the configuration is that \
             store",
            dir.display()
        );
        if settings.store_named {
            found.wrong(format!(
                "{there}; add\n\n    [[influx.backend]]\n    name = \"{EMBEDDED}\"\n    \
                 embedded = true\n\nor move {} away",
                dir.display()
            ));
        } else {
            found.doubtful(format!(
                "{there}: nobody can read them here; add a backend with embedded = true, or move \
                 {} away",
                dir.display()
            ));
        }
    }
    if settings.has_store() && *dir == settings.journal.dir {
        found.wrong("store.dir and journal.dir are the same; each needs a directory of its own");
    }
}

/// No two sockets can have one port. Port 0 is any free one.
fn addresses(settings: &Settings, found: &mut Findings) {
    let mut taken = BTreeMap::new();
    let admin = settings.admin.address().ok().flatten().map(|address| ("admin.listen", address));
    let influx = settings.has_influx().then_some(&settings.influx);
    let http = influx.iter().flat_map(|influx| &influx.listen);
    let http = http.map(|address| ("influx.listen", *address));
    let sql = settings.postgres.iter().flat_map(|postgres| &postgres.listen);
    let sql = sql.map(|address| ("postgres.listen", *address));
    let keys = settings.redis.iter().flat_map(redis::listeners);
    let all = admin.into_iter().chain(http).chain(sql).chain(keys);
    for (key, address) in all.filter(|(_, at)| at.port() != 0) {
        if let Some(other) = taken.insert(address, key) {
            found.wrong(format!("{key} and {other} are both {address}; move one of them"));
        }
    }
    let mut taken = BTreeMap::new();
    for udp in settings.influx.udp.iter().filter(|udp| udp.listen.port() != 0) {
        if taken.insert(udp.listen, ()).is_some() {
            found.wrong(format!("two [[influx.udp]] listen on {}; move one of them", udp.listen));
        }
    }
}

/// Files that are named must be there now, not when the first connection needs them.
fn files(settings: &Settings, found: &mut Findings) {
    let mut named = Vec::new();
    let influx = &settings.influx;
    if let Some(tls) = &influx.tls {
        named.push(("influx.tls.certificate".to_owned(), &tls.certificate));
        named.push(("influx.tls.key".to_owned(), &tls.key));
    }
    if let Some(file) = &influx.token_secret_file {
        named.push(("influx.token-secret-file".to_owned(), file));
    }
    for backend in &influx.backend {
        let keys = [
            ("password-file", &backend.password_file),
            ("token-file", &backend.token_file),
            ("ca", &backend.ca),
        ];
        for (key, file) in keys {
            if let Some(file) = file {
                named.push((format!("influx.backend {:?} {key}", backend.name), file));
            }
        }
    }
    let admin = &settings.admin;
    if let Some(tls) = &admin.tls {
        named.push(("admin.tls.certificate".to_owned(), &tls.certificate));
        named.push(("admin.tls.key".to_owned(), &tls.key));
    }
    named.extend(admin.token_file.iter().map(|file| ("admin.token-file".to_owned(), file)));
    named.extend(settings.postgres.iter().flat_map(postgres::files));
    named.extend(settings.redis.iter().flat_map(redis::files));
    let before = found.problems.len();
    for (key, file) in named {
        if let Err(error) = File::open(file) {
            let file = file.display();
            found.wrong(format!("{key} = \"{file}\" can't be read: {error}"));
        }
    }
    if found.problems.len() == before {
        certificates(settings, found);
    }
}

/// Whether certificates are such, and fit their keys.
fn certificates(settings: &Settings, found: &mut Findings) {
    for (key, tls) in [("influx.tls", &settings.influx.tls), ("admin.tls", &settings.admin.tls)] {
        if let Some(tls) = tls
            && let Err(error) = flow::tls::ServerTls::new(tls, &[])
        {
            found.wrong(format!("{key}: {error}"));
        }
    }
    if let Err(error) = settings.admin.bearer() {
        found.wrong(error);
    }
    for backend in &settings.influx.backend {
        if let Some(ca) = &backend.ca
            && let Err(error) = flow::tls::client_config(Some(ca), false)
        {
            found.wrong(format!("influx.backend {:?} ca: {error}", backend.name));
        }
    }
    if let Some(postgres) = &settings.postgres {
        postgres::certificates(postgres, found);
    }
    if let Some(redis) = &settings.redis {
        redis::certificates(redis, found);
    }
}

/// What strangers could read or do.
fn exposure(settings: &Settings, found: &mut Findings) {
    if let Some(postgres) = &settings.postgres {
        postgres.warnings().into_iter().for_each(|word| found.doubtful(word));
        postgres::room(postgres, settings.worker_count(), found);
    }
    if let Some(redis) = &settings.redis {
        redis::exposure(redis, found);
        redis::misleading(redis, found);
    }
    admin_exposure(&settings.admin, found);
    if settings.has_influx() {
        influx_exposure(settings, found);
    }
}

fn admin_exposure(admin: &super::admin::Settings, found: &mut Findings) {
    let Ok(Some(address)) = admin.address() else { return };
    let is_public = !address.ip().is_loopback();
    let what = match (admin.has_logins(), admin.tls.is_some()) {
        _ if !is_public => return,
        (true, true) => return,
        (false, true) => {
            "there is no [[admin.user]]: whoever reaches it sees the state and can take CPU \
             profiles; add one"
        }
        (false, false) => {
            "there is no [[admin.user]]: whoever reaches it sees the state and can take CPU \
             profiles; add one, and [admin.tls]"
        }
        (true, false) => {
            "there is no [admin.tls]: passwords and the token cross the network in clear text"
        }
    };
    found.doubtful(format!("admin.listen {address} is not loopback and {what}"));
}

fn influx_exposure(settings: &Settings, found: &mut Findings) {
    let influx = &settings.influx;
    let http = influx.listen.iter().filter(|address| !address.ip().is_loopback());
    let udp = influx.udp.iter().filter(|udp| !udp.listen.ip().is_loopback());
    for address in http {
        if influx.user.is_empty() {
            found.doubtful(format!(
                "influx.listen {address} is not loopback and there is no [[influx.user]]: whoever \
                 reaches it may write, read and drop databases"
            ));
        } else if influx.tls.is_none() {
            found.doubtful(format!(
                "influx.listen {address} is not loopback and there is no [influx.tls]: passwords \
                 cross the network in clear text"
            ));
        }
    }
    for udp in udp.filter(|_| !influx.user.is_empty()) {
        found.doubtful(format!(
            "[[influx.udp]] {} is not loopback: UDP knows no users, so whoever reaches it may \
             write to {:?}",
            udp.listen, udp.database
        ));
    }
    for backend in &influx.backend {
        let secret =
            !backend.user.is_empty() || !backend.token.is_empty() || backend.token_file.is_some();
        if secret && backend.url.starts_with("http://") && !is_loopback(&backend.url) {
            found.doubtful(format!(
                "influx.backend {:?}: its credentials cross the network in clear text; use https",
                backend.name
            ));
        }
    }
}

fn is_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A word about secrets in a configuration that every user of the machine can read.
pub fn readable_by_others(file: &Path, settings: &Settings) -> Option<String> {
    const OTHERS_READ: u32 = 0o004;
    let influx = &settings.influx;
    let in_backends =
        |secret: fn(&influx::settings::BackendTable) -> bool| influx.backend.iter().any(secret);
    let holds_secrets = !influx.token_secret.is_empty()
        || !settings.admin.token.is_empty()
        || settings.postgres.as_ref().is_some_and(postgres::holds_secrets)
        || settings.redis.as_ref().is_some_and(redis::holds_secrets)
        || in_backends(|backend| !backend.password.is_empty() || !backend.token.is_empty());
    let open = fs::metadata(file).is_ok_and(|metadata| metadata.mode() & OTHERS_READ != 0);
    (holds_secrets && open).then(|| {
        let file = file.display();
        format!("{file} holds secrets and every user can read it; chmod 640, or use *-file keys")
    })
}
