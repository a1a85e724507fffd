//! From a password to SCRAM's keys: the one slow computation, and what saves doing it twice.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::num::NonZeroU32;

use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

use super::Secret;
use super::saslprep::saslprep;

/// Bytes of each of SCRAM-SHA-256's keys.
pub(super) const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// The most iterations that are computed; about a second's work.
pub(super) const ITERATIONS_MAX: u32 = 2_000_000;

/// What a password becomes under a salt (RFC 5802, section 3).
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// Proves that a client knows the password.
    pub(super) client_key: [u8; KEY_BYTES],
    /// Its digest, which a server keeps.
    pub(super) stored_key: [u8; KEY_BYTES],
    /// Proves that a server knows the verifier.
    pub(super) server_key: [u8; KEY_BYTES],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(***)")
    }
}

/// Keys to be computed. [`Derivation::run`] is the slow call: two milliseconds for the usual 4096
/// iterations, in proportion for more. It is `Send`, so it can run away from a worker's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derivation {
    password: Secret,
    salt: Box<[u8]>,
    iterations: NonZeroU32,
}

impl Derivation {
    /// `iterations` below one count as one.
    pub fn new(password: Secret, salt: &[u8], iterations: u32) -> Self {
        let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        Self { password, salt: salt.into(), iterations }
    }

    /// Computes the keys. Slow.
    pub fn run(&self) -> Keys {
        let mut salted = [0; KEY_BYTES];
        let password = saslprep(self.password.expose());
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, self.iterations, &self.salt, &password, &mut salted);
        let client_key = hmac_sha256(&salted, b"Client Key");
        let server_key = hmac_sha256(&salted, b"Server Key");
        Keys { client_key, stored_key: sha256(&client_key), server_key }
    }
}

pub(super) fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

pub(super) fn sha256(data: &[u8]) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    bytes
}

/// Keys computed before, shared by all workers. Logging in is rare beside statements, so a lock
/// will do.
#[derive(Debug)]
pub struct KeyCache {
    /// Passwords themselves are not kept: entries are known by a digest under a key of this
    /// process.
    key: hmac::Key,
    max: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    keys: HashMap<[u8; KEY_BYTES], Keys>,
    /// The keys of `keys`, oldest first.
    order: VecDeque<[u8; KEY_BYTES]>,
}

impl KeyCache {
    /// Keeps keys of `max` passwords; the oldest goes first. `None`: the machine gives no random
    /// bytes.
    pub fn new(max: usize) -> Option<Self> {
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).ok()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Some(Self { key, max: max.max(1), entries: Mutex::default() })
    }

    /// The keys, where they were computed before.
    pub fn get(&self, derivation: &Derivation) -> Option<Keys> {
        let id = self.id(derivation);
        let entries = self.entries.lock();
        entries.keys.get(&id).cloned()
    }

    /// Keeps what [`Derivation::run`] gave.
    pub fn put(&self, derivation: &Derivation, keys: &Keys) {
        let id = self.id(derivation);
        let mut entries = self.entries.lock();
        if entries.keys.insert(id, keys.clone()).is_none() {
            entries.order.push_back(id);
        }
        if entries.order.len() > self.max
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.keys.remove(&oldest);
        }
    }

    fn id(&self, derivation: &Derivation) -> [u8; KEY_BYTES] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&derivation.iterations.get().to_be_bytes());
        context.update(&(derivation.salt.len() as u64).to_be_bytes());
        context.update(&derivation.salt);
        context.update(derivation.password.expose());
        let mut id = [0; KEY_BYTES];
        id.copy_from_slice(context.sign().as_ref());
        id
    }
}
