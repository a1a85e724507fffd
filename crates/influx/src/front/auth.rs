//! Who a client is and what it may do. Weir authenticates clients itself; backends see only the
//! credentials of their own section.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep_until};

use super::answer::{self, Answer};
use super::credentials::{Asker, Credentials, credentials};
use super::failures::{Failures, STEP};
use super::passwords::{Check, Passwords};
use super::tokens;
use crate::settings::UserSettings;

/// Verified credentials that are remembered; past that the memory starts anew.
const REMEMBERED_MAX: usize = 4096;
/// The longest name or password that may be right. A form's may be as long as a body.
const CREDENTIAL_BYTES_MAX: usize = 4096;

/// One user of the file.
#[derive(Debug)]
pub struct User {
    /// The name that the client sends.
    pub name: String,
    /// May run every statement.
    pub admin: bool,
    password: Arc<str>,
    read: Vec<String>,
    write: Vec<String>,
}

impl User {
    /// Whether this user may write to `db`.
    pub fn may_write(&self, db: &str) -> bool {
        self.admin || granted(&self.write, db)
    }

    /// Whether this user may read from `db`.
    pub fn may_read(&self, db: &str) -> bool {
        self.admin || granted(&self.read, db)
    }
}

fn granted(databases: &[String], db: &str) -> bool {
    databases.iter().any(|d| d == "*" || d == db)
}

/// The users in force and the credentials found good since they came into force.
struct InForce {
    users: HashMap<String, Arc<User>>,
    token_secret: Option<String>,
    remembered: ArcSwap<HashMap<[u8; 32], Arc<User>>>,
    /// Credentials that were found bad: a client that goes on sending them costs no more checks.
    refused: Mutex<HashSet<[u8; 32]>>,
    /// Every password's hash, for names that are not there to be checked against.
    hashes: Vec<Arc<str>>,
}

/// Nobody who is known at once as one who may do this.
#[derive(Debug)]
pub struct Unknown;

/// Checks credentials. With no users in the file everybody may do everything.
pub struct Authenticator {
    in_force: ArcSwap<InForce>,
    passwords: Passwords,
    failures: Failures,
    /// Keys the digests of remembered credentials, so that they mean nothing elsewhere.
    salt: [u8; 32],
}

impl Authenticator {
    /// An authenticator that checks passwords on threads of its own.
    pub fn new(users: &[UserSettings], token_secret: Option<String>) -> Self {
        Self {
            in_force: ArcSwap::from_pointee(InForce::new(users, token_secret)),
            passwords: Passwords::default(),
            failures: Failures::default(),
            salt: rand::random(),
        }
    }

    /// Puts other users in force; what was verified before is forgotten.
    pub fn replace(&self, users: &[UserSettings], token_secret: Option<String>) {
        self.in_force.store(Arc::new(InForce::new(users, token_secret)));
    }

