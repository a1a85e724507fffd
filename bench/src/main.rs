//! Weir beside its peers, in one run: the figures Weir has to reach, each with how to repeat it.
//!
//! It measures and judges; it tunes nothing. A peer that is absent is named as absent, a row in
//! which anything but 204 was answered has failed, and one with a saturated client is void.

mod arguments;
mod beside;
mod figures;
mod load;
mod measure;
mod peers;
mod report;
mod rows;
mod sink;
mod stand;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Command, Name, Scale};
use figures::{Home, Run};
use report::{Row, Table};

/// What can go wrong with a whole row.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

type Measure = fn(&Scale) -> Outcome<Vec<Row>>;

const ALL: [(Name, Measure); 54] = [
    (Name::Requests, rows::requests::measure),
    (Name::Relays, rows::relays::measure),
    (Name::Lines, rows::lines::measure),
    (Name::Memory, rows::memory::measure),
    (Name::Hung, rows::hung::measure),
    (Name::CollisionCost, rows::collisions::cost),
    (Name::Collisions, rows::collisions::finds),
    (Name::ClusterCost, rows::cluster::cost),
    (Name::ClusterReport, rows::cluster::report),
    (Name::ClusterMemory, rows::cluster::memory),
    (Name::ClusterQueries, rows::cluster::queries),
    (Name::ClusterStream, rows::cluster::stream),
    (Name::ClusterRebuild, rows::cluster::rebuild),
    (Name::Disk, rows::disk::measure),
    (Name::StoreLoad, rows::store::load::measure),
    (Name::StoreQueries, rows::store::queries::measure),
    (Name::StoreDisk, rows::store::disk::measure),
    (Name::StoreSeries, rows::store::series::measure),
    (Name::StoreDecade, rows::store::decade::measure),
    (Name::PostgresSelect, rows::postgres::select::measure),
    (Name::PostgresClients, rows::postgres::clients::measure),
    (Name::PostgresWorkers, rows::postgres::workers::measure),
    (Name::PostgresSysbench, rows::postgres::sysbench::measure),
    (Name::PostgresSpread, rows::postgres::spread::measure),
    (Name::PostgresSlow, rows::postgres::slow::measure),
    (Name::PostgresShared, rows::postgres::shared::measure),
    (Name::PostgresCommit, rows::postgres::commit::measure),
    (Name::PostgresIdle, rows::postgres::idle::measure),
    (Name::RedisRates, rows::redis::rates::measure),
    (Name::RedisServers, rows::redis::servers::measure),
    (Name::RedisMget, rows::redis::mget::measure),
    (Name::RedisShared, rows::redis::shared::measure),
    (Name::RedisWait, rows::redis::wait::measure),
    (Name::RedisIdle, rows::redis::idle::measure),
    (Name::RedisBurst, rows::redis::burst::measure),
    (Name::AofMemory, rows::aof::memory::measure),
    (Name::AofStream, rows::aof::stream::measure),
    (Name::AofStall, rows::aof::stall::measure),
    (Name::AofBesideDd, rows::aof::beside::measure),
    (Name::AofMaster, rows::aof::master::measure),
    (Name::AofBase, rows::aof::base::measure),
    (Name::AofRestart, rows::aof::restart::measure),
    (Name::LoadHttp, rows::meter::http::measure),
    (Name::LoadPostgres, rows::meter::postgres::measure),
    (Name::LoadRedis, rows::meter::redis::measure),
    (Name::LoadMemory, rows::meter::memory::measure),
    (Name::LoadStall, rows::meter::stall::measure),
    (Name::LoadCounts, rows::meter::counts::measure),
    (Name::LoadVerdicts, rows::meter::verdicts::measure),
    (Name::LoadDubbo, rows::meter::dubbo::measure),
    (Name::PageCost, rows::page::cost),
    (Name::PageMemory, rows::page::memory),
    (Name::PageStream, rows::page::stream),
    (Name::PageChart, rows::page::chart),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (&arguments.command, &arguments.figures) {
        (Some(Command::Sink { address }), _) => {
            sink::run(*address).map(|()| true).map_err(|e| format!("sink on {address}: {e}").into())
        }
        (None, Some(file)) => Home::at(file.clone()).write_page().map(|()| true),
        (Some(Command::Pool { files }), _) => beside::pool(files),
        (None, None) => match &arguments.beside {
            Some(old) => beside::run(&arguments, old),
            None => run(&arguments),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the rows that are asked for; gives whether all have what they have to have.
fn run(arguments: &Arguments) -> Outcome<bool> {
    let home = match &arguments.write {
        None => None,
        Some(file) => Some(writable(file.clone())?),
    };
    let run = Run::begin();
    println!("{}\n", run.machine);
    let wanted = |name| arguments.only.is_empty() || arguments.only.contains(&name);
    let mut table = Table::default();
    for (name, measure) in ALL.into_iter().filter(|(name, _)| wanted(*name)) {
        eprintln!("measuring {name:?} ...");
        let scale = Scale::of(arguments, name);
        let rows = measure(&scale)
            .unwrap_or_else(|error| vec![Row::failed(name.word(), &error.to_string())]);
        // At once, so that nothing is lost where a later row ends the program.
        if let Some(home) = &home {
            home.add(&run.records(name, &scale, &figures::versions::of(name), &rows))?;
            home.write_page()?;
        }
        table.extend(rows);
    }
    println!("{table}");
    Ok(table.all_reached())
}

/// Where figures go, which those of a build without optimisation may not.
fn writable(file: Option<PathBuf>) -> Outcome<Home> {
    let is_debug = |part: std::path::Component<'_>| part.as_os_str() == "debug";
    if cfg!(debug_assertions) || rig::places::weir().components().any(is_debug) {
        return Err("--write is for release builds: `make bench` makes them".into());
    }
    Ok(Home::at(file))
}
