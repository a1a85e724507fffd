//! A client's messages as a server is to see them: under Weir's names for prepared statements.

use std::collections::HashMap;
use std::rc::Rc;

use wire::postgres::message;

use super::prepared::Prepared;
use super::round::{messages, string};
use super::script::{Expect, Fate, Script};
use super::statements::{Statement, Statements};
use crate::worker::Database;

/// A client's prepared statements by its own names; the unnamed one has the empty name.
pub type Names = HashMap<Box<[u8]>, Named>;

/// A client's prepared statement.
#[derive(Debug, Clone)]
pub struct Named {
    /// What it says.
    pub statement: Rc<Statement>,
    /// The catalogue's count of changes when the client prepared it: what servers have prepared
    /// earlier may have another result.
    pub since: u64,
}

/// What a client is told before it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A message whose parts are not where they should be.
    #[error("invalid message format")]
    Malformed,
    /// It holds more prepared statements than it may.
    #[error("too many prepared statements; close some, or raise postgres.max-prepared-statements")]
    TooMany,
}

/// Where statements are looked up while messages are written for one server.
pub struct Composer<'a> {
    /// Of this client.
    pub names: &'a mut Names,
    /// Of this worker.
    pub statements: &'a Statements,
    /// Of that server.
    pub prepared: &'a mut Prepared,
    /// Those whose Parse went out in this round: should it fail, the server leaves out the rest of
    /// the round.
    pub fresh: &'a mut Vec<u64>,
    /// The catalogue's count of changes now.
    pub changes: u64,
    /// The last statement that a message named.
    pub needed: Option<u64>,
    /// The round prepares that statement itself.
    pub parsed: bool,
    /// The round was begun before: it may prepare a name that it has prepared already.
    pub again: bool,
    /// How many statements a client may hold.
    pub names_max: usize,
    /// Where it is counted.
    pub database: &'a Database,
}

impl Composer<'_> {
    /// Appends a round of the extended protocol, or a part of one, and what will be answered.
    ///
    /// # Errors
    /// A message is not what its tag says.
    pub fn extended(
        &mut self,
        round: &[u8],
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Result<(), Fault> {
        for (tag, body, whole) in messages(round) {
            self.message(tag, body, whole, out, script)?;
        }
        Ok(())
    }

    /// Appends one whole message of any kind.
    ///
    /// # Errors
    /// It is not what its tag says.
    pub fn message(
        &mut self,
        tag: u8,
        body: &[u8],
        whole: &[u8],
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Result<(), Fault> {
        match tag {
            b'P' => {
                self.database.count(|totals| totals.client_parses += 1);
                return self.parse(body, out, script);
            }
            b'B' => {
                self.database.count(|totals| totals.binds += 1);
                return self.bind(body, out, script);
            }
            b'D' if body.first() == Some(&b'S') => return self.describe(body, out, script),
            b'C' if body.first() == Some(&b'S') => return self.close(body, script),
            b'D' => script.expect(Expect::DescribePortal),
            b'C' => script.expect(Expect::Close(Fate::Pass)),
            b'E' => script.expect(Expect::Execute),
            b'S' => {
                self.fresh.clear();
                script.expect(Expect::Sync);
            }
            b'Q' | b'F' => script.expect(Expect::Query(Fate::Pass)),
            _ => {}
        }
        out.extend_from_slice(whole);
        Ok(())
    }

    fn parse(&mut self, body: &[u8], out: &mut Vec<u8>, script: &mut Script) -> Result<(), Fault> {
        let (name, rest) = string(body).ok_or(Fault::Malformed)?;
        let (sql, types) = string(rest).ok_or(Fault::Malformed)?;
        let statement = self.statements.known(sql, types);
        self.needed = Some(statement.number);
        self.parsed = true;
        let since = self.changes;
        // One that no server has confirmed may be that of a Parse that failed: then there is none.
        let confirmed = |named: &Named| self.prepared.is_sure(named.statement.number);
        let taken = !name.is_empty() && !self.again && self.names.get(name).is_some_and(confirmed);
        if taken {
            // The server is to say that there is one, in its words: it hears of it twice.
            let there = self.names.get(name).cloned().ok_or(Fault::Malformed)?;
            self.ensure(&there, out, script);
            let number = there.statement.number;
            there.statement.write_parse(out);
            script.expect(Expect::Parse(Fate::Pass, number));
            return Ok(());
        }
        if self.has(statement.number, since) {
            script.expect(Expect::Parse(Fate::Invent, statement.number));
        } else {
            self.fresh.push(statement.number);
            self.database.count(|totals| totals.server_parses += 1);
            self.prepared.prepare(&statement, Fate::Pass, since, out, script);
        }
        if self.names.len() >= self.names_max && !name.is_empty() {
            return Err(Fault::TooMany);
        }
        self.names.insert(name.into(), Named { statement, since });
        Ok(())
    }

    fn has(&mut self, number: u64, since: u64) -> bool {
        self.prepared.has(number, since) || self.fresh.contains(&number)
    }

    fn ensure(&mut self, named: &Named, out: &mut Vec<u8>, script: &mut Script) {
        let number = named.statement.number;
        self.needed = Some(number);
        if !self.has(number, named.since) {
            self.fresh.push(number);
            let (statement, changes) = (&named.statement, self.changes);
            self.database.count(|totals| totals.server_parses += 1);
            self.prepared.prepare(statement, Fate::Swallow, changes, out, script);
        }
    }

    fn bind(&mut self, body: &[u8], out: &mut Vec<u8>, script: &mut Script) -> Result<(), Fault> {
        let (portal, rest) = string(body).ok_or(Fault::Malformed)?;
        let (name, rest) = string(rest).ok_or(Fault::Malformed)?;
        let statement = self.there(name, out, script);
        script.expect(Expect::Bind);
        message(out, b'B', |out| {
            out.extend_from_slice(portal);
            out.push(0);
            write_name(statement.as_deref(), name, out);
            out.extend_from_slice(rest);
        });
        Ok(())
    }

    fn describe(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Result<(), Fault> {
        let (name, _) = string(&body[1..]).ok_or(Fault::Malformed)?;
        let statement = self.there(name, out, script);
        script.expect(Expect::DescribeStatement);
        message(out, b'D', |out| {
            out.push(b'S');
            write_name(statement.as_deref(), name, out);
        });
        Ok(())
    }

    /// The statement stays on the server, where others may use it; this client forgets it.
    fn close(&mut self, body: &[u8], script: &mut Script) -> Result<(), Fault> {
        let (name, _) = string(&body[1..]).ok_or(Fault::Malformed)?;
        self.names.remove(name);
        script.expect(Expect::Close(Fate::Invent));
        Ok(())
    }

    /// The client's statement of this name, prepared on the server. `None` where the client has
    /// none: the server is then asked for one of that name, and says so in its words.
    fn there(
        &mut self,
        name: &[u8],
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Option<Rc<Statement>> {
        let named = self.names.get(name)?.clone();
        self.ensure(&named, out, script);
        Some(named.statement)
    }
}

fn write_name(statement: Option<&Statement>, name: &[u8], out: &mut Vec<u8>) {
    match statement {
        Some(statement) => statement.write_name(out),
        None => {
            // Those of other clients have such names.
            if name.starts_with(b"weir_") {
                out.push(b' ');
            }
            out.extend_from_slice(name);
            out.push(0);
        }
    }
}
