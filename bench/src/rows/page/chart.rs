//! How soon the page shows something: from opening it in a Chromium on this machine to the first
//! chart that is drawn, by the page's own mark.

use std::time::Duration;

use rig::chromium::{Browser, Screen};
use rig::places;
use serde_json::json;

use super::backends::Backends;
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};

const FIGURE: &str = "first chart of the page after opening it, Chromium on loopback";
const BACKENDS: usize = 4;
/// Points a second, before the page is opened.
const RATE: f64 = 10_000.0;
const SCREEN: Screen = Screen { width: 1280, height: 900, dark: false };
/// The time of the mark since the opening (High Resolution Time, the time origin), once it is set.
const DRAWN_MS: &str = "new Promise((done) => new PerformanceObserver((list) => { \
                        const mark = list.getEntriesByName('first-chart')[0]; \
                        if (mark) done(mark.startTime); \
                        }).observe({ type: 'mark', buffered: true }))";

/// How long a Chromium that has just begun may go on beginning.
const REST: Duration = Duration::from_secs(1);

/// The rows.
///
/// # Errors
/// When anything can't be started.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    if places::find("chromium").is_none() {
        return Ok(vec![Row::no_peer(FIGURE, "chromium is not on the PATH")]);
    }
    let mut stand = Backends::prepare(BACKENDS)?;
    stand.start();
    stand.load(RATE, scale.duration)?;
    let lines = stand.lines();
    stand.weir.terminate();
    stand.fill(&lines)?;
    stand.start();
    stand.wait_filled(&lines);
    stand.load(RATE, scale.duration)?;
    let url = format!("http://{}/", stand.weir.admin);
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for _ in 0..scale.pairs {
        let mut browser = Browser::open(&url, SCREEN);
        first.push(drawn_ms(&mut browser));
        browser.command("Page.navigate", json!({ "url": "about:blank" }));
        browser.listen(REST);
        browser.command("Page.navigate", json!({ "url": url }));
        later.push(drawn_ms(&mut browser));
    }
    let longest = |ms: &[f64]| ms.iter().copied().fold(0.0, f64::max);
    let notes = vec![format!(
        "median of {} openings in as many Chromiums that run already, {:.0} ms at most; \
         {BACKENDS} backends, a day of history, 500 events; nothing is written meanwhile",
        later.len(),
        longest(&later)
    )];
    let just_begun = format!("{FIGURE}, as the first page of a Chromium that has just begun");
    let repeat = "make bench ARGS=\"--only page-chart\"";
    Ok(vec![
        Row::judged(FIGURE, median(&later), unit::MS, FigureTarget::at_most(500.0, 200.0))
            .of(vec![Series::new("Weir", unit::MS, &later)])
            .noted(notes)
            .repeat(repeat),
        Row::beside(just_begun, median(&first), unit::MS)
            .of(vec![Series::new("Weir", unit::MS, &first)])
            .noted(vec![format!("{:.0} ms at most", longest(&first))])
            .repeat(repeat),
    ])
}

/// When the first chart was drawn, since the page was opened.
fn drawn_ms(browser: &mut Browser) -> f64 {
    browser.value(DRAWN_MS).as_f64().unwrap_or(f64::NAN)
}