    /// The user behind what a request shows of itself; `None` where requests need no credentials.
    ///
    /// # Errors
    /// The 401 to answer, in InfluxDB's words.
    pub async fn user<'a>(
        &self,
        user: Cow<'a, str>,
        password: Cow<'a, str>,
        headers: &'a HeaderMap,
        asker: &Asker<'_>,
    ) -> Result<Option<Arc<User>>, Answer> {
        if self.is_open() {
            return Ok(None);
        }
        self.authenticate(credentials(user, password, headers), asker).await.map(Some)
    }

    /// As [`user`](Self::user), of one who is known at once as one who may write to `db`.
    ///
    /// # Errors
    /// Where that is not known: [`user`](Self::user) finds out, and what to answer.
    pub fn known_writer<'a>(
        &self,
        user: Cow<'a, str>,
        password: Cow<'a, str>,
        headers: &'a HeaderMap,
        db: &str,
    ) -> Result<Option<Arc<User>>, Unknown> {
        if self.is_open() {
            return Ok(None);
        }
        let in_force = self.in_force.load();
        let user = match credentials(user, password, headers) {
            None => None,
            Some(Credentials::Bearer(token)) => in_force.bearer(token).ok(),
            Some(Credentials::Password(user, password)) => {
                in_force.remembered(&self.digest(&user, &password))
            }
        };
        user.filter(|user| user.may_write(db)).map(Some).ok_or(Unknown)
    }

    /// Whether requests need no credentials.
    pub fn is_open(&self) -> bool {
        self.in_force.load().users.is_empty()
    }

    /// The user behind the credentials.
    ///
    /// # Errors
    /// The 401 to answer, in InfluxDB's words.
    async fn authenticate(
        &self,
        credentials: Option<Credentials<'_>>,
        asker: &Asker<'_>,
    ) -> Result<Arc<User>, Answer> {
        let refuse = |user: Option<&str>, why: &str| {
            asker.log_failure(user, why);
            Err(refused(why))
        };
        match credentials {
            None => refuse(None, "unable to parse authentication credentials"),
            Some(Credentials::Bearer(token)) => {
                let found = self.in_force.load().bearer(token);
                found.or_else(|NoBearer { user, why }| refuse(user.as_deref(), &why))
            }
            Some(Credentials::Password(user, _)) if user.is_empty() => {
                refuse(None, "username required")
            }
            Some(Credentials::Password(user, password)) => {
                let user = self.password(&user, &password, asker).await?;
                user.ok_or_else(|| refused("authorization failed"))
            }
        }
    }

    /// The user of that name, if that is the password. That it is not is told late, and no sooner
    /// or later where there is no such user.
    async fn password(
        &self,
        name: &str,
        password: &str,
        asker: &Asker<'_>,
    ) -> Result<Option<Arc<User>>, Answer> {
        let (came, mut is_known) = (Instant::now(), false);
        // Who has a turn of their own waits for these, too, to hear that they were wrong.
        let (strangers, _) = self.passwords.strangers();
        if name.len().max(password.len()) <= CREDENTIAL_BYTES_MAX {
            let in_force = self.in_force.load_full();
            let digest = self.digest(name, password);
            if let Some(user) = in_force.remembered(&digest) {
                return Ok(Some(user));
            }
            let user = in_force.users.get(name).cloned();
            is_known = user.is_some();
            if !in_force.is_refused(&digest) {
                let check = Check {
                    user: user.as_ref().map(|user| user.name.as_str().into()),
                    suspect: self.failures.is_suspect(asker.peer),
                    digest,
                    hash: in_force.hash(user.as_deref(), &digest),
                    password: password.to_owned(),
                };
                let good = self.passwords.check(check).await;
                let good = good.ok_or_else(|| answer::unavailable("no password is checked", 1))?;
                if let Some(user) = user.filter(|_| good) {
                    in_force.remember(digest, &user);
                    return Ok(Some(user));
                }
                in_force.refuse(digest);
            }
        }
        // Before it is told: whoever has gone by then has failed as well.
        let why = if is_known { "wrong password" } else { "there is no such user" };
        asker.log_failure(Some(name), why);
        let steps = self.failures.note(asker.peer);
        self.tell_late(came, steps, strangers).await;
        Ok(None)
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

    fn digest(&self, name: &str, password: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.salt);
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update(password);
        digest.finalize().into()
    }
}

impl InForce {
    fn new(users: &[UserSettings], token_secret: Option<String>) -> Self {
        let user = |s: &UserSettings| {
            let user = User {
                name: s.name.clone(),
                admin: s.admin,
                password: s.password.as_str().into(),
                read: s.read.clone(),
                write: s.write.clone(),
            };
            (s.name.clone(), Arc::new(user))
        };
        Self {
            users: users.iter().map(user).collect(),
            token_secret,
            remembered: ArcSwap::default(),
            refused: Mutex::default(),
            hashes: users.iter().map(|user| user.password.as_str().into()).collect(),
        }
    }

    /// What a password is checked against: for a name that is not there what some user has, so
    /// that it takes as long.
    fn hash(&self, user: Option<&User>, digest: &[u8; 32]) -> Arc<str> {
        let any = usize::from(digest[0]) % self.hashes.len().max(1);
        let any = || self.hashes.get(any).cloned().unwrap_or_default();
        user.map_or_else(any, |user| Arc::clone(&user.password))
    }

