//! What the types cannot tell, with words that say what to write instead.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use flow::unix;

use super::{AuthRule, Commit, DatabaseSettings, From, Method, Mode, Settings, UserSettings};

/// The longest message that PostgreSQL takes.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;
/// Below this a login with a long certificate chain or verifier would not fit.
const MESSAGE_BYTES_MIN: u64 = 64 << 10;
/// The longest name of a database or user in PostgreSQL (`NAMEDATALEN` - 1).
const NAME_BYTES_MAX: usize = 63;

/// What is wrong with the gateway's settings: where, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("postgres.{at}: {what}")]
pub struct SettingsError {
    /// The key below `postgres`, as in the file.
    pub at: String,
    /// What is wrong and what to write instead.
    pub what: String,
}

type Checked = Result<(), SettingsError>;

fn wrong(at: impl Into<String>, what: impl Into<String>) -> Checked {
    Err(SettingsError { at: at.into(), what: what.into() })
}

impl Settings {
    /// Checks what the types cannot. Opens no file.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn validate(&self) -> Checked {
        self.validate_listeners()?;
        self.validate_limits()?;
        self.validate_auth()?;
        self.validate_users()?;
        self.validate_databases()?;
        self.validate_console()?;
        self.validate_backends()
    }

    fn validate_listeners(&self) -> Checked {
        if self.listen.is_empty() && self.unix_sockets.is_empty() {
            return wrong("listen", "needs an address, as \"127.0.0.1:6432\", or unix-sockets");
        }
        if unix::mode(&self.unix_socket_mode).is_none() {
            let what = format!("{:?} is not an octal mode; write \"0770\"", self.unix_socket_mode);
            return wrong("unix-socket-mode", what);
        }
        let absolute = |dir: &&std::path::PathBuf| !Path::new(dir).is_absolute();
        if let Some(dir) = self.unix_sockets.iter().find(absolute) {
            let dir = dir.display();
            return wrong("unix-sockets", format!("\"{dir}\" must begin with /, as \"/run/weir\""));
        }
        let reachable = self.listen.iter().find(|address| !is_of_this_machine(address));
        if let Some(address) = reachable
            && !self.tls.as_ref().is_some_and(|tls| tls.required)
            && !self.allow_cleartext
        {
            return wrong(
                "listen",
                format!(
                    "{address} can be reached from other machines, and clients need not use TLS: \
                     add [postgres.tls] with certificate and key, or write allow-cleartext = true"
                ),
            );
        }
        Ok(())
    }

    fn validate_limits(&self) -> Checked {
        let lanes = &self.lanes;
        let positive = [
            ("max-connections", self.max_connections as u64),
            ("prepared-statements", self.prepared_statements as u64),
            ("max-prepared-statements", self.max_prepared_statements as u64),
            ("max-prepared-bytes", self.max_prepared_bytes.bytes()),
            ("plan-cache", self.plan_cache as u64),
            ("lanes.count", lanes.count as u64),
            ("lanes.depth", lanes.depth as u64),
            ("lanes.reply-spill", lanes.reply_spill.bytes()),
            ("batches.count", self.batches.count as u64),
            ("batches.statements", self.batches.statements as u64),
            ("pool.size", self.pool.size as u64),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == 0) {
            let instead = match key.split_once('.') {
                Some(("lanes", _)) => "; lanes.on = false turns lanes off",
                Some(("batches", _)) => "; batches.on = false turns batches off",
                _ => "",
            };
            return wrong(*key, format!("must be at least 1{instead}"));
        }
        let spans = [
            ("timeouts.login", self.timeouts.login),
            ("timeouts.cancel", self.timeouts.cancel),
            ("lanes.slow", lanes.slow),
            ("lanes.head-of-line", lanes.head_of_line),
            ("batches.lock-timeout", self.batches.lock_timeout),
            ("commit-wait", self.commit_wait),
            ("poll-interval", self.poll_interval),
            ("poll-timeout", self.poll_timeout),
        ];
        if let Some((key, _)) = spans.iter().find(|(_, span)| span.get().is_zero()) {
            return wrong(*key, "must not be 0; what never comes would be waited for for ever");
        }
        if !(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&self.max_message.bytes()) {
            return wrong("max-message", "must be 64KiB to 1GiB, which is PostgreSQL's own limit");
        }
        if self.pool.min_idle > self.pool.size {
            return wrong("pool.min-idle", "must not be more than pool.size");
        }
        Ok(())
    }

    fn validate_auth(&self) -> Checked {
        let only_here = self.listen.iter().all(is_of_this_machine);
        for (number, rule) in self.auth.iter().enumerate() {
            if let Err(what) = self.rule(rule, only_here) {
                return wrong(format!("auth number {}", number + 1), what);
            }
        }
        let Some(query) = &self.auth_query else {
            return Ok(());
        };
        if query.user.is_empty() {
            return wrong("auth-query", "user must not be empty: it is whom Weir asks as");
        }
        if !query.query.contains("$1") {
            return wrong("auth-query", "query must hold $1, which is the user's name");
        }
        if !query.password.is_empty() && query.password_file.is_some() {
            return wrong("auth-query", "password and password-file exclude each other");
        }
        Ok(())
    }

    fn rule(&self, rule: &AuthRule, only_here: bool) -> Result<(), String> {
        let tls = self.tls.as_ref();
        let says = format!("method = \"{}\"", rule.method.name());
        if rule.user.is_empty() || rule.database.is_empty() {
            return Err("user and database must not be empty; write [\"all\"]".to_owned());
        }
        if rule.from == From::Local && !rule.address.is_empty() {
            return Err("from = \"local\" has no address: leave address out".to_owned());
        }
        if rule.method == Method::Peer && rule.from != From::Local {
            return Err(format!("{says} is for Unix sockets: write from = \"local\""));
        }
        if !rule.map.is_empty() && !rule.is_by_name() {
            return Err(format!("{says} takes no map: the password says who it is"));
        }
        self.client_certificate(rule)?;
        let needs_tls = matches!(rule.method, Method::Cert | Method::ScramSha256Plus);
        if needs_tls && matches!(rule.from, From::Local | From::Hostnossl) {
            return Err(format!("{says} needs TLS; write from = \"hostssl\""));
        }
        if needs_tls && tls.is_none() {
            return Err(format!("{says} needs [postgres.tls]"));
        }
        if rule.method == Method::Cert && tls.is_none_or(|tls| tls.client_ca.is_none()) {
            return Err(format!("{says} needs client-ca in [postgres.tls]"));
        }
        let here = only_here || rule.is_of_this_machine();
        if rule.method == Method::Trust && !here && !rule.trust_strangers {
            return Err(format!(
                "{says} lets whoever reaches the port be any user: write address = \
                 [\"127.0.0.1\", \"::1\"] or from = \"local\", or trust-strangers = true"
            ));
        }
        let encrypted = rule.from == From::Hostssl || tls.is_some_and(|tls| tls.required);
        if rule.method == Method::Password && !here && !encrypted && !self.allow_cleartext {
            return Err(format!(
                "{says} sends the password itself: write from = \"hostssl\", or \
                 allow-cleartext = true in [postgres]"
            ));
        }
        Ok(())
    }

    fn client_certificate(&self, rule: &AuthRule) -> Result<(), String> {
        let Some(wanted) = rule.client_certificate else { return Ok(()) };
        let says = format!("client-certificate = \"{}\"", wanted.name());
        if rule.from != From::Hostssl {
            return Err(format!("{says} needs TLS; write from = \"hostssl\""));
        }
        if self.tls.as_ref().is_none_or(|tls| tls.client_ca.is_none()) {
            return Err(format!("{says} needs client-ca in [postgres.tls]"));
        }
        if rule.method == Method::Cert {
            return Err(format!("method = \"cert\" asks for it already: leave {says} out"));
        }
        Ok(())
    }

    fn validate_users(&self) -> Checked {
        let asks = |rule: &AuthRule| rule.method.asks_for_password();
        let asked = self.auth.is_empty() || self.auth.iter().any(asks);
        if self.user.is_empty() && self.auth_query.is_none() && asked {
            return wrong(
                "user",
                "nobody could log in: add [[postgres.user]] with name and password, or \
                 [postgres.auth-query]; for a try on this machine alone, [[postgres.auth]] with \
                 address = [\"127.0.0.1\"] and method = \"trust\"",
            );
        }
        let mut names = HashSet::new();
        for user in &self.user {
            let checked = named(&user.name).and_then(|()| match names.insert(&user.name) {
                true => user_settings(user)
                    .and_then(|()| commit(user.commit, user.mode.unwrap_or(self.mode))),
                false => Err("is there twice"),
            });
            if let Err(what) = checked {
                return wrong(format!("user {:?}", user.name), what);
            }
        }
        Ok(())
    }

    fn validate_databases(&self) -> Checked {
        let mut names = HashSet::new();
        for database in &self.database {
            let at = || format!("database {:?}", database.name);
            if self.console.databases.contains(&database.name) {
                let what = "is a name of the console; take it out of console.databases, or \
                            choose another and keep the real one as dbname";
                return wrong(at(), what);
            }
            let checked = named(&database.name).and_then(|()| match names.insert(&database.name) {
                true => database_settings(database)
                    .and_then(|()| commit(database.commit, database.mode.unwrap_or(self.mode))),
                false => Err("is there twice"),
            });
            if let Err(what) = checked {
                return wrong(at(), what);
            }
        }
        Ok(())
    }

    fn validate_console(&self) -> Checked {
        let console = &self.console;
        let users = !console.admin_users.is_empty() || !console.stats_users.is_empty();
        if users && console.databases.is_empty() {
            return wrong("console.databases", "needs a name, as [\"weir\"], for its users");
        }
        Ok(())
    }

    fn validate_backends(&self) -> Checked {
        if self.backend.is_empty() {
            let what = "is missing: add [[postgres.backend]] with name and url of a server";
            return wrong("backend", what);
        }
        let mut names = HashSet::new();
        for backend in &self.backend {
            let at = || format!("backend {:?}", backend.name);
            if !names.insert(&backend.name) {
                return wrong(at(), "is there twice");
            }
            if let Err(what) = backend.validate() {
                return wrong(at(), what);
            }
        }
        Ok(())
    }
}

