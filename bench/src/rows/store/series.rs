//! A million series: whether they load, answer and come back.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::measure::anonymous_mib;
use crate::report::{Row, unit};

use super::bodies::{Bodies, START_NS};
use super::{Client, load, weir};

const SERIES: u64 = 1_000_000;
const COUNT: &str = "SELECT count(v) FROM m";

fn put(number: u64, out: &mut Vec<u8>) {
    let (device, site) = (number, number % 1_000);
    let time = START_NS + number;
    // Writing to memory does not fail.
    let _ = writeln!(out, "m,device=device-{device:07},site=site{site:03} v={number}i {time}");
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let series = SERIES / scale.one_in;
    let bodies = Bodies::of(series, 5_000, put);
    let mut weir = weir("")?;
    let pid = weir.running().id();
    let loaded = load((weir.http, pid), &bodies, COUNT, series)?;
    let queries = [
        COUNT.to_owned(),
        format!("SELECT v FROM m WHERE device = 'device-{:07}'", series / 2),
        "SELECT count(v) FROM m WHERE site = 'site007'".to_owned(),
        "SELECT sum(v) FROM m GROUP BY site".to_owned(),
        "SHOW SERIES EXACT CARDINALITY".to_owned(),
        "SHOW TAG VALUES FROM m WITH KEY = device LIMIT 10".to_owned(),
    ];
    let asked = |client: &mut Client| -> Outcome<(Vec<String>, Duration)> {
        let mut notes = Vec::new();
        let mut longest = Duration::ZERO;
        for q in &queries {
            let took = client.ask(q)?.1;
            longest = longest.max(took);
            notes.push(format!("`{q}`: {:.1} ms", took.as_secs_f64() * 1e3));
        }
        Ok((notes, longest))
    };
    let (mut notes, _) = asked(&mut Client::open(weir.http)?)?;
    weir.kill();
    let begun = Instant::now();
    weir.start_again();
    let restart = begun.elapsed();
    let mut client = Client::open(weir.http)?;
    let counted = client.count(COUNT)?;
    if counted != series {
        return Err(format!("{counted} of {series} points after the restart").into());
    }
    let again = asked(&mut client)?.1;
    let mib = loaded.peak_mib.max(anonymous_mib(weir.running().id()));
    notes.insert(0, format!("{series} series loaded in {:.1} s", loaded.took.as_secs_f64()));
    notes.push(format!("after the restart the longest took {:.1} ms", again.as_secs_f64() * 1e3));
    let seconds = restart.as_secs_f64();
    let repeat = "make bench ARGS=\"--only store-series\"";
    let (time, memory) = (FigureTarget::at_most(10.0, 3.0), FigureTarget::at_most(1_024.0, 512.0));
    let restarted = "1,000,000 series: restart after kill -9";
    Ok(vec![
        Row::judged(restarted, seconds, unit::SECONDS, time).noted(notes).repeat(repeat),
        Row::judged("1,000,000 series: memory (RssAnon)", mib, unit::MIB, memory).repeat(repeat),
    ])
}
