//! A server as a process that ends with the value that stands for it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// How much of a log a failed test shows.
const SHOWN_BYTES: usize = 8 << 10;

/// Memory of a process that is not a file's, in MiB.
pub fn anonymous_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1_024.0
}

/// A running server. Dropping it kills it, and shows its log where a test has failed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output appended to `log`.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Self {
        let open =
            || -> io::Result<File> { OpenOptions::new().create(true).append(true).open(log) };
        let (out, err) = (open().expect("a log"), open().expect("a log"));
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} can't be started: {error}"));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, which a process that has ended already does not get.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.expect("a process id is positive"), signal);
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, and how it ended.
    ///
    /// # Panics
    /// When it does not end within `limit`.
    pub fn terminate(&mut self, limit: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        let what = format!("{} ends on SIGTERM", self.name);
        wait::value(&what, limit, || self.ended())
    }

    /// All it has written so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until `ready`; a process that ends before is a failure with its log.
    ///
    /// # Panics
    /// When it ends or is not ready within a minute.
    pub fn wait_ready(&mut self, mut ready: impl FnMut() -> bool) {
        let what = format!("{} is ready", self.name);
        let ended = wait::value(&what, wait::LONG, || match self.ended() {
            Some(status) => Some(Some(status)),
            None => ready().then_some(None),
        });
        if let Some(status) = ended {
            panic!("{} ended before it was ready: {status}\n{}", self.name, self.log());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let from = (log.len().saturating_sub(SHOWN_BYTES)..log.len())
                .find(|at| log.is_char_boundary(*at))
                .unwrap_or(0);
            eprintln!("---- the end of the log of {}\n{}", self.name, &log[from..]);
        }
    }
}
