//! Connections to servers: where they are, how one is opened and logged in to, and asking one
//! something of Weir's own.
//!
//! It never decides which server a statement goes to, and never sees a client. The path:
//! [`Server`] says where and how, [`dial()`] opens a connection and logs in, and its [`Socket`]
//! belongs to a lane, to a lease, or to a [`Conversation`] that asks.

mod address;
mod cancel;
mod connection;
mod conversation;
mod dial;
mod error;
mod query;
mod socket;
#[cfg(test)]
mod tests;
mod tls;

pub use address::{Address, AddressError};
pub use cancel::cancel;
pub use connection::{Connection, Known, Opened, Reported};
pub use conversation::{Conversation, TalkError};
pub use dial::{CancelKey, Dialled, Identity, dial};
pub use error::{DialError, ServerError};
pub use query::{AskLimits, QueryError, Rows};
pub use socket::Socket;
pub use tls::{ALPN, Server, ServerSettingsError, Tls};
