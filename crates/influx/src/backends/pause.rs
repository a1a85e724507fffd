//! The place of the journal that no delivery to a cluster's member passes while a statement runs on
//! all of them.

use journal::Position;
use tokio::sync::watch;

/// Stops the deliveries to members at one place.
#[derive(Debug, Default)]
pub(super) struct Pause(watch::Sender<Option<Position>>);

impl Pause {
    /// What a delivery looks at.
    pub(super) fn line(&self) -> PauseLine {
        PauseLine(self.0.subscribe())
    }

    /// Has deliveries stop at a place, or go on.
    pub(super) fn set(&self, at: Option<Position>) {
        self.0.send_replace(at);
    }
}

/// The place that one delivery does not pass.
#[derive(Debug)]
pub struct PauseLine(watch::Receiver<Option<Position>>);

impl PauseLine {
    /// The place of this moment; `None` where deliveries go on.
    pub fn place(&mut self) -> Option<Position> {
        *self.0.borrow_and_update()
    }

    /// Waits until that is not what [`place`](Self::place) has told.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left to pause a delivery, which then ends by its drain.
            std::future::pending::<()>().await;
        }
    }
}
