//! Which statements one server connection has prepared, and in which of its epochs.
//!
//! A server reads the literals and names of a statement when it is prepared, by the settings of
//! that moment. So a statement is there only if it was prepared in the connection's present epoch;
//! the next one begins wherever settings may have changed: see [`PreparedStatements::next_epoch`].

use std::collections::HashMap;

use wire::postgres::frontend::{Target, put_close, put_describe};

use super::names::Limits;
use super::script::{Expect, ResponseAction, Script};
use super::shape::Shape;
use super::statements::{Name, Statement};

/// After these errors what is prepared on a server is closed and prepared again before it is used:
/// it is not there, is there already, or its result has changed.
pub const DOUBTFUL: [&[u8]; 3] = [b"26000", b"42P05", b"0A000"];

/// So many that are to be closed are always borne with.
const LEAVING_MIN: usize = 64;

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
struct PreparedStatement {
    name: Name,
    state: State,
    /// The connection's epoch in which its Parse went out.
    epoch: u64,
    /// The catalogue's count of changes when it was prepared.
    since: u64,
    /// What its parameters and its result were then.
    shape: Shape,
    /// The server has had one of that name, as far as is known: a Parse has come to something.
    may_be_there: bool,
    /// When it was last used, in the connection's time.
    used: u64,
    /// Bytes of what it says.
    len: usize,
}

/// A statement that is to be gone from a server connection, and may be there.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Leaving {
    name: Name,
    /// What its parameters and its result were; the server's word may still be under way.
    shape: Shape,
    /// The server has had it, as far as is known.
    may_be_there: bool,
    /// Its Closes that are not answered.
    under_way: u32,
    /// One was left out behind an error.
    stays: bool,
}

/// What is to be closed.
#[derive(Debug)]
struct Closing {
    name: Name,
    shape: Shape,
    may_be_there: bool,
}

impl Leaving {
    fn what(&self) -> Closing {
        let (name, shape) = (self.name.clone(), self.shape.clone());
        Closing { name, shape, may_be_there: self.may_be_there }
    }
}

impl PreparedStatement {
    fn into_what(self) -> Closing {
        let Self { name, shape, may_be_there, .. } = self;
        Closing { name, shape, may_be_there }
    }
}

/// The statements of one server connection.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct PreparedStatements {
    known: HashMap<u64, PreparedStatement>,
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

impl PreparedStatements {
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
    /// the client hears of the Parse when `action` passes it. Closing a statement that does not
    /// exist is no error (PostgreSQL documentation, "Extended Query"), so a Parse whose outcome is
    /// not known yet is preceded by a Close.
    pub fn prepare(
        &mut self,
        statement: &Statement,
        action: ResponseAction,
        since: u64,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) {
        let (len, before) = (statement.bytes(), self.known.get(&statement.number));
        let is_known = before.is_some();
        let may_be_there = before.is_some_and(|kept| kept.may_be_there)
            || self.leaving.contains_key(&statement.number);
        if is_known || self.has_closed {
            put_close(out, Target::Statement(&statement.name));
            script.expect(Expect::Close(ResponseAction::Swallow));
        }
        if !is_known {
            self.make_room(len, out, script);
            self.bytes += len;
        }
        statement.write_parse(out);
        script.expect(Expect::Parse(action, statement.number));
        put_describe(out, Target::Statement(&statement.name));
        script.expect(Expect::Shape(statement.number));
        *self.parses.entry(statement.number).or_default() += 1;
        self.clock += 1;
        let (epoch, used) = (self.epoch, self.clock);
        let (state, shape) = (State::Pending, Shape::default());
        let name = statement.name.clone();
        let kept = PreparedStatement { name, state, epoch, since, shape, may_be_there, used, len };
        self.known.insert(statement.number, kept);
        // What was left of it there goes with the Close in front of this Parse, or both are left
        // out.
        if self.leaving.get(&statement.number).is_some_and(|of| of.under_way == 0) {
            self.leaving.remove(&statement.number);
        }
    }

