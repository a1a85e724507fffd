//! Where replies begin and end in a server's stream, which comes cut anywhere.

use super::backend::{Status, tag};
use super::frame::HEADER_BYTES;

/// Bytes of a message outside of replies beyond which the server is not trusted. A notification's
/// payload is below 8000 bytes; the longest setting that is reported is `search_path`.
pub const ASIDE_BYTES_MAX: usize = 32 * 1024;

/// What a run of bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// More bytes are wanted: `len` is 0. Never more than [`ASIDE_BYTES_MAX`] at once.
    Wanted,
    /// Of the reply under way, which goes on. Begins and ends anywhere in a message.
    Part,
    /// Of the reply under way, up to and with the ReadyForQuery that ends it.
    End(Status),
    /// One whole ParameterStatus or NotificationResponse: of no reply, even amid one.
    Aside,
    /// One whole NoticeResponse before any other message of a reply: of the reply that is waited
    /// for if one is, else of none.
    Notice,
    /// The stream can't be followed any more, and why.
    Broken(&'static str),
}

/// A run of bytes, from the beginning of what was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Bytes from the beginning of what was given.
    pub len: usize,
    /// Which part of a reply these bytes are.
    pub run: Run,
}

/// Which way data is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// The server waits for the client's data.
    In,
    /// The server sends data.
    Out,
    /// Both sides send data, as in streaming replication.
    Both,
}

/// Follows a server's stream once the session has begun, message by message.
///
/// A reply is everything up to a ReadyForQuery. A reply that is there as a whole is one run; long
/// messages are passed on as they come and never waited for.
#[derive(Clone, Debug)]
pub struct Scanner {
    message_max: usize,
    /// Bytes to come of the message under way.
    left: usize,
    /// A message of a reply has been seen, its ReadyForQuery has not.
    open: bool,
    failed: bool,
    copying: Option<Copying>,
}

/// What is done about a message, by its tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Part,
    /// Of the reply, but it also changes what is known of it.
    Telling,
    Ready,
    Aside,
    Notice,
    Unknown,
}

/// By tag; `R`, `K` and `v` belong to the start of a session, so they are not known here.
const CLASSES: [Class; 256] = {
    let mut classes = [Class::Unknown; 256];
    let parts = b"DTC123tnsIdcV";
    let mut at = 0;
    while at < parts.len() {
        classes[parts[at] as usize] = Class::Part;
        at += 1;
    }
    classes[tag::COMMAND_COMPLETE as usize] = Class::Telling;
    classes[tag::ERROR_RESPONSE as usize] = Class::Telling;
    classes[tag::COPY_IN_RESPONSE as usize] = Class::Telling;
    classes[tag::COPY_OUT_RESPONSE as usize] = Class::Telling;
    classes[tag::COPY_BOTH_RESPONSE as usize] = Class::Telling;
    classes[tag::READY_FOR_QUERY as usize] = Class::Ready;
    classes[tag::PARAMETER_STATUS as usize] = Class::Aside;
    classes[tag::NOTIFICATION_RESPONSE as usize] = Class::Aside;
    classes[tag::NOTICE_RESPONSE as usize] = Class::Notice;
    classes
};

impl Scanner {
    /// `message_max`: bytes of the longest message that a server may send, tag included.
    pub fn new(message_max: usize) -> Self {
        Self { message_max, left: 0, open: false, failed: false, copying: None }
    }

    /// Whether a reply has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether an ErrorResponse was in the reply that is under way, or just ended.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Which way data is being copied.
    pub fn copying(&self) -> Option<Copying> {
        self.copying
    }

    /// The longest run at the beginning of `bytes`. What is behind it is to be given again.
    #[inline]
    pub fn scan(&mut self, bytes: &[u8]) -> Scan {
        let mut at = self.left.min(bytes.len());
        self.left -= at;
        while let Some(&[tag, a, b, c, d]) = bytes[at..].first_chunk::<HEADER_BYTES>() {
            // A negative length reads as one past 2 GiB, which is over any limit.
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if length < 4 || length >= self.message_max {
                return self.broken(at, "a message's length is impossible or over the limit");
            }
            let class = CLASSES[usize::from(tag)];
            if class != Class::Part && class != Class::Telling {
                let whole = bytes.get(at..=at + length);
                if class != Class::Notice || !self.open {
                    return self.other(at, class, length, whole);
                }
            }
            self.begin(tag, class);
            at += length + 1;
            if at > bytes.len() {
                self.left = at - bytes.len();
                return Scan { len: bytes.len(), run: Run::Part };
            }
        }
        Self::part(at)
    }

    #[inline]
    fn begin(&mut self, tag: u8, class: Class) {
        if !self.open {
            self.open = true;
            self.failed = false;
        }
        if class == Class::Telling {
            self.copying = match tag {
                tag::COPY_IN_RESPONSE => Some(Copying::In),
                tag::COPY_OUT_RESPONSE => Some(Copying::Out),
                tag::COPY_BOTH_RESPONSE => Some(Copying::Both),
                _ => None,
            };
            self.failed |= tag == tag::ERROR_RESPONSE;
        }
    }

    /// A message that ends the run before it, or is a run of its own, or ends the reply.
    fn other(&mut self, at: usize, class: Class, length: usize, whole: Option<&[u8]>) -> Scan {
        match (class, whole) {
            (Class::Ready, Some([.., status])) if length == 5 => match Status::of_byte(*status) {
                Some(status) => {
                    // A reply of nothing else (to a lone Sync) has not failed.
                    self.failed &= self.open;
                    self.open = false;
                    self.copying = None;
                    Scan { len: at + length + 1, run: Run::End(status) }
                }
                None => self.broken(at, "a ReadyForQuery with no status"),
            },
            (Class::Ready, _) if length != 5 => {
                self.broken(at, "a ReadyForQuery of a wrong length")
            }
            (Class::Unknown, _) => self.broken(at, "a message of an unknown kind"),
            _ if length >= ASIDE_BYTES_MAX => self.broken(at, "a message between replies too long"),
            (_, None) => Self::part(at),
            // What is before it goes first.
            _ if at > 0 => Self::part(at),
            (Class::Notice, Some(whole)) => Scan { len: whole.len(), run: Run::Notice },
            (_, Some(whole)) => Scan { len: whole.len(), run: Run::Aside },
        }
    }

    fn part(len: usize) -> Scan {
        Scan { len, run: if len == 0 { Run::Wanted } else { Run::Part } }
    }

    /// What is sound is handed out first; the next call comes upon the fault again.
    fn broken(&self, at: usize, why: &'static str) -> Scan {
        match at {
            0 => Scan { len: 0, run: Run::Broken(why) },
            len => Scan { len, run: Run::Part },
        }
    }
}
