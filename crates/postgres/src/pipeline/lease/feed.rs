//! What a client sends, onto its server connection.

use wire::postgres::backend::Status;
use wire::postgres::frame::{self, Frame, FrameError, Header};
use wire::postgres::frontend::{Parse, put_flush, put_terminate, tag};

use super::endpoints::{BindLookup, Composing, Endpoints, MessageLookup, QueryLookup};
use super::gate::Gate;
use super::incoming::Incoming;
use super::machine::Lease;
use super::note::{BoundStatement, Departure};
use super::pause::Pause;
use crate::pipeline::compose::Composer;
use crate::pipeline::judgement::TextPlan;
use crate::pipeline::names::Names;
use crate::pipeline::round::HELD_MAX;
use crate::pipeline::script::{Admission, Expect, ResponseAction, Script, Why};
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

/// What stands at the start of the client's input.
#[derive(Debug)]
pub enum Next<'a> {
    /// So many bytes of it are dealt with.
    Goes(usize),
    /// A whole message, which is to be [taken](Lease::take) with what its session knows of it.
    Message(Frame<'a>),
    /// It goes no further now, or is no whole message.
    Pauses,
}

/// The same, with why it goes no further.
enum Step<'a> {
    Goes(usize),
    Message(Frame<'a>),
    Pauses(Pause),
}

