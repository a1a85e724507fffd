//! The command line: what can be asked and in which words.

use std::io::Write;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::config::ConfigFile;
use crate::exit::{DONE, Failure};
use crate::{
    check, dead_letters, export, import, journal_commands, load, password, placement_commands,
    query, redis_commands, serve, status, store_commands,
};

const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   failed; standard error says what to do
  2   the command line is wrong
  3   done, and what was found is bad (a damaged journal, a gateway that is not ready, a load that
      missed what was required or failed for the most part)
  4   a load is INVALID: its numbers can't be believed
  78  the configuration is wrong";

/// A gateway in front of InfluxDB, PostgreSQL and Redis: combines many small requests into a few
/// large ones.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
#[command(after_help = EXIT_CODES, max_term_width = 100)]
pub struct Weir {
    /// The command that is run.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until SIGTERM or SIGINT
    #[command(after_help = "\
Examples:
  weir serve --config /etc/weir/weir.toml
  kill -HUP PID    reloads users, servers, stamp, TLS certificates and the log level; the log
                   says what needs a restart
  kill -TERM PID   stops listening, answers what was begun, and ends")]
    Serve {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Read the configuration and print what `weir serve` would do with it
    #[command(after_help = "\
Examples:
  weir check --config /etc/weir/weir.toml
  weir check && systemctl reload weir
  weir check --from /etc/pgbouncer/pgbouncer.ini > weir.toml
  weir check --from /etc/nutcracker/nutcracker.yml > weir.toml
  weir check --from /etc/influxdb-relay/influxdb-relay.toml > weir.toml

--from exits with 3 where something is to be done by hand before the result serves all whom the
other program served; standard error and the top of what is printed say what.")]
    Check {
        #[command(flatten)]
        config: ConfigFile,
        /// Print the TOML that means what this configuration of PgBouncer means (of twemproxy where
        /// its name ends in .yml or .yaml, of influxdb-relay where in .toml), with what it has no
        /// equivalent for; passwords are printed, too
        #[arg(long, value_name = "FILE", conflicts_with = "config")]
        from: Option<PathBuf>,
    },
    /// Ask a running gateway how it is: backends, backlog, dead letters, room in the journal
    #[command(after_help = "\
Examples:
  weir status
  weir status --admin 10.0.0.5:8088
  weir status --json | jq '.influx.backends[].cursor.waiting'")]
    Status(status::Command),
    /// Run a query on a server and show the answer
    #[command(after_help = "\
Examples:
  weir query 'SHOW DATABASES'
  weir query --db sensors 'SELECT mean(t) FROM air WHERE time > now() - 1h GROUP BY time(5m)'
  weir query --db sensors --format csv --precision ns 'SELECT * FROM air' > air.csv
  weir query --url https://db.example.net:8086 --user ann --password-file pw - < queries.sql")]
    Query(query::Command),
    /// Write line protocol from a file to a server
    #[command(after_help = "\
The file may have the headers of `influx -import`:
  # DDL
  CREATE DATABASE sensors
  # DML
  # CONTEXT-DATABASE: sensors
  # CONTEXT-RETENTION-POLICY: autogen

Lines are sent in bodies of 5,000, and again while the server is busy or away, for at most ten
minutes; what it refuses is shown and counted, and the exit code is 3.

Examples:
  weir import --db sensors air.lp.gz
  weir export --db sensors | weir import --url http://other:8086 -")]
    Import(import::Command),
    /// Read a database from a server as line protocol that `weir import` reads
    #[command(after_help = "\
Examples:
  weir export --db sensors --gzip -o sensors.lp.gz
  weir export --db sensors --measurement air --from 2024-01-01 --to 2024-02-01
  weir export --db sensors --from 'now() - 1d' | weir import --url http://other:8086 -")]
    Export(export::Command),
    /// Load a server from a scheduled clock, and say whether the numbers can be believed
    #[command(after_help = "\
Examples:
  weir load http://127.0.0.1:8086/ping
  weir load http://127.0.0.1:8086/ping --rate 2000 --duration 30s --require 'p99<20ms'
  weir load http://127.0.0.1:8086/ping --closed --connections 32
  weir load http://127.0.0.1:8086/ping --steps 500:10s,1000:10s,2000:10s --poisson
  weir load 'http://127.0.0.1:8086/write?db=load' --method POST --body 'm v=1'
  weir load http://127.0.0.1:8086 --workload influx-write --db load --prepare --closed
  weir load postgres://127.0.0.1/bench --script oltp_point_select --prepare --rate 500
  weir load redis://127.0.0.1:6379 --mix get=9,set=1 --rate 5000
  weir load init > load.toml; weir load run load.toml

It exits with 4 when the run is INVALID, else with 3 when something that was required is missed
or most requests failed.")]
    Load(load::Load),
    /// Look into a journal, or make it forget a backend
    #[command(subcommand)]
    Journal(journal_commands::Command),
    /// Look into the embedded store
    #[command(subcommand)]
    Store(store_commands::Command),
    /// Look into an append-only file that Weir keeps for a Redis server
    #[command(subcommand)]
    Redis(redis_commands::Command),
    /// The table that says which servers of a cluster have which points
    #[command(subcommand)]
    Placement(placement_commands::Command),
    /// Points that a backend refused for good, with its own words
    #[command(subcommand)]
    DeadLetters(dead_letters::Command),
    /// Read a password from standard input and print the hash that goes into [[influx.user]]
    #[command(after_help = "\
Examples:
  weir hash-password                 asks on a terminal
  pass show weir/jmeter | weir hash-password
  weir hash-password --postgres      for [[postgres.user]], or ALTER ROLE ... PASSWORD")]
    HashPassword {
        /// Print a SCRAM verifier, which goes into [[postgres.user]]. Give the servers the same one
        /// (ALTER ROLE name PASSWORD 'SCRAM-SHA-256$...'), and Weir logs in there as the user
        #[arg(long)]
        postgres: bool,
    },
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  weir completions bash > /usr/share/bash-completion/completions/weir
  weir completions zsh  > /usr/share/zsh/site-functions/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish")]
    Completions {
        /// The shell to complete commands in
        shell: Shell,
    },
}

impl Weir {
    /// Does what was asked; the answer goes to `out`, the result is the exit code.
    pub fn run(self, out: &mut dyn Write) -> Result<u8, Failure> {
        // Points are nobody else's business: journal and dead letters are for this user alone.
        umask(Mode::RWXG | Mode::RWXO);
        match self.command {
            Command::Serve { config } => serve::run(&config),
            Command::Check { from: Some(file), .. } => check::from_other(&file, out),
            Command::Check { config, from: None } => check::run(&config, out),
            Command::Status(command) => status::run(&command, out),
            Command::Query(command) => query::run(&command, out),
            Command::Import(command) => import::run(&command, out),
            Command::Export(command) => export::run(&command, out),
            Command::Load(command) => load::run(&command, out),
            Command::Journal(command) => journal_commands::run(command, out),
            Command::Store(command) => store_commands::run(command, out),
            Command::Redis(command) => redis_commands::run(command, out),
            Command::Placement(command) => placement_commands::run(command, out),
            Command::DeadLetters(command) => dead_letters::run(command, out),
            Command::HashPassword { postgres } => password::run(postgres, out),
            Command::Completions { shell } => {
                // Into memory first: the generator panics where its writer fails, as a pipe does
                // whose reader has seen enough.
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "weir", &mut script);
                out.write_all(&script)?;
                Ok(DONE)
            }
        }
    }
}
