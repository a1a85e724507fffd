//! What is answered here, since no server needs to know of it yet.
//!
//! A plain BEGIN changes nothing until a statement follows: it is answered at once and sent along
//! with that statement, which saves a round trip. A transaction that ends before is never heard of
//! by any server.
//!
//! Proven reads of such a transaction may ride lanes: at READ COMMITTED each statement has a
//! snapshot of its own anyway. Should one fail, it is asked again within the transaction, on a
//! server connection of its own. Where some of its answer was passed on that would be said twice:
//! the server then gets a transaction that has failed, for whatever follows.

use std::time::{Duration, Instant};

use wire::postgres::backend::{
    Status, put_bind_complete, put_close_complete, put_command_complete, put_no_data,
    put_parameter_description, put_parse_complete, put_ready_for_query,
};
use wire::postgres::frontend::{Parse, Target, tag};
use wire::postgres::{Refusal, sqlstate};
use wire::sql::{Lexer, Strings};

use super::Session;
use super::patience::setting_duration;
use crate::pipeline::names::NamedStatement;
use crate::pipeline::round::Round;
use crate::plan::{BeginForm, Deallocate, Resting};
use crate::settings::Route;

/// A transaction that no server has heard of.
#[derive(Debug)]
pub(super) struct Begun {
    /// As its client has begun it.
    pub sql: Box<str>,
    /// When the client has begun it.
    pub since: Instant,
    /// How long its client may rest in it by the server's setting; `None` is for ever.
    pub resting: Option<Duration>,
    /// Its reads may run outside of it.
    pub is_loose: bool,
    /// Nothing may be written in it.
    pub is_read_only: bool,
    /// One was sent so: from then on what has to come before any query is refused, as `SET
    /// TRANSACTION ISOLATION LEVEL`.
    pub has_read: bool,
}

impl Session {
    /// Answers a BEGIN that no server hears of yet.
    pub(super) fn begin(&mut self, form: BeginForm, sql: Box<str>, round: &Round) {
        let command = command(sql.as_bytes());
        let is_loose = form.is_loose()
            && self.front.settings().lanes.transactions
            && !self.environment.settings.says_of_transactions();
        self.begun = Some(Begun {
            sql,
            since: round.came,
            resting: self.resting(),
            is_loose,
            is_read_only: form.read_only == Some(true),
            has_read: false,
        });
        self.client.set_failed(false);
        self.answer(command, Status::InTransaction, round);
    }

    /// How long a server would let this session rest in a transaction.
    fn resting(&self) -> Option<Duration> {
        match self.environment.settings.value("idle_in_transaction_session_timeout") {
            Some(own) => setting_duration(own),
            None => match self.database.resting() {
                Resting::For(limit) => Some(limit),
                Resting::Forever | Resting::ByLogin => None,
            },
        }
    }

    /// Answers the end of a transaction that no server has heard of.
    pub(super) fn end(&mut self, command: &'static str, round: &Round) {
        if let Some(begun) = self.begun.take() {
            self.database.count(|totals| totals.transaction_time += begun.since.elapsed());
        }
        self.answer(command, Status::Idle, round);
    }

    /// Takes note of where statements are to go.
    pub(super) fn change_route(&mut self, route: Option<Route>, round: &Round) {
        self.route = route;
        let status = self.status();
        self.answer("SET", status, round);
    }

    /// Forgets statements of this client. What servers have prepared for them stays there, under
    /// Weir's names.
    pub(super) fn deallocate(&mut self, what: &Deallocate, round: &Round) {
        let command = match what {
            Deallocate::All => {
                self.client.names().clear();
                "DEALLOCATE ALL"
            }
            Deallocate::Name(name) => {
                let mut names = self.client.names();
                let was_there = names.get(name.as_bytes()).is_some();
                names.set(name.as_bytes(), None);
                drop(names);
                if !was_there {
                    let what = format!("prepared statement \"{name}\" does not exist");
                    let refusal = Refusal::error(sqlstate::UNDEFINED_PREPARED_STATEMENT, what);
                    return self.refuse(&refusal);
                }
                "DEALLOCATE"
            }
        };
        let status = self.status();
        self.answer(command, status, round);
    }

    /// Answers a round of one statement without rows.
    pub(super) fn answer(&mut self, command: &str, status: Status, round: &Round) {
        let mut out = Vec::with_capacity(64);
        for message in round.messages() {
            let body = message.body;
            match message.tag {
                tag::PARSE => {
                    self.remember(body);
                    put_parse_complete(&mut out);
                }
                tag::BIND => put_bind_complete(&mut out),
                tag::DESCRIBE => {
                    if let Ok(Target::Statement(_)) = Target::of_describe(body) {
                        put_parameter_description(&mut out, &[]);
                    }
                    put_no_data(&mut out);
                }
                tag::CLOSE => {
                    if let Ok(Target::Statement(name)) = Target::of_close(body) {
                        self.client.names().set(name, None);
                    }
                    put_close_complete(&mut out);
                }
                tag::EXECUTE => put_command_complete(&mut out, command),
                tag::QUERY => {
                    self.client.names().query();
                    put_command_complete(&mut out, command);
                }
                _ => {}
            }
        }
        put_ready_for_query(&mut out, status);
        self.client.outlet.send(&out);
        self.front.shared.metrics.answered.inc();
        self.client.seen().asked.set(Some(round.came));
        self.database.count(|totals| {
            totals.queries += 1;
            totals.transactions += u64::from(status == Status::Idle);
        });
    }

    /// A name is given to a statement; whether it may be was asked before (see `summary`).
    fn remember(&mut self, body: &[u8]) {
        let Ok(parse) = Parse::read(body) else { return };
        let statement = self.front.statements.known(parse.query, parse.parameters());
        let named =
            NamedStatement { statement, since: self.database.changes(), shape: Default::default() };
        self.client.names().set(parse.name, Some(named));
    }
}

/// The tag of a statement that is known to begin a transaction.
fn command(sql: &[u8]) -> &'static str {
    let starts = Lexer::new(sql, Strings::Standard).any(|token| token.is("start"));
    if starts { "START TRANSACTION" } else { "BEGIN" }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_transaction_begins_with_the_tag_of_its_own_words() {
        assert_eq!(super::command(b"/* start */ Begin isolation level serializable"), "BEGIN");
        assert_eq!(super::command(b" START transaction read only"), "START TRANSACTION");
    }
}
