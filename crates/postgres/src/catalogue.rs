//! The catalogue's facts of one database, by which reads are proven: loaded away from the workers,
//! shared by all of them, and given up at once when a statement changes what they rest on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Transactions under way that change what facts rest on.
    unsettled: AtomicU64,
    /// Held while facts are put in place, so that none come after what makes them wrong.
    publishing: Mutex<()>,
    wanted: Notify,
}

/// While it lives there are no facts: a transaction that changes the catalogue is under way, and
/// what is loaded before its end is wrong after it.
#[derive(Debug)]
pub struct Unsettled(Arc<Catalogue>);

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.0.unsettled.fetch_sub(1, Ordering::AcqRel);
        self.0.changed(Unsettles::Changes);
    }
}

impl Catalogue {
    /// No facts yet: nothing is proven but what names nothing.
    pub fn new(database: &str) -> Arc<Self> {
        Arc::new(Self {
            database: database.into(),
            facts: ArcSwap::from_pointee(Facts::none()),
            generation: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            publishing: Mutex::new(()),
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
                let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
                self.set(Facts::none());
            }
        }
        self.wanted.notify_one();
    }

    /// A statement that changes what facts rest on is about to be sent.
    pub fn unsettle(self: &Arc<Self>) -> Unsettled {
        self.unsettled.fetch_add(1, Ordering::AcqRel);
        self.changed(Unsettles::Changes);
        Unsettled(Arc::clone(self))
    }

    fn is_settled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) == 0
    }

    /// Puts in place what was loaded since `generation`; false if it may be wrong by now.
    fn publish(&self, facts: Facts, generation: u64) -> bool {
        let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = self.is_settled() && self.generation() == generation;
        if holds {
            self.set(facts);
        }
        holds
    }

    fn set(&self, facts: Facts) {
        self.facts.store(Arc::new(facts));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Keeps the facts true until nobody else holds the catalogue.
    pub async fn run(self: Arc<Self>, backends: Arc<Backends>) {
        let mut state = None;
        loop {
            if Arc::strong_count(&self) == 1 {
                return;
            }
            let generation = self.generation();
            let wait = match self.fresh(&backends, &mut state).await {
                _ if !self.is_settled() => REFRESH,
                Ok(None) => REFRESH,
                Ok(Some(facts)) => match self.publish(facts, generation) {
                    true => REFRESH,
                    // What changed while they were loaded may not be in them.
                    false => SETTLE,
                },
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

    /// Facts, unless those that are there still hold or none may be there. `state` is that of the
    /// catalogue when facts were loaded last.
    async fn fresh(
        &self,
        backends: &Backends,
        state: &mut Option<String>,
    ) -> Result<Option<Facts>, String> {
        if !self.is_settled() {
            return Ok(None);
        }
        let ask = async |sql| backends.rows(&self.database, sql).await.map_err(|e| e.to_string());
        // Before the facts: what changes between the two is seen the next time.
        let now = ask(Facts::state_query()).await?.into_iter().flatten().next().flatten();
        if now.is_some() && now == *state && self.facts.load().are_loaded() {
            return Ok(None);
        }
        let facts = Facts::of_rows(&ask(Facts::query()).await?).map_err(|e| e.to_string())?;
        *state = now;
        Ok(Some(facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_loaded_before_a_transaction_ends_are_not_used_after_it() {
        let loaded = || Facts::load([[&b"end"[..], b"", b""]]).unwrap();
        let catalogue = Catalogue::new("x");
        assert!(catalogue.publish(loaded(), catalogue.generation()));
        let before = catalogue.generation();
        let transaction = catalogue.unsettle();
        let other = catalogue.unsettle();
        assert!(!catalogue.facts().1.are_loaded());
        assert!(!catalogue.publish(loaded(), before));
        assert!(!catalogue.publish(loaded(), catalogue.generation()), "one is under way");
        drop(transaction);
        assert!(!catalogue.publish(loaded(), catalogue.generation()), "another one is");
        let within = catalogue.generation();
        drop(other);
        assert!(!catalogue.publish(loaded(), within), "loaded before the end");
        assert!(catalogue.publish(loaded(), catalogue.generation()));
        assert!(catalogue.facts().1.are_loaded());
    }
}
