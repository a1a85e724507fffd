//! Real clients, each by the script of its folder in `tests/clients`. A script writes ten points
//! `clients,name=<folder> v=<0..9>` where the client lets it choose, and reads them back through
//! Weir; here they are counted on the backend.

use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};
use rig::{places, wait};

#[track_caller]
fn run(folder: &str) {
    run_and_count(folder, &format!("SELECT count(v) FROM clients WHERE \"name\" = '{folder}'"));
}

#[track_caller]
fn run_and_count(folder: &str, count: &str) {
    let server = Influxd::start();
    server.create("clients");
    let weir = Setup::new()
        .backend("a", &server.url())
        .table("[[influx.udp]]\nlisten = \"{udp}\"\ndatabase = \"clients\"\nprecision = \"ms\"")
        .start();
    run_script(folder, &weir);
    wait::until("the points are on the backend", wait::LONG, || {
        let answer = server.ask(count, &[("db", "clients")]);
        answer["results"][0]["series"][0]["values"][0][1].as_u64().is_some_and(|n| n >= 10)
    });
}

/// Runs a client against Weir; its script must end well.
#[track_caller]
pub fn run_script(folder: &str, weir: &Weir) {
    let mut script = rig::clients::script(folder);
    script
        .env("WEIR_HOST", weir.http.ip().to_string())
        .env("WEIR_PORT", weir.http.port().to_string())
        .env("WEIR_UDP_PORT", weir.udp.port().to_string())
        .env("WEIR_DIR", weir.dir());
    rig::clients::run(&mut script);
}

#[test]
fn the_influx_cli() {
    places::need("influx");
    run("influx-cli");
}

#[test]
fn collectd() {
    places::need("collectd");
    run_and_count("collectd", "SELECT count(shortterm) FROM load WHERE host = 'collectd'");
}

#[test]
fn influxdb_for_python() {
    places::need("python3");
    run("python-influxdb");
}

#[test]
fn influxdb_client_for_python() {
    places::need("python3");
    run("python-influxdb-client");
}

#[test]
fn influxdb_client_for_node() {
    places::need("npm");
    run("node-influxdb-client");
}

/// Telegraf is in no Debian release, so it is tried where its owner has put it on the `PATH`.
#[test]
fn telegraf_where_it_is_on_the_path() {
    if places::find("telegraf").is_none() {
        println!("telegraf is not on the PATH: not tried");
        return;
    }
    run("telegraf");
}
