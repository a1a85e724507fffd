use super::*;
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
