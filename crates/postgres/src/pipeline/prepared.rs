//! Which statements one server connection has prepared, and in which of its epochs.
//!
//! A server reads the literals and names of a statement when it is prepared, by the settings of
//! that moment. So a statement is there only if it was prepared in the connection's present epoch;
//! the next one begins wherever settings may have changed: see [`Prepared::next_epoch`].

use std::collections::HashMap;

use wire::postgres::frontend::{Target, put_close, put_describe};

use super::names::Limits;
use super::script::{Expect, Fate, Script};
use super::shape::Shape;
use super::statements::{Name, Statement};

/// After these errors what is prepared on a server is closed and prepared again before it is used:
/// it is not there, is there already, or its result has changed.
pub const DOUBTFUL: [&[u8]; 3] = [b"26000", b"42P05", b"0A000"];

/// What is known of a statement on one server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its Parse is under way. Should it fail, a Bind behind it would, too.
    Pending,
    /// The server has confirmed it.
    Sure,
}

/// A statement on one server connection.
#[derive(Debug, Clone)]
struct Kept {
    name: Name,
    state: State,
    /// The connection's epoch in which its Parse went out.
    epoch: u64,
    /// The catalogue's count of changes when it was prepared.
    since: u64,
    /// What its parameters and its result were then.
    shape: Shape,
    /// When it was last used, in the connection's time.
    used: u64,
    /// Bytes of what it says.
    len: usize,
}

/// A statement that is to be gone from a server connection, and may be there.
#[derive(Debug)]
struct Leaving {
    name: Name,
    /// What its parameters and its result were; the server's word may still be under way.
    shape: Shape,
    /// Its Closes that are not answered.
    under_way: u32,
    /// One was left out behind an error.
    stays: bool,
}

impl Leaving {
    fn what(&self) -> (Name, Shape) {
        (self.name.clone(), self.shape.clone())
    }
}

/// The statements of one server connection.
#[derive(Debug)]
pub struct Prepared {
    known: HashMap<u64, Kept>,
    /// What is not known any more, until the server has closed it.
    leaving: HashMap<u64, Leaving>,
    /// Parses under way of each: what one of them comes to is not what the last one will.
    parses: HashMap<u64, u32>,
    clock: u64,
    epoch: u64,
    bytes: usize,
    limits: Limits,
    /// What is not known here may be there: one was closed to make room, which may have been left
    /// out behind an error, or something was run that may prepare.
    has_closed: bool,
}

impl Prepared {
    /// None; so many are kept on the server.
    pub fn new(limits: Limits) -> Self {
        let (known, leaving, parses) = Default::default();
        Self { known, leaving, parses, clock: 0, epoch: 0, bytes: 0, limits, has_closed: false }
    }

