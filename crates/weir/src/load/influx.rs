//! What a load of InfluxDB's writes is made of.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use meter::http::Http;
use meter::influx::{Options, Rows, Writes};
use meter::url::Url;

use crate::exit::Failure;

/// What is written. Each option has a value where none is given, so that another workload knows
/// whether one was.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "InfluxDB (--workload influx-write)")]
pub struct WriteOptions {
    /// The database; without it the URL's path says where to write, as /api/v2/write?bucket=b
    #[arg(long, value_name = "NAME")]
    db: Option<String>,
    /// What points look like: report, which they are without it, jmeter or cpu-only
    #[arg(long, value_name = "KIND")]
    rows: Option<Rows>,
    /// Points of a request; without it 30
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// Series, of which the points are in turn; without it 1
    #[arg(long, value_name = "N")]
    series: Option<u64>,
    /// The share of points whose time is before all that have come, as 0.1; without it 0
    #[arg(long, value_name = "SHARE")]
    out_of_order: Option<f64>,
    /// Compress requests with gzip
    #[arg(long)]
    gzip: bool,
}

impl WriteOptions {
    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let Self { db, rows, batch, series, out_of_order, gzip } = self;
        let all = [
            ("--db", db.is_some()),
            ("--rows", rows.is_some()),
            ("--batch", batch.is_some()),
            ("--series", series.is_some()),
            ("--out-of-order", out_of_order.is_some()),
            ("--gzip", *gzip),
        ];
        all.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The workload for that server. Points begin now, so that two loads of one database do not
    /// write the same ones.
    pub fn workload(
        &self,
        url: &Url,
        headers: &[(String, String)],
        seed: u64,
    ) -> Result<Writes, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let options = Options {
            database: self.db.clone(),
            rows: self.rows.unwrap_or(Rows::Report),
            batch: self.batch.unwrap_or(30),
            series: self.series.unwrap_or(1),
            out_of_order: self.out_of_order.unwrap_or_default(),
            gzip: self.gzip,
            start_ns: u64::try_from(now.as_nanos()).unwrap_or_default(),
            seed,
        };
        Writes::new(url, headers, options).map_err(Failure::other)
    }

    /// The request that makes the database.
    pub fn preparation(&self, url: &Url, headers: &[(String, String)]) -> Result<Http, Failure> {
        let named = "--prepare makes the database that --db names, and there is none";
        let database = self.db.as_deref().ok_or_else(|| Failure::other(named))?;
        Writes::preparation(url, headers, database).map_err(Failure::other)
    }
}
