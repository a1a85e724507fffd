//! What queries of the embedded store share: threads, limits, and the list of those that run.

use std::sync::Arc;

use store::Settings;
use store::query::context::{Cancel, Context, Limits};
use store::query::registry::Registry;

use super::turns::Turns;

/// Queries that are worked on at once, for each thread; others wait for their turn. A query whose
/// client does not read has neither a turn nor a thread.
const QUERIES_PER_THREAD: usize = 4;

/// The means of queries.
#[derive(Debug)]
pub struct Queries {
    pool: Option<Arc<rayon::ThreadPool>>,
    /// Turns of queries; taken while they are worked on.
    pub turns: Arc<Turns>,
    limits: Limits,
    registry: Arc<Registry>,
}

impl Queries {
    /// The means that the settings allow.
    pub fn new(settings: &Settings) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if settings.query_threads == 0 { cores() } else { settings.query_threads };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("weir-query-{index}"))
            .build();
        if let Err(error) = &pool {
            tracing::warn!(%error, "no threads for large queries; each runs on one");
        }
        Self {
            pool: pool.ok().map(Arc::new),
            turns: Turns::new(threads * QUERIES_PER_THREAD),
            limits: Limits {
                timeout: settings.query_timeout,
                memory: settings.query_memory,
                max_select_point: settings.query_max_points,
                max_select_series: settings.query_max_series,
                ..Limits::default()
            },
            registry: Arc::default(),
        }
    }

    /// How many run, and wait for their turn.
    pub fn active(&self) -> usize {
        self.registry.running().len()
    }

    /// A query of a database and a policy at this moment; its time begins to run.
    pub fn context(&self, db: &str, rp: &str, now_ns: i64) -> Context {
        self.context_within(self.limits.clone(), db, rp, now_ns)
    }

    /// The same within other limits.
    pub fn context_within(&self, limits: Limits, db: &str, rp: &str, now_ns: i64) -> Context {
        let mut context = Context::new(db, now_ns);
        context.rp = rp.to_owned();
        context.cancel = Cancel::new(&limits);
        context.limits = limits;
        context.pool = self.pool.clone();
        context.registry = Some(Arc::clone(&self.registry));
        context
    }
}
