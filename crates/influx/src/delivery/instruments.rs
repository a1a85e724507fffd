//! What is measured of one delivery.

use watch::metrics::{Counter, Histogram, Registry};

use crate::client::TransportError;
use crate::client::answer::Answer;

/// The instruments of one backend.
#[derive(Debug)]
pub struct Instruments {
    /// From the ack of a batch's oldest point until the batch is sent.
    pub queue_age: Histogram,
    /// From a batch's first byte to the last of its answer.
    pub request: Histogram,
    /// Points sent, each time they are.
    pub points_sent: Counter,
    /// Bytes of lines sent, before compression.
    pub bytes_sent: Counter,
    /// Points found to be poison.
    pub dead_letters: Counter,
    /// Statements that the backend executed.
    pub statements: Counter,
    /// Statements a backend refused or never executed.
    pub statements_failed: Counter,
    /// Records that could not be read.
    pub unreadable: Counter,
    answers: [Counter; ANSWERS.len()],
}

const ANSWERS: [&str; 12] = [
    "delivered",
    "refused",
    "too-large",
    "missing",
    "denied",
    "busy",
    "overloaded",
    "failed",
    "misdirected",
    "no-connection",
    "timeout",
    "broken",
];

impl Instruments {
    /// The instruments of `backend`.
    pub fn new(backend: &str, registry: &Registry) -> Self {
        let labels = [("backend", backend)];
        let counter = |name: &str, help: &str| registry.counter(name, help, &labels);
        let answer = |answer| {
            registry.counter(
                "weir_influx_delivery_requests_total",
                "Batches sent to a backend, by what its answer meant.",
                &[("backend", backend), ("answer", answer)],
            )
        };
        Self {
            queue_age: registry.histogram(
                "weir_influx_delivery_queue_age_seconds",
                "From the acknowledgement of a batch's oldest point until the batch is sent.",
                &labels,
            ),
            request: registry.histogram(
                "weir_influx_delivery_request_seconds",
                "From the first byte of a batch to the last byte of its answer.",
                &labels,
            ),
            points_sent: counter(
                "weir_influx_delivery_sent_points_total",
                "Points sent to a backend, counted each time they are sent.",
            ),
            bytes_sent: counter(
                "weir_influx_delivery_sent_bytes_total",
                "Bytes of line protocol sent to a backend, before compression.",
            ),
            dead_letters: counter(
                "weir_influx_delivery_poison_points_total",
                "Points put into a backend's dead letters since the start.",
            ),
            statements: counter(
                "weir_influx_delivery_statements_total",
                "Statements executed on a backend.",
            ),
            statements_failed: counter(
                "weir_influx_delivery_statements_failed_total",
                "Statements a backend refused or never executed.",
            ),
            unreadable: counter(
                "weir_influx_delivery_unreadable_records_total",
                "Records of the journal that this version cannot read; they are left out.",
            ),
            answers: ANSWERS.map(answer),
        }
    }

    /// Counts what came of a request.
    pub fn count(&self, answer: &Result<Answer, TransportError>) {
        let place = match answer {
            Ok(Answer::Delivered) => 0,
            Ok(Answer::Refused(_)) => 1,
            Ok(Answer::TooLarge(_)) => 2,
            Ok(Answer::Missing(..)) => 3,
            Ok(Answer::Denied(_)) => 4,
            Ok(Answer::Busy(..)) => 5,
            Ok(Answer::Overloaded(_)) => 6,
            Ok(Answer::Failed(_)) => 7,
            Ok(Answer::Misdirected(_)) => 8,
            Err(TransportError::Connect(_)) => 9,
            Err(TransportError::Timeout(_)) => 10,
            Err(TransportError::Lost(_)) => 11,
            // Nothing was sent: it was found out before.
            Err(TransportError::Unfit(_)) => return,
        };
        self.answers[place].inc();
    }
}
