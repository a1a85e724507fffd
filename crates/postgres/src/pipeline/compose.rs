//! A client's messages as a server is to see them: under Weir's names for prepared statements.

use std::borrow::Cow;
use std::rc::Rc;

use wire::postgres::Malformed;
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{
    Bind, Parse, Target, put_bind_written, put_close, put_describe, put_execute, put_flush,
    put_parse, put_sync, tag,
};
use wire::sql::Lifted;

use super::names::{NamedStatement, Names};
use super::prepared::PreparedStatements;
use super::round::messages;
use super::script::{Expect, ResponseAction, Script, Why};
use super::statements::{Name, PREFIX, Statement, Statements, THERE};

/// Where statements are looked up while messages are written for one server.
pub struct Composer<'a> {
    /// The client's names for its statements.
    pub names: &'a mut Names,
    /// The statements of the worker.
    pub statements: &'a Statements,
    /// What is prepared on the server.
    pub prepared: &'a mut PreparedStatements,
    /// Those whose Parse went out in this round: should it fail, the server leaves out the rest of
    /// the round.
    pub fresh: &'a mut Vec<u64>,
    /// The catalogue's count of changes now.
    pub changes: u64,
    /// The transaction has failed: the server is to say so of what it would be asked for nothing.
    pub has_failed: bool,
    /// A transaction is open and may have failed by what is under way in it: nobody knows yet
    /// whether the server will take a Parse.
    pub may_have_failed: bool,
    /// What was come across.
    pub found: StatementUse,
}

/// Whether a statement is what it was when its client prepared it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It is, or nobody has been told.
    Yes,
    /// It has to be prepared to know.
    Unknown,
    /// The server has not said yet.
    Unheard,
    /// Its parameters or its result are others.
    No,
}

/// Which prepared statements a round names, and how many it prepares and binds.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatementUse {
    /// The last statement that a message named.
    pub needed: Option<u64>,
    /// The round prepares that statement itself.
    pub parsed: bool,
    /// It prepares one that is to be refused.
    pub is_refused: bool,
    /// What the client has asked to be prepared, and what the server was.
    pub parses: (u64, u64),
    /// Statements that were bound.
    pub binds: u64,
}

impl StatementUse {
    /// Adds what another has counted.
    pub fn add_counts(&mut self, other: &Self) {
        self.parses.0 += other.parses.0;
        self.parses.1 += other.parses.1;
        self.binds += other.binds;
    }
}

