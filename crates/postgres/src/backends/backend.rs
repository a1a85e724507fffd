//! One backend as all parts of the gateway see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use flow::dial::Renewal;
use flow::health::{self, Breaker};
use tokio::sync::Notify;
use watch::metrics::Counter;

use super::status::OverseerNotes;
use super::{BackendState, ExpiringRole, Logins, Moment, StartError};
use crate::auth::Credentials;
use crate::server::{DialError, Dialled, Identity, Server, dial};
use crate::settings::BackendSettings;

/// After a few connections in a row that could not be opened, no reads are sent to a backend for
/// at most so long.
const CONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);

/// A server that is heard all the time is noted so often.
const HEARD_EVERY: Duration = Duration::from_millis(100);

/// What other settings change of a backend that stays.
pub(super) struct Changed {
    own: Own,
    renewal: Option<Renewal>,
    weight: u32,
}

/// Whom Weir itself logs in as.
#[derive(Debug)]
pub(super) struct Own {
    user: String,
    database: String,
    credentials: Credentials,
}

impl Own {
    fn read(settings: &BackendSettings) -> Result<Self, StartError> {
        let wrong = |what| StartError { name: settings.name.clone(), what };
        let password = settings.read_password().map_err(|error| wrong(error.to_string()))?;
        let credentials = match (password.as_str(), &settings.certificate) {
            ("", None) => Credentials::None,
            ("", Some(_)) => Credentials::Certificate,
            (password, _) => Credentials::Password(password.into()),
        };
        let (user, database) = (settings.user.clone(), settings.database.clone());
        Ok(Self { user, database, credentials })
    }

    /// As it logs in, to its own database where `database` is none.
    pub(super) fn identity<'a>(
        &'a self,
        database: Option<&'a str>,
        parameters: &'a [(&'a str, &'a str)],
    ) -> Identity<'a> {
        Identity {
            user: &self.user,
            database: database.unwrap_or(&self.database),
            parameters,
            credentials: self.credentials.clone(),
        }
    }
}

/// One server. What changes with each poll is in atomics, which workers read without waiting.
#[derive(Debug)]
pub struct Backend {
    number: usize,
    settings: BackendSettings,
    server: Server,
    pub(super) own: ArcSwap<Own>,
    weight: AtomicU32,
    standing: AtomicU8,
    epoch: AtomicU64,
    caught_up: AtomicU64,
    round_trip_us: AtomicU32,
    heard: AtomicU64,
    logins: Logins,
    expiring: ArcSwap<Vec<ExpiringRole>>,
    reads: Counter,
    pub(super) parameters: ArcSwapOption<Vec<(String, String)>>,
    pub(super) told: ArcSwap<OverseerNotes>,
    pub(super) poke: Notify,
    breaker: Breaker,
}

impl Backend {
    /// Reads the files that the settings name.
    pub(crate) fn new(number: usize, settings: &BackendSettings) -> Result<Self, StartError> {
        let wrong = |what| StartError { name: settings.name.clone(), what };
        let server = Server::new(settings).map_err(|error| wrong(error.to_string()))?;
        let own = ArcSwap::from_pointee(Own::read(settings)?);
        // Its state is in `weir_postgres_backend_takes_connections`, beside the others.
        let shown = health::BreakerMetrics::default();
        let pace = health::Settings { max: CONNECT_PAUSE_MAX, ..Default::default() };
        Ok(Self {
            number,
            breaker: Breaker::new(&settings.name, pace, shown),
            settings: settings.clone(),
            server,
            own,
            weight: AtomicU32::new(settings.weight),
            standing: AtomicU8::new(BackendState::Unknown as u8),
            epoch: AtomicU64::new(0),
            caught_up: AtomicU64::new(0),
            round_trip_us: AtomicU32::new(0),
            heard: AtomicU64::new(0),
            logins: Logins::default(),
            expiring: ArcSwap::default(),
            reads: Counter::new(),
            parameters: ArcSwapOption::empty(),
            told: ArcSwap::from_pointee(OverseerNotes::default()),
            poke: Notify::new(),
        })
    }

    /// Roles whose passwords end soon, as of when it was asked last.
    pub fn expiring(&self) -> Vec<ExpiringRole> {
        self.expiring.load().to_vec()
    }

    /// Takes in which those are.
    pub(super) fn set_expiring(&self, roles: Vec<ExpiringRole>) {
        self.expiring.store(Arc::new(roles));
    }

    /// The database that Weir itself connects to.
    pub fn own_database(&self) -> String {
        self.own.load().database.clone()
    }

