//! What else stands between clients and PostgreSQL, to be compared with: PgBouncer and HAProxy, and
//! PgDog, PgCat, pg_doorman and Odyssey where they are installed. Each has one thread that serves
//! clients.

mod installed;
mod pgbouncer;

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{SUPERUSER, account};
use crate::places;
use crate::process::Process;
pub use installed::Optional;
pub use pgbouncer::{Bouncer, Pooling};

/// Clients that a proxy has to take at a time.
const CLIENTS: usize = 7_000;
/// The configuration's name: pg_doorman tells its format by it, the others do not care.
const CONFIGURATION: &str = "configuration.toml";

/// A proxy on loopback in front of a server that trusts everyone.
#[derive(Debug)]
pub struct Peer {
    /// What it is called.
    pub name: &'static str,
    process: Process,
    pub address: SocketAddr,
    _dir: TempDir,
}

impl Peer {
    fn start(
        name: &'static str,
        program: &Path,
        configuration: impl FnOnce(&Path, SocketAddr) -> String,
        arguments: impl FnOnce(&mut Command, &Path),
    ) -> Self {
        let (dir, address) = (account::directory(), places::free_address());
        let file = dir.path().join(CONFIGURATION);
        std::fs::write(&file, configuration(dir.path(), address)).expect("a file can be written");
        let mut command = Command::new(program);
        account::set(&mut command);
        arguments(&mut command, &file);
        let mut process = Process::start(name, &mut command, &dir.path().join("log"));
        process.wait_ready(|| TcpStream::connect(address).is_ok());
        Self { name, process, address, _dir: dir }
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
        Self::start("HAProxy", &places::need("haproxy"), configuration, |command, file| {
            command.arg("-db").arg("-f").arg(file);
        })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
