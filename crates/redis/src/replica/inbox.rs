//! What a master sent and the disk has not taken yet: bounded, and never waited for by a lock that
//! is held while the disk works.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use super::answers::Lineage;
use super::directory::NextGeneration;
use super::lines::Id;
use super::manifest::BaseSum;

/// Pieces are joined up to so many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// What the disk's thread is told to do, in this order.
#[derive(Debug)]
pub enum Order {
    /// A new base comes.
    Base(BaseHead),
    /// The base's next bytes.
    BaseBytes(Vec<u8>),
    /// The base is whole.
    BaseEnd,
    /// The rest of a base does not come.
    BaseLost,
    /// The history has this id from here on.
    Renamed(Id),
    /// The stream's next bytes.
    Stream(Vec<u8>),
    /// A base of this history at this offset comes beside the stream: the increments are to be
    /// parted there, or it is said why not.
    Part(Id, u64, Answer<NextGeneration>),
    /// That base is whole, and takes the current one's place.
    Rewrite(NextGeneration, BaseSum, Answer<()>),
    /// That base does not come.
    GiveUp(Option<NextGeneration>),
    /// The time may have come to remove older generations.
    Prune,
    /// A file of the current generation is damaged, for this reason.
    Damaged(String, String),
    /// The current manifest was removed or damaged while it was in use.
    RestoreManifest,
    /// A base of an older version was read, and is this.
    Summed(String, BaseSum),
}

/// What is known of a base before it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseHead {
    /// Whose history it is.
    pub id: Id,
    /// The stream's offset of it.
    pub offset: u64,
    /// How many keys the master has, where that is known.
    pub keys: Option<u64>,
    /// What it is to what was confirmed.
    pub lineage: Lineage,
}

/// Where the disk's thread answers, in words where it refuses.
pub type Answer<T> = oneshot::Sender<Result<T, String>>;

impl Order {
    fn len(&self) -> usize {
        match self {
            Self::BaseBytes(bytes) | Self::Stream(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// Between the link and the disk's thread of one master.
#[derive(Debug)]
pub struct Inbox {
    queue: Mutex<InboxQueue>,
    filled: Condvar,
    /// There may be room again, or it was closed.
    freed: Notify,
    max: usize,
}

#[derive(Debug, Default)]
struct InboxQueue {
    orders: VecDeque<Order>,
    bytes: usize,
    closed: bool,
}

impl Inbox {
    /// Room for about so many bytes.
    pub fn new(max: usize) -> Self {
        Self { queue: Mutex::default(), filled: Condvar::new(), freed: Notify::new(), max }
    }

    fn queue(&self) -> MutexGuard<'_, InboxQueue> {
        self.queue.lock()
    }

    /// Puts an order behind the others. The caller has asked for room before.
    pub fn push(&self, order: Order) {
        let mut queue = self.queue();
        queue.bytes += order.len();
        let rest = match (queue.orders.back_mut(), order) {
            (Some(Order::Stream(last)), Order::Stream(more))
            | (Some(Order::BaseBytes(last)), Order::BaseBytes(more))
                if last.len() + more.len() <= PIECE_BYTES =>
            {
                last.extend_from_slice(&more);
                None
            }
            (_, order) => Some(order),
        };
        queue.orders.extend(rest);
        drop(queue);
        self.filled.notify_one();
    }

    /// Whether more may be read from the master.
    pub fn has_room(&self) -> bool {
        self.queue().bytes < self.max
    }

    /// Waits until there may be room, or it was closed.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// How many bytes wait.
    pub fn bytes(&self) -> usize {
        self.queue().bytes
    }

    /// Takes all that waits, once there is something; `None` when it was closed and is empty. What
    /// is taken makes room for more only when the disk has it: see [`Inbox::done`].
    pub fn take(&self) -> Option<(VecDeque<Order>, usize)> {
        let mut queue = self.queue();
        while queue.orders.is_empty() && !queue.closed {
            self.filled.wait(&mut queue);
        }
        let orders = std::mem::take(&mut queue.orders);
        let bytes = orders.iter().map(Order::len).sum();
        (!orders.is_empty()).then_some((orders, bytes))
    }

    /// The disk has so many bytes of what was taken.
    pub fn done(&self, bytes: usize) {
        let mut queue = self.queue();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        drop(queue);
        self.freed.notify_one();
    }

    /// Takes no more; what waits is still taken.
    pub fn close(&self) {
        self.queue().closed = true;
        self.filled.notify_one();
        self.freed.notify_one();
    }

    /// Closes it when what is given goes, also by a panic.
    pub fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.queue().closed
    }
}

/// Closes an inbox when it goes.
#[derive(Debug)]
pub struct Closing<'a>(&'a Inbox);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::{Inbox, Order};

    #[test]
    fn pieces_are_joined_and_counted_until_the_disk_has_them() {
        let inbox = Inbox::new(5);
        inbox.push(Order::Stream(b"abc".to_vec()));
        inbox.push(Order::Stream(b"de".to_vec()));
        inbox.push(Order::BaseEnd);
        assert!(!inbox.has_room());
        let (orders, bytes) = inbox.take().unwrap();
        assert_eq!((orders.len(), bytes), (2, 5));
        assert!(matches!(&orders[0], Order::Stream(bytes) if bytes == b"abcde"));
        assert!(!inbox.has_room(), "the disk does not have it yet");
        inbox.done(bytes);
        assert!(inbox.has_room());
        inbox.close();
        assert!(inbox.take().is_none() && inbox.is_closed());
    }

    #[test]
    fn a_writer_that_panics_closes_it() {
        let inbox = Inbox::new(5);
        let died = std::thread::scope(|scope| {
            let of_writer = || {
                let _closing = inbox.closing();
                panic!("a fault");
            };
            scope.spawn(of_writer).join()
        });
        assert!(died.is_err() && inbox.is_closed());
    }
}
