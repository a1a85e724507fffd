//! A connection that users of a thread share: what they send goes out together, and each answer
//! goes to whoever waits for it. One task owns the socket; users leave bytes here and wake it.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use flow::dial::Socket;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::callers::{CallerList, Wakers};
use super::idle::{Idle, IdleStep};
use crate::workload::{Malformed, Multiplexing};

/// Bytes that wait for the socket, above which users wait until it takes some.
const OUT_BYTES_MAX: usize = 1 << 20;

/// How a shared connection has ended.
#[derive(Debug, Clone)]
pub enum ChannelEnd {
    /// The server closed it.
    Closed,
    /// The system says that it broke.
    Broken {
        /// As the system numbers it.
        raw: Option<i32>,
        kind: io::ErrorKind,
    },
    /// The server does not speak the protocol.
    Malformed(Malformed),
    /// The server wanted no further requests, and has answered those that it had.
    Left,
}

impl From<io::Error> for ChannelEnd {
    fn from(error: io::Error) -> Self {
        Self::Broken { raw: error.raw_os_error(), kind: error.kind() }
    }
}

impl ChannelEnd {
    /// What a user reads whose request it has ended; nothing is the end of the stream.
    fn error(&self) -> Option<io::Error> {
        match self {
            Self::Closed | Self::Left => None,
            Self::Broken { raw: Some(raw), .. } => Some(io::Error::from_raw_os_error(*raw)),
            Self::Broken { raw: None, kind } => Some((*kind).into()),
            Self::Malformed(malformed) => Some(io::Error::other(*malformed)),
        }
    }
}

/// A shared connection, which is opened anew where it ends.
pub struct Channel(RefCell<ChannelState>);

struct ChannelState {
    /// Makes the protocol's part of a new connection.
    make: fn() -> Box<dyn Multiplexing>,
    protocol: Box<dyn Multiplexing>,
    /// Nothing while it is being opened.
    socket: Option<Socket>,
    /// What is to be sent, of which this much is.
    out: Vec<u8>,
    written: usize,
    is_flushed: bool,
    callers: CallerList<ChannelEnd>,
    idle: Idle,
    /// Wakes the task that owns the socket.
    task: Option<Waker>,
    /// Users wait for room in `out`.
    is_awaited: bool,
    /// It ends once all requests that are under way have their answers.
    is_leaving: bool,
    /// Who else is woken where it ends, is opened, or takes requests again.
    wakers: Wakers,
}

impl Channel {
    /// Over a connection that is open.
    pub fn new(socket: Socket, make: fn() -> Box<dyn Multiplexing>) -> Self {
        Self::of_set(Some(socket), make, Wakers::default())
    }

    /// One of several; without a socket it is to be opened.
    pub fn of_set(
        socket: Option<Socket>,
        make: fn() -> Box<dyn Multiplexing>,
        wakers: Wakers,
    ) -> Self {
        Self(RefCell::new(ChannelState {
            make,
            protocol: make(),
            socket,
            out: Vec::new(),
            written: 0,
            is_flushed: true,
            callers: CallerList::new(),
            idle: Idle::default(),
            task: None,
            is_awaited: false,
            is_leaving: false,
            wakers,
        }))
    }

    /// Adds a user; gives its number.
    pub fn join(&self) -> usize {
        self.0.borrow_mut().callers.add()
    }

    /// It has been opened anew.
    pub fn open(&self, socket: Socket) {
        let mut state = self.0.borrow_mut();
        state.protocol = (state.make)();
        state.socket = Some(socket);
        state.idle = Idle::default();
        state.wake_all();
    }

    /// Whether it is connected, or was until its task heard of the end.
    pub fn has_socket(&self) -> bool {
        self.0.borrow().socket.is_some()
    }

    /// Takes no further requests, and ends once those that are under way have their answers.
    pub fn leave(&self) {
        let mut state = self.0.borrow_mut();
        state.is_leaving = true;
        state.wake_all();
        state.wake_task();
    }

    /// Whether it is not to be opened anew.
    pub fn is_leaving(&self) -> bool {
        self.0.borrow().is_leaving
    }

    /// It has ended; gives whether requests were under way, which will not be answered.
    pub fn close(&self, end: &ChannelEnd) -> bool {
        let mut state = self.0.borrow_mut();
        let was_used = state.callers.under_way() > 0;
        state.socket = None;
        state.out.clear();
        (state.written, state.is_flushed) = (0, true);
        state.callers.end(end);
        state.wake_all();
        was_used
    }

    /// Whether it takes requests.
    pub fn is_open(&self) -> bool {
        self.0.borrow().is_open()
    }

