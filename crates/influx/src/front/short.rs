//! The short way of a write: a request that is whole and has nothing special about it is read from
//! the worker's buffer, answered, and leaves nothing behind.
//!
//! One task serves the plain writes of all of a worker's connections ([`turns`]), while the tasks
//! of the connections sleep: a connection that only writes holds no buffer, and its requests touch
//! little memory beside the worker's own. With many connections that is most of what a request
//! costs. Whatever is not of this form, a fault in it above all, goes the long way with everything
//! that came (`super::http`): the words for it are found in one place. So does all of TLS.

mod cut;
mod reply;
#[cfg(test)]
mod tests;
mod turns;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use flow::drain::Started;
use flow::memory::MemoryShare;
use flow::poll_set::PollSet;
use flow::stream::{Bare, Stream};
use journal::Ticket;
use slab::Slab;
use tokio::io::AsyncWriteExt as _;

use super::http::Connection;
pub use reply::Date;
pub use turns::run;

/// A worker's connections on the short way.
pub struct Short {
    set: PollSet,
    members: RefCell<Slab<Member>>,
    /// Nobody serves them any more.
    ended: Cell<bool>,
}

/// A connection on the short way.
struct Member {
    bare: Bare,
    connection: Rc<Connection>,
    /// The beginning of a request, and its share of the memory that bodies have.
    held: Vec<u8>,
    share: Option<MemoryShare>,
    input: Input,
    step: Step,
    /// The task of the connection, which sees to its leaving.
    task: Waker,
}

/// What a connection's socket is known to have for Weir to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Nothing, until the poll set says that more has come.
    Drained,
    /// Perhaps something, which a read finds out.
    Waiting,
    /// All that comes until the end: the client has ended its side, or the connection has failed,
    /// and the poll set says nothing of it again.
    Ending,
}

impl Input {
    /// After the poll set has said that something has come, or that the connection has `ended`.
    fn announced(self, ended: bool) -> Self {
        if ended || self == Self::Ending { Self::Ending } else { Self::Waiting }
    }

    /// After something was read that has `filled` the buffer or not: what has not come by now will
    /// be said, except of the end.
    fn after_read(self, filled: bool) -> Self {
        match self {
            Self::Ending => Self::Ending,
            _ if filled => Self::Waiting,
            _ => Self::Drained,
        }
    }
}

/// What a connection on the short way is doing; never two of these at once.
enum Step {
    /// Its next request is read.
    Reading,
    /// Its request waits for this acknowledgement.
    Waiting(Ticket),
    /// Its answer is about to be sent.
    Answering,
    /// Its own task is woken to take it away from the short way.
    Leaving(Left),
}

/// Why a connection leaves the short way.
enum Left {
    /// The client has gone, or is not waited for any more.
    Over,
    /// The rest of the connection, from what is held on, goes the long way.
    Other,
    /// The client did not take all of an answer, perhaps the last one.
    Unsent { rest: Vec<u8>, last: bool },
    /// A fault of Weir, for the connection's own task to end by.
    Panicked(Box<dyn Any + Send>),
}

impl Short {
    /// No connections yet.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { set: PollSet::new()?, members: RefCell::default(), ended: Cell::new(false) })
    }

    /// Does something for a connection, and wakes its task where it is to leave. A fault is that
    /// connection's own.
    fn with(&self, key: usize, what: impl FnOnce(&mut Member)) {
        let mut members = self.members.borrow_mut();
        let Some(member) = members.get_mut(key) else {
            return;
        };
        let done = catch_unwind(AssertUnwindSafe(|| what(member)));
        if let Err(why) = done {
            member.step = Step::Leaving(Left::Panicked(why));
        }
        let task = matches!(member.step, Step::Leaving(_)).then(|| member.task.clone());
        // Not borrowed while waking: a waker may drop a task, and with it a connection.
        drop(members);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Brings what the turns of these members begin with into the processor's cache: the misses of
    /// many overlap, while met one by one each is waited for.
    fn prefetch(&self, keys: impl Iterator<Item = usize>) {
        let members = self.members.borrow();
        for member in keys.filter_map(|key| members.get(key)) {
            // By the connection, which is wanted, too.
            black_box(member.connection.progress.phase());
        }
    }

    /// Leaves all connections to their own tasks, but for those whose answer is lost by it.
    fn end(&self) {
        self.ended.set(true);
        let leave = |(_, member): (usize, &mut Member)| {
            match member.step {
                Step::Reading => member.step = Step::Leaving(Left::Other),
                Step::Waiting(_) | Step::Answering => member.step = Step::Leaving(Left::Over),
                Step::Leaving(_) => {}
            }
            member.task.clone()
        };
        let tasks: Vec<Waker> = self.members.borrow_mut().iter_mut().map(leave).collect();
        tasks.into_iter().for_each(Waker::wake);
    }
}

