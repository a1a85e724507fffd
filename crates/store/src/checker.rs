//! Which type each field has been promised to be.

use crate::catalogue::Catalogue;

/// The types of all fields, those included that are on their way through the journal.
#[derive(Debug, Default)]
pub(crate) struct Claims {}

impl Claims {
    /// Forgets policies that are no more.
    pub(crate) fn keep(&self, _catalogue: &Catalogue) {}
}
