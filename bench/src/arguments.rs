//! The command line: which rows, how long, and what becomes of the figures.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::rows::{hung, page};

/// Measures Weir beside nginx, InfluxDB, vmagent, PgBouncer, HAProxy, nutcracker and, where they
/// are on the PATH, influxdb-relay, influx-proxy, Telegraf, PgDog, PgCat, pg_doorman, Odyssey,
/// Envoy, predixy and a PgBouncer from 1.21 on beside Debian's (as `pgbouncer` or
/// `pgbouncer-VERSION`).
#[derive(Debug, Parser)]
#[command(name = "weir-bench", max_term_width = 100)]
pub struct Arguments {
    /// Only these rows; all of them when absent
    #[arg(long, value_enum)]
    pub only: Vec<Name>,
    /// Seconds instead of minutes: for a look, not for a figure
    #[arg(long)]
    pub quick: bool,
    /// Rounds in which the peers take turns, and pairs of runs of `hung` (there five short ones for
    /// each), `disk`, `load-*`, `page-*` and the rows of append-only files; the median counts. When
    /// absent three, of `redis-*` five; with --beside 30
    #[arg(long)]
    pub rounds: Option<NonZeroUsize>,
    /// Seconds of one measurement. When absent 10, of `postgres-commit` 5; with --beside of one
    /// slice, 4 when absent
    #[arg(long)]
    pub seconds: Option<NonZeroUsize>,
    /// Add what was measured to bench/figures.jsonl and make docs/figures.md of it; with a FILE to
    /// that one, and the page beside it
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with_all = ["quick", "beside"])]
    pub write: Option<Option<PathBuf>>,
    /// Measure nothing, make docs/figures.md of bench/figures.jsonl; with a FILE of that one
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with_all = ["write", "beside"])]
    pub figures: Option<Option<PathBuf>>,
    /// Measure Weir as built beside BINARY, an older Weir, and a second copy of BINARY. All three
    /// run at once, the load moves between them in slices, in an order that changes each round.
    /// Printed are new/old and old/old of requests a second and of CPU time a request: the median
    /// of the rounds' ratios and its 95 % interval. The rows are `requests` (512 and 64
    /// connections), `lines`, `store-load` (batches of 5,000 and of 30), `store-queries`,
    /// `postgres-select` (256 and 32 clients), `postgres-sysbench` (read-only, write-only),
    /// `redis-rates` (SET and GET at 500 clients, GET in pipelines of 16 at 50) and `load-http`
    #[arg(long, value_name = "BINARY", conflicts_with = "quick")]
    pub beside: Option<PathBuf>,
    /// Where --beside puts all rounds, a line of JSON each; a file of its own in the build's
    /// directory when absent
    #[arg(long, value_name = "FILE", requires = "beside")]
    pub rounds_file: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What else the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The backend that answers 204 at once and counts lines; a process of its own
    #[command(hide = true)]
    Sink { address: std::net::SocketAddr },
    /// Judge the rounds of several runs of --beside together
    Pool {
        /// Their files of rounds
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Requests a second and CPU time of single-point writes at 512 connections
    Requests,
    /// Requests a second at 64 connections, beside the relays
    Relays,
    /// Lines a second in bodies of 5,000 lines
    Lines,
    /// Memory at rest and with a backlog of a million points
    Memory,
    /// p99 of acks with one backend hung, over all healthy
    Hung,
    /// Lines, CPU time and p99 of acks with detection of overwritten points and without
    CollisionCost,
    /// What detection of overwritten points finds, and the memory that it takes
    Collisions,
    /// What it costs to share points out over sets, before sinks
    ClusterCost,
    /// The field report's cluster beside one InfluxDB: rows a second, and its queries
    ClusterReport,
    /// Memory of a gateway while one of 16 members is away
    ClusterMemory,
    /// Windows over two sets that are joined, merged and fetched, beside one InfluxDB
    ClusterQueries,
    /// Memory of a gateway while ten million rows of two sets pass through
    ClusterStream,
    /// Rows a second into a member that is rebuilt, and in a load
    ClusterRebuild,
    /// p99.9 of acks while dd writes to the same disk
    Disk,
    /// Rows a second into the embedded store, in batches of 30 and of 5,000, and memory meanwhile
    StoreLoad,
    /// The store's answers beside InfluxDB's, before and after overwriting and a DELETE
    StoreQueries,
    /// Bytes on disk of numeric data, and windows of it by host
    StoreDisk,
    /// A million series: load, query, restart, memory
    StoreSeries,
    /// A million rows over ten years
    StoreDecade,
    /// pgbench -S beside a direct connection and other poolers
    PostgresSelect,
    /// pgbench -S by the number of clients, from 1 to 512
    PostgresClients,
    /// pgbench -S with one worker and with two
    PostgresWorkers,
    /// sysbench's OLTP scripts beside a direct connection and other poolers
    PostgresSysbench,
    /// Point selects over two replicas and over one
    PostgresSpread,
    /// Short statements beside slow ones
    PostgresSlow,
    /// Point selects by Zipf's distribution and uniform, equal reads asked once and not; one
    /// statement that 200 clients ask at once
    PostgresShared,
    /// pgbench -N on disks whose syncs take as long as they do and 1 and 5 ms more, with shared
    /// commits beside the server's own, a direct connection and PgBouncer
    PostgresCommit,
    /// Memory of idle clients of PostgreSQL
    PostgresIdle,
    /// SET and GET at 500, 50 and 1 clients and in pipelines, beside nutcracker,
    /// Envoy and predixy; CPU time
    RedisRates,
    /// SET with four servers behind Weir and with one
    RedisServers,
    /// MGET of 100 keys over four servers, beside nutcracker, Envoy and predixy
    RedisMget,
    /// GET of 500 clients by Zipf's distribution and uniform, equal reads asked once and not
    RedisShared,
    /// SET and WAIT by turns, with a replica
    RedisWait,
    /// Memory of idle clients of Redis
    RedisIdle,
    /// Memory that is kept after a burst of values of 1 MiB
    RedisBurst,
    /// Memory of Weir while it keeps an append-only file: a data set of 2 GB, 50 MB a second
    AofMemory,
    /// A recorded stream made durable, beside a replica with everysec; CPU time
    AofStream,
    /// SET at fixed times on a disk that stands still every 20 s, by where the file is
    AofStall,
    /// The same load while dd writes to the same disk
    AofBesideDd,
    /// The master's p99 at 20,000 SET a second with its file in Weir, and with none
    AofMaster,
    /// The master's p99 while a base comes from a replica, and while that does BGSAVE
    AofBase,
    /// A restart with 10 GB of files
    AofRestart,
    /// The load meter's CPU time a request beside wrk and h2load
    LoadHttp,
    /// The load meter's CPU time a statement beside pgbench
    LoadPostgres,
    /// The load meter's CPU time a command beside redis-benchmark
    LoadRedis,
    /// Memory of the load meter over ten minutes
    LoadMemory,
    /// What the load meter says of a server that is silent now and then, beside the server's log
    LoadStall,
    /// Requests as the load meter and nginx count them
    LoadCounts,
    /// The load meter's verdict where it is known what it has to be
    LoadVerdicts,
    /// An echo of a real provider of Dubbo beside JMeter: CPU time a call, and what it shows
    LoadDubbo,
    /// p99 of acks and requests a second with 16 viewers of the operator's page and with none
    PageCost,
    /// Memory of the page's history and of 16 viewers, with 32 backends
    PageMemory,
    /// Bytes a second to each viewer of the page, with four backends
    PageStream,
    /// The time from opening the page in Chromium to its first chart
    PageChart,
}

