//! What the running process says of itself when it is asked.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use flow::Workers;
use flow::front::Addresses;
use flow::progress::Busiest;
use serde_json::{Value, json};
use watch::metrics::Registry;

use super::expiries;
use super::fronts::Fronts;
use super::reload::Reloaded;
use crate::admin::Sources;
use crate::config::Settings;
use crate::diagnosis::installation::{ConsoleLogin, Installation};
use crate::diagnosis::status::{Process, Ready, Reload};
use crate::page;
use crate::page::Page;

/// The parts that know.
pub struct State {
    started: Instant,
    workers: usize,
    busiest: Busiest,
    addresses: Addresses,
    stopping: AtomicBool,
    fronts: Fronts,
    config: Option<String>,
    started_at: f64,
    reload: Mutex<Option<Reload>>,
    /// The files of all certificates, as the configuration names them that was read last.
    certificates: Mutex<Vec<PathBuf>>,
}

impl State {
    /// The state of a process that has just begun.
    pub fn new(
        workers: &Workers,
        addresses: Addresses,
        fronts: Fronts,
        config: Option<String>,
    ) -> Self {
        let (started, stopping) = (Instant::now(), AtomicBool::new(false));
        let (started_at, reload) = (since_1970(), Mutex::default());
        let certificates = Mutex::default();
        let (workers, busiest) = (workers.pulses().len(), workers.busiest().clone());
        Self {
            started,
            workers,
            busiest,
            addresses,
            stopping,
            fronts,
            config,
            started_at,
            reload,
            certificates,
        }
    }

    fn certificates(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration was read again.
    pub fn reloaded(&self, reloaded: Reloaded) {
        let Reloaded { refused, needs_restart, certificates } = reloaded;
        if let Some(certificates) = certificates {
            *self.certificates() = certificates;
        }
        *self.reload() = Some(Reload { at: since_1970(), refused, needs_restart });
    }

    fn reload(&self) -> MutexGuard<'_, Option<Reload>> {
        self.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the process is not ready, so that load balancers turn elsewhere.
    pub fn begin_to_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// The answers of the admin port.
    pub fn sources(self: &Arc<Self>, registry: Registry, page: Arc<Page>) -> Sources {
        let (ready, status) = (Arc::clone(self), Arc::clone(self));
        Sources {
            page,
            registry,
            ready: Box::new(move || ready.ready()),
            status: Box::new(move || status.status()),
        }
    }

    /// Whom the operator's page asks.
    pub fn page(self: &Arc<Self>, registry: Registry, settings: &Settings) -> page::Sources {
        let absolute = |dir: &PathBuf| std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        let installation = Arc::new(Installation {
            journal_dir: absolute(&settings.journal.dir),
            store_dir: absolute(&settings.store.dir),
            console: self.console(settings),
        });
        *self.certificates() = expiries::certificates(settings);
        let (status, state) = (Arc::clone(self), Arc::clone(self));
        page::Sources {
            registry,
            status: Box::new(move || status.status()),
            expiries: Box::new(move || {
                let certificates = state.certificates().clone();
                expiries::of(&certificates)
            }),
            installation,
        }
    }

    /// How this machine enters the console of the PostgreSQL gateway; `None` where nobody may.
    fn console(&self, settings: &Settings) -> Option<ConsoleLogin> {
        let console = &settings.postgres.as_ref()?.console;
        let user = console.admin_users.iter().chain(&console.stats_users).next()?.clone();
        let mut address = *self.addresses.of("postgres").first()?;
        if address.ip().is_unspecified() {
            let is_v4 = address.is_ipv4();
            let here = if is_v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(here);
        }
        Some(ConsoleLogin { address, user, database: console.databases.first()?.clone() })
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
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            config: self.config.clone(),
            started_at: self.started_at,
            reload: self.reload().clone(),
        };
        let reason = self.ready().err();
        let ready = Ready { yes: reason.is_none(), reason };
        let mut status = Value::from(self.fronts.status());
        status["process"] = json!(process);
        status["ready"] = json!(ready);
        status["listen"] = json!(self.addresses);
        status["clients"] = json!(self.busiest.shown());
        status
    }
}

fn since_1970() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
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
