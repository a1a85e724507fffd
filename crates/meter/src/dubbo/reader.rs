//! Reads the answers to one user's calls, as its part of a shared connection hands them on.

use wire::dubbo::{
    BODY_BYTES_DEFAULT_MAX, Frame, FrameError, FrameReader, Kind as FrameKind, Message,
    ResponseBody, Status,
};
use wire::hessian2::{Decoder, Limits, Value};

use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// Where in a frame the number of the request stands (`ExchangeCodec`).
pub(super) const ID: std::ops::Range<usize> = 4..12;
/// Kinds of response without an exception, with and without attachments (`DubboCodec`).
const RESULTS: [i32; 4] = [1, 2, 4, 5];
/// Kinds of response with an exception.
const EXCEPTIONS: [i32; 2] = [0, 3];
/// Characters of a provider's words that are kept.
const WORDS_MAX: usize = 200;

/// Finds the answer to the call under way.
#[derive(Debug)]
pub struct CallReader {
    frames: FrameReader,
    state: CallState,
}

/// What is known apart from the frame that has begun.
#[derive(Debug, Default)]
struct CallState {
    /// The number of the call under way; nothing once its answer has come.
    awaited: Option<i64>,
    number: u64,
    /// What the provider said instead of a result.
    words: String,
}

impl Default for CallReader {
    fn default() -> Self {
        let frames = FrameReader::new(BODY_BYTES_DEFAULT_MAX);
        Self { frames, state: CallState::default() }
    }
}

impl CallState {
    fn take(&mut self, frame: &Frame<'_>) -> Result<Option<Answer>, Malformed> {
        let header = &frame.header;
        match header.kind {
            FrameKind::Request { .. } => Ok(None),
            FrameKind::Response { .. } if self.awaited != Some(header.id) => Ok(None),
            FrameKind::Response { status } => {
                self.awaited = None;
                let kind = self.kind(frame, status)?;
                let code = status.byte().into();
                Ok(Some(Answer { kind, code, commands: 1, reusable: true }))
            }
        }
    }

    /// Of a result its first number is read and no more, so that a large one costs nothing.
    fn kind(&mut self, frame: &Frame<'_>, status: Status) -> Result<Kind, Malformed> {
        if status == Status::Ok {
            let kind = Decoder::new(frame.body, Limits::default()).int();
            match kind.map_err(|_| Malformed("the answer can't be read"))? {
                kind if RESULTS.contains(&kind) => return Ok(Kind::Succeeded),
                kind if EXCEPTIONS.contains(&kind) => {}
                _ => return Err(Malformed("the answer is of no kind that Dubbo has")),
            }
        }
        let message = Message::decode(&frame.header, frame.body, Limits::default());
        let words = match message.map_err(|_| Malformed("the answer can't be read"))? {
            Message::Failure { status, message } => {
                format!("status {} {}: {message}", status.byte(), status.name())
            }
            Message::Response(response) => match &response.body {
                ResponseBody::Exception(thrown) => format!("exception {}", exception(thrown)),
                ResponseBody::Value(_) | ResponseBody::Null => String::new(),
            },
            Message::Event(_) | Message::Request(_) => String::new(),
        };
        self.words = first_line(&words);
        Ok(Kind::Server)
    }
}

/// The class and message of an exception; of a generic call those that the provider threw.
fn exception(thrown: &Value) -> String {
    let Value::Object(object) = thrown else {
        return thrown.as_str().map_or_else(|| format!("{thrown:?}"), str::to_owned);
    };
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let class = text("exceptionClass").unwrap_or(&object.class.name);
    match text("exceptionMessage").or_else(|| text("detailMessage")) {
        Some(message) => format!("{class}: {message}"),
        None => class.to_owned(),
    }
}

/// Stack traces and lists of addresses follow on the first line.
fn first_line(words: &str) -> String {
    words.lines().next().unwrap_or_default().trim_end().chars().take(WORDS_MAX).collect()
}

pub(super) fn malformed(error: FrameError) -> Malformed {
    Malformed(match error {
        FrameError::BadMagic(..) => "what came is not a frame of Dubbo",
        FrameError::BodyTooLong { .. } => "the answer is longer than 8 MiB",
    })
}

impl Reader for CallReader {
    fn number(&mut self, number: u64) {
        self.state.number = number;
    }

    fn begin(&mut self, _: usize) {
        self.state.awaited = Some(self.state.number.cast_signed());
        self.state.words.clear();
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        let (mut rest, mut answer) = (bytes, None);
        while let Some(frame) = self.frames.read(&mut rest).map_err(malformed)? {
            answer = self.state.take(&frame)?.or(answer);
        }
        Ok(answer)
    }

    fn ended(&mut self) -> Option<Answer> {
        None
    }

    fn begun(&self) -> Option<String> {
        self.frames.is_within_a_frame().then(|| "a part of a frame".to_owned())
    }

    fn failure(&self, _: &Answer) -> String {
        self.state.words.clone()
    }
}
