//! Settling: finds out which types of fields were promised to writes that never came, beside the
//! applying and in the journal's order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use journal::{Journal, Mark, Position};

use super::{Embedded, WaiterGuard};

/// How often promises are looked through that nobody asks about.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a write waits to learn whether a field exists, before it hears 503.
const WAIT: Duration = Duration::from_secs(30);
/// The line past all others: nothing is settled any more.
const ENDED: u64 = u64::MAX;

/// Whether a field exists cannot be told yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a field has another type in a write that is still under way; try again in a moment")]
pub struct Unsettled;

/// How far the settlings have come, for those who wait for one.
#[derive(Debug)]
pub(super) struct Settled {
    line: tokio::sync::watch::Sender<u64>,
    waiting: AtomicUsize,
}

/// The settling under way.
pub(super) struct Settling {
    journal: Journal,
    stage: Stage,
    last: Instant,
}

enum Stage {
    Idle,
    /// Writes that rely on older promises are still on their way into the journal.
    Releasing(u64),
    /// All are in it, and some not written yet.
    Writing(u64, Mark),
    /// All are before this position.
    Applying(u64, Position),
}

impl Embedded {
    /// Waits for the settling that shows what became of the promise with this number.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn settled(&self, number: u64) -> Result<(), Unsettled> {
        let mut line = self.settled.line.subscribe();
        let _asking = Asking::new(self);
        let wait = line.wait_for(|line| *line > number);
        match tokio::time::timeout(WAIT, wait).await {
            Ok(Ok(line)) if *line < ENDED => Ok(()),
            _ => Err(Unsettled),
        }
    }
}

impl Default for Settled {
    fn default() -> Self {
        Self { line: tokio::sync::watch::Sender::new(0), waiting: AtomicUsize::new(0) }
    }
}

impl Settling {
    pub(super) fn new(journal: &Journal) -> Self {
        Self { journal: journal.clone(), stage: Stage::Idle, last: Instant::now() }
    }

    /// Whether it waits for something that is about to come.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Idle)
    }

    /// Goes as far as it can now that everything before `applied` is in the store.
    pub(super) fn go_on(&mut self, embedded: &Embedded, applied: Position) {
        let store = &embedded.store;
        if !self.is_under_way() && self.is_due(embedded) {
            self.stage = Stage::Releasing(store.begin_settling());
        }
        loop {
            let next = match &mut self.stage {
                Stage::Releasing(line) if store.is_released(*line) => {
                    Stage::Writing(*line, self.journal.mark())
                }
                Stage::Writing(line, mark) => match mark.position() {
                    Some(end) => Stage::Applying(*line, end),
                    None => return,
                },
                Stage::Applying(line, end) if *end <= applied => {
                    store.settle(*line);
                    embedded.settled.line.send_replace(*line);
                    Stage::Idle
                }
                Stage::Idle | Stage::Releasing(_) | Stage::Applying(..) => return,
            };
            self.stage = next;
        }
    }

    /// Lets everyone who waits for a settling fail: there will be none any more.
    pub(super) fn end(&self, embedded: &Embedded) {
        embedded.settled.line.send_replace(ENDED);
    }

    fn is_due(&mut self, embedded: &Embedded) -> bool {
        let asked = embedded.settled.waiting.load(Ordering::Acquire) > 0;
        let due = asked || (self.last.elapsed() >= PERIOD && embedded.store.has_promises());
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// Counts as one who wants a settling for as long as it lives.
struct Asking<'a> {
    settled: &'a Settled,
    _hurry: WaiterGuard<'a>,
}

impl<'a> Asking<'a> {
    fn new(embedded: &'a Embedded) -> Self {
        embedded.settled.waiting.fetch_add(1, Ordering::AcqRel);
        Self { settled: &embedded.settled, _hurry: WaiterGuard::new(embedded) }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.settled.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
