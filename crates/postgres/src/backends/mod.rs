//! The servers behind the gateway: which is the primary, which replicas are new enough, and whom a
//! statement goes to.
//!
//! Nothing here sees a statement or a client, and no worker waits here for a server's answer. Who
//! is what is decided by pure functions ([`roles`], [`picture`], [`choose`]) over what each server
//! says of itself; in doubt nobody takes writes.
//!
//! The path: a task polls each server on the control runtime ([`poll`]), what it hears is decided
//! upon in one place ([`oversee`]), workers look at a [`View`] and at the atomics of a [`Backend`],
//! and wait by a generation where there is no primary.
//!
//! A client reads its own writes: it keeps when its last write ended ([`LastWrite`]), and a replica
//! takes its reads once it has replayed a position of the primary that was asked for later
//! ([`history`]).

mod backend;
mod choose;
mod expiring;
mod facts;
mod history;
mod logins;
mod moment;
mod oversee;
mod picture;
#[cfg(test)]
mod picture_tests;
mod poll;
mod position;
mod roles;
#[cfg(test)]
mod roles_tests;
mod status;
mod view;
#[cfg(test)]
mod view_tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use ::watch::metrics::Registry;
use arc_swap::{ArcSwap, Guard};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use backend::Backend;
use backend::Changed;
pub use expiring::ExpiringRole;
pub use facts::{Facts, FactsError};
pub use history::Lag;
pub use logins::{Login, Logins};
pub use moment::{LastWrite, Moment};
pub use position::{Position, PositionError};
pub use roles::{BackendState, NoPrimary};
pub use status::BackendStatus;
pub use view::{Ask, View};

use crate::auth::Credentials;
use crate::server::{AskLimits, Conversation, DialError, QueryError, Rows, dial};
use crate::settings::Settings;
use oversee::{Overseer, Plan, Published};

/// What Weir asks of its own may cost: the catalogue of a large database, at most.
const OWN_LIMITS: AskLimits = AskLimits { bytes: 64 << 20, time: Duration::from_secs(30) };

/// A backend can't be set up: a file of its settings can not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("postgres.backend {name:?}: {what}")]
pub struct StartError {
    name: String,
    what: String,
}

/// A question of Weir's own found no answer.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// No server is there to be asked.
    #[error(transparent)]
    NoPrimary(#[from] NoPrimary),
    /// None that could be connected to.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The server took the connection and did not answer its question.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl OwnError {
    /// Whether another user might be let in.
    pub fn is_of_this_login(&self) -> bool {
        matches!(self, Self::Dial(error) if error.is_of_this_login())
    }
}

/// What a client has logged in to a server with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLogin {
    /// The user's name on the server.
    pub user: Arc<str>,
    /// What it has proved itself by.
    pub credentials: Credentials,
}

/// How often servers are asked, and how long they may take.
#[derive(Debug, Clone, Copy)]
struct Pace {
    interval: Duration,
    timeout: Duration,
}

impl Pace {
    fn new(settings: &Settings) -> Self {
        Self { interval: settings.poll_interval.get(), timeout: settings.poll_timeout.get() }
    }
}

/// What the tasks and the workers share.
#[derive(Debug)]
struct BackendsState {
    overseer: Mutex<Overseer>,
    published: Published,
    pace: ArcSwap<Pace>,
    /// The latest write of any session: nanoseconds of a [`Moment`].
    last_write: AtomicU64,
}

impl BackendsState {
    fn last_write(&self) -> Moment {
        Moment::from_nanos(self.last_write.load(Ordering::Relaxed))
    }

    /// Takes in what came of a poll.
    fn hear(&self, report: poll::Report) {
        self.overseer.lock().hear(report, &self.published);
    }
}

/// All backends, shared by all parts of the gateway. Dropped, it is polled no more.
#[derive(Debug)]
pub struct Backends {
    shared: Arc<BackendsState>,
    control: Handle,
    tasks: Mutex<Tasks>,
}

/// The backends by settings that are not in force yet.
#[must_use = "the former settings stay in force"]
pub struct PreparedBackends<'a> {
    of: &'a Backends,
    backends: Vec<Arc<Backend>>,
    /// Those of them that were there before.
    stay: Vec<(Arc<Backend>, Changed)>,
    pace: Pace,
    plan: Plan,
}

impl PreparedBackends<'_> {
    /// Makes these the backends, and polls each at once.
    pub fn put_in_force(self) {
        let Self { of, backends, stay, pace, plan } = self;
        stay.into_iter().for_each(|(backend, changed)| backend.take_over(changed));
        of.shared.pace.store(Arc::new(pace));
        of.shared.overseer.lock().follow(plan, &of.shared.published);
        of.poll_all(&backends);
        // With other logins, some may answer otherwise.
        backends.iter().for_each(|backend| backend.suspect());
    }
}

#[derive(Debug)]
struct Tasks {
    /// By the backend's number.
    pollers: Vec<(usize, JoinHandle<()>)>,
    next_number: usize,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.pollers.iter().for_each(|(_, poller)| poller.abort());
    }
}

