//! How many requests are under way at a server, and how long they take.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use watch::metrics::Counter;

/// The requests of one worker that are under way at a server, by lanes and leases. Clones count
/// the same ones.
#[derive(Debug, Clone)]
pub struct Load {
    under_way: Rc<Cell<usize>>,
    /// All that the server was asked, by all workers.
    asked: Counter,
}

/// One request that is under way.
#[derive(Debug)]
pub struct RequestUnderWay(Rc<Cell<usize>>);

impl Load {
    /// None yet, of a server that counts what it is asked.
    pub fn new(asked: Counter) -> Self {
        Self { under_way: Rc::default(), asked }
    }

    /// How many requests are under way now.
    #[inline]
    pub fn get(&self) -> usize {
        self.under_way.get()
    }

    /// One more, until it is dropped.
    #[inline]
    pub fn one(&self) -> RequestUnderWay {
        self.under_way.set(self.under_way.get() + 1);
        self.asked.inc();
        RequestUnderWay(self.under_way.clone())
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// How long requests run at present on a worker's lanes and leases, on average. Clones are the
/// same one.
///
/// Where the machine is busy everything takes longer: what is slow is told from what others take.
#[derive(Debug, Clone, Default)]
pub struct Norm(Rc<Cell<u64>>);

impl Norm {
    /// Takes note of a run; the average is over some 64 of them.
    #[inline]
    pub fn note(&self, ran: Duration) {
        let ran = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX / 64);
        let known = self.0.get();
        self.0.set(known - known / 64 + ran / 64);
    }

    /// The moving average, in which a new time weighs a 64th.
    #[inline]
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.get())
    }
}
