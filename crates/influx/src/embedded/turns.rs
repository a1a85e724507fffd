//! Turns of queries: so many are worked on at once, and clients share them.
//!
//! The next turn goes to the network that has the fewest, of its queries to the one that came
//! first. A network that is alone has as many turns as there are; once others wait, its queries
//! give turns back behind a piece of their answers.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Where clients come from. Whoever has one address of IPv6 mostly has all of its /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network(IpAddr);

impl Network {
    /// The network of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
            }
            address => address,
        })
    }
}

/// A query's place in the order in which queries came. It keeps it while it has no turn.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    place: u64,
    from: Network,
}

/// The turns of all queries.
#[derive(Debug)]
pub struct Turns(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    free: usize,
    next: u64,
    /// Turns of each network that has any.
    taken: HashMap<Network, usize>,
    /// Who waits, in the order of arrival.
    waiting: BTreeMap<u64, TurnWaiter>,
}

#[derive(Debug)]
struct TurnWaiter {
    from: Network,
    turn: oneshot::Sender<Turn>,
}

/// A turn, given back when this goes.
#[derive(Debug)]
#[must_use = "the turn is given back when this goes"]
pub struct Turn {
    turns: Arc<Turns>,
    from: Network,
}

impl Turns {
    /// Gives out at most `count` turns at once.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Queue {
            free: count,
            next: 0,
            taken: HashMap::new(),
            waiting: BTreeMap::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a query that comes now.
    pub fn arrive(&self, from: Network) -> Arrival {
        let mut queue = self.lock();
        queue.next += 1;
        Arrival { place: queue.next, from }
    }

    /// Waits for a turn.
    pub async fn take(self: &Arc<Self>, arrival: Arrival) -> Turn {
        let Arrival { place, from } = arrival;
        loop {
            let (turn, granted) = oneshot::channel();
            self.lock().waiting.insert(place, TurnWaiter { from, turn });
            let _leaving = Leaving { turns: self, place };
            self.grant();
            if let Ok(turn) = granted.await {
                return turn;
            }
        }
    }

    /// Whether a query's network has so many turns that one of them is due to another that waits.
    pub fn is_due_to_another(&self, arrival: Arrival) -> bool {
        let queue = self.lock();
        let taken = |from: &Network| queue.taken.get(from).copied().unwrap_or_default();
        let own = taken(&arrival.from);
        let another = |waiting: &TurnWaiter| taken(&waiting.from) + 1 < own;
        queue.waiting.values().any(another)
    }

    /// Gives free turns to those who wait.
    fn grant(self: &Arc<Self>) {
        let mut granted = Vec::new();
        let mut queue = self.lock();
        while queue.free > 0 {
            let Some(TurnWaiter { from, turn }) = queue.pop() else { break };
            queue.free -= 1;
            *queue.taken.entry(from).or_default() += 1;
            granted.push((from, turn));
        }
        drop(queue);
        for (from, turn) in granted {
            // One that nobody waits for any more comes back when it is dropped.
            let _ = turn.send(Turn { turns: Arc::clone(self), from });
        }
    }
}

impl Queue {
    /// Takes out who is next.
    fn pop(&mut self) -> Option<TurnWaiter> {
        let taken =
            |waiting: &TurnWaiter| self.taken.get(&waiting.from).copied().unwrap_or_default();
        let next = self.waiting.iter().min_by_key(|(place, waiting)| (taken(waiting), **place));
        let place = *next?.0;
        self.waiting.remove(&place)
    }
}

/// Takes one who waits out of the queue, unless that was done.
struct Leaving<'a> {
    turns: &'a Turns,
    place: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.turns.lock().waiting.remove(&self.place);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.turns.lock();
        queue.free += 1;
        if let Some(taken) = queue.taken.get_mut(&self.from) {
            *taken -= 1;
            if *taken == 0 {
                queue.taken.remove(&self.from);
            }
        }
        drop(queue);
        self.turns.grant();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    fn network(last: u8) -> Network {
        Network::of(IpAddr::from([192, 0, 2, last]))
    }

    /// One who asks for a turn, and has it once `turn` says so.
    struct Asking(std::pin::Pin<Box<dyn Future<Output = Turn>>>);

    impl Asking {
        fn again(turns: &Arc<Turns>, arrival: Arrival) -> Self {
            let turns = Arc::clone(turns);
            Self(Box::pin(async move { turns.take(arrival).await }))
        }

        fn turn_now(&mut self) -> Option<Turn> {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match self.0.as_mut().poll(&mut context) {
                Poll::Ready(turn) => Some(turn),
                Poll::Pending => None,
            }
        }
    }

    fn taken(turns: &Arc<Turns>, last: u8) -> (Arrival, Turn) {
        let arrival = turns.arrive(network(last));
        let turn = Asking::again(turns, arrival).turn_now().expect("there is a turn");
        (arrival, turn)
    }

    #[test]
    fn a_network_that_is_alone_has_all_turns_and_shares_them_once_others_wait() {
        let turns = Turns::new(4);
        let mut own: Vec<_> = (0..4).map(|_| taken(&turns, 1)).collect();
        assert!(own.iter().all(|(arrival, _)| !turns.is_due_to_another(*arrival)));
        let mut more = Asking::again(&turns, turns.arrive(network(1)));
        assert!(more.turn_now().is_none());
        assert!(!turns.is_due_to_another(own[0].0), "its own wait as long as it likes");
        let mut others: Vec<Asking> =
            (0..3).map(|_| Asking::again(&turns, turns.arrive(network(2)))).collect();
        assert!(others.iter_mut().all(|other| other.turn_now().is_none()));
        for had in [4, 3] {
            assert!(turns.is_due_to_another(own[0].0), "{had} of 4");
            drop(own.pop());
            let turn = others.remove(0).turn_now().expect("the other's turn");
            std::mem::forget(turn);
        }
        assert!(!turns.is_due_to_another(own[0].0), "two each");
        drop(own);
        assert!(more.turn_now().is_some());
    }

    #[test]
    fn of_one_network_who_came_first_is_next_also_where_it_had_a_turn_before() {
        let turns = Turns::new(1);
        let (first, turn) = taken(&turns, 1);
        let mut second = Asking::again(&turns, turns.arrive(network(1)));
        assert!(second.turn_now().is_none());
        let mut again = Asking::again(&turns, first);
        assert!(again.turn_now().is_none());
        drop(turn);
        let turn = again.turn_now().expect("the first is next");
        assert!(second.turn_now().is_none());
        drop(turn);
        assert!(second.turn_now().is_some());
    }

    #[test]
    fn a_turn_of_one_who_no_longer_waits_goes_to_the_next() {
        let turns = Turns::new(1);
        let (_, turn) = taken(&turns, 1);
        let mut gone = Asking::again(&turns, turns.arrive(network(2)));
        let mut next = Asking::again(&turns, turns.arrive(network(2)));
        assert!(gone.turn_now().is_none() && next.turn_now().is_none());
        drop(turn);
        // It was given the turn and goes without having looked.
        drop(gone);
        let turn = next.turn_now().expect("the next one's turn");
        let mut left = Asking::again(&turns, turns.arrive(network(3)));
        assert!(left.turn_now().is_none());
        drop(left);
        drop(turn);
        assert!(turns.lock().waiting.is_empty());
        assert_eq!(turns.lock().free, 1);
        assert!(turns.lock().taken.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), network(1));
        assert_ne!(network(1), network(2));
    }
}
