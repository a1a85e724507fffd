//! Commands that were slow, without their values: the newest of all workers of a pool.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use wire::resp::Command;

use super::{Card, keys_of};

/// Commands that are kept.
const KEPT_MAX: usize = 128;
/// Keys of a command that are kept, and bytes of each.
const KEYS_MAX: usize = 8;
const KEY_BYTES_MAX: usize = 128;

/// A command that was slow.
#[derive(Debug, Clone)]
pub struct Slow {
    /// Its number since the start.
    pub id: u64,
    /// When it was answered.
    pub at: SystemTime,
    /// How long the server had it to itself.
    pub ran: Duration,
    /// The name of the server that ran it.
    pub server: String,
    /// Its name and its keys, and how many other arguments it had: values may be secrets.
    pub words: Vec<String>,
    /// Where its client comes from.
    pub address: String,
    /// What its client is called.
    pub name: String,
}

/// The newest of them.
#[derive(Debug, Default)]
pub struct SlowLog(Mutex<SlowCommands>);

#[derive(Debug, Default)]
struct SlowCommands {
    next: u64,
    all: VecDeque<Slow>,
    /// The longest since it was last forgotten.
    longest: Duration,
}

impl SlowLog {
    pub(super) fn note(
        &self,
        command: &Command<'_>,
        ran: Duration,
        server: &str,
        card: Option<&Card>,
    ) {
        let (name, keys) = keys_of(command);
        let others = command.len().saturating_sub(1 + keys.len());
        let mut words = vec![name.to_owned()];
        words.extend(keys.iter().take(KEYS_MAX).map(|key| shown(key, KEY_BYTES_MAX)));
        let more = keys.len().saturating_sub(KEYS_MAX) + others;
        if more > 0 {
            words.push(format!("... ({more} more arguments)"));
        }
        let mut kept = self.0.lock();
        let slow = Slow {
            id: kept.next,
            at: SystemTime::now(),
            ran,
            server: server.to_owned(),
            words,
            address: card.map(Card::address).unwrap_or_default(),
            name: card.map(|of| shown(&of.name.borrow(), KEY_BYTES_MAX)).unwrap_or_default(),
        };
        kept.next += 1;
        kept.longest = kept.longest.max(ran);
        kept.all.push_front(slow);
        kept.all.truncate(KEPT_MAX);
    }

    /// So many of them, the newest first.
    pub fn newest(&self, count: usize) -> Vec<Slow> {
        self.0.lock().all.iter().take(count).cloned().collect()
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.lock().all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest since the last [`clear`](Self::clear).
    pub fn longest(&self) -> Duration {
        self.0.lock().longest
    }

    /// Forgets all commands, and the longest time.
    pub fn clear(&self) {
        let mut kept = self.0.lock();
        (kept.all, kept.longest) = (VecDeque::new(), Duration::ZERO);
    }
}

/// Bytes as an operator can read them, so many at most.
pub fn shown(bytes: &[u8], most: usize) -> String {
    let cut = bytes.get(..most).unwrap_or(bytes);
    let text = cut.escape_ascii().to_string();
    if cut.len() == bytes.len() { text } else { format!("{text}... ({} bytes)", bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::super::with_command;
    use super::*;

    #[test]
    fn the_newest_are_kept_without_their_values() {
        let log = SlowLog::default();
        for n in 0..KEPT_MAX + 5 {
            let line = format!("SET key:{n} secret EX 10\r\n");
            with_command(line.as_bytes(), |command| {
                log.note(command, Duration::from_millis(20), "a", None);
            });
        }
        assert_eq!((log.len(), log.longest()), (KEPT_MAX, Duration::from_millis(20)));
        let newest = &log.newest(1)[0];
        assert_eq!(newest.id, 132);
        assert_eq!(newest.words, ["SET", "key:132", "... (3 more arguments)"]);
        log.clear();
        assert!(log.is_empty() && log.longest().is_zero());
    }
}
