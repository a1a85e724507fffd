//! A worker's connections, and the sweep over them.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use super::busiest::{Busiest, Round};
use super::slot::Slot;
use super::{Limits, Progress};
use crate::clock::{CoarseClock, TICK};
use crate::scratch::Scratch;

/// A worker's connections. Clones are the same connections.
#[derive(Clone)]
pub struct Connections(Rc<Table>);

struct Table {
    clock: CoarseClock,
    scratch: Scratch,
    slots: RefCell<Slots>,
    round: RefCell<Round>,
    /// Where the worker of that number shows the busiest ones.
    shown: (usize, Busiest),
}

#[derive(Default)]
struct Slots {
    slots: Vec<Option<Rc<Slot>>>,
    free: Vec<usize>,
    /// Where the next part of the sweep begins.
    next: usize,
}

/// Parts in which all connections are looked at.
const PARTS: usize = (1000 / TICK.as_millis()) as usize;

impl Connections {
    pub(crate) fn new(clock: CoarseClock, worker: usize, busiest: Busiest) -> Self {
        let (scratch, slots, round) = (Scratch::new(), RefCell::default(), RefCell::default());
        Self(Rc::new(Table { clock, scratch, slots, round, shown: (worker, busiest) }))
    }

    /// The worker's read buffer.
    pub fn scratch(&self) -> &Scratch {
        &self.0.scratch
    }

    /// Adds a connection, idle as of now, from that address unless it came over a Unix socket.
    pub(crate) fn open(&self, limits: &Rc<Limits>, address: Option<SocketAddr>) -> ConnectionEntry {
        let slot = Rc::new(Slot::new(Rc::clone(limits), self.0.clock.clone(), address));
        let index = self.0.slots.borrow_mut().put(Rc::clone(&slot));
        ConnectionEntry { progress: Progress(slot), table: self.clone(), index }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let slots = self.0.slots.borrow();
        slots.slots.len() - slots.free.len()
    }

    /// Looks at the next part of the connections and closes what takes too long; at the end of a
    /// round shows the busiest.
    pub(crate) fn sweep(&self) {
        let now = self.0.clock.now();
        let (mut at, end) = {
            let mut slots = self.0.slots.borrow_mut();
            let is_over = slots.next >= slots.slots.len();
            let at = if is_over { 0 } else { slots.next };
            let end = slots.slots.len().min(at + slots.slots.len() / PARTS + 1);
            slots.next = end;
            if is_over {
                let (worker, busiest) = &self.0.shown;
                busiest.put(*worker, self.0.round.borrow_mut().end());
            }
            (at, end)
        };
        while at < end {
            // Not borrowed while waking: a waker may drop a task, and with it a connection.
            let slot = self.0.slots.borrow().slots.get(at).and_then(Clone::clone);
            if let Some(slot) = slot {
                slot.check(now);
                self.0.round.borrow_mut().look(&slot, now);
            }
            at += 1;
        }
    }
}

impl Slots {
    fn put(&mut self, slot: Rc<Slot>) -> usize {
        let free = self.free.pop();
        if let Some((index, place)) = free.and_then(|i| Some((i, self.slots.get_mut(i)?))) {
            *place = Some(slot);
            return index;
        }
        self.slots.push(Some(slot));
        self.slots.len() - 1
    }
}

/// A connection's place among [`Connections`], given back when this goes.
pub(crate) struct ConnectionEntry {
    pub(crate) progress: Progress,
    table: Connections,
    index: usize,
}

impl ConnectionEntry {
    pub(crate) fn connections(&self) -> &Connections {
        &self.table
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        let mut slots = self.table.0.slots.borrow_mut();
        if let Some(slot) = slots.slots.get_mut(self.index) {
            *slot = None;
            slots.free.push(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Busiest, Connections, PARTS};
    use crate::clock::CoarseClock;
    use crate::progress::{Limits, Slow, Timeouts};
    use std::rc::Rc;
    use std::time::Duration;
    use watch::metrics::Registry;

    #[test]
    fn a_second_of_ticks_sees_every_connection_once() {
        let clock = CoarseClock::new();
        let registry = Registry::new();
        let timeouts = Timeouts { idle: units::Duration::from_secs(300), ..Timeouts::default() };
        let limits = Rc::new(Limits::new("test", &timeouts, &registry));
        let connections = Connections::new(clock.clone(), 0, Busiest::default());
        for count in [0, 1, 7, PARTS, 1003] {
            let opened: Vec<_> = (0..count).map(|_| connections.open(&limits, None)).collect();
            assert_eq!(connections.count(), count);
            clock.set(clock.now() + Duration::from_secs(301));
            (0..PARTS + 1).for_each(|_| connections.sweep());
            for opened in &opened {
                assert_eq!(opened.progress.closed(), Some(Slow::Idle));
            }
        }
        assert_eq!(connections.count(), 0);
        let closed = format!("phase=\"idle\"}} {}", 1 + 7 + PARTS + 1003);
        assert!(registry.render().contains(&closed));
    }

    #[test]
    fn a_round_shows_who_is_busy() {
        let (clock, busiest) = (CoarseClock::new(), Busiest::default());
        let connections = Connections::new(clock.clone(), 3, busiest.clone());
        let registry = Registry::new();
        let limits = Limits::new("test", &Timeouts::default(), &registry);
        let limits = Rc::new(limits);
        let from = ([127, 0, 0, 1], 5).into();
        let (busy, _idle) =
            (connections.open(&limits, Some(from)), connections.open(&limits, None));
        busy.progress.read(1000);
        busy.progress.set_user(Some("ada"));
        clock.set(clock.now() + Duration::from_secs(2));
        (0..PARTS + 1).for_each(|_| connections.sweep());
        let shown = busiest.shown();
        let [client] = &*shown else { panic!("{shown:?}") };
        assert_eq!((&*client.gateway, &*client.address), ("test", "127.0.0.1:5"));
        assert_eq!((client.user.as_deref(), client.bytes_per_second), (Some("ada"), 500.0));
        assert_eq!(client.waiting_seconds, 2.0);
        busy.progress.answered(7);
        drop((busy, _idle, busiest, connections));
        let text = registry.render();
        for line in
            ["direction=\"in\",listener=\"test\"} 1000", "direction=\"out\",listener=\"test\"} 7"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn places_are_used_again() {
        let connections = Connections::new(CoarseClock::new(), 0, Busiest::default());
        let limits = Limits::new("test", &Timeouts::default(), &Registry::new());
        let limits = Rc::new(limits);
        let _stays = connections.open(&limits, None);
        for _ in 0..100 {
            drop(connections.open(&limits, None));
        }
        assert_eq!(connections.0.slots.borrow().slots.len(), 2);
    }
}
