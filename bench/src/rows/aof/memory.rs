//! Memory of Weir while it takes a large data set, follows 50 MB a second, and takes a new base
//! meanwhile.

use std::thread;

use super::paced::Paced;
use super::{Following, master, populate};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure::{Peak, anonymous_mib};
use crate::report::{Row, median, unit};

const DATA_MIB: u64 = 2 << 10;
/// 50 MB a second.
const LOAD: Paced = Paced { rate: 5_000.0, clients: 50, value: 10_000, keys: 10_000 };

/// The row.
///
/// # Errors
/// When anything can't be started, or a write fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let master = master(&[]);
    let data_mib = DATA_MIB / scale.one_in;
    populate(&mut master.client(), data_mib)?;
    let (mut peaks, mut notes) = (Vec::new(), Vec::new());
    for _ in 0..scale.pairs {
        let mut following = Following::of(&master.url(), "");
        let pid = following.weir.running().id();
        let peak = Peak::begin(pid);
        let run = LOAD.beside(master.address, || {
            following.wait_following();
            let rest = anonymous_mib(pid);
            // The stream is followed for as long before the base is asked for.
            thread::sleep(scale.duration);
            Ok((rest, following.rewrite()?))
        });
        let peak = peak.end_mib();
        let (run, (rest, took)) = run?;
        notes.push(format!(
            "{peak:.1} MiB at most, {rest:.1} once the first base was in force; the second took \
             {:.1} s; {:.1} MB a second were written",
            took.as_secs_f64(),
            run.rate() * LOAD.value as f64 / 1e6
        ));
        peaks.push(peak);
    }
    notes.push(format!("the data set has {data_mib} MiB"));
    let figure = "peak memory (RssAnon), 2 GB data set and 50 MB/s";
    let row = Row::judged(figure, median(&peaks), unit::MIB, FigureTarget::at_most(64.0, 32.0))
        .of(vec![Series::new("Weir", unit::MIB, &peaks)])
        .noted(notes);
    Ok(vec![row.repeat("make bench ARGS=\"--only aof-memory\"")])
}
