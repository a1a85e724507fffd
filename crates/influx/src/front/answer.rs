//! Answers in InfluxDB's own form: the headers of every response, JSON errors, and the body type.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{
    CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use store::query::encode::Format;

use super::passed::Passed;
use super::streamed::Streamed;

/// What the gateway answers.
pub type Answer = Response<Content>;

/// Why the rest of an answer does not come; its connection is closed.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The query that made an answer ended without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the query of this answer broke off")]
pub struct BrokenOff;

/// The body of an answer.
#[derive(Debug, Default)]
pub enum Content {
    /// There is no body.
    #[default]
    Empty,
    /// All of it at once.
    Full(Bytes),
    /// A backend's answer, passed on as it comes.
    Passed(Box<Passed>),
    /// The embedded store's answer, as it comes.
    Streamed(Box<Streamed>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Passed(passed) => passed.poll_frame(cx),
            Self::Streamed(pieces) => {
                pieces.poll_piece(cx).map_ok(Frame::data).map_err(BodyError::from)
            }
            full @ Self::Full(_) => match std::mem::take(full) {
                Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                _ => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            Self::Passed(passed) => passed.body.is_end_stream(),
            Self::Streamed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Passed(passed) => passed.body.size_hint(),
            Self::Streamed(_) => SizeHint::default(),
        }
    }
}

/// Says what the embedded store's answer lacks since a file is damaged; once for each file.
pub const MISSING: HeaderName = HeaderName::from_static("x-weir-missing");
/// The longest text of a [`MISSING`] header; names in it may be long.
const MISSING_CHARS_MAX: usize = 512;

/// A text as the value of a [`MISSING`] header: what is not ASCII is escaped.
pub fn missing_value(text: &str) -> HeaderValue {
    let shown: String = text.escape_default().take(MISSING_CHARS_MAX).collect();
    HeaderValue::from_str(&shown).unwrap_or(HeaderValue::from_static("points are missing"))
}

/// A refusal on its way from one thread to another, where an answer that is made meanwhile cannot
/// go.
#[derive(Debug)]
pub struct Refusal(Response<Bytes>);

impl From<Answer> for Refusal {
    fn from(answer: Answer) -> Self {
        Self(answer.map(|content| match content {
            Content::Full(bytes) => bytes,
            // A refusal is never one of these.
            Content::Empty | Content::Passed(_) | Content::Streamed(_) => Bytes::new(),
        }))
    }
}

impl From<Refusal> for Answer {
    fn from(Refusal(answer): Refusal) -> Self {
        answer.map(Content::Full)
    }
}

/// An empty answer. InfluxDB says of a 204 that it is JSON, and some clients look.
pub fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Content::Empty);
    *answer.status_mut() = status;
    if status == StatusCode::NO_CONTENT {
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    answer
}

/// Another body for an error, in the form that was asked for.
pub fn in_form_of(mut error: Answer, format: Format) -> Answer {
    let words = error.headers().get(&ERROR).and_then(|words| words.to_str().ok());
    if let Some(words) = words.filter(|_| format.csv || format.pretty) {
        let body = format.error_body(words);
        let kind = HeaderValue::from_static(format.content_type());
        *error.body_mut() = Content::Full(body.into());
        error.headers_mut().insert(CONTENT_TYPE, kind);
    }
    error
}

/// InfluxDB's words, where it refused.
pub const ERROR: HeaderName = HeaderName::from_static("x-influxdb-error");

/// An answer whose body is JSON.
pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Content::Full(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// An answer whose body is plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = json(status, body);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// InfluxDB's error answer: `{"error":"..."}`, a newline, and the words again in
/// `X-Influxdb-Error` (their first 1,024 bytes), or a challenge where it is a 401
/// (`services/httpd/handler.go`, `httpError`).
pub fn error(status: StatusCode, message: &str) -> Answer {
    let mut body = br#"{"error":"#.to_vec();
    push_json_string(&mut body, message);
    body.extend_from_slice(b"}\n");
    let mut answer = json(status, body);
    if status == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_static("Basic realm=\"InfluxDB\"");
        answer.headers_mut().insert(WWW_AUTHENTICATE, realm);
    } else if let Some(value) = error_header(message) {
        answer.headers_mut().insert(ERROR, value);
    }
    answer
}

/// A 503 that asks the client to come back after `seconds`.
pub fn unavailable(message: &str, seconds: u32) -> Answer {
    let mut answer = error(StatusCode::SERVICE_UNAVAILABLE, message);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    answer
}

/// The answer at the journal's memory bound, in the words of InfluxDB's write throttle.
pub fn throttled() -> Answer {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, &b"request throttled, queue full\n"[..]);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1_u32));
    answer
}

/// The first KiB of an error, with what a header cannot hold turned into spaces, as Go's
/// `net/http` does on the wire.
fn error_header(message: &str) -> Option<HeaderValue> {
    let first = &message.as_bytes()[..message.len().min(1024)];
    let clean: Vec<u8> =
        first.iter().map(|&b| if b == b'\n' || b == b'\r' { b' ' } else { b }).collect();
    HeaderValue::from_bytes(clean.trim_ascii()).ok()
}

/// Appends `text` as a JSON string the way Go's `encoding/json` writes it: `<`, `>` and `&` are
/// escaped too.
pub fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes());
            }
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("DELETE, GET, OPTIONS, POST, PUT");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Accept, Accept-Encoding, Authorization, Content-Length, Content-Type, X-CSRF-Token, \
     X-HTTP-Method-Override",
);
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Date, X-InfluxDB-Version, X-InfluxDB-Build");

/// The headers a browser asks for, given where the request is of a page that is allowed
/// (`services/httpd/handler.go`, `cors`).
pub fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    use http::header;
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_are_escaped_as_go_does() {
        let mut out = Vec::new();
        push_json_string(&mut out, "a\"b\\c\n<\u{1}>é");
        assert_eq!(out, "\"a\\\"b\\\\c\\n\\u003c\\u0001\\u003eé\"".as_bytes());
    }

    #[test]
    fn an_error_with_newlines_still_has_its_header() {
        let answer = error(StatusCode::BAD_REQUEST, "one\ntwo");
        assert_eq!(answer.headers()["x-influxdb-error"], "one two");
        let answer = error(StatusCode::UNAUTHORIZED, "no");
        assert_eq!(answer.headers()[WWW_AUTHENTICATE], "Basic realm=\"InfluxDB\"");
        assert!(!answer.headers().contains_key("x-influxdb-error"));
    }
}
