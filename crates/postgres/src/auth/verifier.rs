//! What a password is checked against.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};

use super::derivation::KEY_BYTES;
use super::{Credentials, Derivation, Keys, Kind, Secret, md5};

/// Bytes of a salt that Weir makes, as PostgreSQL's.
pub(super) const SALT_BYTES: usize = 16;
/// Iterations of a verifier that Weir makes, as PostgreSQL's.
pub(super) const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);

/// A password, or what is kept in its place (`pg_authid.rolpassword`).
#[derive(Clone, Debug)]
pub enum Verifier {
    /// `SCRAM-SHA-256$iterations:salt$stored:server`.
    Scram(ScramVerifier),
    /// `md5` and 32 hexadecimal digits.
    Md5(Md5Verifier),
    /// The password itself, unhashed.
    Plain(PlainVerifier),
}

impl Verifier {
    /// Reads a stored password as PostgreSQL's `get_password_type` does: what is neither of the two
    /// forms is the password itself.
    pub fn parse(stored: &str) -> Self {
        if let Some(scram) = ScramVerifier::parse(stored) {
            Self::Scram(scram)
        } else if let Some(md5) = Md5Verifier::parse(stored) {
            Self::Md5(md5)
        } else {
            Self::Plain(PlainVerifier::new(Secret::from(stored)))
        }
    }

    /// What it logs in with at a server, without the client's help; a SCRAM verifier can't.
    pub fn credentials(&self) -> Option<Credentials> {
        match self {
            Self::Scram(_) => None,
            Self::Md5(verifier) => Some(Credentials::Md5(verifier.clone())),
            Self::Plain(verifier) => Some(Credentials::Password(verifier.secret.clone())),
        }
    }

    /// What shows of it in what its user is asked.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Plain(_) => Kind::Plain,
            Self::Md5(_) => Kind::Md5,
            Self::Scram(ScramVerifier { iterations, salt, .. }) => {
                Kind::Scram { iterations: *iterations, salt_bytes: salt.len() }
            }
        }
    }
}

/// What PostgreSQL stores for a SCRAM-SHA-256 login (RFC 5802, RFC 7677).
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    /// How often the hash is repeated.
    pub iterations: NonZeroU32,
    /// What makes equal passwords differ.
    pub salt: Box<[u8]>,
    pub(super) stored_key: [u8; KEY_BYTES],
    pub(super) server_key: [u8; KEY_BYTES],
}

impl ScramVerifier {
    /// From its text; `None` where it is not one (PostgreSQL's `parse_scram_secret`).
    pub fn parse(stored: &str) -> Option<Self> {
        let (parameters, keys) = stored.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        Some(Self {
            iterations: iterations
                .parse()
                .ok()
                .filter(|i: &NonZeroU32| i.get() <= i32::MAX as u32)?,
            salt: STANDARD.decode(salt).ok()?.into(),
            stored_key: STANDARD.decode(stored_key).ok()?.try_into().ok()?,
            server_key: STANDARD.decode(server_key).ok()?.try_into().ok()?,
        })
    }

    /// For a password, under a new salt. Slow as [`Derivation::run`]. `None`: the machine gives no
    /// random bytes.
    pub fn make(password: &Secret) -> Option<Self> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt).ok()?;
        let keys = Derivation::new(password.clone(), &salt, ITERATIONS.get()).run();
        Some(Self::of_keys(&keys, &salt, ITERATIONS.get()))
    }

    /// From keys that a [`Derivation`] gave for this salt.
    pub(super) fn of_keys(keys: &Keys, salt: &[u8], iterations: u32) -> Self {
        let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        let Keys { stored_key, server_key, .. } = *keys;
        Self { iterations, salt: salt.into(), stored_key, server_key }
    }
}

impl fmt::Display for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (iterations, salt) = (self.iterations, STANDARD.encode(&self.salt));
        let (stored, server) = (STANDARD.encode(self.stored_key), STANDARD.encode(self.server_key));
        write!(f, "SCRAM-SHA-256${iterations}:{salt}${stored}:{server}")
    }
}

/// The keys are not shown: with the stored one a password can be tried at leisure.
impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramVerifier({} iterations, ***)", self.iterations)
    }
}

/// The md5 digest of password and user's name, in hexadecimal digits. It is as good as the
/// password where md5 is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Md5Verifier {
    pub(super) digest: Secret,
}

impl Md5Verifier {
    /// From `md5` and 32 digits.
    pub fn parse(stored: &str) -> Option<Self> {
        let digest = stored.strip_prefix("md5").filter(|digest| digest.len() == 32)?;
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        digest.bytes().all(is_digit).then(|| Self { digest: Secret::from(digest) })
    }

    /// For a user's password.
    pub fn make(user: &str, password: &Secret) -> Self {
        Self { digest: Secret::new(md5::hex(&[password.expose(), user.as_bytes()])) }
    }
}

/// A password that is known as it is.
#[derive(Clone, Debug)]
pub struct PlainVerifier {
    pub(super) secret: Secret,
}

impl PlainVerifier {
    pub fn new(secret: Secret) -> Self {
        Self { secret }
    }

    /// What it becomes for SCRAM under a salt.
    pub(super) fn derivation(&self, salt: &[u8]) -> Derivation {
        Derivation::new(self.secret.clone(), salt, ITERATIONS.get())
    }
}
