//! Who may log in, and as what.

use std::collections::HashMap;

use subtle::ConstantTimeEq as _;

use crate::settings::{ReadFrom, UserSettings};

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

/// The users of the configuration.
#[derive(Debug, Default)]
pub struct Users {
    all: HashMap<Box<[u8]>, ([u8; 32], Identity)>,
    /// Clients read from replicas where there are no users.
    reads_replicas: bool,
    /// Servers know all others.
    passes: bool,
}

impl Users {
    /// Those of the settings, which were found to be right.
    pub fn new(settings: &[UserSettings], read_from: ReadFrom, passes: bool) -> Self {
        let user = |of: &UserSettings| {
            let name = of.name.as_bytes().into();
            let reads_replicas = of.read_from.unwrap_or(read_from) == ReadFrom::Replicas;
            Some((name, (of.digest()?, Identity { admin: of.admin, reads_replicas })))
        };
        let all = settings.iter().filter_map(user).collect();
        Self { all, reads_replicas: read_from == ReadFrom::Replicas, passes }
    }

    /// Whether servers know users.
    pub fn passes(&self) -> bool {
        self.passes
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
    pub fn log_in(&self, name: &[u8], password: &[u8]) -> Option<Identity> {
        let digest = ring::digest::digest(&ring::digest::SHA256, password);
        let known = self.all.get(name);
        let wanted = known.map_or([0; 32], |(wanted, _)| *wanted);
        let is_right = bool::from(digest.as_ref().ct_eq(&wanted));
        known.filter(|_| is_right).map(|(_, identity)| *identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_known_by_name_and_password() {
        let text = "name = \"ann\"\npassword = \"secret\"\nadmin = true";
        let user = |more: &str| toml::from_str(&format!("{text}\n{more}")).unwrap();
        let users = Users::new(&[user("")], ReadFrom::Replicas, false);
        let ann = Identity { admin: true, reads_replicas: true };
        assert_eq!(users.log_in(b"ann", b"secret"), Some(ann));
        let other = Users::new(&[user("read-from = \"primary\"")], ReadFrom::Replicas, true);
        let ann = Identity { reads_replicas: false, ..ann };
        assert_eq!(other.log_in(b"ann", b"secret"), Some(ann));
        for (name, password) in [("ann", "wrong"), ("ann", ""), ("bob", "secret"), ("", "")] {
            assert_eq!(users.log_in(name.as_bytes(), password.as_bytes()), None);
        }
        assert_eq!(users.anonymous(), None);
        let nobody = Identity { admin: false, reads_replicas: false };
        assert_eq!(Users::default().anonymous(), Some(nobody));
        assert!(!users.is_passed_on(b"bob") && !Users::default().is_passed_on(b"bob"));
        assert!(other.is_passed_on(b"bob") && !other.is_passed_on(b"ann"));
        let nobody_yet = Users::new(&[], ReadFrom::Primary, true);
        assert_eq!((nobody_yet.anonymous(), nobody_yet.of_server()), (None, nobody));
    }
}
