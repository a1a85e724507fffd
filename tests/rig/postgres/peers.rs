//! What else stands between clients and PostgreSQL, to be compared with: PgBouncer and HAProxy, and
//! PgDog, PgCat and Odyssey where they are installed. Each has one thread that serves clients.

mod installed;

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{SUPERUSER, account};
use crate::places;
use crate::process::Process;

/// Clients that a proxy has to take at a time.
const CLIENTS: usize = 7_000;

/// A proxy on loopback in front of a server that trusts everyone.
#[derive(Debug)]
pub struct Peer {
    /// What it is called.
    pub name: &'static str,
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    _dir: TempDir,
}

/// When PgBouncer's clients give up their server connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// When they go.
    Session,
    /// After each transaction.
    Transaction,
}

impl Peer {
    fn start(
        name: &'static str,
        program: &str,
        configuration: impl FnOnce(&Path, SocketAddr) -> String,
        arguments: impl FnOnce(&mut Command, &Path),
    ) -> Self {
        let (dir, address) = (account::directory(), places::free_address());
        let file = dir.path().join("configuration");
        std::fs::write(&file, configuration(dir.path(), address)).expect("a file can be written");
        let mut command = Command::new(places::need(program));
        account::set(&mut command);
        arguments(&mut command, &file);
        let mut process = Process::start(name, &mut command, &dir.path().join("log"));
        process.wait_ready(|| TcpStream::connect(address).is_ok());
        Self { name, process, address, _dir: dir }
    }

    /// PgBouncer, with so many server connections for a user and a database.
    ///
    /// # Panics
    /// When it is missing or does not start.
    pub fn pgbouncer(server: SocketAddr, pooling: Pooling, connections: usize) -> Self {
        let (name, mode) = match pooling {
            Pooling::Session => ("PgBouncer (session)", "session"),
            Pooling::Transaction => ("PgBouncer", "transaction"),
        };
        let configuration = |dir: &Path, at: SocketAddr| {
            let users = dir.join("users");
            std::fs::write(&users, format!("\"{SUPERUSER}\" \"\"\n")).expect("a file");
            format!(
                "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = {}\n\
                 listen_port = {}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
                 admin_users = {SUPERUSER}\n\
                 pool_mode = {mode}\ndefault_pool_size = {connections}\n\
                 max_client_conn = {CLIENTS}\nlog_connections = 0\nlog_disconnections = 0\n\
                 ignore_startup_parameters = extra_float_digits\n",
                server.ip(),
                server.port(),
                at.ip(),
                at.port(),
                users.display()
            )
        };
        Self::start(name, "pgbouncer", configuration, |command, file| {
            command.arg(file);
        })
    }

    /// HAProxy with one thread, which passes on bytes.
    ///
    /// # Panics
    /// When it is missing or does not start.
    pub fn haproxy(server: SocketAddr) -> Self {
        let configuration = |_: &Path, at: SocketAddr| {
            format!(
                "global\n  nbthread 1\n  maxconn {CLIENTS}\ndefaults\n  mode tcp\n  \
                 timeout connect 10s\n  timeout client 1h\n  timeout server 1h\n\
                 listen postgres\n  bind {at}\n  server primary {server}\n"
            )
        };
        Self::start("HAProxy", "haproxy", configuration, |command, file| {
            command.arg("-db").arg("-f").arg(file);
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
