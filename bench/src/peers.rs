//! The peers, each configured as its users would.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use rig::influxd::Influxd;
use rig::places::{directory, find, free_address};
use rig::process::Process;

use crate::sink::Sink;

/// A running peer.
pub struct Peer {
    /// How it is printed.
    pub name: &'static str,
    /// Where writes go.
    pub address: SocketAddr,
    /// Its process, for CPU time.
    pub pid: u32,
    /// What ends with it.
    _parts: Parts,
}

#[expect(dead_code, reason = "held so that the processes live as long as the peer")]
struct Parts {
    process: Option<Process>,
    influxd: Option<Influxd>,
    sinks: Vec<Sink>,
    dir: tempfile::TempDir,
}

fn started(
    name: &'static str,
    address: SocketAddr,
    mut process: Process,
    sinks: Vec<Sink>,
    dir: tempfile::TempDir,
) -> Peer {
    process.wait_ready(|| TcpStream::connect(address).is_ok());
    let pid = process.id();
    Peer { name, address, pid, _parts: Parts { process: Some(process), influxd: None, sinks, dir } }
}

/// nginx with one worker and an empty 204: what HTTP costs.
pub fn nginx() -> Option<Peer> {
    let program = find("nginx")?;
    let (dir, address) = (directory(), free_address());
    let at = dir.path().display();
    let config = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid {at}/pid;\nerror_log {at}/error;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {at}/body; \
         proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; \
         scgi_temp_path {at}/scgi;\n\
         server {{ listen {address}; location / {{ return 204; }} }} }}\n"
    );
    let file = dir.path().join("nginx.conf");
    std::fs::write(&file, config).expect("a temporary directory can be written");
    let mut command = Command::new(program);
    command.arg("-p").arg(dir.path()).arg("-c").arg(&file);
    let process = Process::start("nginx", &mut command, &dir.path().join("log"));
    Some(started("nginx 204", address, process, Vec::new(), dir))
}

/// InfluxDB itself, with the database made.
pub fn influxdb() -> Option<Peer> {
    find("influxd")?;
    let influxd = Influxd::start();
    influxd.create("bench");
    let (address, pid) = (influxd.address, influxd.id()?);
    let parts =
        Parts { process: None, influxd: Some(influxd), sinks: Vec::new(), dir: directory() };
    Some(Peer { name: "InfluxDB", address, pid, _parts: parts })
}

/// vmagent with two remote-write targets, its queue on the disk as by default.
pub fn vmagent() -> Option<Peer> {
    let program = find("vmagent")?;
    let (dir, address) = (directory(), free_address());
    let sinks = vec![Sink::start(), Sink::start()];
    let mut command = Command::new(program);
    command.arg(format!("-httpListenAddr={address}"));
    command.arg(format!("-remoteWrite.tmpDataPath={}", dir.path().join("queue").display()));
    for sink in &sinks {
        command.arg(format!("-remoteWrite.url={}/api/v1/write", sink.url()));
    }
    let process = Process::start("vmagent", &mut command, &dir.path().join("log"));
    Some(started("vmagent", address, process, sinks, dir))
}

/// influxdb-relay with two HTTP outputs.
pub fn relay() -> Option<Peer> {
    let program = find("influxdb-relay")?;
    let (dir, address) = (directory(), free_address());
    let sinks = vec![Sink::start(), Sink::start()];
    let outputs: Vec<String> = sinks
        .iter()
        .enumerate()
        .map(|(n, sink)| format!("{{ name = \"s{n}\", location = \"{}/write\" }}", sink.url()))
        .collect();
    let config = format!(
        "[[http]]\nname = \"bench\"\nbind-addr = \"{address}\"\noutput = [{}]\n",
        outputs.join(", ")
    );
    let file = dir.path().join("relay.toml");
    std::fs::write(&file, config).expect("a temporary directory can be written");
    let mut command = Command::new(program);
    command.arg("-config").arg(&file);
    let process = Process::start("influxdb-relay", &mut command, &dir.path().join("log"));
    Some(started("influxdb-relay", address, process, sinks, dir))
}

/// Telegraf with its InfluxDB listener and two outputs.
pub fn telegraf() -> Option<Peer> {
    let program = find("telegraf")?;
    let (dir, address) = (directory(), free_address());
    let sinks = vec![Sink::start(), Sink::start()];
    let mut config = format!(
        "[agent]\nomit_hostname = true\nmetric_batch_size = 5000\nmetric_buffer_limit = 1000000\n\
         [[inputs.influxdb_listener]]\nservice_address = \"{address}\"\n"
    );
    for sink in &sinks {
        config.push_str(&format!(
            "[[outputs.influxdb]]\nurls = [{:?}]\ndatabase = \"bench\"\nskip_database_creation = true\n",
            sink.url()
        ));
    }
    let file = dir.path().join("telegraf.conf");
    std::fs::write(&file, config).expect("a temporary directory can be written");
    let mut command = Command::new(program);
    command.arg("--config").arg(&file);
    let process = Process::start("telegraf", &mut command, &dir.path().join("log"));
    Some(started("Telegraf", address, process, sinks, dir))
}

/// influx-proxy (chengshiwen's) with one circle for each of two backends.
pub fn influx_proxy() -> Option<Peer> {
    let program = find("influx-proxy")?;
    let (dir, address) = (directory(), free_address());
    let sinks = vec![Sink::start(), Sink::start()];
    let circle = |(n, sink): (usize, &Sink)| {
        serde_json::json!({
            "name": format!("circle-{n}"),
            "backends": [{ "name": format!("s{n}"), "url": sink.url(), "username": "", "password": "" }],
        })
    };
    let circles: Vec<_> = sinks.iter().enumerate().map(circle).collect();
    let config = serde_json::json!({
        "circles": circles,
        "listen_addr": address.to_string(),
        "data_dir": dir.path().join("data"),
        "flush_size": 10000, "flush_time": 1, "check_interval": 1, "rewrite_interval": 10,
        "conn_pool_size": 20, "write_timeout": 10, "idle_timeout": 10,
    });
    let file = dir.path().join("proxy.json");
    std::fs::write(&file, config.to_string()).expect("a temporary directory can be written");
    let mut command = Command::new(program);
    command.arg("-config").arg(&file);
    let process = Process::start("influx-proxy", &mut command, &dir.path().join("log"));
    Some(started("influx-proxy", address, process, sinks, dir))
}
