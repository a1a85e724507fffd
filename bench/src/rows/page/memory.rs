//! What the page takes of memory: a Weir with 32 backends, a full history and 16 viewers, beside
//! the same Weir without the admin port, which has no page.

use super::VIEWERS;
use super::backends::Backends;
use super::viewers::{Viewers, open_page};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure::{Peak, settled_mib};
use crate::report::{Row, Verdict, median, unit};

const BACKENDS: usize = 32;
/// Points a second, so that every line of a chart has values and no buffer of the gateway grows.
const RATE: f64 = 1_000.0;
/// Room of a line from its first value on: 600 seconds and 1,440 minutes of four bytes each.
const LINE_BYTES: usize = (600 + 1_440) * 4;

/// What was measured, in MiB, run by run.
#[derive(Default)]
struct Runs {
    with: Vec<f64>,
    without: Vec<f64>,
    /// Of those with the page: once the history is read, and once the page was opened.
    filled: Vec<f64>,
    opened: Vec<f64>,
    /// The most that they had, while the page was being opened included.
    peak: Vec<f64>,
    missed: Option<Verdict>,
}

impl Runs {
    /// One Weir with everything that its page may have.
    fn with_page(&mut self, stand: &mut Backends, scale: &Scale, lines: &[String]) -> Outcome<()> {
        stand.fill(lines)?;
        stand.start();
        stand.wait_filled(lines);
        let (admin, peak) = (stand.weir.admin, Peak::begin(stand.id()));
        self.filled.push(settled_mib(stand.id()));
        for _ in 0..VIEWERS {
            open_page(admin)?;
        }
        self.opened.push(settled_mib(stand.id()));
        let viewers = Viewers::attach(admin, VIEWERS, true)?;
        stand.load(RATE, scale.duration)?;
        self.with.push(settled_mib(stand.id()));
        self.peak.push(peak.end_mib());
        self.missed = self.missed.take().or(viewers.detach().missed());
        stand.weir.terminate();
        Ok(())
    }

    /// One that has none.
    fn without_page(&mut self, stand: &mut Backends, scale: &Scale) -> Outcome<()> {
        stand.start_without_page()?;
        stand.load(RATE, scale.duration)?;
        self.without.push(settled_mib(stand.id()));
        stand.weir.terminate();
        Ok(())
    }

    fn notes(&self, lines: usize, scale: &Scale) -> Vec<String> {
        let [with, without, peak] = [&self.with, &self.without, &self.peak].map(|of| median(of));
        let [filled, opened] = [&self.filled, &self.opened].map(|of| median(of));
        let seconds = scale.duration.as_secs();
        let room = (lines * LINE_BYTES) as f64 / f64::from(1 << 20);
        vec![
            format!(
                "{with:.2} MiB with the page, {without:.2} MiB without the admin port, medians of \
                 {} Weirs each in turns, each after {RATE:.0} points/s for {seconds} s",
                self.with.len()
            ),
            format!(
                "{lines} lines, which have room for ten minutes and a day from their first value \
                 on: {room:.2} MiB; 1,440 minutes and 500 events were read from the page's file, \
                 as after a restart; about {seconds} of the 600 seconds were filled"
            ),
            format!(
                "with the page: {filled:.2} MiB once the file was read, {opened:.2} MiB after \
                 {VIEWERS} viewers opened it one after another, {with:.2} MiB with their streams \
                 and after the load; {peak:.2} MiB at most meanwhile"
            ),
        ]
    }
}

/// The row.
///
/// # Errors
/// When anything can't be started, or a viewer has no seat.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = Backends::prepare(BACKENDS)?;
    stand.start();
    stand.load(RATE, scale.duration)?;
    let lines = stand.lines();
    stand.weir.terminate();
    let mut runs = Runs::default();
    for pair in 0..scale.pairs {
        let mut turn = [true, false];
        if pair % 2 == 1 {
            turn.reverse();
        }
        for has_page in turn {
            match has_page {
                true => runs.with_page(&mut stand, scale, &lines)?,
                false => runs.without_page(&mut stand, scale)?,
            }
        }
    }
    let notes = runs.notes(lines.len(), scale);
    let Runs { with, without, missed, .. } = runs;
    let more: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    let figure = format!("memory (RssAnon) of history and {VIEWERS} viewers, {BACKENDS} backends");
    let series = [("with the page", with), ("without the admin port", without)];
    let row = Row::judged(figure, median(&more), unit::MIB, FigureTarget::at_most(8.0, 4.0))
        .of(series.map(|(name, mib)| Series::new(name, unit::MIB, &mib)).into())
        .noted(notes)
        .repeat("make bench ARGS=\"--only page-memory\"");
    Ok(vec![row.unless(missed)])
}
