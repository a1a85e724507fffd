//! From twemproxy: what a `nutcracker.yml` says, pool by pool.
//!
//! It takes what nutcracker 0.5.0 takes, refuses what that refuses, and says where. Beyond that it
//! takes `reuseport`, which is newer, and all of YAML's ways to write a list, and it refuses
//! permissions that are not octal. It opens no file, resolves no name, and never guesses: a key
//! that nutcracker does not know is an error.
//!
//! The one path: `yaml` cuts the file into pools, keys and lines of text, `pool` gives each key its
//! meaning, `server` reads addresses, and `draft` says the same as TOML.

mod draft;
mod pool;
mod server;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::{HashMap, HashSet};

pub use draft::toml;
pub use pool::Pool;
pub use server::{Listen, Server};

/// No `nutcracker.yml` is longer.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Why a `nutcracker.yml` can't be read. Lines count from one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NutcrackerError {
    /// The file is longer than [`FILE_BYTES_MAX`].
    #[error("the file has {bytes} bytes, of {FILE_BYTES_MAX} at most")]
    TooLong {
        /// The length of the file, in bytes.
        bytes: usize,
    },
    /// Outside of any pool, something is not as it has to be.
    #[error("line {line}: {what}")]
    File {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// A pool as a whole is wrong.
    #[error("line {line}: pool \"{pool}\" {what}")]
    Pool {
        /// The number of the pool's first line, from 1.
        line: usize,
        /// The name of the pool.
        pool: String,
        /// What is wrong with it.
        what: String,
    },
    /// A key of a pool is wrong.
    #[error("line {line}: pool \"{pool}\": \"{key}\" {what}")]
    Key {
        /// The number of the line, from 1.
        line: usize,
        /// The name of the pool.
        pool: String,
        /// The key as the file has it.
        key: String,
        /// What is wrong with it.
        what: String,
    },
}

/// The pools of a `nutcracker.yml`, in its order.
///
/// # Errors
/// The first thing in the file that nutcracker would not start with.
pub fn nutcracker(file: &[u8]) -> Result<Vec<Pool>, NutcrackerError> {
    if file.len() > FILE_BYTES_MAX {
        return Err(NutcrackerError::TooLong { bytes: file.len() });
    }
    let text = str::from_utf8(file).map_err(|error| {
        let before = &file[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        NutcrackerError::File { line, what: "the file is not UTF-8".to_owned() }
    })?;
    let mut pools: Vec<Pool> = Vec::new();
    let (mut names, mut listeners) = (HashSet::new(), HashMap::new());
    for raw in yaml::read(text)? {
        let pool = Pool::read(&raw)?;
        let twin = listeners.insert(pool.listen.clone(), pool.name.clone());
        let fault = if names.insert(pool.name.clone()) {
            twin.map(|other| format!("listens where pool \"{other}\" does"))
        } else {
            Some("is there twice".to_owned())
        };
        if let Some(what) = fault {
            return Err(NutcrackerError::Pool { line: raw.name.line, pool: pool.name, what });
        }
        pools.push(pool);
    }
    Ok(pools)
}
