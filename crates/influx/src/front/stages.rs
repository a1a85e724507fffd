//! What a worker may be doing for this front end, as its watchdog calls it.

pub use flow::workers::PARSE;
use watch::watchdog::Stage;

use crate::admission::APPEND;

/// While a body is being decompressed.
pub static DECOMPRESS: Stage = Stage::new("decompress");
/// While answers are being sent.
pub static ANSWER: Stage = Stage::new("answer");

/// Those that other front ends have not got.
pub static STAGES: [&Stage; 3] = [&DECOMPRESS, &APPEND, &ANSWER];
