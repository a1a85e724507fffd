//! Many sockets that one task waits for: a readiness costs an entry in a list, where a task of its
//! own for each socket costs being woken and polled.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::stream::Bare;

/// How many sockets become known as ready at once; the others the next time.
const EVENTS_MAX: usize = 256;

/// A set of sockets, each under a key, polled by one task.
pub struct PollSet {
    epoll: AsyncFd<OwnedFd>,
    /// Kept from one time to the next.
    events: Cell<Vec<Event>>,
}

/// A socket has something to read that it had not when it was last said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number under which the socket was added.
    pub key: u64,
    /// The peer has ended its side, or the connection has failed: nothing will be said of this
    /// socket again, so it is to be read until that shows.
    pub ended: bool,
}

impl PollSet {
    /// An empty set on the current runtime.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "what its successor, unsafe to call, demands is given here")]
        let watched = AsyncFd::with_interest(epoll, Interest::READABLE)?;
        Ok(Self { epoll: watched, events: Cell::default() })
    }

    /// Adds a socket, which leaves when it is closed or [removed](Self::remove).
    ///
    /// # Errors
    /// The system has no room for more (`epoll_ctl(2)`).
    pub fn add(&self, socket: &Bare, key: u64) -> io::Result<()> {
        let what = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(key), what)?)
    }

    /// Takes a socket out that stays open.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn remove(&self, socket: &Bare) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Gives to `each` the sockets that have become ready, once there may be any; how many.
    pub fn poll(&self, cx: &mut Context<'_>, each: impl FnMut(Ready)) -> Poll<usize> {
        // Fails on a runtime that is shut down, where nothing is waited for any more.
        let Ok(mut some) = ready!(self.epoll.poll_read_ready(cx)) else {
            return Poll::Pending;
        };
        let count = self.look(each);
        if count < EVENTS_MAX {
            some.clear_ready();
        }
        Poll::Ready(count)
    }

    /// Gives to `each` the sockets that have become ready by now, whether or not the runtime has
    /// heard of them; how many.
    pub fn look(&self, mut each: impl FnMut(Ready)) -> usize {
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let mut events = self.events.take();
        events.reserve(EVENTS_MAX);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Nothing is waited for, so nothing interrupts it.
        let waited = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once));
        debug_assert!(waited.is_ok(), "{waited:?}");
        let count = events.len();
        for event in events.drain(..) {
            let (key, flags) = (event.data.u64(), event.flags);
            each(Ready { key, ended: flags.intersects(ended) });
        }
        self.events.set(events);
        count
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{ErrorKind, Write as _};
    use std::net::TcpStream;
    use std::rc::Rc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use watch::metrics::Registry;

    use super::{PollSet, Ready};
    use crate::clock::CoarseClock;
    use crate::progress::{Busiest, Connections, Limits, Phase, Timeouts};
    use crate::stream::{Bare, Socket, Stream};

    /// Both ends of a connection.
    async fn connected() -> (TcpStream, Stream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let limits = Rc::new(Limits::new("test", &Timeouts::default(), &Registry::new()));
        let connections = Connections::new(CoarseClock::new(), 0, Busiest::default());
        let opened = connections.open(&limits, None);
        (client, Stream::plain(Socket::Tcp(socket), opened))
    }

    async fn bare() -> (TcpStream, Bare) {
        let (client, stream) = connected().await;
        assert!(stream.can_be_bare());
        (client, stream.into_bare().unwrap())
    }

    /// All that becomes ready within a moment.
    async fn ready(set: &PollSet) -> Vec<Ready> {
        let mut all = Vec::new();
        let polling = async {
            loop {
                poll_fn(|cx| set.poll(cx, |ready| all.push(ready))).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(50), polling).await;
        all.sort_by_key(|ready| ready.key);
        all
    }

    #[tokio::test]
    async fn what_becomes_ready_is_said_once() {
        let set = PollSet::new().unwrap();
        let pairs = [bare().await, bare().await, bare().await];
        for (key, (_, socket)) in pairs.iter().enumerate() {
            set.add(socket, key as u64).unwrap();
        }
        assert_eq!(ready(&set).await, []);
        for (mut client, socket) in [&pairs[0], &pairs[2]].map(|(client, socket)| (client, socket))
        {
            client.write_all(b"something").unwrap();
            assert_eq!(socket.progress().phase(), Phase::Idle);
        }
        let said = [0, 2].map(|key| Ready { key, ended: false });
        assert_eq!(ready(&set).await, said);
        assert_eq!(ready(&set).await, []);
        let mut buffer = [0; 100];
        assert_eq!(pairs[0].1.recv(&mut buffer).unwrap(), 9);
        assert_eq!(pairs[0].1.progress().phase(), Phase::Header);
        let error = pairs[0].1.recv(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn a_look_finds_what_has_come_and_leaves_the_rest_to_waiting() {
        let set = PollSet::new().unwrap();
        let (mut client, socket) = bare().await;
        set.add(&socket, 3).unwrap();
        let look = || {
            let mut all = Vec::new();
            assert_eq!(set.look(|ready| all.push(ready)), all.len());
            all
        };
        let said = [Ready { key: 3, ended: false }];
        assert_eq!(look(), []);
        client.write_all(b"one").unwrap();
        assert_eq!(look(), said);
        assert_eq!(look(), []);
        assert_eq!(ready(&set).await, []);
        client.write_all(b"two").unwrap();
        assert_eq!(ready(&set).await, said);
        assert_eq!(look(), []);
    }

    #[tokio::test]
    async fn an_end_is_said_with_what_came_before_it() {
        let set = PollSet::new().unwrap();
        let (mut client, socket) = bare().await;
        set.add(&socket, 7).unwrap();
        client.write_all(b"last").unwrap();
        drop(client);
        assert!(ready(&set).await.contains(&Ready { key: 7, ended: true }));
        let mut buffer = [0; 100];
        assert_eq!(socket.recv(&mut buffer).unwrap(), 4);
        assert_eq!(socket.recv(&mut buffer).unwrap(), 0);
    }

    #[tokio::test]
    async fn what_came_before_is_said_and_what_was_removed_is_not() {
        let set = PollSet::new().unwrap();
        let (mut client, socket) = bare().await;
        client.write_all(b"early").unwrap();
        set.add(&socket, 1).unwrap();
        assert_eq!(ready(&set).await, [Ready { key: 1, ended: false }]);
        set.remove(&socket).unwrap();
        client.write_all(b" and late").unwrap();
        assert_eq!(ready(&set).await, []);
        assert!(set.remove(&socket).is_err());
        // Within the runtime again, nothing is lost.
        let mut stream = socket.into_stream().unwrap();
        let mut buffer = [0; 14];
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"early and late");
        stream.write_all(b"yes").await.unwrap();
        stream.put_back(b"x".to_vec());
        assert!(!stream.can_be_bare());
        assert!(stream.into_bare().is_err());
    }

    #[tokio::test]
    async fn more_than_fit_are_all_said() {
        let set = PollSet::new().unwrap();
        let mut pairs = Vec::new();
        for key in 0..super::EVENTS_MAX as u64 + 50 {
            let (mut client, socket) = bare().await;
            set.add(&socket, key).unwrap();
            client.write_all(b"x").unwrap();
            pairs.push((client, socket));
        }
        let said: Vec<_> = ready(&set).await.into_iter().map(|ready| ready.key).collect();
        assert_eq!(said, (0..pairs.len() as u64).collect::<Vec<_>>());
    }
}
