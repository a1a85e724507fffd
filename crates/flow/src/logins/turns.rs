//! Places for work that takes the processor's time, fewer than there are clients.
//!
//! Whoever came last is next: behind a crowd of strangers a user waits for one of them, not for
//! all. Those that have waited longest give up by the time limit of the login.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// At so many who wait it is looked for those who have given up.
const LOOKED_AT: usize = 64;

/// Those who wait, the last one first.
#[derive(Debug, Default)]
pub struct WaitList<T>(Vec<oneshot::Sender<T>>);

impl<T> WaitList<T> {
    /// Adds one who waits.
    pub fn join(&mut self) -> oneshot::Receiver<T> {
        if self.0.len() >= LOOKED_AT && self.0.len() == self.0.capacity() {
            self.0.retain(|sender| !sender.is_closed());
        }
        let (sender, receiver) = oneshot::channel();
        self.0.push(sender);
        receiver
    }

    /// Gives it to whoever came last and still waits; back, where nobody does.
    pub fn give(&mut self, mut what: T) -> Option<T> {
        while let Some(sender) = self.0.pop() {
            match sender.send(what) {
                Ok(()) => return None,
                Err(back) => what = back,
            }
        }
        Some(what)
    }

    /// Whether nobody waits; those who gave up may still count.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A fixed number of places for work that may not be done by more at once.
#[derive(Debug)]
pub struct Turns(Mutex<Free>);

#[derive(Debug)]
struct Free {
    places: usize,
    waiting: WaitList<Turn>,
}

/// A place, until it goes.
#[derive(Debug)]
pub struct Turn(Option<Arc<Turns>>);

impl Turns {
    /// So many may have a turn at once.
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Free { places, waiting: WaitList(Vec::new()) })))
    }

    /// Waits for a place.
    pub async fn turn(self: &Arc<Self>) -> Turn {
        loop {
            let waiting = {
                let mut free = self.0.lock();
                if let Some(left) = free.places.checked_sub(1) {
                    free.places = left;
                    return Turn(Some(self.clone()));
                }
                free.waiting.join()
            };
            // Nobody drops a sender but for those who have given up.
            if let Ok(turn) = waiting.await {
                return turn;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let mut free = turns.0.lock();
        if let Some(mut back) = free.waiting.give(Turn(Some(turns.clone()))) {
            // It is not a place any more, so nothing comes of its end.
            back.0 = None;
            free.places += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn whoever_came_last_is_next_and_those_who_gave_up_are_passed_over() {
        let turns = Turns::new(1);
        let held = turns.turn().await;
        let mut early = Box::pin(turns.turn());
        let mut late = Box::pin(turns.turn());
        let mut gone = Box::pin(turns.turn());
        assert!(futures_poll(&mut early).is_pending());
        assert!(futures_poll(&mut late).is_pending());
        assert!(futures_poll(&mut gone).is_pending());
        drop(gone);
        drop(held);
        let Poll::Ready(second) = futures_poll(&mut late) else { panic!("its turn has come") };
        assert!(futures_poll(&mut early).is_pending());
        drop(second);
        assert!(futures_poll(&mut early).is_ready());
        drop(early);
        // The place is there again for whoever comes.
        assert!(futures_poll(&mut Box::pin(turns.turn())).is_ready());
    }

    #[tokio::test]
    async fn those_who_gave_up_are_not_kept() {
        let turns = Turns::new(1);
        let _held = turns.turn().await;
        for _ in 0..10_000 {
            let mut waiting = Box::pin(turns.turn());
            assert!(futures_poll(&mut waiting).is_pending());
        }
        assert!(turns.0.lock().waiting.0.len() <= 2 * LOOKED_AT);
    }

    fn futures_poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(future).poll(&mut cx)
    }
}
