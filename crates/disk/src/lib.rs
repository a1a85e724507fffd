//! What Weir asks of the file system where it keeps something. Everything that writes, syncs,
//! renames or removes goes through a [`Disk`], so that tests can make it fail, wait or end at any
//! step, in the process itself or from outside.
//!
//! A sync that failed is final: the kernel may have thrown the pages away, so nothing that was
//! written since the last one can be trusted, and nobody tries again.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   stream
//   disk, hold
//   error, faults
//   read

mod disk;
mod error;
#[cfg(any(test, feature = "faults"))]
mod faults;
#[cfg(not(any(test, feature = "faults")))]
#[path = "faults_off.rs"]
mod faults;
mod hold;
mod read;
mod stream;

pub use disk::{Disk, ZEROS};
pub use error::{FileError, is_full};
#[cfg(any(test, feature = "faults"))]
pub use faults::Faults;
pub use hold::{hold, wait_and_hold};
pub use read::read_at;
pub use stream::Stream;