impl Name {
    /// As `--only` has it.
    pub fn word(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The part of Weir that the row is about.
    pub fn gateway(self) -> &'static str {
        match self {
            Self::Requests | Self::Relays | Self::Lines => "InfluxDB gateway",
            Self::Memory | Self::Hung | Self::Disk => "InfluxDB gateway",
            Self::CollisionCost | Self::Collisions => "InfluxDB gateway",
            Self::ClusterCost | Self::ClusterReport => "InfluxDB gateway",
            Self::ClusterMemory | Self::ClusterQueries => "InfluxDB gateway",
            Self::ClusterStream | Self::ClusterRebuild => "InfluxDB gateway",
            Self::StoreLoad | Self::StoreQueries | Self::StoreDisk => "Embedded store",
            Self::StoreSeries | Self::StoreDecade => "Embedded store",
            Self::RedisRates | Self::RedisServers | Self::RedisMget => "Redis gateway",
            Self::RedisWait | Self::RedisIdle | Self::RedisBurst => "Redis gateway",
            Self::RedisShared => "Redis gateway",
            Self::AofMemory | Self::AofStream | Self::AofStall => "Append-only files",
            Self::AofBesideDd | Self::AofMaster => "Append-only files",
            Self::AofBase | Self::AofRestart => "Append-only files",
            Self::LoadHttp | Self::LoadPostgres | Self::LoadRedis => "Load meter",
            Self::LoadMemory | Self::LoadStall => "Load meter",
            Self::LoadCounts | Self::LoadVerdicts | Self::LoadDubbo => "Load meter",
            Self::PageCost | Self::PageMemory => "Operator's page",
            Self::PageStream | Self::PageChart => "Operator's page",
            _ => "PostgreSQL gateway",
        }
    }

