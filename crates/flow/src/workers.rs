//! A thread per core, each with a runtime of its own.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use watch::metrics::Registry;
use watch::watchdog::{Pulse, Stage};

use crate::clock::{CoarseClock, TICK};
use crate::drain::Drain;
use crate::progress::{Busiest, Connections};

/// A worker whose tick comes later than this stood still itself. It looks for slow clients at the
/// next tick, when what they sent meanwhile has been read.
const STOOD: Duration = TICK.saturating_mul(4);

/// Accepting connections of clients.
pub(crate) static ACCEPT: Stage = Stage::new("accept");
/// A TLS handshake with a client.
pub(crate) static HANDSHAKE: Stage = Stage::new("handshake");
/// Reading a protocol's bytes.
pub static PARSE: Stage = Stage::new("parse");
/// Looking for slow connections and closing them.
static SWEEP: Stage = Stage::new("sweep");

/// What a worker may be doing, for its watchdog; front ends have further ones.
pub static STAGES: [&Stage; 4] = [&ACCEPT, &HANDSHAKE, &PARSE, &SWEEP];

/// What a task knows of the worker it runs on. Clones are the same worker; none leaves its thread.
#[derive(Clone)]
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// Its sign of life; a task may enter a stage between two awaits.
    pub pulse: Pulse,
    /// Tells when to stop taking new work.
    pub drain: Drain,
    /// The time, to a tick.
    pub clock: CoarseClock,
    /// The clients' connections on this worker.
    pub connections: Connections,
}

/// A worker that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerExit {
    /// The worker's number, from 0.
    pub index: usize,
    /// Whether it was a panic, which is a fault in Weir.
    pub panicked: bool,
}

/// What was left when all workers had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections and other work cut off at the deadline.
    pub cut: usize,
    /// Workers that had ended by a panic.
    pub panicked: usize,
    /// Workers that did not even end when they were cut: they stand still.
    pub stuck: usize,
}

/// The threads that serve clients.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    drains: Vec<Drain>,
    pulses: Vec<Pulse>,
    busiest: Busiest,
    ended: mpsc::UnboundedReceiver<WorkerExit>,
    panicked: usize,
}

impl Workers {
    /// Starts `count` workers and runs `body` on each as its first local task. A worker ends when
    /// it drains, `body` has returned and no guard of its drain is left.
    ///
    /// # Errors
    /// A runtime or a thread could not be had.
    pub fn start<B, F>(count: usize, registry: &Registry, body: B) -> io::Result<Self>
    where
        B: FnOnce(Worker) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        // One message a worker, at its end: that is the bound.
        let (report, ended) = mpsc::unbounded_channel();
        let mut workers = Self {
            threads: Vec::with_capacity(count),
            drains: Vec::with_capacity(count),
            pulses: Vec::with_capacity(count),
            busiest: Busiest::default(),
            ended,
            panicked: 0,
        };
        // One message a worker, at its start.
        let (begun, begins) = std::sync::mpsc::sync_channel(count);
        for index in 0..count {
            let name = format!("worker-{index}");
            let thread = Thread {
                index,
                pulse: Pulse::new(&*name),
                drain: Drain::new(),
                registry: registry.clone(),
                busiest: workers.busiest.clone(),
            };
            workers.pulses.push(thread.pulse.clone());
            workers.drains.push(thread.drain.clone());
            let (body, report, begun) = (body.clone(), report.clone(), begun.clone());
            let run = move || {
                let _report = Report { index, report };
                // Nobody listens when another worker could not be started.
                match runtime() {
                    Ok(runtime) => {
                        let _ = begun.send(Ok(()));
                        thread.run(&runtime, body);
                    }
                    Err(error) => drop(begun.send(Err(error))),
                }
            };
            let builder = std::thread::Builder::new().name(name);
            workers.threads.push(builder.spawn(run)?);
        }
        drop(begun);
        begins.into_iter().take(count).collect::<io::Result<()>>()?;
        Ok(workers)
    }

    /// The workers' signs of life, for a [`Watchdog`](watch::watchdog::Watchdog).
    pub fn pulses(&self) -> &[Pulse] {
        &self.pulses
    }

    /// Who keeps them busy.
    pub fn busiest(&self) -> &Busiest {
        &self.busiest
    }

    /// Waits until a worker ends, which none should before [`drain`](Self::drain): a panic outside
    /// of a connection's task. `None` once all have ended.
    pub async fn ended(&mut self) -> Option<WorkerExit> {
        let ended = self.ended.recv().await?;
        self.panicked += usize::from(ended.panicked);
        Some(ended)
    }

    /// Stops taking new work, waits until what is under way is done, and cuts off what is left
    /// after `timeout`.
    pub async fn drain(mut self, timeout: Duration) -> Drained {
        self.drains.iter().for_each(Drain::trigger);
        let mut cut = 0;
        if tokio::time::timeout(timeout, self.all_ended()).await.is_err() {
            cut = self.drains.iter().map(Drain::held).sum();
            self.drains.iter().for_each(Drain::cut);
        }
        // A worker that stands still hears nothing: its thread ends with the process.
        let grace = Duration::from_secs(1);
        let stood = tokio::time::timeout(grace, self.all_ended()).await;
        let stuck = self.threads.iter().filter(|t| !t.is_finished()).count();
        Drained { cut, panicked: self.panicked, stuck: if stood.is_ok() { 0 } else { stuck } }
    }

    async fn all_ended(&mut self) {
        while self.ended().await.is_some() {}
    }
}

