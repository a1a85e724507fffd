//! Which statements one server connection has prepared.

use std::collections::HashMap;

use super::script::{Expect, Fate, Script};
use super::statements::{self, Statement};

/// What is known of a statement on one server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its Parse is under way. Should it fail, a Bind behind it would, too.
    Pending,
    /// The server has confirmed it.
    Sure,
}

/// A statement on one server connection.
#[derive(Debug, Clone, Copy)]
struct Kept {
    state: State,
    /// The catalogue's count of changes when it was prepared.
    since: u64,
    /// When it was last used, in the connection's time.
    used: u64,
}

/// The statements of one server connection.
#[derive(Debug)]
pub struct Prepared {
    known: HashMap<u64, Kept>,
    clock: u64,
    max: usize,
}

impl Prepared {
    /// None; at most `max` are kept on the server.
    pub fn new(max: usize) -> Self {
        Self { known: HashMap::new(), clock: 0, max: max.max(1) }
    }

    /// Whether the statement is there for certain, prepared when the catalogue had changed `since`
    /// times or later.
    pub fn has(&mut self, number: u64, since: u64) -> bool {
        self.clock += 1;
        match self.known.get_mut(&number) {
            Some(kept) if kept.state == State::Sure && kept.since >= since => {
                kept.used = self.clock;
                true
            }
            _ => false,
        }
    }

    /// Whether the server has confirmed it.
    pub fn is_sure(&self, number: u64) -> bool {
        self.known.get(&number).is_some_and(|kept| kept.state == State::Sure)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// It is being closed.
    pub fn forget(&mut self, number: u64) {
        self.known.remove(&number);
    }

    /// Appends what prepares the statement where it is not there for certain; the client hears of
    /// the Parse when `fate` passes it. Closing a statement that does not exist is no error
    /// (PostgreSQL documentation, "Extended Query"), so a Parse whose outcome is not known yet is
    /// preceded by a Close.
    pub fn prepare(
        &mut self,
        statement: &Statement,
        fate: Fate,
        since: u64,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) {
        if self.known.contains_key(&statement.number) {
            statement.write_close(out);
            script.expect(Expect::Close(Fate::Swallow));
        } else if self.known.len() >= self.max {
            self.make_room(out, script);
        }
        statement.write_parse(out);
        script.expect(Expect::Parse(fate, statement.number));
        self.clock += 1;
        let kept = Kept { state: State::Pending, since, used: self.clock };
        self.known.insert(statement.number, kept);
    }

    /// Closes the statement that was not used for longest.
    fn make_room(&mut self, out: &mut Vec<u8>, script: &mut Script) {
        let oldest = self.known.iter().min_by_key(|(_, kept)| kept.used).map(|(of, _)| *of);
        if let Some(number) = oldest {
            self.known.remove(&number);
            statements::close(number, out);
            script.expect(Expect::Close(Fate::Swallow));
        }
    }

    /// The server has prepared it.
    pub fn confirmed(&mut self, number: u64) {
        if let Some(kept) = self.known.get_mut(&number) {
            kept.state = State::Sure;
        }
    }

    /// It is not there, or not as it should be: it will be closed and prepared again.
    pub fn doubted(&mut self, number: u64) {
        if let Some(kept) = self.known.get_mut(&number) {
            kept.state = State::Pending;
        }
    }

    /// Any of them may have another result than it had.
    pub fn doubt_all(&mut self) {
        self.known.values_mut().for_each(|kept| kept.state = State::Pending);
    }

    /// All of them are gone (`DISCARD ALL`, `DEALLOCATE ALL`).
    pub fn clear(&mut self) {
        self.known.clear();
    }
}
