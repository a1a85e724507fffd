//! Commits of one worker that wait for marks in common, and the connections on which those are
//! sent.
//!
//! There is one connection for each server and level, logged in as Weir's own role, outside the
//! pools. While it is not there commits are the server's own. When it ends, whoever waits for a
//! mark on it hears that the outcome is unknown.
//!
//! The one path: [`WorkerContext::share_commit`] says whether a transaction may commit without
//! waiting, before its commit is sent; [`SharedCommit::hold`] is for its answer, once ReadyForQuery
//! was read; [`UnconfirmedCommit::confirmed`] waits for the mark.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::backoff::Backoff;
use flow::barrier::{Admission, Barrier, Limits, Request};
use flow::dial::Socket;
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;
use wire::postgres::backend::tag;
use wire::postgres::{Refusal, frontend, sqlstate};

use super::WorkerContext;
use crate::backends::{Backend, Backends};
use crate::commit::facts::{self, CommitFacts, ServerProcess};
use crate::commit::level::CommitLevel;
use crate::commit::mark::{MARK, MarkFault, MarkReply, MarkVerdict, opening};
use crate::connection::Connection;
use crate::metrics::CommitMetrics;
use crate::server::{AskLimits, Conversation, DialError, QueryError, TalkError};

/// The first wait after a connection was lost; it doubles up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_secs(5);
/// A connection that lasted so long was a good one: the next wait is the first again.
const LASTED: Duration = Duration::from_secs(10);
/// How long a connection stays when nobody commits.
const LINGER: Duration = Duration::from_secs(60);
/// What a server may say before its first mark.
const OPENING: AskLimits = AskLimits { bytes: 64 * 1024, time: Duration::from_secs(10) };

/// Settings that the connection begins with.
const PARAMETERS: [(&str, &str); 2] =
    [("application_name", "weir: commit"), ("client_encoding", "UTF8")];

/// An answer that a mark has confirmed.
#[derive(Debug)]
pub struct ConfirmedCommit {
    /// The answer, as it was given to [`SharedCommit::hold`].
    pub bytes: Vec<u8>,
    /// The server's WARNING that it has not waited for its standbys, which goes in front.
    pub warning: Option<Rc<[u8]>>,
}

type Ticket = oneshot::Sender<ConfirmedCommit>;

