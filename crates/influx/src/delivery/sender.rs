//! One request to one backend, sent until its answer says something about the points. Everything
//! that is the backend's own trouble is dealt with here: it is waited for, what is missing is
//! created, and what only a person can set right stops the delivery with a message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow::backoff::Backoff;
use flow::drain::Drain;

use super::instruments::Instruments;
use super::sizing::Sizing;
use crate::backends::Backend;
use crate::catalogue::Catalogue;
use crate::client::answer::{Answer, Missing, Refusal};
use crate::client::{Client, TransportError};
use crate::placement::BatchTable;
use crate::settings::BackendKind;

/// Why a delivery does not go on with what it has taken, which stays in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// The delivery is to end.
    Ends,
    /// It is to begin anew at its cursor: its points were chosen by a table that is no longer in
    /// force, or the member is being rebuilt and lacks what it was given of them.
    TableChanged,
}

/// How often a delivery looks whether file and members agree by now.
const AGREEMENT_INTERVAL: Duration = Duration::from_secs(1);

/// How long is waited in which case.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The first wait after a failure is at most this long.
    pub base: Duration,
    /// No wait after a failure is longer; so long a backend that came back can go unnoticed.
    pub max: Duration,
    /// How long until a stopped delivery looks whether someone has acted.
    pub stopped: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(100),
            max: Duration::from_secs(5),
            stopped: Duration::from_secs(30),
        }
    }
}

/// What an answer says about the points of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All points are stored.
    Accepted,
    /// At least one never can be.
    Refused(Refusal),
    /// They are too many bytes at once.
    TooLarge(String),
    /// The backend failed, perhaps because of one of them.
    Failed(String),
    /// The backend could not cope with so many at once.
    Overloaded,
}

/// The sending side of one delivery.
#[derive(Debug)]
pub struct Sender {
    pub(super) backend: Arc<Backend>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) instruments: Instruments,
    pub(super) sizing: Sizing,
    /// The table that what is sent was chosen by.
    pub(super) chosen_by: BatchTable,
    /// Whether what is sent is backlog.
    pub(super) catching_up: bool,
    backoff: Backoff,
    drain: Drain,
    pace: Pace,
}

impl Sender {
    pub(super) fn new(
        backend: Arc<Backend>,
        catalogue: Arc<Catalogue>,
        instruments: Instruments,
        sizing: Sizing,
        chosen_by: BatchTable,
        pace: Pace,
    ) -> Self {
        let backoff = Backoff::new(pace.base, pace.max);
        let (drain, catching_up) = (backend.drain().clone(), false);
        Self {
            backend,
            catalogue,
            instruments,
            sizing,
            chosen_by,
            catching_up,
            backoff,
            drain,
            pace,
        }
    }

    pub(super) fn client(&self) -> Arc<Client> {
        Arc::clone(self.backend.client())
    }

    /// Waits until the backend may be given what was chosen: always, but for a member of a cluster
    /// whose table is another one.
    pub(super) async fn wait_until_fit(&mut self) -> Result<(), Interrupted> {
        loop {
            if !self.chosen_by.is_current() {
                return Err(Interrupted::TableChanged);
            }
            match self.backend.is_fit(&self.client()).await {
                Ok(()) => return Ok(()),
                Err(TransportError::Unfit(_)) if self.backend.is_rebuilding() => {
                    return Err(Interrupted::TableChanged);
                }
                Err(TransportError::Unfit(words)) => self.wait_for_agreement(&words).await?,
                Err(error) => {
                    self.backend.breaker().failure(&error.to_string());
                    self.retry_after(&error.to_string(), None).await?;
                }
            }
        }
    }

    /// Says what file and members do not agree on, and waits a moment.
    pub(super) async fn wait_for_agreement(&mut self, words: &str) -> Result<(), Interrupted> {
        self.backend.standing().stopped(words);
        self.sleep(self.pace.stopped.min(AGREEMENT_INTERVAL)).await
    }

    /// Sends lines until the answer is about them.
    pub(super) async fn send(
        &mut self,
        db: &str,
        rp: &str,
        lines: &Bytes,
        points: u64,
    ) -> Result<Verdict, Interrupted> {
        loop {
            if self.drain.is_started() {
                return Err(Interrupted::Ends);
            }
            self.wait_until_fit().await?;
            let begun = Instant::now();
            let answer = self.client().write(db, rp, lines.clone()).await;
            self.instruments.request.observe(begun.elapsed());
            self.instruments.points_sent.add(points);
            self.instruments.bytes_sent.add(lines.len() as u64);
            self.instruments.count(&answer);
            if let Some(verdict) = self.judge(answer, db, rp, points, lines.len()).await? {
                return Ok(verdict);
            }
        }
    }

