//! Real PostgreSQL clusters: a primary and streaming replicas on loopback and on Unix sockets, each
//! in a directory of its own, which can be killed, hung, promoted and started again.
//!
//! As root they run as the user `postgres`, since the server refuses root. Where durability is not
//! what is tested they do not sync ([`Setup::durable`] brings that back).

mod account;
mod children;
mod messages;
mod peers;
mod sql;
mod start;
mod template;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::Process;
use crate::tls::Certificate;
use crate::{places, wait};

pub use account::directory;
pub use messages::{MessageClient, Reply};
pub use peers::{Bouncer, Optional, Peer, Pooling};
pub use sql::{Rows, SqlError, psql, rows};
pub use start::{Auth, Setup};

/// The superuser of each cluster.
pub const SUPERUSER: &str = "postgres";

/// The superuser's password, where one is asked for.
pub const PASSWORD: &str = "a superuser's password";

/// How long a server has to end by itself when its value is dropped.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A program of the newest PostgreSQL on this machine. Debian keeps the server's off the `PATH`.
///
/// # Panics
/// When it is missing.
pub fn program(name: &str) -> std::path::PathBuf {
    template::program(name)
}

/// A running (or killed) cluster. Dropping it ends all of its processes and removes its files.
#[derive(Debug)]
pub struct Cluster {
    process: Option<Process>,
    setup: Setup,
    dir: TempDir,
    sockets: TempDir,
    certificate: Option<Certificate>,
    idle: sql::IdleClient,
    /// Where it listens; the same after a restart.
    pub address: SocketAddr,
}

impl Cluster {
    /// A new primary that trusts everyone on loopback.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub fn start() -> Self {
        Setup::new().start()
    }

    /// A replica that streams from this cluster, with the same settings and users.
    ///
    /// # Panics
    /// When the copy fails or the replica does not start.
    pub fn replica(&self) -> Self {
        let mut replica = Self::empty(self.setup.clone());
        let mut command = Command::new(program("pg_basebackup"));
        command.args(["--no-sync", "--checkpoint=fast", "--wal-method=stream"]);
        command.arg("--write-recovery-conf");
        command.arg("--host").arg(self.sockets.path());
        command.args(["--username", SUPERUSER, "--port", &self.address.port().to_string()]);
        command.arg("--pgdata").arg(replica.data());
        account::run(&mut command);
        replica.certificate.clone_from(&self.certificate);
        replica.configure();
        replica.start_again();
        replica
    }

    /// A cluster's places, without a server.
    fn empty(setup: Setup) -> Self {
        Self {
            process: None,
            setup,
            dir: account::directory(),
            sockets: account::short_directory(),
            certificate: None,
            idle: sql::IdleClient::default(),
            address: places::free_address(),
        }
    }

    /// Starts it where it is not running, with its data and address as before.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        self.launch();
        let mut process = self.process.take().expect("it was just started");
        process.wait_ready(|| self.try_sql("SELECT 1").is_ok());
        self.process = Some(process);
    }

    /// The same without waiting until it answers.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn launch(&mut self) {
        let mut command = Command::new(program("postgres"));
        command.arg("-D").arg(self.data());
        account::set(&mut command);
        command.envs(self.setup.environment().iter().cloned());
        let log = self.dir.path().join("log");
        self.process = Some(Process::start("postgres", &mut command, &log));
    }

    /// `kill -9` for the server and all of its processes: what a crash leaves.
    pub fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        // Stopped, it neither starts nor reaps any, so that each id is still that of a child.
        process.signal(Signal::STOP);
        let children = children::all(process.id());
        children::signal(process.id(), Signal::KILL);
        drop(process);
        // While one of them has the shared memory, no server starts in its place.
        let all_ended = || children.iter().all(|child| children::has_ended(*child));
        wait::until("PostgreSQL's processes end", wait::LONG, all_ended);
    }

    /// An orderly stop that disconnects clients (`fast`).
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&mut self) {
        self.end(Signal::INT, wait::LONG);
    }

    /// A stop at once: its processes warn their clients (57P02) and end as they are.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop_at_once(&mut self) {
        self.end(Signal::QUIT, wait::LONG);
    }

    /// An orderly stop, then a start with the same data and address.
    ///
    /// # Panics
    /// When it does not end or start.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    fn end(&mut self, signal: Signal, limit: Duration) {
        let Some(mut process) = self.process.take() else { return };
        process.signal(signal);
        wait::until("PostgreSQL ends", limit, || process.ended().is_some());
    }

    /// Stops all of its processes where they are: connections stay open and nothing answers.
    pub fn hang(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::STOP);
            children::signal(process.id(), Signal::STOP);
        }
    }

    /// Lets them go on.
    pub fn wake(&self) {
        if let Some(process) = &self.process {
            children::signal(process.id(), Signal::CONT);
            process.signal(Signal::CONT);
        }
    }

    /// Makes this replica a primary and waits until it is one.
    ///
    /// # Panics
    /// When that fails.
    pub fn promote(&self) {
        self.sql("SELECT pg_promote(true, 60)");
        wait::until("the replica is a primary", wait::LONG, || !self.is_replica());
    }

    /// Has this replica stream from `primary` from now on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn follow(&self, primary: &Self) {
        let (host, port) = (primary.sockets.path().display(), primary.address.port());
        let source = format!("host={host} port={port} user={SUPERUSER}");
        self.sql(&format!("ALTER SYSTEM SET primary_conninfo = '{source}'"));
        self.reload();
    }

    /// Reads its configuration files anew.
    ///
    /// # Panics
    /// When it does not run.
    pub fn reload(&self) {
        self.sql("SELECT pg_reload_conf()");
    }

    /// The id of the server's first process while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The server's data directory.
    pub fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// The directory of its Unix socket.
    pub fn socket_dir(&self) -> &Path {
        self.sockets.path()
    }

    /// Its certificate, where it takes TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// As a backend's `url`.
    pub fn url(&self) -> String {
        format!("postgresql://{}", self.address)
    }

    /// As a client's connection string.
    pub fn dsn(&self, user: &str, password: &str, database: &str) -> String {
        let (host, port) = (self.address.ip(), self.address.port());
        format!("host={host} port={port} user={user} password='{password}' dbname={database}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.wake();
        let Some(process) = &mut self.process else { return };
        // An immediate shutdown needs no disk, and unlike a kill it gives back its shared memory.
        process.signal(Signal::QUIT);
        let begun = std::time::Instant::now();
        while process.ended().is_none() {
            if begun.elapsed() > LAST_WORDS {
                return self.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
