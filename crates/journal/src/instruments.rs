//! The metrics that are counted as things happen.

use watch::metrics::{Counter, Histogram, Registry};

use crate::error::AppendError;

/// What is counted while it happens; the rest is read off the journal when metrics are asked for.
#[derive(Debug)]
pub(crate) struct Instruments {
    pub groups: Counter,
    pub records: Counter,
    pub items: Counter,
    pub controls: Counter,
    pub bytes: Counter,
    pub wait: Histogram,
    pub write: Histogram,
    pub sync: Histogram,
    pub ack_timeouts: Counter,
    pub damaged: Counter,
    refused: [Counter; 6],
}

impl Instruments {
    pub fn new(registry: &Registry) -> Instruments {
        let counter = |name, help| registry.counter(name, help, &[]);
        let histogram = |name, help| registry.histogram(name, help, &[]);
        let refused = |reason| {
            registry.counter(
                "weir_journal_refused_total",
                "Records that were not taken, by reason.",
                &[("reason", reason)],
            )
        };
        Instruments {
            groups: counter("weir_journal_groups_total", "Groups written."),
            records: counter("weir_journal_records_total", "Records written."),
            items: counter("weir_journal_items_total", "Items written, such as points."),
            controls: counter(
                "weir_journal_controls_total",
                "Control records written, such as statements.",
            ),
            bytes: counter(
                "weir_journal_appended_bytes_total",
                "Bytes of records written, with their headers.",
            ),
            wait: histogram(
                "weir_journal_wait_seconds",
                "From a group's first record coming in to its acknowledgement.",
            ),
            write: histogram("weir_journal_write_seconds", "Writing one group."),
            sync: histogram("weir_journal_sync_seconds", "One fdatasync of the journal."),
            ack_timeouts: counter(
                "weir_journal_ack_timeouts_total",
                "Writes that were not acknowledged within ack-timeout.",
            ),
            damaged: counter(
                "weir_journal_damaged_places_total",
                "Places of the journal that could not be read.",
            ),
            refused: ["busy", "full", "disk-full", "poisoned", "too-large", "closed"].map(refused),
        }
    }

    pub fn refuse(&self, error: &AppendError) {
        let at = match error {
            AppendError::Busy => 0,
            AppendError::Full => 1,
            AppendError::DiskFull => 2,
            AppendError::Poisoned => 3,
            AppendError::TooLarge { .. } => 4,
            AppendError::Closed => 5,
        };
        self.refused[at].inc();
    }
}
