//! Line protocol as InfluxDB 1.8 reads it (`models/points.go`): one pass that validates a body
//! and appends its good points in a form that can be concatenated with any other.

mod fast;
mod fault;
mod frame;
mod marks;
mod normaliser;
mod notes;
mod number;
mod point;
mod precision;
mod read;
mod sample;
mod stamp;
mod tags;
mod write;

pub use marks::{Mark, MarkKey, Marks, NewestTime, Removal};
pub use notes::Notes;
pub use precision::Precision;
pub use read::{
    Field, Fields, Point, Value, measurement, read, tag_pairs, unescape_name, unescape_string,
    unescape_tag,
};
pub use sample::{Sample, SampledPoint, Sampler};
pub use stamp::{StampError, StampTag};
pub use write::{push_measurement, push_name, push_string, push_tag, push_text};

/// How [`normalise`] is to treat a body.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Unit of the timestamps in the body.
    pub precision: Precision,
    /// Nanoseconds since the epoch that a point without a timestamp gets, cut to `precision`.
    pub now_ns: i64,
    /// Tags added to every point that doesn't have a tag of that key already.
    pub stamp: &'a [StampTag],
    /// Whether `1u` is an unsigned integer (servers built with uint support) or an error.
    pub unsigned: bool,
}

/// Where the first line of `text` ends: at its newline, which is not one between the quotes of a
/// field, or at the end of `text` where there is none.
pub fn line_end(text: &[u8]) -> usize {
    frame::line_end(text, 0)
}

/// What [`normalise`] found in a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Points appended to the output.
    pub points: u32,
    /// Lines that could not be parsed; none of them is in the output.
    pub bad: u32,
    /// One `unable to parse '<line>': <why>` per bad line, joined by newlines, cut at
    /// [`ERROR_BYTES_MAX`].
    pub error: Option<String>,
    /// Points that parse but that InfluxDB drops whatever its schema (a tag named `time`, or no
    /// other field than one named `time`); none of them is in the output.
    pub dropped: u32,
    /// Why the first of the dropped points was dropped, in InfluxDB's words.
    pub reason: Option<String>,
}

/// Bytes of [`Outcome::error`] after which it ends in `...`.
pub const ERROR_BYTES_MAX: usize = 64 * 1024;

impl Outcome {
    /// The text of the 400 that InfluxDB 1.8 answers, or `None` when it would answer 204.
    ///
    /// From `services/httpd/handler.go`, `serveWrite`: parse errors alone when no line parsed,
    /// else dropped points come before parse errors, each as a `partial write`.
    pub fn refusal(&self) -> Option<String> {
        match (&self.error, &self.reason) {
            (Some(error), _) if self.points == 0 && self.dropped == 0 => Some(error.clone()),
            (_, Some(reason)) => Some(format!("partial write: {reason} dropped={}", self.dropped)),
            (Some(error), None) => Some(format!("partial write: {error} dropped=0")),
            (None, None) => None,
        }
    }
}

/// Appends every good point of `body` to `out`: one record per point, without leading blanks or
/// comments, with a timestamp in nanoseconds, ending in a newline.
///
/// Records may be joined in any order and company: each still reads as the same point. Verdicts
/// and words are those of InfluxDB 1.8, but for a line whose end depends on what follows it,
/// which is refused. Nothing is allocated for a good line but room in `out`.
pub fn normalise(body: &[u8], options: &Options<'_>, out: &mut Vec<u8>) -> Outcome {
    normaliser::Normaliser::new(body, options, out, marks::Unmarked).run()
}

/// The records of what [`normalise`] appended, each with its newline.
pub fn points(normalised: &[u8]) -> impl Iterator<Item = &[u8]> {
    frame::Points(normalised)
}

/// The measurement and tags of a record, as written: escaped, tags in the client's order.
pub fn series(point: &[u8]) -> &[u8] {
    frame::series(point)
}

#[cfg(test)]
mod tests;
