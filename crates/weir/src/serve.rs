//! `weir serve`: the life of the process, from top to bottom.

mod reload;
mod signals;
mod state;
mod systemd;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use flow::{Worker, Workers};
use influx::{Addresses, Gateway};
use journal::{Journal, Position};
use store::Store;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use watch::metrics::Registry;
use watch::watchdog::Watchdog;

use crate::admin;
use crate::cli::ConfigFile;
use crate::config::{self, Loaded, Settings};
use crate::exit::{DONE, FAILED, Failure};
use signals::{Signal, Signals};
use state::State;

/// Threads for deliveries, health checks, queries and the admin port. None of them serves a
/// client's write, so they are few.
const CONTROL_THREADS: usize = 2;
/// File descriptors that are not clients: listeners, backends, segments, cursors, the admin port.
const OWN_FILES: u64 = 256;
/// How long standard error may take for the last lines.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How long blocking work, as reading a segment, may go on after everything else has ended.
const CONTROL_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the gateway until a signal ends it.
pub fn run(wanted: &ConfigFile) -> Result<u8, Failure> {
    let loaded = config::load(wanted)?;
    let log = watch::log::init(&loaded.settings.log).map_err(Failure::other)?;
    let control = control_runtime()?;
    let outcome = control.block_on(live(wanted, loaded, &log));
    control.shutdown_timeout(CONTROL_END_TIMEOUT);
    log.flush(LOG_FLUSH_TIMEOUT);
    outcome
}

async fn live(
    wanted: &ConfigFile,
    loaded: Loaded,
    log: &watch::log::Handle,
) -> Result<u8, Failure> {
    let settings = announce(loaded);
    let registry = Registry::new();
    log.register(&registry);
    watch::process::register(&registry);
    raise_open_files(settings.influx.max_connections);
    let mut signals = Signals::listen()
        .map_err(|error| Failure::other(format!("signals can't be listened for: {error}")))?;

    let admin = bind_admin(&settings).await?;
    let store = open_store(&settings, &registry)?;
    let floor = store.as_ref().map_or(Position::ZERO, |store| Position(store.position()));
    let journal = open_journal(&settings, floor, &registry)?;
    let gateway = open_gateway(&settings, store.as_ref(), &journal, &registry)?;
    let (mut workers, addresses) = start_workers(&settings, &gateway, &registry)?;
    let watchdog = start_watchdog(&settings, &workers, &registry)?;
    let state =
        Arc::new(State::new(settings.worker_count(), addresses, journal.clone(), gateway.clone()));
    if let Some(listener) = admin {
        tokio::spawn(admin::serve(listener, Arc::new(state.sources(registry.clone()))));
    }
    tokio::spawn(systemd::watchdog(state::workers_turn(&workers, &registry)));
    systemd::ready();

    let mut running = settings;
    let code = loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Signal::Reload => {
                    systemd::reloading();
                    running = reload::reload(wanted, running, &gateway, log);
                    systemd::ready();
                }
                Signal::Stop(name) => {
                    tracing::info!(signal = name, "stopping");
                    break DONE;
                }
            },
            // A worker that is gone takes its share of the connections with it: start afresh.
            ended = workers.ended() => {
                let worker = ended.map(|ended| ended.index);
                tracing::error!(?worker, "a worker has panicked; stopping, to be started again");
                break FAILED;
            }
        }
    };

    state.begin_to_stop();
    systemd::stopping();
    let stopped = stop(running.drain_timeout.get(), workers, &gateway, &journal);
    let code = tokio::select! {
        () = stopped => code,
        name = signals.stop() => {
            tracing::warn!(signal = name, "a second signal: ending without waiting any longer");
            FAILED
        }
    };
    drop(watchdog);
    Ok(code)
}

/// Says what is about to run, and what about the configuration is worth a word.
fn announce(loaded: Loaded) -> Settings {
    let Loaded { file, settings, warnings } = loaded;
    let config = file.as_deref().unwrap_or("none".as_ref()).display().to_string();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        config,
        "starting"
    );
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    settings
}

fn control_runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("threads can't be started: {error}")))
}

/// The soft limit of open files is 1024 nearly everywhere, for the sake of programs that use
/// select(2).
fn raise_open_files(connections_max: usize) {
    let wanted = connections_max as u64 + OWN_FILES;
    match flow::nofile::raise() {
        Ok(limit) if limit.now.is_some_and(|allowed| allowed < wanted) => tracing::warn!(
            allowed = limit.now,
            wanted,
            "fewer open files are allowed than influx.max-connections needs: raise LimitNOFILE of \
             the service (or ulimit -Hn), or lower influx.max-connections"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files can't be raised"),
    }
}

async fn bind_admin(settings: &Settings) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = settings.admin.address().map_err(Failure::other)? else {
        return Ok(None);
    };
    let bound = TcpListener::bind(address).await;
    let listener = bound.map_err(|error| unbound("admin.listen", address, &error))?;
    let address =
        listener.local_addr().map_err(|error| unbound("admin.listen", address, &error))?;
    tracing::info!(%address, "the admin port answers");
    Ok(Some(listener))
}

