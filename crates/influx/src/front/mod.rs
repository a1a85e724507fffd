//! The front end: connections come in by HTTP and UDP, writes become journal records and are
//! acknowledged when the journal says so, queries are passed on to a backend.

#![expect(clippy::result_large_err, reason = "the error is the answer, moved once on a cold path")]

mod answer;
mod append;
mod aside;
mod ask;
mod auth;
mod body;
mod credentials;
mod destination;
mod execution;
mod failures;
mod gateway;
mod gzip;
mod http;
mod large;
mod metrics;
mod origin;
mod parameters;
mod parking;
mod passed;
mod passwords;
mod ping;
mod query;
mod request_id;
mod requests;
mod results;
pub mod settings;
mod short;
mod stages;
mod stamp;
mod streamed;
mod udp;
mod unsent;
mod vars;
mod write;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use gateway::{Gateway, OpenError};
use request_id::RequestIds;
pub use stages::STAGES;

/// The front end on one worker.
struct Front {
    gateway: Arc<Gateway>,
    worker: flow::Worker,
    appender: journal::Appender,
    ids: RequestIds,
    /// Where a request's points are made before they are appended; kept for the next one.
    points: RefCell<Vec<u8>>,
    /// The same for the record's header.
    header: RefCell<Vec<u8>>,
    date: short::Date,
    /// The connections that only write; `None` where all go the long way.
    short: Option<short::Short>,
    /// What the embedded store can refuse before the journal has it.
    checker: Option<RefCell<store::Checker>>,
}

/// A points buffer that has grown past this is given back after use, so that a few large bodies
/// do not hold memory for ever.
const POINTS_KEPT_MAX: usize = 1 << 20;

impl Front {
    fn new(gateway: Arc<Gateway>, worker: flow::Worker, appender: journal::Appender) -> Self {
        let checker = gateway
            .backends
            .embedded()
            .map(|embedded| RefCell::new(store::Checker::new(Arc::clone(embedded.store()))));
        Self {
            checker,
            gateway,
            worker,
            appender,
            ids: RequestIds::new(),
            points: RefCell::default(),
            header: RefCell::default(),
            date: short::Date::default(),
            short: short::Short::new().map_err(short::unavailable).ok(),
        }
    }
}

/// Nanoseconds since 1970.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