    /// Waits until it takes requests.
    pub fn poll_open(&self, user: usize, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.borrow_mut();
        state.callers.listen(user, cx);
        if state.is_open() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// A user waits for nothing any more.
    pub fn release(&self, user: usize) {
        let mut state = self.0.borrow_mut();
        state.callers.release(user);
        // The last one may have been waited for.
        if !state.is_open() {
            state.wake_task();
        }
    }

    /// Whether a user has a request that the connection has not taken yet.
    pub fn is_sending(&self, user: usize) -> bool {
        self.0.borrow().callers.is_sending(user)
    }

    /// Whether something has come for a user, or will.
    pub fn has_for(&self, user: usize) -> bool {
        self.0.borrow().callers.has_for(user)
    }

    /// Takes a whole request of a user, which waits where the connection takes none now.
    pub fn poll_send(
        &self,
        user: usize,
        cx: &Context<'_>,
        request: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        let is_full = state.out.len() - state.written > OUT_BYTES_MAX;
        if !state.is_open() || is_full {
            state.is_awaited |= is_full;
            state.callers.note_sending(user);
            state.callers.listen(user, cx);
            return Poll::Pending;
        }
        let begin = state.out.len();
        state.out.extend_from_slice(request);
        let id = state.callers.next_id(user);
        let number = state.protocol.stamp(&mut state.out[begin..], id);
        state.callers.begin(user, id, number);
        state.wake_task();
        Poll::Ready(Ok(request.len()))
    }

    /// Gives a user what has come for it; nothing at all is the end of the connection.
    pub fn poll_receive(
        &self,
        user: usize,
        cx: &Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        let unread = state.callers.unread(user);
        let len = unread.len().min(buffer.remaining());
        if len > 0 {
            buffer.put_slice(&unread[..len]);
            state.callers.note_read(user, len);
            return Poll::Ready(Ok(()));
        }
        if let Some(end) = state.callers.take_ended(user) {
            return Poll::Ready(end.error().map_or(Ok(()), Err));
        }
        if !state.callers.has_request(user) && !state.is_open() {
            return Poll::Ready(Ok(()));
        }
        state.callers.listen(user, cx);
        Poll::Pending
    }

    /// Whether the kernel has something of the connection that has not been read.
    pub fn has_come(&self) -> bool {
        self.0.borrow().socket.as_ref().is_some_and(has_come)
    }

    /// Reads and writes until the connection ends.
    pub fn poll_drive(&self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<ChannelEnd> {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        match &mut state.task {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        match state.drive(cx, scratch) {
            Ok(()) if state.has_left() => Poll::Ready(ChannelEnd::Left),
            Ok(()) => Poll::Pending,
            Err(end) => Poll::Ready(end),
        }
    }

    /// Says that the connection is alive where nothing else was said for long; once each
    /// [`LOOK`](super::idle::LOOK). An error is that the server has been silent for too long.
    pub fn look(&self) -> Result<(), ChannelEnd> {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        match state.idle.look() {
            IdleStep::Nothing => {}
            IdleStep::GiveUp => {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            IdleStep::Heartbeat => {
                // The number is nobody's: an answer to it is an event.
                let id = state.callers.next_id(0);
                state.protocol.heartbeat(id, &mut state.out);
                state.wake_task();
            }
        }
        Ok(())
    }
}

impl ChannelState {
    fn is_open(&self) -> bool {
        self.socket.is_some() && self.takes_requests()
    }

    fn takes_requests(&self) -> bool {
        !self.is_leaving && self.protocol.takes_requests()
    }

    fn has_left(&self) -> bool {
        !self.takes_requests() && self.callers.under_way() == 0 && self.out.is_empty()
    }

    fn wake_all(&self) {
        self.callers.wake_all();
        self.wakers.wake_all();
    }

    fn wake_task(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    fn drive(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Result<(), ChannelEnd> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let took_requests = self.protocol.takes_requests();
        loop {
            let mut read = ReadBuf::new(scratch);
            match Pin::new(&mut *socket).poll_read(cx, &mut read) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Ready(Ok(())) if read.filled().is_empty() => return Err(ChannelEnd::Closed),
                Poll::Ready(Ok(())) => {}
            }
            self.idle.note_heard();
            let taken = self.protocol.read(read.filled(), &mut self.callers, &mut self.out);
            taken.map_err(ChannelEnd::Malformed)?;
            if self.out.len() - self.written > OUT_BYTES_MAX {
                // Whoever asks and does not hear gets no further answers meanwhile.
                break;
            }
        }
        if took_requests != self.protocol.takes_requests() {
            self.wake_all();
        }
        self.write(cx)
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), ChannelEnd> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        while self.written < self.out.len() {
            match Pin::new(&mut *socket).poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => {
                    return Err(io::Error::from(io::ErrorKind::WriteZero).into());
                }
                Poll::Ready(Ok(len)) => {
                    self.written += len;
                    self.is_flushed = false;
                    self.idle.note_said();
                }
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => break,
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.out.shrink_to(2 * OUT_BYTES_MAX);
            self.written = 0;
        } else if self.written > OUT_BYTES_MAX {
            self.out.drain(..self.written);
            self.written = 0;
        }
        if !self.is_flushed {
            match Pin::new(socket).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.is_flushed = true,
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => {}
            }
        }
        if std::mem::take(&mut self.is_awaited) {
            self.callers.wake_all();
        }
        Ok(())
    }
}

/// Whether the kernel has something of a connection that can be read, its end or its error.
pub fn has_come(socket: &Socket) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = recv(socket.descriptor(), &mut [0], flags);
    !matches!(peeked, Err(rustix::io::Errno::AGAIN))
}
