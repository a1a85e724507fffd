//! A client's socket, read by its own task and written by whoever has a reply for it.
//!
//! It never blocks a writer and holds no buffer for an idle client. What the socket does not take
//! at once is spilled and written by a task of its own; a client that leaves more unread than it
//! may is cut off, which only its own reader hears of.
//!
//! The one path: the client's task waits in [`Outlet::read_with`]; a lane's task calls
//! [`Outlet::send`], which is one system call when the socket takes all, or a part of one for many
//! clients: see [`Together`].

mod flush;
mod gather;
mod together;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead as _, ReadBuf};

use crate::buffer::Buffer;
use crate::progress::{Progress, Slow};
use crate::scratch::Scratch;
use crate::stream::Stream;

pub use together::Together;

/// A client's socket. Clones are the same socket; all stay on its worker. The client's task calls
/// [`close`](Self::close) or [`finish`](Self::finish) when it ends, since clones elsewhere would
/// keep the connection open.
#[derive(Clone)]
pub struct Outlet(Rc<Client>);

struct Client {
    stream: RefCell<Stream>,
    progress: Progress,
    scratch: Scratch,
    spill_max: usize,
    /// Bytes that were handed over for it, those included that it has not taken yet.
    handed: Cell<u64>,
    /// Only while there is something in it, or in TLS's own buffer, that the socket does not take.
    spill: RefCell<Option<Box<Spill>>>,
    /// What is to go out together; see [`Outlet::gathered`].
    gathered: RefCell<Option<Vec<u8>>>,
    /// It is on its thread's list; see [`Together`].
    is_listed: Cell<bool>,
    /// Nothing more is sent: the connection was closed or has failed.
    closed: Cell<bool>,
}

/// What the socket did not take yet.
#[derive(Default)]
struct Spill {
    waiting: Buffer,
    /// The task that writes it.
    flusher: Option<Waker>,
    /// Those who wait until there is less, with how much that is.
    drained: Vec<(usize, Waker)>,
}

impl Outlet {
    /// Shares a client's connection. At most `spill_max` bytes wait for the client to read.
    pub fn new(stream: Stream, spill_max: usize) -> Self {
        Self(Rc::new(Client {
            progress: stream.progress().clone(),
            scratch: stream.connections().scratch().clone(),
            stream: RefCell::new(stream),
            spill_max,
            handed: Cell::new(0),
            spill: RefCell::new(None),
            gathered: RefCell::new(None),
            is_listed: Cell::new(false),
            closed: Cell::new(false),
        }))
    }

    /// Waits for bytes of the client and shows them to `with`: `None` when it has ended its side.
    /// One task may read, and no buffer is held while it waits.
    ///
    /// # Errors
    /// The connection failed, or was closed from here: then it is
    /// [`TimedOut`](io::ErrorKind::TimedOut) with a [`Slow`] inside.
    pub async fn read_with<R>(&self, with: impl FnOnce(Option<&[u8]>) -> R) -> io::Result<R> {
        let mut with = Some(with);
        poll_fn(|cx| self.poll_read_with(cx, &mut with)).await
    }

