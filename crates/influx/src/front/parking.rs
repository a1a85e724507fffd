//! Answers that their clients do not read. They are few enough, and hold little enough, that
//! whoever does not read takes nothing from those who do.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use watch::metrics::{Counter, Registry};

use crate::embedded::Network;

/// How much there may be of answers that are not read.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many there may be.
    pub count: usize,
    /// Bytes of memory that they may take until they are sent. One of them may take more.
    pub answer_bytes: usize,
    /// Bytes that their queries hold of what they have read. One of them may hold more; 0 is
    /// without limit.
    pub query_bytes: usize,
}

/// What one answer that is not read holds.
#[derive(Clone, Debug)]
pub struct Parked {
    /// The network that the client connects from.
    pub from: Network,
    /// Notified when the client's connection is to be closed.
    pub hang_up: Arc<Notify>,
    /// Bytes of memory that it takes until it is sent.
    pub answer_bytes: usize,
    /// Bytes that its query holds.
    pub query_bytes: usize,
}

/// All answers that are not read.
#[derive(Debug)]
pub struct Parking {
    lot: Mutex<Lot>,
    parked: Counter,
    ended: Counter,
}

#[derive(Debug, Default)]
struct Lot {
    next: u64,
    /// In the order in which they were parked.
    parked: BTreeMap<u64, Parked>,
}

/// An answer's place among those that are not read, until this goes.
#[derive(Debug)]
pub struct Spot {
    parking: Arc<Parking>,
    number: u64,
}

impl Parking {
    /// With nothing in it, and its metrics.
    pub fn new(registry: &Registry) -> Arc<Self> {
        let parking = Arc::new(Self {
            lot: Mutex::default(),
            parked: registry.counter(
                "weir_influx_answers_parked_total",
                "Answers whose client was seen to read nothing for 100 ms.",
                &[],
            ),
            ended: registry.counter(
                "weir_influx_answers_ended_unread_total",
                "Answers that were ended because too many, or too large ones, were not read.",
                &[],
            ),
        });
        let shown = Arc::clone(&parking);
        registry.collect(move |encoder| {
            encoder.gauge(
                "weir_influx_answers_parked",
                "Answers that wait for a client that does not read; their queries have no turn.",
                &[],
                shown.lock().parked.len() as u64,
            );
        });
        parking
    }

    fn lock(&self) -> MutexGuard<'_, Lot> {
        self.lot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer. Past the bounds connections are closed: of the network that has most of what
    /// there is too much of, those that have waited for longest.
    pub fn park(self: &Arc<Self>, parked: Parked, bounds: Bounds) -> Spot {
        self.parked.inc();
        let mut lot = self.lock();
        lot.next += 1;
        let number = lot.next;
        lot.parked.insert(number, parked);
        while let Some(ended) = lot.surplus(bounds).and_then(|number| lot.parked.remove(&number)) {
            self.ended.inc();
            tracing::debug!(from = ?ended.from, "an answer is not read, and there are too many");
            ended.hang_up.notify_one();
        }
        Spot { parking: Arc::clone(self), number }
    }
}

impl Lot {
    /// Which one is to end, as long as there is too much.
    fn surplus(&self, bounds: Bounds) -> Option<u64> {
        let several = self.parked.len() > 1;
        let sum = |of: fn(&Parked) -> usize| self.parked.values().map(of).sum::<usize>();
        let (answers, queries) = (|of: &Parked| of.answer_bytes, |of: &Parked| of.query_bytes);
        if self.parked.len() > bounds.count {
            self.first_of_most(|_| 1)
        } else if several && sum(answers) > bounds.answer_bytes {
            self.first_of_most(answers)
        } else if several && bounds.query_bytes > 0 && sum(queries) > bounds.query_bytes {
            self.first_of_most(queries)
        } else {
            None
        }
    }

    /// The first one, among those that have any, of the network that has most.
    fn first_of_most(&self, of: impl Fn(&Parked) -> usize) -> Option<u64> {
        let mut sums: HashMap<Network, usize> = HashMap::new();
        for parked in self.parked.values() {
            *sums.entry(parked.from).or_default() += of(parked);
        }
        let (most, _) = sums.into_iter().max_by_key(|(from, sum)| (*sum, *from))?;
        let mut has = self.parked.iter().filter(|(_, parked)| parked.from == most);
        has.find(|(_, parked)| of(parked) > 0).map(|(number, _)| *number)
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        self.parking.lock().parked.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const BOUNDS: Bounds = Bounds { count: 4, answer_bytes: 1000, query_bytes: 500 };

    struct Client {
        spot: Spot,
        hang_up: Arc<Notify>,
    }

    fn park(parking: &Arc<Parking>, last: u8, answer_bytes: usize, query_bytes: usize) -> Client {
        let from = Network::of(IpAddr::from([192, 0, 2, last]));
        let hang_up = Arc::new(Notify::new());
        let parked = Parked { from, hang_up: Arc::clone(&hang_up), answer_bytes, query_bytes };
        Client { spot: parking.park(parked, BOUNDS), hang_up }
    }

    fn is_ended(client: &Client) -> bool {
        let notified = std::pin::pin!(client.hang_up.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let ended = notified.poll(&mut context).is_ready();
        assert!(ended != client.spot.parking.lock().parked.contains_key(&client.spot.number));
        ended
    }

    #[test]
    fn who_has_most_of_them_loses_the_one_that_waits_for_longest() {
        let parking = Parking::new(&Registry::new());
        let lone = park(&parking, 1, 10, 0);
        let crowd: Vec<Client> = (0..5).map(|_| park(&parking, 2, 10, 0)).collect();
        assert!(!is_ended(&lone));
        let ended: Vec<bool> = crowd.iter().map(is_ended).collect();
        assert_eq!(ended, [true, true, false, false, false]);
        drop(crowd);
        assert_eq!(parking.lock().parked.len(), 1);
        let more: Vec<Client> = (3..6).map(|last| park(&parking, last, 10, 0)).collect();
        assert!(!is_ended(&lone) && !more.iter().any(is_ended));
    }

    #[test]
    fn what_they_hold_is_bounded_but_one_may_hold_what_it_likes() {
        let parking = Parking::new(&Registry::new());
        let large = park(&parking, 1, 5000, 5000);
        assert!(!is_ended(&large));
        let small = park(&parking, 2, 10, 10);
        assert!(is_ended(&large) && !is_ended(&small));
        let queries = [park(&parking, 3, 0, 300), park(&parking, 3, 0, 150)];
        assert!(!queries.iter().any(is_ended));
        let other = park(&parking, 4, 0, 60);
        assert!(is_ended(&queries[0]) && !is_ended(&queries[1]));
        assert!(!is_ended(&other) && !is_ended(&small));
    }
}
