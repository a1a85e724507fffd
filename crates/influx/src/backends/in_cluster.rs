//! Statements of a cluster: they run on all backends at once, and are not kept for later. One that
//! takes points away runs behind all that was accepted before it, by any gateway.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use journal::Position;
use tokio::time::{Instant, sleep};

use super::statements::answer_of;
use super::{Backend, Backends};
use crate::client::TransportError;
use crate::placement::StatementOrder;

/// How long a statement waits until it may run.
const WAIT: Duration = Duration::from_secs(10);
/// How often it is looked whether own deliveries have come to where they stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What a statement does to points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementEffect {
    /// It makes or alters names, and leaves points alone.
    KeepsPoints,
    /// It takes points away: `DROP`, `DELETE`.
    TakesPoints,
}

/// Why a statement did not run on all backends of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum InClusterError {
    /// It was run on none.
    #[error(
        "the statement was not run, and is not kept for later; it waited for {}", .0.join("; ")
    )]
    NotRun(Vec<String>),
    /// It may have run on a part of them.
    #[error(
        "the statement has run on {}, and may not have on {}; run it again when all answer",
        .ran.join(", "), .broken.join("; ")
    )]
    Broken { ran: Vec<String>, broken: Vec<String> },
}

/// Deliveries go on when this is dropped.
struct StoppedDeliveries<'a>(&'a Backends);

impl Drop for StoppedDeliveries<'_> {
    fn drop(&mut self) {
        self.0.pause.set(None);
    }
}

impl Backends {
    /// Whether a cluster shares the points out, so that statements run everywhere at once.
    pub fn is_cluster(&self) -> bool {
        self.placement.table().is_some()
    }

    /// Runs a statement, given as a form, on all backends of a cluster, and gives the body of one
    /// answer: of one that refused it, if any did.
    ///
    /// # Errors
    /// When it could not run within ten seconds, or when a backend gave no answer.
    pub async fn run_in_cluster(
        &self,
        form: &[(&str, &str)],
        effect: StatementEffect,
    ) -> Result<Bytes, InClusterError> {
        let until = Instant::now() + WAIT;
        let turn = tokio::time::timeout_at(until, self.in_cluster.lock()).await;
        let before_it = || InClusterError::NotRun(vec!["a statement before it".to_owned()]);
        let _turn = turn.map_err(|_| before_it())?;
        self.all_are_fit().await?;
        let stopped = match effect {
            StatementEffect::KeepsPoints => None,
            StatementEffect::TakesPoints => {
                self.others_have_come(until).await?;
                Some(self.stop_at_one_place(until).await?)
            }
        };
        let all = self.all();
        let asked = all.iter().filter(|backend| backend.settings.kind.has_catalogue());
        let ask = asked.clone().map(|backend| {
            let timeout = backend.settings.statement_timeout;
            backend.queries.ask(form, timeout)
        });
        let answers = join_all(ask).await;
        drop(stopped);
        let (mut ran, mut broken, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for (backend, said) in asked.zip(answers) {
            match said {
                Ok(said) => {
                    ran.push(backend.name().to_owned());
                    bodies.push(said.body);
                }
                Err(error) => broken.push(format!("{}: {error}", backend.name())),
            }
        }
        match broken.is_empty() {
            true => Ok(answer_of(bodies.iter()).cloned().unwrap_or_default()),
            false => Err(InClusterError::Broken { ran, broken }),
        }
    }

    /// Whether every backend answers, with the right table.
    async fn all_are_fit(&self) -> Result<(), InClusterError> {
        let all = self.all();
        let unfit = join_all(all.iter().map(|backend| unfit(backend))).await;
        let unfit: Vec<String> = unfit.into_iter().flatten().collect();
        if unfit.is_empty() { Ok(()) } else { Err(InClusterError::NotRun(unfit)) }
    }

    /// Waits until the other gateways have brought what they had accepted.
    async fn others_have_come(&self, until: Instant) -> Result<(), InClusterError> {
        let (own, before) = self.placement.notes().heard();
        let mut order = StatementOrder::new(own, before.clone());
        let mut notes = before;
        loop {
            let awaited = order.look(&notes);
            if awaited.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(InClusterError::NotRun(awaited));
            }
            let interval = self.placement.note_interval().unwrap_or(LOOK_INTERVAL);
            sleep(interval / 2).await;
            self.read_tables(interval).await;
            notes = self.placement.notes().heard().1;
        }
    }

    /// Stops the own deliveries at one place, behind all that was acknowledged.
    async fn stop_at_one_place(
        &self,
        until: Instant,
    ) -> Result<StoppedDeliveries<'_>, InClusterError> {
        let all = self.all();
        // First nothing more is taken: what was taken before then ends before the place.
        self.pause.set(Some(Position::ZERO));
        let stopped = StoppedDeliveries(self);
        let place = self.journal.end();
        self.pause.set(Some(place));
        loop {
            let behind = all.iter().filter(|backend| backend.standing.place() < place);
            let behind: Vec<String> =
                behind.map(|backend| format!("points for {}", backend.name())).collect();
            if behind.is_empty() {
                return Ok(stopped);
            }
            if Instant::now() >= until {
                return Err(InClusterError::NotRun(behind));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Why a backend cannot be given a statement, with its name.
async fn unfit(backend: &Backend) -> Option<String> {
    let client = &backend.queries;
    let patience = backend.placement().check_interval().unwrap_or_default() / 4;
    let is_member =
        backend.placement().table().is_some_and(|table| table.set_of(backend.name()).is_some());
    let asked = || async {
        match is_member {
            true => backend.read_table(client, patience).await?,
            false => drop(client.ping().await?),
        }
        backend.is_fit(client).await
    };
    let fit = match asked().await {
        // A connection that was kept may be of a server of before.
        Err(TransportError::Lost(_)) => asked().await,
        fit => fit,
    };
    fit.err().map(|error| format!("{}: {error}", backend.name()))
}
