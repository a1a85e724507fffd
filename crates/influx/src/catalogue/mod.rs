//! Which databases and retention policies there are: the union of what the backends list.
//!
//! A statement takes effect here when the journal has it, not when the slowest backend has run it.
//! So each backend's listing is seen through the statements that it has still to run; a database
//! that was dropped stays dropped though a lagging backend lists it yet, and a new one is known at
//! once.

mod ask;
mod file;
mod listing;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use journal::Position;
use wire::influxql::Change;

pub use self::ask::list_databases;
pub use self::file::CatalogueError;
pub use self::listing::{Listing, Policies, Policy};
use crate::client::Client;

/// How often all backends are asked.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// An unknown name is asked for afresh at most this often.
const FRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client's request waits for a fresh listing: a hung backend must not hang it.
const FRESH_TIMEOUT: Duration = Duration::from_secs(1);
/// Statements that not every backend has run; older ones take effect with the next listing.
const PENDING_MAX: usize = 10_000;

/// What is known about the database and policy of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Points may be written under this policy; empty where the default is not known.
    Policy(Arc<str>),
    /// No backend has the database.
    NoDatabase,
    /// No backend has the retention policy in the database.
    NoPolicy,
}

/// A database's policies, ready to be handed out.
#[derive(Debug)]
struct Names {
    default: Arc<str>,
    policies: HashMap<String, Arc<str>>,
}

/// The catalogue at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Whether any backend has ever been asked with success; until then every name is accepted.
    known: bool,
    union: Listing,
    names: HashMap<String, Names>,
}

impl Snapshot {
    /// Whether names are known at all; if not, every name is accepted.
    #[cfg(test)]
    pub fn known(&self) -> bool {
        self.known
    }

    /// The policy for a write to `db`, where `rp` empty means the default. Does not allocate when
    /// the names are known.
    pub fn lookup(&self, db: &str, rp: &str) -> Lookup {
        if !self.known {
            return Lookup::Policy(rp.into());
        }
        match self.names.get(db) {
            None => Lookup::NoDatabase,
            Some(names) if rp.is_empty() => Lookup::Policy(Arc::clone(&names.default)),
            // Only a database that has just been created has none that are known.
            Some(names) if names.policies.is_empty() => Lookup::Policy(rp.into()),
            Some(names) => match names.policies.get(rp) {
                Some(name) => Lookup::Policy(Arc::clone(name)),
                None => Lookup::NoPolicy,
            },
        }
    }

    /// The names of all databases.
    #[cfg(test)]
    pub fn databases(&self) -> impl Iterator<Item = &str> {
        self.union.databases.keys().map(String::as_str)
    }

    /// The statements that make `db` and `rp` on a backend that lacks them.
    pub fn creation(&self, db: &str, rp: &str) -> Vec<String> {
        self.union.creation(db, rp)
    }
}

/// A backend that can be asked.
#[derive(Debug)]
struct ListingSource {
    name: String,
    client: Arc<Client>,
}

/// What a backend listed, and how far it was with the journal's statements.
#[derive(Debug, Clone, Default)]
struct View {
    listing: Option<Listing>,
    executed: Position,
}

#[derive(Debug, Default)]
struct Inner {
    views: BTreeMap<String, View>,
    /// Statements that some backend has still to run, in the journal's order.
    pending: Vec<(Position, Change)>,
}

/// The catalogue: clones of its `Arc` are shared by the front end and every delivery.
#[derive(Debug)]
pub struct Catalogue {
    snapshot: ArcSwap<Snapshot>,
    inner: Mutex<Inner>,
    /// The backends that are asked.
    asked: Mutex<Vec<Arc<ListingSource>>>,
    /// What backends listed before the start.
    kept: Mutex<BTreeMap<String, Listing>>,
    path: PathBuf,
    /// When all backends were last asked; the lock is held while they are.
    refreshed: tokio::sync::Mutex<Option<Instant>>,
    /// What was last written to `path`.
    written: Mutex<String>,
}

impl Catalogue {
    /// Opens the catalogue kept in `dir`, which asks nobody yet.
    ///
    /// # Errors
    /// When the file is there and cannot be read. One that is damaged counts as absent.
    pub fn open(dir: &Path) -> Result<Self, CatalogueError> {
        let path = dir.join("catalogue.json");
        let kept = file::read(&path)?;
        Ok(Self {
            snapshot: ArcSwap::default(),
            inner: Mutex::default(),
            asked: Mutex::default(),
            kept: Mutex::new(kept),
            path,
            refreshed: tokio::sync::Mutex::new(None),
            written: Mutex::new(String::new()),
        })
    }

    /// Asks a backend by `client` from now on. Until it answers, it has what it was last known to
    /// have.
    pub fn ask(&self, backend: &str, client: Arc<Client>) {
        let source = Arc::new(ListingSource { name: backend.to_owned(), client });
        let mut asked = self.asked();
        asked.retain(|source| source.name != backend);
        asked.push(source);
        drop(asked);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(backend);
        let mut inner = self.lock();
        let new = View { listing: kept, executed: Position::ZERO };
        inner.views.entry(backend.to_owned()).or_insert(new);
        self.publish(&inner);
    }

