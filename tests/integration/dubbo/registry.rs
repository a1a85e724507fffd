//! `weir load` of the providers that a real ZooKeeper has: fakes that are registered by the test,
//! and real ones that register themselves.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rig::dubbo::{Answering, Provider};
use rig::process::Process;
use rig::zookeeper::ZooKeeper;
use rig::{machine, network, places, wait};
use rustix::process::Signal;

use super::NOT_TRIED;

/// Long enough for a Java program to start beside others.
const START: Duration = Duration::from_secs(120);

/// A load of one method, with what else is wanted of it.
fn command(place: &Path, url: &str, more: &[&str]) -> Command {
    let mut command = Command::new(places::weir());
    command.current_dir(place).args(["load", url, "--method", "echo", "--warmup", "0s"]);
    command.args(["--types", "java.lang.String", "--arguments", "[\"text\"]"]);
    command.args(["--connections", "8", "--rate", "200"]).args(more);
    command
}

/// What a short load says.
fn said(url: &str, more: &[&str]) -> String {
    let place = places::directory();
    let output = command(place.path(), url, more).output().expect("weir can be started");
    rig::clients::said(&output)
}

fn provider_url(provider: &Provider, more: &str) -> String {
    format!("dubbo://{}/com.acme.Echo?version=1.0&side=provider{more}", provider.address)
}

