//! What was deleted out of files that are never changed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::predicate::TagPredicate;
use crate::scan::TimeRange;

/// Points that a statement deleted: those that came before it and match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The end of the statement's record in the journal.
    pub position: u64,
    /// Of this measurement; of all where it is `None`.
    pub measurement: Option<String>,
    /// Of series with such tags.
    pub matching: Condition,
    /// Only points of these times.
    pub time: TimeRange,
}

/// A [`TagPredicate`] as it is kept in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Every series matches it.
    All,
    /// `key = 'value'`.
    Equal(String, String),
    /// `key != 'value'`.
    NotEqual(String, String),
    /// `key =~ /regex/`.
    Match(String, String),
    /// `key !~ /regex/`.
    NotMatch(String, String),
    /// Both conditions must hold.
    And(Box<Condition>, Box<Condition>),
    /// Either condition must hold.
    Or(Box<Condition>, Box<Condition>),
}

impl From<&TagPredicate> for Condition {
    fn from(predicate: &TagPredicate) -> Self {
        let boxed = |of: &TagPredicate| Box::new(Self::from(of));
        match predicate {
            TagPredicate::All => Self::All,
            TagPredicate::Equal(key, value) => Self::Equal(key.clone(), value.clone()),
            TagPredicate::NotEqual(key, value) => Self::NotEqual(key.clone(), value.clone()),
            TagPredicate::Match(key, regex) => Self::Match(key.clone(), regex.as_str().into()),
            TagPredicate::NotMatch(key, regex) => {
                Self::NotMatch(key.clone(), regex.as_str().into())
            }
            TagPredicate::And(a, b) => Self::And(boxed(a), boxed(b)),
            TagPredicate::Or(a, b) => Self::Or(boxed(a), boxed(b)),
        }
    }
}

impl Condition {
    /// As it is evaluated.
    ///
    /// # Errors
    /// When a regular expression is none.
    pub fn predicate(&self) -> Result<TagPredicate, regex::Error> {
        let regex = |pattern: &str| regex::bytes::Regex::new(pattern).map(Arc::new);
        let boxed = |of: &Self| of.predicate().map(Box::new);
        Ok(match self {
            Self::All => TagPredicate::All,
            Self::Equal(key, value) => TagPredicate::Equal(key.clone(), value.clone()),
            Self::NotEqual(key, value) => TagPredicate::NotEqual(key.clone(), value.clone()),
            Self::Match(key, pattern) => TagPredicate::Match(key.clone(), regex(pattern)?),
            Self::NotMatch(key, pattern) => TagPredicate::NotMatch(key.clone(), regex(pattern)?),
            Self::And(a, b) => TagPredicate::And(boxed(a)?, boxed(b)?),
            Self::Or(a, b) => TagPredicate::Or(boxed(a)?, boxed(b)?),
        })
    }
}

/// A tombstone, ready to be applied.
#[derive(Clone, Debug)]
pub struct Active {
    /// What the manifest says.
    pub tombstone: Arc<Tombstone>,
    matching: Arc<TagPredicate>,
}

impl Active {
    /// Makes a tombstone ready.
    ///
    /// # Errors
    /// When a regular expression is none.
    pub fn new(tombstone: Tombstone) -> Result<Self, regex::Error> {
        let matching = Arc::new(tombstone.matching.predicate()?);
        Ok(Self { tombstone: Arc::new(tombstone), matching })
    }

    /// Whether a series with these tags, sorted by key, is meant.
    pub fn matches(&self, tags: &[(Arc<str>, Arc<str>)]) -> bool {
        matches(&self.matching, tags)
    }
}

/// Whether tags, sorted by key, meet a condition. An absent tag equals the empty string.
pub fn matches(predicate: &TagPredicate, tags: &[(Arc<str>, Arc<str>)]) -> bool {
    let value = |key: &str| {
        let at = tags.binary_search_by(|(known, _)| (**known).cmp(key)).ok();
        at.and_then(|at| tags.get(at)).map_or("", |(_, value)| value)
    };
    match predicate {
        TagPredicate::All => true,
        TagPredicate::Equal(key, wanted) => value(key) == wanted,
        TagPredicate::NotEqual(key, wanted) => value(key) != wanted,
        TagPredicate::Match(key, regex) => regex.is_match(value(key).as_bytes()),
        TagPredicate::NotMatch(key, regex) => !regex.is_match(value(key).as_bytes()),
        TagPredicate::And(a, b) => matches(a, tags) && matches(b, tags),
        TagPredicate::Or(a, b) => matches(a, tags) || matches(b, tags),
    }
}
