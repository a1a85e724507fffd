//! What each gateway writes on each member, over and over: how far it has brought it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::disk_number::DiskNumber;

/// The name that a gateway's notes have: its journal's, drawn when it first was of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GatewayId(String);

/// The last note of each gateway on one member.
pub type MemberNotes = BTreeMap<GatewayId, Note>;

/// What a gateway says of a member, to itself and to all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The machine that the gateway runs on, for people.
    pub host: String,
    /// Drawn at each start of the gateway.
    pub run: u64,
    /// How many notes that run has written on the member, with this one.
    pub count: u64,
    /// The disk of the member, as its table had it when the note was written.
    #[serde(default)]
    pub disk: Option<DiskNumber>,
    #[serde(flatten)]
    pub progress: Progress,
}

/// How far a member has been brought, by the journal of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The place of the gateway's journal up to which all that is the member's is there.
    pub position: u64,
    /// Where the gateway's journal ended.
    pub end: u64,
    /// Until when, by the gateway's clock, all that it had accepted is there; since 1970.
    pub whole_until: Duration,
    /// Points before `position` that the member will never be given.
    pub lacks: u64,
    /// Those of them that the journal gave up or lost by itself.
    pub given_up: u64,
    pub state: GatewayState,
}

/// Whether more is to come from a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayState {
    Running,
    /// It has ended in order.
    Ended,
    /// Somebody has given it up: what it still holds is not waited for, and it writes no more.
    Forgotten,
}

impl GatewayId {
    /// A name that no other gateway has.
    pub fn new() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for GatewayId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Note {
    /// The line that puts it on a member, in the place of the gateway's one before.
    pub fn line(&self, gateway: &GatewayId) -> Vec<u8> {
        // Strings and numbers can always be written.
        let text = serde_json::to_string(self).unwrap_or_default();
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("note,gateway={gateway} note=\"{text}\" 0\n").into_bytes()
    }
}

impl Progress {
    /// Whether all that the gateway had accepted when it was noted is on the member.
    pub fn is_whole(&self) -> bool {
        self.position >= self.end
    }
}

/// The note in a series of a statement's result; what can't be read is none.
pub fn read_note(series: &Value) -> Option<(GatewayId, Note)> {
    let gateway = series.pointer("/tags/gateway")?.as_str()?;
    let text = series.pointer("/values/0/2")?.as_str()?;
    Some((GatewayId::from(gateway), serde_json::from_str(text).ok()?))
}
