//! The catalogue's facts of one database, by which reads are proven: loaded away from the workers,
//! shared by all of them, and given up at once when a statement changes what they rest on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backends::{Backends, ClientLogin, OwnError};
use crate::plan::{Facts, Unsettles};
use crate::server::Rows;

/// Facts are loaded anew so often, for what changes without a statement that Weir sees.
const REFRESH: Duration = Duration::from_secs(30);
/// After a change so long, so that a migration of many statements is one load.
const SETTLE: Duration = Duration::from_millis(200);
/// So often at most it is looked whether statements that may do so have changed something.
const LOOK: Duration = Duration::from_secs(1);
/// After a load failed; twice as long after each further one, up to `REFRESH`.
const RETRY: Duration = Duration::from_secs(2);

/// A number that no catalogue has had: a statement's plan is remembered under it, whatever the
/// database.
fn next_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::AcqRel)
}

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
    wanted: Arc<Notify>,
    /// When it was looked last whether something has changed behind a statement that called it.
    looked: Mutex<Option<Instant>>,
    /// A loader was given out.
    loading: AtomicBool,
    /// Of a client that a server has let into the database, where Weir's own user may not be.
    login: Mutex<Option<ClientLogin>>,
}

impl Drop for Catalogue {
    /// The loader has nothing more to do.
    fn drop(&mut self) {
        self.wanted.notify_one();
    }
}

/// What keeps a catalogue's facts true until nobody has it any more.
#[derive(Debug)]
pub struct Loader {
    catalogue: Weak<Catalogue>,
    wanted: Arc<Notify>,
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
            generation: AtomicU64::new(next_generation()),
            changes: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            publishing: Mutex::new(()),
            wanted: Arc::new(Notify::new()),
            looked: Mutex::default(),
            loading: AtomicBool::new(false),
            login: Mutex::default(),
        })
    }

    /// Changes with the facts.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// How often what was there before has changed, by a statement or as the facts show.
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
            Unsettles::Changes | Unsettles::Code => {
                self.changes.fetch_add(1, Ordering::AcqRel);
                let _publishing = self.publishing.lock();
                let forgotten = self.facts.load().forgotten(how);
                self.set(forgotten);
            }
        }
        self.wanted.notify_one();
    }

    /// A statement was run that may have changed the catalogue by what it calls: it is looked
    /// whether it has, if that was not done just now.
    pub fn may_have_changed(&self) {
        let mut looked = self.looked.lock();
        if looked.is_none_or(|at| at.elapsed() > LOOK) {
            *looked = Some(Instant::now());
            self.wanted.notify_one();
        }
    }

    /// A statement that changes what facts rest on is about to be sent.
    pub fn unsettle(self: &Arc<Self>) -> Unsettled {
        self.unsettled.fetch_add(1, Ordering::AcqRel);
        self.changed(Unsettles::Changes);
        Unsettled(Arc::clone(self))
    }

    /// A server has let a client into the database.
    pub fn has_logged_in(&self, login: ClientLogin) {
        let mut known = self.login.lock();
        if known.is_none() {
            *known = Some(login);
            if !self.facts.load().are_loaded() {
                self.wanted.notify_one();
            }
        }
    }

    /// Asks as Weir's own user; as a client's, where the own one is not let into the database.
    async fn ask(&self, backends: &Backends, sql: &str) -> Result<Rows, OwnError> {
        let error = match backends.rows(&self.database, None, sql).await {
            Err(error) if error.is_of_this_login() => error,
            asked => return asked,
        };
        let login = self.login.lock().clone();
        let Some(login) = login else { return Err(error) };
        let asked = backends.rows(&self.database, Some(&login), sql).await;
        if asked.as_ref().is_err_and(OwnError::is_of_this_login) {
            // Another's may do.
            *self.login.lock() = None;
        }
        asked
    }

    fn is_settled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) == 0
    }

    /// Puts in place what was loaded since `generation`; false if it may be wrong by now.
    fn publish(&self, facts: Facts, generation: u64) -> bool {
        let _publishing = self.publishing.lock();
        let holds = self.is_settled() && self.generation() == generation;
        if holds {
            // What has changed may be what prepared statements take their parameters for.
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.set(facts);
        }
        holds
    }

    fn set(&self, facts: Facts) {
        self.facts.store(Arc::new(facts));
        self.generation.store(next_generation(), Ordering::Release);
    }

    /// What loads the facts; `None` when it was given out before.
    pub fn loader(self: &Arc<Self>) -> Option<Loader> {
        let first = !self.loading.swap(true, Ordering::AcqRel);
        first.then(|| Loader { catalogue: Arc::downgrade(self), wanted: self.wanted.clone() })
    }

    /// Loads once; when to look again, or why nothing could be loaded.
    async fn load(
        &self,
        backends: &Backends,
        state: &mut Option<String>,
    ) -> Result<Duration, String> {
        let generation = self.generation();
        let fresh = self.fresh(backends, state).await;
        if !self.is_settled() {
            return Ok(REFRESH);
        }
        let holds = fresh?.is_none_or(|facts| self.publish(facts, generation));
        // What changed while they were loaded may not be in them.
        Ok(if holds { REFRESH } else { SETTLE })
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
        let ask = async |sql| self.ask(backends, sql).await.map_err(|error| error.to_string());
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

impl Loader {
    /// Loads the facts, again and again, until nobody has the catalogue.
    pub async fn run(self, backends: Arc<Backends>) {
        let mut state = None;
        let mut failures = 0;
        while let Some(catalogue) = self.catalogue.upgrade() {
            let wait = match catalogue.load(&backends, &mut state).await {
                Ok(wait) => {
                    failures = 0;
                    wait
                }
                Err(error) => {
                    // Once: it is the same until it is over.
                    if failures == 0 {
                        warn(&catalogue.database, &error);
                    }
                    failures += 1;
                    pause(failures)
                }
            };
            drop(catalogue);
            let settle = SETTLE.max(pause(failures));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.wanted.notified() => tokio::time::sleep(settle).await,
            }
        }
    }
}

/// How long until the next attempt after so many have failed.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(before) => RETRY.saturating_mul(1 << before.min(8)).min(REFRESH),
    }
}

fn warn(database: &str, error: &str) {
    tracing::warn!(
        database,
        error,
        "what functions and tables there are is not known, so nothing is proven to be a read: all \
         statements go to the primary, one server connection each, which is closed behind it"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_is_loaded_by_one_for_as_long_as_anybody_has_it() {
        let catalogue = Catalogue::new("x");
        let loader = catalogue.loader().unwrap();
        assert!(catalogue.loader().is_none());
        assert!(loader.catalogue.upgrade().is_some());
        drop(catalogue);
        assert!(loader.catalogue.upgrade().is_none(), "the loader keeps it");
    }

    #[test]
    fn attempts_that_fail_come_to_be_rare() {
        let pauses: Vec<u64> = [0, 1, 2, 4, 5, 99].map(|n| pause(n).as_secs()).into();
        assert_eq!(pauses, [0, 2, 4, 16, 30, 30]);
    }

    #[test]
    fn what_was_prepared_before_other_facts_is_prepared_anew() {
        let catalogue = Catalogue::new("x");
        let before = catalogue.changes();
        let loaded = Facts::load([[&b"end"[..], b"", b""]]).unwrap();
        assert!(catalogue.publish(loaded, catalogue.generation()));
        assert!(catalogue.changes() > before);
    }

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
