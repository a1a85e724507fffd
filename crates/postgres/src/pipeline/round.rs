//! Cutting what a client sends into rounds.
//!
//! A round is what one ReadyForQuery answers: a Query, a FunctionCall, or the messages of the
//! extended protocol up to a Sync. A round that is whole can be judged and sent as one; what needs
//! an answer before its Sync (Flush), or is too long to be held, needs a server of its own.
//! PostgreSQL documentation, "Message Flow".

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::frame::{self, Frame, HEADER_BYTES, Header};
use wire::postgres::frontend::{Parse, tag};

use super::judgement::{Judgement, Plans, TextPlan};
use super::names::Names;
use super::summary::Summary;
use crate::plan::{Kind, Scope};

/// The longest round that is held until it is whole; longer ones go out as they come.
pub const HELD_MAX: usize = 64 * 1024;

/// What stands at the start of a client's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundCut {
    /// More bytes are wanted.
    More,
    /// A whole Query of this length.
    Query(usize),
    /// Whole messages of the extended protocol, the last of them a Sync.
    Extended(usize),
    /// A message that has to be dealt with as it comes, or the beginning of a round that can't be
    /// held.
    Stream,
    /// A Sync of this length, in front of which nothing was asked.
    Sync(usize),
    /// A message that says nothing here: a Flush, or what is left of a COPY that failed.
    Nothing(usize),
    /// The client says goodbye.
    Terminate,
    /// No message of the protocol, or a length that none has.
    Garbage,
}

/// What stands at the start of `bytes`; a message may have `message_max` bytes.
pub fn cut(bytes: &[u8], message_max: usize) -> RoundCut {
    let Header { tag, len } = match frame::header(bytes, message_max) {
        Ok(Some(header)) => header,
        Ok(None) => return RoundCut::More,
        Err(_) => return RoundCut::Garbage,
    };
    let whole = bytes.len() >= len;
    match tag {
        // One that is longer is looked into elsewhere, which takes its time.
        b'Q' if whole && len <= HELD_MAX => RoundCut::Query(len),
        b'Q' if len <= HELD_MAX => RoundCut::More,
        b'P' | b'B' | b'D' | b'E' | b'C' => extended(bytes, message_max),
        b'S' if whole => RoundCut::Sync(len),
        b'H' | b'c' | b'f' if whole => RoundCut::Nothing(len),
        b'S' | b'H' | b'c' | b'f' | b'd' if len <= HELD_MAX && !whole => RoundCut::More,
        b'd' if whole => RoundCut::Nothing(len),
        b'X' => RoundCut::Terminate,
        b'Q' | b'F' | b'd' => RoundCut::Stream,
        _ => RoundCut::Garbage,
    }
}

fn extended(bytes: &[u8], message_max: usize) -> RoundCut {
    let mut at = 0;
    loop {
        let Header { tag, len } = match frame::header(&bytes[at..], message_max) {
            Ok(Some(header)) => header,
            Ok(None) => break,
            // What comes before it is still to be answered.
            Err(_) => return if at == 0 { RoundCut::Garbage } else { RoundCut::Stream },
        };
        match tag {
            b'P' | b'B' | b'D' | b'E' | b'C' | b'S' => {}
            _ => return RoundCut::Stream,
        }
        at += len;
        if at > bytes.len() {
            return if at <= HELD_MAX { RoundCut::More } else { RoundCut::Stream };
        }
        if tag == b'S' {
            return RoundCut::Extended(at);
        }
    }
    if bytes.len() > HELD_MAX { RoundCut::Stream } else { RoundCut::More }
}

/// The whole messages at the start of `bytes`.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let frame = frame::next(rest, usize::MAX).ok()??;
        rest = &rest[frame.whole.len()..];
        Some(frame)
    })
}

/// The messages of a round, as its client sent them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Messages {
    /// The bytes of a whole Query.
    Query(Rc<[u8]>),
    /// Whole messages of the extended protocol, the last of them a Sync.
    Extended(Rc<[u8]>),
    /// A part of the round has come, and goes out as the rest comes: an answer is wanted before its
    /// end, or it is too long to be held.
    Streamed,
}

