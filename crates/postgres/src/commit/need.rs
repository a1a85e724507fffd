//! Whether the end of a round waits for a mark.

use wire::postgres::backend::Status;

use crate::plan::Kind;

/// What ran in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoundContents {
    /// Nothing was bound or run: statements may have been prepared or described.
    #[default]
    Nothing,
    /// Proven reads, and nothing else.
    Reads,
    /// One statement that is not a proven read.
    Statement,
    /// Several statements that are not all proven reads: between two of them a transaction may
    /// have ended.
    Several,
    /// A FunctionCall, or anything else that was not looked into.
    Unknown,
}

impl RoundContents {
    /// With one more statement of this kind.
    #[must_use]
    pub fn with(self, kind: &Kind) -> Self {
        match (self, kind) {
            (Self::Unknown, _) => Self::Unknown,
            (_, Kind::Several(_)) => Self::Several,
            (Self::Nothing | Self::Reads, Kind::Read) => Self::Reads,
            (Self::Nothing, _) => Self::Statement,
            (Self::Reads | Self::Statement | Self::Several, _) => Self::Several,
        }
    }
}

/// Whether a command of this tag may have ended a transaction, whatever the status is behind it:
/// `COMMIT AND CHAIN` leaves one open, and procedures and blocks may commit as they run.
pub fn ends_transaction(tag: &[u8]) -> bool {
    matches!(tag, b"COMMIT" | b"COMMIT PREPARED" | b"PREPARE TRANSACTION" | b"CALL" | b"DO")
}

/// A round that its ReadyForQuery has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundEnd {
    /// What ran in it.
    pub contents: RoundContents,
    /// A transaction was open before it.
    pub was_open: bool,
    /// One of its commands was completed by a tag that [`ends_transaction`].
    pub has_ending_tag: bool,
    /// The status in its ReadyForQuery.
    pub status: Status,
}

impl RoundEnd {
    /// Whether its answer waits for a mark: it does wherever a transaction that may have written
    /// may have ended in it. No kind of statement is excepted but proven reads: under
    /// `synchronous_commit = off` neither changes of the catalogue nor two-phase commits wait for
    /// standbys, and no message says whether a transaction wrote.
    pub fn needs_mark(self) -> bool {
        if self.has_ending_tag {
            return true;
        }
        match (self.contents, self.status) {
            // A portal that an earlier round has bound may have ended the transaction.
            (RoundContents::Nothing | RoundContents::Reads, Status::Idle) => self.was_open,
            (RoundContents::Nothing | RoundContents::Reads, _) => false,
            (RoundContents::Statement, Status::Idle) => true,
            (RoundContents::Statement, Status::InTransaction | Status::Failed) => false,
            (RoundContents::Several | RoundContents::Unknown, _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Contains, Unsettles};

    const ALL: [RoundContents; 5] = [
        RoundContents::Nothing,
        RoundContents::Reads,
        RoundContents::Statement,
        RoundContents::Several,
        RoundContents::Unknown,
    ];
    const STATUSES: [Status; 3] = [Status::Idle, Status::InTransaction, Status::Failed];

    fn end(contents: RoundContents, status: Status) -> RoundEnd {
        RoundEnd { contents, was_open: false, has_ending_tag: false, status }
    }

    #[test]
    fn proven_reads_alone_need_no_mark() {
        for contents in [RoundContents::Nothing, RoundContents::Reads] {
            for status in STATUSES {
                assert!(!end(contents, status).needs_mark(), "{contents:?} {status:?}");
            }
        }
    }

    #[test]
    fn what_ends_a_transaction_that_was_open_needs_one_whatever_ran() {
        for contents in ALL {
            let end = RoundEnd { was_open: true, ..end(contents, Status::Idle) };
            assert!(end.needs_mark(), "{contents:?}");
        }
    }

    #[test]
    fn a_statement_needs_one_where_no_transaction_is_open_behind_it() {
        let needs = STATUSES.map(|status| end(RoundContents::Statement, status).needs_mark());
        assert_eq!(needs, [true, false, false]);
    }

    #[test]
    fn several_statements_and_unknown_ones_need_one_always() {
        for contents in [RoundContents::Several, RoundContents::Unknown] {
            for status in STATUSES {
                assert!(end(contents, status).needs_mark(), "{contents:?} {status:?}");
            }
        }
    }

    #[test]
    fn a_tag_that_ends_a_transaction_needs_one_wherever_it_leads() {
        for contents in ALL {
            for status in STATUSES {
                let end = RoundEnd { has_ending_tag: true, ..end(contents, status) };
                assert!(end.needs_mark(), "{contents:?} {status:?}");
            }
        }
    }

    #[test]
    fn commits_procedures_and_blocks_have_tags_that_may_end_a_transaction() {
        for tag in ["COMMIT", "COMMIT PREPARED", "PREPARE TRANSACTION", "CALL", "DO"] {
            assert!(ends_transaction(tag.as_bytes()), "{tag}");
        }
        for tag in ["", "SELECT 1", "INSERT 0 1", "BEGIN", "PREPARE", "DO 1", "ROLLBACK"] {
            assert!(!ends_transaction(tag.as_bytes()), "{tag}");
        }
    }

    #[test]
    fn contents_are_reads_only_where_each_statement_is_one() {
        let of = |kinds: &[Kind]| kinds.iter().fold(RoundContents::default(), RoundContents::with);
        let several = Kind::Several(Contains::default());
        assert_eq!(of(&[]), RoundContents::Nothing);
        assert_eq!(of(&[Kind::Read, Kind::Read]), RoundContents::Reads);
        assert_eq!(of(&[Kind::Write]), RoundContents::Statement);
        for kind in [Kind::Empty, Kind::Other, Kind::Notify, Kind::Ddl(Unsettles::Nothing)] {
            assert_eq!(of(std::slice::from_ref(&kind)), RoundContents::Statement, "{kind:?}");
            assert_eq!(of(&[Kind::Read, kind.clone()]), RoundContents::Several, "{kind:?}");
            assert_eq!(of(&[kind.clone(), Kind::Read]), RoundContents::Several, "{kind:?}");
        }
        assert_eq!(of(std::slice::from_ref(&several)), RoundContents::Several);
        assert_eq!(of(&[Kind::Read, several]), RoundContents::Several);
        assert_eq!(RoundContents::Unknown.with(&Kind::Read), RoundContents::Unknown);
    }
}
