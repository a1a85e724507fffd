//! Line protocol over UDP.

use std::net::UdpSocket;
use std::time::Duration;

use rig::influxd::Influxd;
use rig::wait;
use rig::weir::{Setup, Weir};

use crate::scene::{Scene, assert_points, point, points};

const LISTEN: &str = "[[influx.udp]]\nlisten = \"{udp}\"\ndatabase = \"db\"";

fn socket(weir: &Weir) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(weir.udp).unwrap();
    socket
}

#[test]
fn datagrams_are_taken_and_a_bad_line_drops_its_datagram_whole() {
    let scene = Scene::with(|setup| setup.table(LISTEN));
    let socket = socket(&scene.weir);
    socket.send(points(0, 3).as_bytes()).unwrap();
    socket.send(format!("{}no line\n{}", point(10), point(11)).as_bytes()).unwrap();
    socket.send(points(3, 3).as_bytes()).unwrap();
    wait::until("the good ones have arrived", wait::LONG, || {
        scene.a.distinct() == 6 && scene.b.distinct() == 6
    });
    assert_points(&scene.a, 0, 6);
    let counted =
        |outcome| scene.weir.metrics().sum("weir_influx_datagrams_total", &[("outcome", outcome)]);
    assert_eq!((counted("taken"), counted("bad")), (2.0, 1.0));
}

#[test]
fn points_of_datagrams_get_the_stamp_that_is_in_force() {
    let mut scene = Scene::with(|setup| setup.table(LISTEN));
    let sockets = [socket(&scene.weir), socket(&scene.weir)];
    let arrive = |scene: &Scene, lines: &[String]| {
        wait::until("both have arrived", wait::LONG, || {
            let all = scene.a.lines();
            lines.iter().all(|line| all.contains(line))
        });
    };
    sockets[0].send(b"load v=1 1").unwrap();
    arrive(&scene, &["load v=1 1".to_owned()]);
    let stamp = "stamp = { from = \"peer-port\", site = \"north\" }";
    scene.weir.configure(|setup| setup.influx(stamp));
    scene.weir.reload();
    scene.weir.wait_log("reloaded");
    let lines = sockets.each_ref().map(|socket| {
        socket.send(b"load v=1 2").unwrap();
        format!("load,from={},site=north v=1 2", socket.local_addr().unwrap())
    });
    arrive(&scene, &lines);
}

#[test]
fn the_database_of_a_udp_listener_is_created() {
    let server = Influxd::start();
    let weir = Setup::new()
        .backend("a", &server.url())
        .table("[[influx.udp]]\nlisten = \"{udp}\"\nprecision = \"s\"")
        .start();
    let socket = socket(&weir);
    wait::until("a point has arrived", wait::LONG, || {
        socket.send(b"load v=1i 1600000000").unwrap();
        server.count("udp", "load", "v") == 1
    });
    let q = "SELECT * FROM load";
    let answer = server.ask(q, &[("db", "udp"), ("epoch", "ns")]);
    let time = &answer["results"][0]["series"][0]["values"][0][0];
    assert_eq!(time.as_u64(), Some(1_600_000_000_000_000_000));
}

#[test]
fn a_flood_is_counted_and_http_clients_are_served() {
    const FLOOD: u64 = 50_000;
    let scene = Scene::with(|setup| setup.table(LISTEN));
    let flooding = socket(&scene.weir);
    let sender = std::thread::spawn(move || {
        for n in 0..FLOOD {
            let line = if n % 10 == 0 { "flood of nonsense".to_owned() } else { point(n) };
            // A full queue of the loopback is the flood's own affair.
            let _ = flooding.send(line.as_bytes());
        }
    });
    scene.write_one_by_one(1_000_000, 100);
    sender.join().unwrap();
    let counted = || {
        let scrape = scene.weir.metrics();
        let of = |outcome| scrape.sum("weir_influx_datagrams_total", &[("outcome", outcome)]);
        (of("taken"), of("bad"), of("refused"))
    };
    let mut before = counted();
    wait::until("the flood has ebbed away", wait::LONG, || {
        std::thread::sleep(Duration::from_millis(100));
        let now = counted();
        std::mem::replace(&mut before, now) == now
    });
    scene.weir.wait_delivered();
    let (taken, bad, refused) = counted();
    assert!(taken > 0.0 && bad > 0.0 && taken + bad + refused <= FLOOD as f64, "{taken} {bad}");
    // A few may come even after a pause.
    wait::until("what was taken arrives", wait::LONG, || {
        scene.a.distinct() as f64 == counted().0 + 100.0
    });
}
