//! What an unknown user is asked, so that nobody can tell.
//!
//! An unknown name is taken for a user of the kind that its name draws, each kind as often as the
//! file's users have it: whoever asks for a name learns nothing from the method, the iterations or
//! the length of the salt. All of it is a function of a secret and the name, so it is the same each
//! time. The salts of users whose password is known as it is are made here as well: they change
//! when those of unknown names do.

use std::num::NonZeroU32;

use ring::hmac;

use super::derivation::{KEY_BYTES, hmac_sha256};
use super::verifier::{ITERATIONS, SALT_BYTES};
use super::{Md5Verifier, ScramVerifier, Secret};

/// What is kept of a user's password, as far as it shows in what the user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The password itself, unhashed.
    Plain,
    /// An md5 digest, as PostgreSQL stores it.
    Md5,
    /// A SCRAM-SHA-256 verifier, of this shape.
    Scram {
        /// How often its hash is repeated.
        iterations: NonZeroU32,
        /// Bytes of its salt.
        salt_bytes: usize,
    },
}

impl Kind {
    /// A SCRAM verifier as PostgreSQL and Weir make them.
    pub const fn scram() -> Self {
        Self::Scram { iterations: ITERATIONS, salt_bytes: SALT_BYTES }
    }

    /// A SCRAM verifier of so many iterations, as a server makes them.
    pub fn scram_of(iterations: NonZeroU32) -> Self {
        Self::Scram { iterations, salt_bytes: SALT_BYTES }
    }
}

/// Makes up what unknown users are asked, and salts.
#[derive(Clone, Debug)]
pub struct Mock {
    key: hmac::Key,
    /// How many users there are of each kind.
    kinds: Vec<(Kind, u64)>,
}

impl Mock {
    /// `secret`: bytes that nobody can guess, and that stay the same for as long as possible. A
    /// salt that changes while those of SCRAM verifiers don't says that it was made up; and one
    /// made from a password would let whoever asks for it try passwords at leisure.
    pub fn new(secret: &[u8]) -> Self {
        let key = hmac_sha256(b"weir mock salts", secret);
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key), kinds: Vec::new() }
    }

    /// Unknown users are to look like users of these kinds.
    #[must_use]
    pub fn like(mut self, kinds: impl IntoIterator<Item = Kind>) -> Self {
        for kind in kinds {
            match self.kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => self.kinds.push((kind, 1)),
            }
        }
        self.kinds.sort_unstable();
        self
    }

    /// What is kept for a user that is unknown, so to speak. `there`: what a server keeps of its
    /// new users' passwords, where users come from one; it counts as half of all.
    pub fn kind(&self, user: &str, there: Option<Kind>) -> Kind {
        let all = self.kinds.iter().map(|(_, count)| count).sum::<u64>().max(1);
        let there = there.map(|kind| (kind, all));
        let kinds = self.kinds.iter().copied().chain(there);
        self.draw(b"kind:", user, kinds).unwrap_or(Kind::scram())
    }

    /// A verifier of that kind that nobody's password fits; what is no SCRAM verifier is taken for
    /// one of those that can be asked by SCRAM.
    pub(super) fn verifier(&self, user: &str, kind: Kind) -> ScramVerifier {
        let with_scram = || self.kinds.iter().copied().filter(|(kind, _)| *kind != Kind::Md5);
        let kind = match kind {
            Kind::Md5 => self.draw(b"scram:", user, with_scram()).unwrap_or(Kind::scram()),
            kind => kind,
        };
        let (iterations, salt_bytes) = match kind {
            Kind::Scram { iterations, salt_bytes } => (iterations, salt_bytes),
            Kind::Plain | Kind::Md5 => (ITERATIONS, SALT_BYTES),
        };
        ScramVerifier {
            iterations,
            salt: self.long_salt(user, salt_bytes),
            stored_key: self.bytes(b"stored key:", user),
            server_key: self.bytes(b"server key:", user),
        }
    }

    /// A digest that nobody's password has.
    pub(super) fn digest(&self, user: &str) -> Md5Verifier {
        Md5Verifier::make(user, &Secret::new(self.bytes(b"digest:", user)))
    }

    /// The salt of a user whose password is known as it is.
    pub(super) fn salt(&self, user: &str) -> Box<[u8]> {
        self.long_salt(user, SALT_BYTES)
    }

    /// One of `all`, drawn by the user's name, each as often as it counts.
    pub fn pick<'t, T>(&self, user: &str, all: &'t [T]) -> Option<&'t T> {
        let drawn = self.draw(b"pick:", user, (0..all.len()).map(|at| (at, 1)))?;
        all.get(drawn)
    }

    fn draw<T>(
        &self,
        what: &[u8],
        user: &str,
        of: impl Iterator<Item = (T, u64)> + Clone,
    ) -> Option<T> {
        let all: u64 = of.clone().map(|(_, count)| count).sum();
        let mut drawn = [0; 8];
        drawn.copy_from_slice(&self.bytes(what, user)[..8]);
        let mut left = u64::from_be_bytes(drawn).checked_rem(all)?;
        for (kind, count) in of {
            match left.checked_sub(count) {
                None => return Some(kind),
                Some(rest) => left = rest,
            }
        }
        None
    }

    fn long_salt(&self, user: &str, bytes: usize) -> Box<[u8]> {
        let mut salt = Vec::with_capacity(bytes + KEY_BYTES);
        for part in 0..bytes.div_ceil(KEY_BYTES) {
            salt.extend_from_slice(&self.bytes(format!("salt {part}:").as_bytes(), user));
        }
        salt.truncate(bytes);
        salt.into()
    }

    fn bytes(&self, what: &[u8], user: &str) -> [u8; KEY_BYTES] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(what);
        context.update(user.as_bytes());
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(context.sign().as_ref());
        bytes
    }
}