impl Backends {
    /// Starts to poll on `control`. Nothing is known of any backend yet: [`NoPrimary::Starting`].
    ///
    /// # Errors
    /// A file of a backend's settings can not be read.
    pub fn start(
        settings: &Settings,
        registry: &Registry,
        control: &Handle,
    ) -> Result<Arc<Self>, StartError> {
        let backends: Vec<_> = settings
            .backend
            .iter()
            .enumerate()
            .map(|(number, settings)| Backend::new(number, settings).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let plan = Plan::new(settings, backends.clone());
        let shared = Arc::new(BackendsState {
            published: Published::of(&plan),
            overseer: Mutex::new(Overseer::new(plan)),
            pace: ArcSwap::from_pointee(Pace::new(settings)),
            last_write: AtomicU64::new(0),
        });
        let tasks = Mutex::new(Tasks { pollers: Vec::new(), next_number: backends.len() });
        let this = Arc::new(Self { shared, control: control.clone(), tasks });
        this.poll_all(&backends);
        let weak = Arc::downgrade(&this);
        registry.collect(move |out| {
            if let Some(this) = weak.upgrade() {
                this.view().backends().iter().for_each(|backend| backend.encode(out));
            }
        });
        Ok(this)
    }

    /// The backends by other settings. Those whose address and TLS stay the same stay the same,
    /// with all that is known of them; others are new ones, with another number.
    ///
    /// # Errors
    /// A file of a backend's settings can not be read.
    pub fn prepare(&self, settings: &Settings) -> Result<PreparedBackends<'_>, StartError> {
        let view = self.view();
        let mut tasks = self.tasks.lock();
        let mut backends = Vec::with_capacity(settings.backend.len());
        let mut stay = Vec::new();
        for wanted in &settings.backend {
            let there = view.backends().iter().find(|backend| backend.name() == wanted.name);
            match there.and_then(|there| Some((there, there.changed(wanted)?))) {
                Some((there, changed)) => {
                    stay.push((Arc::clone(there), changed?));
                    backends.push(Arc::clone(there));
                }
                None => {
                    backends.push(Arc::new(Backend::new(tasks.next_number, wanted)?));
                    tasks.next_number += 1;
                }
            }
        }
        let plan = Plan::new(settings, backends.clone());
        Ok(PreparedBackends { of: self, backends, stay, pace: Pace::new(settings), plan })
    }

    /// Polls these and no others.
    fn poll_all(&self, backends: &[Arc<Backend>]) {
        let mut tasks = self.tasks.lock();
        tasks.pollers.retain(|(number, poller)| {
            let stays = backends.iter().any(|backend| backend.number() == *number);
            if !stays {
                poller.abort();
            }
            stays
        });
        for backend in backends {
            if !tasks.pollers.iter().any(|(number, _)| *number == backend.number()) {
                let shared = Arc::clone(&self.shared);
                let poll = poll::run(Arc::clone(backend), shared);
                tasks.pollers.push((backend.number(), self.control.spawn(poll)));
            }
        }
    }

    /// Who takes what at the moment: a load, without waiting.
    pub fn view(&self) -> Guard<Arc<View>> {
        self.shared.published.view.load()
    }

    /// The backend of that number, while it is in the file.
    pub fn get(&self, number: usize) -> Option<Arc<Backend>> {
        self.view().backends().iter().find(|backend| backend.number() == number).cloned()
    }

    /// The one that takes writes.
    ///
    /// # Errors
    /// There is none, or more than one says so.
    pub fn primary(&self) -> Result<Arc<Backend>, NoPrimary> {
        self.view().primary().cloned()
    }

    /// The same, waiting for it, as for a promotion, for as long as `limit`.
    ///
    /// # Errors
    /// There is none by then, or more than one says so.
    pub async fn primary_within(&self, limit: Duration) -> Result<Arc<Backend>, NoPrimary> {
        // Without a timer where there is one, which is always but in a failover.
        if let Ok(primary) = self.primary() {
            return Ok(primary);
        }
        let mut changes = self.changes();
        let wait = async {
            loop {
                if let Ok(primary) = self.primary() {
                    return Ok(primary);
                }
                if changes.changed().await.is_err() {
                    return self.primary();
                }
            }
        };
        timeout(limit, wait).await.unwrap_or_else(|_| self.primary())
    }

    /// The one that takes a read; see [`View::reader`].
    pub fn reader(&self, ask: Ask, in_flight: impl Fn(&Backend) -> usize) -> Option<Arc<Backend>> {
        self.view().reader(ask, in_flight).cloned()
    }

    /// What a session keeps once it has read the answer to a write. Until the replicas have it,
    /// servers are asked more often.
    pub fn note_write(&self) -> LastWrite {
        let write = LastWrite::now();
        // The workers share this cache line, at one store a write, which has cost a flush.
        self.shared.last_write.store(write.0.nanos(), Ordering::Relaxed);
        write
    }

    /// A statement has changed who may log in, or with which settings.
    pub fn logins_changed(&self) {
        self.view().backends().iter().for_each(|backend| backend.logins().changed());
    }

    /// Changes with each [`View`]: the number of views so far.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.published.changed.subscribe()
    }

    /// How each is, as in the file.
    pub fn status(&self) -> Vec<BackendStatus> {
        self.view().backends().iter().map(|backend| backend.status()).collect()
    }

    /// Asks `sql` in `database`, as Weir's own user unless a `login` is given: the primary, or a
    /// replica where there is none. The search path is `pg_catalog` alone and the transaction is
    /// read only.
    ///
    /// # Errors
    /// Nobody is there, or does not answer.
    pub async fn rows(
        &self,
        database: &str,
        login: Option<&ClientLogin>,
        sql: &str,
    ) -> Result<Rows, OwnError> {
        let view = self.shared.published.view.load_full();
        let backend = view.primary().or_else(|none| view.readers.first().ok_or(none))?;
        let own = backend.own.load_full();
        let mut identity = own.identity(Some(database), &facts::PARAMETERS);
        if let Some(ClientLogin { user, credentials }) = login {
            (identity.user, identity.credentials) = (user, credentials.clone());
        }
        let dialled = dial(backend.server(), identity).await?;
        let mut talk = Conversation::new(dialled.socket, dialled.rest);
        talk.ask(facts::NO_JIT, &[], OWN_LIMITS).await?;
        Ok(talk.ask(sql, &[], OWN_LIMITS).await?)
    }
}
