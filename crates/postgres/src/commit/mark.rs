//! The statement of a mark, and what its answer proves.

use wire::postgres::backend::{Fields, Status, command_complete, ready_for_query, tag};
use wire::postgres::frame::Frame;

use super::level::CommitLevel;

/// The statement of a mark. Its transaction has an XID and writes to the log, at any `wal_level`:
/// one that does only one of both is not flushed, or waits for no standby. Subscribers of
/// `pgoutput` see it only with `messages 'true'`.
pub const MARK: &str = "SELECT pg_catalog.pg_logical_emit_message(true, 'weir', '')";

/// Where a server waits for its standbys (`src/backend/replication/syncrep.c`). Field `R` of a
/// notice is never translated, as its text is.
const WAIT_FOR_STANDBYS: &[u8] = b"SyncRepWaitForLSN";

/// What is sent on a connection of marks before the first one.
pub fn opening(level: CommitLevel) -> String {
    format!(
        "SET synchronous_commit = {}; SET client_min_messages = warning; \
         SET default_transaction_read_only = off",
        level.as_str()
    )
}

/// What a mark's answer proves of all that was committed before the mark was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkVerdict {
    /// It is as durable as the mark's level says.
    Durable,
    /// It is on the server's own disk; the wait for standbys was cancelled, as this WARNING says,
    /// which is a whole message. Each answer goes out behind it.
    LocallyDurable(Vec<u8>),
}

/// A mark's answer that proves nothing: the connection is to be closed, and what was to be covered
/// is of unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkFault {
    /// The mark failed, with this SQLSTATE.
    #[error("the server refuses marks ({0})")]
    Refused(String),
    /// The server has a notice to it that is not understood.
    #[error("the server answered a mark with a notice ({0}) that proves nothing")]
    Notice(String),
    /// A message stands where none should.
    #[error("the server answered a mark with a message ({0:?}) that does not belong there")]
    Unexpected(char),
}

/// How far the answer to a mark has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MarkReply {
    step: ReplyStep,
    /// The wait for standbys was cancelled, as this message says.
    warning: Option<Vec<u8>>,
}

/// Which message of a mark's answer is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReplyStep {
    #[default]
    Description,
    Row,
    Completion,
    Ready,
}

impl MarkReply {
    /// Takes the next message; what the answer proves, once it is whole. The next message after
    /// that is of the next mark.
    ///
    /// # Errors
    /// The answer proves nothing.
    pub fn hear(&mut self, message: Frame<'_>) -> Result<Option<MarkVerdict>, MarkFault> {
        let unexpected = || MarkFault::Unexpected(char::from(message.tag));
        self.step = match (message.tag, self.step) {
            // A reload of the server's settings is told at any time.
            (tag::PARAMETER_STATUS, step) => step,
            (tag::ERROR_RESPONSE, _) => return Err(MarkFault::Refused(code(message.body))),
            (tag::NOTICE_RESPONSE, step) => {
                if !is_cancelled_wait(message.body) {
                    return Err(MarkFault::Notice(code(message.body)));
                }
                self.warning = Some(message.whole.to_vec());
                step
            }
            (tag::ROW_DESCRIPTION, ReplyStep::Description) => ReplyStep::Row,
            (tag::DATA_ROW, ReplyStep::Row) => ReplyStep::Completion,
            (tag::COMMAND_COMPLETE, ReplyStep::Completion)
                if command_complete(message.body) == Ok(b"SELECT 1") =>
            {
                ReplyStep::Ready
            }
            (tag::READY_FOR_QUERY, ReplyStep::Ready)
                if ready_for_query(message.body) == Ok(Status::Idle) =>
            {
                self.step = ReplyStep::Description;
                let warning = self.warning.take();
                return Ok(Some(warning.map_or(MarkVerdict::Durable, MarkVerdict::LocallyDurable)));
            }
            _ => return Err(unexpected()),
        };
        Ok(None)
    }
}

/// Whether a notice says that somebody has cancelled the wait for standbys: the server goes on as
/// if they had answered.
fn is_cancelled_wait(notice: &[u8]) -> bool {
    Fields::read(notice).is_ok_and(|fields| {
        fields.severity() == b"WARNING" && fields.get(b'R') == Some(WAIT_FOR_STANDBYS)
    })
}

