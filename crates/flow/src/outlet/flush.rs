//! The task that writes what a client's socket did not take at once.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::{Client, Outlet};

/// Writes a client's spill and ends with it.
pub(super) struct Flusher(pub(super) Rc<Client>);

impl Future for Flusher {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let client = &self.0;
        let done = client.flush(cx);
        let closed = client.closed.get() || client.progress.closed().is_some();
        match done {
            Poll::Pending if !closed => Poll::Pending,
            Poll::Ready(true) if !closed => Poll::Ready(()),
            _ => {
                Outlet(Rc::clone(client)).close();
                Poll::Ready(())
            }
        }
    }
}

impl Client {
    /// Writes until all is written or the socket takes no more; false when the connection is
    /// gone.
    fn flush(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut place = self.spill.borrow_mut();
        let mut stream = self.stream.borrow_mut();
        let Some(spill) = &mut *place else { return Poll::Ready(true) };
        loop {
            let polled = if spill.waiting.is_empty() {
                stream.poll_pass_on(cx).map_ok(|()| 0)
            } else {
                stream.poll_send(cx, spill.waiting.waiting())
            };
            match polled {
                Poll::Pending => {
                    self.progress.blocked();
                    spill.flusher = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) if !spill.waiting.is_empty() => return Poll::Ready(false),
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Ready(Ok(n)) => {
                    self.progress.wrote();
                    let done = spill.waiting.is_empty();
                    spill.waiting.take(n, 0);
                    let left = spill.waiting.len();
                    // Those who wait for nothing are woken when TLS keeps nothing either.
                    for (_, waker) in
                        spill.drained.extract_if(.., |(below, _)| left <= *below && *below > 0)
                    {
                        waker.wake();
                    }
                    if done {
                        break;
                    }
                }
            }
        }
        let all = place.take();
        drop((place, stream));
        let waiting = all.into_iter().flat_map(|spill| spill.drained);
        waiting.map(|(_, waker)| waker).for_each(Waker::wake);
        Poll::Ready(true)
    }
}