    /// How long one round of one way takes, where the row measures by time.
    pub fn round(self, scale: &Scale) -> Option<Duration> {
        match self {
            Self::Hung | Self::CollisionCost | Self::ClusterCost => Some(hung::RUN),
            Self::Collisions | Self::ClusterReport | Self::ClusterMemory => None,
            Self::ClusterQueries | Self::ClusterStream | Self::ClusterRebuild => None,
            Self::Memory | Self::PostgresIdle | Self::RedisIdle | Self::RedisBurst => None,
            Self::StoreLoad | Self::StoreQueries | Self::StoreDisk => None,
            Self::StoreSeries | Self::StoreDecade => None,
            Self::AofMemory | Self::AofStream | Self::AofStall => None,
            Self::AofBase | Self::AofRestart => None,
            Self::LoadMemory | Self::LoadStall | Self::LoadCounts | Self::LoadVerdicts => None,
            Self::PageStream => Some(page::stream_length(scale)),
            Self::PageMemory | Self::PageChart => None,
            _ => Some(scale.duration),
        }
    }
}

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// How long each measurement runs.
    pub duration: Duration,
    /// In which the peers take turns.
    pub rounds: usize,
    /// Pairs of runs whose ratio is taken.
    pub pairs: usize,
    /// How much dd writes, in MiB.
    pub dd_mib: u64,
    /// Of the rows for the store, one in so many.
    pub one_in: u64,
}

impl Scale {
    /// What the arguments ask for, of one row.
    pub fn of(arguments: &Arguments, name: Name) -> Self {
        // What differs between rounds is more where all of a row's ways have few cores to share.
        let rounds = if name.gateway() == "Redis gateway" { 5 } else { 3 };
        // It has many cases, on three disks.
        let seconds = if name == Name::PostgresCommit { 5 } else { 10 };
        let (seconds, rounds, pairs, dd_mib, one_in) =
            if arguments.quick { (3, 1, 1, 1_024, 20) } else { (seconds, rounds, 5, 10_240, 1) };
        let seconds = arguments.seconds.map_or(seconds, |seconds| seconds.get() as u64);
        Self {
            duration: Duration::from_secs(seconds),
            rounds: arguments.rounds.map_or(rounds, NonZeroUsize::get),
            pairs: arguments.rounds.map_or(pairs, NonZeroUsize::get),
            dd_mib,
            one_in,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Arguments, Name, Scale};

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
        assert_eq!(Name::PostgresClients.word(), "postgres-clients");
    }

    #[test]
    fn rows_of_redis_have_five_rounds_unless_others_are_asked_for() {
        let rounds =
            |line: &str, name| Scale::of(&Arguments::parse_from(line.split(' ')), name).rounds;
        assert_eq!(rounds("bench", Name::RedisMget), 5);
        assert_eq!(rounds("bench", Name::PostgresSelect), 3);
        assert_eq!(rounds("bench --rounds 2", Name::RedisMget), 2);
        assert_eq!(rounds("bench --quick", Name::RedisMget), 1);
    }

    #[test]
    fn a_row_with_many_cases_measures_each_for_less_time_unless_another_is_asked_for() {
        let seconds = |line: &str, name| {
            Scale::of(&Arguments::parse_from(line.split(' ')), name).duration.as_secs()
        };
        assert_eq!(seconds("bench", Name::PostgresSelect), 10);
        assert_eq!(seconds("bench", Name::PostgresCommit), 5);
        assert_eq!(seconds("bench --seconds 12", Name::PostgresCommit), 12);
        assert_eq!(seconds("bench --quick", Name::PostgresCommit), 3);
    }
}
