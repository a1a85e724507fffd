//! What a client is to hear of what a server says.
//!
//! Weir sends servers more than the client asked for (a statement that this server has not seen
//! yet) and less (one that it has). A [`Script`] is the list of answers that are under way, in the
//! order of the questions, each with whether the client hears it, does not, or hears what no server
//! said. Flow of messages: PostgreSQL documentation, "Frontend/Backend Protocol", "Message Flow".

mod copy;
mod expect;
mod heard;

use std::collections::VecDeque;

use wire::postgres::backend::{Fields, Status};
use wire::postgres::frame::{self, HEADER_BYTES as HEADER, Header};
use wire::postgres::sqlstate;

pub use copy::Admission;
pub use expect::{Expect, Outcome, ResponseAction, Why};
pub use heard::ServerEvent;

use copy::{Behind, CopyIn, Unsettled};

use super::shape::{columns, number_of};

/// The longest message that is looked into, which is held until it is whole: an error with all its
/// fields.
const LOOKED_INTO_MAX: usize = 16 * 1024 * 1024;
const PARSE_COMPLETE: [u8; HEADER] = [b'1', 0, 0, 0, 4];
const CLOSE_COMPLETE: [u8; HEADER] = [b'3', 0, 0, 0, 4];

/// The answers under way on one server connection, or of one request in a lane.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Script {
    expected: VecDeque<Expect>,
    /// Bytes that are still to come of the message that has begun.
    remaining: usize,
    /// Who hears the rest of that message.
    passing: Passing,
    /// A number for the parameters of the statement that is being described.
    parameters: u64,
    /// An error came and the Sync behind it has not been sent yet: the server leaves out
    /// everything before that.
    skipping: bool,
    /// Something of the answer to the Query in front was heard.
    begun: bool,
    /// What is in front is a COPY that waits for data.
    copy: Option<CopyIn>,
    /// A COPY that has failed.
    unsettled: Option<Unsettled>,
    /// All that may be prepared there was closed in the round that was begun last.
    all_closed: bool,
}

/// What becomes of a message.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Passing {
    /// Nobody hears the message.
    #[default]
    Nobody,
    /// It is part of an answer that the client hears.
    Answer,
    /// It belongs to no answer.
    Aside,
}

impl Passing {
    /// Of a message of an answer, which the client hears or does not.
    fn answer(passed: bool) -> Self {
        if passed { Self::Answer } else { Self::Nobody }
    }
}

/// The server said something that does not follow from what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server sent a message ({0:?}) that nobody asked for")]
pub struct Unasked(pub char);

impl Script {
    /// The script of one Query, whose answer the client hears.
    pub fn of_query() -> Self {
        Self { expected: [Expect::Query(ResponseAction::Pass)].into(), ..Self::default() }
    }

    /// Appends an answer that will come.
    pub fn expect(&mut self, answer: Expect) {
        self.all_closed &= !matches!(answer, Expect::Sync | Expect::Query(_));
        if self.skipping && answer != Expect::Sync {
            return;
        }
        self.skipping = false;
        let is_next = self.expected.len() == 1;
        if let Some(copy) = self.copy.as_mut().filter(|_| is_next)
            && copy.sent(answer)
        {
            return;
        }
        // Without a COPY the server drops it.
        if answer != Expect::CopyEnd || !self.expected.is_empty() {
            self.expected.push_back(answer);
        }
    }

    /// All that may be prepared on the server is closed now; whether that is the first time since
    /// the last Sync.
    pub fn closes_all(&mut self) -> bool {
        !std::mem::replace(&mut self.all_closed, true)
    }

    /// Whether what stands first is answered here, of which no server was asked.
    pub fn has_invented(&self) -> bool {
        self.remaining == 0 && self.invents()
    }

