//! `weir redis`: the append-only files that Weir keeps.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use redis::replica::keys::accept;
use redis::replica::verify::verify;

use crate::exit::{BAD_NEWS, DONE, Failure};

/// What can be done with a master's files.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check every file of every generation against its checksums; changes nothing. Exit code 3
    /// where one is damaged, which a torn end of the last file is not
    #[command(after_help = "Example:\n  weir redis verify /var/lib/weir/aof/cache")]
    Verify {
        /// A master's directory, below redis.aof.dir in the configuration
        dir: PathBuf,
    },
    /// Have a master believed that has come back with too few keys: a running Weir, or the next
    /// that starts, acknowledges its writes as durable again
    #[command(after_help = "Example:\n  weir redis accept /var/lib/weir/aof/cache")]
    Accept {
        /// A master's directory, below redis.aof.dir in the configuration
        dir: PathBuf,
    },
}

/// Does what was asked.
pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, Failure> {
    match command {
        Command::Verify { dir } => {
            let report = verify(&dir).map_err(Failure::other)?;
            writeln!(out, "{report}")?;
            Ok(if report.is_intact() { DONE } else { BAD_NEWS })
        }
        Command::Accept { dir } => {
            let keys = accept(&dir).map_err(Failure::other)?;
            writeln!(
                out,
                "What the master has now is accepted in the place of {keys} keys, with the next \
                 that it sends. The generation before stays pinned."
            )?;
            Ok(DONE)
        }
    }
}