fn named(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("name must not be empty"),
        name if name.len() > NAME_BYTES_MAX => Err("name is longer than PostgreSQL's 63 bytes"),
        name if name.contains('\0') => Err("name must not hold a zero byte"),
        _ => Ok(()),
    }
}

fn commit(commit: Option<Commit>, mode: Mode) -> Result<(), &'static str> {
    match (commit, mode) {
        (Some(Commit::Shared), Mode::Session) => {
            Err("commit = \"shared\" needs mode = \"transaction\": a client that keeps its server \
             connection commits for itself")
        }
        _ => Ok(()),
    }
}

fn user_settings(user: &UserSettings) -> Result<(), &'static str> {
    let password = user.password.reveal();
    if !user.password.is_empty() && user.password_file.is_some() {
        Err("password and password-file exclude each other")
    } else if password.contains('\0') {
        Err("password must not hold a zero byte")
    } else if user.pool_size == Some(0) {
        Err("pool-size must be at least 1; to keep a user out, give it method = \"reject\"")
    } else {
        Ok(())
    }
}

fn database_settings(database: &DatabaseSettings) -> Result<(), &'static str> {
    if !database.password.is_empty() && database.password_file.is_some() {
        Err("password and password-file exclude each other")
    } else if database.user.is_empty()
        && (!database.password.is_empty() || database.password_file.is_some())
    {
        Err("a password without a user: add user, or give the password to [[postgres.user]]")
    } else if database.pool_size == Some(0) {
        Err("pool-size must be at least 1; leave the entry out to close the database")
    } else {
        Ok(())
    }
}

impl Settings {
    /// The Unix sockets that it listens on.
    pub fn unix_socket_files(&self) -> Vec<PathBuf> {
        let file = format!(".s.PGSQL.{}", self.unix_port());
        self.unix_sockets.iter().map(|dir| dir.join(&file)).collect()
    }

    /// The mode of the Unix sockets' files.
    pub fn unix_mode(&self) -> u32 {
        unix::mode(&self.unix_socket_mode).unwrap_or(0o777)
    }
}

pub(super) fn is_of_this_machine(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
