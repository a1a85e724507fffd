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

/// The statements of one server connection.
#[derive(Debug)]
pub struct Prepared {
    known: HashMap<u64, (State, u64)>,
    clock: u64,
    max: usize,
}

impl Prepared {
    /// None; at most `max` are kept on the server.
    pub fn new(max: usize) -> Self {
        Self { known: HashMap::new(), clock: 0, max: max.max(1) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether the statement is there for certain.
    pub fn has(&mut self, number: u64) -> bool {
        self.clock += 1;
        match self.known.get_mut(&number) {
            Some((State::Sure, used)) => {
                *used = self.clock;
                true
            }
            _ => false,
        }
    }

    /// Appends what prepares the statement where it is not there for certain; the client hears of
    /// the Parse when `fate` passes it. Closing a statement that does not exist is no error
    /// (PostgreSQL documentation, "Extended Query"), so a Parse whose outcome is not known yet is
    /// preceded by a Close.
    pub fn prepare(
        &mut self,
        statement: &Statement,
        fate: Fate,
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
        self.known.insert(statement.number, (State::Pending, self.clock));
    }

    /// Closes the statement that was not used for longest.
    fn make_room(&mut self, out: &mut Vec<u8>, script: &mut Script) {
        let oldest = self.known.iter().min_by_key(|(_, (_, used))| *used).map(|(of, _)| *of);
        if let Some(number) = oldest {
            self.known.remove(&number);
            statements::close(number, out);
            script.expect(Expect::Close(Fate::Swallow));
        }
    }

    /// The server has prepared it.
    pub fn confirmed(&mut self, number: u64) {
        if let Some((state, _)) = self.known.get_mut(&number) {
            *state = State::Sure;
        }
    }

    /// It is not there, or not as it should be: it will be closed and prepared again.
    pub fn doubted(&mut self, number: u64) {
        if let Some((state, _)) = self.known.get_mut(&number) {
            *state = State::Pending;
        }
    }

    /// All of them are gone (`DISCARD ALL`, `DEALLOCATE ALL`).
    pub fn clear(&mut self) {
        self.known.clear();
    }
}