/// Why a connection for marks is given up.
#[derive(Debug, thiserror::Error)]
enum MarksEnd {
    /// Nobody has committed for long.
    #[error("nobody commits any more")]
    Unused,
    /// The server is not what it was.
    #[error("the server went down, or is the primary no longer")]
    Moved,
    /// The server does not say which process it is.
    #[error("the server does not say since when it runs, or which system it is")]
    Nameless,
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Talk(#[from] TalkError),
    #[error(transparent)]
    Mark(#[from] MarkFault),
    #[error(transparent)]
    Unasked(#[from] flow::barrier::UnaskedConfirmation),
}

/// The lines of a worker, by the server's number and the level.
#[derive(Default)]
pub(super) struct CommitLines(RefCell<HashMap<(usize, CommitLevel), Rc<CommitLine>>>);

/// Those that wait for marks at one level on one server.
struct CommitLine {
    backends: Arc<Backends>,
    backend: Arc<Backend>,
    level: CommitLevel,
    barrier: RefCell<Barrier<Ticket>>,
    /// The server process that the connection for marks leads to, while there is one.
    process: RefCell<Option<ServerProcess>>,
    /// Something is held for the next mark.
    held: Notify,
    /// When somebody wanted to commit last.
    wanted: Cell<Instant>,
    /// Whether its task runs, which keeps the connection.
    is_running: Cell<bool>,
    metrics: CommitMetrics,
}

/// A transaction that may commit without waiting, as it was agreed before its commit was sent.
/// One that is dropped counts as committed, with an answer that nobody heard.
#[must_use = "its answer has to be held"]
pub struct SharedCommit {
    line: Rc<CommitLine>,
    request: Option<Request>,
}

/// A commit whose answer waits for a mark.
#[derive(Debug)]
pub struct UnconfirmedCommit(oneshot::Receiver<ConfirmedCommit>);

impl WorkerContext {
    /// Whether the next commit on this connection need not wait, because a mark is sent behind it.
    /// `is_alone`: nobody else is about to commit; where nobody waits for a connection either, it
    /// waits for itself, which takes one request less. Reads the clock once for each commit, to
    /// know how late the mark under way is.
    pub fn share_commit(&self, server: &Connection, is_alone: bool) -> Option<SharedCommit> {
        let CommitFacts { level, process } = server.commits.as_ref()?;
        let has_room = is_alone && self.pool.group(&server.record.key).figures().waiting == 0;
        let line = self.commits.line(self, &server.backend, *level);
        line.admit(process, has_room, self.settings().commit_wait.get())
    }
}

impl CommitLines {
    fn line(
        &self,
        front: &WorkerContext,
        backend: &Arc<Backend>,
        level: CommitLevel,
    ) -> Rc<CommitLine> {
        match self.0.borrow_mut().entry((backend.number(), level)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                let (backends, backend) = (front.backends.clone(), backend.clone());
                let metrics = front.shared.metrics.commits.clone();
                new.insert(Rc::new(CommitLine::new(backends, backend, level, metrics))).clone()
            }
        }
    }
}

impl CommitLine {
    fn new(
        backends: Arc<Backends>,
        backend: Arc<Backend>,
        level: CommitLevel,
        metrics: CommitMetrics,
    ) -> Self {
        Self {
            backends,
            backend,
            level,
            barrier: RefCell::new(Barrier::new(Limits::default())),
            process: RefCell::default(),
            held: Notify::new(),
            wanted: Cell::new(Instant::now()),
            is_running: Cell::new(false),
            metrics,
        }
    }

    fn admit(
        self: &Rc<Self>,
        process: &ServerProcess,
        has_room: bool,
        age: Duration,
    ) -> Option<SharedCommit> {
        let now = Instant::now();
        self.wanted.set(now);
        if !self.is_running.replace(true) {
            spawn_local(self.clone().run());
        }
        if self.process.borrow().as_ref() != Some(process) {
            return None;
        }
        let mut barrier = self.barrier.borrow_mut();
        barrier.set_limits(Limits { age, ..Limits::default() });
        match barrier.commit(has_room, now) {
            Admission::Shared(request) => {
                Some(SharedCommit { line: self.clone(), request: Some(request) })
            }
            // While the mark is late the server itself makes commits wait.
            Admission::Own | Admission::Wait => None,
        }
    }

    /// Keeps a connection for marks for as long as somebody commits.
    async fn run(self: Rc<Self>) {
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LAST);
        while self.wanted.get().elapsed() < LINGER {
            let since = Instant::now();
            let Err(end) = self.serve().await;
            self.lose_all();
            let (backend, level) = (self.backend.name(), self.level.as_str());
            match &end {
                MarksEnd::Unused | MarksEnd::Moved => {
                    tracing::debug!(backend, level, why = %end, "no more marks");
                }
                why => {
                    tracing::warn!(backend, level, %why, "commits are not confirmed together");
                    self.backend.suspect();
                }
            }
            if since.elapsed() >= LASTED {
                backoff.reset();
            }
            backoff.wait().await;
        }
        self.is_running.set(false);
    }

    /// Nothing of what waits can be confirmed any more.
    fn lose_all(&self) {
        *self.process.borrow_mut() = None;
        // Whoever waits hears of it by its ticket, which goes.
        self.barrier.borrow_mut().broken(|_| {
            self.metrics.held.dec();
            self.metrics.unconfirmed.inc();
        });
    }

    /// Opens a connection and sends marks on it, until it ends or nobody needs it.
    async fn serve(&self) -> Result<std::convert::Infallible, MarksEnd> {
        // From before the login on: what changes during it is seen.
        let epoch = self.backend.epoch();
        let mut changes = self.backends.changes();
        let mut talk = self.open().await?;
        let mut query = Vec::new();
        frontend::put_query(&mut query, MARK.as_bytes());
        let mut reply = MarkReply::default();
        loop {
            if self.backend.epoch() != epoch {
                return Err(MarksEnd::Moved);
            }
            // What is held from here on, before the bytes are sent too, waits for the next one.
            if self.barrier.borrow_mut().mark(Instant::now()) {
                self.metrics.marks.inc();
                let moved = async {
                    while self.backend.epoch() == epoch && changes.changed().await.is_ok() {}
                };
                let verdict = tokio::select! {
                    verdict = mark(&mut talk, &query, &mut reply) => verdict?,
                    () = moved => return Err(MarksEnd::Moved),
                };
                self.confirm(verdict)?;
                continue;
            }
            let unused = LINGER.saturating_sub(self.wanted.get().elapsed());
            if unused.is_zero() && self.barrier.borrow().is_empty() {
                return Err(MarksEnd::Unused);
            }
            tokio::select! {
                frame = talk.next() => match frame?.tag {
                    // The server has read its settings anew.
                    tag::PARAMETER_STATUS => {}
                    other => return Err(MarkFault::Unexpected(char::from(other)).into()),
                },
                () = self.held.notified() => {}
                _ = changes.changed() => {}
                () = tokio::time::sleep(unused.max(PAUSE_FIRST)) => {}
            }
        }
    }

    async fn open(&self) -> Result<Conversation<Socket>, MarksEnd> {
        let database = self.backend.own_database();
        let dialled = self.backend.dial_own(&database, &PARAMETERS).await?;
        let mut talk = Conversation::new(dialled.socket, dialled.rest);
        talk.ask(&opening(self.level), &[], OPENING).await?;
        // The level is that of the marks now, so it is one that is known.
        let rows = talk.ask(facts::QUESTION, &[], OPENING).await?;
        let facts = CommitFacts::read(&rows).ok_or(MarksEnd::Nameless)?;
        *self.process.borrow_mut() = Some(facts.process);
        self.barrier.borrow_mut().logged_in();
        Ok(talk)
    }

    /// Hands over what a mark has confirmed.
    fn confirm(&self, verdict: MarkVerdict) -> Result<(), MarksEnd> {
        let warning: Option<Rc<[u8]>> = match verdict {
            MarkVerdict::Durable => None,
            MarkVerdict::LocallyDurable(warning) => Some(warning.into()),
        };
        self.barrier.borrow_mut().confirmed(|answer| {
            self.metrics.held.dec();
            self.metrics.confirmed.inc();
            if warning.is_some() {
                self.metrics.warned.inc();
            }
            let (bytes, warning) = (answer.bytes, warning.clone());
            // Whoever has gone meanwhile hears nothing.
            let _ = answer.ticket.send(ConfirmedCommit { bytes, warning });
        })?;
        Ok(())
    }
}

/// Sends a mark and hears what comes of it.
async fn mark(
    talk: &mut Conversation<Socket>,
    query: &[u8],
    reply: &mut MarkReply,
) -> Result<MarkVerdict, MarksEnd> {
    talk.say(query).await?;
    loop {
        if let Some(verdict) = reply.hear(talk.next().await?)? {
            return Ok(verdict);
        }
    }
}

impl SharedCommit {
    /// What is to be run in the transaction so that it commits without waiting.
    pub fn without_waiting(&self) -> String {
        facts::without_waiting(self.line.level)
    }

