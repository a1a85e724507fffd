//! A worker's connections, and the sweep over them.

use std::cell::RefCell;
use std::rc::Rc;

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
    pub(crate) fn new(clock: CoarseClock) -> Self {
        Self(Rc::new(Table { clock, scratch: Scratch::new(), slots: RefCell::default() }))
    }

    /// The worker's read buffer.
    pub fn scratch(&self) -> &Scratch {
        &self.0.scratch
    }

    /// Adds a connection, idle as of now.
    pub(crate) fn open(&self, limits: &Rc<Limits>) -> Opened {
        let slot = Rc::new(Slot::new(Rc::clone(limits), self.0.clock.clone()));
        let index = self.0.slots.borrow_mut().put(Rc::clone(&slot));
        Opened { progress: Progress(slot), table: self.clone(), index }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let slots = self.0.slots.borrow();
        slots.slots.len() - slots.free.len()
    }

    /// Looks at the next part of the connections and closes what takes too long.
    pub(crate) fn sweep(&self) {
        let now = self.0.clock.now();
        let (mut at, end) = {
            let mut slots = self.0.slots.borrow_mut();
            let at = if slots.next < slots.slots.len() { slots.next } else { 0 };
            let end = slots.slots.len().min(at + slots.slots.len() / PARTS + 1);
            slots.next = end;
            (at, end)
        };
        while at < end {
            // Not borrowed while waking: a waker may drop a task, and with it a connection.
            let slot = self.0.slots.borrow().slots.get(at).and_then(Clone::clone);
            if let Some(slot) = slot {
                slot.check(now);
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
pub(crate) struct Opened {
    pub(crate) progress: Progress,
    table: Connections,
    index: usize,
}

impl Opened {
    pub(crate) fn connections(&self) -> &Connections {
        &self.table
    }
}

impl Drop for Opened {
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
    use super::{Connections, PARTS};
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
        let connections = Connections::new(clock.clone());
        for count in [0, 1, 7, PARTS, 1003] {
            let opened: Vec<_> = (0..count).map(|_| connections.open(&limits)).collect();
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
    fn places_are_used_again() {
        let connections = Connections::new(CoarseClock::new());
        let limits = Limits::new("test", &Timeouts::default(), &Registry::new());
        let limits = Rc::new(limits);
        let _stays = connections.open(&limits);
        for _ in 0..100 {
            drop(connections.open(&limits));
        }
        assert_eq!(connections.0.slots.borrow().slots.len(), 2);
    }
}
