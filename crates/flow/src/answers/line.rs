//! The places of one client's requests.

use std::collections::{BTreeMap, VecDeque};

use super::noted::Notes;
use super::seat::{AnswerPart, Seat};
use super::{AnswerPlace, Begun, Filled, Join, NotedAnswer, Over, Verdict};
use crate::lane::Fate;

/// The places of the requests of one client that are not answered yet, in their order. Without
/// any, it holds no memory of its own beyond an empty queue.
#[derive(Clone, Default)]
pub struct Line {
    seats: VecDeque<Seat>,
    /// The number of the request at the head.
    head: u64,
    /// Bytes that wait: behind the head, of parts, and of messages that belong to no request.
    waiting: usize,
    /// How many bytes may wait.
    limit: usize,
    /// Messages that belong to no request, by the request behind whose answer they are sent.
    asides: BTreeMap<u64, Vec<u8>>,
    /// A request may have run without anybody knowing.
    doubt: Option<Doubt>,
    /// The first request that was taken back, until those behind it are gone, too.
    taken_back: Option<u64>,
    /// The client does not hear the answers to what it asks now.
    hears_no_answers: bool,
    /// The requests of which the gateway is told, too, where there are any.
    notes: Option<Box<Notes>>,
}

/// The requests behind one that may have run: such a request could still take effect after them.
#[derive(Clone, Copy)]
struct Doubt {
    /// The first that may have run.
    of: u64,
    /// The first request that was taken after that was known.
    until: u64,
}

impl Line {
    /// A line without requests, of which at most `limit` bytes wait.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// A place for a request that has one answer.
    #[inline]
    pub fn open(&mut self) -> AnswerPlace {
        self.take(Seat::empty(self.hears_no_answers))
    }

    /// A place for a request that is answered by `count` parts. `join` is called once, when all
    /// are there; never where the place is given up.
    pub fn open_parts(&mut self, count: u32, join: Join) -> AnswerPlace {
        let parts = (0..count.max(1)).map(|_| AnswerPart::default()).collect();
        self.take(Seat::Parts { parts, join, is_unheard: self.hears_no_answers })
    }

    /// Says whether the client hears the answers in the places that are taken from now on. Those
    /// that it does not hear are thrown away in their turn, and so are words in their place;
    /// [messages](Self::aside) it hears all the same.
    pub fn hears_answers(&mut self, hears: bool) {
        self.hears_no_answers = !hears;
    }

    /// Has the gateway told of the request in this place, which was taken last, once all before it
    /// are answered and so is it: how its answer begins, or that there is none. Whether the client
    /// hears the answer makes no difference. `mark` is what the gateway knows the request by.
    pub fn note(&mut self, place: AnswerPlace, mark: u64) {
        self.notes.get_or_insert_default().add(place.request, mark);
    }

    /// What became of a noted request; each is told once, in the order of the requests.
    pub fn take_noted(&mut self) -> Option<NotedAnswer> {
        let notes = self.notes.as_mut()?;
        let first = notes.take();
        if notes.is_empty() {
            self.notes = None;
        }
        first
    }

    fn take(&mut self, seat: Seat) -> AnswerPlace {
        let request = self.next();
        self.seats.push_back(seat);
        AnswerPlace { request, part: 0 }
    }

    /// The number of the next request.
    fn next(&self) -> u64 {
        self.head + self.seats.len() as u64
    }

    #[inline]
    fn seat(&mut self, place: AnswerPlace) -> Option<&mut Seat> {
        let at = place.request.checked_sub(self.head)?;
        self.seats.get_mut(usize::try_from(at).ok()?)
    }