    fn remember(&self, digest: [u8; 32], user: &Arc<User>) {
        self.remembered.rcu(|known| {
            let full = known.len() >= REMEMBERED_MAX;
            let mut known = if full { HashMap::new() } else { HashMap::clone(known) };
            known.insert(digest, user.clone());
            known
        });
    }

    fn refuse(&self, digest: [u8; 32]) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REMEMBERED_MAX {
            refused.clear();
        }
        refused.insert(digest);
    }

    fn is_refused(&self, digest: &[u8; 32]) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
    }

    /// The user whose credentials were found good before.
    fn remembered(&self, key: &[u8; 32]) -> Option<Arc<User>> {
        self.remembered.load().get(key).cloned()
    }

    /// The user that a token signed with the shared secret names.
    fn bearer(&self, token: &str) -> Result<Arc<User>, NoBearer> {
        let refused = |why: &str| NoBearer { user: None, why: why.to_owned() };
        let secret = self.token_secret.as_ref().ok_or_else(|| refused("bearer auth disabled"))?;
        let name = tokens::username(token, secret).map_err(|why| refused(&why))?;
        match self.users.get(&name) {
            Some(user) => Ok(Arc::clone(user)),
            None => Err(NoBearer { user: Some(name), why: "user not found".to_owned() }),
        }
    }
}

/// Why a token lets nobody in.
struct NoBearer {
    /// Whom it names, where its signature is good.
    user: Option<String>,
    why: String,
}

