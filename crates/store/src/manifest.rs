//! Which files the store consists of, and how far they reach in the journal.
