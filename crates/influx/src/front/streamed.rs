//! An answer that is made on another thread while its first part is on its way.

use std::fmt;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use flow::progress::Progress;
use store::query::context::Cancel;
use tokio::sync::mpsc;
use tokio::time::{Interval, interval};

/// How often is looked whether the client is still there.
const LOOK: Duration = Duration::from_millis(200);
/// How long a short answer has to be complete, so that it goes out with its length.
const SHORT: Duration = Duration::from_millis(5);

/// The pieces of an answer as they come; dropping it ends the query.
pub struct Streamed {
    first: Option<Bytes>,
    pieces: mpsc::Receiver<Bytes>,
    client: Client,
}

/// The one who asked, watched for as long as this lives.
struct Client {
    progress: Progress,
    cancel: Cancel,
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
    fn new(progress: Progress, cancel: Cancel) -> Self {
        progress.watch_client(true);
        Self { progress, cancel, look: interval(LOOK) }
    }

    /// Ready once the client has gone, which also ends the query.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.look.poll_tick(cx));
            if self.progress.client_left() {
                self.cancel.end();
                return Poll::Ready(());
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.cancel.end();
        self.progress.watch_client(false);
    }
}

impl Streamed {
    /// Waits for the beginning of an answer; with `whole` also whether that is all of it already.
    pub async fn begin(
        mut pieces: mpsc::Receiver<Bytes>,
        progress: Progress,
        cancel: Cancel,
        whole: bool,
    ) -> Made {
        let mut client = Client::new(progress, cancel);
        let first = tokio::select! {
            first = pieces.recv() => first,
            () = std::future::poll_fn(|cx| client.poll_left(cx)) => return Made::Abandoned,
        };
        let Some(first) = first else { return Made::Whole(Bytes::new()) };
        if whole && let Ok(next) = tokio::time::timeout(SHORT, pieces.recv()).await {
            let Some(next) = next else { return Made::Whole(first) };
            let both = [first, next].concat();
            return Made::Streamed(Self { first: Some(both.into()), pieces, client });
        }
        Made::Streamed(Self { first: Some(first), pieces, client })
    }

    /// The next piece; `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.client.progress.serving();
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
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

/// Where the thread of a query puts its pieces.
pub fn out(pieces: mpsc::Sender<Bytes>) -> store::query::encode::Out {
    use std::ops::ControlFlow;
    Box::new(move |piece| match pieces.blocking_send(piece) {
        Ok(()) => ControlFlow::Continue(()),
        // Nobody reads on: the client has gone.
        Err(_) => ControlFlow::Break(()),
    })
}