fn code(body: &[u8]) -> String {
    let code = Fields::read(body).map(|fields| fields.code()).unwrap_or_default();
    String::from_utf8_lossy(code).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::postgres::frame;
    use wire::postgres::message;

    const ROW: &[u8] = b"\0\x01\0\0\0\x090/1549A28";
    const CANCELLED: &[u8] = b"SWARNUNG\0VWARNING\0C01000\0Mbreche Warten ab\0\
        Fsyncrep.c\0L287\0RSyncRepWaitForLSN\0\0";
    const OTHER_WARNING: &[u8] = b"SWARNING\0VWARNING\0C01000\0Mx\0RCommitTransaction\0\0";
    const REFUSED: &[u8] = b"SERROR\0VERROR\0C42501\0Mpermission denied\0\0";
    const CONFIRMED: [(u8, &[u8]); 4] =
        [(b'T', b"\0\0"), (b'D', ROW), (b'C', b"SELECT 1\0"), (b'Z', b"I")];

    fn hear(
        reply: &mut MarkReply,
        messages: &[(u8, &[u8])],
    ) -> Result<Option<MarkVerdict>, MarkFault> {
        let mut verdict = None;
        for (tag, body) in messages {
            assert_eq!(verdict, None, "it was decided before the end");
            let bytes = whole(*tag, body);
            verdict = reply.hear(frame::next(&bytes, usize::MAX).unwrap().unwrap())?;
        }
        Ok(verdict)
    }

    fn whole(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        message(&mut out, tag, |out| out.extend_from_slice(body));
        out
    }

    /// The confirmation with one message more, at a place.
    fn with(at: usize, message: (u8, &'static [u8])) -> Vec<(u8, &'static [u8])> {
        let mut messages = CONFIRMED.to_vec();
        messages.insert(at, message);
        messages
    }

    #[test]
    fn a_mark_that_committed_without_a_notice_proves_all_before_it() {
        let mut reply = MarkReply::default();
        for _ in 0..2 {
            assert_eq!(hear(&mut reply, &CONFIRMED), Ok(Some(MarkVerdict::Durable)));
        }
        for at in 0..CONFIRMED.len() {
            let reloaded = with(at, (b'S', b"TimeZone\0UTC\0"));
            assert_eq!(hear(&mut reply, &reloaded), Ok(Some(MarkVerdict::Durable)), "{at}");
        }
    }

    #[test]
    fn nothing_is_proven_before_the_server_is_ready_again() {
        for len in 0..CONFIRMED.len() {
            assert_eq!(hear(&mut MarkReply::default(), &CONFIRMED[..len]), Ok(None), "{len}");
        }
    }

    #[test]
    fn a_cancelled_wait_for_standbys_proves_the_server_s_own_disk_in_any_language() {
        for at in 0..CONFIRMED.len() {
            let mut reply = MarkReply::default();
            let cancelled = hear(&mut reply, &with(at, (b'N', CANCELLED)));
            let warning = whole(b'N', CANCELLED);
            assert_eq!(cancelled, Ok(Some(MarkVerdict::LocallyDurable(warning))), "{at}");
            assert_eq!(hear(&mut reply, &CONFIRMED), Ok(Some(MarkVerdict::Durable)), "{at}");
        }
    }

    #[test]
    fn any_other_notice_proves_nothing() {
        let notices: [(&[u8], &str); 4] = [
            (OTHER_WARNING, "01000"),
            (b"SNOTICE\0VNOTICE\0C00000\0Mx\0RSyncRepWaitForLSN\0\0", "00000"),
            (b"SWARNING\0VWARNING\0C01000\0Mx\0\0", "01000"),
            (b"garbage", ""),
        ];
        for (notice, code) in notices {
            for at in 0..CONFIRMED.len() {
                let heard = hear(&mut MarkReply::default(), &with(at, (b'N', notice)));
                assert_eq!(heard, Err(MarkFault::Notice(code.to_owned())), "{at}");
            }
        }
    }

    #[test]
    fn a_mark_that_failed_proves_nothing() {
        for at in 0..CONFIRMED.len() {
            let heard = hear(&mut MarkReply::default(), &with(at, (b'E', REFUSED)));
            assert_eq!(heard, Err(MarkFault::Refused("42501".to_owned())), "{at}");
        }
    }

    #[test]
    fn messages_that_are_missing_doubled_or_of_another_kind_prove_nothing() {
        for left_out in 0..CONFIRMED.len() - 1 {
            let mut messages = CONFIRMED.to_vec();
            messages.remove(left_out);
            assert!(hear(&mut MarkReply::default(), &messages).is_err(), "{left_out}");
        }
        for (at, twice) in CONFIRMED.into_iter().enumerate().take(3) {
            assert!(hear(&mut MarkReply::default(), &with(at, twice)).is_err(), "{at}");
        }
        for message in [(b'A', &b"\0\0\0\x01c\0\0"[..]), (b'I', b""), (b'1', b""), (0, b"")] {
            let heard = hear(&mut MarkReply::default(), &[message]);
            assert_eq!(heard, Err(MarkFault::Unexpected(char::from(message.0))));
        }
    }

    #[test]
    fn another_tag_or_an_open_transaction_proves_nothing() {
        for (at, other) in [
            (2, (b'C', &b"SELECT 0\0"[..])),
            (2, (b'C', b"COMMIT\0")),
            (2, (b'C', b"SELECT 1")),
            (3, (b'Z', b"T")),
            (3, (b'Z', b"E")),
            (3, (b'Z', b"II")),
        ] {
            let mut messages = CONFIRMED.to_vec();
            messages[at] = other;
            let heard = hear(&mut MarkReply::default(), &messages);
            assert_eq!(heard, Err(MarkFault::Unexpected(char::from(other.0))));
        }
    }

    #[test]
    fn the_connection_of_marks_has_their_level_and_says_nothing_but_warnings() {
        let opening = opening(CommitLevel::RemoteApply);
        assert!(opening.starts_with("SET synchronous_commit = remote_apply;"));
        assert!(opening.contains("client_min_messages = warning"));
    }
}
