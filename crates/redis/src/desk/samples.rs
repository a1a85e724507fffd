//! Keys that are asked for often, and those whose values are big, sampled from what passes.
//!
//! One command of 32 on average is looked at, at distances that no client can keep step with. Hot
//! keys are counted as the space-saving algorithm does (Metwally and others, 2005): of a full table
//! the rarest gives its place and its count, so that no count is too low, and the more often a key
//! comes the surer it stays. A key is big by the bytes of its commands and their answers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// One command of so many is looked at, on average.
const EVERY: u32 = 32;
/// Hot keys that are kept, and bytes of one.
const HOT_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 512;
/// Hot keys are counted for so long, and shown for as long again.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Big keys that are kept, for how long, and from how many bytes on.
const BIG_MAX: usize = 64;
const BIG_KEPT: Duration = Duration::from_secs(600);
const BIG_BYTES: u64 = 16 << 10;

/// What was sampled on one worker.
#[derive(Debug)]
pub struct Samples {
    /// Commands until the next that is looked at.
    left: Cell<u32>,
    random: Cell<u32>,
    hot: RefCell<Hot>,
    big: RefCell<HashMap<Box<[u8]>, Big>>,
    /// What is smaller is not looked at.
    least_big: Cell<u64>,
    /// No key is bigger.
    biggest: Cell<u64>,
}

#[derive(Debug)]
struct Hot {
    begun: Instant,
    counts: HashMap<Box<[u8]>, u32>,
    /// Those of the window before, and how long that was.
    before: HashMap<Box<[u8]>, u32>,
    lasted: Duration,
}

#[derive(Debug, Clone)]
struct Big {
    bytes: u64,
    /// What it had last.
    last: u64,
    command: &'static str,
    server: String,
    seen: Instant,
}

/// A key that is asked for often.
#[derive(Debug, Clone, PartialEq)]
pub struct HotKey {
    pub key: Box<[u8]>,
    /// About how many commands a second are for it.
    pub rate: f64,
}

/// A key whose value is big.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BigKey {
    pub key: Box<[u8]>,
    /// Bytes of the largest command for it, or answer.
    pub bytes: u64,
    /// What was asked last of it.
    pub command: &'static str,
    /// The name of the server that has it.
    pub server: String,
    /// How long ago it was seen.
    pub ago: Duration,
}

impl Default for Samples {
    fn default() -> Self {
        let hot = Hot {
            begun: Instant::now(),
            counts: HashMap::new(),
            before: HashMap::new(),
            lasted: Duration::ZERO,
        };
        Self {
            left: Cell::new(1),
            random: Cell::new(rand::random::<u32>() | 1),
            hot: RefCell::new(hot),
            big: RefCell::default(),
            least_big: Cell::new(BIG_BYTES),
            biggest: Cell::new(0),
        }
    }
}

impl Samples {
    /// A command passes; `key` gives its first key where it is looked at.
    #[inline]
    pub fn pass<'k>(&self, key: impl FnOnce() -> Option<&'k [u8]>) {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left == 0 {
            self.look(key());
        }
    }

    #[cold]
    fn look(&self, key: Option<&[u8]>) {
        // Marsaglia's xorshift: never 0, so that something is left each time.
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        self.left.set(1 + random % (2 * EVERY - 1));
        if let Some(key) = key.filter(|key| key.len() <= KEY_BYTES_MAX) {
            count(&mut self.hot.borrow_mut().counts, key);
        }
    }

    /// Whether so many bytes would make a key big.
    #[inline]
    pub fn is_big(&self, bytes: u64) -> bool {
        bytes >= self.least_big.get()
    }

    /// Whether a key was bigger than that when it was last seen to be big.
    #[inline]
    pub fn is_bigger(&self, key: &[u8], than: impl FnOnce() -> u64) -> bool {
        self.biggest.get() > 0 && self.is_bigger_than(key, than())
    }

    fn is_bigger_than(&self, key: &[u8], than: u64) -> bool {
        self.biggest.get() > than && self.big.borrow().get(key).is_some_and(|of| of.last > than)
    }

    /// A command for a key, or its answer, had so many bytes.
    pub fn note_big(
        &self,
        key: &[u8],
        bytes: u64,
        command: &'static str,
        server: &str,
        now: Instant,
    ) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        let mut all = self.big.borrow_mut();
        let before = all.get(key).map_or(0, |big| big.bytes);
        let server = server.to_owned();
        self.biggest.set(self.biggest.get().max(bytes));
        let of = Big { bytes: bytes.max(before), last: bytes, command, server, seen: now };
        all.insert(key.into(), of);
        if all.len() > BIG_MAX {
            let least = all.iter().min_by_key(|(_, big)| big.bytes).map(|(key, _)| key.clone());
            least.and_then(|key| all.remove(&key));
            let least = all.values().map(|big| big.bytes).min();
            self.least_big.set(least.unwrap_or(BIG_BYTES).max(BIG_BYTES));
        }
    }

    /// Begins another window where it is time, and forgets what was not seen for long.
    pub fn tick(&self, now: Instant) {
        let mut hot = self.hot.borrow_mut();
        let lasted = now.saturating_duration_since(hot.begun);
        if lasted >= WINDOW {
            (hot.before, hot.lasted) = (std::mem::take(&mut hot.counts), lasted);
            hot.begun = now;
        }
        let mut big = self.big.borrow_mut();
        let before = big.len();
        big.retain(|_, big| now.saturating_duration_since(big.seen) < BIG_KEPT);
        if big.len() < before {
            self.least_big.set(BIG_BYTES);
            self.biggest.set(big.values().map(|of| of.bytes).max().unwrap_or(0));
        }
    }

    /// The hot keys of the last whole window, or of the first while that lasts.
    pub fn hot(&self, now: Instant) -> Vec<HotKey> {
        let hot = self.hot.borrow();
        let (counts, lasted) = match hot.lasted.is_zero() {
            true => (&hot.counts, now.saturating_duration_since(hot.begun)),
            false => (&hot.before, hot.lasted),
        };
        let seconds = lasted.as_secs_f64().max(1.0);
        let rate = |count: u32| f64::from(count) * f64::from(EVERY) / seconds;
        counts.iter().map(|(key, of)| HotKey { key: key.clone(), rate: rate(*of) }).collect()
    }

    /// The keys with the largest commands or answers.
    pub fn big(&self, now: Instant) -> Vec<BigKey> {
        let big = self.big.borrow();
        let all = big.iter().map(|(key, of)| BigKey {
            key: key.clone(),
            bytes: of.bytes,
            command: of.command,
            server: of.server.clone(),
            ago: now.saturating_duration_since(of.seen),
        });
        all.collect()
    }
}

