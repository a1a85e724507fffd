//! Connections to servers: where they are, how one is opened and logged in to, and asking one
//! something of Weir's own.
//!
//! It never decides which server a statement goes to, and never sees a client. The path:
//! [`Server`] says where and how, [`dial()`] opens a connection and logs in, and its [`Socket`]
//! belongs to a lane, to a lease, or to a [`Conversation`] that asks.

mod cancel;
mod conversation;
mod dial;
mod error;
mod query;
#[cfg(test)]
mod tests;
mod tls;

pub use cancel::cancel;
pub use conversation::{Conversation, TalkError};
pub use dial::{CancelKey, Dialled, Identity, dial};
pub use error::{DialError, ServerError};
pub use query::{AskLimits, QueryError, Rows};
pub use tls::{ALPN, Server, ServerSettingsError};
