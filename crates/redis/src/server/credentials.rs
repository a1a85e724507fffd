//! As whom a connection to a server is logged in.

use std::fmt;
use std::sync::Arc;

use ring::hmac;
use zeroize::Zeroizing;

use crate::users::DEFAULT;

/// A user's name and password, or a password alone. Nothing shows the password, and the memory that
/// it is kept in is overwritten at its end.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(Arc<[Zeroizing<Vec<u8>>]>);

/// As whom a connection is logged in.
#[derive(Debug, Clone)]
pub enum Login {
    /// As the settings have it for Weir.
    Own,
    /// As nobody: the server's user `default` then has to be without a password.
    Nobody,
    /// As a client that has sent these.
    As(Credentials),
    /// As the user that the settings have for a client.
    Mapped(Credentials),
}

impl Credentials {
    /// What `AUTH` was sent with. A password alone is sent on alone: older servers know no users.
    pub fn new(user: Option<&[u8]>, password: &[u8]) -> Self {
        let words = user.into_iter().chain([password]);
        Self(words.map(|word| Zeroizing::new(word.to_vec())).collect())
    }

    /// The user's name, that of `default` included.
    pub fn name(&self) -> &[u8] {
        self.user().unwrap_or(DEFAULT)
    }

    /// The user's name, where one is sent.
    pub(super) fn user(&self) -> Option<&[u8]> {
        match &*self.0 {
            [name, _] => Some(name),
            _ => None,
        }
    }

    /// `AUTH` and what is sent with it.
    pub(super) fn command(&self) -> Vec<&[u8]> {
        let words = self.0.iter().map(|word| word.as_slice());
        std::iter::once(&b"AUTH"[..]).chain(words).collect()
    }

    /// What these are known by, to whoever has the key: the same for the same words only.
    pub fn digest(&self, key: &hmac::Key) -> [u8; 32] {
        let mut context = hmac::Context::with_key(key);
        for word in self.0.iter() {
            context.update(&(word.len() as u64).to_le_bytes());
            context.update(word);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(self.name());
        f.debug_struct("Credentials").field("name", &name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_have_the_same_digest_and_no_others_and_no_password_is_shown() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        let of = |user: Option<&str>, password: &str| {
            Credentials::new(user.map(str::as_bytes), password.as_bytes())
        };
        let ann = of(Some("ann"), "secret");
        assert_eq!(ann.digest(&key), of(Some("ann"), "secret").digest(&key));
        for (user, password) in
            [(Some("ann"), "secre"), (Some("anns"), "ecret"), (None, "secret"), (None, "annsecret")]
        {
            assert_ne!(ann.digest(&key), of(user, password).digest(&key), "{user:?} {password}");
        }
        assert_eq!((ann.name(), of(None, "x").name()), (&b"ann"[..], DEFAULT));
        let shown = format!("{ann:?} {:?}", Login::As(ann.clone()));
        assert!(shown.contains("ann") && !shown.contains("secret"), "{shown}");
    }
}
