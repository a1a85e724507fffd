//! The whole gateway as the program sees it: opened, bound, run on each worker, reloaded, drained.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::Guard;
use flow::endpoint::Endpoint;
use flow::front::{self, Addresses, BindError, PreparedSettings, Reload, Serving, Share, Sockets};
use flow::limit::Limit;
use flow::memory;
use flow::tls::ServerTls;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use units::Duration;
use watch::metrics::Registry;

use crate::batches::Lines;
use crate::session;
use crate::settings::Settings;
use crate::shared::{GatewayContext, OpenError};
use crate::worker::WorkerContext;

/// What the status calls the addresses.
const LISTEN: &str = "postgres";

/// The PostgreSQL gateway of one process.
pub struct Gateway {
    shared: Arc<GatewayContext>,
    endpoint: Endpoint,
    connections: Limit,
}

impl Gateway {
    /// Opens the gateway; the servers are asked for their roles from now on.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(
        settings: Settings,
        registry: &Registry,
        control: Handle,
    ) -> Result<Arc<Self>, OpenError> {
        settings.validate()?;
        let tls = settings.tls.as_ref().map(|tls| {
            ServerTls::with_clients(&tls.pair(), &[crate::server::ALPN], tls.client_ca.as_deref())
        });
        let tls = tls.transpose()?;
        let connections = Limit::new(settings.max_connections);
        let timeouts = flow::progress::Timeouts {
            write: settings.timeouts.write,
            handshake: settings.timeouts.login,
            // Sessions have limits of their own, which end in an answer.
            header: Duration::from_secs(0),
            body: Duration::from_secs(0),
            idle: Duration::from_secs(0),
            body_rate: 0,
            answer_rate: 0,
        };
        let endpoint = Endpoint::new("postgres", connections.clone(), &timeouts, registry)
            .with_refusal(TOO_MANY);
        let shared = GatewayContext::open(settings, tls, registry, control)?;
        Ok(Arc::new(Self { shared, endpoint, connections }))
    }

    /// The settings as of the last reload.
    pub fn settings(&self) -> Guard<Arc<Settings>> {
        self.shared.settings()
    }

    /// Clients that are connected now.
    pub fn connections(&self) -> usize {
        self.connections.used()
    }
}

impl front::Front for Gateway {
    const NAME: &'static str = "postgres";
    type Settings = Settings;
    type Error = OpenError;

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        let settings = self.settings();
        self.shared.set_workers(sockets.workers());
        if !settings.listen.is_empty() {
            sockets.tcp(LISTEN, &settings.listen)?;
        }
        for path in settings.unix_socket_files() {
            sockets.unix(&path, settings.unix_mode())?;
        }
        Ok(())
    }

    fn announce(&self, addresses: &Addresses, workers: usize) {
        let listen = addresses.of(LISTEN);
        if !listen.is_empty() {
            tracing::info!(?listen, workers, "PostgreSQL clients are taken");
        }
    }

    async fn run(self: Arc<Self>, share: Share, worker: flow::Worker) {
        if worker.index == 0 {
            tokio::task::spawn_local(memory::give_back(vec![self.shared.held.clone()]));
        }
        let calls = self.shared.calls.attend(worker.index);
        let front = WorkerContext::new(self.shared.clone(), worker.clone(), session::CLIENT_BYTES);
        let lines = Lines::new(front.clone());
        let upkeep = {
            let lines = lines.clone();
            move || lines.look_after()
        };
        let attending = tokio::task::spawn_local(front.clone().attend(calls, upkeep));
        let mut serving = Serving::new(&worker);
        let of_unix = lines.clone();
        let serve = move |stream| session::startup::serve(of_unix.clone(), stream, None);
        serving.unix(share.unix, &self.endpoint, serve);
        let serve = move |stream, peer| session::startup::serve(lines.clone(), stream, Some(peer));
        serving.tcp(share.tcp, &self.endpoint, serve);
        worker.drain.started().await;
        front.drain();
        serving.ended().await;
        // Clients may still cancel what they wait for.
        front.emptied().await;
        self.shared.calls.leave(worker.index);
        let _ = attending.await;
    }

    fn prepare(self: &Arc<Self>, settings: Settings) -> Result<PreparedSettings<'_>, OpenError> {
        settings.validate()?;
        let tls = self.shared.tls().as_ref().map(ServerTls::renew).transpose()?;
        let doors = self.shared.doors(&settings)?;
        let backends = self.shared.backends.prepare(&settings)?;
        Ok(PreparedSettings::new(move || {
            if let Some(tls) = tls {
                tls.put_in_force();
            }
            backends.put_in_force();
            self.connections.set_max(settings.max_connections);
            self.shared.put_in_force(settings, doors)
        }))
    }

    fn reload_by(&self, ask: mpsc::Sender<Reload>) {
        self.shared.reload_by(ask);
    }

    fn ready(&self) -> Result<(), String> {
        self.shared.ready()
    }

    /// What was seen last.
    fn status(&self) -> impl Serialize {
        self.shared.status()
    }
}

/// What one more connection than `max-connections` hears.
const TOO_MANY: &[u8] = b"E\0\0\0\x3bSFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0";
