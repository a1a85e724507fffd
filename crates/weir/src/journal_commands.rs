//! `weir journal`: a look into a journal's directory, and forgetting a backend.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use journal::inspect::{Report, inspect, verify};

use crate::config;
use crate::config::ConfigFile;
use crate::exit::{BAD_NEWS, DONE, Failure};

/// What can be done with a journal.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show segments, cursors and what they hold; changes nothing
    #[command(after_help = "Example:\n  weir journal inspect /var/lib/weir/journal")]
    Inspect {
        /// The journal's directory, journal.dir in the configuration
        dir: PathBuf,
    },
    /// As inspect, and check every record against its checksum; exit code 3 where one is damaged
    #[command(after_help = "Example:\n  weir journal verify /var/lib/weir/journal")]
    Verify {
        /// The journal's directory, journal.dir in the configuration
        dir: PathBuf,
    },
    /// Give up what a removed or renamed backend has not had yet; Weir must be stopped
    #[command(after_help = "\
Examples:
  weir journal forget old-server
  weir journal forget old-server --dir /var/lib/weir/journal")]
    Forget {
        /// The backend's name, as `weir journal inspect` shows it
        name: String,
        /// The journal's directory; without it the configuration says
        #[arg(long)]
        dir: Option<PathBuf>,
        #[command(flatten)]
        config: ConfigFile,
    },
}

/// Does what was asked of a journal.
pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, Failure> {
    match command {
        Command::Inspect { dir } => print(&inspect(&dir).map_err(Failure::other)?, out),
        Command::Verify { dir } => print(&verify(&dir).map_err(Failure::other)?, out),
        Command::Forget { name, dir, config } => {
            let dir = match dir {
                Some(dir) => dir,
                None => config::load_places(&config)?.journal.dir,
            };
            let gone = journal::forget(&dir, &name).map_err(Failure::other)?;
            writeln!(
                out,
                "forgot {name}: {} points ({} bytes) that were waiting for it are given up",
                gone.waiting.items, gone.waiting.bytes
            )?;
            Ok(DONE)
        }
    }
}

fn print(report: &Report, out: &mut dyn Write) -> Result<u8, Failure> {
    writeln!(out, "{report}")?;
    Ok(if report.is_intact() { DONE } else { BAD_NEWS })
}