/// What one ReadyForQuery answers: made once, when it is cut, and handed on to whatever asks,
/// repeats or refuses it.
#[derive(Debug, Clone)]
pub struct Round {
    messages: Messages,
    /// How often it was asked and got no answer.
    pub attempts: u8,
    /// When its turn came: what it waits for is counted from then on.
    pub came: Instant,
    judgement: Option<Judgement>,
}

/// Two rounds are equal if their clients have sent the same.
impl PartialEq for Round {
    fn eq(&self, other: &Self) -> bool {
        self.messages == other.messages
    }
}

impl Eq for Round {}

impl Round {
    /// Of a whole Query.
    pub fn query(bytes: Rc<[u8]>, came: Instant) -> Self {
        Self::new(Messages::Query(bytes), came)
    }

    /// Of whole messages of the extended protocol up to a Sync.
    pub fn extended(bytes: Rc<[u8]>, came: Instant) -> Self {
        Self::new(Messages::Extended(bytes), came)
    }

    /// Of which a part has come, and is left where it is.
    pub fn streamed(came: Instant) -> Self {
        Self::new(Messages::Streamed, came)
    }

    fn new(messages: Messages, came: Instant) -> Self {
        count_made();
        Self { messages, attempts: 0, came, judgement: None }
    }

    /// Its bytes; none of them where it goes out as it comes.
    pub fn bytes(&self) -> &[u8] {
        match &self.messages {
            Messages::Query(bytes) | Messages::Extended(bytes) => bytes,
            Messages::Streamed => &[],
        }
    }

    /// Its messages; none of them where it goes out as it comes.
    pub fn messages(&self) -> impl Iterator<Item = Frame<'_>> {
        messages(self.bytes())
    }

    /// Whether all of it has come.
    pub fn is_whole(&self) -> bool {
        !matches!(self.messages, Messages::Streamed)
    }

    /// Whether it is a Query.
    pub fn is_query(&self) -> bool {
        matches!(self.messages, Messages::Query(_))
    }

    /// The text of its Query, or of the one statement that it runs.
    pub fn text(&self) -> Option<&[u8]> {
        match (&self.messages, self.summary()) {
            (Messages::Query(bytes), _) => Some(text_of(bytes)),
            (_, Some(Summary::One(_, Some(statement)))) => Some(&statement.sql),
            (_, Some(Summary::One(..))) => {
                let parses = self.messages().filter(|message| message.tag == tag::PARSE);
                parses.last().and_then(|of| Parse::read(of.body).ok()).map(|parse| parse.query)
            }
            _ => None,
        }
    }

    /// Judges it, unless [what was judged of it](Judgement::holds) holds; by what the client's
    /// names stand for now, and as text that is read in `scope`.
    pub fn judge(&mut self, names: &Names, plans: &impl Plans, scope: Scope) {
        if self.judgement.as_ref().is_some_and(|known| known.holds(names, plans, scope)) {
            return;
        }
        self.judgement = match &self.messages {
            Messages::Query(bytes) => {
                Some(Judgement::of_query(text_of(bytes), names, plans, scope))
            }
            Messages::Extended(bytes) => Some(Judgement::of_extended(bytes, names, plans, scope)),
            Messages::Streamed => None,
        };
    }

    /// What it comes to; `None` where it was not judged, as what goes out as it comes never is.
    pub fn summary(&self) -> Option<&Summary> {
        self.judgement.as_ref().map(Judgement::summary)
    }

    /// The plan of the only text that it has, where that holds by now: see
    /// [`Judgement::text_plan`].
    pub fn text_plan(&self, plans: &impl Plans, scope: Scope) -> Option<TextPlan> {
        self.judgement.as_ref()?.text_plan(plans, scope)
    }

    /// Whether it was judged to be a proven read, or to prepare one.
    pub fn is_read(&self) -> bool {
        match self.summary() {
            Some(Summary::Query(plan)) => plan.kind == Kind::Read,
            Some(Summary::Reads(..) | Summary::Prepares(_)) => true,
            _ => false,
        }
    }

    /// Whether it was judged to be one change of data, with its Sync behind it.
    pub fn is_change(&self) -> bool {
        match self.summary() {
            Some(Summary::Query(plan) | Summary::One(plan, _)) => plan.kind == Kind::Write,
            _ => false,
        }
    }

    /// Whether it is sure to take a snapshot for the transaction that it begins.
    pub fn takes_snapshot(&self) -> bool {
        match self.summary() {
            Some(Summary::Query(plan)) => matches!(plan.kind, Kind::Read | Kind::Write),
            Some(Summary::Reads(..)) => true,
            _ => self.is_change(),
        }
    }
}

