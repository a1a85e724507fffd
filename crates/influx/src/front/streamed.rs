//! An answer that is made on another thread while its first part is on its way.

use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use flow::memory::{Memory, MemoryShare};
use flow::progress::Progress;
use store::query::context::Cancel;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Interval, interval};

/// How often is looked whether the client is still there.
const LOOK: Duration = Duration::from_millis(200);
/// How long a short answer has to be complete, so that it goes out with its length.
const SHORT: Duration = Duration::from_millis(5);
/// How often is looked whether there is memory again.
const MEMORY_LOOK: Duration = Duration::from_millis(5);

/// The pieces of an answer as they come; dropping it ends the query.
pub struct Streamed {
    begun: VecDeque<Bytes>,
    pieces: mpsc::Receiver<Bytes>,
    client: Client,
}

/// The one who asked, watched for as long as this lives.
pub struct Client {
    progress: Progress,
    /// Ends the query; nothing does where its answer is wanted by nobody.
    cancel: Option<Cancel>,
    look: Interval,
}

/// What a query's thread gave.
pub enum Made {
    /// All of it.
    Whole(Bytes),
    /// The first of it, and the rest to come.
    Streamed(Streamed),
    /// The client has gone.
    Abandoned,
}

impl Client {
    /// Watches the client of a query.
    pub fn new(progress: Progress, cancel: Cancel) -> Self {
        progress.watch_client(true);
        Self { progress, cancel: Some(cancel), look: interval(LOOK) }
    }

    /// Lets the query go on without its client.
    pub fn forget(mut self) {
        self.cancel = None;
    }

    /// Waits until the client has gone, which also ends the query.
    pub async fn left(&mut self) {
        std::future::poll_fn(|cx| self.poll_left(cx)).await;
    }

    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.look.poll_tick(cx));
            if self.progress.client_left() {
                self.end();
                return Poll::Ready(());
            }
        }
    }

    fn end(&self) {
        if let Some(cancel) = &self.cancel {
            cancel.end();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
        self.progress.watch_client(false);
    }
}

impl Streamed {
    /// Waits for the beginning of an answer; with `whole` also whether that is all of it already.
    pub async fn begin(mut pieces: mpsc::Receiver<Bytes>, mut client: Client, whole: bool) -> Made {
        let first = tokio::select! {
            first = pieces.recv() => first,
            () = client.left() => return Made::Abandoned,
        };
        let Some(first) = first else { return Made::Whole(Bytes::new()) };
        let mut begun = VecDeque::from([first]);
        if whole && let Ok(next) = tokio::time::timeout(SHORT, pieces.recv()).await {
            begun.extend(next);
            if begun.len() == 1 {
                return Made::Whole(begun.pop_front().unwrap_or_default());
            }
        }
        Made::Streamed(Self { begun, pieces, client })
    }

    /// The next piece; `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.client.progress.serving();
        if let Some(piece) = self.begun.pop_front() {
            return Poll::Ready(Some(piece));
        }
        let piece = match self.pieces.poll_recv(cx) {
            Poll::Ready(piece) => piece,
            Poll::Pending => {
                ready!(self.client.poll_left(cx));
                None
            }
        };
        if piece.is_none() {
            self.client.progress.idle();
        }
        Poll::Ready(piece)
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").finish_non_exhaustive()
    }
}

// What it holds is moved freely; nothing of it is pinned.
impl Unpin for Streamed {}

/// What an answer holds until the last of it is sent, or its connection is gone.
pub struct Held {
    _turn: OwnedSemaphorePermit,
    _share: MemoryShare,
}

impl Held {
    /// The query's turn, which others have once the client has read, and what the answer may take
    /// of memory in any case.
    pub fn new(turn: OwnedSemaphorePermit, share: MemoryShare) -> Self {
        Self { _turn: turn, _share: share }
    }
}

/// A piece of an answer, wherever it is on its way to the client's socket.
struct Piece {
    bytes: Bytes,
    _share: MemoryShare,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where the thread of a query puts its pieces.
pub fn out(
    pieces: mpsc::Sender<Bytes>,
    memory: Memory,
    held: Held,
    cancel: Cancel,
) -> store::query::encode::Out {
    let held = Arc::new(held);
    Box::new(move |bytes| {
        let Some(share) = share_of(&bytes, &memory, &held, &cancel) else {
            return ControlFlow::Break(());
        };
        let piece = Piece { bytes, _share: share, _held: Arc::clone(&held) };
        match pieces.blocking_send(Bytes::from_owner(piece)) {
            Ok(()) => ControlFlow::Continue(()),
            // Nobody reads on: the client has gone.
            Err(_) => ControlFlow::Break(()),
        }
    })
}

/// Waits for the memory of a piece; `None` where nobody wants it any more. An answer of which
/// nothing is on its way has it at all events: no other frees any for it by being read.
fn share_of(
    bytes: &Bytes,
    memory: &Memory,
    held: &Arc<Held>,
    cancel: &Cancel,
) -> Option<MemoryShare> {
    loop {
        if let Some(share) = memory.take(bytes.len()) {
            return Some(share);
        }
        if Arc::strong_count(held) == 1 {
            return Some(memory.take_at_all_events(bytes.len()));
        }
        if cancel.is_ended() {
            return None;
        }
        // The query's own thread, which is neither a worker's nor a runtime's.
        std::thread::sleep(MEMORY_LOOK);
    }
}
