//! `weir store`: a look into the directory of the embedded store.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use store::inspect::{Report, inspect, verify};
use watch::words::count;

use crate::config;
use crate::config::ConfigFile;
use crate::exit::{BAD_NEWS, DONE, Failure};

/// What can be done with a store.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show databases, files and what they hold; changes nothing, also beside a running Weir
    #[command(after_help = "\
Examples:
  weir store inspect
  weir store inspect /var/lib/weir/store")]
    Inspect(ShownStore),
    /// As inspect, and check every byte against its checksum; exit code 3 where one is damaged
    #[command(after_help = "\
Examples:
  weir store verify
  weir store verify /var/lib/weir/store --json | jq '.databases[].policies[].files[].fault'")]
    Verify(ShownStore),
    /// Accept that what damaged files have lost is missing: answers, status and metrics no longer
    /// say so
    #[command(after_help = "\
Takes what `weir store inspect` shows as damaged at this moment; damage that is found later is said
again. A Weir that uses the store takes it within a second, another when it starts. The damaged
files stay as they are.

Examples:
  weir store accept
  weir store accept /var/lib/weir/store")]
    Accept(Directory),
}

/// Where a store is.
#[derive(Debug, Args)]
pub struct Directory {
    /// The store's directory; without it store.dir in the configuration
    dir: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFile,
}

impl Directory {
    fn path(self) -> Result<PathBuf, Failure> {
        match self.dir {
            Some(dir) => Ok(dir),
            None => Ok(config::load_places(&self.config)?.store.dir),
        }
    }
}

/// Which store, and how it is shown.
#[derive(Debug, Args)]
pub struct ShownStore {
    #[command(flatten)]
    store: Directory,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Does what was asked of a store.
pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let (place, verified) = match command {
        Command::Inspect(place) => (place, false),
        Command::Verify(place) => (place, true),
        Command::Accept(store) => return accept(store, out),
    };
    let dir = place.store.path()?;
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

fn accept(store: Directory, out: &mut dyn Write) -> Result<u8, Failure> {
    let damaged = store::accept(&store.path()?).map_err(Failure::other)?;
    for file in &damaged {
        let (points, of, name) = (count(file.points()), &file.info.measurement, file.info.name());
        writeln!(out, "{points} points of measurement {of} in {name}: {}", file.what)?;
    }
    let points = damaged.iter().map(store::manifest::DamagedFile::points).sum();
    writeln!(
        out,
        "That {} points are missing is accepted: a running Weir takes it at once, another when it \
         starts.",
        count(points),
    )?;
    Ok(DONE)
}
