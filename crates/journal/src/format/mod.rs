//! What is on the disk, byte for byte: records in groups in segments, and cursors. Everything that
//! reads it here takes damage for what it is and never panics.

// Layers, from the top down.
//   cursor, scan
//   window
//   segment
//   group
//   record

pub(crate) mod cursor;
pub(crate) mod group;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod window;
