//! Which connections move the most bytes, and which have waited longest for an answer.
//!
//! Each worker's sweep looks at every connection once a second and keeps the first few of both
//! orders; at the end of its round it shows them to whoever asks.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;

use super::slot::Slot;

/// Connections that are shown in each of the two orders.
pub const SHOWN_MAX: usize = 10;

/// A connection, as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientFigures {
    /// The listener's name in metrics, as `postgres`.
    pub gateway: String,
    /// Where it comes from; `unix` over a Unix socket.
    pub address: String,
    /// The user that it has logged in as.
    pub user: Option<String>,
    /// Bytes a second in both directions, in the last second.
    pub bytes_per_second: f64,
    /// For how long it has heard nothing since it asked for something, in seconds.
    pub waiting_seconds: f64,
}

impl ClientFigures {
    fn of(slot: &Slot, look: Look) -> Self {
        let address =
            slot.address().as_ref().map_or_else(|| "unix".to_owned(), ToString::to_string);
        Self {
            gateway: slot.limits().name.clone(),
            address,
            user: slot.user(),
            bytes_per_second: look.rate,
            waiting_seconds: look.waiting,
        }
    }
}

/// What a worker has seen of one connection in this round.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Look {
    /// Bytes a second since the last round.
    pub rate: f64,
    /// Seconds since it asked, without an answer.
    pub waiting: f64,
}

/// The first few connections of all workers, in both orders. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Busiest(Arc<Mutex<Vec<Vec<ClientFigures>>>>);

impl Busiest {
    /// Those of all workers, the most bytes first, then those that only wait, longest first.
    pub fn shown(&self) -> Vec<ClientFigures> {
        let all: Vec<_> = self.workers().iter().flatten().cloned().collect();
        first(all)
    }

    /// What the worker of that number has seen in its last round.
    pub(super) fn put(&self, worker: usize, figures: Vec<ClientFigures>) {
        let mut workers = self.workers();
        if workers.len() <= worker {
            workers.resize_with(worker + 1, Vec::new);
        }
        if let Some(own) = workers.get_mut(worker) {
            *own = figures;
        }
    }

    fn workers(&self) -> parking_lot::MutexGuard<'_, Vec<Vec<ClientFigures>>> {
        self.0.lock()
    }
}

/// The first of both orders, each connection once.
fn first(mut all: Vec<ClientFigures>) -> Vec<ClientFigures> {
    all.sort_by(|a, b| b.bytes_per_second.total_cmp(&a.bytes_per_second));
    let mut rest = all.split_off(all.len().min(SHOWN_MAX));
    rest.sort_by(|a, b| b.waiting_seconds.total_cmp(&a.waiting_seconds));
    rest.truncate(SHOWN_MAX);
    all.retain(|of| of.bytes_per_second > 0.0 || of.waiting_seconds > 0.0);
    rest.retain(|of| of.waiting_seconds > 0.0);
    all.extend(rest);
    all
}

/// One round of a worker over its connections.
#[derive(Default)]
pub(super) struct Round {
    by_bytes: Vec<(f64, Rc<Slot>, Look)>,
    by_waiting: Vec<(f64, Rc<Slot>, Look)>,
}

impl Round {
    pub fn look(&mut self, slot: &Rc<Slot>, now: Instant) {
        let look = slot.look(now);
        offer(&mut self.by_bytes, look.rate, slot, look);
        offer(&mut self.by_waiting, look.waiting, slot, look);
    }

    /// Ends the round: each of the connections that it kept, once.
    pub fn end(&mut self) -> Vec<ClientFigures> {
        let mut kept: Vec<_> = self.by_bytes.drain(..).chain(self.by_waiting.drain(..)).collect();
        kept.sort_by_key(|(_, slot, _)| Rc::as_ptr(slot));
        kept.dedup_by(|(_, a, _), (_, b, _)| Rc::ptr_eq(a, b));
        kept.iter().map(|(_, slot, look)| ClientFigures::of(slot, *look)).collect()
    }
}

/// Keeps the largest ones, in no order.
fn offer(kept: &mut Vec<(f64, Rc<Slot>, Look)>, key: f64, slot: &Rc<Slot>, look: Look) {
    if key <= 0.0 {
        return;
    }
    if kept.len() < SHOWN_MAX {
        return kept.push((key, Rc::clone(slot), look));
    }
    let least = kept.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some(least) = least.filter(|least| least.0 < key) {
        *least = (key, Rc::clone(slot), look);
    }
}

#[cfg(test)]
mod tests {
    use super::{Busiest, ClientFigures, SHOWN_MAX};

    fn client(address: usize, rate: f64, waiting: f64) -> ClientFigures {
        ClientFigures {
            gateway: "test".to_owned(),
            address: address.to_string(),
            user: None,
            bytes_per_second: rate,
            waiting_seconds: waiting,
        }
    }

    #[test]
    fn the_first_of_both_orders_are_shown_once() {
        let busiest = Busiest::default();
        let busy = (0..40).map(|n| client(n, n as f64, 0.0)).collect();
        let waiting = (40..80).map(|n| client(n, 0.0, n as f64)).chain([client(90, 99.0, 99.0)]);
        busiest.put(1, busy);
        busiest.put(0, waiting.collect());
        let shown = busiest.shown();
        let places: Vec<&str> = shown.iter().map(|of| &*of.address).collect();
        assert_eq!(places.len(), 2 * SHOWN_MAX);
        assert_eq!(places[..3], ["90", "39", "38"]);
        assert_eq!(places[SHOWN_MAX..][..2], ["79", "78"]);
        busiest.put(0, Vec::new());
        busiest.put(1, vec![client(1, 0.0, 0.0)]);
        assert_eq!(busiest.shown(), []);
    }
}
