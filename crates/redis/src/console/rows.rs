//! What one worker gives of itself to be shown.

use std::net::SocketAddr;
use std::time::Duration;

use crate::desk::{BigKey, HotKey};

/// What is wanted of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// Lanes, and connections to servers.
    Lanes,
    /// A row for each client.
    Clients,
    /// Keys that were sampled.
    Keys,
}

/// A worker's part of what is shown.
#[derive(Debug, Default)]
pub struct WorkerRows {
    pub lanes: Vec<LaneRow>,
    /// Its connections to servers.
    pub connections: Vec<ConnectionsRow>,
    pub clients: Vec<ClientRow>,
    /// Hot keys, each with its server's name.
    pub hot: Vec<(HotKey, String)>,
    pub big: Vec<BigKey>,
}

/// A row of `WEIR SHOW LANES`.
#[derive(Debug)]
pub struct LaneRow {
    /// The number of the worker that has it.
    pub worker: usize,
    /// The name of the server.
    pub server: String,
    /// As whom it is logged in; `None`: as Weir itself.
    pub user: Option<String>,
    pub database: u32,
    /// The version of RESP, 2 or 3.
    pub resp: u64,
    /// Commands that are not answered.
    pub in_flight: usize,
    /// Bytes that its server has not taken.
    pub unsent: usize,
    /// For how long its server has had the command at the head to itself.
    pub head: Duration,
    /// For how long it is open.
    pub age: Duration,
}

/// A worker's connections to one server.
#[derive(Debug)]
pub struct ConnectionsRow {
    /// The name of the server.
    pub server: String,
    /// Those that are in use, by lanes too.
    pub active: usize,
    /// Those that are not.
    pub idle: usize,
    /// Clients that wait for one.
    pub waiting: usize,
}

/// A row of `WEIR SHOW CLIENTS`.
#[derive(Debug, Clone)]
pub struct ClientRow {
    /// Its number in the process.
    pub id: u64,
    /// Where it comes from; `None`: over a Unix socket.
    pub from: Option<SocketAddr>,
    /// The same, as a server shows it.
    pub address: String,
    /// Where it has come to, as a server shows it.
    pub local_address: String,
    /// What `CLIENT SETNAME` has set.
    pub name: String,
    /// What `CLIENT SETINFO` has set: the name and the version of the client's library.
    pub library: [String; 2],
    /// The user it has logged in as.
    pub user: Option<String>,
    /// The number of its database (`SELECT`).
    pub database: u32,
    /// The version of RESP, 2 or 3.
    pub resp: u64,
    /// For how long it is connected.
    pub age: Duration,
    /// For how long it has sent no command.
    pub idle: Duration,
    /// Commands that it has sent.
    pub commands: u64,
    /// The last of them.
    pub last: &'static str,
    /// It is within `MULTI`.
    pub in_multi: bool,
    /// It has keys under `WATCH`.
    pub watches: bool,
    /// It watches all commands.
    pub monitors: bool,
    /// It is told of keys that others change.
    pub tracks: bool,
    /// Its subscriptions, by their kinds.
    pub subscriptions: [usize; 3],
    /// How its requests stand.
    pub figures: flow::service::ClientFigures,
}

impl ClientRow {
    /// Its flags, as `CLIENT LIST` has them.
    pub fn flags(&self) -> String {
        let all = [
            ('O', self.monitors),
            ('P', self.subscriptions.iter().sum::<usize>() > 0),
            ('x', self.in_multi),
            ('b', self.figures.waits_for_others),
            ('t', self.tracks),
            ('U', self.from.is_none()),
        ];
        let flags: String = all.iter().filter(|(_, is)| *is).map(|(flag, _)| *flag).collect();
        if flags.is_empty() { "N".to_owned() } else { flags }
    }

    /// Its kind, as `CLIENT KILL TYPE` has it.
    pub fn kind(&self) -> &'static str {
        if self.subscriptions.iter().sum::<usize>() > 0 { "pubsub" } else { "normal" }
    }

    /// Its line of `CLIENT LIST`, without its end.
    pub fn line(&self) -> String {
        let [channels, patterns, shards] = self.subscriptions;
        let [library, version] = &self.library;
        format!(
            "id={} addr={} laddr={} name={} age={} idle={} flags={} db={} sub={channels} \
             psub={patterns} ssub={shards} multi={} tot-cmds={} pending={} omem={} lease={} \
             cmd={} user={} resp={} lib-name={library} lib-ver={version}",
            self.id,
            self.address,
            self.local_address,
            self.name,
            self.age.as_secs(),
            self.idle.as_secs(),
            self.flags(),
            self.database,
            if self.in_multi { 0 } else { -1 },
            self.commands,
            self.figures.unanswered,
            self.figures.unread + self.figures.waiting,
            u8::from(self.figures.is_holding),
            self.last.to_ascii_lowercase(),
            self.user.as_deref().unwrap_or("(none)"),
            self.resp,
        )
    }
}
