//! From which message on the answer of a round is held.
//!
//! A command is completed before the transaction it stands in by itself is committed: a deferred
//! constraint fails behind its CommandComplete. Only ReadyForQuery proves the commit, and only a
//! mark that is sent after it was read covers it.

use wire::postgres::backend::tag;

/// How far the answer of a round that may commit has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerProgress {
    /// Nothing of it tells that something was done: rows go out as they come.
    #[default]
    Rows,
    /// A command was completed, or failed.
    Completed,
}

/// What becomes of a message of a round that may commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFate {
    /// The client hears it at once.
    PassOn,
    /// It is held with what comes behind it, as far as there is room.
    Retain,
    /// It ends the answer, and is held for a mark if the round needs one.
    End,
    /// It tells of another session's commit, and waits for a mark of its own.
    Notification,
}

impl AnswerProgress {
    /// Takes note of the next message of the answer.
    pub fn hear(&mut self, message: u8) -> MessageFate {
        match message {
            tag::NOTIFICATION_RESPONSE => return MessageFate::Notification,
            tag::READY_FOR_QUERY => {
                *self = Self::Rows;
                return MessageFate::End;
            }
            // A procedure that has failed may have committed before.
            tag::COMMAND_COMPLETE | tag::FUNCTION_CALL_RESPONSE | tag::ERROR_RESPONSE => {
                *self = Self::Completed;
            }
            _ => {}
        }
        match self {
            Self::Rows => MessageFate::PassOn,
            Self::Completed => MessageFate::Retain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(messages: &[u8]) -> Vec<MessageFate> {
        let mut progress = AnswerProgress::default();
        let fates = messages.iter().map(|message| progress.hear(*message)).collect();
        if messages.ends_with(b"Z") {
            assert_eq!(progress, AnswerProgress::default(), "the next answer begins anew");
        }
        fates
    }

    #[test]
    fn rows_go_out_and_what_stands_behind_the_first_completion_is_held() {
        use MessageFate::{End, PassOn, Retain};
        assert_eq!(fates(b"TDDCZ"), [PassOn, PassOn, PassOn, Retain, End]);
        let of_batch = fates(b"12nDC2nDCZ");
        assert!(of_batch[..4].iter().all(|fate| *fate == PassOn));
        assert!(of_batch[4..9].iter().all(|fate| *fate == Retain));
        assert_eq!(of_batch[9], End);
    }

    #[test]
    fn errors_and_results_of_functions_are_held_and_so_is_a_notice_behind_them() {
        use MessageFate::{End, PassOn, Retain};
        assert_eq!(fates(b"NEZ"), [PassOn, Retain, End]);
        assert_eq!(fates(b"VNSZ"), [Retain, Retain, Retain, End]);
    }

    #[test]
    fn notifications_wait_by_themselves() {
        use MessageFate::{End, Notification, PassOn, Retain};
        assert_eq!(
            fates(b"ADACAZ"),
            [Notification, PassOn, Notification, Retain, Notification, End]
        );
    }
}
