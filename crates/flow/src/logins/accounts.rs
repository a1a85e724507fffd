//! Users of the configuration whose passwords are kept as argon2 hashes, asked at every request.
//!
//! A name and password that were right once are remembered, as a digest, so that the next request
//! costs no check. A wrong password is told late, at multiples of a step and later each time it
//! comes from one address, and no sooner or later where there is no such user.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use ring::digest;
use tokio::time::{Instant, sleep_until};

use super::failures::{Failures, STEP};
use super::passwords::{Check, Passwords};

/// Verified credentials that are remembered; past that the memory starts anew.
const REMEMBERED_MAX: usize = 4096;
/// The longest name or password that may be right. A form's may be as long as a body.
const CREDENTIAL_BYTES_MAX: usize = 4096;

type Digest = [u8; 32];

/// A user as the configuration has it.
#[derive(Debug)]
pub struct Account<U> {
    /// The name that the client sends.
    pub name: String,
    /// The password's hash (PHC string format).
    pub hash: String,
    /// What the front end knows of the user.
    pub user: U,
}

/// Why nobody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLetIn {
    /// No such user, or another password. It was told late already.
    Wrong,
    /// No password can be checked now.
    Unchecked,
}

/// The users in force and the credentials found good since they came into force.
struct InForce<U> {
    users: HashMap<String, (Arc<U>, Arc<str>)>,
    remembered: ArcSwap<HashMap<Digest, Arc<U>>>,
    /// Credentials that were found bad: a client that goes on sending them costs no more checks.
    refused: Mutex<HashSet<Digest>>,
    /// Every password's hash, for names that are not there to be checked against.
    hashes: Vec<Arc<str>>,
}

/// Checks names and passwords.
pub struct Accounts<U> {
    in_force: ArcSwap<InForce<U>>,
    passwords: Passwords,
    failures: Failures,
    /// Keys the digests of remembered credentials, so that they mean nothing elsewhere.
    salt: [u8; 32],
}

impl<U> Accounts<U> {
    /// Those of the configuration; their passwords are checked on threads of their own.
    pub fn new(accounts: Vec<Account<U>>) -> Self {
        Self {
            in_force: ArcSwap::from_pointee(InForce::new(accounts)),
            passwords: Passwords::default(),
            failures: Failures::default(),
            salt: rand::random(),
        }
    }

    /// Puts other users in force; what was verified before is forgotten.
    pub fn replace(&self, accounts: Vec<Account<U>>) {
        self.in_force.store(Arc::new(InForce::new(accounts)));
    }

    /// Whether there are no users at all.
    pub fn is_empty(&self) -> bool {
        self.in_force.load().users.is_empty()
    }

    /// The user of that name, whoever asks.
    pub fn named(&self, name: &str) -> Option<Arc<U>> {
        self.in_force.load().users.get(name).map(|(user, _)| Arc::clone(user))
    }

    /// The user whose name and password were found right before.
    pub fn remembered(&self, name: &str, password: &str) -> Option<Arc<U>> {
        self.in_force.load().remembered(&self.digest(name, password))
    }

    /// The user of that name, if that is the password. `failed` hears, before the client does,
    /// what the log is to say of a failure.
    ///
    /// # Errors
    /// Nobody is let in; a wrong password is told late.
    pub async fn check(
        &self,
        name: &str,
        password: &str,
        peer: IpAddr,
        failed: impl FnOnce(&str),
    ) -> Result<Arc<U>, NotLetIn> {
        let (came, mut is_known) = (Instant::now(), false);
        // Who has a turn of their own waits for these, too, to hear that they were wrong.
        let (strangers, _) = self.passwords.strangers();
        if name.len().max(password.len()) <= CREDENTIAL_BYTES_MAX {
            let in_force = self.in_force.load_full();
            let digest = self.digest(name, password);
            if let Some(user) = in_force.remembered(&digest) {
                return Ok(user);
            }
            let user = in_force.users.get(name).cloned();
            is_known = user.is_some();
            if !in_force.is_refused(&digest) {
                let check = Check {
                    user: user.as_ref().map(|_| name.into()),
                    suspect: self.failures.is_suspect(peer),
                    digest,
                    hash: in_force.hash(user.as_ref(), &digest),
                    password: password.to_owned(),
                };
                let good = self.passwords.check(check).await.ok_or(NotLetIn::Unchecked)?;
                if let Some((user, _)) = user.filter(|_| good) {
                    in_force.remember(digest, &user);
                    return Ok(user);
                }
                in_force.refuse(digest);
            }
        }
        // Before it is told: whoever has gone by then has failed as well.
        failed(if is_known { "wrong password" } else { "there is no such user" });
        let steps = self.failures.note(peer);
        self.tell_late(came, steps, strangers).await;
        Err(NotLetIn::Wrong)
    }

    /// Waits as a wrong password does, for what else was shown and was wrong, as a token.
    pub async fn refuse_late(&self, peer: IpAddr) {
        let (came, strangers) = (Instant::now(), self.passwords.strangers().0);
        let steps = self.failures.note(peer);
        self.tell_late(came, steps, strangers).await;
    }

