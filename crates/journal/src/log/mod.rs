//! The segments there are, and whether records are taken.

pub(crate) mod gate;
pub(crate) mod segments;
