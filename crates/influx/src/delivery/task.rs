//! The delivery to one backend: records from the journal go out in order, the cursor follows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flow::drain::Drain;
use flow::rate::RateLimit;
use journal::{ConsumeError, Outcome};

use super::batch::Window;
use super::dead_letters::DeadLetters;
use super::intake::{Intake, Next, OwnedStatement};
use super::notes::NoteWriter;
use super::sender::{Interrupted, Sender};
use super::settle::{Beside, Settled, settle};
use super::statement;
use crate::backends::Backends;
use crate::placement::{GatewayState, REBUILDING};

/// A backlog older than this is being caught up with, and held to `catch-up-rate`.
const CATCHING_UP: Duration = Duration::from_secs(2);

/// The delivery to one backend.
pub(crate) struct Task {
    pub(super) sender: Sender,
    pub(super) intake: Intake,
    pub(super) notes: NoteWriter,
    pub(super) letters: Arc<Mutex<DeadLetters>>,
    pub(super) backends: Arc<Backends>,
    pub(super) rate: RateLimit,
    pub(super) drain: Drain,
}

impl Task {
    /// Delivers until the drain starts, the journal is closed, or a cluster has another table. What
    /// is not settled then is delivered again by the next task.
    pub(crate) async fn run(mut self) -> Interrupted {
        let interrupted = self.deliver().await;
        let state = match self.backends.drain.is_started() {
            true => GatewayState::Ended,
            false => GatewayState::Running,
        };
        self.notes.end(&self.sender, &mut self.intake, state).await;
        interrupted
    }

    async fn deliver(&mut self) -> Interrupted {
        let mut window = Window::default();
        let stopping = self.drain.clone();
        loop {
            if let Err(interrupted) = self.hold_while_rebuilding().await {
                return interrupted;
            }
            let limits = self.sender.sizing.limits();
            let linger = self.sender.backend.settings().linger;
            let next = tokio::select! {
                biased;
                () = stopping.started() => return Interrupted::Ends,
                () = self.notes.due(&self.sender) => Ok(Next::Window),
                next = self.intake.fill(&mut window, limits, linger) => next,
            };
            self.sender.chosen_by = self.intake.chosen_by();
            let went = match next {
                Ok(Next::HeldBack) => self.held_back().await,
                Ok(Next::Paused) => self.paused().await,
                Ok(Next::Window) if window.is_empty() => Ok(()),
                Ok(Next::Window) => self.window(&mut window).await,
                Ok(Next::Statement(statement)) => self.statement(&statement).await,
                Err(ConsumeError::Closed) => return Interrupted::Ends,
                Err(error @ ConsumeError::Forgotten { .. }) => {
                    self.sender.backend.standing().stopped(&error.to_string());
                    return Interrupted::Ends;
                }
                Err(error) => self.sender.stop(&error.to_string()).await,
            };
            let noted = match went {
                Ok(()) => self.notes.keep_written(&mut self.sender, &mut self.intake).await,
                Err(interrupted) => return interrupted,
            };
            if let Err(interrupted) = noted {
                return interrupted;
            }
            self.note_when_caught_up();
        }
    }

    /// Takes nothing from the journal while the member is being rebuilt: all behind the cursor
    /// waits for it, and the note there says where that is.
    async fn hold_while_rebuilding(&mut self) -> Result<(), Interrupted> {
        while self.sender.backend.is_rebuilding() {
            self.notes.keep_written(&mut self.sender, &mut self.intake).await?;
            self.sender.wait_for_agreement(REBUILDING).await?;
        }
        Ok(())
    }

    /// Waits while a statement runs on all members, or until a note is due.
    async fn paused(&mut self) -> Result<(), Interrupted> {
        let (notes, sender) = (&self.notes, &self.sender);
        tokio::select! {
            () = notes.due(sender) => Ok(()),
            () = self.intake.resumed() => Ok(()),
            () = self.drain.started() => Err(Interrupted::Ends),
        }
    }

