//! The catalogue's facts of one database, by which reads are proven: loaded away from the workers,
//! shared by all of them, and given up at once when a statement changes what they rest on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use crate::backends::Backends;
use crate::plan::{Facts, Unsettles};

/// Facts are loaded anew so often, for what changes without a statement that Weir sees.
const REFRESH: Duration = Duration::from_secs(30);
/// After a change so long, so that a migration of many statements is one load.
const SETTLE: Duration = Duration::from_millis(200);
/// After a load failed.
const RETRY: Duration = Duration::from_secs(2);

/// The facts of one database.
#[derive(Debug)]
pub struct Catalogue {
    /// Its name on the servers.
    database: Arc<str>,
    facts: ArcSwap<Facts>,
    generation: AtomicU64,
    changes: AtomicU64,
    wanted: Notify,
}

impl Catalogue {
    /// No facts yet: nothing is proven but what names nothing.
    pub fn new(database: &str) -> Arc<Self> {
        Arc::new(Self {
            database: database.into(),
            facts: ArcSwap::from_pointee(Facts::none()),
            generation: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            wanted: Notify::new(),
        })
    }

    /// Changes with the facts.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// How often a statement has changed what was there before.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The facts, and their generation.
    pub fn facts(&self) -> (u64, Arc<Facts>) {
        // In this order: facts newer than their number are loaded again, older ones never kept.
        let generation = self.generation();
        (generation, self.facts.load_full())
    }

    /// A statement has changed the catalogue.
    pub fn changed(&self, how: Unsettles) {
        match how {
            Unsettles::Nothing => return,
            Unsettles::Adds => {}
            Unsettles::Changes => {
                self.changes.fetch_add(1, Ordering::AcqRel);
                self.set(Facts::none());
            }
        }
        self.wanted.notify_one();
    }

    fn set(&self, facts: Facts) {
        self.facts.store(Arc::new(facts));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Keeps the facts true until nobody else holds the catalogue.
    pub async fn run(self: Arc<Self>, backends: Arc<Backends>) {
        loop {
            if Arc::strong_count(&self) == 1 {
                return;
            }
            let changes = self.generation();
            let wait = match load(&backends, &self.database).await {
                // What changed while they were loaded may not be in them.
                Ok(facts) if self.generation() == changes => {
                    self.set(facts);
                    REFRESH
                }
                Ok(_) => SETTLE,
                Err(error) => {
                    tracing::warn!(
                        database = &*self.database,
                        %error,
                        "what functions and tables there are is not known, so nothing is proven to \
                         be a read: all statements go to the primary, one server connection each"
                    );
                    RETRY
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.wanted.notified() => tokio::time::sleep(SETTLE).await,
            }
        }
    }
}

async fn load(backends: &Backends, database: &str) -> Result<Facts, String> {
    let rows = backends.rows(database, Facts::query()).await.map_err(|e| e.to_string())?;
    Facts::of_rows(&rows).map_err(|error| error.to_string())
}
