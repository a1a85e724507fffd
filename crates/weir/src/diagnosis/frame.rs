//! What a viewer hears each second.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::Event;
use super::findings::Finding;

/// One second of a running Weir.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Frame {
    /// Its number, which grows by one a second.
    pub number: u64,
    /// When it was made, in seconds since 1970.
    pub at: f64,
    /// What `/status` says, but for the points of clients.
    pub status: Value,
    /// The newest value of each line that is drawn, by its name.
    pub series: BTreeMap<String, f64>,
    /// Seconds until each backend of InfluxDB has caught up; those that have, or that do not, are
    /// absent.
    #[serde(default)]
    pub caught_up: BTreeMap<String, f64>,
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
    /// The number of the newest event.
    pub last_event: u64,
    /// Events of the last seconds. Whoever has missed some asks for the history.
    pub events: Vec<Event>,
}
