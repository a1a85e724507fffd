//! PgBouncer, of which there may be two: the one that Debian has, and a newer one on the `PATH`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{CLIENTS, Peer, SUPERUSER};
use crate::places;

/// From this version on it knows prepared statements when it pools transactions.
const PREPARED_SINCE: (u32, u32) = (1, 21);
/// Statements that it keeps prepared on each server connection, which is its own default of today.
const PREPARED_MAX: u32 = 200;

/// When PgBouncer's clients give up their server connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// A server connection is released when its client leaves.
    Session,
    /// A server connection is released after each transaction.
    Transaction,
}

/// A PgBouncer that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bouncer {
    pub program: PathBuf,
    version: (u32, u32),
}

impl Bouncer {
    /// The one that figures are held against: Debian's, or the first on the `PATH`.
    ///
    /// # Panics
    /// When there is none.
    pub fn usual() -> Self {
        let debian = PathBuf::from("/usr/sbin/pgbouncer");
        let program = if debian.is_file() { debian } else { places::need("pgbouncer") };
        Self { version: version(&program).unwrap_or_default(), program }
    }

    /// A newer one that knows prepared statements when it pools transactions: the newest program
    /// on the `PATH` that is called `pgbouncer`, or `pgbouncer-` and its version.
    pub fn newer() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let files = std::env::split_paths(&path).flat_map(|dir| std::fs::read_dir(dir).ok());
        let named = files.flatten().flatten().map(|entry| entry.path()).filter(|program| {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            name == "pgbouncer" || name.starts_with("pgbouncer-")
        });
        let known = named.filter_map(|p| Some(Self { version: version(&p)?, program: p }));
        let newest = known.max_by_key(|bouncer| bouncer.version)?;
        let is_newer = newest.version > Self::usual().version;
        (is_newer && newest.prepares()).then_some(newest)
    }

    /// Whether it knows prepared statements when it pools transactions.
    pub fn prepares(&self) -> bool {
        self.version >= PREPARED_SINCE
    }
}

/// The first two numbers of what it says of itself, as `PgBouncer 1.18.0`.
fn version(program: &Path) -> Option<(u32, u32)> {
    let said = Command::new(program).arg("--version").output().ok()?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let mut numbers = said.strip_prefix("PgBouncer ")?.split(['.', '\n']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Peer {
    /// PgBouncer, with so many server connections for a user and a database.
    ///
    /// # Panics
    /// When it does not start.
    pub fn pgbouncer(
        name: &'static str,
        bouncer: &Bouncer,
        server: SocketAddr,
        pooling: Pooling,
        connections: usize,
    ) -> Self {
        let mode = match pooling {
            Pooling::Session => "session",
            Pooling::Transaction => "transaction",
        };
        let prepared = match bouncer.prepares() {
            true => format!("max_prepared_statements = {PREPARED_MAX}\n"),
            false => String::new(),
        };
        let configuration = |dir: &Path, at: SocketAddr| {
            let users = dir.join("users");
            std::fs::write(&users, format!("\"{SUPERUSER}\" \"\"\n")).expect("a file");
            format!(
                "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = {}\n\
                 listen_port = {}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
                 admin_users = {SUPERUSER}\n{prepared}\
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
        Self::start(name, &bouncer.program, configuration, |command, file| {
            command.arg(file);
        })
    }
}