    /// Answers what stands first and no server was asked.
    pub fn answer_invented(&mut self, on: &mut impl FnMut(ServerEvent<'_>)) {
        if self.remaining == 0 {
            self.invent(on);
        }
    }

    /// Answers that are under way.
    pub fn under_way(&self) -> usize {
        self.expected.len()
    }

    /// How many of the answers from the one at `at` on say what became of a client's name.
    pub fn names_from(&self, at: usize) -> usize {
        self.expected.iter().skip(at).filter(|answer| answer.is_of_name()).count()
    }

    /// Whether the server leaves out what it is sent, up to the next Sync.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Whether what was expected last is answered in the midst of a round.
    pub fn is_within(&self) -> bool {
        let ends = |answer: &Expect| matches!(answer, Expect::Sync | Expect::Query(_));
        self.expected.back().is_some_and(|answer| !ends(answer))
    }

    /// Whether nothing is under way, and the server takes whatever comes.
    pub fn is_idle(&self) -> bool {
        self.expected.is_empty()
            && self.remaining == 0
            && !self.skipping
            && self.unsettled.is_none()
    }

    /// Whether no answer is due, whatever the server leaves out of what is sent next.
    pub fn is_answered(&self) -> bool {
        self.expected.is_empty() && self.remaining == 0 && self.unsettled.is_none()
    }

    /// Whether the last message has been heard whole.
    pub fn is_between(&self) -> bool {
        self.remaining == 0
    }

    /// Goes through what the server said, and returns how many bytes it took: all but a header that
    /// is cut, which is to come again with the rest.
    ///
    /// # Errors
    /// A message that does not belong here: the connection must not be used again.
    pub fn hear<'a>(
        &mut self,
        bytes: &'a [u8],
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<usize, Unasked> {
        let mut at = 0;
        // What is passed on unchanged goes on in one piece.
        let mut from = 0;
        while at < bytes.len() {
            if self.remaining > 0 {
                let taken = self.remaining.min(bytes.len() - at);
                self.remaining -= taken;
                at += taken;
                if self.passing == Passing::Nobody {
                    from = at;
                }
                continue;
            }
            let unasked = || Unasked(char::from(bytes[at]));
            let header = frame::header(&bytes[at..], usize::MAX).map_err(|_| unasked())?;
            let Some(Header { tag, len }) = header else { break };
            let matters = matters(tag) || matches!(self.expected.front(), Some(Expect::Shape(_)));
            if matters && len > LOOKED_INTO_MAX {
                return Err(unasked());
            }
            let whole = bytes.get(at..at + len);
            // The short messages that this looks into are taken whole.
            if whole.is_none() && matters {
                break;
            }
            if self.passing != Passing::Answer || !goes_on(tag) || self.invents() {
                self.pass(&bytes[from..at], on);
                from = at;
                self.invent(on);
            }
            let passing = self.message(tag, whole.map_or(&[], |whole| &whole[HEADER..]), on)?;
            if passing != self.passing {
                self.pass(&bytes[from..at], on);
                from = at;
            }
            self.passing = passing;
            self.remaining = len;
        }
        self.pass(&bytes[from..at], on);
        self.invent(on);
        Ok(at)
    }

    /// Hands on what is there of the message that was heard last, or of several of its kind.
    fn pass<'a>(&self, bytes: &'a [u8], on: &mut impl FnMut(ServerEvent<'a>)) {
        match self.passing {
            _ if bytes.is_empty() => {}
            Passing::Nobody => {}
            Passing::Answer => on(ServerEvent::Bytes(bytes)),
            Passing::Aside => on(ServerEvent::Aside(bytes)),
        }
    }

    /// Whether what is next is answered here.
    fn invents(&self) -> bool {
        self.expected.front().is_some_and(Expect::is_invented)
    }

    /// Answers what no server was asked.
    fn invent<'a>(&mut self, on: &mut impl FnMut(ServerEvent<'a>)) {
        while let Some(answer) = self.expected.front() {
            let (message, names) = match answer {
                Expect::Parse(ResponseAction::Invent, _) => (&PARSE_COMPLETE[..], true),
                Expect::Close(ResponseAction::Invent) => (&CLOSE_COMPLETE[..], true),
                Expect::Deallocate(message) => (*message, true),
                Expect::Say(message) => (*message, false),
                // No COPY reads it any more.
                Expect::CopyEnd => (&[][..], false),
                _ => return,
            };
            if !message.is_empty() {
                on(ServerEvent::Bytes(message));
            }
            if names {
                on(ServerEvent::Name(Outcome::Done));
            }
            self.expected.pop_front();
        }
    }

    /// Takes note of a message; says who hears it.
    fn message<'a>(
        &mut self,
        tag: u8,
        body: &'a [u8],
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<Passing, Unasked> {
        let swallowed = self.expected.front() == Some(&Expect::Query(ResponseAction::Swallow));
        if self.unsettled.is_some() && !matches!(tag, b'S' | b'A' | b'N' | b'Z') {
            self.settled_by_answer(on);
        }
        match tag {
            b'S' => {
                on(ServerEvent::Parameter(body));
                return Ok(if swallowed { Passing::Nobody } else { Passing::Aside });
            }
            b'A' => return Ok(Passing::Aside),
            b'N' if self.expected.is_empty() => return Ok(Passing::Aside),
            b'N' => return Ok(Passing::answer(!swallowed)),
            b'Z' => return self.ready(body, on).map(Passing::answer),
            // It answers no question: the server ends the connection, and says why.
            b'E' if self.expected.is_empty() => {
                on(ServerEvent::Failed { body, swallowed });
                return Ok(Passing::Aside);
            }
            b'E' => {
                let swallowed = swallowed || self.expected.front() == Some(&Expect::Settlement);
                let refused = self.refused(body);
                on(refused.map_or(ServerEvent::Failed { body, swallowed }, ServerEvent::Refused));
                let is_point = self.is_of_point();
                if is_point {
                    on(ServerEvent::PointFailed(body));
                }
                self.failed(on);
                return Ok(Passing::answer(!swallowed && !is_point && refused.is_none()));
            }
            b'I' if self.expected.front() == Some(&Expect::Settlement) => {
                self.settled(on)?;
                return Ok(Passing::Nobody);
            }
            b'C' => {
                self.copy_completed(on)?;
                on(ServerEvent::Completed(body.strip_suffix(&[0]).unwrap_or(body)));
            }
            b'G' => self.copy_begins(on)?,
            // Of replication alone, which Weir does not offer.
            b'W' => return Err(Unasked('W')),
            _ => {}
        }
        if let Some(Expect::Shape(number)) = self.expected.front() {
            self.shape(*number, tag, body, on)?;
            return Ok(Passing::Nobody);
        }
        if let (b'3', Some(Expect::Forget(number))) = (tag, self.expected.front()) {
            on(ServerEvent::Forgotten { number: *number, left_out: false });
        }
        let passed = self.step(tag)?;
        if tag == b'1' {
            self.prepared(on);
        }
        Ok(Passing::answer(passed && !swallowed))
    }

    /// What a server says of a statement's parameters and result.
    fn shape<'a>(
        &mut self,
        number: u64,
        tag: u8,
        body: &[u8],
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<(), Unasked> {
        match tag {
            b't' => self.parameters = number_of(body),
            b'T' | b'n' => {
                let columns = columns(body).ok_or(Unasked(char::from(tag)))?;
                self.expected.pop_front();
                on(ServerEvent::Shape(number, self.parameters.rotate_left(1) ^ columns));
            }
            _ => return Err(Unasked(char::from(tag))),
        }
        Ok(())
    }

    fn prepared<'a>(&mut self, on: &mut impl FnMut(ServerEvent<'a>)) {
        if let Some(Expect::Parse(action, number)) = self.expected.pop_front() {
            on(ServerEvent::Prepared(number));
            if action == ResponseAction::Pass {
                on(ServerEvent::Name(Outcome::Done));
            }
        }
    }

    /// Why Weir meant what failed to fail, if that is how it did.
    fn refused(&self, body: &[u8]) -> Option<Why> {
        let Some(Expect::Refuse(why)) = self.expected.front() else { return None };
        let code = Fields::read(body).ok()?.code();
        (code == sqlstate::DUPLICATE_PREPARED_STATEMENT.as_bytes()).then_some(*why)
    }

    /// Whether what is answered is a point statement.
    fn is_of_point(&self) -> bool {
        let mut round = self.expected.iter().take_while(|answer| **answer != Expect::Sync);
        round.any(|answer| *answer == Expect::Execute(ResponseAction::Restore))
    }

    /// Whether the client hears a message, which is held against what is expected.
    fn step(&mut self, tag: u8) -> Result<bool, Unasked> {
        let Some(expected) = self.expected.front().copied() else {
            return Err(Unasked(char::from(tag)));
        };
        let (fits, ends, passed) = match expected {
            Expect::Query(action) => {
                self.begun = true;
                (true, false, action == ResponseAction::Pass)
            }
            Expect::Parse(action, _) => (tag == b'1', false, action == ResponseAction::Pass),
            Expect::Bind(action) => (tag == b'2', true, action == ResponseAction::Pass),
            Expect::DescribeStatement => (matches!(tag, b't' | b'T' | b'n'), tag != b't', true),
            Expect::DescribePortal => (matches!(tag, b'T' | b'n'), true, true),
            Expect::Execute(action) => (
                matches!(tag, b'D' | b'C' | b'I' | b's' | b'G' | b'H' | b'W' | b'd' | b'c'),
                matches!(tag, b'C' | b'I' | b's'),
                action != ResponseAction::Swallow,
            ),
            Expect::Close(action) => (tag == b'3', true, action == ResponseAction::Pass),
            Expect::Forget(_) => (tag == b'3', true, false),
            Expect::Say(_)
            | Expect::Deallocate(_)
            | Expect::Refuse(_)
            | Expect::Shape(_)
            | Expect::CopyEnd
            | Expect::Settlement
            | Expect::Sync => (false, false, false),
        };
        if !fits {
            return Err(Unasked(char::from(tag)));
        }
        if ends {
            self.expected.pop_front();
        }
        Ok(passed)
    }

    /// A ReadyForQuery. One that nothing is due for is a fault: whatever follows it would be taken
    /// for another's.
    fn ready<'a>(
        &mut self,
        body: &[u8],
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<bool, Unasked> {
        let status = body.first().copied().and_then(Status::of_byte).ok_or(Unasked('Z'))?;
        if self.copy.is_some() {
            return Err(Unasked('Z'));
        }
        let swallowed = match self.expected.front() {
            Some(Expect::Sync) => false,
            Some(Expect::Query(action)) if self.begun => *action == ResponseAction::Swallow,
            _ => return self.ready_again(status, on),
        };
        self.expected.pop_front();
        self.begun = false;
        on(ServerEvent::Ready { status, swallowed });
        Ok(!swallowed)
    }

    /// An error: the server leaves out everything up to Sync.
    fn failed<'a>(&mut self, on: &mut impl FnMut(ServerEvent<'a>)) {
        let copy = self.copy_failed();
        self.leave_out(on);
        if let Some((syncs, behind)) = copy {
            let skips = std::mem::take(&mut self.skipping);
            self.unsettled = Some(Unsettled::of(syncs, behind, skips));
            on(ServerEvent::Unsettled { for_good: behind == Behind::Unknown });
        }
    }

    fn leave_out<'a>(&mut self, on: &mut impl FnMut(ServerEvent<'a>)) {
        match self.expected.front() {
            Some(Expect::Query(_)) => {
                self.begun = true;
                return;
            }
            // Weir's own question has failed: the connection is given up.
            Some(Expect::Settlement) => return,
            _ => {}
        }
        let mut outcome = Outcome::Failed;
        while let Some(answer) = self.expected.front().filter(|answer| **answer != Expect::Sync) {
            answer.left_out(outcome, on);
            self.expected.pop_front();
            outcome = Outcome::LeftOut;
        }
        self.skipping = self.expected.is_empty();
    }

    /// Nothing of it will be heard: what was asked is asked again, or the server is gone.
    pub fn abandon<'a>(&mut self, on: &mut impl FnMut(ServerEvent<'a>)) {
        self.expected.drain(..).for_each(|answer| answer.left_out(Outcome::LeftOut, on));
        self.clear();
    }

    pub fn clear(&mut self) {
        self.expected.clear();
        self.remaining = 0;
        self.skipping = false;
        self.begun = false;
        self.copy = None;
        self.unsettled = None;
        self.all_closed = false;
    }

    /// Whether the client hears all of it, and nobody has to take note of anything.
    pub fn is_plain(&self) -> bool {
        self.expected.iter().all(|answer| match answer {
            Expect::Parse(..) | Expect::Shape(_) | Expect::Refuse(_) | Expect::Forget(_) => false,
            Expect::Bind(action)
            | Expect::Execute(action)
            | Expect::Close(action)
            | Expect::Query(action) => *action == ResponseAction::Pass,
            _ => true,
        })
    }

    /// The whole script, of which nothing stays.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// Whether a message is looked into.
fn matters(tag: u8) -> bool {
    matches!(tag, b'S' | b'Z' | b'E' | b'C')
}

/// Whether a message is one of many, of which nobody has to take note.
fn goes_on(tag: u8) -> bool {
    matches!(tag, b'T' | b'D' | b'd')
}

#[cfg(test)]
mod copy_tests;
#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
