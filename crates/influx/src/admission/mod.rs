//! The one way of points into the journal, whoever brings them: plain writes, large ones, UDP and
//! `SELECT INTO` make [`Points`] of their bytes, and have them admitted.
//!
//! Two steps, since InfluxDB's faults have an order: names are found before a body is read, points
//! are admitted once it has been. Each step has a form that answers now, for a worker that must not
//! wait, and one that waits: [`Admission::find`] and [`Admission::resolve`],
//! [`Admission::room_now`] and [`Admission::room`], [`WorkerAdmission::admit_now`] and the two
//! `admit`, which return once the journal has acknowledged the points. Refusals are values; each
//! way in has its own words for them.

mod names;
mod points;
mod refusal;
mod statement;
#[cfg(test)]
mod tests;
mod waiting;
mod worker;

use std::sync::Arc;

use journal::Journal;
use watch::metrics::Counter;
use watch::watchdog::Stage;
use wire::line::{MarkKey, Marks, NewestTime, Notes, Sample, Sampler};

pub use self::names::{Destination, NameError};
pub use self::points::{Admitted, Points};
pub use self::refusal::{NotAdmitted, Refusal};
pub use self::statement::change_in;
pub use self::worker::WorkerAdmission;
use crate::aside::Aside;
use crate::backends::Backends;
use crate::catalogue::Catalogue;
use crate::clock::now_ns;
use crate::collisions::Collisions;
use crate::embedded::Embedded;
use crate::placement::NotTaken;

/// Appending to the journal's group, as the watchdog calls it.
pub static APPEND: Stage = Stage::new("append");

/// What all workers admit points with, and whoever is no worker.
pub struct Admission {
    catalogue: Arc<Catalogue>,
    backends: Arc<Backends>,
    embedded: Option<Arc<Embedded>>,
    journal: Journal,
    /// The way into the journal of all who are not workers.
    appender: journal::Appender,
    aside: Aside,
    /// Held while a database is made for a write, so that it is made once.
    creating: tokio::sync::Mutex<()>,
    /// Counts points that the embedded store would not take.
    points_refused: Counter,
    /// The key of the marks of all points.
    mark_key: MarkKey,
    /// What looks for points that overwrite each other, unless that is off.
    collisions: Option<Arc<Collisions>>,
}

/// The embedded store, where there is one, lets the journal run on: points may be admitted now.
#[derive(Debug, Clone, Copy)]
pub struct Room(());

impl Admission {
    /// Admission to `journal`, of points to names that `catalogue` or the embedded store knows.
    pub fn new(
        catalogue: Arc<Catalogue>,
        backends: Arc<Backends>,
        embedded: Option<Arc<Embedded>>,
        journal: &Journal,
        aside: Aside,
        points_refused: Counter,
        collisions: Option<Arc<Collisions>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            catalogue,
            backends,
            embedded,
            journal: journal.clone(),
            appender: journal.common_appender(),
            aside,
            creating: tokio::sync::Mutex::default(),
            points_refused,
            mark_key: MarkKey::default(),
            collisions,
        })
    }

    /// No points yet. Those to come are marked where the embedded store or a cluster's table checks
    /// each by that, and some of them are chosen where collisions are looked for among them.
    pub fn points(&self) -> Points {
        let table = self.backends.placement().table();
        let is_checked =
            self.embedded.is_some() || table.as_ref().is_some_and(|table| table.looks_at_fields());
        let marks = is_checked.then(|| Marks::new(self.mark_key.clone()));
        let newest = table.map(|_| NewestTime::default());
        let sample = self.sampler().map(Sample::new);
        Points::new(Vec::new(), Notes { marks, newest, sample })
    }

    /// Forgets points that are no longer needed, and keeps their room for others.
    pub fn restart(&self, points: &mut Points) {
        points.restart(self.sampler());
    }

    /// Takes out of a write's points those that could not be found again in a cluster.
    fn leave_out_unplaced(&self, db: &str, points: &mut Points) {
        let Some(table) = self.backends.placement().table() else { return };
        let now_ns = now_ns();
        let are_taken = |newest_ns| newest_ns <= table.newest_taken_ns(now_ns);
        if !table.looks_at_fields() && points.newest_ns().is_some_and(are_taken) {
            return;
        }
        let (lines, marks) = points.marked(&self.mark_key);
        let NotTaken { numbers, reason } = table.not_taken(db, lines, marks, now_ns);
        self.points_refused.add(u64::from(points.leave_out(&numbers, reason)));
    }

    fn sampler(&self) -> Option<Sampler> {
        self.collisions.as_ref().map(|collisions| collisions.sampler())
    }

    /// Whether points may be admitted at this moment; `None` where the embedded store is behind.
    pub fn room_now(&self) -> Option<Room> {
        match &self.embedded {
            Some(embedded) if !embedded.has_room() => None,
            _ => Some(Room(())),
        }
    }

    /// Waits a moment until the embedded store is not too far behind.
    ///
    /// # Errors
    /// [`Refusal::Behind`] when it still is.
    pub async fn room(&self) -> Result<Room, Refusal> {
        if let Some(embedded) = &self.embedded {
            embedded.room().await?;
        }
        Ok(Room(()))
    }
}
