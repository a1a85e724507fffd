//! Where an HTTP/1.1 answer ends (RFC 9112, section 6.3), from bytes that come in any pieces. The
//! body is counted, and kept only for who looks into it. Nothing is allocated for an answer whose
//! head comes at once.

mod chunks;
#[cfg(test)]
mod tests;

use chunks::Chunks;
use httparse::{EMPTY_HEADER, Header, Response, Status};

use super::recorded_answer::RecordedAnswer;
use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// The longest head of an answer.
pub const HEAD_MAX: usize = 64 * 1024;
/// The most header lines of one.
pub const HEADERS_MAX: usize = 100;

/// Where in an answer the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyState {
    /// Before an answer, or within its head.
    Head,
    /// So many bytes of the body are to come.
    Length(u64),
    /// In a chunked body.
    Chunked(Chunks),
    /// In a body that ends with the connection.
    UntilClosed,
}

/// Reads the answers of one connection.
#[derive(Debug, Clone)]
pub struct Answers {
    is_head: bool,
    place: BodyState,
    /// The begin of a head that did not come at once.
    head: Vec<u8>,
    answer: Answer,
    /// What a request is made of, as points.
    commands: u32,
    keeper: Keeper,
}

/// Keeps the answer under way, where somebody looks into it.
#[derive(Debug, Clone, Default)]
struct Keeper {
    kept: Option<Box<RecordedAnswer>>,
    keeps: bool,
}

impl Keeper {
    fn get(&mut self) -> Option<&mut RecordedAnswer> {
        self.kept.as_deref_mut().filter(|_| self.keeps)
    }
}

/// What a head says.
struct Head {
    len: usize,
    status: u16,
    place: BodyState,
    reusable: bool,
}

impl Answers {
    /// Of a connection on which nothing was asked yet; answers to HEAD have no bodies.
    pub fn new(is_head: bool) -> Self {
        let answer = Answer { kind: Kind::Server, code: 0, commands: 1, reusable: false };
        let (place, head) = (BodyState::Head, Vec::new());
        Self { is_head, place, head, answer, commands: 1, keeper: Keeper::default() }
    }

    /// The next answer is that to a HEAD, or not, and is kept, or not.
    pub fn expect(&mut self, is_head: bool, keeps: bool) {
        (self.is_head, self.keeper.keeps) = (is_head, keeps);
        if keeps {
            self.keeper.kept.get_or_insert_default().clear();
        }
    }

    /// What was kept of the last answer.
    pub fn kept(&self) -> Option<&RecordedAnswer> {
        self.keeper.kept.as_deref().filter(|_| self.keeper.keeps)
    }

    /// Where each request is made of so many commands, or points.
    #[must_use]
    pub fn each_of(self, commands: u32) -> Self {
        Self { commands, ..self }
    }

    /// Takes a head from the front of `bytes`; gives what is behind it, nothing where it goes on.
    fn read_head<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        if self.head.is_empty() {
            let Some(head) = parse(bytes, self.is_head)? else {
                self.keep(bytes)?;
                return Ok(None);
            };
            self.begin_body(&head);
            if let Some(kept) = self.keeper.get().filter(|_| head.status >= 200) {
                kept.take_head(&bytes[..head.len]);
            }
            return Ok(Some(&bytes[head.len..]));
        }
        let before = self.head.len();
        self.keep(bytes)?;
        // A head ends with a line, so a server that sends byte by byte is not read anew for each.
        if !bytes.contains(&b'\n') {
            return Ok(None);
        }
        let Some(head) = parse(&self.head, self.is_head)? else { return Ok(None) };
        self.begin_body(&head);
        if let Some(kept) = self.keeper.get().filter(|_| head.status >= 200) {
            kept.take_head(&self.head[..head.len]);
        }
        self.head.clear();
        // It was not whole before, so it ends within what has come now.
        Ok(bytes.get(head.len.saturating_sub(before)..))
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if self.head.len() + bytes.len() > HEAD_MAX {
            return Err(Malformed("the head of an answer is over 64 KiB"));
        }
        self.head.extend_from_slice(bytes);
        Ok(())
    }

    fn begin_body(&mut self, head: &Head) {
        let success = (200..400).contains(&head.status);
        let kind = if success { Kind::Succeeded } else { Kind::Server };
        self.answer =
            Answer { kind, code: head.status, commands: self.commands, reusable: head.reusable };
        // What is before the answer itself has no body (RFC 9110, section 15.2).
        self.place = if head.status < 200 { BodyState::Head } else { head.place };
    }

    fn done(&mut self, behind: &[u8]) -> Result<Option<Answer>, Malformed> {
        self.place = BodyState::Head;
        if behind.is_empty() {
            Ok(Some(self.answer))
        } else {
            Err(Malformed("the server went on behind the end of its answer"))
        }
    }
}

