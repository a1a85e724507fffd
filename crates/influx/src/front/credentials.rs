//! What a request shows of who sends it, and where it comes from.

use std::borrow::Cow;
use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flow::logins::FailedLogin;
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// What a request shows of who sends it.
#[derive(Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// A name and a password.
    Password(Cow<'a, str>, Cow<'a, str>),
    /// A JSON web token.
    Bearer(&'a str),
}

/// Where a request comes from, and which database it names.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The address that the client connects from.
    pub peer: IpAddr,
    /// Empty where it names none.
    pub database: &'a str,
}

impl Asker<'_> {
    /// Has the log tell that the client is not let in.
    pub fn log_failure(&self, user: Option<&str>, reason: &str) {
        let failed = FailedLogin {
            gateway: "influx",
            user: user.map(str::as_bytes),
            database: Some(self.database).filter(|database| !database.is_empty()),
            from: Some(self.peer),
            reason,
        };
        failed.log();
    }
}

/// Reads credentials in InfluxDB's order: `u` and `p`, `Bearer`, `Token user:pass`, Basic
/// (`services/httpd/handler.go`, `parseCredentials`).
pub fn credentials<'a>(
    user: Cow<'a, str>,
    password: Cow<'a, str>,
    headers: &'a HeaderMap,
) -> Option<Credentials<'a>> {
    if !user.is_empty() && !password.is_empty() {
        return Some(Credentials::Password(user, password));
    }
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = header.split_once(' ')?;
    let pair = |text: &'a str| {
        let (user, password) = text.split_once(':')?;
        Some(Credentials::Password(user.into(), password.into()))
    };
    match scheme {
        "Bearer" => Some(Credentials::Bearer(rest)),
        "Token" => pair(rest),
        _ if scheme.eq_ignore_ascii_case("basic") => {
            let text = String::from_utf8(BASE64_STANDARD.decode(rest).ok()?).ok()?;
            let (user, password) = text.split_once(':')?;
            Some(Credentials::Password(user.to_owned().into(), password.to_owned().into()))
        }
        _ => None,
    }
}