    /// Waits for so many steps since a request came, and for the strangers who came before it.
    async fn tell_late(&self, came: Instant, steps: u32, strangers: u64) {
        let mut at = came + STEP * steps;
        while at < Instant::now() {
            at += STEP;
        }
        sleep_until(at).await;
        while self.passwords.strangers().1 < strangers {
            at += STEP;
            sleep_until(at).await;
        }
    }

    fn digest(&self, name: &str, password: &str) -> Digest {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.salt);
        context.update(&(name.len() as u64).to_le_bytes());
        context.update(name.as_bytes());
        context.update(password.as_bytes());
        let mut digest = Digest::default();
        digest.copy_from_slice(context.finish().as_ref());
        digest
    }
}

impl<U> InForce<U> {
    fn new(accounts: Vec<Account<U>>) -> Self {
        let hashed = accounts.into_iter().map(|account| {
            let Account { name, hash, user } = account;
            (name, (Arc::new(user), Arc::<str>::from(hash)))
        });
        let users: HashMap<_, _> = hashed.collect();
        let hashes = users.values().map(|(_, hash)| Arc::clone(hash)).collect();
        Self { users, remembered: ArcSwap::default(), refused: Mutex::default(), hashes }
    }

    /// What a password is checked against: for a name that is not there what some user has, so
    /// that it takes as long.
    fn hash(&self, user: Option<&(Arc<U>, Arc<str>)>, digest: &Digest) -> Arc<str> {
        let any = usize::from(digest[0]) % self.hashes.len().max(1);
        let any = || self.hashes.get(any).cloned().unwrap_or_default();
        user.map_or_else(any, |(_, hash)| Arc::clone(hash))
    }

    fn remember(&self, digest: Digest, user: &Arc<U>) {
        self.remembered.rcu(|known| {
            let full = known.len() >= REMEMBERED_MAX;
            let mut known = if full { HashMap::new() } else { HashMap::clone(known) };
            known.insert(digest, user.clone());
            known
        });
    }

    fn refuse(&self, digest: Digest) {
        let mut refused = self.refused.lock();
        if refused.len() >= REMEMBERED_MAX {
            refused.clear();
        }
        refused.insert(digest);
    }

    fn is_refused(&self, digest: &Digest) -> bool {
        self.refused.lock().contains(digest)
    }

    /// The user whose credentials were found good before.
    fn remembered(&self, key: &Digest) -> Option<Arc<U>> {
        self.remembered.load().get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use argon2::Argon2;
    use argon2::password_hash::{PasswordHasher, SaltString};

    use super::*;

    fn accounts() -> Accounts<&'static str> {
        let salt = SaltString::encode_b64(b"saltsaltsalt").unwrap();
        let cheap = argon2::Params::new(64, 1, 1, None).unwrap();
        let argon2 = Argon2::new(Default::default(), Default::default(), cheap);
        let hash = argon2.hash_password(b"secret", &salt).unwrap().to_string();
        Accounts::new(vec![Account { name: "ann".to_owned(), hash, user: "Ann" }])
    }

    #[tokio::test]
    async fn a_good_password_is_remembered_and_forgotten_with_its_users() {
        let (accounts, peer) = (accounts(), [127, 0, 0, 1].into());
        let check = async |name, password| accounts.check(name, password, peer, |_| {}).await;
        assert!(accounts.remembered("ann", "secret").is_none());
        assert_eq!(check("ann", "secret").await.map(|user| *user), Ok("Ann"));
        assert!(accounts.remembered("ann", "secret").is_some());
        assert_eq!(check("ann", "wrong").await, Err(NotLetIn::Wrong));
        assert_eq!(check("bob", "secret").await, Err(NotLetIn::Wrong));
        accounts.replace(Vec::new());
        assert!(accounts.is_empty() && accounts.named("ann").is_none());
        assert!(accounts.remembered("ann", "secret").is_none());
    }

    #[tokio::test]
    async fn wrong_passwords_and_unknown_names_are_told_late_and_at_the_same_time() {
        let accounts = accounts();
        let long = "x".repeat(CREDENTIAL_BYTES_MAX + 1);
        let tries = [
            ("ann", "wrong"),
            ("bob", "secret"),
            ("bob", "secret"),
            ("ann", "wrong"),
            ("ann", &*long),
        ];
        for (number, (name, password)) in (0..).zip(tries) {
            let (begun, peer) = (Instant::now(), IpAddr::from([10, 0, 0, number]));
            let mut said = String::new();
            let checked = accounts.check(name, password, peer, |why| said = why.to_owned()).await;
            assert_eq!(checked, Err(NotLetIn::Wrong), "{name}");
            assert!(begun.elapsed() >= STEP && !said.is_empty(), "{name}");
        }
        // A name that is not there costs a check, once.
        assert_eq!(accounts.passwords.strangers(), (1, 1));
        // From one address it takes longer each time, whatever was shown.
        let (begun, peer) = (Instant::now(), [10, 0, 0, 1].into());
        accounts.refuse_late(peer).await;
        assert!(begun.elapsed() >= 2 * STEP);
        // The right password from there is let in all the same.
        assert!(accounts.check("ann", "secret", peer, |_| {}).await.is_ok());
    }
}
