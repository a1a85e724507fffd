//! Asking one backend what it is, again and again, over a connection of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::dial::{Late, Socket};
use tokio::time::{sleep, timeout};
use wire::postgres::sqlstate;

use super::facts::{ClusterFacts, Facts, IDENTITY, PARAMETERS, check_version, question};
use super::picture::Noted;
use super::{Backend, BackendState, BackendsState, Moment, expiring, logins};
use crate::server::{AskLimits, Conversation, DialError, QueryError, dial};

/// Bytes of an answer; it is one row of six values.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// Bytes of an answer about logins: a hundred thousand roles.
const LOGINS_BYTES_MAX: usize = 32 << 20;
/// After a poll nothing is asked for so long, whatever happens.
const REST: Duration = Duration::from_millis(5);
/// While a client waits for replicas to have its write, polls are so many times as frequent.
const HASTE: u32 = 5;

/// What came of a poll.
#[derive(Debug)]
pub(super) struct Report {
    /// The number of the backend that was polled.
    pub(super) number: usize,
    /// From before it was asked.
    pub(super) at: Moment,
    /// What the backend answered, or that it did not.
    pub(super) noted: Noted,
    /// Why the poll failed, in words for the log.
    pub(super) failure: Option<String>,
}

/// A connection to a backend, and what does not change while it lasts.
struct Link {
    talk: Conversation<Socket>,
    cluster: ClusterFacts,
    question: String,
    /// When it was asked about logins last; `None` where it may not be.
    logins_asked: Option<Instant>,
    /// The server's last answer about logins.
    logins: Option<String>,
    /// When it was asked about passwords that end soon.
    expiring_asked: Instant,
}

