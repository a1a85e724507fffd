//! `weir serve`: the life of the process, from top to bottom.

mod expiries;
mod fronts;
mod reload;
mod signals;
mod state;
mod systemd;

use std::sync::Arc;
use std::time::Duration;

use flow::Workers;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use watch::metrics::Registry;
use watch::watchdog::Watchdog;

use crate::admin;
use crate::config::ConfigFile;
use crate::config::{self, LoadedConfig, Settings};
use crate::exit::{DONE, FAILED, Failure};
use crate::page::Page;
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
    match &outcome {
        Ok(Ending::Drained(_)) => control.shutdown_timeout(CONTROL_END_TIMEOUT),
        // What still runs is not waited for, and would panic on a runtime that has gone. It ends
        // with the process.
        Ok(Ending::Abandoned) | Err(_) => std::mem::forget(control),
    }
    log.flush(LOG_FLUSH_TIMEOUT);
    outcome.map(|ending| match ending {
        Ending::Drained(code) => code,
        Ending::Abandoned => FAILED,
    })
}

/// How the gateway has ended.
enum Ending {
    /// What was begun has been answered, and nothing runs any more.
    Drained(u8),
    /// A second signal: whatever was under way still is.
    Abandoned,
}

async fn live(
    wanted: &ConfigFile,
    loaded: LoadedConfig,
    log: &watch::log::Handle,
) -> Result<Ending, Failure> {
    let config = loaded.file.as_ref().map(|file| file.display().to_string());
    let settings = announce(loaded);
    let registry = Registry::new();
    log.register(&registry);
    show_process(&registry);
    raise_open_files(settings.influx.max_connections);
    flow::dial::watch(settings.tcp_user_timeout.get(), &registry).map_err(Failure::other)?;
    let mut signals = Signals::listen()
        .map_err(|error| Failure::other(format!("signals can't be listened for: {error}")))?;

    let admin = admin::Port::bind(&settings.admin).await?;
    let certificate = admin.as_ref().and_then(admin::Port::tls);
    let fronts = fronts::open(&settings, &registry)?;
    let count = settings.worker_count();
    let (mut workers, addresses) = fronts.serve(count, &registry).map_err(Failure::other)?;
    let watchdog = start_watchdog(&settings, &workers, &registry)?;
    let state = Arc::new(State::new(&workers, addresses, fronts.clone(), config));
    let page = admin.map(|port| serve_admin(port, &state, &registry, &settings)).transpose()?;
    tokio::spawn(systemd::watchdog(state::workers_turn(&workers, &registry)));
    systemd::ready();

    let mut running = settings;
    let mut reload = || {
        systemd::reloading();
        let reloaded = reload::reload(wanted, &mut running, &fronts, certificate.as_ref(), log);
        systemd::ready();
        let is_in_force = reloaded.refused.is_none();
        state.reloaded(reloaded);
        is_in_force
    };
    let mut asked = fronts.reloads();
    let code = until_stopped(&mut signals, &mut workers, &mut asked, &mut reload).await;

    drop(asked);
    state.begin_to_stop();
    systemd::stopping();
    let stopped = fronts.stop(running.drain_timeout.get(), workers);
    let ending = tokio::select! {
        () = stopped => Ending::Drained(code),
        name = signals.stop() => {
            tracing::warn!(signal = name, "a second signal: ending without waiting any longer");
            Ending::Abandoned
        }
    };
    if let Some(page) = page {
        page.stop();
    }
    drop(watchdog);
    Ok(ending)
}

/// Reloads when it is asked to; gives the exit code once there is a reason to stop.
async fn until_stopped(
    signals: &mut Signals,
    workers: &mut Workers,
    asked: &mut mpsc::Receiver<flow::front::Reload>,
    reload: &mut impl FnMut() -> bool,
) -> u8 {
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Signal::Reload => _ = reload(),
                Signal::Stop(name) => {
                    tracing::info!(signal = name, "stopping");
                    return DONE;
                }
            },
            Some(answer) = asked.recv() => {
                // Whoever asked may be gone.
                let _ = answer.send(reload());
            }
            // A worker that is gone takes its share of the connections with it: start afresh.
            ended = workers.ended() => {
                let worker = ended.map(|ended| ended.index);
                tracing::error!(?worker, "a worker has panicked; stopping, to be started again");
                return FAILED;
            }
        }
    }
}

/// Says in metrics which version runs, and what the kernel says of its process.
fn show_process(registry: &Registry) {
    watch::process::register(registry);
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    registry.gauge("weir_build_info", "1, with the version that runs.", &labels).set(1);
}

/// Says what is about to run, and what about the configuration is worth a word.
fn announce(loaded: LoadedConfig) -> Settings {
    let LoadedConfig { file, settings, warnings } = loaded;
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

/// Starts the operator's page, and answers at the admin port.
fn serve_admin(
    port: admin::Port,
    state: &Arc<State>,
    registry: &Registry,
    settings: &Settings,
) -> Result<Arc<Page>, Failure> {
    let watched = state.page(registry.clone(), settings);
    let page = Page::start(settings.page_dir(), watched).map_err(|error| {
        Failure::other(format!("the operator's page can't be started: {error}"))
    })?;
    let sources = state.sources(registry.clone(), Arc::clone(&page));
    tokio::spawn(port.serve(Arc::new(sources)));
    Ok(page)
}

fn start_watchdog(
    settings: &Settings,
    workers: &Workers,
    registry: &Registry,
) -> Result<Watchdog, Failure> {
    let stages = flow::workers::STAGES.into_iter().chain(influx::STAGES);
    Watchdog::start(settings.stall_limit.get(), registry, workers.pulses().to_vec(), stages)
        .map_err(|error| Failure::other(format!("the watchdog can't be started: {error}")))
}
