//! Poolers that Debian has no package of. What is not said here is as they have it by default.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::{CLIENTS, Peer, SUPERUSER};
use crate::places;

/// What they and their programs are called.
const ALL: [(&str, &str); 3] = [("PgDog", "pgdog"), ("PgCat", "pgcat"), ("Odyssey", "odyssey")];

/// The file beside PgDog's configuration that names its users.
const USERS: &str = "users.toml";

impl Peer {
    /// Those of PgDog, PgCat and Odyssey that are on the `PATH`, each pooling transactions over so
    /// many server connections for a user and a database, with prepared statements; and, of the
    /// others, what they are called and why they are not there. What a version of them does not
    /// take is no fault here.
    pub fn installed(server: SocketAddr, connections: usize) -> (Vec<Self>, Vec<String>) {
        let (mut started, mut missing) = (Vec::new(), Vec::new());
        for (name, program) in ALL {
            if places::find(program).is_none() {
                missing.push(format!("{name} is not on the PATH"));
                continue;
            }
            let start = || Self::installed_as(name, program, server, connections);
            match catch_unwind(AssertUnwindSafe(start)) {
                Ok(peer) => started.push(peer),
                Err(_) => missing.push(format!("{name} does not start")),
            }
        }
        (started, missing)
    }

    fn installed_as(
        name: &'static str,
        program: &str,
        server: SocketAddr,
        connections: usize,
    ) -> Self {
        let configuration = |dir: &Path, at| match program {
            "pgdog" => pgdog(dir, at, server, connections),
            "pgcat" => pgcat(at, server, connections),
            _ => odyssey(dir, at, server, connections),
        };
        Self::start(name, program, configuration, |command, file| match program {
            "pgdog" => {
                command.arg("--config").arg(file);
                command.arg("--users").arg(file.with_file_name(USERS));
            }
            _ => {
                command.arg(file);
            }
        })
    }
}

fn pgdog(dir: &Path, at: SocketAddr, server: SocketAddr, connections: usize) -> String {
    let user = format!("[[users]]\nname = \"{SUPERUSER}\"\ndatabase = \"{SUPERUSER}\"\n");
    let users = format!("{user}password = \"{SUPERUSER}\"\n");
    std::fs::write(dir.join(USERS), users).expect("a file can be written");
    format!(
        "[general]\nhost = \"{}\"\nport = {}\nworkers = 1\nauth_type = \"trust\"\n\
         default_pool_size = {connections}\npooler_mode = \"transaction\"\n\
         [[databases]]\nname = \"{SUPERUSER}\"\nhost = \"{}\"\nport = {}\n",
        at.ip(),
        at.port(),
        server.ip(),
        server.port()
    )
}

fn pgcat(at: SocketAddr, server: SocketAddr, connections: usize) -> String {
    format!(
        "[general]\nhost = \"{}\"\nport = {}\nworker_threads = 1\n\
         admin_username = \"admin\"\nadmin_password = \"admin\"\n\
         [pools.{SUPERUSER}]\npool_mode = \"transaction\"\nprepared_statements_cache_size = 500\n\
         [pools.{SUPERUSER}.users.0]\nusername = \"{SUPERUSER}\"\nauth_type = \"trust\"\n\
         password = \"{SUPERUSER}\"\npool_size = {connections}\n\
         [pools.{SUPERUSER}.shards.0]\ndatabase = \"{SUPERUSER}\"\n\
         servers = [[\"{}\", {}, \"primary\"]]\n",
        at.ip(),
        at.port(),
        server.ip(),
        server.port()
    )
}

fn odyssey(dir: &Path, at: SocketAddr, server: SocketAddr, connections: usize) -> String {
    format!(
        "daemonize no\nlocks_dir \"{}\"\nlog_format \"%p %t %l (%c) %m\\n\"\nlog_to_stdout yes\n\
         log_session no\nlog_stats no\nworkers 1\nclient_max {CLIENTS}\n\
         listen {{\n  host \"{}\"\n  port {}\n  backlog 4096\n}}\n\
         storage \"server\" {{\n  type \"remote\"\n  host \"{}\"\n  port {}\n}}\n\
         database default {{\n  user default {{\n    authentication \"none\"\n    \
         storage \"server\"\n    pool \"transaction\"\n    pool_size {connections}\n    \
         pool_reserve_prepared_statement yes\n    pool_discard no\n  }}\n}}\n",
        dir.display(),
        at.ip(),
        at.port(),
        server.ip(),
        server.port()
    )
}
