//! The PostgreSQL gateway beside a direct connection, PgBouncer, HAProxy and, where they are on the
//! `PATH`, PgDog, PgCat and Odyssey, all in front of the same server, which syncs as it does by
//! default. They take turns; the median of rounds counts.
//!
//! Each has one thread that serves clients. Weir and the poolers have 20 server connections for the
//! one user and database, which is the default of Weir and of PgBouncer.

pub mod idle;
pub mod pgbench;
pub mod select;
pub mod slow;
pub mod spread;
pub mod sysbench;
pub mod turns;
pub mod workers;

use std::net::SocketAddr;

use rig::postgres::{Cluster, Peer, Pooling, Setup as Server};
use rig::weir::{Setup, Weir};

/// Server connections of a pooler for a user and a database.
const POOL: usize = 20;

/// A server with room for as many clients as are measured.
pub fn server() -> Server {
    Server::new().durable().setting("max_connections", "700").setting("shared_buffers", "512MB")
}

/// Weir with so many workers in front of these servers.
pub fn weir(servers: &[&Cluster], workers: usize) -> Weir {
    let mut table = "[postgres]\nlisten = \"{postgres}\"\n\
                     [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n"
        .to_owned();
    for (number, server) in servers.iter().enumerate() {
        let backend = format!("name = \"server-{number}\"\nurl = \"{}\"\n", server.url());
        table.push_str(&format!("[[postgres.backend]]\n{backend}"));
    }
    Setup::new().top(&format!("workers = {workers}")).table(&table).start()
}

/// Fills a server, and leaves nothing of that to be done while it is measured.
pub fn settle(cluster: &Cluster) {
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        cluster.sql(statement);
    }
}

/// Everything in front of one server.
pub struct Stand {
    /// The server.
    pub cluster: Cluster,
    /// PgBouncer, pooling transactions.
    pub bouncer: Peer,
    /// PgBouncer with a server connection for each client: the one of Debian 12 knows no prepared
    /// statements otherwise.
    pub sessions: Peer,
    /// HAProxy.
    pub haproxy: Peer,
    /// Those that are on the `PATH`.
    pub installed: Vec<Peer>,
    /// Those that are not, as notes.
    pub missing: Vec<String>,
    /// Weir.
    pub weir: Weir,
}

/// A way to the server.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// What the notes call it.
    pub name: &'static str,
    /// Where clients connect.
    pub address: SocketAddr,
    /// The process in between.
    pub pid: Option<u32>,
    /// The row does without it where it fails.
    pub optional: bool,
}

/// The places of some among [`Stand::ways`].
pub const DIRECT: usize = 0;
/// PgBouncer's.
pub const BOUNCER: usize = 1;
/// Weir's.
pub const WEIR: usize = 2;

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As text.
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

impl Stand {
    /// Starts everything; `prepare` fills the server.
    pub fn start(prepare: impl FnOnce(&Cluster)) -> Self {
        let cluster = server().start();
        prepare(&cluster);
        settle(&cluster);
        let bouncer = Peer::pgbouncer(cluster.address, Pooling::Transaction, POOL);
        let sessions = Peer::pgbouncer(cluster.address, Pooling::Session, 600);
        let haproxy = Peer::haproxy(cluster.address);
        let (installed, missing) = Peer::installed(cluster.address, POOL);
        let weir = weir(&[&cluster], 1);
        Self { cluster, bouncer, sessions, haproxy, installed, missing, weir }
    }

    /// All of them: direct, PgBouncer, Weir, HAProxy, those that are on the `PATH`.
    pub fn ways(&mut self, mode: Mode) -> Vec<Way> {
        let bouncer = match mode {
            Mode::Simple => &self.bouncer,
            Mode::Prepared => &self.sessions,
        };
        let bouncer = through(bouncer);
        let mut ways = vec![self.direct(), bouncer, self.weir(), through(&self.haproxy)];
        ways.extend(self.installed.iter().map(optional));
        ways
    }

    /// Past everything.
    fn direct(&self) -> Way {
        Way { name: "direct", address: self.cluster.address, pid: None, optional: false }
    }

    /// Through Weir.
    pub fn weir(&mut self) -> Way {
        of(&mut self.weir, "Weir")
    }
}

/// Through a Weir.
pub fn of(weir: &mut Weir, name: &'static str) -> Way {
    Way { name, address: weir.postgres, pid: Some(weir.running().id()), optional: false }
}

fn through(peer: &Peer) -> Way {
    Way { name: peer.name, address: peer.address, pid: Some(peer.id()), optional: false }
}

fn optional(peer: &Peer) -> Way {
    Way { optional: true, ..through(peer) }
}
