//! TLS to clients and to backends.

use rig::fake::Fake;
use rig::http::Request;
use rig::tls::Certificate;
use rig::wait;
use rig::weir::Setup;

use crate::scene::{Scene, assert_points, point};

#[test]
fn clients_write_over_tls_and_a_new_certificate_holds_after_a_reload() {
    let (old, new) = (Certificate::new(), Certificate::new());
    let a = Fake::start("a", &["db"]);
    let mut weir = Setup::new().backend("a", &a.url()).prepare().with_tls();
    let (certificate, key) = old.write(&weir.dir());
    let table = format!("[influx.tls]\ncertificate = {certificate:?}\nkey = {key:?}");
    weir.configure(|setup| setup.table(&table));
    weir.start_again();

    let mut connection = old.connect(weir.http).unwrap();
    let request = |n| Request::post("/write?db=db", point(n));
    assert_eq!(connection.send(&request(0)).unwrap().status(), 204);
    assert!(new.connect(weir.http).unwrap().send(&request(9)).is_err(), "not trusted");
    assert!(rig::http::send(weir.http, &request(9)).is_err(), "no clear text");

    new.write(&weir.dir());
    weir.reload();
    wait::until("the new certificate is shown", wait::LONG, || {
        new.connect(weir.http).is_ok_and(|mut c| c.send(&request(1)).is_ok())
    });
    assert_eq!(connection.send(&request(2)).unwrap().status(), 204, "the old connection lives on");
    weir.wait_delivered();
    assert_points(&a, 0, 3);
}

#[test]
fn a_backends_certificate_is_checked() {
    let (good, other) = (Certificate::new(), Certificate::new());
    let scratch = rig::places::directory();
    let (ca, _) = good.write(scratch.path());
    let fakes = [
        Fake::start_tls("trusted", &["db"], &good),
        Fake::start_tls("stranger", &["db"], &other),
        Fake::start_tls("unchecked", &["db"], &other),
    ];
    let [trusted, stranger, unchecked] = &fakes;
    let with_ca = format!("ca = {ca:?}");
    let weir = Setup::new()
        .backend_with("trusted", &trusted.url(), &with_ca)
        .backend_with("stranger", &stranger.url(), &with_ca)
        .backend_with("unchecked", &unchecked.url(), "insecure-skip-verify = true")
        .start();
    weir.must_write("db", &point(0));
    wait::until("the two good ones have it", wait::LONG, || {
        weir.account("trusted").delivered == 1 && weir.account("unchecked").delivered == 1
    });
    wait::until("the status names the reason", wait::LONG, || {
        weir.account("stranger").last_error.to_lowercase().contains("certificate")
    });
    assert_eq!((stranger.requests(), weir.account("stranger").waiting), (0, 1));
    assert_points(trusted, 0, 1);
    assert_points(unchecked, 0, 1);
}

#[test]
fn a_client_that_never_finishes_the_handshake_is_cut_off() {
    let certificate = Certificate::new();
    let a = Fake::start("a", &["db"]);
    let mut weir = Setup::new().backend("a", &a.url()).prepare().with_tls();
    let (pem, key) = certificate.write(&weir.dir());
    let table = format!(
        "[influx.tls]\ncertificate = {pem:?}\nkey = {key:?}\n[influx.timeouts]\nhandshake = \"5s\""
    );
    weir.configure(|setup| setup.table(&table));
    weir.start_again();
    let mut silent = rig::http::Connection::open(weir.http).unwrap();
    let mut good = certificate.connect(weir.http).unwrap();
    assert_eq!(good.send(&Request::get("/ping")).unwrap().status(), 204);
    assert!(silent.is_closed());
}

#[test]
fn clear_text_to_a_plain_port_is_what_it_was() {
    let scene = Scene::new();
    scene.write_one_by_one(0, 1);
    let certificate = Certificate::new();
    let refused = certificate.connect(scene.weir.http).unwrap().send(&Request::get("/ping"));
    assert!(refused.is_err(), "TLS to a port without it ends at once");
}
