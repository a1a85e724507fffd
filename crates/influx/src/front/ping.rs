//! `/ping`, `/health` and `/ready`: is it there, and does it take writes.

use flow::front::Front as _;
use http::StatusCode;
use http::request::Parts;

use super::Front;
use super::answer::{self, Answer};

/// 204, or 200 with the version where `verbose` is other than empty, `0` and `false`.
pub fn ping(front: &Front, head: &Parts) -> Answer {
    let query = head.uri.query().unwrap_or_default();
    let verbose = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "verbose");
    match verbose.as_ref().map(|(_, value)| &**value) {
        None | Some("" | "0" | "false") => answer::empty(StatusCode::NO_CONTENT),
        Some(_) => {
            let version = serde_json::json!({ "version": front.gateway.live().version.text });
            answer::json(StatusCode::OK, version.to_string())
        }
    }
}

/// The 2.x health document: `pass`, or `fail` and why.
pub fn health(front: &Front) -> Answer {
    let ready = front.gateway.ready();
    let body = serde_json::json!({
        "name": "influxdb",
        "message": ready.as_ref().err().map_or("ready for queries and writes", |why| why),
        "status": if ready.is_ok() { "pass" } else { "fail" },
        "checks": [],
        "version": front.gateway.live().version.text,
    });
    answer::json(status(&ready), body.to_string())
}

/// What a load balancer asks: 200 while writes are taken, else 503 and why.
pub fn ready(front: &Front) -> Answer {
    let ready = front.gateway.ready();
    let body = match &ready {
        Ok(()) => serde_json::json!({ "status": "ready" }),
        Err(why) => serde_json::json!({ "status": "not ready", "message": why }),
    };
    answer::json(status(&ready), body.to_string())
}

fn status(ready: &Result<(), String>) -> StatusCode {
    if ready.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
