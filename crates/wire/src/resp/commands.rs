//! Cutting commands off what a client sends.

use std::ops::Range;

use super::words::words;
use super::{line_end, number, put_command};

/// A count or a length is no longer than this (`PROTO_INLINE_MAX_SIZE`).
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Valkey's words; Redis 7.0 takes any two bytes for a CRLF.
const INVALID_CRLF: &str = "invalid CRLF in request";

/// Room that is kept from one command to the next.
const KEPT: usize = 64;

/// What a client may send at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arguments, the name included.
    pub args: usize,
    /// Bytes of an argument.
    pub bulk: u64,
    /// Bytes of a command that is a line of words.
    pub inline: usize,
    /// Whether these are the limits before a login, and told as such.
    pub is_before_login: bool,
}

impl Limits {
    /// Before a client has logged in.
    pub const UNAUTHENTICATED: Self =
        Self { args: 10, bulk: 16 << 10, inline: 64 << 10, is_before_login: true };
}

impl Default for Limits {
    fn default() -> Self {
        Self { args: 1 << 20, bulk: 512 << 20, inline: 64 << 10, is_before_login: false }
    }
}

/// A client sent what is not a command, in Redis's own words. It can only be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Protocol error: {0}")]
pub struct Malformed(String);

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// What there is at the front of what a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFrame {
    /// More bytes are wanted.
    More,
    /// Nothing, in so many bytes: an empty line or array, which Redis passes over.
    Nothing(usize),
    /// A command of so many bytes.
    Command(usize),
}

/// Cuts commands off what a client sends, and keeps in mind how far it has looked into one that is
/// still coming.
#[derive(Debug, Default)]
pub struct Commands {
    /// How far was looked.
    at: usize,
    /// How many arguments are announced; `None` where that is not known yet.
    count: Option<usize>,
    /// How long the argument is that is coming; `None` where that is not known yet.
    bulk: Option<u64>,
    args: Vec<Range<usize>>,
    /// A command that came as a line of words, as an array of texts.
    inline: Vec<u8>,
    is_whole: bool,
}

/// A whole command, as an array of texts.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    bytes: &'a [u8],
    args: &'a [Range<usize>],
}

/// What is known of a command that is still coming.
#[derive(Debug, Clone, Copy)]
pub struct Coming<'a> {
    /// The arguments that are whole.
    pub command: Command<'a>,
    /// How many there will be.
    pub args: usize,
    /// How long the one is that is coming.
    pub bulk: u64,
    /// How many bytes the command will have in all, where the last argument is coming.
    pub total: Option<u64>,
}

