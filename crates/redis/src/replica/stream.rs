//! Where a master's stream of commands can be cut, without keeping any of it.

/// A count or a length has no more digits.
const LINE_BYTES_MAX: usize = 21;
/// What is kept of a command's name and of its first argument.
const WORD_BYTES_MAX: usize = 16;
/// As many arguments as a server takes from a client.
const ARGS_MAX: u64 = i32::MAX as u64;
/// No value is larger than 1 TiB: a length that lies is found out here.
const BULK_MAX: u64 = 1 << 40;

/// What came is not a stream of commands, and nothing that comes later can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a stream of commands: {0}")]
pub struct StreamError(&'static str);

/// Reads along with a stream of commands: where each ends, whether a transaction is open, and which
/// database is selected.
#[derive(Debug, Clone, Default)]
pub struct Tracker {
    state: State,
    /// Arguments that are to come.
    args: u64,
    line: Vec<u8>,
    name: Vec<u8>,
    first: Vec<u8>,
    /// Arguments that have come or have begun.
    begun: u64,
    database: u32,
    in_transaction: bool,
    selects: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    Count,
    Head,
    Length,
    /// So many bytes of an argument, then its CRLF.
    Bytes(u64),
    Lf,
}

impl Tracker {
    /// Between commands, with this database selected.
    pub fn new(database: u32) -> Self {
        Self { database, ..Self::default() }
    }

    /// The database that is selected.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// How often a `SELECT` has come.
    pub fn selects(&self) -> u64 {
        self.selects
    }

    /// Whether no command is under way.
    pub fn is_between_commands(&self) -> bool {
        self.state == State::Between
    }

    /// Whether neither a command nor a transaction is under way: a file may end here.
    pub fn is_at_rest(&self) -> bool {
        self.is_between_commands() && !self.in_transaction
    }

    /// Reads on; `Some` is how many bytes there are up to the end of a command, `None` that all
    /// were read and the command goes on.
    ///
    /// # Errors
    /// What came is not a command.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, StreamError> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if let State::Bytes(left @ 1..) = self.state {
                let rest = bytes.get(at..).unwrap_or_default();
                let len = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                self.argument(rest.get(..len).unwrap_or_default());
                self.state = State::Bytes(left - len as u64);
                at += len;
                continue;
            }
            at += 1;
            if self.byte(*byte)? {
                self.ended();
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Takes one byte of a command's frame; says whether it ends the command.
    fn byte(&mut self, byte: u8) -> Result<bool, StreamError> {
        self.state = match (self.state, byte) {
            (State::Between, b'*') => {
                self.begun = 0;
                self.name.clear();
                self.first.clear();
                State::Count
            }
            (State::Between, _) => return Err(StreamError("a command begins with *")),
            (State::Count, b'\n') => {
                self.args = self.number(ARGS_MAX)?;
                if self.args == 0 {
                    return Err(StreamError("a command without a name"));
                }
                State::Head
            }
            (State::Head, b'$') => State::Length,
            (State::Head, _) => return Err(StreamError("an argument begins with $")),
            (State::Length, b'\n') => {
                self.begun += 1;
                State::Bytes(self.number(BULK_MAX)?)
            }
            (State::Count | State::Length, byte) => {
                if self.line.len() > LINE_BYTES_MAX {
                    return Err(StreamError("a length of too many digits"));
                }
                self.line.push(byte);
                self.state
            }
            (State::Bytes(_), b'\r') => State::Lf,
            (State::Lf, b'\n') => match self.args - 1 {
                0 => return Ok(true),
                left => {
                    self.args = left;
                    State::Head
                }
            },
            (State::Bytes(_) | State::Lf, _) => {
                return Err(StreamError("an argument ends with CRLF"));
            }
        };
        Ok(false)
    }

    fn argument(&mut self, bytes: &[u8]) {
        let word = match self.begun {
            1 => &mut self.name,
            2 => &mut self.first,
            _ => return,
        };
        let room = WORD_BYTES_MAX.saturating_sub(word.len());
        word.extend(bytes.iter().take(room));
    }

    fn number(&mut self, most: u64) -> Result<u64, StreamError> {
        let line = std::mem::take(&mut self.line);
        let digits = line.strip_suffix(b"\r").ok_or(StreamError("a line ends with CRLF"))?;
        let number = decimal(digits).filter(|number| *number <= most);
        number.ok_or(StreamError("a length that is none, or beyond any limit"))
    }

    fn ended(&mut self) {
        self.state = State::Between;
        let is = |name: &[u8]| self.name.eq_ignore_ascii_case(name);
        if is(b"SELECT") {
            self.selects += 1;
            let database = decimal(&self.first).and_then(|number| u32::try_from(number).ok());
            self.database = database.unwrap_or(self.database);
        } else if is(b"MULTI") {
            self.in_transaction = true;
        } else if is(b"EXEC") {
            self.in_transaction = false;
        }
    }
}

/// The largest offset that a master's history may begin with.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// A number in digits, and nothing else.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    let is_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_digits.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// An offset as Redis has them, which counts in 63 bits.
pub fn offset_of(text: &[u8]) -> Option<u64> {
    decimal(text).filter(|offset| *offset <= OFFSET_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::resp::put_command;

    use super::{OFFSET_MAX, Tracker, offset_of};

    #[test]
    fn an_offset_that_would_wrap_is_none() {
        assert_eq!(offset_of(b"0"), Some(0));
        assert_eq!(offset_of(b"9223372036854775807"), Some(OFFSET_MAX));
        for none in ["9223372036854775808", "18446744073709551615", "18446744073709551616", "-1"] {
            assert_eq!(offset_of(none.as_bytes()), None, "{none}");
        }
    }

    fn stream(commands: &[&[&str]]) -> Vec<u8> {
        let mut out = Vec::new();
        commands.iter().for_each(|words| put_command(&mut out, words.iter()));
        out
    }

    /// Where commands end outside of transactions.
    fn rests(tracker: &mut Tracker, mut bytes: &[u8], from: usize) -> Vec<usize> {
        let (mut at, mut found) = (from, Vec::new());
        while let Some(len) = tracker.advance(bytes).unwrap() {
            (at, bytes) = (at + len, &bytes[len..]);
            found.extend(tracker.is_at_rest().then_some(at));
        }
        found
    }

    #[test]
    fn a_transaction_is_one_and_the_database_is_known() {
        let first = stream(&[&["SELECT", "3"], &["SET", "a", "\r\n*1"]]);
        let second = stream(&[&["MULTI"], &["SELECT", "4"], &["SET", "a", ""], &["EXEC"]]);
        let all = [first.clone(), second].concat();
        let mut tracker = Tracker::default();
        let ends = rests(&mut tracker, &all, 0);
        assert_eq!(ends, [23, first.len(), all.len()]);
        assert_eq!((tracker.database(), tracker.selects()), (4, 2));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let long = format!("*{}\r\n", "1".repeat(40));
        let broken = [
            "\0",
            "\n",
            "PING\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*1\n",
            "*1\r\n:1\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n$1\r\nab",
            "*1\r\n$1\r\na\rb",
            "*1\r\n$99999999999999999\r\n",
            "*x\r\n",
            &long,
        ];
        for text in broken {
            assert!(Tracker::default().advance(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(cut in 0..200_usize, again in 0..200_usize) {
            let all = stream(&[&["MULTI"], &["SET", "a", "b"], &["EXEC"], &["SELECT", "9"],
                &["APPEND", "k", "some longer text with $5\r\n in it"], &["PING"]]);
            let (cut, again) = (cut.min(all.len()), again.min(all.len()));
            let (cut, again) = (cut.min(again), cut.max(again));
            let whole = rests(&mut Tracker::default(), &all, 0);
            let mut tracker = Tracker::default();
            let mut found = rests(&mut tracker, &all[..cut], 0);
            found.extend(rests(&mut tracker, &all[cut..again], cut));
            found.extend(rests(&mut tracker, &all[again..], again));
            prop_assert_eq!(found, whole);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Tracker::default().advance(&bytes);
        }
    }
}
