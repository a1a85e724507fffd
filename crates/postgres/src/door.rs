//! Who may come in, and what for: the rules and the users of the settings, and `auth_query`.

mod remote;
mod salts;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use wire::postgres::{Refusal, sqlstate};

use crate::auth::auth_query::Outcome;
use crate::auth::{
    Ask, ChannelBinding, Credentials, Derivation, Kind, Mock, Secret, Users, Verifier, common_name,
};
use crate::backends::Backends;
use crate::settings::{AuthQuery, AuthRule, ClientCertificate, Method, Settings};
use remote::Remote;
pub use salts::Salts;

/// How long a user of the file waits for what `auth_query` says of it. Nothing comes of it, but
/// that the user can't be told by the time from one that the file does not have.
const IN_VAIN_MAX: Duration = Duration::from_secs(1);

/// The users cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// A user's password file cannot be read.
    #[error("user {user:?}: password-file {file}: {source}")]
    File {
        /// The user of the settings.
        user: String,
        /// The path of the file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file of the secret for salts.
    #[error("salt-file {file}: {source}; it is made by Weir where it is not there")]
    Salts {
        /// The path of the file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
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
    found: UserFindings,
}

/// What is known of a user.
#[derive(Default)]
struct UserFindings {
    verifier: Option<Verifier>,
    /// What a server keeps of its new users' passwords, where users come from one.
    there: Option<Kind>,
    /// `auth_query` has no answer, so nobody can be said to be unknown.
    unsure: bool,
    /// Why the rules do not let it in, whatever it shows.
    refused: Option<String>,
}

impl Doors {
    /// Reads the users and makes ready what is checked.
    ///
    /// # Errors
    /// A password's file cannot be read.
    pub fn new(settings: &Settings, salts: &Salts) -> Result<Self, DoorError> {
        let mut users = Users::default();
        for user in &settings.user {
            let stored = read(&user.name, user.password_file.as_deref(), user.secret())?;
            users.insert(&user.name, stored.as_ref(), None);
        }
        let mock = users.mock(salts.expose());
        let remote = settings.auth_query.as_ref().map(|query| remote(query, &users)).transpose()?;
        Ok(Self { settings: settings.clone(), users, mock, remote })
    }

    /// What is to be computed before its users come, so that they need not wait for it.
    pub fn derivations(&self) -> Vec<Derivation> {
        self.users.derivations(&self.mock)
    }

    /// What a client from there has to show.
    ///
    /// # Errors
    /// What it is told: there is no rule for it, nor for anybody else who comes that way.
    pub async fn find(
        self: Arc<Self>,
        backends: &Arc<Backends>,
        control: &Handle,
        from: Option<IpAddr>,
        tls: bool,
        database: &str,
        user: &str,
    ) -> Result<Door, Refusal> {
        let fitting = self.settings.auth.iter().find(|rule| rule.fits(from, tls, database, user));
        let (rule, refused) = match fitting {
            Some(rule) if rule.method != Method::Reject => (Some(rule.clone()), None),
            None if self.settings.auth.is_empty() => (None, None),
            _ => {
                let refused = refused(fitting, user);
                // Who may come in is told by the question as well: it is the same for all.
                let Some(rule) = self.another_s(from, tls, user) else { return Err(refused) };
                (Some(rule), Some(refused))
            }
        };
        let asks = rule.as_ref().is_none_or(|rule| rule.method.asks_for_password());
        let mut found = match asks {
            true => self.clone().look_up(backends.clone(), control, database, user).await,
            false => UserFindings { verifier: self.of_file(user), ..UserFindings::default() },
        };
        if let Some(refused) = refused {
            let kind = found.verifier.as_ref().map(Verifier::kind);
            let there = kind.or(found.there);
            found = UserFindings { verifier: None, there, refused: Some(refused.message), ..found };
        }
        let rule = rule.unwrap_or_else(|| AuthRule::everyone(self.usual(user, &found)));
        Ok(Door { doors: self, rule, found })
    }
}

impl Doors {
    fn of_file(&self, user: &str) -> Option<Verifier> {
        self.users.verifier(user, SystemTime::now()).cloned()
    }

    /// The method without any rule: SCRAM, and md5 for whoever has nothing that SCRAM could check.
    fn usual(&self, user: &str, found: &UserFindings) -> Method {
        let made_up = self.mock.kind(user, found.there);
        match found.verifier.as_ref().map_or(made_up, Verifier::kind) {
            Kind::Md5 => Method::Md5,
            Kind::Plain | Kind::Scram { .. } => Method::ScramSha256,
        }
    }

    /// The rule by which somebody else who comes that way would be asked for a password. Rules
    /// for some users or databases only are drawn by the user's name.
    fn another_s(&self, from: Option<IpAddr>, tls: bool, user: &str) -> Option<AuthRule> {
        let asking = |rule: &&AuthRule| rule.comes(from, tls) && rule.method.asks_for_password();
        let asking: Vec<&AuthRule> = self.settings.auth.iter().filter(asking).collect();
        self.mock.pick(user, &asking).map(|rule| (*rule).clone())
    }

    /// What is known of a user: by the file, or by a server where it is not there.
    async fn look_up(
        self: Arc<Self>,
        backends: Arc<Backends>,
        control: &Handle,
        database: &str,
        user: &str,
    ) -> UserFindings {
        let of_file = self.users.contains(user);
        let verifier = self.of_file(user);
        let Some(database) = self.asked_in(database).map(str::to_owned) else {
            return UserFindings { verifier, ..UserFindings::default() };
        };
        let user = user.to_owned();
        // Its connection belongs to the control runtime, and outlives this client.
        let asked = control.spawn(async move {
            match &self.remote {
                Some(remote) => remote.ask(&backends, &database, &user).await,
                None => Outcome::Unknown { why: "there is no auth-query", there: None },
            }
        });
        let outcome = match of_file {
            false => asked.await.ok(),
            true => tokio::time::timeout(IN_VAIN_MAX, asked).await.ok().and_then(Result::ok),
        };
        match outcome {
            _ if of_file => {
                let unsure = matches!(outcome, Some(Outcome::Failed(_)) | None);
                UserFindings { verifier, unsure, ..UserFindings::default() }
            }
            Some(Outcome::Known(verifier)) => {
                UserFindings { verifier: Some(verifier), ..UserFindings::default() }
            }
            Some(Outcome::Unknown { there, .. }) => {
                UserFindings { there, ..UserFindings::default() }
            }
            Some(Outcome::Failed(_)) | None => {
                UserFindings { unsure: true, ..UserFindings::default() }
            }
        }
    }

    /// The database on the servers in which `auth_query` looks a user up, empty for the one that
    /// Weir itself connects to; `None`: it isn't asked.
    fn asked_in<'a>(&'a self, database: &'a str) -> Option<&'a str> {
        let query = self.settings.auth_query.as_ref()?;
        if !query.database.is_empty() {
            return Some(&query.database);
        }
        // On a server whoever may make databases can make one of the console's name, and say
        // there who may log in.
        if self.settings.console.databases.iter().any(|name| name == database) {
            return None;
        }
        if !self.settings.has_database(database) {
            return Some("");
        }
        let known = self.settings.database(database);
        Some(known.map_or(database, |known| known.server_name(database)))
    }
}

/// What a client hears that no rule lets in.
fn refused(rule: Option<&AuthRule>, user: &str) -> Refusal {
    let what = match rule {
        Some(_) => "connections of this user from there to this database are rejected".to_owned(),
        None => format!("no rule of postgres.auth is for user \"{user}\" there"),
    };
    Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, what)
}

