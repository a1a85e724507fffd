//! Who may come in, and what for: the rules and the users of the settings, and `auth_query`.

mod remote;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::runtime::Handle;
use wire::postgres::{Refusal, sqlstate};

use crate::auth::auth_query::Outcome;
use crate::auth::{Ask, ChannelBinding, Credentials, Mock, Secret, Users, Verifier, common_name};
use crate::backends::Backends;
use crate::settings::{AuthQuery, AuthRule, ClientCertificate, Method, Settings};
use remote::Remote;

/// The users cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// A file.
    #[error("user {user:?}: password-file {file}: {source}")]
    File {
        /// Whose.
        user: String,
        /// Which.
        file: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// No random bytes can be had.
    #[error("this machine gives no random bytes")]
    Random,
}

/// What is checked of those who come.
pub struct Doors {
    settings: Settings,
    users: Users,
    mock: Mock,
    remote: Option<Remote>,
}

/// What one client has to show.
pub struct Door {
    doors: Arc<Doors>,
    rule: AuthRule,
    verifier: Option<Verifier>,
}

impl Doors {
    /// Reads the users and makes ready what is checked.
    ///
    /// # Errors
    /// A password's file cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, DoorError> {
        let mut users = Users::default();
        for user in &settings.user {
            let stored = read(&user.name, user.password_file.as_deref(), user.secret())?;
            users.insert(&user.name, stored.as_ref(), None);
        }
        // The same after a restart: a salt that changes says that the user is made up. Users in the
        // file are a seed themselves.
        let seed = settings.backend.first().map_or("", |backend| backend.password.reveal());
        let mock = users.mock(seed.as_bytes()).ok_or(DoorError::Random)?;
        let remote = settings.auth_query.as_ref().map(|query| remote(query, &users)).transpose()?;
        Ok(Self { settings: settings.clone(), users, mock, remote })
    }

    /// What a client from there has to show.
    ///
    /// # Errors
    /// What it is told: there is no rule for it.
    pub async fn find(
        self: Arc<Self>,
        backends: &Arc<Backends>,
        control: &Handle,
        from: Option<IpAddr>,
        tls: bool,
        database: &str,
        user: &str,
    ) -> Result<Door, Refusal> {
        let rule = self.settings.auth.iter().find(|rule| rule.fits(from, tls, database, user));
        let rule = match rule {
            Some(rule) => rule.clone(),
            None if self.settings.auth.is_empty() => AuthRule::everyone(Method::Md5),
            None => {
                let what = format!("no rule of postgres.auth is for user \"{user}\" there");
                return Err(Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, what));
            }
        };
        let asks = rule.method.asks_for_password();
        let verifier = match self.users.contains(user) || !asks || self.remote.is_none() {
            true => self.users.verifier(user, SystemTime::now()).cloned(),
            false => self.clone().ask(backends.clone(), control, database, user).await?,
        };
        Ok(Door { doors: self, rule, verifier })
    }
}

impl Doors {
    /// Asks a server for the verifier of a user that is not in the file.
    async fn ask(
        self: Arc<Self>,
        backends: Arc<Backends>,
        control: &Handle,
        database: &str,
        user: &str,
    ) -> Result<Option<Verifier>, Refusal> {
        let known = self.settings.database(database);
        let database = known.map_or(database, |known| known.server_name(database)).to_owned();
        let user = user.to_owned();
        // Its connection belongs to the control runtime, and outlives this client.
        let asked = control.spawn(async move {
            match &self.remote {
                Some(remote) => remote.ask(&backends, &database, &user).await,
                None => Outcome::Unknown("there is no auth-query"),
            }
        });
        match asked.await {
            Ok(Outcome::Known(verifier)) => Ok(Some(verifier)),
            Ok(Outcome::Unknown(_)) => Ok(None),
            Ok(Outcome::Failed(_)) | Err(_) => Err(Refusal::fatal(
                sqlstate::CANNOT_CONNECT_NOW,
                "passwords can't be checked now: auth-query has no answer",
            )),
        }
    }
}

/// A password of the settings; `None` where it is empty.
fn read(
    user: &str,
    file: Option<&Path>,
    secret: io::Result<watch::secret::Secret>,
) -> Result<Option<Secret>, DoorError> {
    let secret = secret.map_err(|source| DoorError::File {
        user: user.to_owned(),
        file: file.unwrap_or(Path::new("")).display().to_string(),
        source,
    })?;
    Ok(Some(Secret::from(secret.reveal())).filter(|_| !secret.is_empty()))
}

/// Who asks: by the password of `[postgres.auth-query]`, or by that of the user in the file.
fn remote(query: &AuthQuery, users: &Users) -> Result<Remote, DoorError> {
    let password = read(&query.user, query.password_file.as_deref(), query.secret())?;
    let of_the_file = || users.verifier(&query.user, SystemTime::now())?.credentials();
    let credentials = password.map(Credentials::Password).or_else(of_the_file);
    let credentials = credentials.unwrap_or(Credentials::None);
    Ok(Remote::new(query.clone(), credentials))
}

impl Door {
    /// The user's password, where it takes a computation before it can be checked.
    pub fn cold(&self) -> Option<Verifier> {
        self.verifier.clone().filter(|verifier| !verifier.is_warm())
    }

    /// Whether the system has to be asked whose process is at the other end.
    pub fn wants_system_user(&self) -> bool {
        self.rule.method == Method::Peer
    }

    /// The question.
    ///
    /// # Errors
    /// It has not shown the certificate that it needs before it is asked.
    pub fn ask<'a>(&'a self, user: &'a str, shown: &Shown<'a>) -> Result<Ask<'a>, Refusal> {
        let rule = &self.rule;
        let may_be = |name: &str| rule.may_be(name, user);
        let is_certified = || shown.certificate.and_then(common_name).is_some_and(|of| may_be(&of));
        let has_certificate = match rule.client_certificate {
            None => true,
            Some(ClientCertificate::VerifyCa) => shown.certificate.is_some(),
            Some(ClientCertificate::VerifyFull) => is_certified(),
        };
        if !has_certificate {
            let what = "connection requires a valid client certificate";
            return Err(Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, what));
        }
        let is_named = match rule.method {
            Method::Cert => is_certified(),
            Method::Peer => shown.system_user.is_some_and(may_be),
            _ => false,
        };
        Ok(Ask {
            method: rule.method,
            user,
            verifier: self.verifier.as_ref(),
            mock: &self.doors.mock,
            binding: shown.binding,
            is_named,
        })
    }
}

/// What a client shows by how it has connected.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// Of Weir's own certificate, where the client came by TLS.
    pub binding: Option<&'a ChannelBinding>,
    /// The client's certificate in DER, which TLS has verified.
    pub certificate: Option<&'a [u8]>,
    /// Whose process is at the other end of a Unix socket.
    pub system_user: Option<&'a str>,
}

/// The name of a user of the system, by passwd(5); its number where it has none there.
pub fn system_user(number: u32) -> String {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_user_of_the_system_goes_by_its_name_or_its_number() {
        assert_eq!(super::system_user(0), "root");
        assert_eq!(super::system_user(4_000_000_000), "4000000000");
    }
}
