//! What says in a directory that its current generation is not gone on with, also after a restart:
//! a sync of it has failed, or a file of it was found damaged.

use std::fs::{self, File};
use std::path::Path;

use disk::Disk;

use super::Directory;

/// There after a sync that failed: what the kernel shows of the files may not be on the disk.
pub const SYNC_FAILED: &str = "weir.sync-failed";
/// What gets that name: it stands before, because a disk may be full when a sync fails.
const SYNC_SPARE: &str = "weir.sync-spare";
/// There after a file of the current generation was found damaged; it says which and how.
const DAMAGED: &str = "weir.damaged";
/// What gets that name, as above.
const DAMAGED_SPARE: &str = "weir.damaged-spare";

impl Directory {
    /// Says in the directory that a sync has failed.
    pub fn distrust(&self) {
        self.mark(SYNC_FAILED, SYNC_SPARE, "a sync has failed");
    }

    /// Says in the directory that a file of the current generation is damaged, and why: the
    /// generation is not gone on with before a new base.
    pub fn condemn(&self, why: &str) {
        self.mark(DAMAGED, DAMAGED_SPARE, why);
    }

    /// Gives a spare file a name that says something. A rename needs no room on a full disk; the
    /// words do.
    fn mark(&self, name: &str, spare: &str, why: &str) {
        let marked = self.path.join(name);
        let renamed = self.disk.rename(&self.path.join(spare), &marked);
        let said = renamed.or_else(|_| self.disk.put(&marked, &[]).map_err(|error| error.source));
        // Best effort: the name says it, too.
        let _ = fs::write(&marked, why);
        if let Err(error) = said.and_then(|()| self.disk.sync_dir(&self.path)) {
            tracing::error!(
                path = %marked.display(),
                "{why}, and that cannot be kept: make this file before the next start: {error}"
            );
        }
    }
}

/// Why the current generation was found damaged, if it was.
pub fn condemned(dir: &Path) -> Option<String> {
    let path = dir.join(DAMAGED);
    path.exists().then(|| match fs::read_to_string(&path) {
        Ok(why) if !why.is_empty() => why,
        _ => "a file of it was found damaged".to_owned(),
    })
}

/// Forgets both: another generation has taken that one's place. Best effort: it is forgotten with
/// the next else.
pub fn clear(disk: &Disk, dir: &Path) {
    for name in [SYNC_FAILED, DAMAGED] {
        let _ = disk.remove(&dir.join(name));
    }
    spare(dir);
}

/// Best effort: without them what is found needs room to be said.
pub fn spare(dir: &Path) {
    for (name, spare) in [(SYNC_FAILED, SYNC_SPARE), (DAMAGED, DAMAGED_SPARE)] {
        if !dir.join(name).exists() {
            let _ = File::create(dir.join(spare));
        }
    }
}
