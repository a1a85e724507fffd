//! The short way of a write: a request that is whole and has nothing special about it is read from
//! the worker's buffer, answered, and leaves nothing behind.
//!
//! So a connection that only writes holds no buffer, and its requests touch little memory beside
//! the worker's own: with many connections that is most of what a request costs. Whatever is not of
//! this form, a fault in it above all, goes the long way with everything that came
//! (`super::http`): the words for it are found in one place.

mod cut;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use flow::drain::Started;
use flow::progress::Phase;
use flow::stream::Stream;
use http::StatusCode;
use http::header::HeaderValue;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};

use super::Front;
use super::answer::{Answer, Content};
use super::http::{self as long, Connection};
use super::write::{Taken, Write};
use cut::{Cut, Plain, cut};

/// What came of reading.
enum Turn {
    /// The client has gone, or is not waited for any more.
    Over,
    /// Not all of it has come.
    More,
    /// The rest of the connection goes the long way.
    Other,
    /// A write, or what is wrong with it, and the request's id.
    Write(Result<Taken, Answer>, HeaderValue),
}

/// The text of a `Date` header, made once a second.
#[derive(Default)]
pub struct Date(RefCell<(u64, String)>);

impl Date {
    fn put(&self, out: &mut Vec<u8>) {
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut known = self.0.borrow_mut();
        if known.0 != seconds || known.1.is_empty() {
            *known = (seconds, httpdate::fmt_http_date(now));
        }
        out.extend_from_slice(known.1.as_bytes());
    }
}

/// Serves writes as long as all that comes is of the plainest form. Gives the connection with what
/// was read of the first request that is not; `None` at its end.
pub async fn serve(
    front: &Front,
    connection: &Connection,
    stream: Stream,
    draining: Pin<&mut Started>,
) -> Option<Stream> {
    Short { front, connection, stream, held: Vec::new(), draining }.run().await
}

struct Short<'a> {
    front: &'a Front,
    connection: &'a Connection,
    stream: Stream,
    /// The beginning of a request.
    held: Vec<u8>,
    draining: Pin<&'a mut Started>,
}

impl Short<'_> {
    async fn run(mut self) -> Option<Stream> {
        loop {
            match poll_fn(|cx| self.poll_turn(cx)).await {
                Turn::Over => return None,
                Turn::More => {}
                Turn::Other => {
                    self.stream.put_back(self.held);
                    return Some(self.stream);
                }
                Turn::Write(taken, id) => {
                    let done = match taken {
                        Ok(taken) => taken.acknowledged(self.front).await,
                        Err(refusal) => Err(refusal),
                    };
                    self.connection.progress.idle();
                    let last = self.front.worker.drain.is_started();
                    if self.answer(done, id, last).await.is_err() || last {
                        return None;
                    }
                }
            }
        }
    }

    /// Reads what has come into the worker's buffer, and looks at it there.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let connections = &self.front.worker.connections;
        let turn = connections.scratch().lend(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            if ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)).is_err() {
                return Poll::Ready(Turn::Over);
            }
            Poll::Ready(self.look(buffer.filled()))
        });
        // A request that has begun is waited for until it takes too long.
        if turn.is_pending() && self.held.is_empty() && self.draining.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Turn::Over);
        }
        turn
    }

    /// Looks at what has come by now, and holds what is not taken.
    fn look(&mut self, came: &[u8]) -> Turn {
        if came.is_empty() {
            return Turn::Over;
        }
        let mut held = std::mem::take(&mut self.held);
        let turn = if held.is_empty() {
            self.take(came, false)
        } else {
            held.extend_from_slice(came);
            self.take(&held, true)
        };
        if matches!(turn, Turn::More | Turn::Other) {
            if held.is_empty() {
                held.extend_from_slice(came);
            }
            self.held = held;
        }
        turn
    }

    /// Takes a write that has come whole; a head that has not after it was looked for `again` is
    /// left to those who read it piece by piece.
    fn take(&self, bytes: &[u8], again: bool) -> Turn {
        let live = self.front.gateway.live();
        match cut(bytes, live.settings.max_header_size.len(), live.limits.body_max) {
            Cut::Other => Turn::Other,
            Cut::Part { head: false } if again => Turn::Other,
            Cut::Part { head } => {
                // Once, since the time of a body counts from there.
                if head && self.connection.progress.phase() != Phase::Body {
                    self.connection.progress.body();
                }
                Turn::More
            }
            Cut::Whole(request) => {
                let Plain { api, query, headers, body } = &request;
                let write = Write::new(self.front, self.connection, *api, query, headers);
                match write.take_at_once(body) {
                    Some(taken) => Turn::Write(taken, self.front.ids.of(headers)),
                    None => Turn::Other,
                }
            }
        }
    }

    /// Sends the answer, the last one of the connection if so.
    async fn answer(
        &mut self,
        done: Result<(), Answer>,
        id: HeaderValue,
        last: bool,
    ) -> io::Result<()> {
        let status =
            done.as_ref().map_or_else(|refusal| refusal.status(), |()| StatusCode::NO_CONTENT);
        self.front.gateway.metrics.answered(status);
        // Whoever answers while this one is not taken at once makes another buffer.
        let mut out = self.front.answer.take();
        out.clear();
        self.front.put_answer(&mut out, &done, &id, last);
        let sent = self.stream.write_all(&out).await;
        self.front.answer.replace(out);
        sent?;
        self.stream.flush().await?;
        if last { self.stream.shutdown().await } else { Ok(()) }
    }
}

impl Front {
    /// Writes an answer as the long way would.
    fn put_answer(
        &self,
        out: &mut Vec<u8>,
        done: &Result<(), Answer>,
        id: &HeaderValue,
        last: bool,
    ) {
        let put = |out: &mut Vec<u8>, name: &str, value: &[u8]| {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        };
        match done {
            Ok(()) => out.extend_from_slice(
                b"HTTP/1.1 204 No Content\r\ncontent-type: application/json\r\n",
            ),
            Err(refusal) => {
                let status = refusal.status();
                let reason = status.canonical_reason().unwrap_or("Unknown");
                out.extend_from_slice(
                    format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).as_bytes(),
                );
                for (name, value) in refusal.headers() {
                    put(out, name.as_str(), value.as_bytes());
                }
            }
        }
        for (name, value) in long::on_every_answer(&self.gateway.live(), id) {
            put(out, name.as_str(), value.as_bytes());
        }
        if last {
            put(out, "connection", b"close");
        }
        let body = done.as_ref().err().map(|refusal| match refusal.body() {
            Content::Full(body) => &body[..],
            // What is made while it is sent is no write's.
            _ => &[],
        });
        if let Some(body) = body {
            put(out, "content-length", body.len().to_string().as_bytes());
        }
        out.extend_from_slice(b"date: ");
        self.date.put(out);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body.unwrap_or_default());
    }
}
