//! Poolers that Debian has no package of. What is not said here is as they have it by default.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::{Bouncer, CLIENTS, Peer, Pooling, SUPERUSER};
use crate::places;

/// What they and their programs are called.
const ALL: [(&str, &str); 4] =
    [("PgDog", "pgdog"), ("PgCat", "pgcat"), ("pg_doorman", "pg_doorman"), ("Odyssey", "odyssey")];
/// What a PgBouncer is called that knows prepared statements when it pools transactions, where
/// Debian's does not.
const NEWER_BOUNCER: &str = "PgBouncer 1.21+";

/// A pooler that may be installed.
#[derive(Debug)]
pub struct Optional {
    /// What it is called.
    pub name: &'static str,
    /// It, running, or why it is not.
    pub peer: Result<Peer, String>,
}

/// The file beside PgDog's configuration that names its users.
const USERS: &str = "users.toml";

impl Peer {
    /// PgBouncer of today beside Debian's, PgDog, PgCat, pg_doorman and Odyssey as far as they are
    /// on the `PATH`, each pooling transactions over so many server connections for a user and a
    /// database, with prepared statements. What a version of them does not take is no fault here.
    pub fn installed(server: SocketAddr, connections: usize) -> Vec<Optional> {
        let bouncer = match Bouncer::newer() {
            None => Err(format!("no {NEWER_BOUNCER} is on the PATH beside the usual one")),
            Some(newer) => started(NEWER_BOUNCER, || {
                let pooling = Pooling::Transaction;
                Self::pgbouncer(NEWER_BOUNCER, &newer, server, pooling, connections)
            }),
        };
        let others = ALL.map(|(name, program)| {
            let peer = match places::find(program) {
                None => Err(format!("{name} is not on the PATH")),
                Some(found) => {
                    started(name, || Self::installed_as(name, &found, server, connections))
                }
            };
            Optional { name, peer }
        });
        let bouncer = Optional { name: NEWER_BOUNCER, peer: bouncer };
        std::iter::once(bouncer).chain(others).collect()
    }

    fn installed_as(
        name: &'static str,
        program: &Path,
        server: SocketAddr,
        connections: usize,
    ) -> Self {
        let configuration = |dir: &Path, at| match name {
            "PgDog" => pgdog(dir, at, server, connections),
            "PgCat" => pgcat(at, server, connections),
            "pg_doorman" => pg_doorman(at, server, connections),
            _ => odyssey(dir, at, server, connections),
        };
        Self::start(name, program, configuration, |command, file| match name {
            "PgDog" => {
                command.arg("--config").arg(file);
                command.arg("--users").arg(file.with_file_name(USERS));
            }
            _ => {
                command.arg(file);
            }
        })
    }
}

fn started(name: &str, start: impl FnOnce() -> Peer) -> Result<Peer, String> {
    catch_unwind(AssertUnwindSafe(start)).map_err(|_| format!("{name} does not start"))
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

fn pg_doorman(at: SocketAddr, server: SocketAddr, connections: usize) -> String {
    format!(
        "[general]\nhost = \"{}\"\nport = {}\nworker_threads = 1\nmax_connections = {CLIENTS}\n\
         admin_username = \"admin\"\nadmin_password = \"admin\"\n\
         log_client_connections = false\nlog_client_disconnections = false\n\
         pg_hba = \"host all all 0.0.0.0/0 trust\"\n\
         [pools.{SUPERUSER}]\nserver_host = \"{}\"\nserver_port = {}\n\
         pool_mode = \"transaction\"\n\
         [pools.{SUPERUSER}.users.0]\nusername = \"{SUPERUSER}\"\npassword = \"\"\n\
         pool_size = {connections}\n",
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