impl Lease {
    /// Looks at what stands at the start of what the client has sent.
    ///
    /// # Errors
    /// Nothing more of it will go out.
    pub fn next<'a>(
        &mut self,
        inbox: &'a [u8],
        ends: &mut Endpoints<'_>,
    ) -> Result<Next<'a>, InputEnd> {
        let rest = self.incoming.take(inbox.len());
        if rest.len > 0 {
            if rest.goes_out {
                ends.out.extend_from_slice(&inbox[..rest.len]);
            }
            return Ok(Next::Goes(rest.len));
        }
        let step = match self.pauses(ends) {
            Some(why) => Step::Pauses(why),
            None => self.message(inbox, ends)?,
        };
        Ok(match step {
            Step::Goes(len) => {
                self.pause = Pause::Nothing;
                Next::Goes(len)
            }
            Step::Message(message) => Next::Message(message),
            Step::Pauses(why) => {
                self.waits(why, ends);
                Next::Pauses
            }
        })
    }

    /// Puts a whole message onto the server connection, which its session knows this of; false
    /// where it has to wait.
    pub fn take(
        &mut self,
        message: Frame<'_>,
        lookup: MessageLookup<'_>,
        ends: &mut Endpoints<'_>,
    ) -> bool {
        let goes = self.goes(message, lookup, ends);
        match goes {
            true => self.pause = Pause::Nothing,
            false => self.waits(Pause::Message, ends),
        }
        goes
    }

    /// What the client sends goes no further for now.
    fn waits(&mut self, why: Pause, ends: &mut Endpoints<'_>) {
        if self.pause.becomes(why) && why.asks_for_answers(self.rounds.is_within()) {
            put_flush(ends.out);
        }
    }

    /// Why the client's next message, whatever it is, may not go out now.
    fn pauses(&self, ends: &Endpoints<'_>) -> Option<Pause> {
        if ends.unsent() > ends.unsent_max {
            return Some(Pause::Room);
        }
        if self.incoming.is_within() || !self.takes_more(ends.script.takes_data()) {
            Some(Pause::Nothing)
        } else if ends.script.under_way() >= ANSWERS_MAX {
            Some(Pause::Many)
        } else {
            None
        }
    }

    /// Finds one message, or puts the beginning of a long one onto the server connection.
    fn message<'a>(
        &mut self,
        bytes: &'a [u8],
        ends: &mut Endpoints<'_>,
    ) -> Result<Step<'a>, InputEnd> {
        let Header { tag, len } = match frame::header(bytes, ends.message_max) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(Step::Pauses(Pause::Nothing)),
            Err(FrameError::TooLong { len, .. }) => {
                return Err(InputEnd::TooLong { tag: bytes[0], len });
            }
            Err(FrameError::TooShort) => return Err(InputEnd::Unknown(bytes[0])),
        };
        match tag {
            b'X' => return self.farewell(bytes, ends),
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'S' | b'H' | b'F' | b'd' | b'c' | b'f' => {}
            _ => return Err(InputEnd::Unknown(tag)),
        }
        match ends.script.admits(tag) {
            Admission::Now => {}
            Admission::Later => return Ok(Step::Pauses(Pause::Copy)),
            Admission::Never => return Err(InputEnd::AmidCopy),
        }
        let Some(whole) = bytes.get(..len) else {
            let held_max = if tag == b'Q' { QUERY_HELD_MAX } else { HELD_MAX };
            let streams = matches!(tag, b'd' | b'Q' | b'F') && len > held_max;
            return Ok(match streams {
                true => self.begin_long(tag, bytes, len, ends),
                false => Step::Pauses(Pause::Nothing),
            });
        };
        let message = Frame { tag, body: &whole[frame::HEADER_BYTES..], whole };
        Ok(match self.heeds(message, ends) {
            Gate::Open => Step::Message(message),
            Gate::Waits => Step::Pauses(Pause::Message),
            Gate::Done => Step::Goes(len),
        })
    }

    /// Whether a message goes out, or is dealt with here.
    fn goes(
        &mut self,
        message: Frame<'_>,
        lookup: MessageLookup<'_>,
        ends: &mut Endpoints<'_>,
    ) -> bool {
        let bound = match &lookup {
            MessageLookup::Bind(bound) => bound.as_ref(),
            _ => None,
        };
        match self.passes(message, bound, ends) {
            Gate::Open => {}
            Gate::Waits => return false,
            Gate::Done => return true,
        }
        match self.may_run(message, &lookup, ends) {
            Gate::Open => {}
            Gate::Waits => return false,
            Gate::Done => return true,
        }
        match lookup {
            MessageLookup::Query(query) => self.query_goes(message, query, ends),
            // What a Bind changes it changes behind its own statement's being prepared.
            MessageLookup::Bind(bound) => {
                self.compose_message(message, ends);
                let bound = bound.as_ref().map(|BindLookup { plan, statement, .. }| {
                    BoundStatement { plan, sql: &statement.sql }
                });
                self.note_message(message, bound, ends);
            }
            MessageLookup::Parse(text) => {
                self.note_message(message, None, ends);
                if self.compose_message(message, ends) {
                    learn(message, text, ends.names);
                }
            }
            MessageLookup::Nothing => {
                self.note_message(message, None, ends);
                self.compose_message(message, ends);
            }
        }
        true
    }

    fn query_goes(&mut self, message: Frame<'_>, query: QueryLookup<'_>, ends: &mut Endpoints<'_>) {
        let QueryLookup { plan, parts, point } = query;
        let session = ends.session;
        self.note_query(&plan, text(message), parts, session, &mut |of| ends.depart(of));
        let Some(lifted) = point else {
            self.compose_message(message, ends);
            return;
        };
        self.rounds.is_point(text(message));
        self.compose(ends, |composer, out, script| {
            composer.point(lifted, false, ResponseAction::Restore, out, script);
            composer.sync(out, script);
        });
        ends.depart(Departure::RunsPoint);
    }

    fn note_message(
        &mut self,
        message: Frame<'_>,
        bound: Option<BoundStatement<'_>>,
        ends: &mut Endpoints<'_>,
    ) {
        let session = ends.session;
        self.note(message, bound, session, &mut |departure| ends.depart(departure));
    }

    /// Whether a Query may be sent as a point statement, if its session can lift its values out of
    /// it. Not a read: the server would not tell what it reads under another result than the one it
    /// was prepared with, and the transaction fails by that. Nor where its names and its strings
    /// may mean something else than they do to others.
    pub fn takes_point(&self, plan: &Plan, ends: &Endpoints<'_>) -> bool {
        matches!(plan.kind, Kind::Write)
            && !self.is_pinned
            && !self.rounds.is_within()
            && !ends.script.takes_data()
            && !self.sway.is_swayed()
            && ends.status != Status::Failed
    }

    /// Puts a whole message onto the server connection; false where it is refused.
    fn compose_message(&mut self, message: Frame<'_>, ends: &mut Endpoints<'_>) -> bool {
        let write = |composer: &mut Composer<'_>, out: &mut Vec<u8>, script: &mut Script| {
            composer.message(message, out, script)
        };
        if self.compose(ends, write).is_err() {
            // As a server says it, which goes on behind the next Sync.
            self.refuse_to_run(Why::Malformed, false, ends);
            return false;
        }
        if message.tag == tag::EXECUTE && self.portals.forgets() {
            self.forgets = true;
            // What follows waits for its answer.
            put_flush(ends.out);
        }
        true
    }

    /// Has messages written for the server connection.
    pub(super) fn compose<T>(
        &mut self,
        ends: &mut Endpoints<'_>,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        let may_have_failed = self.may_have_failed();
        ends.compose(Composing { fresh: &mut self.fresh, may_have_failed }, write)
    }

    /// A message that is too long to be held goes out as it comes. What a statement of such length
    /// does is not looked into.
    fn begin_long(
        &mut self,
        tag: u8,
        bytes: &[u8],
        len: usize,
        ends: &mut Endpoints<'_>,
    ) -> Step<'static> {
        let goes_out = !ends.script.is_skipping();
        if tag != b'd' && goes_out {
            let now = ends.session.now;
            self.note_unknown(now, &mut |departure| ends.depart(departure));
            self.hide_prepared(ends);
            if tag == b'Q' {
                ends.names.query();
            }
            ends.script.expect(Expect::Query(ResponseAction::Pass));
        }
        if goes_out {
            ends.out.extend_from_slice(bytes);
        }
        self.incoming = Incoming::of_long(len - bytes.len(), goes_out);
        Step::Goes(bytes.len())
    }

    /// The client says goodbye, which takes all that it has sent along.
    fn farewell(
        &mut self,
        bytes: &[u8],
        ends: &mut Endpoints<'_>,
    ) -> Result<Step<'static>, InputEnd> {
        if self.rounds.is_within() || ends.script.takes_data() {
            // The server waits for more of the round as well: what came before the goodbye is done
            // or undone there, as it would be without Weir.
            put_terminate(ends.out);
            ends.depart(Departure::GivesUp);
            self.leaves();
            return Ok(Step::Goes(bytes.len()));
        }
        if !self.rounds.is_empty() || ends.unsent() > 0 {
            // What was sent before it is answered first.
            self.leaves();
            return Ok(Step::Pauses(Pause::Nothing));
        }
        Err(InputEnd::Goodbye)
    }
}

/// A Parse was written for the server: what is known of its text holds for its statement.
fn learn(message: Frame<'_>, text: Option<TextPlan>, names: &Names) {
    let Some(TextPlan { generation, scope, plan }) = text else { return };
    let Ok(parse) = Parse::read(message.body) else { return };
    let named = names.get(parse.name).filter(|named| *named.statement.sql == *parse.query);
    if let Some(named) = named {
        named.statement.learn(generation, scope, plan);
    }
}

/// The text of a Query.
fn text(query: Frame<'_>) -> &[u8] {
    query.body.strip_suffix(&[0]).unwrap_or(query.body)
}