    /// A connection to `database` there, logged in as Weir's own user.
    ///
    /// # Errors
    /// As of [`dial`].
    pub async fn dial_own(
        &self,
        database: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Dialled, DialError> {
        let own = self.own.load_full();
        dial(&self.server, own.identity(Some(database), parameters)).await
    }

    /// What can change while connections stay: weight, role, Weir's own login, the files of
    /// certificates. `None`: the server is another one by these settings.
    pub(super) fn changed(
        &self,
        settings: &BackendSettings,
    ) -> Option<Result<Changed, StartError>> {
        let ours = &self.settings;
        let alike = BackendSettings {
            role: ours.role,
            weight: ours.weight,
            user: ours.user.clone(),
            password: ours.password.clone(),
            password_file: ours.password_file.clone(),
            database: ours.database.clone(),
            ..settings.clone()
        };
        (alike == *ours).then(|| {
            let wrong = |what| StartError { name: settings.name.clone(), what };
            let own = Own::read(settings)?;
            let renewal = self.server.renew(settings).map_err(|error| wrong(error.to_string()))?;
            Ok(Changed { own, renewal, weight: settings.weight })
        })
    }

    /// Puts new settings of the backend in force.
    pub(super) fn take_over(&self, changed: Changed) {
        let Changed { own, renewal, weight } = changed;
        if let Some(renewal) = renewal {
            renewal.put_in_force();
        }
        self.own.store(Arc::new(own));
        self.weight.store(weight, Ordering::Relaxed);
        self.suspect();
    }

    /// A number that no other backend of this process has or had.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its name in the settings.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Where and how it is connected to.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// How much of the reads it takes in proportion to the others.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// What it is taken for at the moment.
    pub fn standing(&self) -> BackendState {
        BackendState::of(self.standing.load(Ordering::Acquire))
    }

    /// Changes whenever connections that were opened before must not be used any more: it was the
    /// primary and is none now, it went down, it turned out to be another cluster's. A connection
    /// remembers the number that it was opened under.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// What is known of logins there.
    #[inline]
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// As of when it has, as a replica, everything that was committed on the primary.
    pub fn caught_up(&self) -> Moment {
        Moment::from_nanos(self.caught_up.load(Ordering::Acquire))
    }

    /// The smoothed time of a question and its answer, in microseconds; 0 before the first.
    pub fn round_trip_us(&self) -> u32 {
        self.round_trip_us.load(Ordering::Relaxed)
    }

    /// The settings that it reports to a new connection (ParameterStatus), `server_version` and
    /// others; `None` before the first.
    pub fn parameters(&self) -> Option<Arc<Vec<(String, String)>>> {
        self.parameters.load_full()
    }

    /// A connection of it broke or could not be opened: it is asked at once how it is, instead of
    /// when its turn comes.
    pub fn suspect(&self) {
        self.poke.notify_one();
    }

    /// The reads that it was asked.
    pub fn reads(&self) -> &Counter {
        &self.reads
    }

    /// Notes that something came from it at `now`, so that a server that is merely too busy for
    /// Weir's own question is not taken for one that hangs. For the tick of a worker, or each
    /// chunk of answers: a load, and a store ten times a second.
    pub fn heard(&self, now: Instant) {
        let now = Moment::of(now);
        if now.since(Moment::from_nanos(self.heard.load(Ordering::Relaxed))) > HEARD_EVERY {
            self.heard.store(now.nanos(), Ordering::Relaxed);
        }
    }

    /// Whether something has come from it since `moment`.
    pub(super) fn was_heard_since(&self, moment: Moment) -> bool {
        self.heard.load(Ordering::Relaxed) > moment.nanos()
    }

    /// Notes that a connection could not be opened. After a few in a row no reads are sent here
    /// for a while, so that they go where connections can be had.
    pub fn connect_failed(&self, reason: &str) {
        self.breaker.failure(reason);
        self.suspect();
    }

    /// Notes that a connection was opened.
    pub fn connected(&self) {
        // A load, since there is mostly nothing to take back.
        if self.breaker.state() != health::State::Closed {
            self.breaker.success();
        }
    }

    /// Whether connections can be had, as far as is known.
    pub fn takes_connections(&self) -> bool {
        self.breaker.state() == health::State::Closed || self.breaker.wait(Instant::now()).is_zero()
    }

    pub(super) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub(super) fn set_caught_up(&self, moment: Moment) {
        self.caught_up.store(moment.nanos(), Ordering::Release);
    }

    /// Sets what it is taken for, and says what it was.
    pub(super) fn set_standing(&self, standing: BackendState) -> BackendState {
        let former = BackendState::of(self.standing.swap(standing as u8, Ordering::AcqRel));
        let lost = former == BackendState::Primary || !standing.is_of_use();
        if former != standing && former.is_of_use() && lost {
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        former
    }

    /// Smooths: an eighth of each new time.
    pub(super) fn note_round_trip(&self, took: Duration) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
        let former = self.round_trip_us();
        let smooth = if former == 0 { took } else { former - former / 8 + took / 8 };
        self.round_trip_us.store(smooth.max(1), Ordering::Relaxed);
    }
}
