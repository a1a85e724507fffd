//! What comes of what a client does apart, for its session.

use std::rc::Rc;

use wire::resp::Version;

use super::NotIn;
use super::accounts::Account;
use crate::users::Identity;

/// What comes of what a client does apart, for its session.
#[derive(Debug)]
pub enum Outcome {
    /// The client is let in.
    LoggedIn(LoggedIn),
    /// Whether the client may be somebody without a login: it may not, or nobody can say.
    NotLetIn(NotIn),
    /// Why servers could not be asked what a command is: an error for the client.
    Untold(String),
}

/// What holds for a client that has logged in.
#[derive(Debug)]
pub struct LoggedIn {
    /// Who the client is now.
    pub identity: Identity,
    /// As whom it asks servers.
    pub account: Rc<Account>,
    /// Its name, for operators.
    pub user: Rc<str>,
    /// What it has wanted beside that.
    pub hello: Option<Hello>,
}

/// What a client wants with `HELLO`.
#[derive(Debug)]
pub struct Hello {
    /// The version of the protocol that it speaks from now on.
    pub version: Version,
    /// Its name, for other clients.
    pub name: Option<Vec<u8>>,
}