impl<'a> Command<'a> {
    /// How many arguments it has, its name included.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether it has none, as one that is still coming may.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// An argument by its number; the name is number 0.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.args.get(at)?.clone())
    }

    /// Its name, as it was written.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// Its arguments, the name first.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.args.iter().map(move |range| bytes.get(range.clone()).unwrap_or_default())
    }

    /// All of it, as it may be sent to a server.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl Commands {
    /// Looks for a command at the front of `bytes`. After [`CommandFrame::More`] the caller passes
    /// the same bytes again with more behind them; else those behind what was cut off.
    ///
    /// # Errors
    /// What came is not a command.
    pub fn cut(&mut self, bytes: &[u8], limits: &Limits) -> Result<CommandFrame, Malformed> {
        if self.is_whole {
            self.begin();
        }
        match bytes.first() {
            None => Ok(CommandFrame::More),
            Some(b'*') => self.array(bytes, limits),
            Some(_) => self.line(bytes, limits),
        }
    }

    /// The command that was cut off last.
    #[inline]
    pub fn command<'a>(&'a self, bytes: &'a [u8]) -> Command<'a> {
        let bytes = match self.inline.is_empty() {
            true => bytes.get(..self.at).unwrap_or_default(),
            false => &self.inline,
        };
        Command { bytes, args: &self.args }
    }

    /// What is known of the command that is still coming, once the length of the argument has come
    /// that is coming now.
    pub fn coming<'a>(&'a self, bytes: &'a [u8]) -> Option<Coming<'a>> {
        let (args, bulk) = (self.count?, self.bulk?);
        let is_last = self.args.len() + 1 == args;
        let total = (self.at as u64).checked_add(bulk)?.checked_add(2)?;
        let command = Command { bytes, args: &self.args };
        Some(Coming { command, args, bulk, total: is_last.then_some(total) })
    }

    fn begin(&mut self) {
        self.at = 0;
        self.count = None;
        self.bulk = None;
        self.args.clear();
        self.inline.clear();
        // A command of a million arguments is no reason to keep room for the next.
        self.args.shrink_to(KEPT);
        self.inline.shrink_to(KEPT);
        self.is_whole = false;
    }

    fn array(&mut self, bytes: &[u8], limits: &Limits) -> Result<CommandFrame, Malformed> {
        let count = match self.count {
            Some(count) => count,
            None => {
                let Some((line, end)) = self.head(bytes, "too big mbulk count string")? else {
                    return Ok(CommandFrame::More);
                };
                let Some(count) = number(line) else {
                    return malformed("invalid multibulk length");
                };
                if count <= 0 {
                    return Ok(self.nothing(end));
                }
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                if count > limits.args {
                    return malformed(match limits.is_before_login {
                        true => "unauthenticated multibulk length",
                        false => "invalid multibulk length",
                    });
                }
                (self.at, self.count) = (end, Some(count));
                count
            }
        };
        while self.args.len() < count {
            if !self.argument(bytes, limits)? {
                return Ok(CommandFrame::More);
            }
        }
        self.is_whole = true;
        Ok(CommandFrame::Command(self.at))
    }

    /// Takes one argument; false where it is not whole.
    #[inline]
    fn argument(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, Malformed> {
        let length = match self.bulk {
            Some(length) => length,
            None => match self.length(bytes, limits)? {
                Some(length) => length,
                None => return Ok(false),
            },
        };
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let end = end.and_then(|end| Some((end, end.checked_add(2)?)));
        let Some((end, behind)) = end else { return malformed("invalid bulk length") };
        if bytes.len() < behind {
            return Ok(false);
        }
        // Redis 7.0 does not look at these two; whoever does would hear another command.
        if bytes.get(end..behind) != Some(b"\r\n") {
            return malformed(INVALID_CRLF);
        }
        self.args.push(self.at..end);
        (self.at, self.bulk) = (behind, None);
        Ok(true)
    }

    /// The length of the argument that is coming; `None` where it has not come.
    fn length(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<u64>, Malformed> {
        match bytes.get(self.at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(byte) => {
                let byte = char::from(*byte);
                return malformed(format!("expected '$', got '{byte}'"));
            }
        }
        let Some((line, end)) = self.head(bytes, "too big bulk count string")? else {
            return Ok(None);
        };
        match number(line).and_then(|length| u64::try_from(length).ok()) {
            Some(length) if length <= limits.bulk => {
                (self.at, self.bulk) = (end, Some(length));
                Ok(Some(length))
            }
            Some(_) if limits.is_before_login => malformed("unauthenticated bulk length"),
            _ => malformed("invalid bulk length"),
        }
    }

    /// The line from where was looked, without its first byte and its end, and where it ends. It
    /// ends at its first CR, as in Redis.
    #[inline]
    fn head<'b>(
        &self,
        bytes: &'b [u8],
        too_long: &str,
    ) -> Result<Option<(&'b [u8], usize)>, Malformed> {
        let rest = bytes.get(self.at..).unwrap_or_default();
        // No further than a line may be long, so that pieces change nothing.
        let seen = rest.get(..=HEAD_BYTES_MAX).unwrap_or(rest);
        let Some(end) = memchr::memchr(b'\r', seen) else {
            return if rest.len() > HEAD_BYTES_MAX { malformed(too_long) } else { Ok(None) };
        };
        match rest.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some((rest.get(1..end).unwrap_or_default(), self.at + end + 2))),
            Some(_) => malformed(INVALID_CRLF),
        }
    }

    fn nothing(&mut self, len: usize) -> CommandFrame {
        self.is_whole = true;
        CommandFrame::Nothing(len)
    }

    /// A command that is a line of words.
    fn line(&mut self, bytes: &[u8], limits: &Limits) -> Result<CommandFrame, Malformed> {
        // What was looked at before has no end of a line in it.
        let Some(end) = line_end(bytes.get(self.at..).unwrap_or_default()) else {
            self.at = bytes.len();
            if bytes.len() > limits.inline {
                return malformed("too big inline request");
            }
            return Ok(CommandFrame::More);
        };
        let end = self.at + end;
        if end > limits.inline {
            return malformed("too big inline request");
        }
        let line = bytes.get(..end - 1).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Redis's strings end at a NUL, so it never sees the end of such a line.
        if line.contains(&0) {
            return malformed("NUL in inline request");
        }
        let Some(words) = words(line) else {
            return malformed("unbalanced quotes in request");
        };
        if words.is_empty() {
            return Ok(self.nothing(end));
        }
        put_command(&mut self.inline, words.iter());
        let mut of = Self::default();
        of.array(&self.inline, &Limits { args: usize::MAX, ..Limits::default() })?;
        self.args = of.args;
        self.is_whole = true;
        Ok(CommandFrame::Command(end))
    }
}