fn refused(why: &str) -> Answer {
    answer::error(StatusCode::UNAUTHORIZED, why)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use argon2::Argon2;
    use argon2::password_hash::{PasswordHasher, SaltString};
    use http::header::AUTHORIZATION;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn from(peer: impl Into<IpAddr>) -> Asker<'static> {
        Asker { peer: peer.into(), database: "" }
    }

    fn hashed(password: &str) -> String {
        let salt = SaltString::encode_b64(b"saltsaltsalt").unwrap();
        let cheap = argon2::Params::new(64, 1, 1, None).unwrap();
        Argon2::new(Default::default(), Default::default(), cheap)
            .hash_password(password.as_bytes(), &salt)
            .unwrap()
            .to_string()
    }

    fn users() -> Vec<UserSettings> {
        vec![UserSettings {
            name: "ann".into(),
            password: hashed("secret"),
            admin: false,
            read: vec!["*".into()],
            write: vec!["metrics".into()],
        }]
    }

    fn pair<'a>(user: &'a str, password: &'a str) -> Option<Credentials<'a>> {
        Some(Credentials::Password(user.into(), password.into()))
    }

    #[test]
    fn credentials_are_found_in_influxdbs_order() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            headers
        };
        let basic = with("Basic YTpiOmM=");
        assert_eq!(credentials("u".into(), "p".into(), &basic), pair("u", "p"));
        assert_eq!(credentials("u".into(), "".into(), &basic), pair("a", "b:c"));
        assert_eq!(credentials("".into(), "".into(), &with("Token a:b")), pair("a", "b"));
        let bearer = with("Bearer x.y.z");
        let found = credentials("".into(), "".into(), &bearer);
        assert_eq!(found, Some(Credentials::Bearer("x.y.z")));
        for bad in ["Basic !", "Token ab", "Nothing", "Digest a:b"] {
            assert_eq!(credentials("".into(), "".into(), &with(bad)), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_good_password_is_remembered_and_forgotten_on_reload() {
        let auth = Authenticator::new(&users(), None);
        assert!(!auth.is_open());
        for _ in 0..2 {
            let user = auth.authenticate(pair("ann", "secret"), &from(PEER)).await.unwrap();
            assert!(user.may_write("metrics") && !user.may_write("other") && user.may_read("x"));
        }
        assert_eq!(auth.in_force.load().remembered.load().len(), 1);
        assert!(auth.authenticate(pair("ann", "wrong"), &from(PEER)).await.is_err());
        assert!(auth.authenticate(pair("bob", "secret"), &from(PEER)).await.is_err());
        assert!(auth.authenticate(None, &from(PEER)).await.is_err());
        auth.replace(&[], None);
        assert!(auth.is_open());
        assert!(auth.authenticate(pair("ann", "secret"), &from(PEER)).await.is_err());
    }

    #[tokio::test]
    async fn wrong_passwords_and_unknown_names_are_told_late_and_at_the_same_time() {
        let auth = Authenticator::new(&users(), None);
        let long = "x".repeat(CREDENTIAL_BYTES_MAX + 1);
        let tries = [
            ("ann", "wrong"),
            ("bob", "secret"),
            ("bob", "secret"),
            ("ann", "wrong"),
            ("ann", &*long),
        ];
        for (number, (name, password)) in (0..).zip(tries) {
            let peer = IpAddr::from([10, 0, 0, number]);
            let begun = Instant::now();
            assert!(auth.authenticate(pair(name, password), &from(peer)).await.is_err());
            assert!(begun.elapsed() >= STEP, "{name}");
        }
        // A name that is not there costs a check, once.
        assert_eq!(auth.passwords.strangers(), (1, 1));
        // From one address it takes longer each time.
        let begun = Instant::now();
        assert!(auth.authenticate(pair("ann", "wrong"), &from([10, 0, 0, 1])).await.is_err());
        assert!(begun.elapsed() >= 2 * STEP);
        // The right password from there is let in all the same.
        assert!(auth.authenticate(pair("ann", "secret"), &from([10, 0, 0, 1])).await.is_ok());
    }

    #[tokio::test]
    async fn the_password_of_a_user_lets_nobody_in_under_another_name() {
        let auth = Authenticator::new(&users(), None);
        for number in 0..4 {
            let (name, peer) = (format!("bob{number}"), IpAddr::from([10, 0, 1, number]));
            assert!(auth.authenticate(pair(&name, "secret"), &from(peer)).await.is_err());
        }
    }

    #[tokio::test]
    async fn tokens_need_the_secret_a_user_and_an_expiry() {
        use jsonwebtoken::{EncodingKey, Header, encode};
        let token = |claims: serde_json::Value, secret: &str| {
            let key = EncodingKey::from_secret(secret.as_bytes());
            encode(&Header::default(), &claims, &key).unwrap()
        };
        let auth = Authenticator::new(&users(), Some("s".into()));
        let far = 4_000_000_000_u64;
        let good = token(serde_json::json!({"username": "ann", "exp": far}), "s");
        assert_eq!(
            auth.authenticate(Some(Credentials::Bearer(&good)), &from(PEER)).await.unwrap().name,
            "ann"
        );
        for bad in [
            token(serde_json::json!({"username": "ann", "exp": far}), "other"),
            token(serde_json::json!({"username": "ann", "exp": 1}), "s"),
            token(serde_json::json!({"username": "ann"}), "s"),
            token(serde_json::json!({"username": "bob", "exp": far}), "s"),
            token(serde_json::json!({"exp": far}), "s"),
            "garbage".to_owned(),
        ] {
            assert!(auth.authenticate(Some(Credentials::Bearer(&bad)), &from(PEER)).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_token_that_is_not_valid_yet_or_for_somebody_else_lets_nobody_in() {
        use jsonwebtoken::{EncodingKey, Header, encode};
        let auth = Authenticator::new(&users(), Some("s".into()));
        let is_let_in = async |claim: &str, value: serde_json::Value| {
            let mut claims = serde_json::json!({"username": "ann", "exp": 4_000_000_000_u64});
            claims[claim] = value;
            let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(b"s"));
            let token = token.unwrap();
            auth.authenticate(Some(Credentials::Bearer(&token)), &from(PEER)).await.is_ok()
        };
        assert!(is_let_in("nbf", 1.into()).await);
        assert!(is_let_in("nbf", 1.5.into()).await);
        assert!(!is_let_in("nbf", 3_900_000_000_u64.into()).await);
        assert!(!is_let_in("nbf", 3_900_000_000.5.into()).await);
        assert!(!is_let_in("nbf", "tomorrow".into()).await);
        assert!(!is_let_in("aud", "another".into()).await);
        assert!(is_let_in("iat", 3_900_000_000_u64.into()).await, "as InfluxDB 1.8 does");
    }
}
