//! A query polled from a thread that has nothing else to do.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a query until it is done. It wakes nobody; where its flow control holds it up, the thread
/// looks again and again.
pub(super) fn to_end<T>(query: impl Future<Output = T>) -> T {
    let mut query = pin!(query);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match query.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}