#[test]
fn calls_are_spread_over_the_providers_that_zookeeper_has_by_their_weights() {
    let _alone = machine::alone();
    let Some(zookeeper) = ZooKeeper::start() else { return };
    let providers = [0; 4].map(|_| Provider::start(Answering::Well));
    let [heavy, light, disabled, weightless] = &providers;
    zookeeper.register("providers", &provider_url(heavy, "&weight=300"));
    zookeeper.register("providers", &provider_url(light, ""));
    zookeeper.register("providers", &provider_url(disabled, ""));
    zookeeper.register("providers", &provider_url(weightless, "&weight=0"));
    let rule = format!("override://{}/com.acme.Echo?version=1.0&disabled=true", disabled.address);
    zookeeper.register("configurators", &rule);
    let url = format!("zookeeper://{}/com.acme.Echo?version=1.0", zookeeper.address);
    let said = said(&url, &["--duration", "2s", "--threads", "2"]);
    assert!(said.contains("no errors"), "{said}");
    let calls = [heavy, light, disabled, weightless].map(Provider::calls);
    assert!((292..=308).contains(&calls[0]) && calls[0] + calls[1] == 400, "{calls:?}: {said}");
    assert_eq!(calls[2..], [0, 0], "{said}");
    // Each thread has a connection of its own to each.
    assert_eq!((heavy.connections(), light.connections()), (2, 2), "{said}");
    for words in [
        format!("server   {}: {} requests, 0 failed", heavy.address, calls[0]),
        format!("left out {}: it is disabled", disabled.address),
        format!("left out {}: its weight is 0", weightless.address),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    let wrong = |query: &str, words: &str| {
        let url = format!("zookeeper://{}/com.acme.Echo?{query}", zookeeper.address);
        let said = self::said(&url, &["--duration", "1s"]);
        assert!(said.contains(words), "{words}: {said}");
    };
    wrong("version=2.0", "is of version 2.0 and no group: there are version 1.0 and no group");
    wrong(
        "version=1.0&root=other",
        "no provider of com.acme.Echo is registered: there is no /other",
    );
    zookeeper.put("/other/mapping/com.acme.Echo", "shop,stock");
    wrong("version=1.0&root=other", "applications as a whole, which have it: shop,stock");
    zookeeper.protect("/dubbo/com.acme.Echo/providers", "ann:secret");
    let as_user = |login: &str| {
        let at = format!("{login}{}", zookeeper.address);
        let url = format!("zookeeper://{at}/com.acme.Echo?version=1.0");
        self::said(&url, &["--duration", "1s"])
    };
    for login in ["", "ann:guess@"] {
        let said = as_user(login);
        assert!(said.contains("it refuses the login") && !said.contains("guess"), "{said}");
    }
    let said = as_user("ann:secret@");
    assert!(said.contains("no errors") && !said.contains("secret"), "{said}");
}

/// Waits until a provider has had so many calls more.
#[track_caller]
fn called(provider: &Provider, more: u64) {
    let before = provider.calls();
    wait::until("calls", wait::LONG, || provider.calls() >= before + more);
}

#[test]
fn providers_come_and_go_while_calls_go_on_and_so_does_zookeeper() {
    let _alone = machine::alone();
    let Some(mut zookeeper) = ZooKeeper::start() else { return };
    let (steady, falling) = (Provider::start(Answering::Slowly), Provider::start(Answering::Well));
    let (steady_url, falling_url) = (provider_url(&steady, ""), provider_url(&falling, ""));
    zookeeper.register("providers", &steady_url);
    zookeeper.register("providers", &falling_url);
    let place = places::directory();
    let url = format!("zookeeper://{}/com.acme.Echo?version=1.0", zookeeper.address);
    let mut of_load = command(place.path(), &url, &["--duration", "300s", "--out", "run"]);
    let mut load = Process::start("weir load", &mut of_load, &place.path().join("log"));
    called(&steady, 10);
    called(&falling, 10);
    // Its connection is lost: the other one has all calls, until it is back.
    let address = falling.address;
    drop(falling);
    called(&steady, 400);
    let falling = Provider::start_at(address, Answering::Well);
    called(&falling, 10);
    // ZooKeeper is away: calls go on. What has changed meanwhile is seen when it is back.
    zookeeper.stop();
    called(&steady, 200);
    called(&falling, 200);
    zookeeper.start_again();
    let late = Provider::start(Answering::Well);
    zookeeper.register("providers", &provider_url(&late, ""));
    called(&late, 10);
    // One leaves by itself, and one by a rule: calls that are under way are answered first.
    zookeeper.deregister("providers", &falling_url);
    wait::until("it is left", wait::LONG, || falling.open_connections() == 0);
    let rule = format!("override://{}/com.acme.Echo?version=1.0&disabled=true", steady.address);
    zookeeper.register("configurators", &rule);
    wait::until("it is left", wait::LONG, || steady.open_connections() == 0);
    called(&late, 200);
    load.signal(Signal::INT);
    let ended = wait::value("its end", wait::LONG, || load.ended());
    let said = load.log();
    assert!(matches!(ended.code(), Some(0 | 4)), "{ended}: {said}");
    let json = std::fs::read(place.path().join("run/report.json")).expect("it is written");
    let report: serde_json::Value = serde_json::from_slice(&json).expect("a report");
    // Only calls under way at the one that was killed have failed.
    let failed = |address: SocketAddr| report["servers"][address.to_string()]["failed"].as_u64();
    assert_eq!((failed(steady.address), failed(late.address)), (Some(0), Some(0)), "{said}");
    assert!(failed(address).is_some_and(|failed| failed <= 8), "{said}");
    let requests = report["servers"][late.address.to_string()]["requests"].as_u64();
    assert_eq!(requests, Some(late.calls()), "{said}");
}

/// Whether there are the jars of these versions of Dubbo. Where they can't be had, as without a
/// network, their test ends here and says so.
fn are_installed(versions: &[&str]) -> bool {
    let output = rig::clients::script("dubbo").arg("install").args(versions).output();
    let output = output.expect("bash can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NOT_TRIED) {
        println!("real providers of Dubbo {versions:?}: not tried, since their jars can't be had");
        println!("{}{said}", String::from_utf8_lossy(&output.stdout));
        return false;
    }
    assert!(output.status.success(), "{said}");
    true
}

/// A real provider, which registers itself.
fn real(name: &str, place: &Path, words: &[&str]) -> Process {
    let mut script = rig::clients::script("dubbo");
    script.arg("provide").args(words);
    Process::start(name, &mut script, &place.join(name))
}

fn is_ready(provider: &mut Process) -> bool {
    assert!(provider.ended().is_none(), "{}", provider.log());
    provider.log().lines().any(|line| line == "ready")
}

#[test]
fn real_providers_that_register_themselves_are_called_and_missed_where_they_are_killed() {
    // A virtual machine that starts takes the CPUs from whoever measures.
    let _alone = machine::alone();
    // Within the network below there is no way to a registry of jars.
    if !are_installed(&["2.7.23", "3.3.5"]) {
        return;
    }
    network::test_apart(None, || {
        let zookeeper = ZooKeeper::start().expect("its jars are there");
        let place = places::directory();
        let port = || places::free_address().port().to_string();
        let at = format!("zookeeper://{}", zookeeper.address);
        let other = format!("{at}?group=other");
        let (old_port, new_port, tri_port, whole_port) = (port(), port(), port(), port());
        let old = ["2.7.23", &old_port, &at, "version=1.0", "weight=300"];
        let mut first = real("old", place.path(), &old);
        let new = ["3.3.5", &new_port, &at, "version=1.0"];
        let mut others = [
            real("new", place.path(), &new),
            real("tri", place.path(), &["3.3.5", &tri_port, &at, "version=3.0", "protocol=tri"]),
            real("whole", place.path(), &["3.3.5", &whole_port, &other, "register-mode=instance"]),
        ];
        wait::until("providers", START, || is_ready(&mut first) && others.iter_mut().all(is_ready));
        let url = |query: &str| format!("{at}/weir.test.EchoService?{query}");
        let all = said(&url("version=1.0"), &["--duration", "2s"]);
        assert!(all.contains("no errors"), "{all}");
        assert!(all.contains(&format!("server   127.0.0.1:{old_port}: 300 requests")), "{all}");
        assert!(all.contains(&format!("server   127.0.0.1:{new_port}: 100 requests")), "{all}");
        let tri = said(&url("version=3.0"), &["--duration", "1s"]);
        assert!(tri.contains("speak only tri"), "{tri}");
        let whole = said(&url("root=other"), &["--duration", "1s"]);
        assert!(whole.contains("applications that register as a whole"), "{whole}");
        assert!(whole.contains("weir-test"), "{whole}");
        // One is killed under load, and comes back.
        let mut of_load = command(place.path(), &url("version=1.0"), &["--duration", "300s"]);
        let mut load = Process::start("weir load", &mut of_load, &place.path().join("load"));
        let shown = |load: &Process| load.log().lines().filter(|l| l.contains(" ended ")).count();
        wait::until("two seconds", wait::LONG, || shown(&load) >= 2);
        first.kill();
        let before = shown(&load);
        wait::until("two seconds", wait::LONG, || shown(&load) >= before + 2);
        let mut first = real("again", place.path(), &old);
        wait::until("it is back", START, || is_ready(&mut first));
        let open = || TcpStream::connect(("127.0.0.1", old_port.parse().expect("a port"))).is_ok();
        wait::until("it listens", wait::LONG, open);
        let before = shown(&load);
        wait::until("three seconds", wait::LONG, || shown(&load) >= before + 3);
        load.signal(Signal::INT);
        wait::value("its end", wait::LONG, || load.ended());
        let said = load.log();
        // All but those under way at the one that was killed had an answer, and it has calls again.
        assert!(said.contains("opened anew"), "{said}");
        let last = said.lines().rfind(|line| line.contains(" ended ")).expect("a line a second");
        assert!(!last.contains("errors"), "{said}");
    });
}

#[test]
fn a_real_provider_that_is_killed_under_load_is_called_again_when_it_is_back() {
    let _alone = machine::alone();
    if !are_installed(&["2.7.23"]) {
        return;
    }
    let place = places::directory();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    drop(listener);
    let words = ["2.7.23", &port, "N/A"];
    let mut provider = real("provider", place.path(), &words);
    wait::until("a provider", START, || is_ready(&mut provider));
    let url = format!("dubbo://127.0.0.1:{port}/weir.test.EchoService");
    let mut of_load = command(place.path(), &url, &["--duration", "300s", "--timeout", "1s"]);
    let mut load = Process::start("weir load", &mut of_load, &place.path().join("load"));
    let windows = |load: &Process, with_errors: bool| {
        let log = load.log();
        let lines = log.lines().filter(|line| line.contains(" ended "));
        let lines = lines.filter(|line| line.contains("errors") == with_errors);
        lines.filter(|line| !line.contains("ended        0")).count()
    };
    wait::until("calls are answered", wait::LONG, || windows(&load, false) >= 2);
    provider.kill();
    wait::until("its end is told", wait::LONG, || load.log().contains("errors of the network"));
    let mut provider = real("again", place.path(), &words);
    wait::until("it is back", START, || is_ready(&mut provider));
    let before = windows(&load, false);
    wait::until("calls are answered again", wait::LONG, || windows(&load, false) >= before + 2);
    load.signal(Signal::INT);
    wait::value("its end", wait::LONG, || load.ended());
    let said = load.log();
    assert!(said.contains("opened anew") && said.contains(" x network: "), "{said}");
}
