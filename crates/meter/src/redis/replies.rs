//! Where the replies to a pipeline end. They are counted, not kept; nothing is allocated for
//! replies whose lines come at once.

use wire::resp::{Piece, Replies};

use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// Bytes of an error that are kept, so that it can be told.
const ERROR_MAX: usize = 200;

/// Reads the replies to requests of so many commands each.
#[derive(Debug)]
pub struct Pipeline {
    commands: u32,
    replies: Replies,
    /// Replies that are to come.
    left: u32,
    /// The reply under way has begun, and is an error or not.
    under_way: Option<bool>,
    /// The begin of a line that did not come at once.
    rest: Vec<u8>,
    /// The first error among the replies, and whether it is whole or long enough.
    error: Vec<u8>,
    is_told: bool,
}

impl Pipeline {
    /// Of a connection on which nothing was asked yet.
    pub fn new(commands: u32) -> Self {
        Self {
            commands,
            replies: Replies::default(),
            left: 0,
            under_way: None,
            rest: Vec::new(),
            error: Vec::new(),
            is_told: false,
        }
    }

    /// Takes as many replies as there are; gives how many bytes they had.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < bytes.len() && self.left > 0 {
            let behind = &bytes[at..];
            let is_error = *self.under_way.get_or_insert(behind[0] == b'-');
            let step = self.replies.scan(behind).map_err(Malformed)?;
            if step.len == 0 {
                break;
            }
            at += step.len;
            if is_error && !self.is_told {
                let room = ERROR_MAX - self.error.len().min(ERROR_MAX);
                self.error.extend_from_slice(&behind[..step.len.min(room)]);
                self.is_told = step.what == Piece::End;
            }
            match step.what {
                Piece::Part => {}
                Piece::End => {
                    self.left -= 1;
                    self.under_way = None;
                }
                Piece::Push => return Err(Malformed("the server said what nobody had asked for")),
            }
        }
        Ok(at)
    }

    fn answer(&self) -> Answer {
        let kind = if self.is_told { Kind::Server } else { Kind::Succeeded };
        Answer { kind, code: 0, commands: self.commands, reusable: true }
    }

    /// The first error, as the server wrote it.
    pub(super) fn error(&self) -> String {
        String::from_utf8_lossy(&self.error).trim_start_matches('-').trim_end().to_owned()
    }
}

impl Reader for Pipeline {
    fn begin(&mut self, _: usize) {
        self.left = self.commands;
        self.error.clear();
        self.is_told = false;
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        let is_more = if self.rest.is_empty() {
            let taken = self.take(bytes)?;
            self.rest.extend_from_slice(&bytes[taken..]);
            taken < bytes.len()
        } else {
            let mut rest = std::mem::take(&mut self.rest);
            rest.extend_from_slice(bytes);
            let taken = self.take(&rest)?;
            rest.drain(..taken);
            self.rest = rest;
            !self.rest.is_empty()
        };
        match (self.left, is_more) {
            (0, true) => Err(Malformed("the server went on behind the end of its replies")),
            (0, false) => Ok(Some(self.answer())),
            _ => Ok(None),
        }
    }

    fn ended(&mut self) -> Option<Answer> {
        None
    }

    fn begun(&self) -> Option<String> {
        let is_first = self.left == self.commands;
        Some(if is_first { "a part of its reply" } else { "some of its replies" }.to_owned())
    }

    fn failure(&self, _: &Answer) -> String {
        self.error()
    }
}
