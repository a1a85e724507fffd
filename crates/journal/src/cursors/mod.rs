//! What consumers have received and what became of it: the ends of the journal, the accounts of
//! all cursors, and the newest records in memory.

pub(crate) mod chunk;
pub(crate) mod ledger;
pub(crate) mod settled;
pub(crate) mod tail;