impl Composer<'_> {
    /// Appends a round of the extended protocol and what will be answered.
    ///
    /// # Errors
    /// A message is not what its tag says.
    pub fn extended(
        &mut self,
        round: &[u8],
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Result<(), Malformed> {
        for message in messages(round) {
            self.message(message, out, script)?;
        }
        Ok(())
    }

    /// Appends one whole message of any kind.
    ///
    /// # Errors
    /// It is not what its tag says.
    pub fn message(
        &mut self,
        message: Frame<'_>,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Result<(), Malformed> {
        let body = message.body;
        match message.tag {
            tag::PARSE => return self.parse(&Parse::read(body)?, out, script),
            tag::BIND => {
                let bind = Bind::read(body)?;
                self.found.binds += 1;
                match self.there(bind.statement, out, script) {
                    Some(statement) => bind.put_as(out, &statement.name),
                    None => bind.put_as(out, &self.not_there(bind.statement)),
                }
                script.expect(Expect::Bind(ResponseAction::Pass));
                return Ok(());
            }
            tag::DESCRIBE => match Target::of_describe(body)? {
                Target::Statement(name) => {
                    match self.there(name, out, script) {
                        Some(statement) => put_describe(out, Target::Statement(&statement.name)),
                        None => put_describe(out, Target::Statement(&self.not_there(name))),
                    }
                    script.expect(Expect::DescribeStatement);
                    return Ok(());
                }
                Target::Portal(_) => script.expect(Expect::DescribePortal),
            },
            tag::CLOSE => match Target::of_close(body)? {
                Target::Statement(name) => {
                    self.close(name, out, script);
                    return Ok(());
                }
                Target::Portal(_) => script.expect(Expect::Close(ResponseAction::Pass)),
            },
            tag::EXECUTE => script.expect(Expect::Execute(ResponseAction::Pass)),
            tag::SYNC => {
                self.fresh.clear();
                self.names.next_round();
                script.expect(Expect::Sync);
            }
            tag::QUERY => {
                if script.is_within() && self.names.has_unnamed() {
                    // An error in front of it has the server leave it out.
                    self.names.change(b"", None);
                    script.expect(Expect::Deallocate(b""));
                } else {
                    self.names.query();
                }
                self.names.next_round();
                script.expect(Expect::Query(ResponseAction::Pass));
            }
            tag::FUNCTION_CALL => script.expect(Expect::Query(ResponseAction::Pass)),
            tag::COPY_DONE | tag::COPY_FAIL => script.expect(Expect::CopyEnd),
            _ => {}
        }
        out.extend_from_slice(message.whole);
        Ok(())
    }

    /// Appends a point statement that came as a Query, but for the Sync. The client hears what it
    /// would hear of that; `has_rows`: a description of them comes first.
    pub fn point(
        &mut self,
        lifted: &Lifted,
        has_rows: bool,
        action: ResponseAction,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) {
        self.names.query();
        self.names.next_round();
        let statement = self.statements.known(&lifted.text, &lifted.types);
        // As if it were prepared in this round: another result than before is not an error.
        self.found.parsed = true;
        self.prepare(&statement, self.changes, out, script);
        self.found.binds += 1;
        put_bind_written(out, &statement.name, lifted.count, &lifted.values);
        script.expect(Expect::Bind(ResponseAction::Swallow));
        if has_rows {
            put_describe(out, Target::Portal(b""));
            script.expect(Expect::DescribePortal);
        }
        put_execute(out, b"", 0);
        script.expect(Expect::Execute(action));
    }

    /// Appends a statement of Weir's own within a round; nobody hears of it.
    pub fn own(&mut self, sql: &[u8], out: &mut Vec<u8>, script: &mut Script) {
        let statement = self.statements.known(sql, &[0; 2]);
        self.prepare(&statement, self.changes, out, script);
        put_bind_written(out, &statement.name, 0, &[]);
        script.expect(Expect::Bind(ResponseAction::Swallow));
        put_execute(out, b"", 0);
        script.expect(Expect::Execute(ResponseAction::Swallow));
    }

    /// Appends the end of a round.
    pub fn sync(&mut self, out: &mut Vec<u8>, script: &mut Script) {
        put_sync(out);
        script.expect(Expect::Sync);
        self.fresh.clear();
    }

    /// Whether the client's statement of this name is there as it was when the client prepared it,
    /// the catalogue having changed since.
    pub fn holds(&mut self, name: &[u8]) -> Holds {
        let Some(named) = self.names.get(name) else { return Holds::Yes };
        let (number, since) = (named.statement.number, named.since);
        if self.has_failed || since >= self.changes {
            return Holds::Yes;
        }
        let Some(told) = named.shape.get() else { return Holds::Yes };
        if !self.has(number, since) {
            return Holds::Unknown;
        }
        match self.prepared.shape(number).get() {
            None => Holds::Unheard,
            Some(shape) if shape == told => {
                let since = self.prepared.since(number);
                self.names.holds(name, since);
                Holds::Yes
            }
            Some(_) => Holds::No,
        }
    }

    /// Appends what tells whether the client's statement of this name is what it was.
    pub fn ask_shape(&mut self, name: &[u8], out: &mut Vec<u8>, script: &mut Script) {
        self.there(name, out, script);
        put_flush(out);
    }

    /// Appends what closes all statements that are prepared there, but for those that the client
    /// has given a name by a statement of its own.
    pub fn close_all(&mut self, out: &mut Vec<u8>, script: &mut Script) {
        self.prepared.close_all(out, script);
        self.fresh.clear();
    }

    /// Appends what the server refuses in place of a statement that is run, so that the transaction
    /// fails and the rest of the round is left out.
    pub fn refuse_to_run(&mut self, why: Why, out: &mut Vec<u8>, script: &mut Script) {
        let there = self.statements.there();
        self.there_for_certain(there, out, script);
        put_parse(out, there, b"", &[]);
        script.expect(Expect::Refuse(why));
    }

    fn there_for_certain(&mut self, there: &Name, out: &mut Vec<u8>, script: &mut Script) {
        put_close(out, Target::Statement(there));
        script.expect(Expect::Close(ResponseAction::Swallow));
        put_parse(out, there, b"", &[]);
        script.expect(Expect::Parse(ResponseAction::Swallow, THERE));
    }

    fn parse(
        &mut self,
        parse: &Parse<'_>,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Result<(), Malformed> {
        self.found.parses.0 += 1;
        let (sql, types) = (parse.query, parse.parameters());
        if let Some(why) = self.names.refuses(parse.name, parse.rest.len()) {
            self.refuse(parse, why, out, script);
            return Ok(());
        }
        let statement = self.statements.known(sql, types);
        self.found.needed = Some(statement.number);
        self.found.parsed = true;
        let since = self.changes;
        let is_taken = !self.has_failed && !self.may_have_failed;
        if is_taken && self.has(statement.number, since) {
            script.expect(Expect::Parse(ResponseAction::Invent, statement.number));
        } else {
            self.fresh.push(statement.number);
            self.found.parses.1 += 1;
            self.prepared.prepare(&statement, ResponseAction::Pass, since, out, script);
        }
        let shape = self.prepared.shape(statement.number);
        self.names.change(parse.name, Some(NamedStatement { statement, since, shape }));
        Ok(())
    }

    /// The server is to refuse the statement, so that the transaction fails and the rest of the
    /// round is left out: it is asked for one of a name that it has for certain. What is wrong with
    /// the statement itself it says first.
    fn refuse(&mut self, parse: &Parse<'_>, why: Why, out: &mut Vec<u8>, script: &mut Script) {
        let there = self.statements.there();
        self.there_for_certain(there, out, script);
        match why {
            Why::Taken => parse.put_as(out, there),
            _ => put_parse(out, there, b"", &[]),
        }
        script.expect(Expect::Refuse(why));
        self.names.change(parse.name, self.names.get(parse.name).cloned());
        self.found.is_refused = true;
    }

    fn has(&mut self, number: u64, since: u64) -> bool {
        let is_fresh = || self.fresh.contains(&number) && self.prepared.is_asked_for(number);
        is_fresh() || self.prepared.has(number, since)
    }

    /// The statement stays on the server, where others may use it; this client forgets it.
    fn close(&mut self, name: &[u8], out: &mut Vec<u8>, script: &mut Script) {
        // What an earlier round has closed comes back should that be left out.
        if self.names.get(name).is_some() || self.names.is_unsure(name) {
            self.names.change(name, None);
            script.expect(Expect::Close(ResponseAction::Invent));
        } else {
            // It may have been prepared by a statement.
            put_close(out, Target::Statement(&self.not_there(name)));
            script.expect(Expect::Close(ResponseAction::Pass));
        }
    }

    /// The name on the server of what the client has not got by the protocol. Those of Weir's own
    /// are kept from it, whoever may have told it of one.
    fn not_there<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        let is_own = || self.prepared.has_named(name) || *name == **self.statements.there();
        if name.starts_with(PREFIX) && is_own() {
            [b" ", name].concat().into()
        } else {
            name.into()
        }
    }

    /// The client's statement of this name, prepared on the server. `None` where the client has
    /// none: the server is then asked for one of that name, and says so in its words.
    fn there(
        &mut self,
        name: &[u8],
        out: &mut Vec<u8>,
        script: &mut Script,
    ) -> Option<Rc<Statement>> {
        let NamedStatement { statement, since, .. } = self.names.get(name)?.clone();
        self.prepare(&statement, since, out, script);
        Some(statement)
    }

    /// A statement is needed, prepared when the catalogue had changed `since` times or later.
    fn prepare(
        &mut self,
        statement: &Statement,
        since: u64,
        out: &mut Vec<u8>,
        script: &mut Script,
    ) {
        self.found.needed = Some(statement.number);
        if !self.has(statement.number, since) {
            self.fresh.push(statement.number);
            self.found.parses.1 += 1;
            self.prepared.prepare(statement, ResponseAction::Swallow, self.changes, out, script);
        }
    }
}

#[cfg(test)]
#[path = "compose_tests.rs"]
mod tests;
