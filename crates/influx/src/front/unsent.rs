//! What of an answer is made and not on the wire yet.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flow::memory::{Memory, MemoryShare};
use store::query::encode;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// So much is made before a query is held up. With one more piece it is less than 1 MiB.
const AHEAD_BYTES: usize = 256 << 10;
/// So little is left when it goes on.
const GO_ON_BYTES: usize = AHEAD_BYTES / 2;
/// How long a client may read nothing before its answer is parked.
pub const UNREAD: Duration = Duration::from_millis(100);

/// Where the pieces of an answer are counted until they are sent, or their connection is gone.
#[derive(Debug)]
pub struct Unsent {
    bytes: AtomicUsize,
    memory: Memory,
    /// What the answer may take in any case, until it is made.
    reserved: Mutex<Option<MemoryShare>>,
    /// Whether all of the answer is made.
    complete: AtomicBool,
    /// Told of each piece that is sent.
    sent: Notify,
    /// Told of the first piece that is unsent, and of the end.
    changed: Notify,
}

/// A piece of an answer, wherever it is on its way to the client's socket.
struct Piece {
    bytes: Bytes,
    _share: MemoryShare,
    of: Arc<Unsent>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes.len(), Ordering::AcqRel);
        self.of.sent.notify_one();
    }
}

impl Unsent {
    /// Of an answer for which memory was reserved.
    pub fn new(reserved: MemoryShare, memory: Memory) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicUsize::new(0),
            memory,
            reserved: Mutex::new(Some(reserved)),
            complete: AtomicBool::new(false),
            sent: Notify::new(),
            changed: Notify::new(),
        })
    }

    /// Bytes that are made and not sent.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Bytes of memory that the answer has taken.
    pub fn held(&self) -> usize {
        let reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        self.bytes() + reserved.as_ref().map_or(0, MemoryShare::bytes)
    }

    /// All of the answer is made.
    pub fn set_complete(&self) {
        self.complete.store(true, Ordering::Release);
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.changed.notify_one();
    }

    /// Whether all of the answer is made; else nobody makes the rest of it.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// A piece that counts until it is sent. It exists, so that its memory is never refused; what
    /// is refused is the next one.
    pub fn piece(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if self.bytes.fetch_add(bytes.len(), Ordering::AcqRel) == 0 {
            self.changed.notify_one();
        }
        let share = self.memory.take_at_all_events(bytes.len());
        Bytes::from_owner(Piece { bytes, _share: share, of: Arc::clone(self) })
    }

    /// Whether the next piece may be made. An answer of which nothing is on its way may go on at
    /// all events: no other frees any memory for it by being read.
    pub fn has_room(&self) -> bool {
        self.is_below(AHEAD_BYTES)
    }

    fn is_below(&self, bytes: usize) -> bool {
        match self.bytes() {
            0 => true,
            unsent => unsent < bytes && self.memory.take(0).is_some(),
        }
    }

    /// Waits until the client has read most of what is made.
    pub async fn room(&self) {
        while !self.is_below(GO_ON_BYTES) {
            self.sent.notified().await;
        }
    }

    /// Waits until there is something unsent, or all of the answer is made.
    pub async fn coming(&self) {
        while self.bytes() == 0 && !self.is_complete() {
            self.changed.notified().await;
        }
    }

    /// Waits until the client reads.
    pub async fn read(&self) {
        let before = self.bytes();
        while before > 0 && self.bytes() >= before {
            self.sent.notified().await;
        }
    }

    /// Waits until the client has read nothing for a while; at once where nothing is unsent, in
    /// which case it gives false.
    pub async fn unread(&self) -> bool {
        loop {
            if self.bytes() == 0 {
                return false;
            }
            if timeout(UNREAD, self.sent.notified()).await.is_err() && self.bytes() > 0 {
                return true;
            }
        }
    }
}

/// Where a query puts the pieces of its answer.
pub fn out(pieces: mpsc::UnboundedSender<Bytes>, unsent: Arc<Unsent>) -> encode::Out {
    Box::new(move |bytes| match pieces.send(unsent.piece(bytes)) {
        Ok(()) => ControlFlow::Continue(()),
        // Nobody reads on: the client has gone.
        Err(_) => ControlFlow::Break(()),
    })
}
