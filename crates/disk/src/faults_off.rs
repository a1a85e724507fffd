//! No faults: what a release is built with.

use std::fs::File;
use std::io;
use std::path::Path;

/// Stands where the feature `faults` has its switches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults;

impl Faults {
    pub fn beside(_: &Path) -> Self {
        Self
    }

    pub fn step(&self, _: &str, _: &Path) -> io::Result<()> {
        Ok(())
    }

    pub fn step_on(&self, _: &str, _: &File) -> io::Result<()> {
        Ok(())
    }

    pub fn write(&self, _: &File, _: u64, len: usize) -> io::Result<usize> {
        Ok(len)
    }

    pub fn synced(&self, _: &File) {}
}
