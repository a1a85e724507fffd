//! What a statement can be.

use super::contains::Contains;
use super::setting::SettingChange;

/// What a text that a client sent as one query is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but white space and comments: the server answers `EmptyQueryResponse`.
    Empty,
    /// A proven read: it may share a connection and may go to a replica. On a replica it can still
    /// fail for what no catalogue tells beforehand (SQLSTATE 25006: it writes after all; 0A000: it
    /// reads what a standby has not); then the primary is asked.
    Read,
    /// Begins a transaction in one of the known forms.
    Begin(BeginForm),
    /// `COMMIT` or `END`, with their noise words.
    Commit {
        /// `AND CHAIN`: the next transaction begins at once.
        chain: bool,
    },
    /// `ROLLBACK` or `ABORT`, with their noise words.
    Rollback {
        /// `AND CHAIN`: the next transaction begins at once.
        chain: bool,
    },
    /// `SAVEPOINT name`.
    Savepoint,
    /// `RELEASE [SAVEPOINT] name`.
    Release,
    /// `ROLLBACK TO [SAVEPOINT] name`.
    RollbackTo,
    /// `PREPARE TRANSACTION`: it ends the transaction, whose fate is then nobody's session.
    PrepareTransaction,
    /// Changes a setting of the session or of the transaction.
    Set(SettingChange),
    /// `DISCARD`.
    Discard(Discard),
    /// `DEALLOCATE`.
    Deallocate(Deallocate),
    /// `LISTEN channel`, as the server folds the name.
    Listen(Box<str>),
    /// `UNLISTEN channel`, or of all.
    Unlisten(Option<Box<str>>),
    /// `NOTIFY`.
    Notify,
    /// `COPY ... FROM STDIN`: the server answers `CopyInResponse` and waits for the client.
    CopyIn,
    /// `COPY ... TO STDOUT`.
    CopyOut {
        /// What is copied is a query that is not proven to be a read.
        may_write: bool,
    },
    /// Leaves on the server's session what only that session has: the client keeps its server.
    /// It may also write.
    Pins(Pin),
    /// Changes data: `INSERT`, `UPDATE`, `DELETE`, `MERGE` or `TRUNCATE`, or a query with one.
    Write,
    /// Changes the catalogue, and data perhaps.
    Ddl(Unsettles),
    /// More than one statement in one simple query; never a read.
    Several(Contains),
    /// Anything else, and every query that is not a proven read: to the primary, on a lease.
    Other,
}

impl Kind {
    /// Whether it reads, begins or ends something, and no more.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::Empty
                | Self::Read
                | Self::Begin(_)
                | Self::Commit { .. }
                | Self::Rollback { .. }
                | Self::Savepoint
                | Self::Release
                | Self::RollbackTo
        )
    }

    /// Whether all that it does is known by this, and followed: it runs nothing that may do more.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.is_harmless()
            || matches!(
                self,
                Self::PrepareTransaction
                    | Self::Set(_)
                    | Self::Discard(_)
                    | Self::Deallocate(_)
                    | Self::Listen(_)
                    | Self::Unlisten(_)
                    | Self::Notify
            )
    }
}

/// How a transaction is begun: what is said in the statement; what is not is the session's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeginForm {
    /// `ISOLATION LEVEL`
    pub isolation: Option<Isolation>,
    /// `READ ONLY` is true, `READ WRITE` false.
    pub read_only: Option<bool>,
    /// `DEFERRABLE` is true, `NOT DEFERRABLE` false.
    pub deferrable: Option<bool>,
}

impl BeginForm {
    /// Whether its reads see each what is there when they begin, and may be followed by a write.
    #[must_use]
    pub fn is_loose(&self) -> bool {
        use Isolation::{ReadCommitted, ReadUncommitted};
        matches!(self.isolation, None | Some(ReadCommitted | ReadUncommitted))
            && self.read_only != Some(true)
            && self.deferrable.is_none()
    }

    /// Whether nothing but `BEGIN` is said, in whatever words.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Isolation levels, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// `READ UNCOMMITTED`, which PostgreSQL treats as the next.
    ReadUncommitted,
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

/// The part of the session's state that a `DISCARD` drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Everything of the session: settings, prepared statements, cursors, `LISTEN`, temporary
    /// tables, advisory locks.
    All,
    Plans,
    /// What `currval` and `lastval` know.
    Sequences,
    Temporary,
}

/// Which prepared statements a `DEALLOCATE` drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deallocate {
    /// `DEALLOCATE ALL`: every one of the session.
    All,
    /// One, its name as the server folds it.
    Name(Box<str>),
}

/// What a statement leaves on the server's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// A temporary table, view or sequence, or anything in `pg_temp`.
    Temporary,
    /// An advisory lock that is held until the session ends.
    AdvisoryLock,
    /// A cursor `WITH HOLD`.
    HeldCursor,
    /// A statement prepared by `PREPARE`, or the use of one by `EXECUTE`.
    Prepared,
    /// A library loaded by `LOAD`.
    Library,
    /// Another role: `SET ROLE`, `SET SESSION AUTHORIZATION`.
    Role,
    /// A setting changed by `set_config` or in a form that is not kept by the gateway.
    Setting,
    /// A named connection of `dblink`.
    Dblink,
    /// A `LISTEN` to a channel whose name only the server knows.
    Listen,
    /// The seed of `random()`.
    Seed,
    /// What a function does that says so in its text: it locks, sets or makes something temporary.
    Function,
    /// A replication slot or origin, or a backup, that belongs to the session.
    Replication,
}

impl Pin {
    /// Its name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::AdvisoryLock => "advisory_lock",
            Self::HeldCursor => "held_cursor",
            Self::Prepared => "prepared",
            Self::Library => "library",
            Self::Role => "role",
            Self::Setting => "setting",
            Self::Dblink => "dblink",
            Self::Listen => "listen",
            Self::Seed => "seed",
            Self::Function => "function",
            Self::Replication => "replication",
        }
    }
}

/// What becomes of the facts that reads were proven by, once a statement has changed the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unsettles {
    /// The facts still hold.
    Nothing,
    /// They hold, but do not know what is new: to be loaded again soon.
    Adds,
    /// They may be wrong: nothing is proven any more until they are loaded again.
    Changes,
    /// As `Changes`; and functions may be new, of which nobody knows whether anything takes away
    /// what they leave.
    Code,
}
