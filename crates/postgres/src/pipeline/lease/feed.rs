//! What a client sends, onto its server connection.

use wire::postgres::backend::Status;
use wire::postgres::frame::{self, Frame, FrameError, Header};
use wire::postgres::frontend::{put_flush, put_terminate, tag};

use super::gate::Gate;
use super::incoming::Incoming;
use super::machine::Lease;
use super::note::{BoundStatement, Departure};
use super::pause::Pause;
use super::sending::{Composing, Sending};
use crate::pipeline::compose::Composer;
use crate::pipeline::round::HELD_MAX;
use crate::pipeline::script::{Admission, Expect, Fate, Script, Why};
use crate::plan::{Kind, Plan};

/// A Query is held up to this length, so that it can be looked into; a longer one goes out as it
/// comes, and its client keeps its server connection.
const QUERY_HELD_MAX: usize = 4 * 1024 * 1024;
/// Answers that are under way at most; what more the client asks for waits.
const ANSWERS_MAX: usize = 16 * 1024;

/// Why nothing more of a client goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEnd {
    /// It said goodbye, and has had all its answers.
    Goodbye,
    /// A message is longer than any may be.
    TooLong {
        /// Its first byte, which is its kind.
        tag: u8,
        /// Its length in bytes.
        len: usize,
    },
    /// No message of the protocol begins with this byte.
    Unknown(u8),
    /// Something else than data behind a Sync amid the data of a COPY.
    AmidCopy,
}

/// What becomes of what stands at the start of the client's input.
enum Step {
    /// So many bytes of it are dealt with.
    Goes(usize),
    /// It waits, or is no whole message.
    Pauses(Pause),
}

impl Lease {
    /// Puts what the client has sent onto the server connection, as far as it may go now; how many
    /// bytes are dealt with.
    ///
    /// # Errors
    /// Nothing more of it will go out.
    pub fn feed(
        &mut self,
        inbox: &[u8],
        session: &mut impl Sending,
    ) -> (usize, Result<(), InputEnd>) {
        let mut at = 0;
        loop {
            let rest = self.incoming.take(inbox.len() - at);
            if rest.goes_out {
                session.out().extend_from_slice(&inbox[at..at + rest.len]);
            }
            at += rest.len;
            let step = match self.pauses(session) {
                Some(why) => Ok(Step::Pauses(why)),
                None => self.message(&inbox[at..], session),
            };
            match step {
                Ok(Step::Goes(len)) => {
                    at += len;
                    self.pause = Pause::Nothing;
                    session.forget_study();
                }
                Ok(Step::Pauses(why)) => {
                    if self.pause.becomes(why) && why.asks_for_answers(self.rounds.is_within()) {
                        put_flush(session.out());
                    }
                    return (at, Ok(()));
                }
                Err(end) => return (at, Err(end)),
            }
        }
    }

    /// Why the client's next message, whatever it is, may not go out now.
    fn pauses(&self, session: &mut impl Sending) -> Option<Pause> {
        if session.is_full() {
            return Some(Pause::Room);
        }
        let (pinned, takes_data) = (session.is_pinned(), session.script().takes_data());
        if self.incoming.is_within() || !self.takes_more(pinned, takes_data) {
            Some(Pause::Nothing)
        } else if session.script().under_way() >= ANSWERS_MAX {
            Some(Pause::Many)
        } else {
            None
        }
    }

