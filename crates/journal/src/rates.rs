//! How fast the journal fills.

/// How fast the journal fills, in bytes a second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub appended: f64,
    pub growth: f64,
}
