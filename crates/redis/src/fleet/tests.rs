use super::*;
use crate::placement::{Distribution, Hash};
use crate::topology::cluster::Range;

fn fleet() -> Arc<Fleet> {
    fleet_that(true)
}

fn fleet_that(allows_cleartext: bool) -> Arc<Fleet> {
    let text = "name = \"seed\"\nurl = \"redis://10.0.0.1:7000\"\npassword = \"p\"";
    let server = Server::new(&toml::from_str(text).unwrap()).unwrap();
    let registry = watch::metrics::Registry::new();
    let health = Arc::new(Health::new("redis", &["seed"], None, &registry));
    Fleet::of_cluster(vec![server], health, allows_cleartext)
}

fn at(host: &str, port: u16) -> At {
    At { host: (!host.is_empty()).then(|| host.to_owned()), port }
}

fn shape(primaries: &[(u16, u16, At)]) -> Shape {
    let range = |(first, last, primary): &(u16, u16, At)| Range {
        first: *first,
        last: *last,
        primary: primary.clone(),
        replicas: Vec::new(),
        ids: Vec::new(),
    };
    Shape { epoch: 1, ranges: primaries.iter().map(range).collect() }
}

fn holder(fleet: &Fleet, slot: u16) -> Option<String> {
    let view = fleet.view();
    let holder = view.slots.as_ref().unwrap().holder(slot)?;
    Some(view.server(holder).unwrap().name.to_string())
}

#[test]
fn nodes_keep_their_numbers_and_each_change_has_a_version() {
    let fleet = fleet();
    assert_eq!((holder(&fleet, 0), fleet.version()), (None, 0));
    assert_eq!(fleet.view().holders, [0], "it is where Weir begins");
    // The host is that of the node which says so.
    let two = shape(&[(0, 99, at("", 7000)), (100, 16383, at("10.0.0.2", 7000))]);
    fleet.take(&two, 0);
    assert_eq!(holder(&fleet, 0).as_deref(), Some("seed"));
    assert_eq!(holder(&fleet, 100).as_deref(), Some("10.0.0.2:7000"));
    let version = fleet.version();
    assert_eq!(version, 1);
    fleet.take(&two, 1);
    assert_eq!(holder(&fleet, 0).as_deref(), Some("10.0.0.2:7000"), "seen from the other");
    fleet.take(&two, 0);
    fleet.take(&two, 0);
    assert_eq!(fleet.version(), 3, "what is known changes nothing");

    assert_eq!(fleet.moved(0, &at("10.0.0.3", 7000), 1), Some(2));
    assert_eq!(fleet.moved(0, &at("10.0.0.3", 7000), 1), Some(2));
    assert_eq!((fleet.version(), fleet.view().holders.clone()), (4, vec![1, 2, 0]));
    assert_eq!(fleet.asks(&at("10.0.0.4", 7000), 1), Some(3));
    assert_eq!((fleet.version(), fleet.view().holders.len()), (5, 3));
    fleet.take(&shape(&[(0, 16383, at("10.0.0.2", 7000))]), 1);
    let view = fleet.view();
    assert_eq!(view.holders, [1]);
    let there: Vec<bool> = (0..4).map(|number| view.is_there(number)).collect();
    assert_eq!(there, [false, true, false, false]);
}

#[test]
fn numbers_of_nodes_that_have_left_are_given_again_and_not_at_once() {
    let fleet = fleet();
    let port = |n: usize| u16::try_from(n).unwrap();
    for n in 1..SERVERS_MAX {
        assert_eq!(fleet.asks(&at("10.0.0.9", port(n)), 0), Some(n));
    }
    assert_eq!(fleet.asks(&at("10.0.0.8", 1), 0), None);
    fleet.take(&shape(&[(0, 16383, at("10.0.0.9", 1))]), 0);
    assert_eq!(fleet.asks(&at("10.0.0.8", 1), 0), None, "something may be on its way there");
    let mut view = View::clone(&fleet.view());
    let before = Instant::now().checked_sub(FORGOTTEN * 2).expect("the machine runs for long");
    view.nodes[7].gone = Some(before);
    fleet.change(view);
    assert_eq!(fleet.asks(&at("10.0.0.8", 1), 0), Some(7));
    let view = fleet.view();
    assert_eq!((view.incarnation(7), view.incarnation(8)), (Some(1), Some(0)));
    assert_eq!(&*view.nodes[7].server.name, "10.0.0.8:1");
}

#[test]
fn no_password_leaves_the_machine_in_the_clear() {
    let fleet = fleet_that(false);
    assert_eq!(fleet.moved(0, &at("10.0.0.2", 7000), 0), None);
    assert_eq!(fleet.moved(0, &at("127.0.0.1", 7000), 0), Some(1));
}

