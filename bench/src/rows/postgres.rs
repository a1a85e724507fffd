//! The PostgreSQL gateway beside a direct connection, PgBouncer and HAProxy, all in front of the
//! same server, which syncs as it does by default. They take turns; the median of rounds counts.
//!
//! PgBouncer and Weir have 20 server connections for the one user and database, their defaults.

pub mod idle;
pub mod pgbench;
pub mod select;
pub mod slow;
pub mod spread;
pub mod sysbench;

use std::net::SocketAddr;

use rig::postgres::{Cluster, Peer, Pooling, Setup as Server};
use rig::weir::{Setup, Weir};

use crate::measure::Usage;
use crate::report::median;

/// Server connections of PgBouncer for a user and a database.
const POOL: usize = 20;

/// A server with room for as many clients as are measured.
pub fn server() -> Server {
    Server::new().durable().setting("max_connections", "700").setting("shared_buffers", "512MB")
}

/// Weir with one worker in front of these servers.
pub fn weir(servers: &[&Cluster], lines: &str) -> Weir {
    let mut table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n{lines}\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n"
    );
    for (number, server) in servers.iter().enumerate() {
        let backend = format!("name = \"server-{number}\"\nurl = \"{}\"\n", server.url());
        table.push_str(&format!("[[postgres.backend]]\n{backend}"));
    }
    Setup::new().top("workers = 1").table(&table).start()
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
}

impl Stand {
    /// Starts everything; `prepare` fills the server.
    pub fn start(prepare: impl FnOnce(&Cluster)) -> Self {
        let cluster = server().start();
        prepare(&cluster);
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            cluster.sql(statement);
        }
        let bouncer = Peer::pgbouncer(cluster.address, Pooling::Transaction, POOL);
        let sessions = Peer::pgbouncer(cluster.address, Pooling::Session, 600);
        let haproxy = Peer::haproxy(cluster.address);
        let weir = weir(&[&cluster], "");
        Self { cluster, bouncer, sessions, haproxy, weir }
    }

    /// Past everything.
    pub fn direct(&self) -> Way {
        Way { name: "direct", address: self.cluster.address, pid: None }
    }

    /// Through PgBouncer.
    pub fn bouncer(&self) -> Way {
        through("PgBouncer", &self.bouncer)
    }

    /// Through PgBouncer without pooling.
    pub fn sessions(&self) -> Way {
        through("PgBouncer (session)", &self.sessions)
    }

    /// Through HAProxy.
    pub fn haproxy(&self) -> Way {
        through("HAProxy", &self.haproxy)
    }

    /// Through Weir.
    pub fn weir(&mut self) -> Way {
        let pid = Some(self.weir.running().id());
        Way { name: "Weir", address: self.weir.postgres, pid }
    }
}

fn through(name: &'static str, peer: &Peer) -> Way {
    Way { name, address: peer.address, pid: Some(peer.id()) }
}

/// What was seen of one way over all rounds.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Statements or transactions a second.
    pub per_second: Vec<f64>,
    /// Microseconds of CPU time of what is in between, for each of them.
    pub cpu_us: Vec<f64>,
}

impl Seen {
    /// Notes one run: so many in all, so many a second.
    pub fn note(&mut self, count: f64, per_second: f64, usage: Option<Usage>) {
        self.per_second.push(per_second);
        if let Some(usage) = usage {
            self.cpu_us.push(usage.cpu().as_secs_f64() * 1e6 / count.max(1.0));
        }
    }

    /// The median a second.
    pub fn rate(&self) -> f64 {
        median(&self.per_second)
    }

    /// As a note.
    pub fn line(&self, name: &str, what: &str) -> String {
        let cpu = match self.cpu_us.is_empty() {
            true => String::new(),
            false => format!(", {:.1} us CPU each", median(&self.cpu_us)),
        };
        format!("{name}: {:.0} {what}/s{cpu}", self.rate())
    }
}
