//! How long what is asked of a server takes, in the line before it and there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::metrics::{Histogram, Share};

/// How long requests take that go one way to one server. Clones count the same ones.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// Waiting for a server connection, or on a lane for those before.
    pub queue: Histogram,
    /// From the sending to the server until its answer.
    pub server: Histogram,
    /// From the client's request until its answer.
    pub total: Histogram,
}

impl Latencies {
    /// A request was answered that had waited for a server, or for its turn on a lane, and was then
    /// run.
    #[inline]
    pub fn observe(&self, queued: Duration, ran: Duration) {
        self.queue.observe(queued);
        self.server.observe(ran);
        self.total.observe(queued + ran);
    }

    /// The same for one thread alone, which counts with each of very many requests.
    pub fn of_one_thread(&self) -> OneThreads {
        OneThreads {
            queue: self.queue.share(),
            server: self.server.share(),
            total: self.total.share(),
        }
    }

    /// What half of the requests keep to, and 99 of 100; `None` before the first.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let of =
            |histogram: &Histogram| Some([histogram.quantile(0.5)?, histogram.quantile(0.99)?]);
        Some(Percentiles {
            queue: of(&self.queue)?,
            server: of(&self.server)?,
            total: of(&self.total)?,
        })
    }
}

/// One thread's part of [`Latencies`].
#[derive(Debug)]
pub struct OneThreads {
    queue: Share,
    server: Share,
    total: Share,
}

impl OneThreads {
    /// As [`Latencies::observe`], without an atomic operation.
    #[inline]
    pub fn observe(&self, queued: Duration, ran: Duration) {
        self.queue.observe(queued);
        self.server.observe(ran);
        self.total.observe(queued + ran);
    }
}

impl OneThreads {
    /// A request was answered with what was asked for another: its client has waited so long.
    #[inline]
    pub fn observe_total(&self, took: Duration) {
        self.total.observe(took);
    }
}

/// How long requests took since the start: what half of them keep to, and 99 of 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentiles {
    /// Waiting for a server connection, or on a lane for those before.
    pub queue: [Duration; 2],
    /// From the sending to the server until its answer.
    pub server: [Duration; 2],
    /// From the client's request until its answer.
    pub total: [Duration; 2],
}

/// How long requests that go one way to a server took since the start, in seconds: what half of
/// them keep to, and 99 of 100.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How the requests go: `lane` or `lease`.
    pub way: String,
    /// Waiting for a server connection, or on a lane for those before.
    pub queue: [f64; 2],
    /// From the sending to the server until its answer.
    pub server: [f64; 2],
    /// From the client's request until its answer.
    pub total: [f64; 2],
}

impl Latency {
    /// Of requests that went this way.
    pub fn of(way: &str, took: &Percentiles) -> Self {
        let seconds = |of: [Duration; 2]| of.map(|took| took.as_secs_f64());
        Self {
            way: way.to_owned(),
            queue: seconds(took.queue),
            server: seconds(took.server),
            total: seconds(took.total),
        }
    }
}
