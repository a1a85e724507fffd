//! dd, which writes to the disk beside what is measured.

use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use meter::engine::Stop;
use rig::places;

use crate::Outcome;
use crate::measure;

/// A file that dd writes again and again. It is laid down once and never freed: what a virtual
/// machine frees its host takes away from it again, and stops it for that.
pub struct Dd {
    dir: tempfile::TempDir,
    mib: u64,
}

impl Dd {
    /// Lays the file down.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn lay_down(mib: u64) -> Outcome<Self> {
        let this = Self { dir: places::directory(), mib };
        this.write()?;
        Ok(this)
    }

    /// Runs dd, which syncs at its end.
    fn write(&self) -> io::Result<()> {
        let done = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "conv=notrunc,fdatasync"])
            .arg(format!("count={}", self.mib))
            .arg(format!("of={}", self.dir.path().join("dd").display()))
            .stderr(Stdio::null())
            .status()?;
        if done.success() { Ok(()) } else { Err(io::Error::other("dd failed")) }
    }

    /// Runs `measured` while dd writes everything, and again until `least` has passed. Gives dd's
    /// MB a second too.
    ///
    /// # Errors
    /// When dd fails.
    pub fn beside<T>(
        &self,
        least: Duration,
        measured: impl FnOnce(Stop) -> T,
    ) -> Outcome<Ran<(T, f64)>> {
        let stop = Stop::default();
        let write_all = || {
            let (begun, mut mib) = (Instant::now(), 0);
            let mut done = Ok(());
            while done.is_ok() && (mib == 0 || begun.elapsed() < least) {
                done = self.write();
                mib += self.mib;
            }
            stop.ask();
            done.map(|()| mib as f64 * 1.048_576 / begun.elapsed().as_secs_f64())
        };
        let ran = Ran::run(|| {
            thread::scope(|scope| {
                let writing = scope.spawn(write_all);
                let result = measured(stop.clone());
                let speed = writing.join().map_err(|_| "the thread beside dd panicked")?;
                Ok((result, speed?))
            })
        });
        settle_disk();
        ran
    }
}

/// What a run gave.
pub struct Ran<T> {
    pub result: T,
    /// How long the host had the CPUs meanwhile.
    stolen: Duration,
}

impl<T> Ran<T> {
    /// Runs it.
    ///
    /// # Errors
    /// As it has.
    pub fn run(measured: impl FnOnce() -> Outcome<T>) -> Outcome<Self> {
        let before = measure::stolen();
        let result = measured()?;
        Ok(Self { result, stolen: measure::stolen().saturating_sub(before) })
    }

    /// What the host took, where it took anything.
    pub fn taken(&self) -> String {
        match self.stolen.as_millis() {
            0 => String::new(),
            millis => format!("; the host took {millis} ms"),
        }
    }
}

/// Waits until what dd left in the page cache is on the disk, so that the next run has it quiet.
fn settle_disk() {
    let _ = Command::new("sync").status();
}