/// Why a poll came to nothing.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("asked about itself: {0}")]
    Query(#[from] QueryError),
    #[error(transparent)]
    Facts(#[from] super::FactsError),
}

impl PollError {
    /// Whether the server runs, as far as can be told: it has no room for one more connection, or
    /// it answers others and has merely no time for this.
    fn is_unsure(&self, backend: &Backend, begun: Moment) -> bool {
        match self {
            Self::Dial(DialError::TimedOut(_)) | Self::Query(QueryError::TimedOut(_)) => {
                backend.was_heard_since(begun)
            }
            Self::Dial(error) => {
                error.server_error().is_some_and(|e| e.code == sqlstate::TOO_MANY_CONNECTIONS)
            }
            _ => false,
        }
    }

    /// Whether a new connection may do better: the old one was closed.
    fn is_of_connection(&self) -> bool {
        match self {
            Self::Query(QueryError::Talk(_)) => true,
            // As `pg_terminate_backend` or a shutdown says it, before it closes.
            Self::Query(QueryError::Refused(error)) => error.severity == "FATAL",
            _ => false,
        }
    }
}

/// Polls `backend` for as long as the task is let run.
pub(super) async fn run(backend: Arc<Backend>, shared: Arc<BackendsState>) {
    let mut link = None;
    let report = |at, noted, failure| {
        shared.hear(Report { number: backend.number(), at, noted, failure });
    };
    loop {
        let limit = shared.pace.load().timeout;
        let begun = Moment::now();
        let mut asked = None;
        if let Some(open) = link.take() {
            asked = again(open, &backend, limit, &mut link).await;
            // Before the next connection is tried, since the server may be another by then.
            if asked.is_none() {
                report(begun, Noted::Unsure, None);
            }
        }
        let (at, asked) = match asked {
            Some(asked) => (begun, asked),
            None => anew(&backend, limit, &mut link).await,
        };
        match asked {
            Ok(facts) => report(at, Noted::Up(facts), None),
            Err(error) if error.is_unsure(&backend, begun) => {
                report(at, Noted::Unsure, Some(error.to_string()));
            }
            Err(error) => report(at, Noted::Down, Some(error.to_string())),
        }
        sleep(REST).await;
        tokio::select! {
            () = turn(&backend, &shared, at) => {}
            () = backend.poke.notified() => {}
            () = closing(link.as_ref()) => {}
        }
    }
}

/// Waits until it is this backend's turn again; it was asked last at `asked`.
async fn turn(backend: &Backend, shared: &BackendsState, asked: Moment) {
    let pace = *shared.pace.load_full();
    for _ in 1..HASTE {
        sleep(pace.interval / HASTE).await;
        // Somebody has written: where is the primary since, and does this replica have it?
        let written = shared.last_write();
        let awaited = match backend.standing() {
            BackendState::Primary => written > asked,
            BackendState::Replica => written > backend.caught_up(),
            _ => false,
        };
        if awaited {
            return;
        }
    }
    sleep(pace.interval / HASTE).await;
}

/// Ends when the server has something to say unasked, which is mostly that it ends.
async fn closing(link: Option<&Link>) {
    match link {
        Some(link) => drop(link.talk.get_ref().readable().await),
        None => std::future::pending().await,
    }
}

/// Asks over a connection that is there; `None` when it has ended. `kept` gets it back.
async fn again(
    mut open: Link,
    backend: &Backend,
    limit: Duration,
    kept: &mut Option<Link>,
) -> Option<Result<Facts, PollError>> {
    let asked = open.ask(backend, limit).await;
    match &asked {
        Err(error) if error.is_of_connection() => return None,
        Err(_) => {}
        Ok(_) => *kept = Some(open),
    }
    Some(asked)
}

/// Asks over a new connection, and says when, which is once that is there.
async fn anew(
    backend: &Backend,
    limit: Duration,
    kept: &mut Option<Link>,
) -> (Moment, Result<Facts, PollError>) {
    let mut open = match timeout(limit, Link::open(backend, limit)).await {
        Ok(Ok(open)) => open,
        Ok(Err(error)) => return (Moment::now(), Err(error)),
        Err(_) => {
            let address = backend.server().target.address.to_string();
            let late = DialError::from(Late { address, limit });
            return (Moment::now(), Err(late.into()));
        }
    };
    let at = Moment::now();
    let asked = open.ask(backend, limit).await;
    if asked.is_ok() {
        *kept = Some(open);
    }
    (at, asked)
}

impl Link {
    async fn open(backend: &Backend, limit: Duration) -> Result<Self, PollError> {
        let own = backend.own.load_full();
        let dialled = dial(backend.server(), own.identity(None, &PARAMETERS)).await?;
        check_version(dialled.parameter("server_version"))?;
        backend.parameters.store(Some(Arc::new(dialled.parameters)));
        let mut talk = Conversation::new(dialled.socket, dialled.rest);
        let limits = AskLimits { bytes: ANSWER_BYTES_MAX, time: limit };
        let cluster = match talk.ask(IDENTITY, &[], limits).await {
            Ok(rows) => Some(ClusterFacts::read(&rows)?),
            // Not each service lets its users read the control file.
            Err(QueryError::Refused(error)) if error.severity == "ERROR" => {
                let name = backend.name();
                tracing::warn!(
                    backend = name, %error,
                    "it can't be checked whether the server is of the same cluster as the others"
                );
                None
            }
            Err(error) => return Err(error.into()),
        };
        let question = question(cluster.is_some());
        let cluster = cluster.unwrap_or_default();
        let (logins_asked, logins, expiring_asked) = (None, None, Instant::now());
        let mut link = Self { talk, cluster, question, logins_asked, logins, expiring_asked };
        link.ask_logins(backend, limit).await?;
        link.ask_expiring(backend, limit).await?;
        Ok(link)
    }

    /// Which passwords end soon; a server that does not say so has none.
    async fn ask_expiring(&mut self, backend: &Backend, limit: Duration) -> Result<(), PollError> {
        let limits = AskLimits { bytes: ANSWER_BYTES_MAX, time: limit };
        self.expiring_asked = Instant::now();
        match self.talk.ask(expiring::QUESTION, &[], limits).await {
            Ok(rows) => backend.set_expiring(expiring::read(&rows)),
            Err(QueryError::Refused(error)) if error.severity == "ERROR" => {
                tracing::debug!(backend = backend.name(), %error, "no password's end is known");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Whether anything has changed that logins depend on, and what.
    async fn ask_logins(&mut self, backend: &Backend, limit: Duration) -> Result<(), PollError> {
        let limits = AskLimits { bytes: LOGINS_BYTES_MAX, time: limit };
        self.logins_asked = Some(Instant::now());
        let mut ask = async |sql: &str| match self.talk.ask(sql, &[], limits).await {
            Ok(rows) => Ok(Some(rows)),
            // Not each service shows its users all of it.
            Err(QueryError::Refused(error)) if error.severity == "ERROR" => {
                let name = backend.name();
                tracing::warn!(backend = name, %error, "changed logins are not noticed");
                Ok(None)
            }
            Err(error) => Err(error),
        };
        let Some(state) = ask(&logins::state_question()).await? else {
            self.logins_asked = None;
            return Ok(());
        };
        let state = state.into_iter().flatten().next().flatten();
        if state != self.logins {
            if let Some(rows) = ask(logins::QUESTION).await? {
                backend.logins().learn(&rows);
            }
            self.logins = state;
        }
        backend.logins().asked();
        Ok(())
    }

    async fn ask(&mut self, backend: &Backend, limit: Duration) -> Result<Facts, PollError> {
        let limits = AskLimits { bytes: ANSWER_BYTES_MAX, time: limit };
        let begun = Instant::now();
        let rows = self.talk.ask(&self.question, &[], limits).await?;
        backend.note_round_trip(begun.elapsed());
        if self.logins_asked.is_some_and(|asked| asked.elapsed() >= logins::PAUSE) {
            self.ask_logins(backend, limit).await?;
        }
        if self.expiring_asked.elapsed() >= expiring::PAUSE {
            self.ask_expiring(backend, limit).await?;
        }
        Ok(Facts::read(&rows, self.cluster)?)
    }
}
