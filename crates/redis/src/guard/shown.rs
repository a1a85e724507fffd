//! What the guard has found, for the status, the metrics and the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use ::watch::metrics::{Counter, Encoder, Registry};
use serde::{Deserialize, Serialize};

use super::decide::Act;
use super::findings::{About, Finding};
use super::key::KeyHolder;
use crate::server_memory::{ServerMemories, ServerMemory};
use crate::settings::Mode;

/// What the guard has found, as the status shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Whether the guard only watches, or also acts.
    pub mode: Mode,
    /// The machines that servers run on.
    pub hosts: Vec<Host>,
}

/// A machine that servers run on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub host: String,
    /// Whether this Weir holds the guard's key there; absent where it does not act.
    pub key: Option<String>,
    pub servers: Vec<Server>,
}

/// A server of a machine, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    pub name: String,
    /// Where the server is, as a person is told.
    pub url: String,
    /// What is wrong with how it persists.
    pub findings: Vec<Finding>,
    /// What it says of its memory; absent where it says nothing.
    #[serde(default)]
    pub memory: Option<ServerMemory>,
    /// What it was told last, and what came of it.
    pub told: Option<String>,
}

/// What the guard has found of each host, for the status, the metrics and the log.
#[derive(Debug)]
pub struct HostStatuses {
    hosts: Mutex<BTreeMap<String, Host>>,
    registry: Registry,
    /// What servers say of their memory.
    pub memories: ServerMemories,
}

impl HostStatuses {
    /// Nothing is found yet.
    pub fn new(registry: &Registry, memories: ServerMemories) -> Arc<Self> {
        let hosts = Mutex::default();
        let shown = Arc::new(Self { hosts, registry: registry.clone(), memories });
        let of = Arc::clone(&shown);
        registry.collect(move |encoder| of.encode(encoder));
        shown
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Host>> {
        self.hosts.lock()
    }

    fn encode(&self, encoder: &mut Encoder) {
        for host in self.hosts().values() {
            for server in &host.servers {
                for about in About::ALL {
                    let is = server.findings.iter().any(|finding| finding.about == about);
                    encoder.gauge(
                        "weir_redis_guard_finding",
                        "Whether something is wrong with how a Redis server persists; `weir \
                         status` says what, and the remedy.",
                        &[("server", &server.name), ("finding", about.word())],
                        u64::from(is),
                    );
                }
            }
            if let Some(key) = &host.key {
                encoder.gauge(
                    "weir_redis_guard_holds_key",
                    "Whether this Weir holds the guard's key of a host, and so acts there.",
                    &[("host", &host.host)],
                    u64::from(key == OWN),
                );
            }
        }
    }

    /// A host was looked at; says in the log what has come and what has gone.
    pub fn put(&self, host: Host) {
        let mut hosts = self.hosts();
        let before = match host.servers.is_empty() {
            true => hosts.remove(&host.host),
            false => hosts.insert(host.host.clone(), host.clone()),
        };
        drop(hosts);
        let before = before.map(|before| before.servers).unwrap_or_default();
        for server in &host.servers {
            let of_before = before.iter().find(|before| before.name == server.name);
            log(server, of_before.map_or(&[], |before| &before.findings));
        }
    }

    /// What a server will be told is counted from 0.
    pub fn acts_on(&self, server: &str) {
        for act in Act::ALL {
            [false, true].iter().for_each(|is_done| drop(self.counter(server, act, *is_done)));
        }
    }

    /// A server has done what it was told, or not.
    pub fn count(&self, server: &str, act: Act, is_done: bool) {
        self.counter(server, act, is_done).inc();
    }

    fn counter(&self, server: &str, act: Act, is_done: bool) -> Counter {
        let name = match is_done {
            true => "weir_redis_guard_acts_total",
            false => "weir_redis_guard_failed_acts_total",
        };
        let help = match is_done {
            true => "What the guard has had Redis servers do.",
            false => "What the guard has told Redis servers to do, and they did not.",
        };
        self.registry.counter(name, help, &[("server", server), ("act", act.word())])
    }

    /// What the status has of all hosts.
    pub fn status(&self, mode: Mode) -> Status {
        Status { mode, hosts: self.hosts().values().cloned().collect() }
    }
}

const OWN: &str = "held";

/// Whose the key is, in words.
pub fn key_words(held: &KeyHolder) -> String {
    match held {
        KeyHolder::Own => OWN.to_owned(),
        KeyHolder::Others(who) => format!("held by {who}"),
        KeyHolder::Unknown(why) => format!("not held, so nothing is done: {why}"),
    }
}

fn log(server: &Server, before: &[Finding]) {
    let is_in = |about: About, all: &[Finding]| all.iter().any(|of| of.about == about);
    let name = &server.name;
    for Finding { about, words } in &server.findings {
        if is_in(*about, before) {
            continue;
        }
        match about.is_setting() {
            true => tracing::info!(server = name, finding = about.word(), "{words}"),
            false => tracing::warn!(server = name, finding = about.word(), "{words}"),
        }
    }
    for gone in before.iter().filter(|of| !is_in(of.about, &server.findings)) {
        tracing::info!(server = name, finding = gone.about.word(), "a finding is gone");
    }
}
