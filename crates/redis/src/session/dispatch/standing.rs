//! How a client stands as a command of it is looked at, and what is refused while it holds
//! something.

/// Who a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Who {
    /// It has not logged in, and has to.
    Stranger,
    /// It may use what touches nobody else.
    User,
    /// It may use commands that show or touch what is everybody's.
    Admin,
}

/// What a client says is in the midst of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum TransactionStanding {
    /// Nothing, and it watches no keys.
    None,
    /// It watches keys on its connection to this place.
    Watching {
        /// The number of the place.
        place: usize,
    },
    /// It has said `MULTI`, and not `EXEC` yet.
    Begun,
}

/// Whether a client is subscribed to anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Subscription {
    /// To nothing at all.
    None,
    /// It is, and speaks RESP3: it tells messages from answers.
    Pushed,
    /// It is in the mode of RESP2 in which little else than messages can be understood.
    Mode,
}

/// What the pool of a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) struct PoolFacts {
    /// The number of its only server; `None`: there are several.
    pub(in crate::session) only: Option<usize>,
    /// Keys are where a Cluster has them.
    pub(in crate::session) is_cluster: bool,
}

/// How a client stands as a command of it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) struct ClientStanding {
    pub(in crate::session) who: Who,
    pub(in crate::session) pool: PoolFacts,
    pub(in crate::session) subscription: Subscription,
    pub(in crate::session) transaction: TransactionStanding,
    /// It is told of keys that others change, by connections of its own.
    pub(in crate::session) tracks: bool,
}

/// What a command would change that a client may hold something by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Change {
    /// `SELECT` of another database.
    Database,
    /// `HELLO` with another version of the protocol.
    Protocol,
    /// A login that makes the client another user of the servers.
    User,
    /// `CLIENT TRACKING` begins, changes or ends.
    Tracking,
    /// A command goes to another server than the one where keys are watched.
    Server,
    /// A command that is not listed goes by a connection for itself alone.
    Unlisted,
}

/// What a client may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// It watches keys, or is within a transaction.
    Transaction,
    /// It is told of keys that others change.
    Tracking,
    /// It is subscribed to something.
    Subscription,
    /// It is subscribed, and speaks RESP2.
    SubscribedMode,
}

/// What is refused while something holds, and in which words: the first one that holds is told.
const REFUSED: [(Change, Hold, &str); 11] = [
    (Change::Database, Hold::Transaction, "ERR weir: SELECT is refused while keys are watched"),
    (
        Change::Database,
        Hold::Tracking,
        "ERR weir: SELECT of another database is refused while CLIENT TRACKING is on",
    ),
    (
        Change::Protocol,
        Hold::Transaction,
        "ERR weir: HELLO cannot change the protocol while keys are watched",
    ),
    (
        Change::Protocol,
        Hold::Tracking,
        "ERR weir: HELLO with another protocol is refused while CLIENT TRACKING is on",
    ),
    (Change::User, Hold::Transaction, "ERR weir: a login is refused while keys are watched"),
    (
        Change::User,
        Hold::Subscription,
        "ERR weir: a login is refused while the client is subscribed",
    ),
    (Change::User, Hold::Tracking, "ERR weir: a login is refused while CLIENT TRACKING is on"),
    (
        Change::Tracking,
        Hold::Transaction,
        "ERR weir: CLIENT TRACKING is refused while keys are watched",
    ),
    (Change::Server, Hold::Transaction, "ERR weir: a key of another server is watched"),
    // Nobody would be told of keys that such a command reads, or in a form that is not understood.
    (Change::Unlisted, Hold::Tracking, "ERR unknown command"),
    (Change::Unlisted, Hold::SubscribedMode, "ERR unknown command"),
];

impl ClientStanding {
    /// That nothing which the client holds is lost by a change.
    pub(in crate::session) fn allows(&self, change: Change) -> Result<(), &'static str> {
        let is_it = |(of, hold, _): &&(Change, Hold, &str)| *of == change && self.holds(*hold);
        REFUSED.iter().find(is_it).map_or(Ok(()), |(.., words)| Err(words))
    }

    fn holds(&self, hold: Hold) -> bool {
        match hold {
            Hold::Transaction => self.transaction != TransactionStanding::None,
            Hold::Tracking => self.tracks,
            Hold::Subscription => self.subscription != Subscription::None,
            Hold::SubscribedMode => self.subscription == Subscription::Mode,
        }
    }

    /// That a command may wait for others at a place: not beside keys that are watched elsewhere.
    pub(in crate::session) fn allows_waiting(&self, at: usize) -> Result<(), &'static str> {
        match self.transaction {
            TransactionStanding::Watching { place } if place != at => self.allows(Change::Server),
            _ => Ok(()),
        }
    }

    /// Whether a read may be asked once for this client and others. `has_more`: commands of the
    /// client have come behind it, which would wait for it.
    pub(in crate::session) fn may_share_read(&self, has_more: bool) -> bool {
        !has_more && !self.tracks && self.transaction == TransactionStanding::None
    }

    /// Whether a read may go to a replica: a client that tracks is told of what it has read by the
    /// servers that it tracks at.
    pub(in crate::session) fn may_read_replicas(&self) -> bool {
        !self.tracks
    }
}
