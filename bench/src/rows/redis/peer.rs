//! Other proxies for Redis, each with one thread, in front of servers that they place keys on by
//! name, as Weir does: nutcracker (twemproxy), and those that may be on the `PATH`.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use rig::places;
use rig::process::Process;
use rig::redis::Redis;
use tempfile::TempDir;

use crate::Outcome;
use crate::rows::turns::ClientRoute;

/// Names and programs of those that are measured where they are installed.
pub const OPTIONAL: [(&str, &str); 2] = [("Envoy", "envoy"), ("predixy", "predixy")];

pub struct Peer {
    _process: Process,
    way: ClientRoute,
    _dir: TempDir,
}

impl Peer {
    /// nutcracker with its defaults.
    ///
    /// # Errors
    /// When its configuration can't be written.
    pub fn nutcracker(servers: &[Redis]) -> Outcome<Self> {
        let address = places::free_address();
        let file = nutcracker_yml(address, servers)?;
        let stats = places::free_address().port().to_string();
        Self::start("nutcracker", "nutcracker", address, &file, |command, file| {
            command.arg("-c").arg(file).args(["-a", "127.0.0.1", "-v", "4", "-s", &stats]);
        })
    }

    /// One of [`OPTIONAL`]; `None` where it is not on the `PATH`.
    ///
    /// # Errors
    /// When its configuration can't be written.
    pub fn optional(name: &'static str, program: &str, servers: &[Redis]) -> Outcome<Option<Self>> {
        if places::find(program).is_none() {
            return Ok(None);
        }
        let address = places::free_address();
        let mut peer = match program {
            "envoy" => {
                let file = envoy_yaml(address, servers)?;
                Self::start(name, program, address, &file, |command, file| {
                    command.arg("-c").arg(file).args(["--concurrency", "1", "-l", "error"]);
                    command.args(["--use-dynamic-base-id", "--disable-hot-restart"]);
                })?
            }
            _ => {
                let file = predixy_conf(address, servers)?;
                Self::start(name, program, address, &file, |command, file| {
                    command.arg(file);
                })?
            }
        };
        peer.way.optional = true;
        Ok(Some(peer))
    }

    pub fn way(&self) -> ClientRoute {
        self.way
    }

    fn start(
        name: &'static str,
        program: &str,
        address: SocketAddr,
        configuration: &str,
        arguments: impl FnOnce(&mut Command, &Path),
    ) -> Outcome<Self> {
        let dir = places::directory();
        let file = dir.path().join(match program {
            // By the name's end it tells YAML from JSON.
            "envoy" => "envoy.yaml",
            _ => "configuration",
        });
        std::fs::write(&file, configuration)?;
        let mut command = Command::new(places::need(program));
        arguments(&mut command, &file);
        let mut process = Process::start(program, &mut command, &dir.path().join("log"));
        process.wait_ready(|| TcpStream::connect(address).is_ok());
        let way = ClientRoute { name, address, pid: Some(process.id()), optional: false };
        Ok(Self { _process: process, way, _dir: dir })
    }
}

fn nutcracker_yml(address: SocketAddr, servers: &[Redis]) -> Outcome<String> {
    let mut pool = format!(
        "bench:\n  listen: {address}\n  redis: true\n  distribution: ketama\n  hash: fnv1a_64\n\
         \x20 preconnect: true\n  backlog: 4096\n  servers:\n"
    );
    for (number, server) in servers.iter().enumerate() {
        writeln!(pool, "   - {}:1 server-{number}", server.address)?;
    }
    Ok(pool)
}

/// As its own pages configure it: a ring, and commands that are sent as they come.
fn envoy_yaml(address: SocketAddr, servers: &[Redis]) -> Outcome<String> {
    let socket = |of: SocketAddr| {
        format!("{{ socket_address: {{ address: {}, port_value: {} }} }}", of.ip(), of.port())
    };
    let filter = "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy";
    let mut yaml = format!(
        "static_resources:\n  listeners:\n  - address: {}\n    filter_chains:\n    - filters:\n\
         \x20     - name: envoy.filters.network.redis_proxy\n        typed_config:\n\
         \x20         \"@type\": {filter}\n          stat_prefix: bench\n\
         \x20         settings: {{ op_timeout: 5s }}\n\
         \x20         prefix_routes: {{ catch_all_route: {{ cluster: bench }} }}\n\
         \x20 clusters:\n  - name: bench\n    type: STATIC\n    lb_policy: RING_HASH\n\
         \x20   load_assignment:\n      cluster_name: bench\n      endpoints:\n\
         \x20     - lb_endpoints:\n",
        socket(address)
    );
    for server in servers {
        writeln!(yaml, "        - endpoint: {{ address: {} }}", socket(server.address))?;
    }
    Ok(yaml)
}

/// One thread, one group for each server, keys by the hash and the ring of twemproxy's defaults.
fn predixy_conf(address: SocketAddr, servers: &[Redis]) -> Outcome<String> {
    let mut conf = format!(
        "Name bench\nBind {address}\nWorkerThreads 1\nClientTimeout 0\n\
         Authority {{\n    Auth {{\n        Mode write\n    }}\n}}\n\
         StandaloneServerPool {{\n    RefreshMethod fixed\n    Databases 1\n    Hash crc16\n\
         \x20   Distribution modula\n    ServerFailureLimit 10\n    ServerRetryTimeout 1\n"
    );
    for (number, server) in servers.iter().enumerate() {
        writeln!(conf, "    Group server-{number} {{\n        + {}\n    }}", server.address)?;
    }
    conf.push_str("}\n");
    Ok(conf)
}
