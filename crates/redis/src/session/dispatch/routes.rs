//! By which way a command of the list may go.

use super::parts::{ClientCommand, LatencyCommand, ManagingCommand, PubsubCommand, SlowlogCommand};
use crate::commands::{All, Kind, Split, TransactionCommand};

/// The way of a command of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum CommandRoute {
    /// It begins a transaction, ends it, or says which keys it depends on.
    Transaction(TransactionCommand),
    /// A step of a transaction, which its server queues.
    Step(StepEffect),
    /// By a lane of the server that has its keys, and it changes nothing.
    Read,
    /// By a lane of the server that has its keys.
    Write,
    /// By a lane of any server.
    Any,
    /// By the client's own connection, where it waits for what others do.
    Block,
    /// By lanes of all servers that have some of its keys.
    Split(Split),
    /// By lanes of all servers.
    All(All),
    /// By a lane of the server that the cursor names.
    Scan,
    /// `SCRIPT` or `FUNCTION`, by its sub-command.
    Manage(ManagingCommand),
    /// By the client's own connection, behind a write that changes nothing.
    Wait,
    /// Its subscriptions, by connections that clients share.
    Subscribe(Kind),
    /// The end of subscriptions of one kind.
    Unsubscribe(Kind),
    /// What is known of all subscriptions.
    Pubsub(PubsubCommand),
    /// All servers that the client tracks keys at answer it: what they said of keys before, the
    /// client hears before.
    AskTracked,
    /// Weir answers it itself.
    Own(OwnAnswer),
}

/// What a step of a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum StepEffect {
    /// It changes nothing at its server.
    Reads,
    /// It may change something there.
    Writes,
    /// It may change something, and what it leaves on its connection is not known.
    Unknown,
}

/// What Weir answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum OwnAnswer {
    Auth,
    Client(ClientCommand),
    /// `CONFIG GET` of what drivers look at.
    ConfigGet,
    /// `WEIR`, which is Weir's console.
    Console,
    /// The words that came, as `ECHO` and a `PING` with words have it.
    Echo,
    Hello,
    Info,
    Latency(LatencyCommand),
    Monitor,
    Pong,
    /// `PING` in the subscribed mode, whose answer has the form of a message.
    PongAsMessage,
    Quit,
    Reset,
    Select,
    Slowlog(SlowlogCommand),
}
