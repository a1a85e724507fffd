//! Which requests of a run were sent, and what their answers were: two bits each, in a file for
//! each thread. A request is noted before its first byte is sent, and again when its answer is
//! whole; both are the kernel's before the injector goes on, so that whoever kills the injector
//! leaves a ledger that is right. A machine that goes down may take the last seconds of it away.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Requests of a byte.
const A_BYTE: u64 = 4;
/// Bytes that are kept in memory behind the last: what is noted behind them is read first.
const KEPT_MAX: usize = 64 * 1024;

/// What is known of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was not sent.
    Unsent,
    /// It was to be sent, and has no whole answer: the server may have done it, or not.
    Unknown,
    /// The server said that it did it.
    Acknowledged,
    /// The server said that it failed, which it may have done in part.
    Refused,
}

impl Fate {
    const ALL: [Self; 4] = [Self::Unsent, Self::Unknown, Self::Acknowledged, Self::Refused];
}

/// Where a ledger is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerLocation {
    pub directory: PathBuf,
    /// Which of a run's loads it is of.
    pub load: usize,
}

impl LedgerLocation {
    fn file(&self, thread: u64) -> PathBuf {
        self.directory.join(format!("{:02}-{thread:03}.bits", self.load))
    }
}

/// One thread's part of it, which is written.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    threads: u64,
    /// The last bytes of the file, and where they begin.
    kept: Vec<u8>,
    kept_from: u64,
}

impl Ledger {
    /// Makes that of a thread that sends the numbers `thread`, `thread` + `threads` and so on.
    ///
    /// # Errors
    /// The disk refuses, or there is one already.
    pub fn create(place: &LedgerLocation, thread: u64, threads: u64) -> io::Result<Self> {
        let path = place.file(thread);
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        Ok(Self { file, threads: threads.max(1), kept: Vec::new(), kept_from: 0 })
    }

    /// Notes what is known of a request from now on.
    ///
    /// # Errors
    /// The disk refuses; the file says what it said before.
    pub fn note(&mut self, number: u64, fate: Fate) -> io::Result<()> {
        let index = number / self.threads;
        let (at, shift) = (index / A_BYTE, (index % A_BYTE) * 2);
        let byte = self.byte(at)? & !(3 << shift) | (fate as u8) << shift;
        self.file.write_all_at(&[byte], at)?;
        self.keep(at, byte);
        Ok(())
    }

    fn byte(&self, at: u64) -> io::Result<u8> {
        if let Some(behind) = at.checked_sub(self.kept_from) {
            let kept = usize::try_from(behind).ok().and_then(|behind| self.kept.get(behind));
            return Ok(kept.copied().unwrap_or_default());
        }
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, at)?;
        Ok(byte[0])
    }

    fn keep(&mut self, at: u64, byte: u8) {
        let Some(behind) = at.checked_sub(self.kept_from) else { return };
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        if behind >= 2 * KEPT_MAX {
            let gone = (behind - KEPT_MAX).min(self.kept.len());
            self.kept.drain(..gone);
            self.kept_from += gone as u64;
            // Numbers come one after the other, so there is never a gap to be filled with noughts.
            return if gone > 0 { self.keep(at, byte) } else { self.begin_at(at, byte) };
        }
        if behind >= self.kept.len() {
            self.kept.resize(behind + 1, 0);
        }
        self.kept[behind] = byte;
    }

    fn begin_at(&mut self, at: u64, byte: u8) {
        self.kept.clear();
        self.kept.push(byte);
        self.kept_from = at;
    }
}

/// The ledger of a load, which is read.
#[derive(Debug, Clone, Default)]
pub struct Book {
    /// The bytes of each thread.
    threads: Vec<Vec<u8>>,
}

impl Book {
    /// Reads that of a load.
    ///
    /// # Errors
    /// A file is missing or can't be read; which.
    pub fn read(place: &LedgerLocation, threads: u64) -> Result<Self, (PathBuf, io::Error)> {
        let read = |thread| {
            let path = place.file(thread);
            std::fs::read(&path).map_err(|error| (path, error))
        };
        Ok(Self { threads: (0..threads).map(read).collect::<Result<_, _>>()? })
    }

