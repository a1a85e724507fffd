//! Which servers are watched, and which host each is of.

use std::path::PathBuf;
use std::sync::Arc;

use flow::dial::Address;

use crate::replica::state::State;
use crate::replica::{FollowedMaster, Follower};
use crate::settings::{
    BackendSettings, MAIN, SentinelSettings, Settings, is_of_this_machine, machine, read_address,
};

/// A server that is to be watched, before anything is opened.
pub struct WatchTarget {
    /// A name that no other watched server has.
    pub name: String,
    /// The machine it is on.
    pub host: String,
    /// Its processes may be seen from here.
    pub is_here: bool,
    /// It is known where it is, and so which machine it is on, or that is named.
    pub is_placed: bool,
    /// Where it is, as far as that is known.
    pub at: Option<Address>,
    /// How it is reached.
    pub settings: BackendSettings,
    /// Where it is, as a person is told.
    pub url: String,
    /// Where Weir keeps its file, if it does.
    pub kept: Option<(Arc<State>, PathBuf)>,
}

/// A node of a pool's Cluster, which is logged in to as the pool's servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub pool: String,
    /// A server of the configuration.
    pub like: BackendSettings,
    /// The host and the port where the node listens.
    pub at: (String, u16),
}

/// Where the masters are that Sentinels know.
pub type SentinelMasters = [(SentinelSettings, Address)];

/// Every server once: one that is followed and has keys of a pool, too, is the followed one.
///
/// # Errors
/// What in the settings stands in the way.
pub fn named(
    settings: &Settings,
    follower: Option<&Follower>,
    nodes: &[Node],
    located: &SentinelMasters,
) -> Result<Vec<WatchTarget>, String> {
    let kept = follower.map(Follower::kept).unwrap_or_default();
    // One whose Cluster has not said where it is yet is found later.
    let masters = kept.into_iter().filter(FollowedMaster::is_found).map(of_master);
    let pools = settings.pools();
    let backends = pools
        .iter()
        .flat_map(|(pool, settings)| settings.backend.iter().map(|of| of_pool(pool, of.clone())));
    let nodes = nodes.iter().map(|node| {
        let url = moved(&node.like.url, &node.at);
        let name = format!("{}:{}", node.at.0, node.at.1);
        of_pool(&node.pool, BackendSettings { name, url, host: None, ..node.like.clone() })
    });
    let mut all: Vec<WatchTarget> = Vec::new();
    for mut named in masters.chain(backends).chain(nodes) {
        named.place(located)?;
        if all.iter().any(|other| other.is_same(&named)) {
            continue;
        }
        if all.iter().any(|other| other.name == named.name) {
            named.name = format!("{MAIN}/{}", named.name);
        }
        if named.host.is_empty() {
            named.host.clone_from(&named.name);
        }
        all.push(named);
    }
    Ok(all)
}

fn of_master(kept: FollowedMaster) -> WatchTarget {
    WatchTarget {
        name: kept.of.name.clone(),
        host: kept.of.host.clone().unwrap_or_default(),
        is_here: false,
        is_placed: false,
        at: None,
        settings: kept.of.backend(),
        url: kept.of.whereabouts(),
        kept: Some((kept.state, kept.dir)),
    }
}

fn of_pool(pool: &str, of: BackendSettings) -> WatchTarget {
    WatchTarget {
        name: match pool {
            MAIN => of.name.clone(),
            pool => format!("{pool}/{}", of.name),
        },
        host: of.host.clone().unwrap_or_default(),
        is_here: false,
        is_placed: false,
        at: None,
        url: of.whereabouts(),
        settings: of,
        kept: None,
    }
}

/// The URL of another server that is reached as this one is.
fn moved(url: &str, (host, port): &(String, u16)) -> String {
    let scheme = if url.starts_with("rediss://") { "rediss" } else { "redis" };
    match host.contains(':') {
        true => format!("{scheme}://[{host}]:{port}"),
        false => format!("{scheme}://{host}:{port}"),
    }
}

impl WatchTarget {
    /// Whether it is the same server, by where it is.
    fn is_same(&self, other: &Self) -> bool {
        self.at.is_some() && self.at == other.at
    }

    /// Says where it is, and which host it is of. Of one whose Sentinels have not said that yet,
    /// none is known.
    fn place(&mut self, located: &SentinelMasters) -> Result<(), String> {
        self.at = match &self.settings.sentinel {
            Some(sentinel) => {
                located.iter().find(|(of, _)| of == sentinel).map(|(_, at)| at.clone())
            }
            None => {
                let reached = read_address(&self.settings.url);
                Some(reached.map_err(|error| error.to_string())?.address)
            }
        };
        self.is_placed = self.at.is_some() || !self.host.is_empty();
        if let Some(at) = &self.at {
            self.is_here = at.host().is_none_or(is_of_this_machine);
            if self.host.is_empty() {
                machine(at.host()).clone_into(&mut self.host);
            }
        }
        Ok(())
    }
}
