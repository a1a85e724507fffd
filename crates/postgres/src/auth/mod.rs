//! Who may come in, and how Weir itself comes in at a server: state machines over the bodies of
//! authentication messages, both sides of SCRAM-SHA-256 (with and without channel binding), md5,
//! clear passwords and certificates.
//!
//! It never touches a socket, never says whether a user exists, and never writes the
//! AuthenticationOk: the caller does, once everything else is settled too.
//!
//! The path: the settings' rules choose the method, [`Users`] or an [`auth_query`] give the
//! [`Verifier`], [`ClientAuth`] asks the client, and the [`Credentials`] that it ends with are what
//! [`Login`] comes in with at a server. What takes milliseconds is a [`Derivation`], which both
//! hand out so that no worker has to wait for it.

pub mod auth_query;
mod certificate;
mod client;
mod credentials;
mod derivation;
pub mod hba;
mod login;
mod md5;
mod mock;
mod saslprep;
mod scram;
mod secret;
mod users;
mod verifier;

#[cfg(test)]
mod tests;

pub use certificate::{ChannelBinding, common_name};
pub use client::{Ask, AuthStep, ClientAuth};
pub use credentials::{Credentials, ScramLogin};
pub use derivation::{Derivation, KeyCache, Keys};
pub use login::{Binding, Login, LoginError, LoginRules, LoginStep};
pub use mock::{Kind, Mock};
pub use secret::Secret;
pub use users::{UserListError, Users, read_user_list};
pub use verifier::{Md5Verifier, PlainVerifier, ScramVerifier, Verifier};
