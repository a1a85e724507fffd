//! The port that Weir announces to a master: it says what it is, so that nobody takes it for a
//! server, and fills servers with what the files have.

mod client;
mod words;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow::dial::Address;
use flow::tls::ServerTls;
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::directory::APPEND_DIR;
use super::link::Stop;
use super::state::State;
use crate::server::Server;
use crate::settings::{AddressError, AofSettings, MasterSettings, read_address};
use client::Client;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait after an error of accept(2), as when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who may do what at the port of a master, and what is said there.
pub struct Port {
    listener: TcpListener,
    tls: Option<ServerTls>,
    places: Arc<Semaphore>,
    facts: Arc<Facts>,
}

/// What every connection to a port needs to know.
struct Facts {
    state: Arc<State>,
    /// Where the master's files are.
    dir: PathBuf,
    master: MasterAddress,
    port: u16,
    run_id: String,
    /// SHA-256 of the password, where there is one.
    password: Option<[u8; 32]>,
    /// How long a client may take to read.
    patience: Duration,
    /// So many servers are filled at once.
    fills: Semaphore,
}

struct MasterAddress {
    /// As the settings say; of one that Sentinels know, its name there.
    named: (String, u16),
    /// The same that the link connects to, where Sentinels say where that is.
    told: Option<Server>,
}

impl MasterAddress {
    /// Whether Sentinels say where it is.
    fn is_told(&self) -> bool {
        self.told.is_some()
    }

    /// Its host and port, as it was connected to last.
    fn now(&self) -> (String, u16) {
        let last = self.told.as_ref().and_then(Server::last_at);
        last.unwrap_or_else(|| self.named.clone())
    }
}

impl Port {
    /// Binds the port of a master, where it has one.
    ///
    /// # Errors
    /// It can't be bound, or a file that the settings name can't be read; in words.
    pub fn bind(
        settings: &AofSettings,
        of: &MasterSettings,
        server: &Server,
        state: Arc<State>,
    ) -> Result<Option<Self>, String> {
        let Some(listen) = of.listen else { return Ok(None) };
        let wrong = |error: &dyn std::fmt::Display| format!("master {:?} listen: {error}", of.name);
        let listener = TcpListener::bind(listen).map_err(|error| {
            wrong(&format_args!("{listen} can't be bound: {error}; name another address"))
        })?;
        listener.set_nonblocking(true).map_err(|error| wrong(&error))?;
        let port = listener.local_addr().map_or(listen.port(), |bound: SocketAddr| bound.port());
        let of_port = &settings.port;
        let tls = of_port
            .tls
            .as_ref()
            .map(|tls| ServerTls::with_clients(tls, &[], of_port.client_ca.as_deref()));
        let tls = tls.transpose().map_err(|error| wrong(&error))?;
        let password = of_port.password.or_from(of_port.password_file.as_deref());
        let password = password.map_err(|error| wrong(&error))?;
        let sum = |text: &str| digest(&SHA256, text.as_bytes()).as_ref().try_into().ok();
        let password = (!password.is_empty()).then(|| sum(password.reveal())).flatten();
        let named = master(of).map_err(|error| wrong(&error))?;
        let told = of.sentinel.as_ref().map(|_| server.clone());
        let master = MasterAddress { named, told };
        let run_id = (0..40).filter_map(|_| char::from_digit(rand::random_range(0..16), 16));
        let facts = Facts {
            state,
            dir: settings.dir.join(&of.name).join(APPEND_DIR),
            master,
            port,
            run_id: run_id.collect(),
            password,
            patience: settings.timeout.get(),
            fills: Semaphore::new(of_port.fills),
        };
        let places = Arc::new(Semaphore::new(of_port.connections));
        Ok(Some(Self { listener, tls, places, facts: Arc::new(facts) }))
    }

    /// The number that the port was bound to.
    pub fn number(&self) -> u16 {
        self.facts.port
    }

    /// Serves until the process stops. What is under way then ends with the runtime.
    pub async fn run(self, mut stop: Stop) {
        let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) else { return };
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Ok((stream, peer)) = accepted else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Beyond the limit it is closed at once.
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { continue };
            let (facts, tls) = (Arc::clone(&self.facts), self.tls.clone());
            tokio::spawn(async move {
                let _place = place;
                // An answer is small, and whoever asks waits for it.
                let _ = stream.set_nodelay(true);
                match tls {
                    None => Client::new(stream, peer.ip(), false, &facts).serve().await,
                    Some(tls) => {
                        if let Ok(Ok((stream, is_known))) =
                            timeout(HANDSHAKE, tls.shake(stream)).await
                        {
                            Client::new(stream, peer.ip(), is_known, &facts).serve().await;
                        }
                    }
                }
            });
        }
    }
}

/// The master's host and port, for those who ask; where Sentinels know these, its name.
fn master(of: &MasterSettings) -> Result<(String, u16), AddressError> {
    if let Some(sentinel) = &of.sentinel {
        return Ok((sentinel.master.clone(), 0));
    }
    Ok(match read_address(&of.url)?.address {
        Address::Tcp { host, port } => (host, port),
        Address::Unix(path) => (path.display().to_string(), 0),
    })
}
