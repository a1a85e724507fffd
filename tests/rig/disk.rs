//! The disk by itself: what a journal without anything around it would answer in.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sched::Slice;

/// The longest latency that is told apart, in microseconds.
const LATENCY_MAX_US: u64 = 120_000_000;
/// Preallocated for the probe, as a journal's segments are.
const PROBE_BYTES: u64 = 256 << 20;

/// A file that is written and synced.
#[derive(Debug)]
pub struct Probe {
    file: File,
    record: Vec<u8>,
}

impl Probe {
    /// Lays the file down in `dir`, for records of so many bytes.
    ///
    /// # Errors
    /// It could not be written.
    pub fn lay_down(dir: &Path, record_len: usize) -> io::Result<Self> {
        let file = File::create(dir.join("probe"))?;
        let zeros = vec![0; 1 << 20];
        for mib in 0..PROBE_BYTES >> 20 {
            file.write_all_at(&zeros, mib << 20)?;
        }
        file.sync_all()?;
        Ok(Self { file, record: vec![b'x'; record_len] })
    }

    /// Until `stop` says so, of `rate` records a second whatever is due is written together and
    /// synced. Gives microseconds from the intended time: a sync of 100 ms counts for all that
    /// would have waited for it.
    ///
    /// # Errors
    /// The disk failed.
    pub fn run(&self, rate: f64, stop: impl Fn() -> bool) -> io::Result<Histogram<u64>> {
        sched::set_slice(Slice::Short);
        let measured = self.measure(rate, stop);
        sched::set_slice(Slice::Usual);
        measured
    }

    fn measure(&self, rate: f64, stop: impl Fn() -> bool) -> io::Result<Histogram<u64>> {
        let mut histogram = latencies();
        let intended = |number: u64| Duration::from_secs_f64(number as f64 / rate);
        let (begun, mut next, mut at) = (Instant::now(), 0, 0);
        while !stop() {
            let now = begun.elapsed();
            let due = (next..).take_while(|number| intended(*number) <= now).count() as u64;
            if due == 0 {
                // The schedule itself; the probe has a thread of its own.
                thread::sleep(intended(next).saturating_sub(now));
                continue;
            }
            let bytes = self.record.repeat(due as usize);
            if at + bytes.len() as u64 > PROBE_BYTES {
                at = 0;
            }
            self.file.write_all_at(&bytes, at)?;
            self.file.sync_data()?;
            at += (bytes.len() as u64).next_multiple_of(4096);
            let done = begun.elapsed();
            for number in next..next + due {
                note(&mut histogram, done.saturating_sub(intended(number)));
            }
            next += due;
        }
        Ok(histogram)
    }
}

/// An empty histogram of microseconds.
pub fn latencies() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3);
    made.expect("the bounds are constants that fit")
}

/// Notes how long something took.
pub fn note(histogram: &mut Histogram<u64>, took: Duration) {
    histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
}