    /// What the answer says about the points; `None` when they are to be sent again as they are.
    async fn judge(
        &mut self,
        answer: Result<Answer, TransportError>,
        db: &str,
        rp: &str,
        points: u64,
        bytes: usize,
    ) -> Result<Option<Verdict>, Interrupted> {
        match &answer {
            Ok(Answer::Failed(words)) => self.backend.breaker().failure(words),
            Ok(_) => self.backend.answered(),
            Err(error) => self.backend.breaker().failure(&error.to_string()),
        }
        match answer {
            Ok(Answer::Delivered) => {
                self.backoff.reset();
                self.backend.standing().settled(self.catching_up);
                return Ok(Some(Verdict::Accepted));
            }
            Ok(Answer::Refused(refusal)) => return Ok(Some(Verdict::Refused(refusal))),
            Ok(Answer::TooLarge(words)) => {
                self.sizing.too_large(bytes);
                return Ok(Some(Verdict::TooLarge(words)));
            }
            Ok(Answer::Overloaded(words)) => {
                self.sizing.too_much(points, bytes);
                self.retry_after(&words, None).await?;
                return Ok(Some(Verdict::Overloaded));
            }
            Ok(Answer::Failed(words)) => {
                self.retry_after(&words, None).await?;
                return Ok(Some(Verdict::Failed(words)));
            }
            Err(error @ (TransportError::Timeout(_) | TransportError::Lost(_))) => {
                // A server that refuses a large body early may reset the connection before its
                // answer is read, so that this can be a 413 as well.
                self.sizing.too_much(points, bytes);
                let words = error.to_string();
                self.retry_after(&words, None).await?;
                return Ok(Some(Verdict::Failed(words)));
            }
            Err(TransportError::Unfit(words)) => self.wait_for_agreement(&words).await?,
            Err(TransportError::Connect(words)) => {
                self.retry_after(&format!("cannot connect: {words}"), None).await?;
            }
            Ok(Answer::Busy(words, after)) => self.retry_after(&words, after).await?,
            Ok(Answer::Missing(missing, words)) => self.missing(missing, &words, db, rp).await?,
            Ok(Answer::Denied(words)) => self.denied(&words).await?,
            Ok(Answer::Misdirected(words)) => {
                let url = &self.backend.settings().url;
                self.stop(&format!("{url} does not take writes; check url and kind: {words}"))
                    .await?;
            }
        }
        Ok(None)
    }

    /// Says that the backend fails, and waits: as long as it asked for, else with backoff.
    pub(super) async fn retry_after(
        &mut self,
        words: &str,
        asked: Option<Duration>,
    ) -> Result<(), Interrupted> {
        self.backend.standing().retrying(words);
        let delay = self.backoff.delay();
        self.sleep(asked.unwrap_or(delay)).await
    }

    /// Says that someone has to act, and waits until it is time to see whether they have.
    pub(super) async fn stop(&mut self, words: &str) -> Result<(), Interrupted> {
        self.backend.standing().stopped(words);
        self.sleep(self.pace.stopped).await
    }

    /// The credentials do not suffice: someone has to change them, here or on the backend.
    pub(super) async fn denied(&mut self, words: &str) -> Result<(), Interrupted> {
        self.stop(&format!("credentials are not accepted: {words}")).await?;
        if let Err(error) = self.backend.read_credentials() {
            tracing::error!(%error, "credentials cannot be read");
        }
        Ok(())
    }

    pub(super) async fn sleep(&self, pause: Duration) -> Result<(), Interrupted> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.drain.started() => Err(Interrupted::Ends),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.drain.is_started()
    }

    /// The next wait begins small again.
    pub(super) fn at_ease(&mut self) {
        self.backoff.reset();
    }

    /// Creates what is missing, or waits until someone has.
    async fn missing(
        &mut self,
        missing: Missing,
        words: &str,
        db: &str,
        rp: &str,
    ) -> Result<(), Interrupted> {
        if missing == Missing::Mapping {
            let advice = "map the database to a bucket, or use kind = \"influxdb2\"";
            return self.stop(&format!("{words}; {advice}")).await;
        }
        if !self.backend.settings().create_missing {
            return self.stop(&format!("{words}; create it, or set create-missing = true")).await;
        }
        let created = match self.backend.settings().kind {
            BackendKind::Influxdb2 => self.create_bucket(db, rp).await,
            BackendKind::Influxdb | BackendKind::VictoriaMetrics => self.create(db, rp).await,
        };
        match created {
            Ok(None) => {
                let backend = self.backend.name();
                tracing::info!(backend, db, rp, "created what was missing on the backend");
                self.catalogue.refresh_one(self.backend.name()).await;
                // If it is missing again at once, this keeps the two from spinning.
                let delay = self.backoff.delay();
                self.sleep(delay).await
            }
            Ok(Some(why)) => self.stop(&format!("{words}; creating it failed: {why}")).await,
            Err(error) => self.retry_after(&error.to_string(), None).await,
        }
    }

    /// Runs the statements that make a database as the other backends have it; gives why it
    /// failed.
    async fn create(&self, db: &str, rp: &str) -> Result<Option<String>, TransportError> {
        let statements = self.catalogue.snapshot().creation(db, rp);
        let timeout = self.backend.settings().statement_timeout;
        let mut failed = None;
        for statement in &statements {
            let said = self.client().ask(&[("q", statement)], timeout).await?;
            let why = said.refused().or_else(|| {
                let refused = !(200..300).contains(&said.status);
                refused.then(|| format!("status {}", said.status))
            });
            // A policy that exists with other settings is no reason to hold back points.
            let exists = why.as_ref().is_some_and(|why| why.contains("already exists"));
            if failed.is_none() && !exists {
                failed = why;
            }
        }
        Ok(failed)
    }

    async fn create_bucket(&self, db: &str, rp: &str) -> Result<Option<String>, TransportError> {
        let name = if rp.is_empty() { db.to_owned() } else { format!("{db}/{rp}") };
        let said = self.client().create_bucket(&name).await?;
        Ok(match said.classify() {
            Answer::Delivered if said.status == 201 => None,
            Answer::Delivered => Some(format!("no organization {:?}", self.backend.settings().org)),
            _ => Some(format!("status {}", said.status)),
        })
    }
}
