//! `weir redis`: the append-only files that Weir keeps.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use jiff::Timestamp;
use redis::replica::keys::{Keys, accept};
use redis::replica::restore::{RestoreError, restore};
use redis::replica::rewrite::ask;
use redis::replica::scan::Until;
use redis::replica::verify::verify;
use watch::words::{bytes, count};

use crate::exit::{BAD_NEWS, DONE, Failure, note};

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
    /// Have a master believed that has come back with too few keys, or without what was confirmed:
    /// a running Weir, or the next that starts, acknowledges its writes as durable again
    #[command(after_help = "Example:\n  weir redis accept /var/lib/weir/aof/cache")]
    Accept {
        /// A master's directory, below redis.aof.dir in the configuration
        dir: PathBuf,
    },
    /// Have a new base taken in the place of the increments that there are: from a replica of the
    /// master where one is configured, else from the master, which forks. `weir status` shows it
    #[command(after_help = "Example:\n  weir redis rewrite /var/lib/weir/aof/cache")]
    Rewrite {
        /// A master's directory, below redis.aof.dir in the configuration
        dir: PathBuf,
    },
    /// Make a directory that a server starts from, with what a master had at a time. It is cut
    /// between two transactions, changes nothing of Weir's, and may run beside it. Exit code 3
    /// where what is wanted is damaged
    #[command(after_help = "Examples:\n  \
        weir redis restore /var/lib/weir/aof/cache --to /var/lib/redis \
        --at 2026-11-20T12:00:00Z\n  \
        weir redis restore aof/cache --to before --at latest \
        --generation pinned.1.manifest")]
    Restore {
        /// A master's directory, below redis.aof.dir in the configuration
        dir: PathBuf,
        /// Where to: a directory that is empty, or that is not there yet
        #[arg(long)]
        to: PathBuf,
        /// A time, as 2026-11-20T12:00:00Z: what Weir had written when that second ended;
        /// `latest`; or `offset:` and a number, as `weir redis verify` shows them
        #[arg(long, value_parser = until)]
        at: Until,
        /// The manifest of the generation to take; by default the newest that begins early enough
        #[arg(long, value_name = "MANIFEST")]
        generation: Option<String>,
    },
}

/// Reads how far a file is wanted.
fn until(text: &str) -> Result<Until, String> {
    if text == "latest" {
        return Ok(Until::End);
    }
    if let Some(offset) = text.strip_prefix("offset:") {
        return offset.parse().map(Until::Offset).map_err(|error| error.to_string());
    }
    let time: Timestamp = text.parse().map_err(|error| {
        format!("{error}; write 2026-11-20T12:00:00Z, latest, or offset:NUMBER")
    })?;
    u64::try_from(time.as_second()).map(Until::Time).map_err(|_| "it is before 1970".to_owned())
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
            let before = match accept(&dir).map_err(Failure::other)? {
                Keys::Lost(_) => "what was confirmed and it lacks".to_owned(),
                keys => format!("{} keys", keys.count()),
            };
            writeln!(
                out,
                "What the master has now is accepted in the place of {before}, with the next that \
                 it sends. The generation before stays pinned."
            )?;
            Ok(DONE)
        }
        Command::Rewrite { dir } => {
            let who = match ask(&dir).map_err(Failure::other)? {
                true => "The Weir that runs takes",
                false => "No Weir runs with it; the next that starts takes",
            };
            writeln!(out, "{who} a new base beside the stream; `weir status` shows it.")?;
            Ok(DONE)
        }
        Command::Restore { dir, to, at, generation } => {
            restored(&dir, &to, at, generation.as_deref(), out)
        }
    }
}

fn restored(
    dir: &Path,
    to: &Path,
    at: Until,
    generation: Option<&str>,
    out: &mut dyn Write,
) -> Result<u8, Failure> {
    let restored = match restore(dir, to, at, generation) {
        Err(error @ (RestoreError::Damaged { .. } | RestoreError::Base(_))) => {
            note(error);
            return Ok(BAD_NEWS);
        }
        restored => restored.map_err(Failure::other)?,
    };
    let (from, end) = restored.offsets;
    let written = restored.time.and_then(|time| Timestamp::from_second(time as i64).ok());
    let written = written.map_or(String::new(), |time| format!(", written by {time}"));
    writeln!(
        out,
        "Restored from {}: offsets {} to {}{written}.",
        restored.generation,
        count(from),
        count(end),
    )?;
    if restored.left_out > 0 {
        let left_out = bytes(restored.left_out);
        writeln!(out, "{left_out} behind that are not whole, or a server's own, and left out.")?;
    }
    writeln!(out, "redis-server --dir {} --appendonly yes", to.display())?;
    let is_latest = generation.is_none() && at == Until::End;
    if is_latest && restored.is_doubted {
        note(
            "this is what the master came back with, which lacks keys that it had. What it had \
             before is in a generation called pinned.N.manifest: weir redis verify lists them; \
             name one with --generation",
        );
    }
    Ok(DONE)
}
