//! What a load of InfluxDB's writes is made of.

use clap::Args;
use meter::http::{Http, header};
use meter::influx::{Options, Rows, Writes};
use meter::url::Url;
use serde::Deserialize;

use super::http::headers;
use super::inputs::Inputs;
use super::values;
use crate::exit::Failure;

/// Which points are written, and where to.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(next_help_heading = "InfluxDB (--workload influx-write)")]
pub struct InfluxOptions {
    /// The database; without it the URL's path says where to write, as /api/v2/write?bucket=b
    #[arg(long, value_name = "NAME")]
    db: Option<String>,
    /// What points look like: report, jmeter or cpu-only
    #[arg(long, value_name = "KIND", default_value = "report")]
    #[serde(deserialize_with = "values::text")]
    rows: Rows,
    /// Points of a request
    #[arg(long, value_name = "N", default_value_t = 30)]
    batch: u32,
    /// Series, of which the points are in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    series: u64,
    /// The share of points whose time is before all that have come, as 0.1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    out_of_order: f64,
    /// Compress requests with gzip
    #[arg(long)]
    gzip: bool,
    // Its text is that of HTTP's option, which has the same name.
    #[arg(long, short = 'H', value_name = "HEADER", value_parser = header)]
    #[arg(help_heading = "HTTP and InfluxDB")]
    #[serde(deserialize_with = "headers")]
    pub header: Vec<(String, String)>,
    // And that of PostgreSQL's.
    #[arg(long, help_heading = "PostgreSQL and InfluxDB")]
    pub prepare: bool,
}

impl InfluxOptions {
    /// It as far as it is written down: headers may be secret.
    pub fn described(&self) -> String {
        let Self { db, rows, batch, series, out_of_order, gzip, .. } = self;
        format!(
            "db {}, rows {rows:?}, batch {batch}, series {series}, out of order {out_of_order}, \
             gzip {gzip}",
            db.as_deref().unwrap_or("by the path")
        )
    }

    /// The workload for that server. Points begin when the run does, so that two loads of one
    /// database do not write the same ones.
    pub fn workload(&self, url: &Url, inputs: &Inputs, seed: u64) -> Result<Writes, Failure> {
        let options = Options {
            database: self.db.clone(),
            rows: self.rows,
            batch: self.batch,
            series: self.series,
            out_of_order: self.out_of_order,
            gzip: self.gzip,
            start_ns: inputs.begin_ns,
            seed,
        };
        Writes::new(url, &self.header, options).map_err(Failure::other)
    }

    /// The request that makes the database.
    pub fn missing_database(&self, url: &Url) -> Result<Http, Failure> {
        let named = "--prepare makes the database that --db names, and there is none";
        let database = self.db.as_deref().ok_or_else(|| Failure::other(named))?;
        Writes::preparation(url, &self.header, database).map_err(Failure::other)
    }
}
