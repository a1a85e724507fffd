//! What the stream sends to a viewer: the page of a Weir with four backends under load.

use std::time::Duration;

use super::VIEWERS;
use super::backends::Backends;
use super::viewers::{Viewers, open_page};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};

const BACKENDS: usize = 4;
/// Points a second while viewers read.
const RATE: f64 = 10_000.0;

/// How long viewers read.
pub fn length(scale: &Scale) -> Duration {
    3 * scale.duration
}

/// The row.
///
/// # Errors
/// When anything can't be started, or a viewer has no seat.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = Backends::prepare(BACKENDS)?;
    stand.start();
    // So that every line of a chart has a value from the first frame on.
    stand.load(RATE, scale.duration)?;
    let admin = stand.weir.admin;
    let opened = open_page(admin)?;
    let packed = Viewers::attach(admin, VIEWERS - 1, true)?;
    let plain = Viewers::attach(admin, 1, false)?;
    let loaded = stand.load(RATE, length(scale));
    let [packed, plain] = [packed.leave(), plain.leave()];
    loaded?;
    let kib = |bytes: Vec<f64>| bytes.into_iter().map(|of| of / 1_024.0).collect::<Vec<_>>();
    let (each, without) = (kib(packed.bytes_per_second()), kib(plain.bytes_per_second()));
    let (least, most) = packed.frames();
    let all: usize = opened.iter().map(|(_, bytes)| bytes).sum();
    let history = opened.iter().find(|(path, _)| *path == "/history").map_or(0, |(_, of)| *of);
    let notes = vec![
        format!(
            "each of {} viewers had {least} to {most} frames in {:.0} s, at {RATE:.0} points/s; \
             one more without gzip {:.2} KiB a second",
            packed.each.len(),
            packed.length.as_secs_f64(),
            median(&without)
        ),
        format!(
            "before it, opening the page took {:.1} KiB with gzip, {:.1} KiB of them the history",
            all as f64 / 1_024.0,
            history as f64 / 1_024.0
        ),
    ];
    let figure = format!("KiB a second to each viewer of the page, {BACKENDS} backends, gzip");
    let row = Row::judged(figure, median(&each), unit::KIB, FigureTarget::at_most(4.0, 2.0))
        .of(vec![
            Series::new("each viewer", unit::KIB, &each),
            Series::new("without gzip", unit::KIB, &without),
        ])
        .noted(notes)
        .repeat("make bench ARGS=\"--only page-stream\"");
    Ok(vec![row.unless(packed.missed())])
}