    /// A piece of an answer has come; `is_last` ends the answer, or this part of it.
    #[inline]
    pub fn fill(
        &mut self,
        place: AnswerPlace,
        bytes: &[u8],
        is_last: bool,
        mut send: impl FnMut(&[u8]),
    ) -> Filled {
        let send = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| send(piece));
        self.fill_all(place, &[bytes], is_last, send)
    }

    /// As [`fill`](Self::fill), with several pieces in a row, which are sent together.
    #[inline]
    pub fn fill_all(
        &mut self,
        place: AnswerPlace,
        pieces: &[&[u8]],
        is_last: bool,
        mut send: impl FnMut(&[&[u8]]),
    ) -> Filled {
        if self.is_held(place) {
            return Filled::Held;
        }
        if self.notes.is_some() {
            self.note_pieces(place, pieces);
        }
        let (is_head, limit) = (place.request == self.head, self.limit);
        match self.seat(place) {
            Some(Seat::Whole { is_told, is_done: false, is_unheard, .. }) if is_head => {
                // What waited before it came to be the head was sent at that moment.
                if !*is_unheard && pieces.iter().any(|piece| !piece.is_empty()) {
                    *is_told = true;
                    send(pieces);
                }
                if is_last {
                    self.go_on(&mut |bytes: &[u8]| send(&[bytes]));
                }
                Filled::Taken
            }
            Some(Seat::Whole { waits, is_done: is_done @ false, is_unheard, .. }) => {
                *is_done = is_last;
                if *is_unheard {
                    return Filled::Taken;
                }
                pieces.iter().for_each(|piece| waits.extend_from_slice(piece));
                self.keep(pieces.iter().map(|piece| piece.len()).sum())
            }
            Some(Seat::Parts { parts, .. }) => {
                let Some(part) = parts.get_mut(place.part as usize).filter(|part| !part.is_done)
                else {
                    return Filled::Late;
                };
                pieces.iter().for_each(|piece| part.bytes.extend_from_slice(piece));
                part.is_done = is_last;
                let are_all = parts.iter().all(|part| part.is_done);
                let kept = self.keep(pieces.iter().map(|piece| piece.len()).sum());
                if kept == Filled::Over && self.seat(place).is_some_and(|of| of.waits() > limit) {
                    return Filled::TooLarge;
                }
                if !are_all || kept != Filled::Taken {
                    return kept;
                }
                self.join(place, &mut |bytes: &[u8]| send(&[bytes]))
            }
            Some(Seat::Whole { is_done: true, .. }) | None => Filled::Late,
        }
    }

    #[cold]
    fn note_pieces(&mut self, place: AnswerPlace, pieces: &[&[u8]]) {
        let is_whole = matches!(self.seat(place), Some(Seat::Whole { is_done: false, .. }));
        if let (true, Some(notes)) = (is_whole, &mut self.notes) {
            pieces.iter().for_each(|piece| notes.hear(place.request, piece));
        }
    }

    fn keep(&mut self, bytes: usize) -> Filled {
        self.waiting += bytes;
        if self.waiting > self.limit { Filled::Over } else { Filled::Taken }
    }

    fn join(&mut self, place: AnswerPlace, send: &mut impl FnMut(&[u8])) -> Filled {
        let Some(seat) = self.seat(place) else { return Filled::Late };
        let waited = seat.waits();
        let empty = Seat::empty(seat.is_unheard());
        let Seat::Parts { parts, join, .. } = std::mem::replace(seat, empty) else {
            return Filled::Late;
        };
        let parts: Vec<Vec<u8>> = parts.into_iter().map(|part| part.bytes).collect();
        let answer = join(&parts);
        if let Some(notes) = &mut self.notes {
            notes.hear(place.request, &answer);
        }
        self.waiting -= waited;
        self.end(place, answer, send)
    }

    /// Puts a whole answer in a place, and goes on with what is behind it if that was the head.
    fn end(&mut self, place: AnswerPlace, answer: Vec<u8>, send: &mut impl FnMut(&[u8])) -> Filled {
        let is_unheard = self.seat(place).is_some_and(|seat| seat.is_unheard());
        let answer = if is_unheard { Vec::new() } else { answer };
        if place.request == self.head {
            if !answer.is_empty() {
                send(&answer);
            }
            self.go_on(send);
            return Filled::Taken;
        }
        let len = answer.len();
        if let Some(seat) = self.seat(place) {
            *seat = Seat::done(answer);
        }
        self.keep(len)
    }

    /// The head is answered: sends what waits, up to what is not there yet.
    fn go_on(&mut self, send: &mut impl FnMut(&[u8])) {
        loop {
            self.seats.pop_front();
            if let Some(asides) = self.asides.remove(&self.head) {
                self.waiting -= asides.len();
                send(&asides);
            }
            if let Some(notes) = &mut self.notes {
                notes.end(self.head);
            }
            self.head += 1;
            if self.doubt.is_some_and(|doubt| doubt.until <= self.head) {
                self.doubt = None;
            }
            let Some(Seat::Whole { waits, is_told, is_done, .. }) = self.seats.front_mut() else {
                break;
            };
            let waited = std::mem::take(waits);
            *is_told = !waited.is_empty();
            let is_done = *is_done;
            self.waiting -= waited.len();
            if !waited.is_empty() {
                send(&waited);
            }
            if !is_done {
                break;
            }
        }
        if self.seats.is_empty() {
            self.taken_back = None;
            if self.seats.capacity() > KEEP {
                self.seats = VecDeque::new();
            }
        }
    }

    /// Puts the gateway's words in the place of an answer that nobody waits for any more: what
    /// comes for it later is [`Late`](Filled::Late). Does nothing where it was answered.
    ///
    /// # Errors
    /// A part of the answer was sent.
    pub fn give_up(
        &mut self,
        place: AnswerPlace,
        words: &[u8],
        mut send: impl FnMut(&[u8]),
    ) -> Result<(), Begun> {
        let Some(seat) = self.seat(place) else { return Ok(()) };
        match seat {
            Seat::Whole { is_done: true, .. } => return Ok(()),
            Seat::Whole { is_told: true, .. } => return Err(Begun),
            Seat::Whole { .. } | Seat::Parts { .. } => {}
        }
        let waited = seat.waits();
        *seat = Seat::empty(seat.is_unheard());
        if let Some(notes) = &mut self.notes {
            notes.give_up(place.request);
        }
        self.waiting -= waited;
        // The words are short, and the client is ended soon where too much waits.
        self.end(place, words.to_vec(), &mut send);
        Ok(())
    }

    /// Takes a request back that is to be asked again with a new place, behind all that have one:
    /// nothing is told in this one. Where what a later request means is settled by those before it,
    /// that has to be asked again, too, so whatever comes for those behind it is
    /// [`Held`](Filled::Held), and they are to be taken back in their turn. Only of a client that
    /// keeps to one connection: on another one a later answer could have come before.
    ///
    /// # Errors
    /// A part of the answer was sent.
    pub fn take_back(&mut self, place: AnswerPlace, send: impl FnMut(&[u8])) -> Result<(), Begun> {
        if !self.is_open(place) {
            return Ok(());
        }
        self.give_up(place, &[], send)?;
        if !self.is_empty() {
            let first = self.taken_back.unwrap_or(u64::MAX);
            self.taken_back = Some(first.min(place.request));
        }
        Ok(())
    }

    /// Whether a request is behind one that was taken back.
    #[inline]
    pub fn is_held(&self, place: AnswerPlace) -> bool {
        self.taken_back.is_some_and(|first| first < place.request)
    }

    /// Judges a request whose connection has ended before its answer was whole. `repeats`: its
    /// gateway says that it may be asked again although a server may have run it. What waits of
    /// its answer is dropped.
    pub fn orphaned(&mut self, place: AnswerPlace, fate: Fate, repeats: bool) -> Verdict {
        let verdict = Verdict::of(fate, false, repeats);
        let waited = match self.seat(place) {
            None | Some(Seat::Whole { is_done: true, .. }) => {
                if verdict == Verdict::MayHaveRun {
                    self.doubts(place);
                }
                return Verdict::Late;
            }
            Some(Seat::Whole { is_told: true, .. }) => return Verdict::of(fate, true, repeats),
            Some(Seat::Whole { waits, .. }) => std::mem::take(waits).len(),
            Some(Seat::Parts { parts, .. }) => match parts.get_mut(place.part as usize) {
                Some(part) if !part.is_done => std::mem::take(&mut part.bytes).len(),
                _ => return Verdict::Late,
            },
        };
        self.waiting -= waited;
        if let Some(notes) = &mut self.notes {
            notes.begin_anew(place.request);
        }
        if verdict == Verdict::MayHaveRun {
            self.doubts(place);
            return verdict;
        }
        if fate != Fate::Unsent || !self.is_in_doubt(place) {
            return verdict;
        }
        // Of several parts another one may have been sent.
        let is_part = matches!(self.seat(place), Some(Seat::Parts { .. }));
        if is_part { Verdict::MayHaveRun } else { Verdict::NotSent }
    }

    /// Whether the request of this place, or this part of it, waits for its answer.
    pub fn is_open(&self, place: AnswerPlace) -> bool {
        let at = place.request.checked_sub(self.head).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| self.seats.get(at)) {
            Some(Seat::Whole { is_done, .. }) => !is_done,
            Some(Seat::Parts { parts, .. }) => {
                parts.get(place.part as usize).is_some_and(|part| !part.is_done)
            }
            None => false,
        }
    }

    /// Whether a request is behind one that may have run.
    pub fn is_in_doubt(&self, place: AnswerPlace) -> bool {
        let behind = |doubt: &Doubt| doubt.of < place.request && place.request < doubt.until;
        self.doubt.as_ref().is_some_and(behind)
    }

    /// A request may have run, and changed something: what is behind it and was not sent is not
    /// sent any more.
    pub fn doubts(&mut self, place: AnswerPlace) {
        let of = self.doubt.map_or(place.request, |doubt| doubt.of.min(place.request));
        self.doubt = Some(Doubt { of, until: self.next() });
    }

    /// Sends a message that belongs to no request: at once, or behind the answer of which a part
    /// was sent, but never before the answer to `behind`, where that was asked before.
    ///
    /// # Errors
    /// More waits than may.
    pub fn aside(
        &mut self,
        bytes: &[u8],
        behind: Option<AnswerPlace>,
        mut send: impl FnMut(&[u8]),
    ) -> Result<(), Over> {
        let amid = self.is_amid_answer().then_some(self.head);
        let behind = behind.map(|place| place.request).filter(|of| self.requests().contains(of));
        let Some(request) = behind.max(amid) else {
            send(bytes);
            return Ok(());
        };
        self.asides.entry(request).or_default().extend_from_slice(bytes);
        match self.keep(bytes.len()) {
            Filled::Over => Err(Over),
            Filled::Taken | Filled::Late | Filled::Held | Filled::TooLarge => Ok(()),
        }
    }

    /// The requests that are not answered, first to last.
    pub fn requests(&self) -> std::ops::Range<u64> {
        self.head..self.next()
    }

    /// How many requests are not answered.
    #[inline]
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Whether every request is answered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// How many bytes wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether so much waits that no more of the client's requests are to be read.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.waiting > self.limit / 2
    }

    /// Whether a part of the answer at the head was sent.
    pub fn is_amid_answer(&self) -> bool {
        matches!(self.seats.front(), Some(Seat::Whole { is_told: true, .. }))
    }

    /// Places that it has memory for.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.seats.capacity()
    }

    /// The client is gone: whatever comes is late.
    pub fn clear(&mut self) {
        self.head = self.next();
        self.seats = VecDeque::new();
        self.asides = BTreeMap::new();
        self.waiting = 0;
        self.doubt = None;
        self.taken_back = None;
        self.notes = None;
    }
}

/// Places that a line keeps memory for while it is empty.
const KEEP: usize = 4;

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("requests", &self.requests())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
