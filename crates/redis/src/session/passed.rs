//! Logins that are passed on: with `auth = "pass"` a server checks each.
//!
//! A client that has not logged in is the user `default` where a server lets that in without a
//! password. That is found out when it says the first thing that needs it, and is looked at again
//! only once it has said `RESET`: as a server has it, which looks when the client comes.

use std::rc::Rc;

use flow::service::Apart;
use wire::resp::Command;

use super::dispatch::Change;
use super::login::Login;
use super::{Asking, CommandResult, Session};
use crate::commands;
use crate::front::{Front, InForce};
use crate::server::{Credentials, Login as How};
use crate::servers::accounts::Account;
use crate::servers::{LoggedIn, NotIn, Outcome, Servers};
use crate::users::{Identity, User, Users};

/// Whether a client that has not logged in may be somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unnamed {
    /// No server was asked yet.
    Unasked,
    /// It has to log in.
    Refused,
    /// No server could be asked: why, for the next command.
    Failed(String),
}

impl From<NotIn> for Unnamed {
    fn from(why: NotIn) -> Self {
        match why {
            NotIn::Refused(_) => Self::Refused,
            NotIn::Unasked(words) => Self::Failed(words),
        }
    }
}

impl Unnamed {
    /// Whether a server could not be asked; the next command has it asked again.
    pub(super) fn fails(&mut self) -> CommandResult {
        match std::mem::replace(self, Self::Unasked) {
            Self::Failed(words) => Err(words),
            before => {
                *self = before;
                Ok(())
            }
        }
    }
}

/// As whom a client asks servers that has said nothing yet, and what is known of that.
pub(super) fn unnamed(front: &Front, users: &Users) -> (Rc<Account>, Unnamed) {
    let accounts = front.fabric.service().accounts();
    match users.passes() {
        true => (Rc::clone(accounts.nobody()), Unnamed::Unasked),
        false => (Rc::clone(accounts.own()), Unnamed::Refused),
    }
}

/// Who checks a login.
pub(super) enum Check {
    /// Weir has: whom it has found.
    Own(Option<User>),
    /// A server does, by a login with these.
    Server(Credentials),
}

impl Check {
    pub(super) fn new(in_force: &InForce, user: Option<&[u8]>, password: &[u8]) -> Self {
        let name = user.unwrap_or(crate::users::DEFAULT);
        match in_force.users.is_passed_on(name) {
            true => Self::Server(Credentials::new(user, password)),
            false => Self::Own(in_force.users.log_in(name, password)),
        }
    }

    /// Who it is, and as whom it asks servers.
    pub(super) async fn run(self, front: &Front) -> Result<(Identity, Rc<Account>), NotIn> {
        let accounts = front.fabric.service().accounts();
        match self {
            Self::Own(Some(user)) => {
                let how = user.backend.map_or(How::Own, |backend| {
                    let name = backend.user.as_deref().map(str::as_bytes);
                    How::Mapped(Credentials::new(name, backend.password.reveal().as_bytes()))
                });
                Ok((user.identity, accounts.of(&how)))
            }
            Self::Own(None) => Err(NotIn::Refused(super::login::WRONG.to_owned())),
            Self::Server(credentials) => {
                let how = How::As(credentials);
                let identity = asked(front, &how).await?;
                Ok((identity, accounts.of(&how)))
            }
        }
    }
}

/// Has a server let a client in, or not.
async fn asked(front: &Front, how: &How) -> Result<Identity, NotIn> {
    let limit = front.fabric.settings().timeout;
    let permit = tokio::time::timeout(limit, front.checking.acquire()).await;
    let Ok(Ok(_permit)) = permit else {
        return Err(NotIn::Unasked("ERR weir: not sent: too many logins at once".to_owned()));
    };
    front.metrics.logins_passed.inc();
    front.fabric.service().check(how).await?;
    Ok(front.in_force.load().users.of_server())
}

impl Session {
    /// Has a server asked whether a client may be somebody without a login, before it is looked at
    /// what it says. Whether that has begun.
    pub(super) fn asks_unnamed(&mut self, says: Option<&Command<'_>>, client: &Asking) -> bool {
        let needs_none = self.identity.is_some() || self.unnamed != Unnamed::Unasked;
        let is_for_strangers = |command: &Command<'_>| {
            commands::find(command.name()).is_some_and(|spec| spec.is_for_strangers(command))
        };
        if needs_none || says.is_some_and(is_for_strangers) {
            return false;
        }
        let login = Rc::new(Login::default());
        self.login = Some(Rc::clone(&login));
        let (front, login) = (Rc::clone(&self.front), Rc::downgrade(&login));
        client.apart(move |apart: Apart<Servers>| {
            let Some(of) = login.upgrade() else { return };
            of.begin(async move {
                let outcome = match asked(&front, &How::Nobody).await {
                    Ok(identity) => Outcome::LoggedIn(LoggedIn {
                        identity,
                        account: Rc::clone(front.fabric.service().accounts().nobody()),
                        user: "default".into(),
                        hello: None,
                    }),
                    Err(why) => Outcome::NotLetIn(why),
                };
                apart.done(outcome, &[]);
            });
        });
        true
    }

    /// That nothing of the client would go on as another user than it was begun as.
    pub(super) fn may_change_user(&self) -> CommandResult {
        // It may be who no user is any more since a reload.
        let is_another = self.account.is_of_client();
        if !is_another && !self.front.in_force.load().users.servers_know_users() {
            return Ok(());
        }
        Ok(self.standing().allows(Change::User)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_server_could_be_asked_one_command_is_told_and_the_next_asks_again() {
        let mut unnamed = Unnamed::Failed("ERR away".to_owned());
        assert_eq!(unnamed.fails(), Err("ERR away".to_owned()));
        assert_eq!(unnamed, Unnamed::Unasked);
        let mut unnamed = Unnamed::Refused;
        assert_eq!((unnamed.fails(), unnamed), (Ok(()), Unnamed::Refused));
    }
}
