//! What is heard of a server, for whoever follows a script.

use wire::postgres::backend::Status;

use super::{Outcome, Why};

/// What a script tells its owner of, beside the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    /// Bytes of an answer, for the client.
    Bytes(&'a [u8]),
    /// Bytes of a message that answers nothing: a notification, a setting that has changed, or
    /// whatever is said while nothing was asked, as that the server stops.
    Aside(&'a [u8]),
    /// The statement with this number is prepared there now.
    Prepared(u64),
    /// The statement with this number was not prepared: an error came before.
    NotPrepared(u64),
    /// The statement with this number, which is to be gone, was closed; or the Close was left out
    /// behind an error.
    Forgotten {
        /// The number of the statement.
        number: u64,
        /// Whether the Close was left out.
        left_out: bool,
    },
    /// The statement with this number has such parameters and such a result.
    Shape(u64, u64),
    /// What became of the next message that changes a name: those that prepare, close or
    /// deallocate a statement for the client.
    Name(Outcome),
    /// A command was completed, as its tag says (`INSERT 0 1`, without the zero byte).
    Completed(&'a [u8]),
    /// An ErrorResponse's body; `swallowed` when the client has not heard of it.
    Failed {
        /// The body of the ErrorResponse.
        body: &'a [u8],
        /// Weir's own question caused it.
        swallowed: bool,
    },
    /// The same behind it of a point statement, whose error the client hears as of its own text.
    PointFailed(&'a [u8]),
    /// The server has refused what it was meant to refuse: the client is to hear this instead.
    Refused(Why),
    /// A Query is left out, since it followed an error: ReadyForQuery comes after the next Sync.
    LeftOut,
    /// The body of a ParameterStatus.
    Parameter(&'a [u8]),
    /// The server waits for data of a COPY.
    CopyIn {
        /// Syncs that were sent already and stand amid the data: they end no round.
        syncs: u64,
        /// A Query runs the COPY, whose round has ended; an Execute's goes on.
        of_query: bool,
    },
    /// A COPY has failed, and how many of the Syncs amid its data are answered is to be asked.
    /// `for_good`: it can't be, since what becomes of a message behind them depends on that.
    Unsettled {
        /// Whether the connection is of no use any more.
        for_good: bool,
    },
    /// So many Syncs amid the data of a COPY were ignored.
    Ignored(u64),
    /// ReadyForQuery; `swallowed` when it answers Weir's own question.
    Ready {
        /// The status of the transaction.
        status: Status,
        /// It answers Weir's own question.
        swallowed: bool,
    },
    /// ReadyForQuery of a Sync that ends no round: it stood amid the data of a COPY that has
    /// failed.
    ReadyAgain(Status),
    /// ReadyForQuery of a Sync of Weir's own.
    OwnSync,
}