    /// Says why points wait: the member's own reason first.
    async fn held_back(&mut self) -> Result<(), Interrupted> {
        self.sender.wait_until_fit().await?;
        let awaited = self.sender.chosen_by.awaited();
        self.sender.wait_for_agreement(&awaited).await
    }

    async fn window(&mut self, window: &mut Window) -> Result<(), Interrupted> {
        self.set_oldest(window.oldest());
        // What is left to other sets is settled without a request.
        self.sender.wait_until_fit().await?;
        let mut settled = Settled::default();
        let limits = self.sender.sizing.limits();
        for batch in window.batches() {
            let body = batch.take_body();
            let mut around = Beside::default();
            for piece in batch.pieces(&body, limits) {
                if self.sender.catching_up {
                    self.rate_of(piece.points).await?;
                }
                let (sender, intake) = (&mut self.sender, &mut self.intake);
                around.behind = piece.behind(&body);
                let done =
                    settle(sender, &self.letters, intake, batch, &piece, &mut around).await?;
                settled.delivered += done.delivered;
                settled.dead += done.dead;
            }
            drop(around);
            batch.restore(body);
        }
        if let Some(end) = window.end() {
            self.settled();
            let done = Outcome {
                delivered: settled.delivered,
                dead_lettered: settled.dead,
                dropped: 0,
                elsewhere: window.elsewhere(),
            };
            self.notes.settled(&self.sender, &mut self.intake, end, done);
            if settled.dead > 0 {
                self.letters.lock().unwrap_or_else(PoisonError::into_inner).committed(end.0);
            }
        }
        window.clear();
        Ok(())
    }

    async fn rate_of(&self, points: u64) -> Result<(), Interrupted> {
        tokio::select! {
            () = self.rate.take(points) => Ok(()),
            () = self.drain.started() => Err(Interrupted::Ends),
        }
    }

    async fn statement(&mut self, statement: &OwnedStatement) -> Result<(), Interrupted> {
        self.set_oldest(statement.written_at);
        let ran = statement::run(&mut self.sender, statement).await?;
        self.settled();
        let name = &self.sender.backend.name().to_owned();
        self.sender.catalogue.executed(name, statement.position);
        self.backends.statement_ran(statement.id, name, &ran);
        let (sender, end) = (&mut self.sender, statement.end);
        if sender.chosen_by.is_of_set() {
            self.notes.settled(sender, &mut self.intake, end, Outcome::default());
            self.notes.write_now(sender, &mut self.intake).await?;
        }
        let committed = self.intake.consumer().commit_and_sync(end, Outcome::default());
        if let Err(error) = committed.await {
            // Then it runs again after the next start, as does all that follows it.
            tracing::warn!(backend = name, %error, "cursor is not kept after a statement");
        }
        self.sender.backend.standing().set_place(end);
        // In the background: the next points need not wait for a listing.
        let catalogue = Arc::clone(&self.sender.catalogue);
        let name = name.clone();
        tokio::spawn(async move { catalogue.refresh_one(&name).await });
        Ok(())
    }

    /// Says so before the account does: where nothing waits, nobody is asked to act. What was
    /// tried again and again may have ended as a dead letter or been given up, with nothing
    /// behind it to succeed.
    fn settled(&self) {
        self.sender.backend.standing().settled(self.sender.catching_up);
    }

    fn set_oldest(&mut self, written_at: u64) {
        self.sender.backend.standing().set_oldest(written_at);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = now.saturating_sub(Duration::from_nanos(written_at));
        self.sender.instruments.queue_age.observe(age);
        self.sender.catching_up = age > CATCHING_UP;
    }

    /// While there is a backlog the last known age stays until the next window has its own.
    fn note_when_caught_up(&mut self) {
        if self.intake.consumer().backlog().items == 0 {
            self.sender.backend.standing().caught_up();
        }
    }
}
