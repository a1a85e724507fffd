//! Opening what a delivery works with: the cursor, the dead letters, the ways to its backend.

use std::path::Path;
use std::sync::{Arc, Mutex};

use flow::rate::RateLimit;
use journal::{Consumer, CursorError, Journal, Position};
use watch::metrics::Registry;

use super::batch::Limits;
use super::dead_letters::{DeadLetters, LetterError, dir_of};
use super::instruments::Instruments;
use super::intake::Intake;
use super::notes::NoteWriter;
use super::sender::{Pace, Sender};
use super::sizing::Sizing;
use super::task::Task;
use crate::backends::{Backend, Backends};
use crate::catalogue::{Catalogue, CatalogueError};
use crate::client::ClientError;
use crate::placement::Membership;
use crate::settings::{DeliverySettings, Start};

/// Why delivery cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A backend's password or certificate files cannot be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A backend's cursor cannot be opened.
    #[error("influx.backend {backend:?}: {source}")]
    Cursor {
        /// The backend's name in the configuration.
        backend: String,
        /// What the journal says.
        source: CursorError,
    },
    /// A backend's dead letters cannot be opened.
    #[error("influx.backend {backend:?}: {source}")]
    Letters {
        /// The backend's name in the configuration.
        backend: String,
        /// What is wrong with them.
        source: LetterError,
    },
    /// Deliveries that are to end, by reloads before this one, take their time.
    #[error("reloads before this one are not carried out yet; reload again in a few seconds")]
    TooManyReloads,
    /// The catalogue cannot be read.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

impl Task {
    /// The delivery to `backend`, from the cursor that the journal has for it.
    ///
    /// # Errors
    /// When its cursor or its dead letters cannot be used.
    pub(crate) fn open(
        backend: &Arc<Backend>,
        backends: &Arc<Backends>,
        catalogue: &Arc<Catalogue>,
        journal: &Journal,
        dir: &Path,
        registry: &Registry,
        pace: Pace,
    ) -> Result<Self, StartError> {
        let (settings, name) = (backend.settings(), backend.name());
        let membership = Membership::new(backends.placement(), name);
        let mut delivery = settings.delivery.clone();
        if membership.is_of_set() {
            // Whatever the journal has may be its own.
            delivery.start = Start::Oldest;
        }
        let consumer = open_cursor(&delivery, journal)?;
        let cursor = consumer.position();
        let letters = open_letters(&settings.delivery, dir, cursor)?;
        letters.last_reason().into_iter().for_each(|words| backend.standing().refused(words));
        // The record at the cursor has not been executed, everything before it has.
        catalogue.executed(name, Position(cursor.0.saturating_sub(1)));
        let limits = Limits { points: settings.batch_points.into(), bytes: settings.batch_bytes };
        let instruments = Instruments::new(name, registry);
        let chosen_by = membership.table().clone();
        let unreadable = instruments.unreadable.clone();
        let intake = Intake::new(consumer, membership, backends.pause(), unreadable);
        backend.standing().set_place(cursor);
        let sender = Sender::new(
            Arc::clone(backend),
            Arc::clone(catalogue),
            instruments,
            Sizing::new(limits),
            chosen_by,
            pace,
        );
        // A batch more than the rate allows in a tenth of a second would make waves.
        let rate = RateLimit::new(settings.catch_up_rate, settings.catch_up_rate / 10);
        Ok(Self {
            sender,
            intake,
            notes: NoteWriter::new(cursor),
            letters: Arc::new(Mutex::new(letters)),
            backends: Arc::clone(backends),
            rate,
            drain: backend.drain().clone(),
        })
    }
}

/// The cursor of a backend's name, where the journal has left it.
///
/// # Errors
/// What the journal says.
pub(crate) fn open_cursor(
    settings: &DeliverySettings,
    journal: &Journal,
) -> Result<Consumer, StartError> {
    let start = match settings.start {
        Start::End => journal::Start::End,
        Start::Oldest => journal::Start::Oldest,
    };
    let consumer = journal.consumer(&settings.name, start);
    consumer.map_err(|source| StartError::Cursor { backend: settings.name.clone(), source })
}

/// The dead letters of a backend, as far as its cursor has come.
///
/// # Errors
/// When their file cannot be read.
pub(crate) fn open_letters(
    settings: &DeliverySettings,
    dir: &Path,
    cursor: Position,
) -> Result<DeadLetters, StartError> {
    let (name, letters_max) = (&settings.name, settings.dead_letters_max.bytes());
    DeadLetters::open(&dir_of(dir), name, letters_max, cursor.0)
        .map_err(|source| StartError::Letters { backend: name.clone(), source })
}
