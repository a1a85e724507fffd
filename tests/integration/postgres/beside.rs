//! Clients through Weir that come to have the same server connection, one after another, and one
//! that asks the server directly.

use std::net::SocketAddr;

use rig::postgres::{Cluster, MessageClient, Reply, SUPERUSER};
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::{put_bind, put_execute, put_parse, put_sync};

use super::scene::{table, weir};

/// One server connection for each user: whoever asks has the one that somebody else had. A lane
/// would keep it for up to two seconds.
pub const ONE: &str = "pool.size = 1\nlanes.on = false";

/// A server with something in it, and Weir in front of it.
pub struct Beside {
    pub cluster: Cluster,
    pub weir: Weir,
}

impl Beside {
    /// With these contents, and these lines in `[postgres]`.
    pub fn new(contents: &str, lines: &str) -> Self {
        let cluster = Cluster::start();
        cluster.sql(contents);
        Self { weir: weir(&[&cluster], lines), cluster }
    }

    /// The same, with the server to be found at this address.
    pub fn at(address: SocketAddr, cluster: Cluster, lines: &str) -> Self {
        let own = cluster.address.to_string();
        let table = table(&[&cluster], lines).replace(&own, &address.to_string());
        Self { weir: Setup::new().table(&table).start(), cluster }
    }

    /// A client through Weir.
    pub fn through(&self) -> MessageClient {
        connect(self.weir.postgres, SUPERUSER, &[])
    }

    /// The same of another user, with more to say at its start.
    pub fn through_as(&self, user: &str, parameters: &[(&str, &str)]) -> MessageClient {
        connect(self.weir.postgres, user, parameters)
    }

    /// A client without Weir.
    pub fn directly(&self) -> MessageClient {
        connect(self.cluster.address, SUPERUSER, &[])
    }

    /// The same of another user.
    pub fn directly_as(&self, user: &str, parameters: &[(&str, &str)]) -> MessageClient {
        connect(self.cluster.address, user, parameters)
    }
}

fn connect(address: SocketAddr, user: &str, more: &[(&str, &str)]) -> MessageClient {
    let mut parameters = vec![("user", user), ("database", SUPERUSER)];
    parameters.extend(more);
    MessageClient::connect(address, &parameters).expect("it is let in")
}

/// What is answered to a statement without a name, as drivers send it with parameters.
pub fn extended(peer: &mut MessageClient, sql: &str, values: &[&str]) -> Reply {
    let mut out = Vec::new();
    put_parse(&mut out, b"", sql.as_bytes(), &[]);
    put_bound(&mut out, "", values);
    peer.send(&out).expect("it is taken");
    peer.reply().expect("it is answered")
}

/// Appends what runs a prepared statement, to the end of the round.
pub fn put_bound(out: &mut Vec<u8>, name: &str, values: &[&str]) {
    let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
    put_bind(out, b"", name.as_bytes(), &values);
    put_execute(out, b"", 0);
    put_sync(out);
}

/// Prepares a statement under a name.
pub fn prepare(peer: &mut MessageClient, name: &str, sql: &str) {
    let mut out = Vec::new();
    put_parse(&mut out, name.as_bytes(), sql.as_bytes(), &[]);
    put_sync(&mut out);
    peer.send(&out).expect("it is taken");
    let reply = peer.reply().expect("it is answered");
    assert_eq!(reply.error, None, "{sql}");
}

/// Runs what it has prepared.
pub fn run(peer: &mut MessageClient, name: &str, values: &[&str]) -> Reply {
    let mut out = Vec::new();
    put_bound(&mut out, name, values);
    peer.send(&out).expect("it is taken");
    peer.reply().expect("it is answered")
}
