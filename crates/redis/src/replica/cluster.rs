//! The masters of a Cluster: found by asking its nodes, and followed from when they are found.
//!
//! Which nodes a shard has had is kept with its files, so that a failover while no Weir ran is
//! known for one, and the stream goes on in the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use disk::{Disk, FileError};
use tokio::time::sleep;

use super::Follower;
use super::link::Stop;
use crate::server::shards::{FoundShard, Shards};
use crate::settings::MasterSettings;

/// The ids of all nodes that a shard has had, one a line.
const MEMBERS: &str = "weir.shard";
/// How often it is looked whether the Cluster has other masters.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// No shard has had more nodes that anybody has seen.
const MEMBERS_MAX: usize = 4096;

/// The shards whose files are in a directory, of the Cluster of this name.
pub fn known(dir: &Path, cluster: &str) -> Vec<FoundShard> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let shard = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let id = name.strip_prefix(cluster)?.strip_prefix('-')?;
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let text = fs::read_to_string(entry.path().join(MEMBERS)).ok().filter(|_| is_id)?;
        let members = text.lines().take(MEMBERS_MAX).map(str::to_owned).collect();
        Some(FoundShard { name, members, master: None })
    };
    let mut found: Vec<_> = entries.filter_map(shard).collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Writes which nodes a shard has had.
fn note(of_shard: &Path, members: &BTreeSet<String>) -> Result<(), FileError> {
    let mut text = String::new();
    for member in members.iter().take(MEMBERS_MAX) {
        text.push_str(member);
        text.push('\n');
    }
    Disk::of(of_shard).put(&of_shard.join(MEMBERS), text.as_bytes())
}

/// Looks for the masters of one Cluster.
pub struct Finder {
    of: MasterSettings,
    shards: Shards,
    follower: Weak<Follower>,
    /// What was written of each shard's nodes.
    noted: BTreeMap<String, BTreeSet<String>>,
    told: Option<String>,
}

impl Finder {
    /// Nothing is asked yet.
    pub fn new(of: MasterSettings, shards: Shards, follower: Weak<Follower>) -> Self {
        Self { of, shards, follower, noted: BTreeMap::new(), told: None }
    }

    /// Looks until the process stops.
    pub async fn run(mut self, mut stop: Stop) {
        loop {
            let looked = tokio::select! {
                looked = self.shards.look(self.of.connect_timeout.get()) => looked,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Some(follower) = self.follower.upgrade() else { return };
            let why = match looked {
                Ok(found) => self.follow(&follower, found).err(),
                Err(why) => Some(format!("no node says who the masters are: {why}")),
            };
            self.tell(&follower, why);
            drop(follower);
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Begins to follow whoever is not followed yet.
    fn follow(&mut self, follower: &Follower, found: Vec<FoundShard>) -> Result<(), String> {
        for shard in found.into_iter().filter(|shard| shard.master.is_some()) {
            let is_followed = follower.masters().iter().any(|kept| kept.of.name == shard.name);
            if !is_followed {
                tracing::info!(cluster = self.of.name, shard = shard.name, "a master was found");
                let of = self.of.of_shard(&shard.name);
                let begun = follower.begin(of, Some(self.shards.clone()));
                begun.map_err(|error| error.to_string())?;
            }
            if self.noted.get(&shard.name) != Some(&shard.members) {
                let dir = follower.settings.dir.join(&shard.name);
                note(&dir, &shard.members).map_err(|error| error.to_string())?;
                self.noted.insert(shard.name, shard.members);
            }
        }
        Ok(())
    }

    fn tell(&mut self, follower: &Follower, why: Option<String>) {
        match &why {
            Some(why) => {
                if self.told.as_ref() != Some(why) {
                    tracing::warn!(cluster = self.of.name, "{why}");
                }
                follower.unknown().insert(self.of.name.clone(), why.clone());
            }
            None => drop(follower.unknown().remove(&self.of.name)),
        }
        self.told = why;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{known, note};

    #[test]
    fn the_nodes_of_shards_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["c-aaaaaaaa", "c-bbbbbbbb", "c-c-cccccccc", "other-aaaaaaaa", "c-dddddddd"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let members: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        for name in ["c-aaaaaaaa", "c-c-cccccccc", "other-aaaaaaaa"] {
            note(&dir.path().join(name), &members).unwrap();
        }
        let found = known(dir.path(), "c");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].name.as_str(), &found[0].members), ("c-aaaaaaaa", &members));
        assert!(known(&dir.path().join("none"), "c").is_empty());
    }
}
