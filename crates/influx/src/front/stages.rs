//! What a worker may be doing for this front end, as its watchdog calls it.

pub use flow::workers::PARSE;
use watch::watchdog::Stage;

/// Decompressing a body.
pub static DECOMPRESS: Stage = Stage::new("decompress");
/// Appending to the journal's group.
pub static APPEND: Stage = Stage::new("append");
/// Sending answers.
pub static ANSWER: Stage = Stage::new("answer");

/// Those that other front ends have not got.
pub static STAGES: [&Stage; 3] = [&DECOMPRESS, &APPEND, &ANSWER];
