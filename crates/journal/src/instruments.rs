//! The journal's metrics.

use std::sync::Weak;

use watch::metrics::{Counter, Encoder, Histogram, Registry};

use crate::core::{Core, lock, now_ns};
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

/// Adds what is read off the journal whenever metrics are asked for.
pub(crate) fn register(registry: &Registry, core: Weak<Core>) {
    registry.collect(move |encoder| {
        if let Some(core) = core.upgrade() {
            journal(&core, encoder);
            cursors(&core, encoder);
        }
    });
}

fn journal(core: &Core, encoder: &mut Encoder) {
    let status = crate::journal::status(core);
    let gauges: [(&str, &str, u64); 9] = [
        ("weir_journal_size_bytes", "Bytes of all segment files.", status.bytes_used),
        ("weir_journal_size_max_bytes", "The configured max-size.", status.bytes_max),
        ("weir_journal_segments", "Segment files.", status.segments),
        (
            "weir_journal_pending_bytes",
            "Bytes waiting to be written as the next group.",
            status.pending_bytes,
        ),
        (
            "weir_journal_tail_bytes",
            "Memory of groups kept for backends that keep up.",
            status.tail_bytes,
        ),
        (
            "weir_journal_poisoned",
            "1 once a sync has failed and nothing is acknowledged any more.",
            u64::from(status.poisoned.is_some()),
        ),
        (
            "weir_journal_full",
            "1 while writes are refused because of max-size.",
            u64::from(status.full),
        ),
        (
            "weir_journal_disk_full",
            "1 while writes are refused because the disk is full.",
            u64::from(status.disk_full),
        ),
        (
            "weir_journal_unsynced_bytes",
            "How far the synced end is behind the written end.",
            status.written_end.since(status.synced_end),
        ),
    ];
    for (name, help, value) in gauges {
        encoder.gauge(name, help, &[], value);
    }
}

fn cursors(core: &Core, encoder: &mut Encoder) {
    let now = now_ns();
    let ledger = lock(&core.ledger);
    for (name, cursor) in &ledger.cursors {
        let status = ledger.status(name, cursor, now);
        let fates = [
            ("delivered", status.delivered),
            ("dead-lettered", status.dead_lettered),
            ("dropped", status.dropped),
            ("dropped-oldest", status.dropped_oldest),
            ("dropped-damaged", status.dropped_damaged),
        ];
        for (fate, items) in fates {
            encoder.counter(
                "weir_journal_cursor_items_total",
                "Items a cursor is done with, by what became of them.",
                &[("cursor", name), ("fate", fate)],
                items,
            );
        }
        let labels = [("cursor", name.as_str())];
        encoder.counter(
            "weir_journal_cursor_accepted_total",
            "Items since the cursor was made: the sum of all fates and of those waiting.",
            &labels,
            status.accepted,
        );
        encoder.counter(
            "weir_journal_cursor_dropped_controls_total",
            "Control records, such as statements, given up or lost.",
            &labels,
            status.dropped_controls,
        );
        let waiting = status.waiting;
        encoder.gauge(
            "weir_journal_cursor_waiting",
            "Items released and not done with.",
            &labels,
            waiting.items,
        );
        encoder.gauge(
            "weir_journal_cursor_waiting_bytes",
            "Bytes of records released and not done with.",
            &labels,
            waiting.bytes,
        );
        encoder.gauge(
            "weir_journal_cursor_age_seconds",
            "Age of the oldest waiting record.",
            &labels,
            waiting.oldest_age.unwrap_or_default().as_secs_f64(),
        );
    }
}
