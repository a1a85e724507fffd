//! `INFO`: what Weir says of itself, in the fields that a server has for the same.

use wire::resp::{Command, put_verbatim};

use super::console::clients;
use super::{Asking, Session};
use crate::console::rows::ClientRow;
use crate::front::Front;

/// All there is, in a server's order.
const SECTIONS: [Section; 5] = [
    Section { name: "Server", fields: server },
    Section { name: "Clients", fields: of_clients },
    Section { name: "Stats", fields: stats },
    Section {
        name: "Replication",
        fields: |_, _| fields([("role", &"master"), ("connected_slaves", &0)]),
    },
    Section { name: "Cluster", fields: |_, _| fields([("cluster_enabled", &0)]) },
];

struct Section {
    name: &'static str,
    fields: fn(&Front, &[ClientRow]) -> String,
}

impl Session {
    /// `INFO`, with the names of sections or without any.
    pub(super) fn info(&self, command: &Command<'_>, client: &Asking) {
        let version = self.version;
        let words: Vec<String> = command
            .iter()
            .skip(1)
            .map(|word| String::from_utf8_lossy(word).to_lowercase())
            .collect();
        let has_all = words.is_empty()
            || words.iter().any(|word| ["all", "default", "everything"].contains(&word.as_str()));
        let is_wanted = move |section: &Section| {
            has_all || words.iter().any(|word| word.eq_ignore_ascii_case(section.name))
        };
        self.ask_workers(client, move |front| async move {
            let all = clients(&front.shared).await;
            let wanted = SECTIONS.iter().filter(|section| is_wanted(section));
            let told = wanted.map(|of| format!("# {}\r\n{}", of.name, (of.fields)(&front, &all)));
            let mut out = Vec::new();
            put_verbatim(&mut out, &told.collect::<Vec<_>>().join("\r\n"), version);
            out
        });
    }
}

fn fields<const N: usize>(all: [(&str, &dyn std::fmt::Display); N]) -> String {
    all.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
}

fn server(front: &Front, _: &[ClientRow]) -> String {
    let release = front.shared.fleet.release();
    let own = release.valkey.as_ref().map(|version| format!("valkey_version:{version}\r\n"));
    let of_weir = fields([
        ("redis_version", &release.redis),
        ("redis_mode", &"standalone"),
        ("server_name", &"weir"),
        ("weir_version", &env!("CARGO_PKG_VERSION")),
        ("arch_bits", &64),
        ("process_id", &std::process::id()),
        ("weir_backends", &front.holders().len()),
    ]);
    own.unwrap_or_default() + &of_weir
}

fn of_clients(_: &Front, all: &[ClientRow]) -> String {
    let count = |is: fn(&ClientRow) -> bool| all.iter().filter(|of| is(of)).count();
    fields([
        ("connected_clients", &all.len()),
        ("blocked_clients", &count(|of| of.figures.waits_for_others || of.figures.is_paused)),
        ("tracking_clients", &count(|of| of.tracks)),
        ("pubsub_clients", &count(|of| of.kind() == "pubsub")),
        ("watching_clients", &count(|of| of.watches)),
    ])
}

fn stats(front: &Front, _: &[ClientRow]) -> String {
    let of = &front.metrics;
    let all = [&of.ridden, &of.leased, &of.split, &of.answered, &of.refused];
    fields([("total_commands_processed", &all.iter().map(|counter| counter.get()).sum::<u64>())])
}
