//! What the console can be told to do, and how the gateway says that it was done.

use wire::postgres::backend::{Status, put_command_complete, put_ready_for_query};
use wire::postgres::refusal::{Refusal, sqlstate};

/// A command that changes something. A database is named as clients name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `PAUSE [db]`: no server connection is given out any more, and each that is given back is
    /// closed. Answered once none is left. Clients wait, new ones too.
    Pause(Option<String>),
    /// `RESUME [db]`: ends a pause.
    Resume(Option<String>),
    /// `RECONNECT [db]`: every server connection is closed once its client gives it back; lanes
    /// once they have run dry.
    Reconnect(Option<String>),
    /// `KILL [db]`: client and server connections are closed at once, and the database is paused.
    Kill(Option<String>),
    /// `KILL_CLIENT id`: one client, with the number that `SHOW CLIENTS` gives it.
    KillClient(u64),
    /// `DISABLE db`: new clients are refused.
    Disable(String),
    /// `ENABLE db`: ends that.
    Enable(String),
    /// `RELOAD`: the same as SIGHUP.
    Reload,
    /// `SHUTDOWN`: the same as SIGTERM; it waits for whom it is told to.
    Shutdown(Wait),
    /// `WAIT_CLOSE [db]`: answered once every connection that RECONNECT or RELOAD marked is closed.
    WaitClose(Option<String>),
}

/// Whom a shutdown waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nobody is waited for.
    None,
    /// Clients that have a server connection.
    Servers,
    /// All clients, until they disconnect.
    Clients,
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The database is not known.
    #[error("no such database: {0}")]
    NoSuchDatabase(String),
    /// `RESUME` of what is not paused.
    #[error("pooler is not paused/suspended")]
    NotPaused,
    /// `RESUME` of a database that is not paused.
    #[error("database {0} is not paused")]
    DatabaseNotPaused(String),
    /// `PAUSE` or `KILL` of what is paused already.
    #[error("already suspended/paused")]
    AlreadyPaused,
    /// No client has that number.
    #[error("client not found")]
    NoSuchClient,
    /// The configuration can't be used; the former one stays.
    #[error("RELOAD failed, see logs for additional details")]
    NotReloaded,
    /// The process is stopping already.
    #[error("pooler is shutting down")]
    Stopping,
    /// Anything else, in words for the operator.
    #[error("{0}")]
    Other(String),
}

impl ActionError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchDatabase(_) => sqlstate::UNDEFINED_DATABASE,
            Self::NoSuchClient => sqlstate::UNDEFINED_OBJECT,
            Self::NotReloaded => "F0000",
            Self::Stopping => sqlstate::CANNOT_CONNECT_NOW,
            Self::NotPaused | Self::DatabaseNotPaused(_) | Self::AlreadyPaused | Self::Other(_) => {
                sqlstate::NOT_IN_STATE
            }
        }
    }
}

impl Action {
    /// The command's word, which its answer repeats.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pause(_) => "PAUSE",
            Self::Resume(_) => "RESUME",
            Self::Reconnect(_) => "RECONNECT",
            Self::Kill(_) => "KILL",
            Self::KillClient(_) => "KILL_CLIENT",
            Self::Disable(_) => "DISABLE",
            Self::Enable(_) => "ENABLE",
            Self::Reload => "RELOAD",
            Self::Shutdown(_) => "SHUTDOWN",
            Self::WaitClose(_) => "WAIT_CLOSE",
        }
    }

    /// The database it is about, where it is about one.
    pub fn database(&self) -> Option<&str> {
        match self {
            Self::Pause(name)
            | Self::Resume(name)
            | Self::Reconnect(name)
            | Self::Kill(name)
            | Self::WaitClose(name) => name.as_deref(),
            Self::Disable(name) | Self::Enable(name) => Some(name),
            Self::KillClient(_) | Self::Reload | Self::Shutdown(_) => None,
        }
    }

    /// Appends the whole answer once the gateway has done it, or could not.
    pub fn done(&self, outcome: Result<(), ActionError>, out: &mut Vec<u8>) {
        match outcome {
            Ok(()) => put_command_complete(out, self.word()),
            Err(error) => Refusal::error(error.code(), error.to_string()).encode(out),
        }
        put_ready_for_query(out, Status::Idle);
    }
}