    /// Closes those that were not used for longest, until there is room for one of so many bytes.
    fn make_room(&mut self, len: usize, out: &mut Vec<u8>, script: &mut Script) {
        while self.known.len() >= self.limits.count || self.bytes + len > self.limits.bytes {
            let oldest = self.known.iter().min_by_key(|(_, kept)| kept.used).map(|(of, _)| *of);
            let Some(number) = oldest else { return };
            if let Some(kept) = self.known.remove(&number) {
                self.bytes -= kept.len;
                self.close(number, kept.into_what(), out, script);
            }
        }
        // What an error has left there goes with what comes, so that it does not add up.
        let stays = self.leaving.iter().find(|(_, of)| of.stays && of.under_way == 0);
        if let Some((number, of)) = stays.map(|(number, of)| (*number, of.what())) {
            self.close(number, of, out, script);
        }
    }

    /// Appends what closes all of them, and what an error may have left there; the latter once in
    /// a round, since what leaves out a Close leaves out all behind it in the round.
    pub fn close_all(&mut self, out: &mut Vec<u8>, script: &mut Script) {
        let known = std::mem::take(&mut self.known).into_iter();
        let known = known.map(|(number, kept)| (number, kept.into_what()));
        let is_first = script.closes_all();
        let leaving = self.leaving.iter().filter(|_| is_first);
        let leaving = leaving.map(|(number, of)| (*number, of.what()));
        let all: HashMap<_, _> = leaving.chain(known).collect();
        for (number, of) in all {
            self.close(number, of, out, script);
        }
        self.bytes = 0;
    }

    fn close(
        &mut self,
        number: u64,
        Closing { name, shape, may_be_there }: Closing,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) {
        self.has_closed = true;
        put_close(out, Target::Statement(&name));
        script.expect(Expect::Forget(number));
        let before = self.leaving.remove(&number);
        let under_way = before.as_ref().map_or(0, |before| before.under_way) + 1;
        let stays = before.as_ref().is_some_and(|before| before.stays);
        let may_be_there =
            may_be_there || before.as_ref().is_some_and(|before| before.may_be_there);
        // What is heard first is of what was prepared first.
        let before = before.map(|before| before.shape).filter(|shape| shape.get().is_none());
        let shape = before.unwrap_or(shape);
        let leaving = Leaving { name, shape, may_be_there, under_way, stays };
        self.leaving.insert(number, leaving);
    }

    /// A Close of what is not known any more was answered, or `left_out` behind an error.
    pub fn closed(&mut self, number: u64, left_out: bool) {
        // It was prepared again behind the Close: that is known, and not to be closed.
        let is_known = self.known.contains_key(&number);
        let Some(of) = self.leaving.get_mut(&number) else { return };
        of.under_way = of.under_way.saturating_sub(1);
        of.stays = left_out && of.may_be_there && !is_known;
        if !of.stays && of.under_way == 0 {
            self.leaving.remove(&number);
        }
    }

    /// Whether errors have left so much there that the connection is better closed.
    pub fn is_crowded(&self) -> bool {
        self.leaving.len() > self.limits.count.saturating_mul(2).max(LEAVING_MIN)
    }

    /// Whether a statement of Weir's may be there under this name.
    pub fn has_named(&self, name: &[u8]) -> bool {
        let known = self.known.values().map(|kept| &kept.name);
        known.chain(self.leaving.values().map(|of| &of.name)).any(|own| **own == *name)
    }

