//! `weir export`: a database as line protocol, with the headers that `weir import` reads.

mod line;
mod plan;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use watch::words::count;
use wire::influxql::{quote_identifier, quote_string};

use crate::exit::{BAD_NEWS, DONE, Failure, note};
use crate::remote::{self, Client, Documents, Server};
use line::Lines;
use plan::Plan;

/// Rows of an answer's piece: all that is held of it at once.
const CHUNK_ROWS: &str = "5000";
const WRITE_BYTES: usize = 256 << 10;

/// What to export, and where to.
#[derive(Debug, Args)]
pub struct Command {
    /// The name of the database
    #[arg(long, short, value_name = "NAME")]
    db: String,
    /// One retention policy instead of all
    #[arg(long, value_name = "NAME")]
    rp: Option<String>,
    /// One measurement instead of all; may be given again
    #[arg(long, value_name = "NAME")]
    measurement: Vec<String>,
    /// The first time, as 2024-01-01, 2024-01-01T12:00:00Z, nanoseconds or `now() - 1d`
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// The time before which it ends, written likewise
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// The file; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Compress the output with gzip
    #[arg(long)]
    gzip: bool,
    #[command(flatten)]
    server: Server,
}

/// Exports; says on standard error how much it was.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    remote::run(command.run(out))
}

impl Command {
    async fn run(&self, out: &mut dyn Write) -> Result<u8, Failure> {
        let client = Client::new(&self.server)?;
        let plan = Plan::make(&client, &self.db, self.rp.as_deref(), &self.measurement).await?;
        let to_file = self.output.as_os_str() != "-";
        let file = if to_file { Some(self.create()?) } else { None };
        let plain: &mut dyn Write = match &file {
            Some(file) => &mut { file },
            None => out,
        };
        let plain = BufWriter::with_capacity(WRITE_BYTES, plain);
        let points = if self.gzip {
            let mut packed = GzEncoder::new(plain, Compression::default());
            let points = self.write(&client, &plan, &mut packed).await?;
            packed.finish()?.flush()?;
            points
        } else {
            let mut plain = plain;
            let points = self.write(&client, &plan, &mut plain).await?;
            plain.flush()?;
            points
        };
        if let Some(file) = file {
            file.sync_all()?;
        }
        note(format!("{} points", count(points.written)));
        Ok(if points.is_whole { DONE } else { BAD_NEWS })
    }

    fn create(&self) -> Result<File, Failure> {
        let name = self.output.display();
        File::create(&self.output)
            .map_err(|error| Failure::other(format!("can't write {name}: {error}")))
    }

    async fn write(
        &self,
        client: &Client,
        plan: &Plan,
        out: &mut dyn Write,
    ) -> Result<Exported, Failure> {
        writeln!(out, "# DDL")?;
        for statement in &plan.statements {
            writeln!(out, "{statement}")?;
        }
        writeln!(out, "\n# DML\n# CONTEXT-DATABASE: {}", self.db)?;
        let mut points = Exported { written: 0, is_whole: true };
        for policy in &plan.policies {
            writeln!(out, "# CONTEXT-RETENTION-POLICY: {policy}")?;
            for measurement in &plan.measurements {
                let of = self.measurement(client, policy, measurement, out).await?;
                points.written += of.written;
                points.is_whole &= of.is_whole;
            }
        }
        Ok(points)
    }

    async fn measurement(
        &self,
        client: &Client,
        policy: &str,
        measurement: &str,
        out: &mut dyn Write,
    ) -> Result<Exported, Failure> {
        let place = [self.db.as_str(), policy, measurement].map(quote_identifier).join(".");
        let types = plan::field_types(client, &self.db, &place).await?;
        let since = self.from.as_deref().map(|time| format!("time >= {}", literal(time)));
        let until = self.to.as_deref().map(|time| format!("time < {}", literal(time)));
        let within: Vec<_> = since.into_iter().chain(until).collect();
        let within = if within.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", within.join(" AND "))
        };
        let q = format!("SELECT *::field FROM {place}{within} GROUP BY *");
        let pairs = [
            ("q", q.as_str()),
            ("db", &self.db),
            ("epoch", "ns"),
            ("chunked", "true"),
            ("chunk_size", CHUNK_ROWS),
        ];
        let mut answer = Documents::new(client.query(&pairs, "application/json").await?);
        let mut lines = Lines::new(measurement, types);
        let mut is_whole = true;
        while let Some(piece) = answer.next().await? {
            if let Some(error) = piece.error() {
                return Err(Failure::other(format!("{measurement}: {error}")));
            }
            for message in piece.results.iter().flat_map(|result| &result.messages) {
                note(format!("{measurement}: {}", message.text));
                is_whole &= message.level != "warning";
            }
            for series in piece.results.iter().flat_map(|result| &result.series) {
                lines.write(series, out)?;
            }
        }
        Ok(Exported { written: lines.written(), is_whole })
    }
}

/// How an export went.
struct Exported {
    /// How many points were written.
    written: u64,
    /// Whether the server warned of none that are missing.
    is_whole: bool,
}

/// A time as a query writes it.
fn literal(time: &str) -> String {
    let number = time.strip_prefix('-').unwrap_or(time);
    let number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if number || time.starts_with("now()") { time.to_owned() } else { quote_string(time) }
}
