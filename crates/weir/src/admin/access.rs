//! Who may ask the admin port: by which name, as which user.

use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flow::logins::accounts::{Account, Accounts, NotLetIn};
use flow::logins::{FailedLogin, Token};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};

use crate::config::admin::Settings;

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// To read the state.
    Look,
    /// To take a CPU profile, which takes time of the process.
    Profile,
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is for a name that is not this port's.
    Host(String),
    /// It has no credentials, or wrong ones.
    Unknown,
    /// The user is known and may not do this.
    Forbidden,
    /// No password can be checked now.
    Unavailable,
}

/// What a user may do beyond looking.
#[derive(Debug)]
struct Rights {
    admin: bool,
}

/// Decides who may ask the port.
pub struct Access {
    accounts: Accounts<Rights>,
    token: Option<Token>,
    /// Names by which the port is reached besides its addresses; `None` where every name will do.
    hosts: Option<Vec<String>>,
}

impl Access {
    /// As the configuration says, of a port that listens there.
    ///
    /// # Errors
    /// The token's file can't be read.
    pub fn new(settings: &Settings, listens: SocketAddr) -> Result<Self, String> {
        let account = |user: &crate::config::admin::UserSettings| Account {
            name: user.name.clone(),
            hash: user.password.clone(),
            user: Rights { admin: user.admin },
        };
        Ok(Self {
            accounts: Accounts::new(settings.user.iter().map(account).collect()),
            token: settings.bearer()?.map(|token| Token::new(token.reveal())),
            hosts: listens.ip().to_canonical().is_loopback().then(|| settings.hosts.clone()),
        })
    }

    /// Whether a request with these headers may do what it wants.
    ///
    /// # Errors
    /// It may not. Wrong credentials are refused late.
    pub async fn admit(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
        want: Want,
    ) -> Result<(), Refusal> {
        self.host(headers)?;
        if self.accounts.is_empty() && self.token.is_none() {
            return Ok(());
        }
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, rest) = shown.and_then(|of| of.split_once(' ')).ok_or(Refusal::Unknown)?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.bearer(rest.trim(), peer, want).await;
        }
        let pair = scheme.eq_ignore_ascii_case("basic").then(|| basic(rest.trim())).flatten();
        let (name, password) = pair.ok_or(Refusal::Unknown)?;
        let failed = |reason: &str| log(Some(&name), peer, reason);
        match self.accounts.check(&name, &password, peer, failed).await {
            Ok(user) if want == Want::Look || user.admin => Ok(()),
            Ok(_) => Err(Refusal::Forbidden),
            Err(NotLetIn::Wrong) => Err(Refusal::Unknown),
            Err(NotLetIn::Unchecked) => Err(Refusal::Unavailable),
        }
    }

    async fn bearer(&self, shown: &str, peer: IpAddr, want: Want) -> Result<(), Refusal> {
        if self.token.as_ref().is_some_and(|token| token.is(shown)) {
            return if want == Want::Look { Ok(()) } else { Err(Refusal::Forbidden) };
        }
        log(None, peer, "wrong token");
        self.accounts.refuse_late(peer).await;
        Err(Refusal::Unknown)
    }

    /// A browser sends the name that a page was fetched by. That of a stranger's page may lead to
    /// loopback, by DNS, and then its scripts would read what is here.
    fn host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(names) = &self.hosts else { return Ok(()) };
        // HTTP/1.0 needs none, and browsers always send one.
        let Some(host) = headers.get(HOST) else { return Ok(()) };
        let host = String::from_utf8_lossy(host.as_bytes());
        let name = name_of(&host);
        let is_ip = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let is_address = is_ip(name) || is_ip(&host);
        let is_named = |named: &str| named.eq_ignore_ascii_case(name);
        if is_address || is_named("localhost") || names.iter().any(|named| is_named(named)) {
            return Ok(());
        }
        Err(Refusal::Host(name.chars().take(HOST_CHARS_MAX).collect()))
    }
}

