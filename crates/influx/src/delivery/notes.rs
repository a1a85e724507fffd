//! The notes of this gateway on the member of a cluster that it delivers to, in order with its
//! batches. The cursor of a member never passes its last note: a member whose note is behind the
//! cursor was put back to a state of before.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use journal::{Consumer, Outcome, Position};
use tokio::time::{Instant, sleep_until};

use super::intake::Intake;
use super::sender::{Interrupted, Sender};
use crate::client::TransportError;
use crate::client::answer::Answer;
use crate::placement::{DATABASE, GatewayState, OwnNote, Progress};

/// How long the last note of a delivery that ends may take.
const LAST_NOTE_TIMEOUT: Duration = Duration::from_secs(1);

/// Moves the cursor of a backend: at once, or behind a note where it is the member of a set.
#[derive(Debug)]
pub struct NoteWriter {
    /// Up to where all is settled.
    settled: Position,
    /// Whether something is settled that no note covers.
    is_pending: bool,
    due: Instant,
}

/// Why a note is not written.
#[derive(Debug, thiserror::Error)]
enum NoteError {
    #[error("{0}")]
    Unfit(String),
    #[error("{0}")]
    Transport(TransportError),
    #[error("how far it is cannot be noted: {0}")]
    Refused(String),
}

impl From<TransportError> for NoteError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unfit(words) => Self::Unfit(words),
            error => Self::Transport(error),
        }
    }
}

impl NoteWriter {
    /// With the cursor at a place.
    pub fn new(cursor: Position) -> Self {
        Self { settled: cursor, is_pending: false, due: Instant::now() }
    }

    /// Waits until a note is due, for ever where none is written.
    pub async fn due(&self, sender: &Sender) {
        match sender.chosen_by.is_of_set() {
            true => sleep_until(self.due).await,
            false => std::future::pending().await,
        }
    }

    /// Everything up to `end` is done with.
    pub fn settled(&mut self, sender: &Sender, intake: &mut Intake, end: Position, done: Outcome) {
        self.settled = end;
        if sender.chosen_by.is_of_set() {
            intake.consumer().settle(end, done);
            self.is_pending = true;
        } else {
            intake.consumer().commit(end, done);
        }
        sender.backend.standing().set_place(end);
    }

    /// Writes a note where one is due. While something settled waits for it, it is tried until the
    /// member takes it.
    pub async fn keep_written(
        &mut self,
        sender: &mut Sender,
        intake: &mut Intake,
    ) -> Result<(), Interrupted> {
        if !sender.chosen_by.is_of_set() || Instant::now() < self.due {
            return Ok(());
        }
        self.write_now(sender, intake).await
    }

    /// Writes a note; while something settled waits for it, it is tried until the member takes it.
    pub async fn write_now(
        &mut self,
        sender: &mut Sender,
        intake: &mut Intake,
    ) -> Result<(), Interrupted> {
        loop {
            let interval = sender.backend.placement().note_interval().unwrap_or_default();
            let written = self.write(sender, intake.consumer(), GatewayState::Running).await;
            self.due = Instant::now() + interval;
            let announcement = sender.backend.placement().announcement();
            let words = match &written {
                Ok(()) => {
                    announcement.written();
                    sender.backend.answered();
                    let is_held = sender.backend.is_rebuilding();
                    if sender.backend.standing().is_stopped() && !self.is_pending && !is_held {
                        sender.backend.standing().settled(sender.catching_up);
                    }
                    return Ok(());
                }
                Err(error) => error.to_string(),
            };
            announcement.failed(sender.backend.name());
            if let Err(NoteError::Transport(_)) = &written {
                sender.backend.breaker().failure(&words);
            }
            match written {
                Err(NoteError::Transport(_)) if !self.is_pending => return Ok(()),
                Err(_) if !self.is_pending => {
                    sender.backend.standing().stopped(&words);
                    return Ok(());
                }
                Err(NoteError::Transport(_)) => sender.retry_after(&words, None).await?,
                _ => sender.wait_for_agreement(&words).await?,
            }
        }
    }

    /// The last note of a delivery that ends; what it does not cover is delivered again.
    pub async fn end(&mut self, sender: &Sender, intake: &mut Intake, state: GatewayState) {
        if !sender.chosen_by.is_of_set() {
            return;
        }
        let written = self.write(sender, intake.consumer(), state);
        if let Ok(Err(error)) = tokio::time::timeout(LAST_NOTE_TIMEOUT, written).await {
            let backend = sender.backend.name();
            tracing::debug!(backend, %error, "the last note is not written");
        }
    }

    async fn write(
        &mut self,
        sender: &Sender,
        consumer: &mut Consumer,
        state: GatewayState,
    ) -> Result<(), NoteError> {
        let backend = &sender.backend;
        let client = Arc::clone(backend.note_client());
        let (placement, name) = (backend.placement(), backend.name());
        let patience = placement.check_interval().unwrap_or_default() / 4;
        backend.read_table(&client, patience).await?;
        backend.is_fit_for_notes()?;
        // What was passed without being handed out is done with, too.
        let settled = self.settled.max(consumer.position());
        let note = placement.notes().next(name, progress(sender, consumer, settled, state));
        let Some(OwnNote { line, gateway }) = note else { return Ok(()) };
        match client.write(DATABASE, "", Bytes::from(line)).await? {
            Answer::Delivered => {}
            answer => return Err(NoteError::Refused(format!("{answer:?}"))),
        }
        if !placement.notes().is_kept(name) {
            let (placement, name) = (Arc::clone(placement), name.to_owned());
            let keep = move || placement.notes().keep(&name, &gateway);
            let kept = tokio::task::spawn_blocking(keep).await;
            // A task that cannot run belongs to a runtime that ends.
            if let Ok(Err(error)) = kept {
                return Err(NoteError::Refused(error.to_string()));
            }
        }
        consumer.commit_settled(settled);
        self.is_pending = false;
        Ok(())
    }
}

/// How far a member is at this moment.
fn progress(
    sender: &Sender,
    consumer: &Consumer,
    settled: Position,
    state: GatewayState,
) -> Progress {
    // First the clock: what is accepted later may be waiting already.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let status = consumer.status();
    let age = match status.waiting.items {
        0 => Duration::ZERO,
        _ => status.waiting.oldest_age.unwrap_or_default(),
    };
    Progress {
        position: settled.0,
        end: sender.backend.journal_end().0.max(settled.0),
        whole_until: now.saturating_sub(age),
        lacks: status.dead_lettered + status.dropped_total(),
        given_up: status.dropped_oldest + status.dropped_damaged,
        state,
    }
}
