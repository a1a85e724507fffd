//! The thread that writes log lines.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use super::repeats::{Repeats, SUMMARY_EVERY};

/// Lines that may wait for standard error before further ones are dropped.
const LINES_MAX: usize = 1024;
/// And the bytes they may take together.
const BYTES_MAX: usize = 1 << 20;

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Hands lines to the writing thread without ever waiting for it.
#[derive(Clone)]
pub(super) struct Writer {
    lines: SyncSender<Message>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Bytes of lines that wait.
    waiting: AtomicUsize,
    /// Lines dropped so far.
    dropped: AtomicU64,
}

impl Writer {
    /// Starts the thread that writes to `out` and that sums up repeats. It ends with the process.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        repeats: Arc<Repeats>,
    ) -> io::Result<Self> {
        let (lines, queue) = sync_channel(LINES_MAX);
        let counts = Arc::<Counts>::default();
        let writer = Self { lines, counts: Arc::clone(&counts) };
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(&queue, out, &counts, &repeats))?;
        Ok(writer)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Waits until every line handed over before is written, at most for `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let (done, written) = sync_channel(1);
        let mut message = Message::Flush(done);
        while let Err(std::sync::mpsc::TrySendError::Full(back)) = self.lines.try_send(message) {
            if Instant::now() >= deadline {
                return;
            }
            message = back;
            // The caller asked to be held up, until a deadline, before the process ends.
            std::thread::sleep(Duration::from_millis(5));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // Not written in time is all that can be said, and there is nowhere left to say it.
        let _ = written.recv_timeout(left);
    }
}

/// Turns until all writers are gone. A failed write is not reported: there is nowhere to.
fn write(queue: &Receiver<Message>, mut out: impl Write, counts: &Counts, repeats: &Repeats) {
    let mut summary = Instant::now() + SUMMARY_EVERY;
    let mut told = 0;
    loop {
        let left = summary.saturating_duration_since(Instant::now());
        match queue.recv_timeout(left) {
            Ok(Message::Line(line)) => {
                let _ = out.write_all(&line);
                counts.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            }
            Ok(Message::Flush(done)) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= summary {
            summary = Instant::now() + SUMMARY_EVERY;
            repeats.summarise();
            let dropped = counts.dropped.load(Ordering::Relaxed);
            if dropped > told {
                let lines = dropped - told;
                tracing::warn!(lines, "log lines dropped: standard error did not take them");
            }
            told = dropped;
        }
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = &'a Writer;

    fn make_writer(&'a self) -> &'a Writer {
        self
    }
}

impl Write for &Writer {
    /// A formatted event comes as one buffer.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let waiting = self.counts.waiting.fetch_add(line.len(), Ordering::Relaxed);
        let room = waiting.saturating_add(line.len()) <= BYTES_MAX;
        if !room || self.lines.try_send(Message::Line(line.to_vec())).is_err() {
            self.counts.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
