//! Orders to the disk of a Weir that was started [with faults](crate::weir::Setup::with_faults).

use std::fs;
use std::path::{Path, PathBuf};

/// Every sync of a file waits.
pub const HOLD_SYNCS: &str = "hold * sync";
/// Every sync of a file fails.
pub const FAIL_SYNCS: &str = "fail * sync";

/// Has the disk of what Weir keeps in `dir` do as an order says, in the words of the disk crate's
/// `faults/switch.rs`, or as disks do where it is empty. Gives the order's file.
///
/// # Panics
/// When the file can't be written.
pub fn order(dir: &Path, order: &str) -> PathBuf {
    let mut switch = dir.as_os_str().to_owned();
    switch.push(".faults");
    let switch = PathBuf::from(switch);
    // By a rename: nobody reads half of it.
    let new = switch.with_extension("new");
    fs::write(&new, order).expect("a file can be written");
    fs::rename(&new, &switch).expect("a file can be renamed");
    switch
}

/// An order that is in force until the value is dropped.
#[derive(Debug)]
pub struct DiskOrder(PathBuf);

impl DiskOrder {
    /// Gives an order for the disk of what Weir keeps in `dir`, as [`order`] does.
    pub fn give(dir: &Path, order: &str) -> Self {
        Self(self::order(dir, order))
    }
}

impl Drop for DiskOrder {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