    /// As [`read_with`](Self::read_with), in a poll; `with` is taken when there is something to
    /// show.
    ///
    /// # Errors
    /// As of `read_with`.
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        with: &mut Option<impl FnOnce(Option<&[u8]>) -> R>,
    ) -> Poll<io::Result<R>> {
        self.0.scratch.lend(|buffer| {
            let mut read = ReadBuf::new(buffer);
            {
                let mut stream = self.0.stream.borrow_mut();
                ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
            }
            let Some(with) = with.take() else { return Poll::Pending };
            let filled = read.filled();
            Poll::Ready(Ok(with((!filled.is_empty()).then_some(filled))))
        })
    }

    /// Waits for bytes of the client and appends them: 0 when it has ended its side. `into` grows
    /// by what came, not before.
    ///
    /// # Errors
    /// As of [`read_with`](Self::read_with).
    pub async fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.read_with(|bytes| {
            let bytes = bytes.unwrap_or_default();
            into.extend_from_slice(bytes);
            bytes.len()
        })
        .await
    }

    /// Sends `bytes` behind what was sent before: at once if the socket takes them, else they are
    /// spilled. Over the limit the client is cut off. An error is the reader's to hear.
    #[inline]
    pub fn send(&self, bytes: &[u8]) {
        if !self.may_send() || self.gathers(&[bytes]) {
            return;
        }
        self.hand(bytes.len());
        if self.joins(&[bytes]) {
            return;
        }
        if self.0.spill.borrow().is_some() {
            return self.spill(&[bytes]);
        }
        let sent = self.0.stream.borrow_mut().try_send(bytes);
        self.sent(sent, &[bytes]);
    }

    /// As [`send`](Self::send) of all parts in a row.
    pub fn send_parts(&self, parts: &[&[u8]]) {
        if !self.may_send() || self.gathers(parts) {
            return;
        }
        self.hand(parts.iter().map(|part| part.len()).sum());
        if self.joins(parts) {
            return;
        }
        if self.0.spill.borrow().is_some() {
            return self.spill(parts);
        }
        // More than these are rare; what is beyond them is spilled, in order.
        let mut slices = [IoSlice::new(&[]); 8];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let sent = self.0.stream.borrow_mut().try_send_parts(&slices);
        self.sent(sent, parts);
    }

    #[inline]
    fn hand(&self, len: usize) {
        self.0.handed.set(self.0.handed.get() + len as u64);
        self.0.progress.answered(len);
    }

    #[inline]
    fn may_send(&self) -> bool {
        !self.0.closed.get() && self.0.progress.closed().is_none()
    }

    /// What became of an attempt to send `parts`.
    #[inline]
    fn sent(&self, sent: io::Result<usize>, parts: &[&[u8]]) {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut skip = match sent {
            Ok(n) if n >= len => {
                if self.0.stream.borrow().keeps() {
                    self.spill(&[]);
                }
                return;
            }
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => return self.close(),
        };
        for part in parts {
            let from = skip.min(part.len());
            skip -= from;
            self.spill(&[part.get(from..).unwrap_or_default()]);
        }
    }

    /// Keeps bytes for the flusher, which is started when there is none.
    #[cold]
    fn spill(&self, parts: &[&[u8]]) {
        let mut place = self.0.spill.borrow_mut();
        let is_new = place.is_none();
        let spill = place.get_or_insert_default();
        for part in parts {
            if spill.waiting.len() + part.len() > self.0.spill_max {
                drop(place);
                self.0.progress.close(Slow::Spill);
                return self.close();
            }
            spill.waiting.end().extend_from_slice(part);
        }
        drop(place);
        if is_new {
            tokio::task::spawn_local(flush::Flusher(Rc::clone(&self.0)));
        }
    }

    /// Bytes that wait for the client to read.
    pub fn spilled(&self) -> usize {
        self.0.spill.borrow().as_ref().map_or(0, |spill| spill.waiting.len())
    }

    /// How many of these there may be.
    pub fn spill_max(&self) -> usize {
        self.0.spill_max
    }

    /// Waits until at most `below` bytes are spilled, or the connection is closed.
    pub async fn drained(&self, below: usize) {
        poll_fn(|cx| self.poll_drained(cx, below)).await;
    }

    /// As [`drained`](Self::drained), in a poll.
    pub fn poll_drained(&self, cx: &mut Context<'_>, below: usize) -> Poll<()> {
        if self.0.progress.closed().is_some() {
            return Poll::Ready(());
        }
        match &mut *self.0.spill.borrow_mut() {
            Some(spill) if spill.waiting.len() > below || below == 0 => {
                spill.drained.retain(|(_, waker)| !waker.will_wake(cx.waker()));
                spill.drained.push((below, cx.waker().clone()));
                self.0.progress.park(cx.waker());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Closes the connection once all that was sent is on its way. Nothing is sent any more.
    pub async fn finish(&self) {
        self.drained(0).await;
        self.close();
    }

    /// Closes the connection at once, with what is spilled.
    pub fn close(&self) {
        self.send_listed();
        if !self.0.closed.replace(true) {
            self.0.stream.borrow_mut().hang_up();
        }
        if let Some(spill) = self.0.spill.borrow_mut().take() {
            spill.flusher.into_iter().for_each(Waker::wake);
            spill.drained.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// Waits until the client has gone away or the connection is closed, for a task that does not
    /// read meanwhile: whoever reads hears of it there, and at once. Looks each `every`, and not
    /// before: to look is a system call, and most waits are shorter.
    pub async fn gone(&self, every: Duration) {
        while self.may_send() {
            tokio::time::sleep(every).await;
            if self.0.stream.borrow().is_ended() {
                return;
            }
        }
    }

    /// As [`gone`](Self::gone), but waits on for a client that has ended its sending side alone and
    /// still reads. To Weir it looks like one that has gone until it is sent `probe`, bytes of its
    /// protocol that tell it nothing new: only where somebody has gone does that break the
    /// connection.
    pub async fn broken(&self, every: Duration, probe: &[u8]) {
        let mut is_probed = false;
        while self.may_send() {
            tokio::time::sleep(every).await;
            let (is_ended, is_broken) = {
                let stream = self.0.stream.borrow();
                (stream.is_ended(), stream.is_broken())
            };
            if is_broken {
                return;
            }
            if is_ended && !std::mem::replace(&mut is_probed, true) {
                self.send(probe);
            }
        }
    }

    /// Whether nothing more will reach the client.
    pub fn is_closed(&self) -> bool {
        !self.may_send()
    }

    /// Where the client's task says what the connection is doing.
    pub fn progress(&self) -> &Progress {
        &self.0.progress
    }

    /// Bytes that were sent, those included that wait for the client to take them.
    pub fn sent_bytes(&self) -> u64 {
        self.0.handed.get()
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.stream.borrow().is_tls()
    }

    /// The protocol and cipher suite of TLS, as [`Stream::encryption`] gives them.
    pub fn encryption(&self) -> Option<String> {
        self.0.stream.borrow().encryption()
    }

    /// The address that the client connected to; `None` for a Unix socket, or where it is gone.
    pub fn local_addr(&self) -> Option<std::net::SocketAddr> {
        self.0.stream.borrow().local_addr().ok()
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet")
            .field("spilled", &self.spilled())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
