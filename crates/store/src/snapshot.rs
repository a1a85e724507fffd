//! The store at one moment.

use std::collections::BTreeMap;

use crate::scan::{Chunk, ScanError, ScanRequest, TagPredicate, TimeRange};
use crate::schema::FieldType;
use crate::series::{Series, SeriesId};

/// A name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No such database.
    #[error("database not found: {0}")]
    Database(String),
    /// No such retention policy.
    #[error("retention policy not found: {0}")]
    Policy(String),
}

/// The store at one moment: nothing that is applied later is seen through it.
#[derive(Clone, Debug)]
pub struct Snapshot {}

impl Snapshot {
    /// The names of all databases, sorted.
    pub fn databases(&self) -> Vec<String> {
        Vec::new()
    }

    /// A database's retention policies as they are listed: the oldest first.
    ///
    /// # Errors
    /// When there is no such database.
    pub fn policies(&self, db: &str) -> Result<Vec<crate::catalogue::Policy>, NameError> {
        Err(NameError::Database(db.to_owned()))
    }

    /// The data of one retention policy; `None` is the database's default.
    ///
    /// # Errors
    /// When a name is not known.
    pub fn policy(&self, db: &str, policy: Option<&str>) -> Result<PolicyView, NameError> {
        let _ = policy;
        Err(NameError::Database(db.to_owned()))
    }

    /// What could not be read when the store was opened, and is missing from all answers.
    pub fn messages(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The data of one retention policy at one moment.
#[derive(Clone, Debug)]
pub struct PolicyView {}

impl PolicyView {
    /// Its measurements, sorted.
    pub fn measurements(&self) -> Vec<String> {
        Vec::new()
    }

    /// The fields of a measurement and their types.
    pub fn fields(&self, _measurement: &str) -> BTreeMap<String, FieldType> {
        BTreeMap::new()
    }

    /// The tag keys of a measurement, sorted.
    pub fn tag_keys(&self, _measurement: &str) -> Vec<String> {
        Vec::new()
    }

    /// The values of a tag, sorted, over the series that match.
    pub fn tag_values(&self, _measurement: &str, _key: &str, _of: &TagPredicate) -> Vec<String> {
        Vec::new()
    }

    /// The series of a measurement that match, sorted by their tags' key=value bytes.
    pub fn series(&self, _measurement: &str, _matching: &TagPredicate) -> Vec<Series> {
        Vec::new()
    }

    /// How many series match.
    pub fn series_count(&self, measurement: &str, matching: &TagPredicate) -> usize {
        self.series(measurement, matching).len()
    }

    /// The time from the first to the last point of a measurement there may be within `range`;
    /// wider than the truth rather than narrower. `None` where there is none.
    pub fn extent(&self, _measurement: &str, _range: TimeRange) -> Option<TimeRange> {
        None
    }

    /// Cuts a range into at most `parts` neighbouring ones that cost about the same to scan; for
    /// the use of several cores on few series.
    pub fn split(&self, _measurement: &str, range: TimeRange, _parts: usize) -> Vec<TimeRange> {
        vec![range]
    }

    /// The points of some series, in the order in which they are given (which should be that of
    /// [`PolicyView::series`]), each by time. Lazy: nothing is read that is not asked for.
    pub fn scan(&self, _series: &[SeriesId], _request: &ScanRequest) -> Scan {
        Scan {}
    }
}

/// A scan under way.
#[derive(Debug)]
pub struct Scan {}

impl Iterator for Scan {
    type Item = Result<Chunk, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}
