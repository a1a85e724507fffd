//! What the types cannot tell, with words that say what to write instead.

use std::collections::HashSet;

use flow::unix;

use super::{COMMAND_BYTES_MAX, MAIN, Settings, read_address};
use crate::commands;

/// What is wrong with the gateway's settings: where, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("redis.{at}: {what}")]
pub struct SettingsError {
    /// The key of the setting.
    pub at: String,
    /// What is wrong and what to write instead.
    pub what: String,
}

pub(super) type Checked = Result<(), SettingsError>;

pub(super) fn wrong(at: impl Into<String>, what: impl Into<String>) -> Checked {
    Err(SettingsError { at: at.into(), what: what.into() })
}

impl Settings {
    /// Checks what the types cannot. Opens no file.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn validate(&self) -> Checked {
        if let Some(aof) = &self.aof {
            aof.validate(self.allow_cleartext)?;
        }
        self.guard.validate()?;
        if !self.has_gateway() {
            return Ok(());
        }
        let is_pool = self.pool.is_empty() || !self.backend.is_empty();
        if !is_pool && (self.listen != Self::default().listen || !self.unix_sockets.is_empty()) {
            let what = "and unix-sockets of [redis] itself need a [[redis.backend]]; write them \
                        below [[redis.pool]]";
            return wrong("listen", what);
        }
        let mut names = HashSet::new();
        for (name, pool) in self.pools() {
            let at = |error: SettingsError| match name.as_str() {
                MAIN => error,
                name => SettingsError { at: format!("pool {name:?} {}", error.at), ..error },
            };
            pool.validate_pool().map_err(at)?;
            if name.is_empty() || !names.insert(name.clone()) {
                return wrong(format!("pool {name:?}"), "needs a name that no other has");
            }
        }
        Ok(())
    }

    fn validate_pool(&self) -> Checked {
        self.validate_listeners()?;
        self.validate_limits()?;
        self.validate_users()?;
        self.validate_commands()?;
        self.validate_backends()
    }

    fn validate_listeners(&self) -> Checked {
        if self.listen.is_empty() && self.unix_sockets.is_empty() {
            return wrong("listen", "needs an address, as \"127.0.0.1:6379\", or unix-sockets");
        }
        if unix::mode(&self.unix_socket_mode).is_none() {
            let what = format!("{:?} is not an octal mode; write \"0770\"", self.unix_socket_mode);
            return wrong("unix-socket-mode", what);
        }
        if let Some(path) = self.unix_sockets.iter().find(|path| !path.is_absolute()) {
            let what = format!("{path:?} must begin with /, as \"/run/weir/redis.sock\"");
            return wrong("unix-sockets", what);
        }
        let beyond = self.listen.iter().find(|at| !at.ip().to_canonical().is_loopback());
        if let (Some(at), None, false) = (beyond, &self.tls, self.allow_cleartext) {
            let what = format!(
                "{at} is reached from beyond this machine: set [redis.tls], or allow-cleartext"
            );
            return wrong("listen", what);
        }
        Ok(())
    }

    fn validate_limits(&self) -> Checked {
        if self.hash_tag.is_some() && self.tag().is_none() {
            return wrong("hash-tag", "needs two characters, as \"{}\"");
        }
        let counts = [
            ("max-connections", self.max_connections),
            ("lanes", self.lanes),
            ("lane-depth", self.lane_depth),
            ("databases", self.databases as usize),
            ("max-subscriptions", self.max_subscriptions),
            ("user-connections", self.user_connections),
        ];
        if let Some((at, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return wrong(at, "must be at least 1");
        }
        if self.database >= self.databases {
            return wrong("database", "must be less than databases: they count from 0");
        }
        if self.eject.as_ref().is_some_and(|eject| eject.failures == 0) {
            return wrong("eject.failures", "must be at least 1");
        }
        if self.pool_size <= self.lanes {
            return wrong("pool-size", "must be more than lanes: they count, too");
        }
        if self.timeout.get().is_zero() {
            return wrong("timeout", "must not be 0; write \"5s\"");
        }
        if self.max_replica_lag.get().is_zero() {
            return wrong("max-replica-lag", "must not be 0; write \"10s\"");
        }
        if self.max_command.bytes() < 64 << 10 {
            return wrong("max-command", "must be at least 64KiB");
        }
        if self.max_memory < self.max_command {
            return wrong("max-memory", "must not be less than max-command");
        }
        if self.max_waiting.bytes() < 64 << 10 || self.max_unread.bytes() < 64 << 10 {
            return wrong("max-waiting", "and max-unread must be at least 64KiB");
        }
        Ok(())
    }

    fn validate_users(&self) -> Checked {
        let mut names = HashSet::new();
        for user in &self.user {
            let at = format!("user {:?}", user.name);
            if user.name.is_empty() || user.name.contains(char::is_whitespace) {
                return wrong(at, "a name has no spaces, and is not empty");
            }
            if !names.insert(&user.name) {
                return wrong(at, "is there twice");
            }
            if self.passes() && !user.admin {
                let what = "with auth = \"pass\" the servers know their users: leave it out, or \
                            write admin = true for one of Weir's own";
                return wrong(at, what);
            }
            if self.passes() && user.name == "default" {
                let what = "with auth = \"pass\" a password without a name is for the servers: \
                            take another name for Weir's own administrator";
                return wrong(at, what);
            }
            match (&user.password_sha256, user.password.is_empty()) {
                (None, true) => return wrong(at, "needs password or password-sha256"),
                (Some(_), false) => return wrong(at, "needs one of password, password-sha256"),
                _ => {}
            }
            if user.digest().is_none() {
                return wrong(at, "password-sha256 has 64 hexadecimal digits");
            }
            if user.backend_user.is_some() && !user.has_backend_login() {
                return wrong(at, "backend-user needs backend-password or backend-password-file");
            }
            if !user.backend_password.is_empty() && user.backend_password_file.is_some() {
                return wrong(at, "needs one of backend-password, backend-password-file");
            }
        }
        Ok(())
    }

    fn validate_commands(&self) -> Checked {
        let mut names = HashSet::new();
        for command in &self.command {
            let (at, name) = (format!("command {:?}", command.name), command.name.as_bytes());
            if name.is_empty() || name.len() > COMMAND_BYTES_MAX {
                return wrong(at, format!("a name has 1 to {COMMAND_BYTES_MAX} bytes"));
            }
            if !name.iter().all(u8::is_ascii_graphic) {
                return wrong(at, "a name has no spaces, and letters of ASCII only");
            }
            if commands::find(name).is_some() {
                return wrong(at, "Weir knows it; what it does with it cannot be changed");
            }
            if !names.insert(name.to_ascii_uppercase()) {
                return wrong(at, "is there twice");
            }
            if command.key_step == 0 {
                return wrong(at, "key-step must be at least 1");
            }
        }
        Ok(())
    }

    /// What a Cluster decides by itself.
    fn validate_cluster(&self) -> Checked {
        if self.eject.is_some() {
            return wrong("eject", "is for rings: a Cluster itself gives keys to other nodes");
        }
        if self.hash_tag.is_some() {
            return wrong("hash-tag", "a Cluster has its own, {}; leave it out");
        }
        if self.database != 0 {
            return wrong("database", "a Cluster has database 0 only");
        }
        let is_socket =
            |url: &str| read_address(url).is_ok_and(|reached| reached.address.host().is_none());
        if let Some(backend) = self.backend.iter().find(|of| is_socket(&of.url)) {
            let what = "a node of a Cluster is reached by TCP; write redis://host:port";
            return wrong(format!("backend {:?}", backend.name), what);
        }
        Ok(())
    }

    fn validate_backends(&self) -> Checked {
        if self.backend.is_empty() {
            return wrong("backend", "there is none; add [[redis.backend]] with name and url");
        }
        if self.is_cluster() {
            self.validate_cluster()?;
        }
        let (mut names, knows_users) = (HashSet::new(), self.servers_know_users());
        for backend in &self.backend {
            let at = format!("backend {:?}", backend.name);
            if backend.name.is_empty() || !names.insert(&backend.name) {
                return wrong(at, "needs a name that no other has");
            }
            if backend.weight == 0 {
                return wrong(at, "weight must be at least 1");
            }
            if backend.sentinel.is_some() && self.is_cluster() {
                return wrong(at, "sentinel is not for a Cluster, which decides by itself");
            }
            let tells = backend.tells_password() || knows_users;
            let what = if knows_users { "users' passwords" } else { "its password" };
            backend.validate(&at, what, self.allow_cleartext || !tells)?;
        }
        Ok(())
    }

    /// The mode of the Unix sockets' files.
    pub fn unix_mode(&self) -> u32 {
        unix::mode(&self.unix_socket_mode).unwrap_or(0o777)
    }
}

/// Whether what is sent there stays on this machine.
pub fn is_of_this_machine(host: &str) -> bool {
    let ip = host.parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// What all names of this machine have for a host.
const HERE: &str = "localhost";

/// The machine that a host's name stands for: all names of this one are one; so is no name, as of a
/// Unix socket.
pub fn machine(host: Option<&str>) -> &str {
    host.filter(|host| !is_of_this_machine(host)).unwrap_or(HERE)
}
