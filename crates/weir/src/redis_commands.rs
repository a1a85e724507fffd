//! `weir redis`: a look into an append-only file that Weir keeps.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
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
}

/// Does what was asked.
pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let Command::Verify { dir } = command;
    let report = verify(&dir).map_err(Failure::other)?;
    writeln!(out, "{report}")?;
    Ok(if report.is_intact() { DONE } else { BAD_NEWS })
}