const HASHING: Hashing =
    Hashing { distribution: Distribution::Ketama, hash: Hash::Fnv1a64, tag: None };

fn wanted(name: &str, port: u16, weight: u32, is_known: bool) -> WantedServer {
    let text = format!("name = \"{name}\"\nurl = \"redis://10.0.0.1:{port}\"");
    let server = Server::new(&toml::from_str(&text).unwrap()).unwrap();
    WantedServer { server, weight, is_known }
}

fn ring(servers: Vec<WantedServer>) -> Arc<Fleet> {
    let names: Vec<String> = servers.iter().map(|of| of.server.name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rule = Some(crate::health::Rule { failures: 1, retry: Duration::from_secs(600) });
    let health = Arc::new(Health::new("redis", &names, rule, &watch::metrics::Registry::new()));
    Fleet::of_ring(servers, HASHING, health, false)
}

#[test]
fn servers_of_a_ring_keep_their_numbers_and_those_that_leave_keep_theirs_for_a_while() {
    let fleet = ring(vec![wanted("a", 1, 1, false), wanted("b", 2, 1, false)]);
    fleet.respread(vec![wanted("a", 1, 1, true), wanted("b", 2, 1, true)], HASHING);
    assert_eq!(fleet.version(), 0, "what is the same changes nothing");
    // Another weight is the same server; another address is another one.
    fleet.respread(vec![wanted("c", 3, 1, false), wanted("a", 1, 5, true)], HASHING);
    let view = fleet.view();
    assert_eq!((fleet.version(), &*view.holders), (1, &[2, 0][..]));
    assert_eq!([view.weight(0), view.weight(1), view.weight(2)], [Some(5), None, Some(1)]);
    assert!(view.left(1).is_some() && view.left(0).is_none() && !view.is_there(1));
    fleet.respread(vec![wanted("a", 9, 1, false), wanted("b", 2, 1, true)], HASHING);
    let view = fleet.view();
    assert_eq!(&*view.holders, [3, 4], "what has left comes back as another server");
    assert_eq!(view.left(1).map(|at| at.elapsed() < FORGOTTEN), Some(true));
    // Once nothing can be on its way there, its number is given again.
    let mut view = View::clone(&view);
    view.nodes[1].gone = Instant::now().checked_sub(FORGOTTEN * 2);
    fleet.change(view);
    let rest = [wanted("a", 9, 1, true), wanted("b", 2, 1, true), wanted("d", 4, 1, false)];
    fleet.respread(rest.into(), HASHING);
    let view = fleet.view();
    assert_eq!((&*view.holders, view.incarnation(1)), (&[3, 4, 1][..], Some(1)));
}

#[test]
fn a_slot_that_moves_in_a_pool_that_is_no_cluster_changes_nothing() {
    let fleet = ring(vec![wanted("a", 1, 1, false)]);
    assert_eq!(fleet.moved(0, &at("10.0.0.3", 7000), 0), None);
    assert_eq!((fleet.version(), fleet.view().nodes.len()), (0, 1));
}

#[test]
fn a_server_that_has_left_has_no_keys_that_others_could_lose() {
    let fleet = ring(vec![wanted("a", 1, 1, false), wanted("b", 2, 1, false)]);
    fleet.health().failed(1, 0, "away");
    assert_eq!(fleet.health().live(), [true, false]);
    fleet.respread(vec![wanted("a", 1, 1, true)], HASHING);
    fleet.health().failed(0, 0, "away");
    assert_eq!(fleet.health().live(), [true, true], "nobody is there in its place");
}

#[test]
fn a_cluster_is_asked_where_other_settings_say_and_what_is_known_of_it_stays() {
    let fleet = fleet();
    fleet.take(&shape(&[(0, 16383, at("10.0.0.2", 7000))]), 0);
    let seed = |host: &str| {
        let text = format!("name = \"s\"\nurl = \"redis://{host}:7000\"\npassword = \"p\"");
        Server::new(&toml::from_str(&text).unwrap()).unwrap()
    };
    fleet.begin_at(vec![seed("10.0.0.2"), seed("10.0.0.3")]);
    let view = fleet.view();
    assert_eq!((&*view.configured, &*view.holders), (&[1, 2][..], &[1][..]));
    assert_eq!(holder(&fleet, 7).as_deref(), Some("10.0.0.2:7000"));
    let version = fleet.version();
    fleet.begin_at(vec![seed("10.0.0.2"), seed("10.0.0.3")]);
    assert_eq!(fleet.version(), version);
}
