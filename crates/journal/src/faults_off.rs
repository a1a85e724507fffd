//! No faults: what a release is built with.

use std::fs::File;
use std::io::{self, IoSlice};

/// Stands where the feature `faults` has its switches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults;

impl Faults {
    pub fn write(&self, _: &File, _: &[IoSlice<'_>], _: u64) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    pub fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    pub fn synced(&self, _: &File) {}

    pub fn allocate(&self) -> io::Result<()> {
        Ok(())
    }

    pub fn change(&self) -> io::Result<()> {
        Ok(())
    }
}
