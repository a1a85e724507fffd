//! What of the settings has no effect before a restart.

use super::{BackendSettings, MAIN, Settings, read_address};

impl Settings {
    /// The keys of a pool that differ and have no effect before a restart. Certificates of
    /// clients' TLS are read again.
    pub fn fixed(&self, pool: &str, wanted: &Self) -> Vec<String> {
        let at = match pool {
            MAIN => format!("{MAIN}."),
            pool => format!("{MAIN}.pool {pool:?} "),
        };
        let is_other = |what: &str, differs: bool| differs.then(|| format!("{at}{what}"));
        let keys = [
            is_other("unix-socket-mode", self.unix_socket_mode != wanted.unix_socket_mode),
            is_other("tls", self.tls != wanted.tls),
            is_other("idle-timeout", self.idle_timeout != wanted.idle_timeout),
            is_other("read-timeout", self.read_timeout != wanted.read_timeout),
            is_other("write-timeout", self.write_timeout != wanted.write_timeout),
            is_other("auth", self.auth != wanted.auth),
            is_other(
                "distribution, to a Cluster or from one,",
                self.is_cluster() != wanted.is_cluster(),
            ),
            is_other(
                "backend, by how the nodes of a Cluster are logged in to,",
                self.has_other_login(wanted),
            ),
            is_other(
                "user, to the first with a backend-password in a Cluster,",
                self.has_other_users(wanted),
            ),
        ];
        keys.into_iter().flatten().collect()
    }

    /// Puts what has no effect before a restart back to what runs.
    pub fn keep_fixed(&self, wanted: &mut Self) {
        wanted.unix_socket_mode.clone_from(&self.unix_socket_mode);
        wanted.tls.clone_from(&self.tls);
        wanted.idle_timeout = self.idle_timeout;
        wanted.read_timeout = self.read_timeout;
        wanted.write_timeout = self.write_timeout;
        if wanted.auth != self.auth {
            // Without users, who are not wanted any more, everybody would be let in.
            wanted.auth = self.auth;
            wanted.user.clone_from(&self.user);
        }
        if self.is_cluster() != wanted.is_cluster() {
            wanted.distribution = self.distribution;
            wanted.hash = self.hash;
            wanted.hash_tag.clone_from(&self.hash_tag);
            wanted.backend.clone_from(&self.backend);
        }
        if self.has_other_login(wanted) {
            wanted.backend.clone_from(&self.backend);
        }
        if self.has_other_users(wanted) {
            wanted.user.clone_from(&self.user);
        }
    }

    /// Whether the nodes of a Cluster, none of which was, would be told passwords of users.
    fn has_other_users(&self, wanted: &Self) -> bool {
        self.is_cluster() && !self.servers_know_users() && wanted.servers_know_users()
    }

    /// Whether the nodes of a Cluster are logged in to otherwise than before: as the first.
    fn has_other_login(&self, wanted: &Self) -> bool {
        let login = |of: &BackendSettings| {
            let is_tls = read_address(&of.url).map(|of| of.tls).unwrap_or_default();
            let (user, password) = (of.user.clone(), of.password.clone());
            let files = (of.password_file.clone(), of.ca.clone());
            (is_tls, user, password, files, of.connect_timeout)
        };
        let of = |settings: &Self| settings.backend.first().map(login);
        self.is_cluster() && wanted.is_cluster() && of(self) != of(wanted)
    }
}

impl BackendSettings {
    /// Whether it is reached and logged in to as the other one is.
    pub fn is_reached_as(&self, other: &Self) -> bool {
        let (weight, host) = (other.weight, other.host.clone());
        Self { weight, host, ..self.clone() } == *other
    }
}
