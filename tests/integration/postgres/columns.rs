//! Tables of the console beside those of PgBouncer: who reads them by their columns goes on.

use pg::{NoTls, SimpleQueryMessage};
use rig::postgres::{Bouncer, Cluster, Peer, Pooling, SUPERUSER};

use super::scene::{config, console, weir};

/// What Debian's PgBouncer shows that there is nothing to show of here.
const NOT_HERE: [&str; 1] = ["fds"];

/// What later versions have under another name, as Weir has it.
const RENAMED: [(&str, &str); 1] = [("reserve_pool", "reserve_pool_size")];

fn columns(client: &mut pg::Client, table: &str) -> Option<Vec<String>> {
    let answer = client.simple_query(&format!("SHOW {table}")).ok()?;
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::RowDescription(columns) => {
            Some(columns.iter().map(|column| column.name().to_owned()).collect())
        }
        _ => None,
    })
}

#[test]
fn every_column_that_pgbouncer_has_is_there_in_its_order() {
    let cluster = Cluster::start();
    let (usual, pooling) = (Bouncer::usual(), Pooling::Transaction);
    let peer = Peer::pgbouncer("PgBouncer", &usual, cluster.address, pooling, 5);
    let weir = weir(&[&cluster], "");
    let mut theirs = config(peer.address, SUPERUSER, "pgbouncer").connect(NoTls).expect("let in");
    let mut ours = console(&weir);
    let mut compared = 0;
    for table in [
        "active_sockets",
        "clients",
        "config",
        "databases",
        "dns_hosts",
        "dns_zones",
        "fds",
        "lists",
        "mem",
        "pools",
        "servers",
        "sockets",
        "state",
        "stats",
        "stats_averages",
        "stats_totals",
        "totals",
        "users",
        "version",
    ] {
        let Some(wanted) = columns(&mut theirs, table) else { continue };
        if NOT_HERE.contains(&table) {
            continue;
        }
        compared += 1;
        let have = columns(&mut ours, table).unwrap_or_else(|| panic!("SHOW {table} is shown"));
        let mut rest = have.iter();
        for column in &wanted {
            let renamed = RENAMED.iter().find(|(known, _)| known == column);
            let column = renamed.map_or(column.as_str(), |(_, now)| now);
            let is_there = rest.any(|of| of == column);
            assert!(is_there, "SHOW {table}: {column} of {wanted:?} in {have:?}");
        }
    }
    assert!(compared >= 15, "{compared} tables were compared");
}
