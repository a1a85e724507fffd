//! Who may log in, and as what.

use std::collections::HashMap;

use subtle::ConstantTimeEq as _;

use crate::settings::UserSettings;

/// Whom a password without a name is for.
pub const DEFAULT: &[u8] = b"default";

/// Who a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// It may use commands that show or touch what is everybody's.
    pub admin: bool,
}

/// The users of the configuration.
#[derive(Debug, Default)]
pub struct Users(HashMap<Box<[u8]>, ([u8; 32], Identity)>);

impl Users {
    /// Those of the settings, which were found to be right.
    pub fn new(settings: &[UserSettings]) -> Self {
        let user = |of: &UserSettings| {
            let name = of.name.as_bytes().into();
            Some((name, (of.digest()?, Identity { admin: of.admin })))
        };
        Self(settings.iter().filter_map(user).collect())
    }

    /// Who a client is that has not logged in; `None` where it must.
    pub fn anonymous(&self) -> Option<Identity> {
        self.0.is_empty().then_some(Identity { admin: false })
    }

    /// Who has this name and password. An unknown name takes as long as a wrong password.
    pub fn log_in(&self, name: &[u8], password: &[u8]) -> Option<Identity> {
        let digest = ring::digest::digest(&ring::digest::SHA256, password);
        let known = self.0.get(name);
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
        let users = Users::new(&[toml::from_str(text).unwrap()]);
        assert_eq!(users.log_in(b"ann", b"secret"), Some(Identity { admin: true }));
        for (name, password) in [("ann", "wrong"), ("ann", ""), ("bob", "secret"), ("", "")] {
            assert_eq!(users.log_in(name.as_bytes(), password.as_bytes()), None);
        }
        assert_eq!(users.anonymous(), None);
        assert_eq!(Users::default().anonymous(), Some(Identity { admin: false }));
    }
}
