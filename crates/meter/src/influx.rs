//! InfluxDB's writes: batches of line protocol, each point of its own series and time, so that what
//! a server has can be counted afterwards.

mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod write_answers;

pub use rows::Rows;
pub use settings::{Options, WriteError};
pub use write_answers::WriteAnswers;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::chance::Chance;
use crate::http::answer::Answers;
use crate::http::{Head, Http, Request};
use crate::url::Url;
use crate::workload::Workload;

/// Nanoseconds from one point of a series to its next.
pub(crate) const STEP_NS: u64 = 1_000_000;

/// Sends writes of line protocol, and reads their answers.
#[derive(Debug, Clone)]
pub struct Writes {
    options: Options,
    head: Head,
    /// The lines of a request, and what they are when compressed.
    lines: Vec<u8>,
    packed: Vec<u8>,
}

impl Writes {
    /// Writes to the database of the options, or to the path that `url` has.
    ///
    /// # Errors
    /// The options are beyond a limit, or a header can't be sent.
    pub fn new(
        url: &Url,
        headers: &[(String, String)],
        options: Options,
    ) -> Result<Self, WriteError> {
        options.check(url)?;
        let target = match (url.target(), &options.database) {
            ("/", Some(database)) => format!("/write?db={}&precision=ns", encoded(database)),
            (own, _) => own.to_owned(),
        };
        let mut headers = headers.to_vec();
        if options.gzip {
            headers.push(("Content-Encoding".to_owned(), "gzip".to_owned()));
        }
        let head = Head::new(url, &target, "POST", &headers)?;
        Ok(Self { options, head, lines: Vec::new(), packed: Vec::new() })
    }

    /// The request that makes the database, for `url`; nothing where its path says where to write.
    ///
    /// # Errors
    /// A header can't be sent.
    pub fn preparation(
        url: &Url,
        headers: &[(String, String)],
        database: &str,
    ) -> Result<Http, WriteError> {
        let statement = format!("CREATE DATABASE \"{}\"", database.replace('"', "\\\""));
        let target = format!("/query?q={}", encoded(&statement));
        let request = Request { method: "POST".into(), headers: headers.to_vec(), body: vec![] };
        Ok(Http::to_target(url, &target, &request)?)
    }

    /// Puts the lines of request `number`.
    fn put_lines(&mut self, number: u64) {
        self.lines.clear();
        let Options { rows, batch, series, start_ns, out_of_order, seed, .. } = self.options;
        let mut chance = Chance::of(seed, number);
        for at in 0..u64::from(batch) {
            let point = number.wrapping_mul(u64::from(batch)).wrapping_add(at);
            let (of, step) = (point % series, point / series);
            // What comes late is before all that has come, so no point has another one's time.
            let is_late = out_of_order > 0.0 && chance.share() < out_of_order;
            let away = step.wrapping_add(1).wrapping_mul(STEP_NS);
            let time = match is_late {
                true => start_ns.saturating_sub(away),
                false => start_ns.wrapping_add(away),
            };
            rows.put(point, of, &mut chance, &mut self.lines);
            // Writing to memory does not fail.
            let _ = writeln!(self.lines, " {time}");
        }
    }

    /// The lines of request `number`, without compression.
    pub(crate) fn lines(&mut self, number: u64) -> &str {
        self.put_lines(number);
        // Kinds of rows write text.
        std::str::from_utf8(&self.lines).unwrap_or_default()
    }

    /// What is written, and where.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// What a ledger has to say of it, so that [`Writes::of_kept`] makes the same; nothing where
    /// the URL's path says where to write, since nobody knows then where to read.
    pub fn kept(&self) -> Option<serde_json::Value> {
        let Options { database, rows, batch, series, out_of_order, start_ns, seed, .. } =
            &self.options;
        Some(serde_json::json!({
            "influx_write": {
                "database": database.as_ref()?, "rows": rows.name(), "batch": batch,
                "series": series, "out_of_order": out_of_order, "start_ns": start_ns, "seed": seed,
            },
        }))
    }

    /// What such a run has written.
    ///
    /// # Errors
    /// The URL has a path.
    pub fn of_kept(url: &Url, kept: &serde_json::Value) -> Result<Option<Self>, WriteError> {
        let of = &kept["influx_write"];
        let read = || {
            Some(Options {
                database: Some(of["database"].as_str()?.to_owned()),
                rows: of["rows"].as_str()?.parse().ok()?,
                batch: u32::try_from(of["batch"].as_u64()?).ok()?,
                series: of["series"].as_u64()?,
                out_of_order: of["out_of_order"].as_f64()?,
                gzip: false,
                start_ns: of["start_ns"].as_u64()?,
                seed: of["seed"].as_u64()?,
            })
        };
        read().map(|options| Self::new(url, &[], options)).transpose()
    }
}

fn encoded(text: &str) -> impl std::fmt::Display + '_ {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

impl Workload for Writes {
    type Reader = WriteAnswers;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        self.put_lines(number);
        let body = if self.options.gzip {
            self.packed.clear();
            let mut packer = GzEncoder::new(&mut self.packed, Compression::fast());
            // Neither does this.
            let _ = packer.write_all(&self.lines).and_then(|()| packer.try_finish());
            drop(packer);
            &self.packed
        } else {
            &self.lines
        };
        self.head.put(body, out);
        0
    }

    fn reader(&self) -> WriteAnswers {
        WriteAnswers(Answers::new(false).each_of(self.options.batch))
    }
}