/// A round on its way to a server, message by message.
#[derive(Debug)]
pub struct OutgoingRound {
    /// The round, which is whole.
    pub round: Round,
    /// How many of its bytes have gone out.
    pub sent: usize,
}

impl OutgoingRound {
    /// Of a round of which nothing has gone out; none of what goes out as it comes.
    pub fn new(round: Round) -> Option<Self> {
        round.is_whole().then_some(Self { round, sent: 0 })
    }

    /// What is still to go out.
    pub fn rest(&self) -> &[u8] {
        self.round.bytes().get(self.sent..).unwrap_or_default()
    }

    /// The round, where nothing of it went out; else what is left of it, as a round of its own.
    /// None where all of it went out.
    pub fn into_rest(self) -> Option<Round> {
        match self.rest() {
            [] => None,
            _ if self.sent == 0 => Some(self.round),
            rest => Some(Round::extended(rest.into(), self.round.came)),
        }
    }
}

/// The text of a Query, without its final zero byte.
fn text_of(query: &[u8]) -> &[u8] {
    query.get(HEADER_BYTES..query.len().saturating_sub(1)).unwrap_or_default()
}

/// Whether the last message in `bytes` has begun and is not whole.
pub fn ends_within(bytes: &[u8]) -> bool {
    let whole: usize = messages(bytes).map(|message| message.whole.len()).sum();
    whole < bytes.len()
}

/// A test counts the rounds that are made.
#[cfg(not(test))]
#[inline]
fn count_made() {}

