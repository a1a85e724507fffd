//! A server connection that one client has for itself for a while.

mod account;
mod knowledge;
mod output;
mod record;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use flow::dial::Socket;
use flow::scratch::Scratch;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::postgres::backend::{Fields, Status};
use wire::postgres::frontend::{put_query, put_sync};
use wire::postgres::{Refusal, message, sqlstate};

use crate::backends::{Backend, Login};
use crate::commit::facts::CommitFacts;
use crate::pipeline::names::Limits;
use crate::pipeline::prepared::PreparedStatements;
use crate::pipeline::script::{Expect, ResponseAction, Script, ServerEvent, Unasked};
use crate::pipeline::settings::{Applied, Reported, Setting};
use crate::plan::Leaves;
use crate::server::{CancelKey, Dialled};
use account::Account;

pub use knowledge::ConnectionKnowledge;
pub use output::{LeasedState, ServerOutput};
pub use record::{Key, Record, ServerState};
pub use settle::{RefusedSetting, is_refused_for_good};

/// Of an outgoing buffer's memory so much is kept while nothing is in it.
const KEPT: usize = 16 * 1024;

/// What Weir asks a server for itself.
#[derive(Debug, PartialEq, Eq)]
enum Own {
    /// A statement that is to succeed.
    Statement,
    /// Statements that give it these settings.
    Settings(Applied),
    /// A statement that is to fail.
    Fails,
    /// Statements that bring back these, as its client's session began with them; they may fail.
    Restores(Vec<Setting>),
    /// A statement that undoes what came of such statements within a transaction.
    UndoesRestore,
}

/// What its backend was like before a connection was opened.
#[derive(Debug, Clone, Copy)]
pub struct OpeningState {
    /// The backend's epoch at that time; another epoch makes the connection outdated.
    pub epoch: u64,
    /// What the login was.
    pub login: Login,
}

/// A server connection, ready for requests or answering them.
pub struct Connection {
    io: Socket,
    /// The backend that it leads to.
    pub backend: Arc<Backend>,
    /// What the console shows of it.
    pub record: Rc<Record>,
    /// The backend's epoch when it was opened.
    pub epoch: u64,
    /// What its login was then, and as of when it is known to be the same.
    login: Login,
    logins_generation: u64,
    /// How to have what it runs cancelled.
    pub key: Option<CancelKey>,
    /// The statements that are prepared there.
    pub prepared: PreparedStatements,
    /// What was applied to it since it was opened; `None` when that is not known.
    pub settings: Option<Applied>,
    /// What its commits are like; `None` where that was not asked, or is not known.
    pub commits: Option<CommitFacts>,
    /// The settings it reports.
    pub reported: Reported,
    /// The answers that are under way.
    pub script: Script,
    /// What ReadyForQuery said last.
    pub status: Status,
    /// What is to be sent.
    pub out: Vec<u8>,
    sent: usize,
    account: Account,
    unflushed: bool,
    /// What came and is not whole yet.
    rest: Vec<u8>,
    /// It must not be used again.
    pub broken: bool,
    /// What its clients may have left on it since it was last rid of that.
    pub leaves: Leaves,
    /// They may have drawn from sequences since then.
    pub drew: bool,
    /// Weir's own questions that are under way.
    own: VecDeque<Own>,
    /// What the server said to the first of them that failed: an ErrorResponse's body. What was
    /// asked behind it ran without what Weir meant to put in front of it.
    pub own_error: Option<Box<[u8]>>,
    /// What of what its client's session began with the server did not bring back, and what it
    /// said: an ErrorResponse's body.
    pub not_restored: Option<(Vec<Setting>, Box<[u8]>)>,
    /// A client may have used temporary tables, which no statement ends: the server takes no other
    /// `temp_buffers` from then on (`check_temp_buffers`).
    pub has_local_buffers: bool,
}

/// In front of what a connection takes on: a predecessor's time limit does not end it half-way, and
/// `RESET ALL` leaves the user as it is (PostgreSQL documentation, "RESET", "SET ROLE").
const FORGET: &str = "SET statement_timeout = 0;RESET SESSION AUTHORIZATION;RESET ROLE;RESET ALL;";

