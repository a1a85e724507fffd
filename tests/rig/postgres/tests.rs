use super::{Auth, Bouncer, Cluster, PASSWORD, Peer, Pooling, SUPERUSER, Setup};
use crate::wait;

#[test]
fn a_replica_follows_and_takes_over() {
    let mut primary = Cluster::start();
    let replica = primary.replica();
    let second = primary.replica();
    primary.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    replica.catch_up(&primary);
    assert_eq!(replica.value("SELECT a FROM t"), "1");

    primary.kill();
    assert!(primary.try_sql("SELECT 1").is_err());
    replica.promote();
    second.follow(&replica);
    replica.sql("INSERT INTO t VALUES (2)");
    second.catch_up(&replica);
    assert_eq!(second.value("SELECT count(*) FROM t"), "2");

    primary.start_again();
    assert_eq!(primary.value("SELECT count(*) FROM t"), "1");
}

#[test]
fn a_hung_server_answers_once_it_is_woken() {
    let cluster = Setup::new().auth(Auth::Scram).tls().start();
    cluster.create_user("someone", "secret");
    assert!(cluster.connect_as("someone", "wrong", SUPERUSER).is_err());
    let mut client = cluster.connect_as(SUPERUSER, PASSWORD, SUPERUSER).unwrap();
    cluster.hang();
    let asked = std::thread::spawn(move || client.simple_query("SELECT 1").is_ok());
    assert!(std::net::TcpStream::connect(cluster.address).is_ok(), "the kernel still takes it");
    assert!(!asked.is_finished());
    cluster.wake();
    wait::until("it answers", wait::LONG, || asked.is_finished());
    assert!(asked.join().unwrap());
}

#[test]
fn md5_is_checked_by_md5() {
    let cluster = Setup::new().auth(Auth::Md5).start();
    cluster.create_user("someone", "secret");
    let verifier = "SELECT rolpassword FROM pg_authid WHERE rolname = 'someone'";
    assert!(cluster.value(verifier).starts_with("md5"));
    assert!(cluster.connect_as("someone", "secret", SUPERUSER).is_ok());
}

#[test]
fn peers_pass_statements_on() {
    let cluster = Cluster::start();
    let usual = Bouncer::usual();
    let pooling = Pooling::Transaction;
    let bouncer = Peer::pgbouncer("PgBouncer", &usual, cluster.address, pooling, 2);
    let haproxy = Peer::haproxy(cluster.address);
    let installed: Vec<Peer> =
        Peer::installed(cluster.address, 2).into_iter().filter_map(|one| one.peer.ok()).collect();
    for Peer { name, address, .. } in [bouncer, haproxy].iter().chain(&installed) {
        let mut config = pg::Config::new();
        config.host(&address.ip().to_string()).port(address.port()).user(SUPERUSER);
        let mut client = config.connect(pg::NoTls).unwrap();
        assert_eq!(
            super::rows(&mut client, "SELECT 1").unwrap(),
            [[Some("1".to_owned())]],
            "{name}"
        );
    }
}