impl Reader for Answers {
    fn begin(&mut self, _: usize) {}

    fn read(&mut self, mut bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        loop {
            let mut kept = self.keeper.get();
            let mut keep = |body: &[u8]| {
                if let Some(kept) = &mut kept {
                    kept.take_body(body);
                }
            };
            match &mut self.place {
                BodyState::Head => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let Some(behind) = self.read_head(bytes)? else { return Ok(None) };
                    bytes = behind;
                }
                BodyState::Length(left) => {
                    let len = (*left).min(bytes.len() as u64);
                    *left -= len;
                    let (body, behind) = bytes.split_at(len as usize);
                    keep(body);
                    if *left > 0 {
                        return Ok(None);
                    }
                    return self.done(behind);
                }
                BodyState::Chunked(chunks) => {
                    return match chunks.read(bytes, keep)? {
                        Some(len) => self.done(&bytes[len..]),
                        None => Ok(None),
                    };
                }
                BodyState::UntilClosed => {
                    keep(bytes);
                    return Ok(None);
                }
            }
        }
    }

    fn ended(&mut self) -> Option<Answer> {
        (self.place == BodyState::UntilClosed).then_some(self.answer)
    }

    fn begun(&self) -> Option<String> {
        Some(match self.place {
            BodyState::Head => "a part of its head".to_owned(),
            BodyState::Length(_) | BodyState::Chunked(_) | BodyState::UntilClosed => {
                format!("status {} and not all of its body", self.answer.code)
            }
        })
    }
}

/// Reads a head; nothing where it goes on.
fn parse(bytes: &[u8], is_head: bool) -> Result<Option<Head>, Malformed> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    let len = match response.parse(bytes) {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Malformed("an answer has over 100 header lines"));
        }
        Err(_) => return Err(Malformed("what came is not HTTP/1.1")),
    };
    let status = response.code.unwrap_or_default();
    if status == 101 {
        return Err(Malformed("the server changed the protocol unasked"));
    }
    let mut reusable = response.version == Some(1);
    let has_no_body = is_head || status < 200 || status == 204 || status == 304;
    let (mut length, mut chunked) = (None, None);
    for Header { name, value } in response.headers.iter() {
        if name.eq_ignore_ascii_case("content-length") {
            let value = digits(value).ok_or(Malformed("Content-Length is not a number"))?;
            if length.is_some_and(|before| before != value) {
                return Err(Malformed("Content-Length is there twice, and differs"));
            }
            length = Some(value);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // The last one decides (RFC 9112, section 6.3, rule 4).
            let last = words(value).next_back().unwrap_or_default();
            chunked = Some(last.eq_ignore_ascii_case("chunked"));
        } else if name.eq_ignore_ascii_case("connection") {
            for word in words(value) {
                if word.eq_ignore_ascii_case("close") {
                    reusable = false;
                } else if word.eq_ignore_ascii_case("keep-alive") {
                    reusable = true;
                }
            }
        }
    }
    let place = match (has_no_body, chunked, length) {
        (true, ..) => BodyState::Length(0),
        (_, Some(true), _) => BodyState::Chunked(Chunks::default()),
        (_, None, Some(length)) => BodyState::Length(length),
        (_, Some(false), _) | (_, None, None) => BodyState::UntilClosed,
    };
    let reusable = reusable && place != BodyState::UntilClosed;
    Ok(Some(Head { len, status, place, reusable }))
}

fn words(value: &[u8]) -> impl DoubleEndedIterator<Item = &str> {
    let value = std::str::from_utf8(value).unwrap_or_default();
    value.split(',').map(str::trim)
}

fn digits(value: &[u8]) -> Option<u64> {
    let value = std::str::from_utf8(value).ok()?.trim();
    let all = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| value.parse().ok())?
}
