//! What is answered here, since no server needs to know of it yet.
//!
//! A plain BEGIN changes nothing until a statement follows: it is answered at once and sent along
//! with that statement, which saves a round trip. A transaction that ends before is never heard of
//! by any server.

use std::time::Instant;

use wire::postgres::backend::{
    Status, put_bind_complete, put_command_complete, put_no_data, put_parse_complete,
    put_ready_for_query,
};

use wire::postgres::{Refusal, sqlstate};
use wire::sql::{Lexer, Strings};

use super::Session;
use super::compose::Named;
use super::round::{messages, string};
use crate::plan::Deallocate;
use crate::settings::Route;

impl Session {
    /// Answers a BEGIN, which stands at the start of the inbox.
    pub(super) fn begin(&mut self, sql: Box<str>, len: usize) {
        let command = command(sql.as_bytes());
        self.begin = Some(sql);
        self.answer(command, Status::InTransaction, len);
    }

    /// Answers the end of a transaction that no server has heard of.
    pub(super) fn end_empty(&mut self, command: &'static str, len: usize) {
        self.begin = None;
        self.answer(command, Status::Idle, len);
    }

    /// Takes note of where statements are to go.
    pub(super) fn change_route(&mut self, route: Option<Route>, len: usize) {
        self.route = route;
        let status = self.status();
        self.answer("SET", status, len);
    }

    /// Forgets statements of this client. What servers have prepared for them stays there, under
    /// Weir's names.
    pub(super) fn deallocate(&mut self, what: &Deallocate, len: usize) {
        let command = match what {
            Deallocate::All => {
                self.names.clear();
                "DEALLOCATE ALL"
            }
            Deallocate::Name(name) => {
                if self.names.remove(name.as_bytes()).is_none() {
                    let what = format!("prepared statement \"{name}\" does not exist");
                    self.inbox.drain(..len);
                    let refusal = Refusal::error(sqlstate::UNDEFINED_PREPARED_STATEMENT, what);
                    return self.client.refuse(&refusal);
                }
                "DEALLOCATE"
            }
        };
        let status = self.status();
        self.answer(command, status, len);
    }

    /// Answers the round at the start of the inbox, of one statement without rows.
    pub(super) fn answer(&mut self, command: &str, status: Status, len: usize) {
        let mut out = Vec::with_capacity(64);
        let round: Vec<u8> = self.inbox.drain(..len).collect();
        for (tag, body, _) in messages(&round) {
            match tag {
                b'P' => {
                    self.remember(body);
                    put_parse_complete(&mut out);
                }
                b'B' => put_bind_complete(&mut out),
                b'D' if body.first() == Some(&b'S') => {
                    wire::postgres::backend::put_parameter_description(&mut out, &[]);
                    put_no_data(&mut out);
                }
                b'D' => put_no_data(&mut out),
                b'C' => {
                    self.forget(body);
                    wire::postgres::backend::put_close_complete(&mut out);
                }
                b'E' | b'Q' => put_command_complete(&mut out, command),
                _ => {}
            }
        }
        put_ready_for_query(&mut out, status);
        self.client.outlet.send(&out);
        self.front.gateway.metrics.answered.inc();
        self.client.seen().asked.set(Some(Instant::now()));
        self.database.count(|totals| {
            totals.queries += 1;
            totals.transactions += u64::from(status == Status::Idle);
        });
    }

    fn remember(&mut self, body: &[u8]) {
        let Some((name, rest)) = string(body) else { return };
        let Some((sql, types)) = string(rest) else { return };
        let statement = self.front.statements.known(sql, types);
        self.names.insert(name.into(), Named { statement, since: self.database.changes() });
    }

    fn forget(&mut self, body: &[u8]) {
        if let Some((b'S', name)) = body.split_first()
            && let Some((name, _)) = string(name)
        {
            self.names.remove(name);
        }
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
