//! What a query runs with: its database, its moment, its limits, and who may end it.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

use super::registry::Registry;
use crate::notices::Notices;
use crate::refusal::QueryError;

/// What one query may use; 0 is without a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Limits {
    /// How long a query may run before it is broken off with `timeout`.
    pub timeout: Duration,
    /// How much memory one query may take for what it has read and not yet answered.
    pub memory: Size,
    /// How many queries may run at once; more are refused.
    pub max_concurrent_queries: u64,
    /// How many points one `SELECT` may read.
    pub max_select_point: u64,
    /// How many series one `SELECT` may read.
    pub max_select_series: u64,
    /// How many windows of `GROUP BY time()` one `SELECT` may make.
    pub max_select_buckets: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(0),
            memory: Size::from_mib(512),
            max_concurrent_queries: 0,
            max_select_point: 0,
            max_select_series: 0,
            max_select_buckets: 0,
        }
    }
}

/// Where the points of `SELECT ... INTO` go.
pub trait Target: Send + Sync {
    /// Takes points as line protocol, each with its time in nanoseconds, for a database and a
    /// policy (empty is the default one); returns once they are acknowledged.
    ///
    /// # Errors
    /// What a write of these lines would have been answered, in InfluxDB's words.
    fn write(&self, db: &str, rp: &str, lines: Vec<u8>) -> Result<(), String>;
}

/// Whether the reader of an answer keeps up with its query.
pub trait FlowControl: Send + Sync {
    /// Whether the query may go on and make more of its answer.
    fn may_send(&self) -> bool;
}

/// Whether a database may be seen by whoever asks.
pub type Visible = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What a statement is executed with. Cheap to clone; a clone is the same query.
#[derive(Clone)]
pub struct Context {
    /// The database of the request; empty where none is named.
    pub db: String,
    /// The retention policy of the request; empty is the database's default.
    pub rp: String,
    /// What `now()` is, nanoseconds since 1970: one moment for the whole query text.
    pub now_ns: i64,
    /// What the query may use.
    pub limits: Limits,
    /// Ends the query, and counts its memory and points.
    pub cancel: Cancel,
    /// Rows in one chunk; `None` is an answer in one piece.
    pub chunk_size: Option<usize>,
    /// The threads for the parts of a large query; `None` is only the calling thread.
    pub pool: Option<Arc<rayon::ThreadPool>>,
    /// Where `INTO` writes; `None` refuses it.
    pub into: Option<Arc<dyn Target>>,
    /// Whether the request is a `GET`, by which nothing should be changed.
    pub get: bool,
    /// The running queries; `None` shows none and kills none.
    pub registry: Option<Arc<Registry>>,
    /// Which databases `SHOW DATABASES` lists; `None` is all.
    pub visible: Option<Visible>,
    /// What is missing from the answer, since files are damaged.
    pub notices: Notices,
    /// Holds the query up while its answer is not read; `None` never does.
    pub flow: Option<Arc<dyn FlowControl>>,
}

impl Context {
    /// A query of a database with the default limits, alone on its thread.
    pub fn new(db: &str, now_ns: i64) -> Self {
        let limits = Limits::default();
        Self {
            db: db.to_owned(),
            rp: String::new(),
            now_ns,
            cancel: Cancel::new(&limits),
            limits,
            chunk_size: None,
            pool: None,
            into: None,
            get: false,
            registry: None,
            visible: None,
            notices: Notices::default(),
            flow: None,
        }
    }

    /// Whether the query may go on; to be asked once for each chunk, not for each point.
    ///
    /// # Errors
    /// When it was killed, its client has gone, or its time is over.
    pub fn check(&self) -> Result<(), QueryError> {
        self.cancel.check()
    }

    /// Waits until more of the answer may be made, or the query is to end; to be awaited after each
    /// piece. It wakes nobody: who drives the query knows when the answer is read, and polls again.
    pub async fn room(&self) {
        let Some(flow) = &self.flow else { return };
        poll_fn(|_| match flow.may_send() || self.check().is_err() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("db", &self.db)
            .field("rp", &self.rp)
            .finish_non_exhaustive()
    }
}

/// The means to end a query, and the account of what it uses. Clones are the same query.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<State>);

/// Memory that a query has taken, given back when this goes.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) cancel: Cancel,
    pub(crate) bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.cancel.release(self.bytes);
    }
}

#[derive(Debug)]
struct State {
    ended: AtomicBool,
    parked: AtomicBool,
    deadline: Option<Instant>,
    memory_max: u64,
    memory: AtomicU64,
    points_max: u64,
    points: AtomicU64,
}

