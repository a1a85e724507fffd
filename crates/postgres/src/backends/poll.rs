//! Asking one backend what it is, again and again, over a connection of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use wire::postgres::sqlstate;

use super::facts::{ClusterFacts, Facts, IDENTITY, PARAMETERS, check_version, question};
use super::picture::Noted;
use super::{Backend, Moment, Shared};
use crate::server::{AskLimits, Conversation, DialError, QueryError, Socket, dial};

/// Bytes of an answer; it is one row of six values.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// After a poll nothing is asked for so long, whatever happens.
const REST: Duration = Duration::from_millis(20);

/// What came of a poll.
#[derive(Debug)]
pub(super) struct Report {
    /// Which backend.
    pub(super) number: usize,
    /// From before it was asked.
    pub(super) at: Moment,
    /// What it said.
    pub(super) noted: Noted,
    /// What went wrong.
    pub(super) failure: Option<String>,
}

/// A connection to a backend, and what does not change while it lasts.
struct Link {
    talk: Conversation<Socket>,
    cluster: ClusterFacts,
    question: String,
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
    /// Whether the server runs and has no room for one more connection.
    fn is_busy(&self) -> bool {
        let Self::Dial(error) = self else { return false };
        error.server_error().is_some_and(|error| error.code == sqlstate::TOO_MANY_CONNECTIONS)
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

/// Polls `backend` until nobody hears its reports any more.
pub(super) async fn run(backend: Arc<Backend>, shared: Arc<Shared>, reports: mpsc::Sender<Report>) {
    let mut link = None;
    loop {
        let pace = *shared.pace.load_full();
        let (at, asked) = poll(&backend, &mut link, pace.timeout).await;
        let number = backend.number();
        let report = match asked {
            Ok(facts) => Report { number, at, noted: Noted::Up(facts), failure: None },
            Err(error) => {
                let noted = if error.is_busy() { Noted::Busy } else { Noted::Down };
                Report { number, at, noted, failure: Some(error.to_string()) }
            }
        };
        if reports.send(report).await.is_err() {
            return;
        }
        sleep(REST).await;
        tokio::select! {
            () = sleep(pace.interval.saturating_sub(REST)) => {}
            () = backend.poke.notified() => {}
            () = closing(link.as_ref()) => {}
        }
    }
}

/// Ends when the server has something to say unasked, which is mostly that it ends.
async fn closing(link: Option<&Link>) {
    match link {
        Some(link) => drop(link.talk.get_ref().readable().await),
        None => std::future::pending().await,
    }
}

/// One answer, over a new connection where there is none or it has ended, and a time from before
/// it was asked for.
async fn poll(
    backend: &Backend,
    link: &mut Option<Link>,
    limit: Duration,
) -> (Moment, Result<Facts, PollError>) {
    if let Some(mut open) = link.take() {
        let at = Moment::now();
        match open.ask(backend, limit).await {
            Err(error) if error.is_of_connection() => {}
            asked => {
                if asked.is_ok() {
                    *link = Some(open);
                }
                return (at, asked);
            }
        }
    }
    let at = Moment::now();
    let mut open = match timeout(limit, Link::open(backend, limit)).await {
        Ok(Ok(open)) => open,
        Ok(Err(error)) => return (at, Err(error)),
        Err(_) => {
            let address = backend.server().address.to_string();
            return (at, Err(DialError::TimedOut { address, limit }.into()));
        }
    };
    let at = Moment::now();
    let asked = open.ask(backend, limit).await;
    if asked.is_ok() {
        *link = Some(open);
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
        Ok(Self { talk, cluster: cluster.unwrap_or_default(), question })
    }

    async fn ask(&mut self, backend: &Backend, limit: Duration) -> Result<Facts, PollError> {
        let limits = AskLimits { bytes: ANSWER_BYTES_MAX, time: limit };
        let begun = Instant::now();
        let rows = self.talk.ask(&self.question, &[], limits).await?;
        backend.note_round_trip(begun.elapsed());
        Ok(Facts::read(&rows, self.cluster)?)
    }
}