    /// Whether the statement is there for certain, prepared in this epoch and when the catalogue
    /// had changed `since` times or later.
    pub fn has(&mut self, number: u64, since: u64) -> bool {
        self.clock += 1;
        match self.known.get_mut(&number) {
            Some(kept)
                if kept.state == State::Sure && kept.epoch == self.epoch && kept.since >= since =>
            {
                kept.used = self.clock;
                true
            }
            _ => false,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Whether its Parse went out in this epoch, and no Close behind it.
    pub fn is_asked_for(&self, number: u64) -> bool {
        self.known.get(&number).is_some_and(|kept| kept.epoch == self.epoch)
    }

    /// What is sent from now on may be read by other settings than what was sent before: nothing
    /// that was prepared until now stands for its text any more.
    pub fn next_epoch(&mut self) {
        self.epoch += 1;
        // A text that was run may have taken one of Weir's names.
        self.has_closed = true;
    }

    /// What its parameters and its result are, as it was prepared last.
    pub fn shape(&self, number: u64) -> Shape {
        self.known.get(&number).map(|kept| kept.shape.clone()).unwrap_or_default()
    }

    /// How often the catalogue had changed when it was prepared.
    pub fn since(&self, number: u64) -> u64 {
        self.known.get(&number).map_or(0, |kept| kept.since)
    }

    /// The server has described it.
    pub fn described(&self, number: u64, shape: u64) {
        // Answers come in the order of the questions.
        if let Some(of) = self.leaving.get(&number).filter(|of| of.under_way > 0)
            && of.shape.get().is_none()
        {
            return of.shape.set(Some(shape));
        }
        if let Some(kept) = self.known.get(&number)
            && !self.parses.contains_key(&number)
        {
            kept.shape.set(Some(shape));
        }
    }

    /// Appends what prepares the statement where it is not there for certain, and has it described;
    /// the client hears of the Parse when `fate` passes it. Closing a statement that does not exist
    /// is no error (PostgreSQL documentation, "Extended Query"), so a Parse whose outcome is not
    /// known yet is preceded by a Close.
    pub fn prepare(
        &mut self,
        statement: &Statement,
        fate: Fate,
        since: u64,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) {
        let (len, is_known) = (statement.bytes(), self.known.contains_key(&statement.number));
        if is_known || self.has_closed {
            put_close(out, Target::Statement(&statement.name));
            script.expect(Expect::Close(Fate::Swallow));
        }
        if !is_known {
            self.make_room(len, out, script);
            self.bytes += len;
        }
        statement.write_parse(out);
        script.expect(Expect::Parse(fate, statement.number));
        put_describe(out, Target::Statement(&statement.name));
        script.expect(Expect::Shape(statement.number));
        *self.parses.entry(statement.number).or_default() += 1;
        self.clock += 1;
        let (epoch, used) = (self.epoch, self.clock);
        let (state, shape) = (State::Pending, Shape::default());
        let name = statement.name.clone();
        let kept = Kept { name, state, epoch, since, shape, used, len };
        self.known.insert(statement.number, kept);
    }

    /// Closes those that were not used for longest, until there is room for one of so many bytes.
    fn make_room(&mut self, len: usize, out: &mut Vec<u8>, script: &mut Script) {
        while self.known.len() >= self.limits.count || self.bytes + len > self.limits.bytes {
            let oldest = self.known.iter().min_by_key(|(_, kept)| kept.used).map(|(of, _)| *of);
            let Some(number) = oldest else { return };
            if let Some(kept) = self.known.remove(&number) {
                self.bytes -= kept.len;
                self.close(number, (kept.name, kept.shape), out, script);
            }
        }
        // What an error has left there goes with what comes, so that it does not add up.
        let stays = self.leaving.iter().find(|(_, of)| of.stays && of.under_way == 0);
        if let Some((number, of)) = stays.map(|(number, of)| (*number, of.what())) {
            self.close(number, of, out, script);
        }
    }

    /// Appends what closes all of them, and what an error may have left there.
    pub fn close_all(&mut self, out: &mut Vec<u8>, script: &mut Script) {
        let known = std::mem::take(&mut self.known).into_iter();
        let known = known.map(|(number, kept)| (number, (kept.name, kept.shape)));
        let leaving = self.leaving.iter().map(|(number, of)| (*number, of.what()));
        let all: HashMap<_, _> = leaving.chain(known).collect();
        for (number, of) in all {
            self.close(number, of, out, script);
        }
        self.bytes = 0;
    }

    fn close(
        &mut self,
        number: u64,
        (name, shape): (Name, Shape),
        out: &mut Vec<u8>,
        script: &mut Script,
    ) {
        self.has_closed = true;
        put_close(out, Target::Statement(&name));
        script.expect(Expect::Forget(number));
        let before = self.leaving.remove(&number);
        let under_way = before.as_ref().map_or(0, |before| before.under_way) + 1;
        let stays = before.as_ref().is_some_and(|before| before.stays);
        // What is heard first is of what was prepared first.
        let before = before.map(|before| before.shape).filter(|shape| shape.get().is_none());
        let shape = before.unwrap_or(shape);
        self.leaving.insert(number, Leaving { name, shape, under_way, stays });
    }

    /// A Close of what is not known any more was answered, or `left_out` behind an error.
    pub fn closed(&mut self, number: u64, left_out: bool) {
        let Some(of) = self.leaving.get_mut(&number) else { return };
        of.under_way = of.under_way.saturating_sub(1);
        of.stays = left_out;
        if !of.stays && of.under_way == 0 {
            self.leaving.remove(&number);
        }
    }

    /// Whether a statement of Weir's may be there under this name.
    pub fn has_named(&self, name: &[u8]) -> bool {
        let known = self.known.values().map(|kept| &kept.name);
        known.chain(self.leaving.values().map(|of| &of.name)).any(|own| **own == *name)
    }

    /// The server has prepared it.
    pub fn confirmed(&mut self, number: u64) {
        if self.answered(number)
            && let Some(kept) = self.known.get_mut(&number)
        {
            kept.state = State::Sure;
        }
    }

    /// A Parse of it was answered, or left out; whether that was the last one.
    fn answered(&mut self, number: u64) -> bool {
        let Some(parses) = self.parses.get_mut(&number) else { return false };
        *parses -= 1;
        let is_last = *parses == 0;
        if is_last {
            self.parses.remove(&number);
        }
        is_last
    }

    /// A Parse of it came to nothing.
    pub fn not_prepared(&mut self, number: u64) {
        self.answered(number);
        self.doubted(number);
    }

    /// It is not there, or not as it should be: it will be closed and prepared again.
    pub fn doubted(&mut self, number: u64) {
        if let Some(kept) = self.known.get_mut(&number) {
            kept.state = State::Pending;
        }
    }

    /// All of them are gone (`DISCARD ALL`, `DEALLOCATE ALL`).
    pub fn clear(&mut self) {
        self.known.clear();
        // Of those whose Close is under way its answer is still to come, and changes nothing.
        self.leaving.clear();
        (self.bytes, self.has_closed) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::statements::Statements;
    use super::*;

    #[test]
    fn a_connection_keeps_so_many_statements_and_so_many_bytes() {
        let limits = Limits { count: 3, bytes: 1000 };
        let statements = Statements::new(Limits { count: 100, bytes: 100_000 });
        let (mut prepared, mut out) = (Prepared::new(limits), Vec::new());
        let mut prepare = |text: &[u8]| {
            let (statement, mut script) = (statements.known(text, b""), Script::default());
            prepared.prepare(&statement, Fate::Pass, 0, &mut out, &mut script);
            prepared.confirmed(statement.number);
            let kept: Vec<u64> = (1..9).filter(|number| prepared.is_asked_for(*number)).collect();
            let bytes: usize = prepared.known.values().map(|kept| kept.len).sum();
            assert_eq!(prepared.bytes, bytes);
            kept
        };
        for n in 1..4 {
            prepare(format!("{n}").as_bytes());
        }
        assert_eq!(prepare(b"4"), [2, 3, 4]);
        assert_eq!(prepare(&[b'x'; 999]), [4, 5]);
        assert_eq!(prepare(&[b'y'; 5000]), [6], "one that is too long is alone");
        assert_eq!(prepare(b"7"), [7]);
    }

    #[test]
    fn what_an_error_has_left_there_is_closed_again() {
        let statements = Statements::new(Limits { count: 100, bytes: 100_000 });
        let mut prepared = Prepared::new(Limits { count: 100, bytes: 100_000 });
        let statement = statements.known(b"select 'ann''s'", b"");
        prepared.prepare(&statement, Fate::Pass, 0, &mut Vec::new(), &mut Script::default());
        prepared.confirmed(1);
        let closes = |prepared: &mut Prepared| {
            let mut out = Vec::new();
            prepared.close_all(&mut out, &mut Script::default());
            out.windows(statement.name.len()).filter(|part| **part == *statement.name).count()
        };
        assert_eq!(closes(&mut prepared), 1);
        // Nobody knows yet what becomes of the first.
        assert_eq!(closes(&mut prepared), 1);
        prepared.closed(1, true);
        prepared.closed(1, true);
        assert!(prepared.has_named(&statement.name));
        assert_eq!(closes(&mut prepared), 1);
        prepared.closed(1, false);
        assert_eq!(closes(&mut prepared), 0);
    }
}
