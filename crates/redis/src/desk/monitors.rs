//! Who watches all commands of a pool, by `MONITOR`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use wire::resp::Command;

use super::{Card, shown};

/// Lines that one who watches may be behind; then it is closed.
const BEHIND_MAX: usize = 4096;
/// Arguments that are shown, and bytes of each.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;

/// A line of `MONITOR`.
type Line = Arc<[u8]>;

/// Those who watch, of all workers of a pool.
#[derive(Debug, Default)]
pub struct Monitors {
    /// Whether there are any: all that a command looks at where there are none.
    any: AtomicBool,
    all: Mutex<Vec<(u64, mpsc::Sender<Line>)>>,
}

/// One who watches; what comes is read here, and it ends where it is too far behind.
#[derive(Debug)]
pub struct Watcher(pub mpsc::Receiver<Line>);

impl Monitors {
    /// A client watches from now on, by its number in the process.
    pub fn enter(&self, id: u64) -> Watcher {
        let (sender, lines) = mpsc::channel(BEHIND_MAX);
        let mut all = self.all.lock();
        all.push((id, sender));
        self.any.store(true, Ordering::Relaxed);
        Watcher(lines)
    }

    /// A client watches no more.
    pub fn leave(&self, id: u64) {
        let mut all = self.all.lock();
        all.retain(|(of, _)| *of != id);
        self.any.store(!all.is_empty(), Ordering::Relaxed);
    }

    /// Whether any client monitors commands.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Shows a command to those who watch. Values may be secrets: what logs in is not shown.
    #[cold]
    pub fn show(&self, command: &Command<'_>, database: u32, card: &Card) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = format!("+{}.{:06}", at.as_secs(), at.subsec_micros());
        line.push_str(&format!(" [{database} {}]", card.address()));
        for word in command.iter().take(ARGUMENTS_MAX) {
            line.push_str(&format!(" \"{}\"", shown(word, ARGUMENT_BYTES_MAX)));
        }
        if command.len() > ARGUMENTS_MAX {
            line.push_str(&format!(" ... ({} more arguments)", command.len() - ARGUMENTS_MAX));
        }
        line.push_str("\r\n");
        let line: Line = line.into_bytes().into();
        let mut all = self.all.lock();
        all.retain(|(_, watcher)| watcher.try_send(Arc::clone(&line)).is_ok());
        self.any.store(!all.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::with_command;
    use super::*;

    #[test]
    fn who_is_too_far_behind_is_let_go() {
        let (monitors, card) = (Monitors::default(), Card::new([None; 2], Instant::now()));
        let mut quick = monitors.enter(1);
        let mut slow = monitors.enter(2);
        for _ in 0..=BEHIND_MAX {
            with_command(b"SET a \"x\\n\"\r\n", |command| monitors.show(command, 3, &card));
            let line = quick.0.try_recv().unwrap();
            assert!(line.ends_with(b" [3 /unix:0] \"SET\" \"a\" \"x\\n\"\r\n"), "{line:?}");
        }
        assert_eq!(std::iter::from_fn(|| slow.0.try_recv().ok()).count(), BEHIND_MAX);
        assert!(slow.0.is_closed() || slow.0.try_recv().is_err());
        monitors.leave(1);
        assert!(!monitors.is_any());
    }
}
