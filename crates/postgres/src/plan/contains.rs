//! What several statements in one simple query contain.

use super::kind::{Kind, Unsettles};
use super::setting::SettingChange;

/// What is among the statements of one simple query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contains(u16);

impl Contains {
    /// `BEGIN`, `COMMIT`, `ROLLBACK`, savepoints and the like: only the server's ReadyForQuery says
    /// in what state the transaction ends.
    pub const TRANSACTION: Self = Self(1);
    /// A setting of the session is changed, or all are reset.
    pub const SET: Self = Self(1 << 1);
    /// Something is left on the session.
    pub const PINS: Self = Self(1 << 2);
    /// The catalogue is changed in a way that adds to it.
    pub const ADDS: Self = Self(1 << 3);
    /// The catalogue is changed in a way that makes facts wrong.
    pub const CHANGES: Self = Self(1 << 4);
    /// Something that may write.
    pub const WRITES: Self = Self(1 << 5);
    /// `COPY` to or from the client.
    pub const COPY: Self = Self(1 << 6);
    /// `LISTEN` or `UNLISTEN`, of any channel.
    pub const LISTEN: Self = Self(1 << 7);
    /// `DISCARD` or `DEALLOCATE`, of anything.
    pub const FORGETS: Self = Self(1 << 8);
    /// A setting for the rest of the transaction.
    pub const LOCAL: Self = Self(1 << 9);
    /// Functions are made or changed.
    pub const CODE: Self = Self(1 << 10);

    /// Whether anything of `other` is among them.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What one statement adds.
    pub(super) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Empty | Kind::Read => Self::default(),
            Kind::Begin(_)
            | Kind::Commit { .. }
            | Kind::Rollback { .. }
            | Kind::Savepoint
            | Kind::Release
            | Kind::RollbackTo
            | Kind::PrepareTransaction => Self::TRANSACTION,
            Kind::Set(SettingChange::Local { .. } | SettingChange::Transaction) => Self::LOCAL,
            Kind::Set(_) => Self::SET,
            Kind::Discard(_) | Kind::Deallocate(_) => Self::FORGETS,
            Kind::Listen(_) | Kind::Unlisten(_) => Self::LISTEN,
            Kind::CopyIn | Kind::CopyOut { .. } => Self::COPY.with(Self::WRITES),
            Kind::Pins(_) => Self::PINS.with(Self::WRITES),
            Kind::Ddl(Unsettles::Code) => Self::CODE.with(Self::CHANGES).with(Self::WRITES),
            Kind::Ddl(Unsettles::Changes) => Self::CHANGES.with(Self::WRITES),
            Kind::Ddl(Unsettles::Adds) => Self::ADDS.with(Self::WRITES),
            Kind::Ddl(Unsettles::Nothing) | Kind::Write | Kind::Notify | Kind::Other => {
                Self::WRITES
            }
            Kind::Several(contains) => *contains,
        }
    }
}
