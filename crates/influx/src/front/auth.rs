//! Who a client is and what it may do. Weir authenticates clients itself; backends see only the
//! credentials of their own section.

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use flow::logins::accounts::{Account, Accounts, NotLetIn};
use http::{HeaderMap, StatusCode};

use super::answer::{self, Answer};
use super::credentials::{Asker, Credentials, credentials};
use super::tokens;
use crate::settings::UserSettings;

/// One user of the file.
#[derive(Debug)]
pub struct User {
    /// The name that the client sends.
    pub name: String,
    /// May run every statement.
    pub admin: bool,
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

/// Nobody who is known at once as one who may do this.
#[derive(Debug)]
pub struct Unknown;

/// Checks credentials. With no users in the file everybody may do everything.
pub struct Authenticator {
    accounts: Accounts<User>,
    token_secret: ArcSwapOption<String>,
}

impl Authenticator {
    /// An authenticator that checks passwords on threads of its own.
    pub fn new(users: &[UserSettings], token_secret: Option<String>) -> Self {
        let token_secret = ArcSwapOption::new(token_secret.map(Arc::new));
        Self { accounts: Accounts::new(accounts(users)), token_secret }
    }

    /// Puts other users in force; what was verified before is forgotten.
    pub fn replace(&self, users: &[UserSettings], token_secret: Option<String>) {
        self.token_secret.store(token_secret.map(Arc::new));
        self.accounts.replace(accounts(users));
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
        let user = match credentials(user, password, headers) {
            None => None,
            Some(Credentials::Bearer(token)) => self.bearer(token).ok(),
            Some(Credentials::Password(user, password)) => {
                self.accounts.remembered(&user, &password)
            }
        };
        user.filter(|user| user.may_write(db)).map(Some).ok_or(Unknown)
    }

    /// Whether requests need no credentials.
    pub fn is_open(&self) -> bool {
        self.accounts.is_empty()
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
                let found = self.bearer(token);
                found.or_else(|NoBearer { user, why }| refuse(user.as_deref(), &why))
            }
            Some(Credentials::Password(user, _)) if user.is_empty() => {
                refuse(None, "username required")
            }
            Some(Credentials::Password(user, password)) => {
                let failed = |why: &str| asker.log_failure(Some(&user), why);
                let checked = self.accounts.check(&user, &password, asker.peer, failed).await;
                checked.map_err(|why| match why {
                    NotLetIn::Wrong => refused("authorization failed"),
                    NotLetIn::Unchecked => answer::unavailable("no password is checked", 1),
                })
            }
        }
    }

    /// The user that a token signed with the shared secret names.
    fn bearer(&self, token: &str) -> Result<Arc<User>, NoBearer> {
        let refused = |why: &str| NoBearer { user: None, why: why.to_owned() };
        let secret = self.token_secret.load_full();
        let secret = secret.ok_or_else(|| refused("bearer auth disabled"))?;
        let name = tokens::username(token, &secret).map_err(|why| refused(&why))?;
        let found = self.accounts.named(&name);
        found.ok_or_else(|| NoBearer { user: Some(name), why: "user not found".to_owned() })
    }
}

fn accounts(users: &[UserSettings]) -> Vec<Account<User>> {
    let account = |of: &UserSettings| {
        let (read, write) = (of.read.clone(), of.write.clone());
        let user = User { name: of.name.clone(), admin: of.admin, read, write };
        Account { name: of.name.clone(), hash: of.password.clone(), user }
    };
    users.iter().map(account).collect()
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
        assert!(auth.accounts.remembered("ann", "secret").is_some());
        assert!(auth.authenticate(pair("ann", "wrong"), &from(PEER)).await.is_err());
        assert!(auth.authenticate(pair("bob", "secret"), &from(PEER)).await.is_err());
        assert!(auth.authenticate(None, &from(PEER)).await.is_err());
        auth.replace(&[], None);
        assert!(auth.is_open());
        assert!(auth.authenticate(pair("ann", "secret"), &from(PEER)).await.is_err());
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
