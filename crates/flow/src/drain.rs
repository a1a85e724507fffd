//! Stopping without hanging up on anybody: stop accepting, let what is under way finish.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Tells a part of the program to stop taking new work, and knows when its work is done. Each
/// worker has its own, so that connections never meet on a lock. Clones are the same drain.
#[derive(Clone, Default)]
pub struct Drain(Arc<DrainState>);

#[derive(Default)]
struct DrainState {
    started: AtomicBool,
    held: AtomicUsize,
    /// Told when the last guard goes, and at the start.
    changed: Notify,
    cut: Notify,
    waiting: Mutex<StartWakers>,
    /// What this is a part of.
    whole: Option<Drain>,
    parts: Mutex<Vec<Weak<DrainState>>>,
}

/// The tasks that wait for the start; an index is a task's place for as long as it waits.
#[derive(Default)]
struct StartWakers {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Drain {
    /// A drain that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// A part of this that may be drained by itself: it starts with the whole at the latest, and
    /// what is to be finished before it is, is to be finished before the whole.
    pub fn part(&self) -> Self {
        let part =
            Self(Arc::new(DrainState { whole: Some(self.clone()), ..DrainState::default() }));
        let mut parts = self.parts();
        parts.retain(|of| of.strong_count() > 0);
        parts.push(Arc::downgrade(&part.0));
        drop(parts);
        if self.is_started() {
            part.trigger();
        }
        part
    }

    /// Starts draining: everything that waits in [`started`](Self::started) goes on.
    pub fn trigger(&self) {
        let waiting = {
            let mut waiting = self.waiting();
            self.0.started.store(true, Ordering::Release);
            std::mem::take(&mut waiting.wakers)
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
        self.0.changed.notify_waiters();
        let parts: Vec<_> = self.parts().iter().filter_map(Weak::upgrade).collect();
        parts.into_iter().for_each(|part| Self(part).trigger());
    }

    /// Whether draining has started.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.0.started.load(Ordering::Acquire)
    }

    /// Waits until draining starts. Polling it again and again while other things happen costs a
    /// load and a comparison, so a connection may keep it beside its protocol.
    pub fn started(&self) -> Started {
        Started { drain: self.clone(), place: None, waker: None }
    }

    /// Work that is to be finished before the drain is: hold the guard until it is.
    pub fn guard(&self) -> Guard {
        self.0.held.fetch_add(1, Ordering::Relaxed);
        let of_whole = self.0.whole.as_ref().map(|whole| Box::new(whole.guard()));
        Guard { drain: self.clone(), _of_whole: of_whole }
    }

    /// How many guards there are.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Acquire)
    }

    /// Waits until draining has started and no guard is left.
    pub async fn finished(&self) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if self.is_started() && self.held() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Ends the worker that waits in [`was_cut`](Self::was_cut) with whatever it still holds.
    pub(crate) fn cut(&self) {
        self.0.cut.notify_one();
    }

    /// Waits for [`cut`](Self::cut); one task may do so.
    pub(crate) async fn was_cut(&self) {
        self.0.cut.notified().await;
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Weak<DrainState>>> {
        self.0.parts.lock()
    }

    fn waiting(&self) -> MutexGuard<'_, StartWakers> {
        self.0.waiting.lock()
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("started", &self.is_started())
            .field("held", &self.held())
            .finish()
    }
}

/// Keeps a drain from finishing; see [`Drain::guard`].
#[derive(Debug)]
pub struct Guard {
    drain: Drain,
    /// Goes behind this one.
    _of_whole: Option<Box<Guard>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.drain.0.held.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.drain.0.changed.notify_waiters();
        }
    }
}

/// The future of [`Drain::started`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Started {
    drain: Drain,
    place: Option<usize>,
    /// The waker that was left in `place`.
    waker: Option<Waker>,
}

impl Future for Started {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.drain.is_started() {
            return Poll::Ready(());
        }
        let waker = cx.waker();
        if self.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            return Poll::Pending;
        }
        let place = {
            let mut waiting = self.drain.waiting();
            // Under the lock, since the start takes all wakers under it.
            if self.drain.is_started() {
                return Poll::Ready(());
            }
            waiting.put(self.place, waker.clone())
        };
        self.place = Some(place);
        self.waker = Some(waker.clone());
        Poll::Pending
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.drain.waiting().remove(place);
        }
    }
}

impl StartWakers {
    fn put(&mut self, place: Option<usize>, waker: Waker) -> usize {
        let place = place.or_else(|| self.free.pop());
        if let Some((place, slot)) = place.and_then(|p| Some((p, self.wakers.get_mut(p)?))) {
            *slot = Some(waker);
            return place;
        }
        self.wakers.push(Some(waker));
        self.wakers.len() - 1
    }

    /// Nothing is left to remove once the start has taken all wakers.
    fn remove(&mut self, place: usize) {
        if let Some(slot) = self.wakers.get_mut(place) {
            *slot = None;
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Drain;
    use futures_util::FutureExt as _;
    use std::time::Duration;

    #[tokio::test]
    async fn whoever_waits_hears_the_start() {
        let drain = Drain::new();
        let waiting: Vec<_> = (0..100).map(|_| tokio::spawn(drain.started())).collect();
        tokio::task::yield_now().await;
        assert!(drain.started().now_or_never().is_none());
        drain.trigger();
        for task in waiting {
            tokio::time::timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
        }
        assert!(drain.started().now_or_never().is_some());
    }

    #[tokio::test]
    async fn it_finishes_with_the_last_guard() {
        let drain = Drain::new();
        let guard = drain.guard();
        let finished = tokio::spawn({
            let drain = drain.clone();
            async move { drain.finished().await }
        });
        tokio::task::yield_now().await;
        drain.trigger();
        tokio::task::yield_now().await;
        assert!(!finished.is_finished());
        drop(guard);
        tokio::time::timeout(Duration::from_secs(60), finished).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_part_drains_by_itself_or_with_the_whole_which_waits_for_it() {
        let whole = Drain::new();
        let (first, second) = (whole.part(), whole.part());
        let guard = first.guard();
        assert_eq!((first.held(), second.held(), whole.held()), (1, 0, 1));
        first.trigger();
        assert!(first.is_started() && !second.is_started() && !whole.is_started());
        assert!(first.finished().now_or_never().is_none());
        whole.trigger();
        assert!(second.is_started() && whole.part().is_started());
        assert!(second.finished().now_or_never().is_some());
        assert!(whole.finished().now_or_never().is_none());
        drop(guard);
        assert!(first.finished().now_or_never().is_some());
        assert!(whole.finished().now_or_never().is_some());
    }

    #[tokio::test]
    async fn places_are_used_again() {
        let drain = Drain::new();
        for _ in 0..1000 {
            assert!(drain.started().now_or_never().is_none());
        }
        assert_eq!(drain.waiting().wakers.len(), 1);
    }
}
