//! How long Weir takes to follow again after `kill -9` with many files.

use std::fs;
use std::process::Command;
use std::time::Instant;

use super::Following;
use super::origin::{Origin, Recording};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure::disk_bytes;
use crate::report::{Row, median, unit};

/// Beside whole increments of 256 MiB most of another one, which is read at the start.
const BYTES: u64 = (10 << 30) - (32 << 20);
const RECORDED_BYTES: u64 = 64 << 20;

/// The row.
///
/// # Errors
/// When anything can't be started.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let bytes = BYTES / scale.one_in;
    let origin = Origin::start(Recording::make(RECORDED_BYTES.min(bytes))?)?;
    let mut following = Following::of(&origin.url(), "");
    following.wait_following();
    let (mb, took) = origin.send(origin.times(bytes));
    let mut notes = vec![format!(
        "{mb:.0} MB were made durable in {:.1} s; the files have {} MiB",
        took.as_secs_f64(),
        disk_bytes(following.weir.dir().as_path()).max(disk_bytes(&following.files)) >> 20
    )];
    let mut seconds = Vec::new();
    for _ in 0..scale.pairs {
        following.weir.kill();
        let is_cold = forget_pages();
        let begun = Instant::now();
        following.weir.start_unready();
        let took = origin.continued(begun) - begun;
        seconds.push(took.as_secs_f64());
        notes.push(format!("{:.2} s, the page cache {}", took.as_secs_f64(), cold(is_cold)));
        // The next kill is of one that follows.
        following.wait_following();
    }
    let figure = "restart with 10 GB of files, until it follows again";
    let row = Row::judged(figure, median(&seconds), unit::SECONDS, FigureTarget::at_most(2.0, 0.5))
        .of(vec![Series::new("Weir", unit::SECONDS, &seconds)])
        .noted(notes);
    Ok(vec![row.repeat("make bench ARGS=\"--only aof-restart\"")])
}

/// Has the system forget what it has of files in memory; says whether it did.
fn forget_pages() -> bool {
    let _ = Command::new("sync").status();
    fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

fn cold(is_cold: bool) -> &'static str {
    if is_cold { "empty" } else { "warm, since it could not be emptied" }
}