fn unbound(key: &str, address: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::other(format!(
        "{key} = \"{address}\" can't be had: {error}; is another Weir running? `ss -ltnp` shows \
         who has it"
    ))
}

/// Opens the store within the process where the configuration has one.
fn open_store(settings: &Settings, registry: &Registry) -> Result<Option<Arc<Store>>, Failure> {
    if !settings.has_store() {
        return Ok(None);
    }
    let store = Store::open(settings.store.clone(), registry).map_err(Failure::other)?;
    let dir = settings.store.dir.display();
    tracing::info!(%dir, position = store.position(), "the store is open");
    Ok(Some(store))
}

/// Opens the journal, says what was found in it, and refuses to leave a backlog behind whose
/// backend is not in the configuration any more.
///
/// Positions go on behind `floor`, also where the journal itself was lost: the store takes what
/// comes before for something it has.
fn open_journal(
    settings: &Settings,
    floor: Position,
    registry: &Registry,
) -> Result<Journal, Failure> {
    let opened = Journal::open_past(settings.journal.clone(), registry, floor);
    let (journal, recovery) = opened.map_err(Failure::other)?;
    if recovery.is_clean() {
        tracing::info!("the journal is open: {recovery}");
    } else {
        tracing::warn!("the journal is open and was not as it should be: {recovery}");
    }
    let names: Vec<&str> = settings.influx.backend.iter().map(|of| of.name.as_str()).collect();
    if let Some(cursor) = journal.unclaimed(&names).first() {
        let (name, waiting) = (&cursor.name, cursor.waiting.items);
        return Err(Failure::other(format!(
            "{waiting} points wait for backend {name:?}, which is not in the configuration: put it \
             back, or give them up with `weir journal forget {name}`"
        )));
    }
    for name in journal.forget_finished(&names).map_err(Failure::other)? {
        tracing::info!("backend {name:?} is gone from the configuration; it had everything");
    }
    Ok(journal)
}

fn open_gateway(
    settings: &Settings,
    store: Option<&Arc<Store>>,
    journal: &Journal,
    registry: &Registry,
) -> Result<Arc<Gateway>, Failure> {
    let (influx, dir) = (settings.influx.clone(), settings.influx_dir());
    Gateway::open(influx, store, journal.clone(), &dir, registry, Handle::current())
        .map_err(Failure::other)
}

/// Binds every socket before the first is served, so that a port which is taken is an error of
/// the start.
fn start_workers(
    settings: &Settings,
    gateway: &Arc<Gateway>,
    registry: &Registry,
) -> Result<(Workers, Addresses), Failure> {
    let count = settings.worker_count();
    let listeners = gateway.bind(count).map_err(Failure::other)?;
    let addresses = listeners.addresses().clone();
    let shares: Vec<_> = listeners.shares().map(Some).collect();
    let shares = Arc::new(std::sync::Mutex::new(shares));
    let gateway = Arc::clone(gateway);
    let body = move |worker: Worker| async move {
        let share = shares
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get_mut(worker.index)
            .and_then(Option::take);
        if let Some(share) = share {
            gateway.run_worker(share, worker).await;
        }
    };
    let workers = Workers::start(count, registry, body)
        .map_err(|error| Failure::other(format!("{count} workers can't be started: {error}")))?;
    let (http, udp) = (&addresses.http, &addresses.udp);
    tracing::info!(?http, ?udp, workers = count, "writes are taken");
    Ok((workers, addresses))
}

fn start_watchdog(
    settings: &Settings,
    workers: &Workers,
    registry: &Registry,
) -> Result<Watchdog, Failure> {
    Watchdog::start(settings.stall_limit.get(), registry, workers.pulses().to_vec())
        .map_err(|error| Failure::other(format!("the watchdog can't be started: {error}")))
}

/// Takes the process apart in the order of a write's way, so that what was taken is kept, and
/// what was delivered is known to be.
async fn stop(timeout: Duration, workers: Workers, gateway: &Gateway, journal: &Journal) {
    let drained = workers.drain(timeout).await;
    if drained.cut + drained.stuck > 0 {
        let (cut, stuck) = (drained.cut, drained.stuck);
        tracing::warn!(cut, stuck, "not everything was done within drain-timeout");
    }
    if tokio::time::timeout(timeout, gateway.drain()).await.is_err() {
        tracing::warn!("a batch is still under way; it will be sent again after the next start");
    }
    journal.close().await;
    tracing::info!("stopped");
}
