//! What fails again and again of the work on files, for whoever looks: the log alone is read too
//! late.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use watch::metrics::Encoder;

/// Work on files that goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Writing memory as files.
    Flush,
    /// Joining files, and looking after damaged ones.
    Compaction,
    /// Dropping what is older than its policy keeps.
    Retention,
}

const ALL: [Work; 3] = [Work::Flush, Work::Compaction, Work::Retention];

impl Work {
    /// As the log and the metrics have it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::Retention => "retention",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Flush => "memory can't be written as files",
            Self::Compaction => "files can't be joined",
            Self::Retention => "what is too old can't be dropped",
        }
    }
}

/// What failed the last time it was tried.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    reasons: Mutex<[Option<String>; 3]>,
    failing: [AtomicBool; 3],
    failures: [AtomicU64; 3],
}

impl Troubles {
    /// Notes how a piece of work went.
    pub(super) fn note<T, E: std::fmt::Display>(&self, work: Work, result: &Result<T, E>) {
        let place = work as usize;
        let mut reasons = self.lock();
        if result.is_err() {
            self.failures[place].fetch_add(1, Ordering::Relaxed);
        }
        self.failing[place].store(result.is_err(), Ordering::Relaxed);
        reasons[place] = result.as_ref().err().map(|error| error.to_string());
    }

    /// Whether a piece of work failed the last time. Every write asks it.
    #[inline]
    pub(super) fn has(&self, work: Work) -> bool {
        self.failing[work as usize].load(Ordering::Relaxed)
    }

    /// The worst of what fails, in words.
    pub(super) fn words(&self) -> Option<String> {
        let reasons = self.lock();
        let mut words = ALL.iter().zip(reasons.iter()).filter_map(|(work, reason)| {
            reason.as_ref().map(|reason| format!("{}: {reason}", work.words()))
        });
        words.next()
    }

    /// Adds what fails to the metrics.
    pub(super) fn show(&self, encoder: &mut Encoder) {
        for work in ALL {
            let labels = [("work", work.name())];
            encoder.gauge(
                "weir_store_failing",
                "1 while work on the store's files fails: it is tried again by itself.",
                &labels,
                u64::from(self.has(work)),
            );
            encoder.counter(
                "weir_store_failures_total",
                "Pieces of work on the store's files that failed.",
                &labels,
                self.failures[work as usize].load(Ordering::Relaxed),
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Option<String>; 3]> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