    /// The transaction has ended, by a ReadyForQuery that was read: its answer waits for a mark.
    pub fn hold(mut self, answer: &[u8]) -> UnconfirmedCommit {
        let (ticket, confirmed) = oneshot::channel();
        let Some(request) = self.request.take() else { return UnconfirmedCommit(confirmed) };
        match self.line.barrier.borrow_mut().hold(request, ticket, answer) {
            Ok(()) => self.line.metrics.held.inc(),
            // The ticket goes, by which whoever waits hears so.
            Err(_) => self.line.metrics.unconfirmed.inc(),
        }
        self.line.held.notify_one();
        UnconfirmedCommit(confirmed)
    }

    /// Nothing was committed: the transaction was not sent, or was undone.
    pub fn settle(mut self) {
        if let Some(request) = self.request.take() {
            drop(self.line.barrier.borrow_mut().settle(request));
        }
    }
}

impl fmt::Debug for SharedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.line.level.as_str();
        f.debug_struct("SharedCommit").field("level", &level).finish_non_exhaustive()
    }
}

impl Drop for SharedCommit {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.line.barrier.borrow_mut().lose(request);
            self.line.held.notify_one();
        }
    }
}

impl UnconfirmedCommit {
    /// Waits for the mark; `None` where no mark can confirm it any more.
    pub async fn confirmed(&mut self) -> Option<ConfirmedCommit> {
        (&mut self.0).await.ok()
    }
}

/// What a client hears whose commit was not confirmed.
pub fn unconfirmed() -> Refusal {
    let what = "the server has committed this without waiting for its disk, and the connection \
                that was to confirm it broke: whether it lasts is not known";
    Refusal::error(sqlstate::OUTCOME_UNKNOWN, what).hint(
        "It is lost only if the server has crashed. Look whether it is there before retrying.",
    )
}