/// How much of a strange name an answer repeats.
const HOST_CHARS_MAX: usize = 100;

/// A `Host` without its port, and without the dot that ends a full name.
fn name_of(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn basic(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

fn log(user: Option<&str>, peer: IpAddr, reason: &str) {
    let user = user.map(str::as_bytes);
    FailedLogin { gateway: "admin", user, database: None, from: Some(peer), reason }.log();
}

#[cfg(test)]
mod tests {
    use argon2::Argon2;
    use argon2::password_hash::{PasswordHasher, SaltString};
    use http::HeaderValue;
    use units::secret::Secret;

    use super::*;
    use crate::config::admin::UserSettings;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn hashed(password: &str) -> String {
        let salt = SaltString::encode_b64(b"saltsaltsalt").unwrap();
        let cheap = argon2::Params::new(64, 1, 1, None).unwrap();
        let argon2 = Argon2::new(Default::default(), Default::default(), cheap);
        argon2.hash_password(password.as_bytes(), &salt).unwrap().to_string()
    }

    fn with(name: http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    fn access(settings: &Settings, listens: &str) -> Access {
        Access::new(settings, listens.parse().unwrap()).unwrap()
    }

    async fn asked(access: &Access, shown: &str, want: Want) -> Result<(), Refusal> {
        access.admit(&with(AUTHORIZATION, shown), PEER, want).await
    }

    #[tokio::test]
    async fn users_look_administrators_profile_and_a_token_only_looks() {
        let user = |name: &str, admin| {
            let (name, password) = (name.to_owned(), hashed("secret"));
            UserSettings { name, password, admin }
        };
        let (user, token) = (vec![user("ann", true), user("bob", false)], Secret::new("tok"));
        let access = access(&Settings { user, token, ..Settings::default() }, "127.0.0.1:1");
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        for (shown, look, profile) in [
            (basic("ann:secret"), Ok(()), Ok(())),
            (basic("bob:secret"), Ok(()), Err(Refusal::Forbidden)),
            ("Bearer tok".to_owned(), Ok(()), Err(Refusal::Forbidden)),
            ("Basic !".to_owned(), Err(Refusal::Unknown), Err(Refusal::Unknown)),
            ("Digest x".to_owned(), Err(Refusal::Unknown), Err(Refusal::Unknown)),
        ] {
            assert_eq!(asked(&access, &shown, Want::Look).await, look, "{shown}");
            assert_eq!(asked(&access, &shown, Want::Profile).await, profile, "{shown}");
        }
        let nobody = access.admit(&HeaderMap::new(), PEER, Want::Look).await;
        assert_eq!(nobody, Err(Refusal::Unknown));
        let begun = std::time::Instant::now();
        for wrong in [basic("ann:wrong"), basic("eve:secret"), "Bearer other".to_owned()] {
            assert_eq!(asked(&access, &wrong, Want::Look).await, Err(Refusal::Unknown), "{wrong}");
        }
        assert!(begun.elapsed().as_millis() >= 250 + 500 + 1000, "each is told later");
    }

    #[tokio::test]
    async fn on_loopback_only_its_own_names_are_answered() {
        let settings = Settings { hosts: vec!["weir.example".to_owned()], ..Settings::default() };
        let (near, far) = (access(&settings, "127.0.0.1:1"), access(&settings, "10.0.0.1:1"));
        let mut good = vec!["127.0.0.1:8088", "[::1]:8088", "::1", "localhost", "LOCALHOST:1"];
        good.extend(["weir.example:8088", "Weir.Example.", "10.1.2.3"]);
        for host in good {
            assert_eq!(near.host(&with(HOST, host)), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8088", "localhost.evil.example", "", "1.2"] {
            assert!(matches!(near.host(&with(HOST, host)), Err(Refusal::Host(_))), "{host}");
            assert_eq!(far.host(&with(HOST, host)), Ok(()), "{host}");
        }
        assert_eq!(near.host(&HeaderMap::new()), Ok(()), "HTTP/1.0");
    }
}
