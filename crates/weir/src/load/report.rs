//! `weir load report`: what runs have left, as a page.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use meter::{directory, report};

use crate::exit::{DONE, Failure};

/// Which runs, and where the page goes.
#[derive(Debug, Args)]
pub struct Command {
    /// Directories of runs, 20 at most; several are laid over one another
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// The page; without it report.html, for one run in its directory, else in this one
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Makes the page anew from what the directories have, also of a run that was killed.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let Command { directories, out: named } = command;
    let usual = || match &directories[..] {
        [one] => one.join(directory::PAGE),
        _ => PathBuf::from(directory::PAGE),
    };
    let file = named.clone().unwrap_or_else(usual);
    let page = report::page(directories).map_err(Failure::other)?;
    directory::replace(&file, &page).map_err(Failure::other)?;
    writeln!(out, "report: {}", file.display())?;
    Ok(DONE)
}