    /// Forgets a backend, and what only that one had.
    pub fn remove(&self, backend: &str) {
        self.asked().retain(|source| source.name != backend);
        let mut inner = self.lock();
        inner.views.remove(backend);
        inner.forget_executed();
        self.publish(&inner);
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Arc<ListingSource>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in what is known by a listing of the caller's own, see
    /// [`listed`](Self::listed), instead of being asked.
    pub fn add(&self, backend: &str, listing: Listing) {
        let mut inner = self.lock();
        let view = View { listing: Some(listing), executed: Position::ZERO };
        inner.views.insert(backend.to_owned(), view);
        self.publish(&inner);
    }

    /// The catalogue as it is now; cheap, and without a lock.
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// Looks the names up in the catalogue as it is now; see [`Snapshot::lookup`].
    pub fn lookup(&self, db: &str, rp: &str) -> Lookup {
        self.snapshot().lookup(db, rp)
    }

    /// The policy for a write, after asking the backends afresh if the name is not known.
    pub async fn resolve(&self, db: &str, rp: &str) -> Lookup {
        let known = self.lookup(db, rp);
        if matches!(known, Lookup::Policy(_)) {
            return known;
        }
        self.refresh().await;
        self.lookup(db, rp)
    }

    /// Asks all backends afresh; at most once a second, whoever calls. A call while others are
    /// being answered waits for the same answers.
    pub async fn refresh(&self) {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_none_or(|at| at.elapsed() >= FRESH_INTERVAL) {
            self.refresh_all(FRESH_TIMEOUT).await;
            *refreshed = Some(Instant::now());
        }
    }

    /// Whether every backend has listed this database.
    pub fn all_have(&self, db: &str) -> bool {
        let inner = self.lock();
        let has = |view: &View| {
            view.listing.as_ref().is_some_and(|listing| listing.databases.contains_key(db))
        };
        !inner.views.is_empty() && inner.views.values().all(has)
    }

    /// Takes a statement into account that the journal has at `position`.
    pub fn apply(&self, position: Position, change: &Change) {
        let mut inner = self.lock();
        inner.apply(position, change);
        self.publish(&inner);
    }

    /// Notes that a backend has run every statement up to and with the one at `position`.
    pub fn executed(&self, backend: &str, position: Position) {
        let mut inner = self.lock();
        inner.executed(backend, position);
        self.publish(&inner);
    }

    /// Takes a backend's listing, unless it ran a statement since `executed`, when it was asked.
    pub(crate) fn listed(&self, backend: &str, executed: Position, listing: Listing) -> bool {
        let mut inner = self.lock();
        let Some(view) = inner.views.get_mut(backend) else { return false };
        if view.executed != executed {
            return false;
        }
        if view.listing.as_ref() != Some(&listing) {
            view.listing = Some(listing);
            self.publish(&inner);
        }
        true
    }

    fn publish(&self, inner: &Inner) {
        self.snapshot.store(Arc::new(inner.snapshot()));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No one panics while holding it, and what it guards is whole at any time.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// A backend is told of a statement as soon as the journal has it, so it may have run it before
    /// it comes here.
    fn apply(&mut self, position: Position, change: &Change) {
        let at = self.pending.partition_point(|(before, _)| *before < position);
        self.pending.insert(at, (position, change.clone()));
        if self.pending.len() > PENDING_MAX {
            self.pending.remove(0);
        }
        for view in self.views.values_mut().filter(|view| view.executed >= position) {
            if let Some(listing) = &mut view.listing {
                listing.apply(change);
            }
        }
        self.forget_executed();
    }

    fn executed(&mut self, backend: &str, position: Position) {
        if let Some(view) = self.views.get_mut(backend) {
            if let Some(listing) = &mut view.listing {
                let run = |(at, _): &&(Position, Change)| *at > view.executed && *at <= position;
                for (_, change) in self.pending.iter().filter(run) {
                    listing.apply(change);
                }
            }
            view.executed = view.executed.max(position);
        }
        self.forget_executed();
    }

    /// Forgets the statements that every backend has run.
    fn forget_executed(&mut self) {
        let everyone = self.views.values().map(|view| view.executed).min();
        self.pending.retain(|(at, _)| everyone.is_some_and(|everyone| *at > everyone));
    }

    /// What a backend will list once it has run what the journal holds.
    fn seen(&self, view: &View) -> Option<Listing> {
        let mut seen = view.listing.clone()?;
        for (_, change) in self.pending.iter().filter(|(at, _)| *at > view.executed) {
            seen.apply(change);
        }
        Some(seen)
    }

    fn snapshot(&self) -> Snapshot {
        let mut union = Listing::default();
        let mut known = false;
        for view in self.views.values() {
            let Some(seen) = self.seen(view) else { continue };
            known = true;
            union.unite(&seen);
        }
        let names = union.databases.iter().map(|(db, known)| {
            let policies: HashMap<String, Arc<str>> =
                known.policies.keys().map(|name| (name.clone(), name.as_str().into())).collect();
            let default = policies.get(&known.default).cloned();
            let default = default.unwrap_or_else(|| known.default.as_str().into());
            (db.clone(), Names { default, policies })
        });
        let names = names.collect();
        Snapshot { known, union, names }
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
