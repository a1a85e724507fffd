//! One line on the terminal that says how far an import is.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use watch::words::{bytes, count, seconds};

/// Characters of the bar.
const BAR_CHARS: usize = 20;

/// How far an import is. Shown on standard error, and only where that is a terminal.
pub struct Progress {
    begun: Instant,
    total: Option<u64>,
    read: Arc<AtomicU64>,
    shown: bool,
    last: String,
}

impl Progress {
    /// Nothing was read yet of `total` bytes; `read` counts them.
    pub fn new(total: Option<u64>, read: Arc<AtomicU64>) -> Self {
        let shown = std::io::stderr().is_terminal();
        Self { begun: Instant::now(), total, read, shown, last: String::new() }
    }

    /// How long it has been going on.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Shows how far it is after so many lines.
    pub fn show(&mut self, lines: u64) {
        let read = self.read.load(Ordering::Relaxed);
        self.last = line(lines, read, self.total, self.elapsed().as_secs_f64());
        self.write(&self.last);
    }

    /// Shows that it waits for the server.
    pub fn show_waiting(&self) {
        self.write(&format!("{}  (waiting for the server)", self.last));
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.write("");
    }

    fn write(&self, line: &str) {
        if self.shown {
            let mut err = std::io::stderr();
            drop(write!(err, "\r\x1b[K{line}").and_then(|()| err.flush()));
        }
    }
}

fn line(lines: u64, read: u64, total: Option<u64>, elapsed: f64) -> String {
    let rate = count((lines as f64 / elapsed.max(0.001)) as u64);
    let lines = count(lines);
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{lines} lines  {}  {rate} lines/s", bytes(read));
    };
    let part = (read as f64 / total as f64).min(1.0);
    let full = (part * BAR_CHARS as f64) as usize;
    let bar = format!("{}{}", "=".repeat(full), " ".repeat(BAR_CHARS - full));
    let left = match part {
        part if part > 0.0 => format!("{} left", seconds(elapsed / part - elapsed)),
        _ => String::new(),
    };
    format!("[{bar}] {:3.0} %  {lines} lines  {rate} lines/s  {left}", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_bar_has_a_rate_and_an_estimate() {
        let bar = "[==========          ]  50 %  1,000 lines  100 lines/s  10s left";
        assert_eq!(line(1_000, 50, Some(100), 10.0), bar);
        assert_eq!(line(10, 2048, None, 1.0), "10 lines  2.0 KiB  10 lines/s");
    }
}