/// The savepoint in front of what is restored within a transaction. One of its client's that has
/// the same name is found again behind it, since the newest of a name counts.
const RESTORING: &str = "weir_restores";

impl Connection {
    /// A connection that was just opened; so many statements are kept prepared on it.
    pub fn new(
        dialled: Dialled,
        record: Rc<Record>,
        OpeningState { epoch, login }: OpeningState,
        statements: Limits,
    ) -> Self {
        record.reached(&dialled);
        Self {
            io: dialled.socket,
            backend: record.backend.clone(),
            record,
            epoch,
            login,
            // It may have changed since; the first look tells.
            logins_generation: u64::MAX,
            key: dialled.key,
            prepared: PreparedStatements::new(statements),
            settings: Some("".into()),
            commits: None,
            reported: own(dialled.parameters),
            script: Script::default(),
            status: Status::Idle,
            out: Vec::new(),
            sent: 0,
            account: Account::default(),
            unflushed: false,
            rest: dialled.rest,
            broken: false,
            leaves: Leaves::Nothing,
            drew: false,
            own: VecDeque::new(),
            own_error: None,
            not_restored: None,
            has_local_buffers: false,
        }
    }

    /// Whether an idle connection can still be used: the server is what it was, and has said
    /// nothing since.
    pub fn is_good(&mut self) -> bool {
        if self.epoch != self.backend.epoch() || !self.is_current() {
            return false;
        }
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut byte = [0];
        Pin::new(&mut self.io).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// What its login was when it was opened.
    pub fn login(&self) -> Login {
        self.login
    }

    /// Whether a connection that is opened now would have the same from its login.
    pub fn is_current(&mut self) -> bool {
        let logins = self.backend.logins();
        let generation = logins.generation();
        if generation != self.logins_generation || self.login.is_new() {
            let key = &self.record.key;
            if logins.of(&key.user, &key.database) != self.login {
                return false;
            }
            self.logins_generation = generation;
        }
        true
    }

    /// Whether it could be given to another client as far as the protocol goes; see also `leaves`.
    pub fn is_free(&self) -> bool {
        !self.broken
            && self.own_error.is_none()
            && self.status == Status::Idle
            && self.script.is_idle()
            && self.rest.is_empty()
            && self.out.is_empty()
            && self.account.is_even()
            && !self.prepared.is_crowded()
    }

    /// Logs where nothing is under way and yet not all that was asked is settled: a fault of Weir's
    /// or of the server's. The connection serves nobody else.
    pub fn report_imbalance(&self) {
        if !self.broken && self.script.is_idle() && self.out.is_empty() && !self.account.is_even() {
            let (asked, settled) = self.account.totals();
            let backend = self.backend.name();
            tracing::error!(backend, asked, settled, "a server connection's answers do not add up");
        }
    }

    /// Asks how many Syncs amid the data of a failed COPY are answered, where that is not known.
    pub fn settle_copy(&mut self) {
        let Some(with_sync) = self.script.ask_to_settle() else { return };
        if with_sync {
            put_sync(&mut self.out);
        }
        self.own.push_back(Own::Statement);
        put_query(&mut self.out, b"");
    }

    /// Appends a statement of Weir's own, whose answer nobody hears.
    pub fn ask(&mut self, sql: &str) {
        self.ask_for(sql, Own::Statement);
    }

    /// Appends what brings back these, as its client's session began with them. Within a
    /// transaction that goes on should the server refuse them, once it is asked to
    /// [undo](Self::ask_to_undo_restore) that.
    pub fn ask_to_restore(&mut self, begun: Vec<Setting>, within_transaction: bool) {
        let sql: String = begun.iter().map(|setting| &*setting.sql).collect();
        let sql = match within_transaction {
            true => format!("SAVEPOINT {RESTORING};{sql}RELEASE SAVEPOINT {RESTORING}"),
            false => sql,
        };
        self.ask_for(&sql, Own::Restores(begun));
    }

    /// Appends what brings a transaction back to before it was asked to restore what the server has
    /// refused.
    pub fn ask_to_undo_restore(&mut self) {
        let sql = format!("ROLLBACK TO SAVEPOINT {RESTORING};RELEASE SAVEPOINT {RESTORING}");
        self.ask_for(&sql, Own::UndoesRestore);
    }

    /// Has the open transaction fail.
    pub fn ask_to_fail(&mut self) {
        self.ask_for("ROLLBACK TO SAVEPOINT weir", Own::Fails);
    }

    fn ask_for(&mut self, sql: &str, what: Own) {
        self.own.push_back(what);
        message(&mut self.out, b'Q', |out| {
            out.extend_from_slice(sql.as_bytes());
            out.push(0);
        });
        self.script.expect(Expect::Query(ResponseAction::Swallow));
    }

    /// Appends what gives it these settings, if it has not got them. They are known to hold once
    /// the server has said so.
    pub fn take_on(&mut self, settings: &Applied) {
        if self.settings.as_ref() == Some(settings) {
            return;
        }
        let bare = self.settings.as_ref().is_some_and(|applied| applied.is_empty());
        let forget = if bare { "" } else { FORGET };
        self.settings = None;
        self.prepared.next_epoch();
        let taken_on = Own::Settings(settings.clone());
        if settings.is_ascii() {
            return self.ask_for(&format!("{forget}{settings}"), taken_on);
        }
        // A Query is read by the encoding that was set before it came.
        self.ask(&format!("{forget}SET client_encoding = 'UTF8'"));
        self.ask_for(settings, taken_on);
    }

    /// The socket itself, for a lane: nothing else may be under way on it.
    pub fn socket(&mut self) -> Pin<&mut Socket> {
        Pin::new(&mut self.io)
    }

    /// Bytes that are still to be sent.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends what can be sent.
    ///
    /// # Errors
    /// The connection failed.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            let n = ready!(Pin::new(&mut self.io).poll_write(cx, &self.out[self.sent..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.account.sent(&self.out[self.sent..self.sent + n]);
            self.sent += n;
            self.unflushed = true;
        }
        if self.sent > 0 {
            self.sent = 0;
            self.out.clear();
            self.out.shrink_to(KEPT);
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once and goes through what came; `false` at the connection's end.
    ///
    /// # Errors
    /// The connection failed, or said what it was not asked.
    pub fn poll_hear(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &Scratch,
        on: &mut impl FnMut(&mut ConnectionKnowledge, ServerEvent<'_>),
    ) -> Poll<io::Result<bool>> {
        scratch.lend(|buffer| {
            let mut read = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                self.broken = true;
                return Poll::Ready(Ok(false));
            }
            let now = Instant::now();
            self.backend.heard(now);
            let heard = if self.rest.is_empty() {
                self.hear(read.filled(), now, on)
            } else {
                self.rest.extend_from_slice(read.filled());
                let joined = std::mem::take(&mut self.rest);
                self.hear(&joined, now, on)
            };
            Poll::Ready(heard.map(|()| true).map_err(io::Error::other))
        })
    }

    fn hear(
        &mut self,
        bytes: &[u8],
        now: Instant,
        on: &mut impl FnMut(&mut ConnectionKnowledge, ServerEvent<'_>),
    ) -> Result<(), Unasked> {
        let (script, mut known) = self.parts(now);
        let taken = script.hear(bytes, &mut |heard| {
            known.note(&heard);
            on(&mut known, heard);
        });
        let taken = taken.inspect_err(|_| self.broken = true)?;
        self.rest = bytes[taken..].to_vec();
        Ok(())
    }
}

fn own(parameters: Vec<(String, String)>) -> Reported {
    parameters.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// A server's error, for a client that did not ask for it.
pub fn refusal_of(body: &[u8]) -> Refusal {
    match Fields::read(body) {
        Ok(fields) => Refusal::of_server(&fields),
        Err(_) => Refusal::error(sqlstate::INTERNAL_ERROR, "the server refused"),
    }
}
