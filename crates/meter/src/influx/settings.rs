//! What can be chosen, and its limits.

use super::Rows;
use crate::http::RequestError;
use crate::url::Url;

/// The most points of a request.
const BATCH_MAX: u32 = 1_000_000;

/// What is written, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The database of `/write`; none where the URL's path says where to write.
    pub database: Option<String>,
    /// What points look like.
    pub rows: Rows,
    /// How many points a request has.
    pub batch: u32,
    /// How many series the points are of, in turn.
    pub series: u64,
    /// The share of points whose time is before all that have come, from 0 to 1.
    pub out_of_order: f64,
    /// Whether requests are compressed.
    pub gzip: bool,
    /// The time of the points: those in order begin behind it, the others before it.
    pub start_ns: u64,
    /// What chance begins with.
    pub seed: u64,
}

/// The options of a load are wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Nobody has said where to write.
    #[error("which database? name it (--db load), or give the URL a path, as /api/v2/write?...")]
    Database,
    /// The URL's path and an option both name where to write.
    #[error("the URL has a path, so it says where to write: leave the database (--db) out")]
    Path,
    /// A header can't be sent.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A limit is exceeded.
    #[error("{0}")]
    Limit(String),
}

impl Options {
    pub(super) fn check(&self, url: &Url) -> Result<(), WriteError> {
        let limit = |words: String| Err(WriteError::Limit(words));
        match (&self.database, url.target()) {
            (None, "/") => return Err(WriteError::Database),
            (Some(_), path) if path != "/" => return Err(WriteError::Path),
            _ => {}
        }
        if self.batch == 0 || self.batch > BATCH_MAX {
            return limit(format!("a request has 1 to {BATCH_MAX} points"));
        }
        if self.series == 0 {
            return limit("there is 1 series at least".to_owned());
        }
        if !(0.0..=1.0).contains(&self.out_of_order) {
            return limit("a share of points out of order is from 0 to 1".to_owned());
        }
        Ok(())
    }
}
