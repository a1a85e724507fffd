//! Which servers are watched, and which host each is of.

use std::path::PathBuf;
use std::sync::Arc;

use crate::replica::state::State;
use crate::replica::{Follower, Kept};
use crate::settings::{BackendSettings, MAIN, Settings, is_of_this_machine, machine, read_address};

/// A server that is to be watched, before anything is opened.
pub struct Named {
    /// Its name.
    pub name: String,
    /// The machine it is on.
    pub host: String,
    /// Its processes may be seen from here.
    pub is_here: bool,
    /// How it is reached.
    pub settings: BackendSettings,
    /// For a person.
    pub url: String,
    /// Where Weir keeps its file, if it does.
    pub kept: Option<(Arc<State>, PathBuf)>,
}

/// A node of a pool's Cluster, which is logged in to as the pool's servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The pool.
    pub pool: String,
    /// A server of the configuration.
    pub like: BackendSettings,
    /// Where it is.
    pub at: (String, u16),
}

/// Every server once: one that is followed and has keys of a pool, too, is the followed one.
///
/// # Errors
/// What in the settings stands in the way.
pub fn named(
    settings: &Settings,
    follower: Option<&Follower>,
    nodes: &[Node],
) -> Result<Vec<Named>, String> {
    let kept = follower.map(Follower::kept).unwrap_or_default();
    // One whose Cluster has not said where it is yet is found later.
    let masters = kept.into_iter().filter(Kept::is_found).map(of_master);
    let pools = settings.pools();
    let backends = pools
        .iter()
        .flat_map(|(pool, settings)| settings.backend.iter().map(|of| of_pool(pool, of.clone())));
    let nodes = nodes.iter().map(|node| {
        let url = moved(&node.like.url, &node.at);
        let name = format!("{}:{}", node.at.0, node.at.1);
        of_pool(&node.pool, BackendSettings { name, url, host: None, ..node.like.clone() })
    });
    let mut all: Vec<Named> = Vec::new();
    for mut named in masters.chain(backends).chain(nodes) {
        if all.iter().any(|other| other.is_same(&named)) {
            continue;
        }
        if all.iter().any(|other| other.name == named.name) {
            named.name = format!("{MAIN}/{}", named.name);
        }
        named.place()?;
        all.push(named);
    }
    Ok(all)
}

fn of_master(kept: Kept) -> Named {
    Named {
        name: kept.of.name.clone(),
        host: kept.of.host.clone().unwrap_or_default(),
        is_here: false,
        settings: kept.of.backend(),
        url: kept.of.whereabouts(),
        kept: Some((kept.state, kept.dir)),
    }
}

fn of_pool(pool: &str, of: BackendSettings) -> Named {
    Named {
        name: match pool {
            MAIN => of.name.clone(),
            pool => format!("{pool}/{}", of.name),
        },
        host: of.host.clone().unwrap_or_default(),
        is_here: false,
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

impl Named {
    /// Whether it is the same server, by where it is.
    fn is_same(&self, other: &Self) -> bool {
        let address = |of: &Self| read_address(&of.settings.url).ok().map(|of| of.address);
        address(self).is_some() && address(self) == address(other)
    }

    /// Says which host it is of. One that Sentinels find is of a host of its own.
    fn place(&mut self) -> Result<(), String> {
        let host = match &self.settings.sentinel {
            Some(_) => self.name.clone(),
            None => {
                let reached =
                    read_address(&self.settings.url).map_err(|error| error.to_string())?;
                let host = reached.address.host();
                self.is_here = host.is_none_or(is_of_this_machine);
                machine(host).to_owned()
            }
        };
        if self.host.is_empty() {
            self.host = host;
        }
        Ok(())
    }
}
