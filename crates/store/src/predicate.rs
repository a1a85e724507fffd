//! Which series are meant, by their tags.

use std::sync::Arc;

/// A condition on the tags of a series. An absent tag equals the empty string.
#[derive(Clone, Debug)]
pub enum TagPredicate {
    /// Every series matches it.
    All,
    /// `key = 'value'`.
    Equal(String, String),
    /// `key != 'value'`.
    NotEqual(String, String),
    /// `key =~ /regex/`.
    Match(String, Arc<regex::bytes::Regex>),
    /// `key !~ /regex/`.
    NotMatch(String, Arc<regex::bytes::Regex>),
    /// Both conditions must hold.
    And(Box<TagPredicate>, Box<TagPredicate>),
    /// Either condition must hold.
    Or(Box<TagPredicate>, Box<TagPredicate>),
}