    /// The server has prepared it.
    pub fn confirmed(&mut self, number: u64) {
        let is_last = self.answered(number);
        if let Some(of) = self.leaving.get_mut(&number) {
            of.may_be_there = true;
        }
        if let Some(kept) = self.known.get_mut(&number) {
            kept.may_be_there = true;
            if is_last {
                kept.state = State::Sure;
            }
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
impl PreparedStatements {
    /// All that counts for what follows, as long as nothing has to make room.
    pub fn fingerprint(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash as _;
        let mut known: Vec<_> = self.known.iter().collect();
        known.sort_by_key(|(number, _)| **number);
        for (number, kept) in known {
            let is_sure = kept.state == State::Sure;
            let is_now = kept.epoch == self.epoch;
            (number, &*kept.name, is_sure, is_now, kept.may_be_there).hash(hasher);
        }
        let mut leaving: Vec<_> = self.leaving.iter().collect();
        leaving.sort_by_key(|(number, _)| **number);
        for (number, of) in leaving {
            (number, &*of.name, of.may_be_there, of.under_way, of.stays).hash(hasher);
        }
        let mut parses: Vec<_> = self.parses.iter().collect();
        parses.sort();
        (parses, self.has_closed).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::ServerEvent;
    use super::super::statements::Statements;
    use super::*;

    #[test]
    fn a_connection_keeps_so_many_statements_and_so_many_bytes() {
        let limits = Limits { count: 3, bytes: 1000 };
        let statements = Statements::new(Limits { count: 100, bytes: 100_000 });
        let (mut prepared, mut out) = (PreparedStatements::new(limits), Vec::new());
        let mut prepare = |text: &[u8]| {
            let (statement, mut script) = (statements.known(text, b""), Script::default());
            prepared.prepare(&statement, ResponseAction::Pass, 0, &mut out, &mut script);
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
        let mut prepared = PreparedStatements::new(Limits { count: 100, bytes: 100_000 });
        let statement = statements.known(b"select 'ann''s'", b"");
        prepared.prepare(&statement, ResponseAction::Pass, 0, &mut vec![], &mut Script::default());
        prepared.confirmed(1);
        let closes = |prepared: &mut PreparedStatements| {
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

    /// What is prepared and closed on one connection, in rounds of which each answer is told.
    struct OneConnection {
        prepared: PreparedStatements,
        statements: Statements,
    }

    impl OneConnection {
        fn new(count: usize) -> Self {
            let prepared = PreparedStatements::new(Limits { count, bytes: 100_000 });
            Self { prepared, statements: Statements::new(Limits { count: 100, bytes: 100_000 }) }
        }

        /// Appends a Parse, and whatever is closed for it.
        fn prepare(&mut self, text: &str, script: &mut Script) -> u64 {
            let statement = self.statements.known(text.as_bytes(), b"");
            self.prepared.prepare(&statement, ResponseAction::Swallow, 0, &mut Vec::new(), script);
            statement.number
        }

        /// Nothing of a round is done.
        fn leave_out(&mut self, mut script: Script) {
            let prepared = &mut self.prepared;
            script.abandon(&mut |heard| match heard {
                ServerEvent::NotPrepared(number) => prepared.not_prepared(number),
                ServerEvent::Forgotten { number, left_out } => prepared.closed(number, left_out),
                _ => {}
            });
        }

        fn prepare_for_certain(&mut self, text: &str) -> u64 {
            let number = self.prepare(text, &mut Script::default());
            self.prepared.confirmed(number);
            let leaving: Vec<u64> = self.prepared.leaving.keys().copied().collect();
            leaving.into_iter().for_each(|number| self.prepared.closed(number, false));
            number
        }
    }

    #[test]
    fn what_was_prepared_again_is_not_closed_for_what_an_error_had_left() {
        let mut told = OneConnection::new(2);
        let [one, two] = ["1", "2"].map(|text| told.prepare_for_certain(text));
        let mut script = Script::default();
        told.prepare("3", &mut script);
        told.prepare("4", &mut script);
        told.leave_out(script);
        assert!([one, two].iter().all(|number| told.prepared.leaving[number].stays));
        assert_eq!(told.prepare_for_certain("1"), one);
        assert!(!told.prepared.leaving.contains_key(&one));

        // The Close is answered when it was prepared again.
        let mut told = OneConnection::new(2);
        let [one, _] = ["1", "2"].map(|text| told.prepare_for_certain(text));
        let mut script = Script::default();
        told.prepare("3", &mut script);
        told.prepare("1", &mut Script::default());
        told.leave_out(script);
        assert!(!told.prepared.leaving.contains_key(&one));
    }

    #[test]
    fn what_never_was_there_is_forgotten_with_its_close() {
        let mut told = OneConnection::new(2);
        let mut script = Script::default();
        for n in 0..100 {
            told.prepare(&n.to_string(), &mut script);
        }
        assert!(told.prepared.is_crowded());
        told.leave_out(script);
        assert!(told.prepared.leaving.is_empty() && !told.prepared.is_crowded());
    }

    #[test]
    fn what_was_left_is_closed_once_in_a_round() {
        let mut told = OneConnection::new(9);
        told.prepare_for_certain("1");
        told.prepare_for_certain("2");
        let (mut out, mut script) = (Vec::new(), Script::default());
        told.prepared.close_all(&mut out, &mut script);
        assert_eq!(script.under_way(), 2);
        told.prepare("3", &mut script);
        let before = script.under_way();
        told.prepared.close_all(&mut out, &mut script);
        assert_eq!(script.under_way(), before + 1, "the third alone");
        script.expect(Expect::Sync);
        told.prepared.close_all(&mut out, &mut script);
        assert_eq!(script.under_way(), before + 2 + 3, "the next round is not left out with it");
    }
}