/// Says that a worker has ended, also when it panics.
struct Report {
    index: usize,
    report: mpsc::UnboundedSender<WorkerExit>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let (index, panicked) = (self.index, std::thread::panicking());
        // Nobody listens when the workers were dropped.
        let _ = self.report.send(WorkerExit { index, panicked });
    }
}

/// What a worker's thread starts with.
struct Thread {
    index: usize,
    pulse: Pulse,
    drain: Drain,
    registry: Registry,
    busiest: Busiest,
}

/// A runtime of this thread alone. A `LocalSet` on a shared one would write to itself through the
/// kernel to be polled again, each time sockets become ready.
fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

impl Thread {
    fn run<F: Future<Output = ()>>(self, runtime: &LocalRuntime, body: impl FnOnce(Worker) -> F) {
        let (clock, pulse) = (CoarseClock::new(), self.pulse.clone());
        let worker = Worker {
            index: self.index,
            pulse: self.pulse,
            drain: self.drain,
            connections: Connections::new(clock.clone(), self.index, self.busiest),
            clock,
        };
        runtime.block_on(async {
            let ticking = tokio::task::spawn_local(tick(worker.clone(), self.registry));
            let work = async {
                body(worker.clone()).await;
                worker.drain.finished().await;
            };
            tokio::select! {
                () = work => {}
                () = worker.drain.was_cut() => {}
            }
            ticking.abort();
        });
        // Others may go on for as long as `drain` waits, watched until then.
        pulse.end();
    }
}

/// The worker's heartbeat: sets its clock, shows that its loop turns, closes slow connections.
async fn tick(worker: Worker, registry: Registry) {
    let labels = [("worker", &*worker.index.to_string())];
    let connections = registry.gauge(
        "weir_worker_connections",
        "Connections open now, by worker: the kernel spreads them by a hash.",
        &labels,
    );
    let late = registry.histogram(
        "weir_worker_tick_late_seconds",
        "How late a worker's tick came, which is how long a ready task waited for its turn.",
        &labels,
    );
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        let now = Instant::now();
        worker.clock.set(now);
        worker.pulse.beat();
        let lateness = now.saturating_duration_since(due.into_std());
        late.observe(lateness);
        if lateness > STOOD {
            continue;
        }
        let _stage = worker.pulse.enter(&SWEEP);
        worker.connections.sweep();
        connections.set(i64::try_from(worker.connections.count()).unwrap_or(i64::MAX));
    }
}