/// Says that there is no short way on this worker.
pub fn unavailable(error: std::io::Error) {
    tracing::warn!(%error, "plain writes are served like all other requests, which costs more");
}

/// Serves writes as long as all that comes is of the plainest form. Gives the connection with what
/// was read of the first request that is not; `None` at its end.
pub async fn serve(
    short: Option<&Short>,
    connection: &Rc<Connection>,
    stream: Stream,
    mut draining: Pin<&mut Started>,
) -> Option<Stream> {
    let Some(short) = short.filter(|short| !short.ended.get() && stream.can_be_bare()) else {
        return Some(stream);
    };
    let place = Membership::take(short, stream.into_bare().ok()?, Rc::clone(connection))?;
    let left = poll_fn(|cx| place.poll(cx, draining.as_mut())).await;
    let Member { bare, held, .. } = place.leave()?;
    match left {
        Left::Over => None,
        Left::Other => {
            let mut stream = bare.into_stream().ok()?;
            stream.put_back(held);
            Some(stream)
        }
        Left::Unsent { rest, last } => {
            let mut stream = bare.into_stream().ok()?;
            stream.write_all(&rest).await.ok()?;
            if last {
                stream.shutdown().await.ok()?;
                return None;
            }
            Some(stream)
        }
        Left::Panicked(why) => resume_unwind(why),
    }
}

/// A member's place, given back when this goes.
struct Membership<'a> {
    short: &'a Short,
    key: usize,
}

impl<'a> Membership<'a> {
    /// Makes a connection a member; `None` where the system does not let it be.
    fn take(short: &'a Short, bare: Bare, connection: Rc<Connection>) -> Option<Self> {
        let mut members = short.members.borrow_mut();
        let entry = members.vacant_entry();
        let key = entry.key();
        short.set.add(&bare, key as u64).ok()?;
        entry.insert(Member {
            bare,
            connection,
            held: Vec::new(),
            share: None,
            input: Input::Drained,
            step: Step::Reading,
            task: Waker::noop().clone(),
        });
        Some(Self { short, key })
    }

    /// Waits until the connection is to leave.
    fn poll(&self, cx: &mut Context<'_>, draining: Pin<&mut Started>) -> Poll<Left> {
        let mut members = self.short.members.borrow_mut();
        let Some(member) = members.get_mut(self.key) else {
            return Poll::Ready(Left::Over);
        };
        let progress = member.bare.progress();
        if progress.closed().is_some() {
            return Poll::Ready(Left::Over);
        }
        if let Step::Leaving(left) = &mut member.step {
            return Poll::Ready(std::mem::replace(left, Left::Over));
        }
        // Woken when it takes too long, too.
        progress.park(cx.waker());
        member.task.clone_from(cx.waker());
        // A request that has begun is waited for until it takes too long.
        if member.is_idle() && draining.poll(cx).is_ready() {
            return Poll::Ready(Left::Over);
        }
        Poll::Pending
    }

    /// Gives the connection back, in no set.
    fn leave(self) -> Option<Member> {
        let member = self.short.members.borrow_mut().try_remove(self.key)?;
        // Fails where it is not in the set, which is all that is wanted.
        let _ = self.short.set.remove(&member.bare);
        Some(member)
    }
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        let gone = self.short.members.borrow_mut().try_remove(self.key);
        drop(gone);
    }
}

impl Member {
    /// Nothing is under way.
    fn is_idle(&self) -> bool {
        self.input == Input::Drained && self.held.is_empty() && matches!(self.step, Step::Reading)
    }
}
