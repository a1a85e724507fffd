//! Who may log in, and as what.

use std::collections::HashMap;

use subtle::ConstantTimeEq as _;

use crate::settings::{BackendLogin, ReadFrom, UserSettings};

/// Whom a password without a name is for.
pub const DEFAULT: &[u8] = b"default";

/// Who a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// It may use commands that show or touch what is everybody's.
    pub admin: bool,
    /// It reads from replicas.
    pub reads_replicas: bool,
}

/// A user of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Who its clients are.
    pub identity: Identity,
    /// As whom they ask servers; `None`: as Weir.
    pub backend: Option<BackendLogin>,
}

/// The users of the configuration.
#[derive(Debug, Default)]
pub struct Users {
    /// By name, with the digests of their passwords.
    all: HashMap<Box<[u8]>, ([u8; 32], User)>,
    /// Clients read from replicas where there are no users.
    reads_replicas: bool,
    /// Servers know all others.
    passes: bool,
}

impl Users {
    /// Those of the settings, which were found to be right.
    ///
    /// # Errors
    /// The file of a password can't be read.
    pub fn new(
        settings: &[UserSettings],
        read_from: ReadFrom,
        passes: bool,
    ) -> Result<Self, String> {
        let mut all = HashMap::new();
        for of in settings {
            let backend =
                of.backend_login().map_err(|error| format!("user {:?}: {error}", of.name))?;
            let reads_replicas = of.read_from.unwrap_or(read_from) == ReadFrom::Replicas;
            let identity = Identity { admin: of.admin, reads_replicas };
            if let Some(digest) = of.digest() {
                all.insert(of.name.as_bytes().into(), (digest, User { identity, backend }));
            }
        }
        Ok(Self { all, reads_replicas: read_from == ReadFrom::Replicas, passes })
    }

    /// Whether servers check passwords.
    pub fn passes(&self) -> bool {
        self.passes
    }

    /// Whether a client may be another user of the servers once it logs in.
    pub fn servers_know_users(&self) -> bool {
        self.passes || self.all.values().any(|(_, user)| user.backend.is_some())
    }

    /// Whether it is for servers to say who has this name: it is none of Weir's own.
    pub fn is_passed_on(&self, name: &[u8]) -> bool {
        self.passes && !self.all.contains_key(name)
    }

    /// Who a client is whom a server has let in.
    pub fn of_server(&self) -> Identity {
        Identity { admin: false, reads_replicas: self.reads_replicas }
    }

    /// Who a client is that has not logged in; `None` where it must.
    pub fn anonymous(&self) -> Option<Identity> {
        (self.all.is_empty() && !self.passes).then(|| self.of_server())
    }

    /// Who has this name and password. An unknown name takes as long as a wrong password.
    pub fn log_in(&self, name: &[u8], password: &[u8]) -> Option<User> {
        let digest = ring::digest::digest(&ring::digest::SHA256, password);
        let known = self.all.get(name);
        let wanted = known.map_or([0; 32], |(wanted, _)| *wanted);
        let is_right = bool::from(digest.as_ref().ct_eq(&wanted));
        known.filter(|_| is_right).map(|(_, user)| user.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_known_by_name_and_password() {
        let text = "name = \"ann\"\npassword = \"secret\"\nadmin = true";
        let users = |more: &str, read_from, passes| {
            let of = toml::from_str(&format!("{text}\n{more}")).unwrap();
            Users::new(&[of], read_from, passes).unwrap()
        };
        let is_in = |users: &Users, identity: Identity| {
            let wanted = User { identity, backend: None };
            assert_eq!(users.log_in(b"ann", b"secret"), Some(wanted));
        };
        let all = users("", ReadFrom::Replicas, false);
        let ann = Identity { admin: true, reads_replicas: true };
        is_in(&all, ann);
        let other = users("read-from = \"primary\"", ReadFrom::Replicas, true);
        is_in(&other, Identity { reads_replicas: false, ..ann });
        for (name, password) in [("ann", "wrong"), ("ann", ""), ("bob", "secret"), ("", "")] {
            assert_eq!(all.log_in(name.as_bytes(), password.as_bytes()), None);
        }
        assert_eq!(all.anonymous(), None);
        let nobody = Identity { admin: false, reads_replicas: false };
        assert_eq!(Users::default().anonymous(), Some(nobody));
        assert!(!all.is_passed_on(b"bob") && !Users::default().is_passed_on(b"bob"));
        assert!(other.is_passed_on(b"bob") && !other.is_passed_on(b"ann"));
        let nobody_yet = Users::new(&[], ReadFrom::Primary, true).unwrap();
        assert_eq!((nobody_yet.anonymous(), nobody_yet.of_server()), (None, nobody));
        assert!(nobody_yet.servers_know_users() && !all.servers_know_users());
        let mapped =
            users("backend-user = \"b\"\nbackend-password = \"p\"", ReadFrom::Primary, false);
        let backend = mapped.log_in(b"ann", b"secret").and_then(|user| user.backend).unwrap();
        assert_eq!((backend.user.as_deref(), backend.password.reveal()), (Some("b"), "p"));
        assert!(mapped.servers_know_users());
    }
}