impl Cancel {
    /// For a query that starts now.
    pub fn new(limits: &Limits) -> Self {
        let timeout = limits.timeout.get();
        let deadline = if timeout.is_zero() { None } else { Instant::now().checked_add(timeout) };
        Self(Arc::new(State {
            ended: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            deadline,
            memory_max: limits.memory.bytes(),
            memory: AtomicU64::new(0),
            points_max: limits.max_select_point,
            points: AtomicU64::new(0),
        }))
    }

    /// Ends the query as soon as it asks.
    pub fn end(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::end`] was called.
    pub fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// Notes whether the query waits for its client to read on.
    pub fn set_parked(&self, parked: bool) {
        self.0.parked.store(parked, Ordering::Relaxed);
    }

    /// Whether the query waits for its client to read on.
    pub fn is_parked(&self) -> bool {
        self.0.parked.load(Ordering::Relaxed)
    }

    /// Whether the query may go on.
    ///
    /// # Errors
    /// When it was ended or its time is over.
    pub fn check(&self) -> Result<(), QueryError> {
        if self.is_ended() {
            return Err(QueryError("query interrupted".to_owned()));
        }
        if self.0.deadline.is_some_and(|end| Instant::now() >= end) {
            return Err(QueryError("query-timeout limit exceeded".to_owned()));
        }
        Ok(())
    }

    /// Takes memory for something that will be held; given back by [`Cancel::release`].
    ///
    /// # Errors
    /// When the query has too much already; nothing is taken then.
    pub fn reserve(&self, bytes: usize) -> Result<(), QueryError> {
        let bytes = bytes as u64;
        let held = self.0.memory.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let max = self.0.memory_max;
        if max > 0 && held > max {
            self.0.memory.fetch_sub(bytes, Ordering::Relaxed);
            let text = format!("query memory limit exceeded: ({held}/{max} bytes)");
            return Err(QueryError(text));
        }
        Ok(())
    }

    /// Counts memory that the limit does not refuse; given back by [`Cancel::release`].
    pub fn count(&self, bytes: usize) {
        self.0.memory.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that the query holds of what it has read and not answered.
    pub fn memory(&self) -> u64 {
        self.0.memory.load(Ordering::Relaxed)
    }

    /// Gives back memory that was reserved or counted.
    pub fn release(&self, bytes: usize) {
        let less = |held: u64| Some(held.saturating_sub(bytes as u64));
        let _ = self.0.memory.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Counts points that were read.
    ///
    /// # Errors
    /// When they are more than `max-select-point`.
    pub fn points(&self, count: usize) -> Result<(), QueryError> {
        let max = self.0.points_max;
        if max == 0 {
            return Ok(());
        }
        let read = self.0.points.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if read > max {
            // The misspelling is InfluxDB's.
            return Err(QueryError(format!("max-select-point limit exceeed: ({read}/{max})")));
        }
        Ok(())
    }

    /// A new `SELECT` begins: points are counted for each.
    pub fn next_select(&self) {
        self.0.points.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_ends_when_it_is_told_to_or_its_time_is_over() {
        let context = Context::new("db", 0);
        assert_eq!(context.check(), Ok(()));
        context.clone().cancel.end();
        assert_eq!(context.check().unwrap_err().0, "query interrupted");

        let limits = Limits { timeout: Duration::from_millis(1), ..Limits::default() };
        let cancel = Cancel::new(&limits);
        while cancel.check().is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(cancel.check().unwrap_err().0, "query-timeout limit exceeded");
    }

    #[test]
    fn memory_is_given_back_and_refused_past_the_limit() {
        let limits = Limits { memory: Size::from_bytes(100), ..Limits::default() };
        let cancel = Cancel::new(&limits);
        assert_eq!(cancel.reserve(60), Ok(()));
        assert!(cancel.reserve(60).is_err());
        cancel.release(60);
        assert_eq!(cancel.reserve(100), Ok(()));
    }

    #[test]
    fn points_are_counted_for_each_select() {
        let cancel = Cancel::new(&Limits { max_select_point: 3, ..Limits::default() });
        assert_eq!(cancel.points(3), Ok(()));
        let text = cancel.points(1).unwrap_err().0;
        assert_eq!(text, "max-select-point limit exceeed: (4/3)");
        cancel.next_select();
        assert_eq!(cancel.points(3), Ok(()));
    }
}