    /// Puts one message, or the beginning of a long one, onto the server connection.
    fn message(&mut self, bytes: &[u8], session: &mut impl Sending) -> Result<Step, InputEnd> {
        let Header { tag, len } = match frame::header(bytes, session.message_max()) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(Step::Pauses(Pause::Nothing)),
            Err(FrameError::TooLong { len, .. }) => {
                return Err(InputEnd::TooLong { tag: bytes[0], len });
            }
            Err(FrameError::TooShort) => return Err(InputEnd::Unknown(bytes[0])),
        };
        match tag {
            b'X' => return self.farewell(bytes, session),
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'S' | b'H' | b'F' | b'd' | b'c' | b'f' => {}
            _ => return Err(InputEnd::Unknown(tag)),
        }
        match session.script().admits(tag) {
            Admission::Now => {}
            Admission::Later => return Ok(Step::Pauses(Pause::Copy)),
            Admission::Never => return Err(InputEnd::AmidCopy),
        }
        let Some(whole) = bytes.get(..len) else {
            let held_max = if tag == b'Q' { QUERY_HELD_MAX } else { HELD_MAX };
            let streams = matches!(tag, b'd' | b'Q' | b'F') && len > held_max;
            return Ok(match streams {
                true => self.begin_long(tag, bytes, len, session),
                false => Step::Pauses(Pause::Nothing),
            });
        };
        let message = Frame { tag, body: &whole[frame::HEADER_BYTES..], whole };
        Ok(self.whole_message(message, session))
    }

    fn whole_message(&mut self, message: Frame<'_>, session: &mut impl Sending) -> Step {
        let gone = Step::Goes(message.whole.len());
        match self.passes(message, session) {
            Gate::Open => {}
            Gate::Waits => return Step::Pauses(Pause::Message),
            Gate::Done => return gone,
        }
        if !session.is_studied(message) {
            return Step::Pauses(Pause::Nothing);
        }
        let plan = (message.tag == tag::QUERY).then(|| session.plan(message));
        match self.may_run(message, plan.as_ref(), session) {
            Gate::Open => {}
            Gate::Waits => return Step::Pauses(Pause::Message),
            Gate::Done => return gone,
        }
        let Some(plan) = plan else {
            // What a Bind changes it changes behind its own statement's being prepared.
            if message.tag == tag::BIND {
                self.compose_message(message, session);
                self.note_message(message, session);
            } else {
                self.note_message(message, session);
                self.compose_message(message, session);
            }
            return gone;
        };
        let is_point = self.is_point(&plan, message, session);
        let parts = session.parts(&plan, message);
        self.note_query(&plan, text(message), parts, session);
        if is_point {
            self.rounds.is_point(text(message));
            let may_have_failed = self.may_have_failed();
            session.compose_point(Composing { fresh: &mut self.fresh, may_have_failed });
        } else {
            self.compose_message(message, session);
        }
        gone
    }

    fn note_message(&mut self, message: Frame<'_>, session: &mut impl Sending) {
        let bound = match message.tag {
            tag::BIND => self.bound(message.body, session),
            _ => None,
        };
        let bound = bound.as_ref().map(|(plan, of)| BoundStatement { plan, sql: &of.sql });
        self.note(message, bound, session);
    }

    /// Whether a Query is sent as a point statement. Not a read: the server would not tell what it
    /// reads under another result than the one it was prepared with, and the transaction fails by
    /// that. Nor where its names and its strings may mean something else than they do to others.
    fn is_point(&self, plan: &Plan, query: Frame<'_>, session: &mut impl Sending) -> bool {
        matches!(plan.kind, Kind::Write)
            && !self.rounds.is_within()
            && !session.script().takes_data()
            && !self.sway.is_swayed()
            && session.status() != Status::Failed
            && session.lifts(plan, query)
    }

    /// Puts a whole message onto the server connection.
    fn compose_message(&mut self, message: Frame<'_>, session: &mut impl Sending) {
        let write = |composer: &mut Composer<'_>, out: &mut Vec<u8>, script: &mut Script| {
            composer.message(message, out, script)
        };
        if self.compose(session, write).is_err() {
            // As a server says it, which goes on behind the next Sync.
            self.refuse_to_run(Why::Malformed, false, session);
            return;
        }
        if message.tag == tag::PARSE {
            session.learn(message);
        }
        if message.tag == tag::EXECUTE && self.portals.forgets() {
            self.forgets = true;
            // What follows waits for its answer.
            put_flush(session.out());
        }
    }

    /// Has messages written for the server connection.
    pub(super) fn compose<T>(
        &mut self,
        session: &mut impl Sending,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        let may_have_failed = self.may_have_failed();
        session.compose(Composing { fresh: &mut self.fresh, may_have_failed }, write)
    }

    /// A message that is too long to be held goes out as it comes. What a statement of such length
    /// does is not looked into.
    fn begin_long(
        &mut self,
        tag: u8,
        bytes: &[u8],
        len: usize,
        session: &mut impl Sending,
    ) -> Step {
        let goes_out = !session.script().is_skipping();
        if tag != b'd' && goes_out {
            self.note_unknown(session);
            self.hide_prepared(session);
            if tag == b'Q' {
                session.names().query();
            }
            session.script().expect(Expect::Query(Fate::Pass));
        }
        if goes_out {
            session.out().extend_from_slice(bytes);
        }
        self.incoming = Incoming::of_long(len - bytes.len(), goes_out);
        Step::Goes(bytes.len())
    }

    /// The client says goodbye, which takes all that it has sent along.
    fn farewell(&mut self, bytes: &[u8], session: &mut impl Sending) -> Result<Step, InputEnd> {
        if self.rounds.is_within() || session.script().takes_data() {
            // The server waits for more of the round as well: what came before the goodbye is done
            // or undone there, as it would be without Weir.
            put_terminate(session.out());
            session.carry_out(Departure::GivesUp);
            self.leaving = true;
            return Ok(Step::Goes(bytes.len()));
        }
        if !self.rounds.is_empty() || session.has_unsent() {
            // What was sent before it is answered first.
            self.leaving = true;
            return Ok(Step::Pauses(Pause::Nothing));
        }
        Err(InputEnd::Goodbye)
    }
}

/// The text of a Query.
fn text(query: Frame<'_>) -> &[u8] {
    query.body.strip_suffix(&[0]).unwrap_or(query.body)
}