/// A password of the settings; `None` where it is empty.
fn read(
    user: &str,
    file: Option<&Path>,
    secret: io::Result<units::secret::Secret>,
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
    /// Whether the system has to be asked whose process is at the other end.
    pub fn wants_system_user(&self) -> bool {
        self.rule.method == Method::Peer
    }

    /// The question.
    ///
    /// # Errors
    /// It has not shown the certificate that it needs before it is asked.
    pub fn ask<'a>(
        &'a self,
        user: &'a str,
        shown: &ClientEvidence<'a>,
    ) -> Result<Ask<'a>, Refusal> {
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
            verifier: self.found.verifier.as_ref(),
            mock: &self.doors.mock,
            there: self.found.there,
            binding: shown.binding,
            is_named,
        })
    }

    /// Why a client is not let in, for the log: it is told less than that.
    pub fn reason<'a>(&'a self, told: &'a Refusal) -> &'a str {
        match &self.found {
            UserFindings { refused: Some(refused), .. } => refused,
            _ if told.code != sqlstate::INVALID_PASSWORD => &told.message,
            UserFindings { verifier: None, .. } => {
                "there is no such user, or it has no valid password"
            }
            UserFindings { verifier: Some(_), .. } => "wrong password",
        }
    }

    /// What a client is told whose password does not fit: where `auth_query` has no answer, it
    /// may be the right one.
    pub fn wrong(&self, refusal: Refusal) -> Refusal {
        if !self.found.unsure || refusal.code != sqlstate::INVALID_PASSWORD {
            return refusal;
        }
        let what = "passwords can't be checked now: auth-query has no answer";
        Refusal::fatal(sqlstate::CANNOT_CONNECT_NOW, what)
    }
}

/// What a client shows by how it has connected.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientEvidence<'a> {
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
