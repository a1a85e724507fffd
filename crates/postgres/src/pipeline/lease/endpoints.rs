//! The client's session and its server connection, as a lease is handed them with the client's
//! messages.

use std::rc::Rc;

use wire::postgres::backend::Status;
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, put_query, tag};
use wire::sql::Lifted;

use super::listening::ListenChange;
use super::note::{Departure, Departures, SessionFacts};
use crate::pipeline::compose::{Composer, StatementUse};
use crate::pipeline::judgement::TextPlan;
use crate::pipeline::names::Names;
use crate::pipeline::prepared::PreparedStatements;
use crate::pipeline::script::{Expect, ResponseAction, Script};
use crate::pipeline::statements::{Statement, Statements};
use crate::plan::Plan;

/// What a session has looked up of a whole message.
#[derive(Debug, Clone)]
pub enum MessageLookup<'a> {
    /// Nothing is to be known of the message.
    Nothing,
    /// What is known of a Query.
    Query(QueryLookup<'a>),
    /// What the text of a Parse is, where that is known.
    Parse(Option<TextPlan>),
    /// The statement that a Bind names, where the client has one of that name.
    Bind(Option<BindLookup>),
}

/// What a session has looked up of a Query.
#[derive(Debug, Clone)]
pub struct QueryLookup<'a> {
    /// What its text is.
    pub plan: Rc<Plan>,
    /// Those of its statements that change settings or what is listened to, where it has several
    /// and they are known.
    pub parts: Option<Vec<Rc<Plan>>>,
    /// Its values, where it is to be prepared as a point statement.
    pub point: Option<&'a Lifted>,
}

/// What a session has looked up of a Bind.
#[derive(Debug, Clone)]
pub struct BindLookup {
    /// The statement that it names.
    pub statement: Rc<Statement>,
    /// What that statement is.
    pub plan: Rc<Plan>,
    /// What that changes of what the client listens to, where Weir can change it itself.
    pub listening: Option<ListenChange>,
}

/// The statement that a Bind names.
pub fn bound_statement(message: Frame<'_>, names: &Names) -> Option<Rc<Statement>> {
    if message.tag != tag::BIND {
        return None;
    }
    let bind = Bind::read(message.body).ok()?;
    names.get(bind.statement).map(|named| named.statement.clone())
}

/// What a client's messages go through: its session and its server connection.
pub struct Endpoints<'a> {
    /// What is known of the session.
    pub session: SessionFacts<'a>,
    /// The client's names for statements.
    pub names: &'a mut Names,
    /// The statements of this worker.
    pub statements: &'a Statements,
    /// The catalogue's count of changes now.
    pub changes: u64,
    /// The longest message that the client may send.
    pub message_max: usize,
    /// The server's answers that are under way.
    pub script: &'a mut Script,
    /// What is to be sent to the server.
    pub out: &'a mut Vec<u8>,
    /// So many bytes at the start of `out` the server has taken.
    pub sent: usize,
    /// While more than that is to be sent, nothing is added.
    pub unsent_max: usize,
    /// The statements that are prepared on the server.
    pub prepared: &'a mut PreparedStatements,
    /// What the last ReadyForQuery said.
    pub status: Status,
    /// What was come across while messages were written, to be counted.
    pub found: StatementUse,
    /// Carries out what a message does, in front of its bytes.
    pub departures: &'a mut Departures<'a>,
}

/// What messages are written with, beside what the endpoints are.
#[derive(Debug)]
pub struct Composing<'a> {
    /// Statements whose Parse went out in this round.
    pub fresh: &'a mut Vec<u64>,
    /// A transaction is open that may have failed by what is under way.
    pub may_have_failed: bool,
}

impl Endpoints<'_> {
    /// Bytes that the server has not taken.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Does what a message has to have done before it goes out.
    pub fn depart(&mut self, departure: Departure) {
        match departure {
            Departure::NextEpoch => self.prepared.next_epoch(),
            departure => (self.departures)(departure),
        }
    }

    /// Appends a statement of Weir's own as a Query, whose answer nobody hears.
    pub fn ask(&mut self, sql: &str) {
        put_query(self.out, sql.as_bytes());
        self.script.expect(Expect::Query(ResponseAction::Swallow));
    }

    /// Has messages written for the server.
    pub fn compose<T>(
        &mut self,
        with: Composing<'_>,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        let mut composer = Composer {
            names: self.names,
            statements: self.statements,
            prepared: self.prepared,
            fresh: with.fresh,
            changes: self.changes,
            has_failed: self.status == Status::Failed,
            may_have_failed: with.may_have_failed,
            found: StatementUse::default(),
        };
        let written = write(&mut composer, self.out, self.script);
        self.found.add_counts(&composer.found);
        written
    }
}
