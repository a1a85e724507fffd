//! A server with its append-only file in different places, or with none.

use std::net::SocketAddr;
use std::path::Path;

use rig::redis::Redis;
use tempfile::TempDir;

use super::{Following, master, replica};
use crate::Outcome;

/// Where the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server keeps no AOF.
    Nothing,
    /// At the server, synced once a second.
    Everysec,
    /// At the server, synced whenever the system likes.
    No,
    /// At the server, synced before each answer.
    Always,
    /// At a replica of it, synced once a second.
    Replica,
    /// Weir follows the server and writes the file.
    Weir,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no AOF",
            Self::Everysec => "appendfsync everysec",
            Self::No => "appendfsync no",
            Self::Always => "appendfsync always",
            Self::Replica => "a replica with everysec",
            Self::Weir => "AOF in Weir",
        }
    }

    fn appendfsync(self) -> Option<&'static str> {
        match self {
            Self::Everysec => Some("everysec"),
            Self::No => Some("no"),
            Self::Always => Some("always"),
            Self::Nothing | Self::Replica | Self::Weir => None,
        }
    }
}

/// A server, and who keeps its file.
pub struct Server {
    _replica: Option<Redis>,
    _following: Option<Following>,
    server: Redis,
    _dir: TempDir,
}

impl Server {
    /// Starts one whose file lies in a directory of its own below `dir`.
    ///
    /// # Errors
    /// A directory can't be made.
    pub fn start(kind: Kind, dir: &Path) -> Outcome<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        let path = dir.path().display().to_string();
        let file = |fsync| {
            let usual = ["--auto-aof-rewrite-percentage", "0", "--appendonly", "yes"];
            [&usual[..], &["--appendfsync", fsync, "--dir", &path]].concat()
        };
        let server = match kind.appendfsync() {
            Some(fsync) => master(&file(fsync)),
            None => master(&[]),
        };
        let mut this = Self { _replica: None, _following: None, server, _dir: dir };
        match kind {
            Kind::Replica => {
                this._replica = Some(replica(&this.server, &file("everysec")));
            }
            Kind::Weir => {
                let following = Following::in_dir(this._dir.path(), &this.server.url(), "");
                following.wait_following();
                this._following = Some(following);
            }
            Kind::Nothing | Kind::Everysec | Kind::No | Kind::Always => {}
        }
        Ok(this)
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address
    }
}
