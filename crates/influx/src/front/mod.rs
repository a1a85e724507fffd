//! The front end: connections come in by HTTP and UDP, writes become journal records and are
//! acknowledged when the journal says so, queries are passed on to a backend.

#![expect(clippy::result_large_err, reason = "the error is the answer, moved once on a cold path")]

// Layers, from the top down; `self` is what this file defines.
//   destination, large, query
//   changes
//   ask, results, routing
//   fetch
//   passed
//   execution, joint, refusals, streamed
//   gateway, unsent
//   metrics, short, udp
//   http, live
//   origin, parking, ping, requests, stamp, vars, write
//   writer
//   auth, body, gzip, parameters, self
//   answer, credentials, request_id, stages, tokens

mod answer;
mod ask;
mod auth;
mod body;
mod changes;
mod credentials;
mod destination;
mod execution;
mod fetch;
mod gateway;
mod gzip;
mod http;
mod joint;
mod large;
mod live;
mod metrics;
mod origin;
mod parameters;
mod parking;
mod passed;
mod ping;
mod query;
mod refusals;
mod request_id;
mod requests;
mod results;
pub(crate) mod routing;
mod short;
mod stages;
mod stamp;
mod streamed;
mod tokens;
mod udp;
mod unsent;
mod vars;
mod write;
mod writer;

use std::sync::Arc;

pub use gateway::{Gateway, OpenError};
use request_id::RequestIds;
pub use stages::STAGES;

use crate::admission::WorkerAdmission;
use crate::clock::now_ns;

/// The front end on one worker.
struct Front {
    gateway: Arc<Gateway>,
    worker: flow::Worker,
    ids: RequestIds,
    admission: WorkerAdmission,
    date: short::Date,
    /// The connections that only write; `None` where all go the long way.
    short: Option<short::Short>,
}

impl Front {
    fn new(gateway: Arc<Gateway>, worker: flow::Worker, admission: WorkerAdmission) -> Self {
        Self {
            gateway,
            worker,
            ids: RequestIds::new(),
            admission,
            date: short::Date::default(),
            short: short::Short::new().map_err(short::unavailable).ok(),
        }
    }
}
