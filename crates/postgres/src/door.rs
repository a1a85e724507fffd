//! Who may come in, and what for: the rules and the users of the settings, and `auth_query`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use wire::postgres::{Refusal, sqlstate};

use crate::auth::{Ask, ChannelBinding, Mock, Secret, Users, Verifier};
use crate::backends::Backends;
use crate::settings::{Method, Settings};

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
}

/// What one client has to show.
pub struct Door {
    doors: Arc<Doors>,
    method: Method,
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
            let stored = Secret::new(user.password.reveal());
            users.insert(&user.name, Some(&stored).filter(|_| !user.password.is_empty()), None);
        }
        // The same after a restart: a salt that changes says that the user is made up. Users in the
        // file are a seed themselves.
        let seed = settings.backend.first().map_or("", |backend| backend.password.reveal());
        let mock = users.mock(seed.as_bytes()).ok_or(DoorError::Random)?;
        Ok(Self { settings: settings.clone(), users, mock })
    }

    /// What a client from there has to show.
    ///
    /// # Errors
    /// What it is told: there is no rule for it.
    pub async fn find(
        self: Arc<Self>,
        _backends: &Backends,
        from: Option<IpAddr>,
        tls: bool,
        database: &str,
        user: &str,
    ) -> Result<Door, Refusal> {
        let rule = self.settings.auth.iter().find(|rule| rule.fits(from, tls, database, user));
        let method = match rule {
            Some(rule) => rule.method,
            None if self.settings.auth.is_empty() => Method::Md5,
            None => {
                let what = format!("no rule of postgres.auth is for user \"{user}\" there");
                return Err(Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, what));
            }
        };
        let verifier = self.users.verifier(user, SystemTime::now()).cloned();
        Ok(Door { doors: self, method, verifier })
    }
}

impl Door {
    /// The user's password, where it takes a computation before it can be checked.
    pub fn cold(&self) -> Option<Verifier> {
        self.verifier.clone().filter(|verifier| !verifier.is_warm())
    }

    /// The question.
    pub fn ask<'a>(
        &'a self,
        user: &'a str,
        binding: Option<&'a ChannelBinding>,
        certificate: Option<&'a [u8]>,
    ) -> Ask<'a> {
        Ask {
            method: self.method,
            user,
            verifier: self.verifier.as_ref(),
            mock: &self.doors.mock,
            binding,
            certificate,
        }
    }
}
