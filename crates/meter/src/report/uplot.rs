//! uPlot, which draws lines: <https://github.com/leeoniya/uPlot>.

/// The program, as its authors have made it small.
pub const SCRIPT: &str = include_str!("uplot.min.js");
/// What it looks like.
pub const STYLE: &str = include_str!("uplot.min.css");
/// Its licence, which goes wherever it goes.
pub const LICENCE: &str = include_str!("uplot.LICENSE");
