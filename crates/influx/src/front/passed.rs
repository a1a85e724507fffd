//! A backend's answer on its way to the client, as it comes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::runtime::Handle;

use super::answer::{self, Answer, BodyError, Content};
use super::execution::Reader;
use crate::backends::Backend;

/// What an answer brings before its client is watched. The system takes as much of it, read or not.
const UNWATCHED_BYTES: usize = 64 << 10;

/// Says how far behind the backend is that answered.
const BEHIND: HeaderName = HeaderName::from_static("x-weir-behind");
/// Names the backend that answered.
pub const BACKEND: HeaderName = HeaderName::from_static("x-weir-backend");

/// The body of a backend's answer, and the client that reads it.
pub struct Passed {
    /// The body as the backend sends it.
    pub body: Incoming,
    reader: Reader,
    control: Handle,
    brought: usize,
    is_watched: bool,
}

impl Passed {
    /// The answer of a backend for a client.
    pub fn new(body: Incoming, reader: Reader, control: Handle) -> Self {
        Self { body, reader, control, brought: 0, is_watched: false }
    }

    /// The next of it.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end.map(|broken| broken.map_err(BodyError::from))),
        };
        Poll::Ready(Some(Ok(frame.map_data(|bytes| self.counted(bytes)))))
    }

    fn counted(&mut self, bytes: Bytes) -> Bytes {
        self.brought = self.brought.saturating_add(bytes.len());
        let piece = self.reader.unsent.piece(bytes);
        if self.brought > UNWATCHED_BYTES && !self.is_watched {
            self.is_watched = true;
            self.control.spawn(self.reader.clone().watch_coming());
        }
        piece
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.reader.unsent.set_complete();
    }
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passed").field("brought", &self.brought).finish_non_exhaustive()
    }
}

/// A backend's answer as Weir's: its status, its kind, its body as it comes.
pub fn passed_on(
    response: http::Response<Incoming>,
    backend: &Backend,
    passed: impl FnOnce(Incoming) -> Passed,
) -> Answer {
    let (head, incoming) = response.into_parts();
    let mut answer = answer::empty(head.status);
    *answer.body_mut() = Content::Passed(Box::new(passed(incoming)));
    let headers = answer.headers_mut();
    let passed =
        [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::RETRY_AFTER, answer::ERROR];
    for value in head.headers.get_all(answer::MISSING) {
        headers.append(answer::MISSING, value.clone());
    }
    for name in passed {
        if let Some(value) = head.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    if let Ok(name) = HeaderValue::from_str(backend.name()) {
        headers.insert(BACKEND, name);
    }
    if let Some(behind) = backend.behind() {
        let seconds = HeaderValue::from_str(&format!("{:.3}", behind.as_secs_f64()));
        headers.extend(seconds.ok().map(|seconds| (BEHIND, seconds)));
    }
    answer
}
