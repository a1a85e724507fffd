//! An answer that is made on another thread while its first part is on its way.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use flow::progress::Progress;
use store::query::context::Cancel;
use tokio::sync::mpsc;
use tokio::time::{Interval, interval};

use super::answer::BrokenOff;
use super::unsent::Unsent;

/// How often is looked whether the client is still there.
const LOOK: Duration = Duration::from_millis(200);
/// How long a short answer has to be complete, so that it goes out with its length.
const SHORT: Duration = Duration::from_millis(5);

/// The pieces of an answer as they come; dropping it ends the query.
pub struct Streamed {
    begun: VecDeque<Bytes>,
    pieces: mpsc::UnboundedReceiver<Bytes>,
    unsent: Arc<Unsent>,
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
    /// The whole answer at once.
    Whole(Bytes),
    /// The first of it, and the rest to come.
    Streamed(Streamed),
    /// The client has gone.
    Abandoned,
    /// Nothing, and nobody makes any more.
    Broken,
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
    pub async fn begin(
        mut pieces: mpsc::UnboundedReceiver<Bytes>,
        unsent: Arc<Unsent>,
        mut client: Client,
        whole: bool,
    ) -> Made {
        let first = tokio::select! {
            first = pieces.recv() => first,
            () = client.left() => return Made::Abandoned,
        };
        let Some(first) = first else {
            return if unsent.is_complete() { Made::Whole(Bytes::new()) } else { Made::Broken };
        };
        let mut begun = VecDeque::from([first]);
        if whole && let Ok(next) = tokio::time::timeout(SHORT, pieces.recv()).await {
            begun.extend(next);
            if begun.len() == 1 && unsent.is_complete() {
                return Made::Whole(begun.pop_front().unwrap_or_default());
            }
        }
        Made::Streamed(Self { begun, pieces, unsent, client })
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// Where nobody makes the rest of the answer.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        self.client.progress.serving();
        if let Some(piece) = self.begun.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        let piece = match self.pieces.poll_recv(cx) {
            Poll::Ready(piece) => piece,
            Poll::Pending => {
                ready!(self.client.poll_left(cx));
                None
            }
        };
        let Some(piece) = piece else {
            self.client.progress.idle();
            let end = if self.unsent.is_complete() { None } else { Some(Err(BrokenOff)) };
            return Poll::Ready(end);
        };
        Poll::Ready(Some(Ok(piece)))
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").finish_non_exhaustive()
    }
}

// What it holds is moved freely; nothing of it is pinned.
impl Unpin for Streamed {}
