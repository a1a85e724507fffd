//! Redis's protocol, RESP2 and RESP3, as pure functions over bytes.
//!
//! [`Commands`] cuts a client's commands off what it sends; [`Replies`] finds where a server's
//! replies end without reading what is in them; [`value`] reads a whole one. The errors for what a
//! client must not send are Redis's own (`networking.c`).

mod commands;
mod put;
mod replies;
#[cfg(test)]
mod tests;
mod value;
mod words;

pub use commands::{Coming, Command, CommandFrame, Commands, Limits, Malformed};
pub use put::{
    put_array, put_bulk, put_command, put_error, put_integer, put_map, put_null, put_push, put_set,
    put_simple, put_verbatim,
};
pub use replies::{Piece, Replies, Step, announced};
pub use value::{Elements, Value, ValueError, value};

/// Arrays within arrays, of a reply that is read as a whole.
const NESTING_MAX: usize = 128;

/// Arrays within arrays, of a reply that is passed on. A script may answer with 8,000: a server
/// gives up at the end of Lua's stack.
const PASSED_NESTING_MAX: usize = 16 << 10;

/// What a connection speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// RESP2, with which every connection begins.
    #[default]
    Two,
    /// RESP3, after `HELLO 3`.
    Three,
}

impl Version {
    /// The argument of `HELLO` that selects the version.
    pub fn number(self) -> u64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// Where the line at the front of `bytes` ends: behind its CRLF. `None`: it goes on.
fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes).map(|at| at + 1)
}

/// A line without its CRLF; `None` where it ends otherwise.
fn content(line: &[u8]) -> Option<&[u8]> {
    line.strip_suffix(b"\r\n")
}

/// A number as Redis writes it: digits, with a minus or not. As Redis does (`string2ll`), it
/// refuses zeros in front and a minus zero: a command is passed on as it came, and a server that
/// refuses one closes a connection that other clients share.
fn number(text: &[u8]) -> Option<i64> {
    let (digits, sign) = match text.strip_prefix(b"-") {
        Some(digits) => (digits, -1),
        None => (text, 1),
    };
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && text != b"0") {
        return None;
    }
    let mut value = 0_i64;
    for digit in digits {
        let digit = char::from(*digit).to_digit(10)?;
        value = value.checked_mul(10)?.checked_add(sign * i64::from(digit))?;
    }
    Some(value)
}
