//! Finds where a server's replies end.

use super::{PASSED_NESTING_MAX, content, line_end, number};

/// A line is no longer than this, but for simple strings and errors: a script says one of any
/// length, and it is passed on as it comes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// What a server says by itself is no longer than this.
const PUSH_BYTES_MAX: usize = 1 << 20;

/// Where a server's replies end, from one piece of what it sends to the next.
#[derive(Debug, Default)]
pub struct Replies {
    /// Bytes of a text that are to come, with its CRLF.
    text: u64,
    /// A simple string or an error is under way, and whether its last byte was a CR.
    line: Option<bool>,
    /// Messages that are to come, for each array that is open, from the outermost.
    open: Vec<u64>,
    /// A part of a reply has come.
    has_begun: bool,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Of a reply that goes on.
    Part,
    /// It ends a reply.
    End,
    /// A whole message that the server says by itself.
    Push,
}

/// The next piece of what a server sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How many bytes it has. 0: more are wanted before anything can be said.
    pub len: usize,
    /// Which part of a reply these bytes are.
    pub what: Piece,
}

impl Replies {
    /// Looks at what came; says as much as can be said at once, up to the end of a reply.
    ///
    /// # Errors
    /// It is not a reply. Nothing that comes later can be understood.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Step, &'static str> {
        if !self.has_begun && bytes.first() == Some(&b'>') {
            return push(bytes);
        }
        let mut at = 0;
        loop {
            let (taken, ended) = self.message(bytes.get(at..).unwrap_or_default())?;
            at += taken;
            self.has_begun |= taken > 0;
            if ended {
                self.has_begun = false;
                return Ok(Step { len: at, what: Piece::End });
            }
            if taken == 0 || at >= bytes.len() {
                return Ok(Step { len: at, what: Piece::Part });
            }
        }
    }

    /// Takes as much as there is of one message: how much, and whether it ends the reply.
    #[inline]
    fn message(&mut self, bytes: &[u8]) -> Result<(usize, bool), &'static str> {
        if self.text > 0 {
            return self.rest_of_text(bytes);
        }
        if let Some(was_cr) = self.line {
            return self.rest_of_line(bytes, was_cr);
        }
        let Some(end) = line_end(bytes) else {
            if let Some(b'+' | b'-') = bytes.first() {
                return self.rest_of_line(bytes, false);
            }
            if bytes.len() > LINE_BYTES_MAX {
                return Err("a line is too long");
            }
            return Ok((0, false));
        };
        let line = bytes.get(..end).and_then(content).ok_or("a line does not end with CRLF")?;
        let (kind, rest) = line.split_first().ok_or("an empty line")?;
        match kind {
            b'+' | b'-' | b'_' | b'#' | b',' | b'(' => {}
            b':' => {
                number(rest).ok_or("a number that is none")?;
            }
            b'$' | b'=' | b'!' => match length(rest)? {
                // Nothing, of RESP2.
                None if *kind == b'$' => {}
                None => return Err("a length that is negative"),
                Some(length) => {
                    self.text = length.checked_add(2).ok_or("a length that is too large")?;
                    let behind = bytes.get(end..).unwrap_or_default();
                    let (taken, ended) = self.rest_of_text(behind)?;
                    return Ok((end + taken, ended));
                }
            },
            b'>' if self.has_begun => return Err("a push within a reply"),
            b'*' | b'~' | b'>' | b'%' | b'|' => return self.array(*kind, rest, end),
            _ => return Err("a message of a kind that there is not"),
        }
        Ok((end, self.has_ended_one()))
    }

    fn array(&mut self, kind: u8, rest: &[u8], end: usize) -> Result<(usize, bool), &'static str> {
        let Some(length) = length(rest)? else {
            return match kind {
                b'*' => Ok((end, self.has_ended_one())),
                _ => Err("a length that is negative"),
            };
        };
        let count = match kind {
            b'%' => length.checked_mul(2),
            // Attributes are before what they belong to.
            b'|' => length.checked_mul(2).and_then(|count| count.checked_add(1)),
            _ => Some(length),
        };
        let count = count.ok_or("a length that is too large")?;
        if count == 0 {
            return Ok((end, self.has_ended_one()));
        }
        if self.open.len() >= PASSED_NESTING_MAX {
            return Err("arrays within arrays, too deep");
        }
        self.open.push(count);
        Ok((end, false))
    }

    #[cold]
    fn rest_of_line(&mut self, bytes: &[u8], was_cr: bool) -> Result<(usize, bool), &'static str> {
        let Some(end) = line_end(bytes) else {
            self.line = Some(bytes.last().map_or(was_cr, |last| *last == b'\r'));
            return Ok((bytes.len(), false));
        };
        let is_crlf = if end == 1 { was_cr } else { bytes.get(end - 2) == Some(&b'\r') };
        if !is_crlf {
            return Err("a line does not end with CRLF");
        }
        self.line = None;
        Ok((end, self.has_ended_one()))
    }

    fn rest_of_text(&mut self, bytes: &[u8]) -> Result<(usize, bool), &'static str> {
        let len = usize::try_from(self.text).unwrap_or(usize::MAX).min(bytes.len());
        let left = self.text - len as u64;
        // Of its CRLF, what is among these bytes.
        for (at, wanted) in [(2, b'\r'), (1, b'\n')] {
            let is_here = self.text >= at && left < at;
            let place = usize::try_from(self.text.saturating_sub(at)).unwrap_or(usize::MAX);
            if is_here && bytes.get(place) != Some(&wanted) {
                return Err("a text does not end with CRLF");
            }
        }
        self.text = left;
        Ok((len, left == 0 && self.has_ended_one()))
    }

    /// A message has ended: whether the reply has.
    #[inline]
    fn has_ended_one(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

/// How many bytes a reply has in all that begins so: of a text, whose first line says it.
pub fn announced(bytes: &[u8]) -> Option<u64> {
    let end = line_end(bytes)?;
    let (kind, rest) = bytes.get(..end).and_then(content)?.split_first()?;
    let length = matches!(kind, b'$' | b'=').then(|| length(rest)).and_then(Result::ok)??;
    length.checked_add(end as u64 + 2)
}

/// What a server says by itself is told as a whole.
fn push(bytes: &[u8]) -> Result<Step, &'static str> {
    let mut within = Replies::default();
    let mut at = 0;
    loop {
        let (taken, ended) = within.message(bytes.get(at..).unwrap_or_default())?;
        at += taken;
        within.has_begun = true;
        if ended {
            return Ok(Step { len: at, what: Piece::Push });
        }
        let is_wanting = taken == 0 || at >= bytes.len();
        // What is behind a whole push does not count.
        if at > PUSH_BYTES_MAX || (is_wanting && bytes.len() > PUSH_BYTES_MAX) {
            return Err("a push is too long");
        }
        if is_wanting {
            return Ok(Step { len: 0, what: Piece::Part });
        }
    }
}

/// A length; `None` is -1.
fn length(text: &[u8]) -> Result<Option<u64>, &'static str> {
    match number(text) {
        Some(-1) => Ok(None),
        Some(length) => u64::try_from(length).map(Some).map_err(|_| "a length that is negative"),
        None => Err("a length that is none"),
    }
}
