//! The tags that a connection's points get, so that writers who know nothing of one another
//! never overwrite each other's points.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wire::line::StampTag;

/// The tags of one connection.
#[derive(Debug, Default)]
pub struct Stamp(Vec<StampTag>);

impl Stamp {
    /// The configured tags with `peer` and `peer-port` resolved. A tag that cannot be written in
    /// line protocol was refused when the configuration was read, so none is lost here.
    pub fn of(settings: &BTreeMap<String, String>, peer: SocketAddr) -> Self {
        let tag = |(key, value): (&String, &String)| {
            let value = match value.as_str() {
                "peer" => peer.ip().to_canonical().to_string(),
                "peer-port" => format!("{}:{}", peer.ip().to_canonical(), peer.port()),
                fixed => fixed.to_owned(),
            };
            StampTag::new(key, &value).ok()
        };
        Self(settings.iter().filter_map(tag).collect())
    }

    /// Whether the tags differ from one client to another.
    pub fn is_by_peer(settings: &BTreeMap<String, String>) -> bool {
        settings.values().any(|value| matches!(&**value, "peer" | "peer-port"))
    }

    /// The tags, in the order of their keys.
    pub fn tags(&self) -> &[StampTag] {
        &self.0
    }
}