/// Counts a key; of a full table the rarest gives its place and its count.
fn count(counts: &mut HashMap<Box<[u8]>, u32>, key: &[u8]) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_add(1);
        return;
    }
    let mut before = 0;
    if counts.len() >= HOT_MAX
        && let Some((rarest, count)) = counts.iter().min_by_key(|(_, count)| **count)
    {
        let rarest = rarest.clone();
        before = *count;
        counts.remove(&rarest);
    }
    counts.insert(key.into(), before.saturating_add(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_is_found_among_very_many() {
        let samples = Samples::default();
        for n in 0_u32..200_000 {
            let cold = n.to_string();
            let key = if n % 10 == 0 { b"hot" } else { cold.as_bytes() };
            samples.pass(|| Some(key));
        }
        let begun = samples.hot.borrow().begun;
        samples.tick(begun + WINDOW);
        let mut hot = samples.hot(begun + WINDOW);
        assert!(hot.len() <= HOT_MAX);
        hot.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        assert_eq!(&*hot[0].key, b"hot");
        assert!((1200.0..2800.0).contains(&hot[0].rate), "{}", hot[0].rate);
        assert!(hot[1].rate < hot[0].rate);
    }

    #[test]
    fn the_biggest_keys_are_kept_for_a_while() {
        let (samples, now) = (Samples::default(), Instant::now());
        assert!(!samples.is_big(BIG_BYTES - 1));
        for n in 0..200_u64 {
            let bytes = BIG_BYTES + n;
            if samples.is_big(bytes) {
                samples.note_big(format!("k{n}").as_bytes(), bytes, "SET", "a", now);
            }
        }
        let big = samples.big(now);
        assert_eq!(big.len(), BIG_MAX);
        assert!(big.iter().all(|of| of.bytes > BIG_BYTES + 100) && !samples.is_big(BIG_BYTES));
        samples.note_big(b"k199", BIG_BYTES + 150, "GET", "a", now);
        let big = samples.big(now);
        let last = big.iter().find(|of| &*of.key == b"k199").unwrap();
        assert_eq!((last.bytes, last.command), (BIG_BYTES + 199, "GET"));
        let is_bigger = |key: &[u8], than: u64| samples.is_bigger(key, || than);
        assert!(is_bigger(b"k198", BIG_BYTES + 197) && !is_bigger(b"k198", BIG_BYTES + 198));
        assert!(!is_bigger(b"k199", BIG_BYTES + 150), "it was, and is not any more");
        assert!(!is_bigger(b"k0", 1), "it is forgotten");
        samples.tick(now + BIG_KEPT);
        assert!(samples.big(now).is_empty() && samples.is_big(BIG_BYTES));
    }

    #[test]
    fn keys_that_are_too_long_are_left_out() {
        let samples = Samples::default();
        samples.pass(|| Some(&[b'x'; KEY_BYTES_MAX + 1]));
        samples.note_big(&[b'x'; KEY_BYTES_MAX + 1], 1 << 20, "SET", "a", Instant::now());
        assert!(samples.hot(Instant::now()).is_empty() && samples.big(Instant::now()).is_empty());
    }
}
