//! What a change costs: Weir as built beside an older binary and beside a second copy of that, at
//! once on one stand (`--beside BINARY`).
//!
//! Runs one after the other drift by more than a change may cost. So the load moves between the
//! three in slices of a few seconds, in an order that changes each round, and what counts is the
//! ratio within a round. The two copies of the old binary are the same program: how far their ratio
//! is from 1 says what this machine can tell at all.

mod loads;
mod rounds;
mod statistics;
mod three;
mod verdict;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rig::places;

use crate::Outcome;
use crate::arguments::{Arguments, Name};
use crate::figures::Run;
use rounds::RoundFile;

/// Slices of the load have so many seconds, by default.
const SLICE_SECONDS: usize = 4;
/// The three have so many turns each, by default.
const ROUNDS: usize = 30;
/// The rows that can be measured so.
const ROWS: [Name; 8] = [
    Name::Requests,
    Name::Lines,
    Name::StoreLoad,
    Name::StoreQueries,
    Name::PostgresSelect,
    Name::PostgresSysbench,
    Name::RedisRates,
    Name::LoadHttp,
];

/// How often, how long, of what, and where each round is noted.
pub struct Plan {
    binaries: three::Binaries,
    rounds: usize,
    slice: Duration,
    kept: RoundFile,
}

/// Measures the rows that are asked for and prints what is to be said of them; gives whether all
/// could be measured.
///
/// # Errors
/// When a row is asked for that can't be measured so, or a file can't be used.
pub fn run(arguments: &Arguments, old: &Path) -> Outcome<bool> {
    let rows: Vec<Name> = match arguments.only.as_slice() {
        [] => ROWS.to_vec(),
        some => some.to_vec(),
    };
    if let Some(other) = rows.iter().find(|name| !ROWS.contains(name)) {
        let known = ROWS.map(Name::word).join(", ");
        return Err(format!("--beside has the rows {known}, and not {}", other.word()).into());
    }
    let run = Run::begin();
    let file = arguments.rounds_file.clone().unwrap_or_else(|| default_file(run.date()));
    let new = places::weir();
    let mut plan = Plan {
        binaries: three::Binaries::copy(&new, old)?,
        rounds: arguments.rounds.map_or(ROUNDS, usize::from),
        slice: Duration::from_secs(arguments.seconds.map_or(SLICE_SECONDS, usize::from) as u64),
        kept: RoundFile::create(file, &run, [&new, old])?,
    };
    println!("{}\n", run.machine);
    println!("new: {}\nold: {}\n", new.display(), old.display());
    let mut failed = Vec::new();
    for name in rows {
        eprintln!("measuring {name:?} ...");
        let measured = match name {
            Name::Requests => loads::single_points(&mut plan),
            Name::Lines => loads::many_lines(&mut plan),
            Name::StoreLoad => loads::store_loads(&mut plan),
            Name::StoreQueries => loads::store_queries(&mut plan),
            Name::LoadHttp => loads::meters(&mut plan),
            Name::PostgresSelect => loads::selects(&mut plan),
            Name::RedisRates => loads::commands(&mut plan),
            _ => loads::transactions(&mut plan),
        };
        if let Err(error) = measured {
            failed.push(format!("{}: FAILED: {error}", name.word()));
        }
    }
    print!("{}", verdict::table(&rounds::read(plan.kept.file())?));
    failed.iter().for_each(|why| println!("{why}"));
    println!("\nall rounds: {}", plan.kept.file().display());
    Ok(failed.is_empty())
}

/// Prints what several runs say together.
///
/// # Errors
/// When a file can't be read.
pub fn pool(files: &[PathBuf]) -> Outcome<bool> {
    let mut all = Vec::new();
    for file in files {
        all.extend(rounds::read(file)?);
    }
    print!("{}", verdict::table(&all));
    Ok(true)
}

fn default_file(date: &str) -> PathBuf {
    let name = format!("beside-{}.jsonl", date.replace(':', "-"));
    match std::env::current_exe() {
        Ok(program) => program.with_file_name(name),
        Err(_) => name.into(),
    }
}
