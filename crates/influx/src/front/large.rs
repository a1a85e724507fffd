//! Bodies that are too large for their worker: they are read on another thread.

use std::time::Instant;

use wire::line::{self, Precision, StampTag};

use super::answer::Refusal;
use super::body::Whole;
use super::gateway::Gateway;
use super::write::ParsedBody;
use crate::collisions::Source;

/// A body, and all that it is to be read with.
pub struct Large {
    pub body: Whole,
    pub precision: Precision,
    pub stamp: Vec<StampTag>,
    pub source: Option<Source>,
    pub unsigned: bool,
}

impl Large {
    /// Reads the lines.
    ///
    /// # Errors
    /// The answer where the body is no good, or too large.
    pub fn read(self, gateway: &Gateway) -> Result<ParsedBody, Refusal> {
        let Self { body, precision, stamp, source, unsigned } = self;
        let mut body = body.unfolded()?;
        let points = gateway.admission.points();
        if !body.share.grow(points.room_for(&body.bytes)) {
            return Err(super::body::no_memory().into());
        }
        let begun = Instant::now();
        let now_ns = super::now_ns();
        let options = line::Options { precision, now_ns, stamp: &stamp, unsigned };
        let points = points.read(&body.bytes, &options, source);
        let done = Instant::now();
        gateway.metrics.parsed(done - begun, points.outcome().bad);
        Ok(ParsedBody { points, begun, done })
    }
}
