//! What Weir is measured beside.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use rig::http::{self, Request};
use rig::influxd::Influxd;
use rig::places;
use rig::process::Process;
use rig::wait;
use tempfile::TempDir;

use crate::Outcome;
use crate::sink::DATABASE;
use crate::stand::Sink;

/// A server that takes single-point writes.
pub struct Peer {
    /// What the table calls it.
    pub name: &'static str,
    pub address: SocketAddr,
    process: Option<Process>,
    influxd: Option<Influxd>,
    _sinks: Vec<Sink>,
    _dir: TempDir,
}

impl Peer {
    pub fn id(&self) -> u32 {
        let own = self.process.as_ref().map(Process::id);
        own.or_else(|| self.influxd.as_ref()?.id()).unwrap_or(0)
    }

    /// Ends it, and reads its log of accesses.
    ///
    /// # Errors
    /// There is none.
    pub fn stop_and_read_log(self) -> Outcome<String> {
        let Self { process, _dir: dir, .. } = self;
        if let Some(mut process) = process {
            process.terminate(wait::LONG);
        }
        Ok(std::fs::read_to_string(dir.path().join("accesses"))?)
    }

    fn start(
        name: &'static str,
        program: &str,
        sinks: Vec<Sink>,
        configure: impl FnOnce(&mut Command, &Path, SocketAddr, &[Sink]) -> Outcome<()>,
    ) -> Outcome<Self> {
        let (dir, address) = (places::directory(), places::free_address());
        let mut command = Command::new(places::need(program));
        configure(&mut command, dir.path(), address, &sinks)?;
        let mut process = Process::start(name, &mut command, &dir.path().join("log"));
        process.wait_ready(|| http::send(address, &Request::get("/ping")).is_ok());
        let process = Some(process);
        Ok(Self { name, address, process, influxd: None, _sinks: sinks, _dir: dir })
    }
}

/// nginx with one worker, which reads the body and answers 204: the floor of what HTTP costs.
///
/// # Errors
/// When its configuration can't be written.
pub fn nginx() -> Outcome<Peer> {
    nginx_that("access_log off;")
}

/// The same with a log of accesses, a line each: the time in seconds, and the path.
///
/// # Errors
/// When its configuration can't be written.
pub fn nginx_with_log() -> Outcome<Peer> {
    nginx_that("log_format times '$msec $uri'; access_log {at}/accesses times buffer=64k;")
}

/// nginx with directives, in which `{at}` is its directory.
fn nginx_that(directives: &str) -> Outcome<Peer> {
    Peer::start("nginx 204", "nginx", Vec::new(), |command, dir, address, _| {
        let at = dir.display();
        let directives = directives.replace("{at}", &at.to_string());
        let configuration = format!(
            "daemon off; master_process off; worker_processes 1;\n\
             pid {at}/pid; error_log {at}/error;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ {directives} keepalive_requests 1000000000; client_body_temp_path {at}/b;\n\
             proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u;\n\
             scgi_temp_path {at}/s;\n\
             server {{ listen {address} backlog=4096; location / {{ return 204; }} }} }}\n"
        );
        let file = dir.join("nginx.conf");
        std::fs::write(&file, configuration)?;
        command.arg("-c").arg(file).arg("-e").arg(dir.join("start"));
        Ok(())
    })
}

/// InfluxDB 1.x itself, with its defaults.
///
/// # Errors
/// None; it ends the program where it is missing.
pub fn influxdb() -> Outcome<Peer> {
    let server = Influxd::start();
    server.create(DATABASE);
    Ok(Peer {
        name: "InfluxDB",
        address: server.address,
        process: None,
        influxd: Some(server),
        _sinks: Vec::new(),
        _dir: places::directory(),
    })
}

/// vmagent in front of two sinks.
///
/// # Errors
/// When a sink can't be started.
pub fn vmagent() -> Outcome<Peer> {
    let sinks = vec![Sink::start()?, Sink::start()?];
    Peer::start("vmagent", "vmagent", sinks, |command, dir, address, sinks| {
        command.arg(format!("-httpListenAddr={address}"));
        command.arg(format!("-remoteWrite.tmpDataPath={}", dir.join("queue").display()));
        for sink in sinks {
            command.arg(format!("-remoteWrite.url={}/api/v1/write", sink.url()));
        }
        Ok(())
    })
}

/// The relays that are found on the `PATH`, each in front of two sinks of its own.
///
/// # Errors
/// When a sink can't be started or a configuration can't be written.
pub fn relays() -> Outcome<Vec<Peer>> {
    let all: [(&'static str, Configuration); 3] =
        [("influxdb-relay", relay), ("influx-proxy", influx_proxy), ("telegraf", telegraf)];
    let mut found = Vec::new();
    for (name, configuration) in all {
        if places::find(name).is_none() {
            continue;
        }
        let sinks = vec![Sink::start()?, Sink::start()?];
        found.push(Peer::start(name, name, sinks, |command, dir, at, sinks| {
            let [a, b] = sinks else { return Err("two sinks".into()) };
            let file = dir
                .join(format!("{name}.{}", if name == "influx-proxy" { "json" } else { "toml" }));
            std::fs::write(&file, configuration(dir, at, [a.address, b.address]))?;
            command.arg(if name == "telegraf" { "--config" } else { "-config" }).arg(file);
            command.current_dir(dir);
            Ok(())
        })?);
    }
    Ok(found)
}

/// A relay's configuration: its directory, its address, its backends.
type Configuration = fn(&Path, SocketAddr, [SocketAddr; 2]) -> String;

fn relay(_: &Path, at: SocketAddr, backends: [SocketAddr; 2]) -> String {
    let output = |to| format!("{{ name = \"{to}\", location = \"http://{to}/write\" }}");
    let outputs = backends.map(output).join(", ");
    format!("[[http]]\nname = \"bench\"\nbind-addr = \"{at}\"\noutput = [{outputs}]\n")
}

fn influx_proxy(dir: &Path, at: SocketAddr, backends: [SocketAddr; 2]) -> String {
    let circle = |to: SocketAddr| {
        serde_json::json!({
            "name": format!("circle-{to}"),
            "backends": [{ "name": to.to_string(), "url": format!("http://{to}") }],
        })
    };
    serde_json::json!({
        "circles": backends.map(circle),
        "listen_addr": at.to_string(),
        "data_dir": dir.join("data"),
        "flush_size": 10_000,
        "flush_time": 1,
    })
    .to_string()
}

fn telegraf(_: &Path, at: SocketAddr, backends: [SocketAddr; 2]) -> String {
    let output = |to| {
        format!(
            "[[outputs.influxdb]]\nurls = [\"http://{to}\"]\ndatabase = \"{DATABASE}\"\n\
             skip_database_creation = true\n"
        )
    };
    format!(
        "[agent]\nomit_hostname = true\n[[inputs.influxdb_listener]]\n\
         service_address = \"{at}\"\n{}",
        backends.map(output).join("")
    )
}

/// Those of the optional peers which are not on the `PATH`.
pub fn absent() -> Vec<&'static str> {
    let optional = ["influxdb-relay", "influx-proxy", "telegraf"];
    optional.into_iter().filter(|name| places::find(name).is_none()).collect()
}
