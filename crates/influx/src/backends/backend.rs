//! One backend: how to reach it, how it is, and how good it is to ask it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::drain::Drain;
use flow::health::{self, Breaker};
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use journal::{CursorStatus, Journal};
use watch::metrics::Registry;

use super::state::DeliveryState;
use super::status::{BackendStatus, status_of};
use super::tables::TableReader;
use crate::client::{Client, ClientError, Greeting, TransportError};
use crate::placement::{Lag, Placement};
use crate::settings::{BackendKind, ServerSettings};

/// A backend whose oldest waiting point is younger than this counts as caught up.
const CAUGHT_UP: Duration = Duration::from_secs(1);

/// Members of a set of which one has this much less than the other are asked in turn: their notes
/// are not of the same moment.
const EQUAL_LAG: Duration = Duration::from_secs(2);

/// A backend that is reached over HTTP.
#[derive(Debug)]
pub struct Backend {
    pub(super) settings: ServerSettings,
    /// For the delivery alone. A connection is driven by the runtime that opened it, so that
    /// whatever workers ask must not share these: batches would be written on a worker's thread.
    pub(super) delivery: Arc<Client>,
    /// For queries of clients and everything else that workers ask.
    pub(super) queries: Arc<Client>,
    /// For notes while it is being rebuilt, when the others connect in vain.
    pub(super) notes: Arc<Client>,
    pub(super) breaker: Breaker,
    pub(super) standing: DeliveryState,
    /// Whether it may be used, where it is a member of a cluster.
    pub(super) tables: Arc<TableReader>,
    /// Tells its delivery to end.
    pub(super) drain: Drain,
}

/// A breaker as operators see it.
fn breaker(name: &str, registry: &Registry) -> Breaker {
    let labels = [("backend", name)];
    let shown = health::BreakerMetrics {
        state: registry.gauge(
            "weir_backend_breaker_state",
            "Whether the backend is asked: 0 yes, 1 one trial is under way, 2 no.",
            &labels,
        ),
        opened: registry.counter(
            "weir_backend_breaker_opened_total",
            "Times the backend failed so often that it was left alone for a while.",
            &labels,
        ),
    };
    Breaker::new(name, health::Settings::default(), shown)
}

impl Backend {
    /// A backend that nothing has been delivered to yet, whose delivery ends with `drain`.
    ///
    /// # Errors
    /// When its password or certificate files cannot be read.
    pub(super) fn new(
        settings: &ServerSettings,
        placement: &Arc<Placement>,
        journal: &Journal,
        registry: &Registry,
        drain: Drain,
    ) -> Result<Self, ClientError> {
        let (placement, journal) = (Arc::clone(placement), journal.clone());
        let backend = settings.delivery.name.clone();
        let tables = Arc::new(TableReader { placement, journal, backend, for_notes: false });
        let for_notes = Arc::new(TableReader { for_notes: true, ..TableReader::clone(&tables) });
        let client = |tables: &Arc<TableReader>| {
            let greeting: Arc<dyn Greeting> = Arc::<TableReader>::clone(tables);
            Client::new(settings, Some(greeting)).map(Arc::new)
        };
        Ok(Self {
            settings: settings.clone(),
            delivery: client(&tables)?,
            queries: client(&tables)?,
            notes: client(&for_notes)?,
            breaker: breaker(&settings.delivery.name, registry),
            standing: DeliveryState::new(&settings.delivery.name, registry),
            tables,
            drain,
        })
    }

    /// The backend's name in the configuration.
    pub fn name(&self) -> &str {
        &self.settings.delivery.name
    }

    /// The backend's part of the configuration.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// The client of its delivery.
    pub fn client(&self) -> &Arc<Client> {
        &self.delivery
    }

    /// The client of notes: that of its delivery, but while it is being rebuilt.
    pub fn note_client(&self) -> &Arc<Client> {
        if self.is_rebuilding() { &self.notes } else { &self.delivery }
    }

    /// The client of queries, which workers may use.
    pub fn queries(&self) -> &Arc<Client> {
        &self.queries
    }

    /// Whether the backend answers, or is left alone for a while.
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// What its delivery is doing.
    pub fn standing(&self) -> &DeliveryState {
        &self.standing
    }

    /// What tells its delivery to end.
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// How old the oldest point is that it has still to get, of any gateway of its cluster; `None`
    /// when it is caught up.
    pub fn behind(&self) -> Option<Duration> {
        self.behind_by(self.lag())
    }

    fn behind_by(&self, lag: Lag) -> Option<Duration> {
        let own = Some(self.standing.behind()).filter(|behind| *behind >= CAUGHT_UP);
        own.max(Some(lag.behind).filter(|behind| *behind >= EQUAL_LAG))
    }

    /// How much less it has than the best of its set, by what all gateways have noted.
    fn lag(&self) -> Lag {
        self.placement().notes().lag(self.name())
    }

    /// Where points lie, where backends share them out.
    pub fn placement(&self) -> &Arc<Placement> {
        &self.tables.placement
    }

    /// Passes a query on; see [`Client::query`]. Its answer or failure moves the breaker.
    ///
    /// # Errors
    /// When there was no answer's head; another backend may be asked instead.
    pub async fn query(
        &self,
        form: (HeaderMap, Bytes),
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, TransportError> {
        let answer = match self.is_fit(&self.queries).await {
            Ok(()) => match self.queries.query(form.clone(), headers).await {
                // A connection that idled may have ended unheard, as where its machine lost power.
                Err(TransportError::Lost(_)) => self.queries.query(form, headers).await,
                answer => answer,
            },
            Err(error) => Err(error),
        };
        match &answer {
            // It is well, and not the one that is meant.
            Ok(_) | Err(TransportError::Unfit(_)) => self.answered(),
            Err(error) => self.breaker.failure(&error.to_string()),
        }
        answer
    }

    /// Notes that the backend answered, whatever it said.
    pub fn answered(&self) {
        // A lock for each batch or query is nothing; but most of the time there is nothing to say.
        if self.breaker.state() != health::State::Closed {
            self.breaker.success();
        }
    }

    /// Reads password and token files again.
    ///
    /// # Errors
    /// When one cannot be read; the former credentials stay.
    pub fn read_credentials(&self) -> Result<(), ClientError> {
        self.delivery.read_credentials()?;
        self.notes.read_credentials()?;
        self.queries.read_credentials()
    }

    /// How good it is to ask this backend: the smaller the better.
    pub(super) fn rank(&self) -> (bool, u8, bool, Duration, u64) {
        let kind = match self.settings.kind {
            BackendKind::Influxdb => 0,
            BackendKind::Influxdb2 => 1,
            // It answers `/query` with nothing but lists of series.
            BackendKind::VictoriaMetrics => 2,
        };
        let ill = self.breaker.state() != health::State::Closed || self.standing.is_stopped();
        let lag = self.lag();
        (ill, kind, lag.is_unknown, self.behind_by(lag).unwrap_or_default(), lag.lacks)
    }

    pub(super) fn status(&self, cursors: &[CursorStatus]) -> BackendStatus {
        let failure = || {
            let failure = self.breaker.last_failure()?;
            Some((failure.reason.to_string(), failure.at))
        };
        let ServerSettings { delivery, kind, url, .. } = &self.settings;
        let mut status = status_of(delivery, (kind.name(), url), &self.standing, cursors, failure);
        status.breaker = self.breaker.state().name();
        status
    }
}