    /// What is known of a request.
    pub fn fate(&self, number: u64) -> Fate {
        let threads = (self.threads.len() as u64).max(1);
        let (index, thread) = (number / threads, (number % threads) as usize);
        let at = usize::try_from(index / A_BYTE).unwrap_or(usize::MAX);
        let byte = self.threads.get(thread).and_then(|bytes| bytes.get(at)).copied();
        let bits = byte.unwrap_or_default() >> ((index % A_BYTE) * 2) & 3;
        Fate::ALL[usize::from(bits)]
    }

    /// A number that is above those of all requests that were sent.
    pub fn end(&self) -> u64 {
        let longest = self.threads.iter().map(Vec::len).max().unwrap_or_default();
        longest as u64 * A_BYTE * self.threads.len() as u64
    }

    /// How many requests are known for that.
    pub fn count(&self, fate: Fate) -> u64 {
        (0..self.end()).filter(|number| self.fate(*number) == fate).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use super::{A_BYTE, Book, Fate, KEPT_MAX, Ledger, LedgerLocation};

    fn place(load: usize) -> (tempfile::TempDir, LedgerLocation) {
        let held = tempfile::tempdir().unwrap();
        let directory = held.path().to_owned();
        (held, LedgerLocation { directory, load })
    }

    #[test]
    fn what_was_noted_is_known_and_all_else_was_not_sent() {
        let (_held, place) = place(4);
        let mut ledgers = [0, 1, 2].map(|thread| Ledger::create(&place, thread, 3).unwrap());
        let mut note = |number: u64, fate| {
            ledgers[(number % 3) as usize].note(number, fate).unwrap();
        };
        for number in 0..100 {
            note(number, Fate::Unknown);
        }
        note(7, Fate::Acknowledged);
        note(8, Fate::Refused);
        let book = Book::read(&place, 3).unwrap();
        let fates = [7, 8, 9, 99, 100, 10_000].map(|number| book.fate(number));
        let (unknown, unsent) = (Fate::Unknown, Fate::Unsent);
        assert_eq!(fates, [Fate::Acknowledged, Fate::Refused, unknown, unknown, unsent, unsent]);
        assert!(book.end() >= 100 && book.count(Fate::Unknown) == 98);
        // No ledger is written over, and one that is missing is told.
        assert!(Ledger::create(&place, 0, 3).is_err());
        assert!(Book::read(&place, 4).unwrap_err().0.ends_with("04-003.bits"));
    }

    #[test]
    fn an_answer_that_comes_long_after_others_were_sent_is_noted_all_the_same() {
        let (_held, place) = place(0);
        let mut ledger = Ledger::create(&place, 0, 1).unwrap();
        ledger.note(1, Fate::Unknown).unwrap();
        let far = KEPT_MAX as u64 * A_BYTE * 3;
        for number in (2..far).step_by(4) {
            ledger.note(number, Fate::Unknown).unwrap();
        }
        ledger.note(1, Fate::Acknowledged).unwrap();
        let book = Book::read(&place, 1).unwrap();
        assert_eq!((book.fate(1), book.fate(2)), (Fate::Acknowledged, Fate::Unknown));
        assert!(ledger.kept.len() <= 2 * KEPT_MAX);
    }

    #[test]
    fn a_disk_that_is_full_is_told_before_anything_is_sent() {
        let (_held, place) = place(0);
        let mut ledger = Ledger::create(&place, 0, 1).unwrap();
        ledger.file = std::fs::File::options().read(true).write(true).open("/dev/full").unwrap();
        assert!(ledger.note(0, Fate::Unknown).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn a_book_says_what_was_noted_last(
            notes in proptest::collection::vec((0..400_u64, 1..4_usize), 0..200),
            threads in 1..4_u64,
        ) {
            let (_held, place) = place(0);
            let mut ledgers: Vec<_> = (0..threads)
                .map(|thread| Ledger::create(&place, thread, threads).unwrap())
                .collect();
            let mut known = HashMap::new();
            for (number, fate) in notes {
                let fate = Fate::ALL[fate];
                ledgers[(number % threads) as usize].note(number, fate).unwrap();
                known.insert(number, fate);
            }
            let book = Book::read(&place, threads).unwrap();
            for number in 0..500 {
                let fate = known.get(&number).copied().unwrap_or(Fate::Unsent);
                prop_assert_eq!(book.fate(number), fate);
            }
        }
    }
}
