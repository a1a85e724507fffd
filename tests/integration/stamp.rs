//! Tags that Weir adds, so that several unmodified injectors never overwrite each other.

use crate::scene::Scene;

fn first_line(scene: &Scene) -> String {
    scene.weir.wait_delivered();
    scene.a.lines().pop().unwrap_or_default()
}

#[test]
fn the_clients_address_becomes_a_tag() {
    let scene = Scene::with(|setup| setup.influx("stamp = { instance = \"peer\" }"));
    scene.weir.must_write("db", "jmeter,application=shop count=1 1\n");
    assert_eq!(first_line(&scene), "jmeter,application=shop,instance=127.0.0.1 count=1 1");
}

#[test]
fn a_tag_that_is_there_wins() {
    let scene =
        Scene::with(|setup| setup.influx("stamp = { instance = \"peer\", site = \"north, 1\" }"));
    scene.weir.must_write("db", "jmeter,instance=mine count=1 1\n");
    assert_eq!(first_line(&scene), "jmeter,instance=mine,site=north\\,\\ 1 count=1 1");
}

#[test]
fn two_injectors_with_the_same_point_are_two_series() {
    let scene = Scene::with(|setup| setup.influx("stamp = { instance = \"peer-port\" }"));
    scene.weir.must_write("db", "jmeter count=1 1\n");
    scene.weir.must_write("db", "jmeter count=2 1\n");
    scene.weir.wait_delivered();
    let lines = scene.a.lines();
    let series: Vec<_> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(series.len(), 2);
    assert_ne!(series[0], series[1]);
    assert!(series.iter().all(|s| s.starts_with("jmeter,instance=127.0.0.1:")), "{series:?}");
}

#[test]
fn a_missing_time_is_the_same_on_every_backend() {
    let scene = Scene::new();
    let answer = scene.weir.send(&rig::http::Request::post(
        "/write?db=db&precision=s",
        "load v=1\nload v=2 1600000000\n",
    ));
    assert_eq!(answer.status(), 204);
    scene.weir.wait_delivered();
    assert_eq!(scene.a.lines(), scene.b.lines());
    let lines = scene.a.lines();
    let time = |line: &String| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(time(&lines[0]) % 1_000_000_000, 0, "cut to the write's precision: {lines:?}");
    assert_eq!(time(&lines[1]), 1_600_000_000_000_000_000);
}
