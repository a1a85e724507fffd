//! Bodies that are too large for their worker: they are read on another thread.

use std::time::Instant;

use wire::line::{self, Precision, StampTag};

use super::answer::Refusal;
use super::body::Whole;
use super::gateway::Gateway;
use super::write::ParsedBody;
use crate::admission::Points;

/// A body, and all that it is to be read with.
pub struct Large {
    pub body: Whole,
    pub precision: Precision,
    pub stamp: Vec<StampTag>,
    pub unsigned: bool,
}

impl Large {
    /// Reads the lines.
    ///
    /// # Errors
    /// The answer where the body is no good, or too large.
    pub fn read(self, gateway: &Gateway) -> Result<ParsedBody, Refusal> {
        let Self { body, precision, stamp, unsigned } = self;
        let mut body = body.unfolded()?;
        // The points are about as long.
        if !body.share.grow(body.bytes.len()) {
            return Err(super::body::no_memory().into());
        }
        let begun = Instant::now();
        let now_ns = super::now_ns();
        let options = line::Options { precision, now_ns, stamp: &stamp, unsigned };
        let mut lines = Vec::new();
        let outcome = line::normalise(&body.bytes, &options, &mut lines);
        let done = Instant::now();
        gateway.metrics.parsed(done - begun, outcome.bad);
        Ok(ParsedBody { points: Points { lines, outcome }, begun, done })
    }
}