#[cfg(test)]
use tests::count_made;

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;
    use wire::postgres::message;

    thread_local! {
        /// How many rounds were made on this thread.
        pub(crate) static MADE: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn count_made() {
        MADE.set(MADE.get() + 1);
    }

    fn of(parts: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (tag, body) in parts {
            message(&mut out, *tag, |out| out.extend_from_slice(body));
        }
        out
    }

    #[test]
    fn rounds_are_cut_where_the_server_answers() {
        let query = of(&[(b'Q', b"select 1\0"), (b'X', b"")]);
        assert_eq!(cut(&query, 1 << 20), RoundCut::Query(14));
        assert_eq!(cut(&query[..13], 1 << 20), RoundCut::More);
        assert_eq!(cut(&query[14..], 1 << 20), RoundCut::Terminate);
        let round = of(&[(b'P', b"\0select 1\0\0\0"), (b'B', b"\0\0"), (b'S', b"")]);
        assert_eq!(cut(&round, 1 << 20), RoundCut::Extended(round.len()));
        assert_eq!(cut(&round[..round.len() - 1], 1 << 20), RoundCut::More);
    }

    #[test]
    fn what_needs_an_answer_before_its_end_is_streamed() {
        let flushed = of(&[(b'P', b"\0select 1\0\0\0"), (b'H', b"")]);
        assert_eq!(cut(&flushed, 1 << 20), RoundCut::Stream);
        let long = of(&[(b'Q', &[b' '; HELD_MAX])]);
        assert_eq!(cut(&long[..100], 1 << 20), RoundCut::Stream);
        assert_eq!(cut(&long, 1 << 20), RoundCut::Stream);
        assert_eq!(cut(&long, HELD_MAX), RoundCut::Garbage);
    }

    #[test]
    fn what_is_no_round_is_told_by_its_tag_once_it_is_whole() {
        for (tag, whole) in [
            (b'S', RoundCut::Sync(8)),
            (b'H', RoundCut::Nothing(8)),
            (b'c', RoundCut::Nothing(8)),
            (b'f', RoundCut::Nothing(8)),
            (b'd', RoundCut::Nothing(8)),
        ] {
            let bytes = of(&[(tag, b"why")]);
            assert_eq!(cut(&bytes, 1 << 20), whole, "{}", char::from(tag));
            assert_eq!(cut(&bytes[..7], 1 << 20), RoundCut::More, "{}", char::from(tag));
        }
        let call = of(&[(b'F', b"why")]);
        assert_eq!(cut(&call, 1 << 20), RoundCut::Stream);
        assert_eq!(cut(&call[..7], 1 << 20), RoundCut::Stream);
    }

    #[test]
    fn a_message_is_waited_for_up_to_so_many_bytes() {
        for (tag, whole) in [(b'Q', RoundCut::Query(HELD_MAX)), (b'd', RoundCut::Nothing(HELD_MAX))]
        {
            let longest = of(&[(tag, &[b' '; HELD_MAX - HEADER_BYTES])]);
            assert_eq!(cut(&longest[..100], 1 << 20), RoundCut::More);
            assert_eq!(cut(&longest, 1 << 20), whole);
            let longer = of(&[(tag, &[b' '; HELD_MAX - HEADER_BYTES + 1])]);
            assert_eq!(cut(&longer[..100], 1 << 20), RoundCut::Stream);
        }
    }

    #[test]
    fn a_round_is_waited_for_up_to_so_many_bytes() {
        let longest = of(&[(b'P', &[b' '; HELD_MAX - HEADER_BYTES])]);
        assert_eq!(cut(&longest[..100], 1 << 20), RoundCut::More);
        assert_eq!(cut(&longest, 1 << 20), RoundCut::More, "its Sync may come");
        let longer = of(&[(b'P', &[b' '; HELD_MAX - HEADER_BYTES + 1])]);
        assert_eq!(cut(&longer[..100], 1 << 20), RoundCut::Stream);
        assert_eq!(cut(&longer, 1 << 20), RoundCut::Stream);
        let whole = [longer, of(&[(b'S', b"")])].concat();
        assert_eq!(cut(&whole, 1 << 20), RoundCut::Extended(whole.len()), "nothing is waited for");
    }

    #[test]
    fn a_fault_behind_good_messages_waits_for_their_answers() {
        let faulty = [&of(&[(b'P', b"\0select 1\0\0\0")])[..], &[b'B', 0, 0, 0, 3]].concat();
        assert_eq!(cut(&faulty, 1 << 20), RoundCut::Stream);
    }

    #[test]
    fn the_last_message_is_whole_or_is_not() {
        let two = of(&[(b'P', b"\0select 1\0\0\0"), (b'S', b"")]);
        assert!(!ends_within(&[]) && !ends_within(&two));
        assert!((1..two.len()).filter(|len| !ends_within(&two[..*len])).eq([two.len() - 5]));
    }

    #[test]
    fn what_is_left_of_a_round_is_a_round() {
        let round = of(&[(b'P', b"\0select 1\0\0\0"), (b'B', b"\0\0"), (b'S', b"")]);
        let came = Instant::now();
        let mut sending =
            OutgoingRound::new(Round::extended(round.as_slice().into(), came)).unwrap();
        assert_eq!(sending.rest(), round);
        for (sent, left) in [(0, round.len()), (16, round.len() - 16), (round.len(), 0)] {
            sending.sent = sent;
            let sending = OutgoingRound { round: sending.round.clone(), ..sending };
            let rest = sending.into_rest().map(|round| round.bytes().len());
            assert_eq!(rest.unwrap_or_default(), left);
        }
        assert!(OutgoingRound::new(Round::streamed(came)).is_none());
    }

    #[test]
    fn garbage_is_garbage() {
        assert_eq!(cut(b"GET / HTTP/1.1\r\n", 1 << 30), RoundCut::Garbage);
        assert_eq!(cut(&[b'Q', 0, 0, 0, 3], 1 << 20), RoundCut::Garbage);
        assert_eq!(cut(&[b'Q', 0, 0], 1 << 20), RoundCut::More);
        assert_eq!(cut(&[0xff; 9], 1 << 20), RoundCut::Garbage);
    }
}
