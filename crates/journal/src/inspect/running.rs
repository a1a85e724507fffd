//! What is read off a journal when somebody asks: its state, and the metrics that nobody counts.

use std::sync::Arc;
use std::time::Duration;

use watch::metrics::{Encoder, Registry};

use crate::cursors::Cursors;
use crate::cursors::ledger::LedgerSummary;
use crate::log::Log;
use crate::log::gate::Room;
use crate::owners::Owners;
use crate::status::{CursorStatus, Status};

/// The state of the whole journal.
pub(crate) fn status(log: &Log, cursors: &Cursors) -> Status {
    let (bytes_used, segments) = log.usage();
    let rates = log.rates();
    let LedgerSummary { ends, tail_bytes, backlog_bytes: held, damage } = cursors.summary();
    let bytes_max = log.settings().max_size.bytes();
    // One segment is being written and one is ready before any is full of backlog.
    let free = bytes_max.saturating_sub(held + 2 * log.segment_len());
    let until_full = (rates.growth >= 1.0)
        .then(|| Duration::try_from_secs_f64(free as f64 / rates.growth).ok())
        .flatten();
    let room = log.gate().room();
    Status {
        ack: log.settings().ack,
        when_full: log.settings().when_full,
        poisoned: log.gate().poisoned().map(str::to_owned),
        full: room == Room::Full,
        disk_full: room == Room::DiskFull,
        bytes_used,
        bytes_max,
        segments,
        pending_bytes: log.gate().pending(),
        tail_bytes: tail_bytes as u64,
        written_end: ends.released,
        synced_end: ends.synced,
        released_end: ends.released,
        accepted: ends.counts,
        appended_bytes_per_second: rates.appended,
        bytes_per_second: rates.growth,
        until_full,
        damage,
    }
}

/// Adds what is read off the journal whenever metrics are asked for.
pub(crate) fn register(registry: &Registry, owners: &Owners) {
    let (log, cursors) = (Arc::downgrade(&owners.log), Arc::downgrade(&owners.cursors));
    registry.collect(move |encoder| {
        if let (Some(log), Some(cursors)) = (log.upgrade(), cursors.upgrade()) {
            journal(&status(&log, &cursors), encoder);
            for cursor in cursors.statuses() {
                of_cursor(&cursor, encoder);
            }
        }
    });
}

fn journal(status: &Status, encoder: &mut Encoder) {
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

fn of_cursor(status: &CursorStatus, encoder: &mut Encoder) {
    let name = status.name.as_str();
    let fates = [
        ("delivered", status.delivered),
        ("dead-lettered", status.dead_lettered),
        ("dropped", status.dropped),
        ("dropped-oldest", status.dropped_oldest),
        ("dropped-damaged", status.dropped_damaged),
        ("elsewhere", status.elsewhere),
    ];
    for (fate, items) in fates {
        encoder.counter(
            "weir_journal_cursor_items_total",
            "Items a cursor is done with, by what became of them.",
            &[("cursor", name), ("fate", fate)],
            items,
        );
    }
    let labels = [("cursor", name)];
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
