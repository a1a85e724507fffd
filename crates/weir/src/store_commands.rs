//! `weir store`: a look into the directory of the embedded store.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use store::inspect::{Report, inspect, verify};

use crate::cli::ConfigFile;
use crate::config;
use crate::exit::{BAD_NEWS, DONE, Failure};

/// What can be done with a store.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show databases, files and what they hold; changes nothing, also beside a running Weir
    #[command(after_help = "\
Examples:
  weir store inspect
  weir store inspect /var/lib/weir/store")]
    Inspect(Place),
    /// As inspect, and check every byte against its checksum; exit code 3 where one is damaged
    #[command(after_help = "\
Examples:
  weir store verify
  weir store verify /var/lib/weir/store --json | jq '.databases[].policies[].files[].fault'")]
    Verify(Place),
}

/// Which store.
#[derive(Debug, Args)]
pub struct Place {
    /// The store's directory; without it store.dir in the configuration
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

/// Does what was asked of a store.
pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let (place, verified) = match command {
        Command::Inspect(place) => (place, false),
        Command::Verify(place) => (place, true),
    };
    let dir = match place.dir {
        Some(dir) => dir,
        None => config::load_places(&place.config)?.store.dir,
    };
    let report = if verified { verify(&dir) } else { inspect(&dir) };
    let report: Report = report.map_err(Failure::other)?;
    if place.json {
        serde_json::to_writer_pretty(&mut *out, &report).map_err(Failure::other)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{report}")?;
    }
    Ok(if report.is_intact() { DONE } else { BAD_NEWS })
}
