//! What the running process says of itself when it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use flow::Workers;
use flow::front::Addresses;
use serde_json::{Value, json};
use watch::metrics::Registry;

use super::fronts::Fronts;
use crate::admin::Sources;
use crate::status::{Process, Ready};

/// The parts that know.
pub struct State {
    started: Instant,
    workers: usize,
    addresses: Addresses,
    stopping: AtomicBool,
    fronts: Fronts,
}

impl State {
    /// The state of a process that has just begun.
    pub fn new(workers: usize, addresses: Addresses, fronts: Fronts) -> Self {
        let (started, stopping) = (Instant::now(), AtomicBool::new(false));
        Self { started, workers, addresses, stopping, fronts }
    }

    /// From now on the process is not ready, so that load balancers turn elsewhere.
    pub fn begin_to_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// The answers of the admin port.
    pub fn sources(self: &Arc<Self>, registry: Registry) -> Sources {
        let (ready, status) = (Arc::clone(self), Arc::clone(self));
        Sources {
            registry,
            ready: Box::new(move || ready.ready()),
            status: Box::new(move || status.status()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err("Weir is stopping".to_owned());
        }
        self.fronts.ready()
    }

    fn status(&self) -> Value {
        let process = Process {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            workers: self.workers,
        };
        let reason = self.ready().err();
        let ready = Ready { yes: reason.is_none(), reason };
        let mut status = Value::from(self.fronts.status());
        status["process"] = json!(process);
        status["ready"] = json!(ready);
        status["listen"] = json!(self.addresses);
        status
    }
}

/// Whether every worker's loop turns, by the watchdog's own gauges.
pub fn workers_turn(workers: &Workers, registry: &Registry) -> impl Fn() -> bool + use<> {
    let stalled = |name: &str| {
        let help = "Whether the worker's loop stands still now.";
        registry.gauge("weir_worker_stalled", help, &[("worker", name)])
    };
    let gauges: Vec<_> = workers.pulses().iter().map(|pulse| stalled(pulse.name())).collect();
    move || gauges.iter().all(|gauge| gauge.get() == 0)
}
