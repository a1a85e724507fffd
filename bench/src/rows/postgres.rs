//! The PostgreSQL gateway beside a direct connection, PgBouncer, HAProxy and, where they are on the
//! `PATH`, a PgBouncer of today, PgDog, PgCat, pg_doorman and Odyssey, all in front of the same
//! server, which syncs as it does by default. They take turns; the median of rounds counts.
//!
//! Each has one thread that serves clients. Weir and the poolers have 20 server connections for the
//! one user and database, which is the default of Weir and of PgBouncer.

pub mod clients;
pub mod commit;
pub mod idle;
pub mod pgbench;
pub mod select;
pub mod shared;
pub mod slow;
pub mod spread;
pub mod sysbench;
pub mod workers;

use rig::postgres::{Bouncer, Cluster, Optional, Peer, Pooling, Setup as Server};
use rig::weir::{Setup, Weir};

use crate::report::{Row, unit};
use crate::rows::turns::{self, ClientRoute, RouteSamples};

/// Server connections of a pooler for a user and a database.
const POOL: usize = 20;

/// A server with room for as many clients as are measured.
pub fn server() -> Server {
    Server::new().durable().setting("max_connections", "700").setting("shared_buffers", "512MB")
}

/// Weir with so many workers in front of these servers.
pub fn weir(servers: &[&Cluster], workers: usize) -> Weir {
    setup(servers, workers).start()
}

/// The same, not started yet.
pub fn setup(servers: &[&Cluster], workers: usize) -> Setup {
    setup_with(servers, workers, "")
}

/// The same with more lines in `[postgres]`.
pub fn setup_with(servers: &[&Cluster], workers: usize, lines: &str) -> Setup {
    let mut table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n{lines}\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n"
    );
    for (number, server) in servers.iter().enumerate() {
        let backend = format!("name = \"server-{number}\"\nurl = \"{}\"\n", server.url());
        table.push_str(&format!("[[postgres.backend]]\n{backend}"));
    }
    Setup::new().top(&format!("workers = {workers}")).table(&table)
}

/// Fills a server, and leaves nothing of that to be done while it is measured.
pub fn settle(cluster: &Cluster) {
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        cluster.sql(statement);
    }
}

/// Everything in front of one server.
pub struct PostgresSetup {
    pub cluster: Cluster,
    pub bouncer: Peer,
    /// PgBouncer for prepared statements: with a server connection for each client where it knows
    /// none otherwise, as the one of Debian 12.
    pub prepared: Peer,
    pub haproxy: Peer,
    /// Those that may be on the `PATH`.
    pub installed: Vec<Optional>,
    pub weir: Weir,
}

/// The places of some among [`PostgresSetup::ways`].
pub const DIRECT: usize = 0;
/// The index of PgBouncer among the routes.
pub const BOUNCER: usize = 1;
/// The index of Weir among the routes.
pub const WEIR: usize = 2;

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By the simple query protocol.
    Simple,
    /// By a prepared statement.
    Prepared,
}

impl Mode {
    /// As pgbench has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Prepared => "prepared",
        }
    }
}

impl PostgresSetup {
    /// Starts everything; `prepare` fills the server.
    pub fn start(prepare: impl FnOnce(&Cluster)) -> Self {
        let cluster = server().start();
        prepare(&cluster);
        settle(&cluster);
        let (usual, pooling) = (Bouncer::usual(), Pooling::Transaction);
        let bouncer = Peer::pgbouncer("PgBouncer", &usual, cluster.address, pooling, POOL);
        let (name, pooling, connections) = match usual.prepares() {
            true => ("PgBouncer", Pooling::Transaction, POOL),
            false => ("PgBouncer (session)", Pooling::Session, 600),
        };
        let prepared = Peer::pgbouncer(name, &usual, cluster.address, pooling, connections);
        let haproxy = Peer::haproxy(cluster.address);
        let installed = Peer::installed(cluster.address, POOL);
        let weir = weir(&[&cluster], 1);
        Self { cluster, bouncer, prepared, haproxy, installed, weir }
    }

    /// All of them: direct, PgBouncer, Weir, HAProxy, those that are on the `PATH`.
    pub fn ways(&mut self, mode: Mode) -> Vec<ClientRoute> {
        let bouncer = match mode {
            Mode::Simple => &self.bouncer,
            Mode::Prepared => &self.prepared,
        };
        let bouncer = through(bouncer);
        let mut ways = vec![direct(&self.cluster), bouncer, self.weir(), through(&self.haproxy)];
        ways.extend(self.installed.iter().filter_map(|one| one.peer.as_ref().ok()).map(optional));
        ways
    }

    /// Why some of those that may be on the `PATH` are not measured.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        self.installed.iter().filter_map(|one| one.peer.as_ref().err().cloned())
    }

    /// A row for each of those that may be on the `PATH`: Weir's rate over its own.
    pub fn rows_over_optional(&self, figure: &str, seen: &[RouteSamples]) -> Vec<Row> {
        let row = |one: &Optional| {
            let figure = format!("{figure} / {}", one.name);
            let theirs = seen.iter().find(|seen| seen.way.name == one.name);
            match (&one.peer, theirs) {
                (Err(why), _) => Row::no_peer(figure, why),
                (Ok(_), Some(theirs)) if theirs.rate() > 0.0 => {
                    let ratio = seen[WEIR].rate() / theirs.rate();
                    Row::beside(figure, ratio, unit::RATIO).of(turns::series(seen))
                }
                (Ok(_), _) => Row::no_peer(figure, format!("{} gave no figure", one.name)),
            }
        };
        self.installed.iter().map(row).collect()
    }

    pub fn weir(&mut self) -> ClientRoute {
        of(&mut self.weir, "Weir")
    }
}

pub fn of(weir: &mut Weir, name: &'static str) -> ClientRoute {
    ClientRoute { name, address: weir.postgres, pid: Some(weir.running().id()), optional: false }
}

fn direct(cluster: &Cluster) -> ClientRoute {
    ClientRoute { name: "direct", address: cluster.address, pid: None, optional: false }
}

fn through(peer: &Peer) -> ClientRoute {
    ClientRoute { name: peer.name, address: peer.address, pid: Some(peer.id()), optional: false }
}

fn optional(peer: &Peer) -> ClientRoute {
    ClientRoute { optional: true, ..through(peer) }
}
