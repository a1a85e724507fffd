//! Servers that were there before the cluster: complete copies, and a Weir with a store, become its
//! first set.

use rig::http::Request;
use rig::influxd::Influxd;
use rig::status::Account;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use super::rebuilt::{PERIOD, assert_alike, fill, fill_alike, setup_at};
use super::{sets, start_applied};
use crate::scene::points;

/// What a server answers to a query, without its frame.
fn ask(address: std::net::SocketAddr, query: &str) -> Value {
    let request = Request::query(query, &[("db", "db"), ("epoch", "ns")]);
    let answer = rig::http::send(address, &request).unwrap().json();
    assert!(answer["results"][0]["error"].is_null(), "{query}: {answer}");
    answer["results"][0]["series"].clone()
}

#[test]
fn two_complete_copies_become_one_set() {
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let copies = || Setup::new().backend("a", &a.url()).backend("b", &b.url());
    let mut weir = copies().start();
    fill(&weir);
    weir.wait_delivered();
    // What waits for one of them when they become a set is still its own.
    let cluster = copies().table(&(sets(&["s1: a b"]) + PERIOD));
    b.kill();
    weir.must_write("db", &points(0, 1_000));
    weir.terminate();
    b.start_again();
    weir.configure(|_| cluster);
    weir.must_run(&["placement", "apply"]);
    weir.start_again();
    weir.must_write("db", &points(1_000, 500));
    weir.wait_delivered();
    assert_eq!((a.count("db", "load", "v"), b.count("db", "load", "v")), (1_500, 1_500));
    assert_alike(&a, &b);
    let verified = weir.must_run(&["placement", "verify"]);
    assert!(verified.contains(", 0 differ"), "{verified}");
    assert!(weir.accounts().iter().all(Account::adds_up));
    // Two that nobody has compared: what one lacks, the other brings.
    b.ask("DELETE FROM \"all types\" WHERE time < '2020-09-20T00:00:00Z'", &[("db", "db")]);
    assert_eq!(weir.command(&["placement", "verify"]).status.code(), Some(3));
    weir.must_run(&["placement", "rebuild", "b", "--to", "2020-09-20T00:00:00Z"]);
    weir.must_run(&["placement", "verify", "--deep"]);
    assert_alike(&a, &b);
}

#[test]
fn a_weir_with_a_store_is_the_first_member_of_a_set_behind_a_new_gateway() {
    let first = Setup::new().embedded().start();
    fill_alike(&first);
    first.wait_delivered();
    let url = |weir: &Weir| format!("http://{}", weir.http);
    let mut gateway = start_applied(setup_at(&[("a", url(&first))]));
    gateway.must_write("db", &points(0, 500));
    gateway.wait_delivered();
    assert_eq!(ask(first.http, "SELECT count(v) FROM load")[0]["values"][0][1], 500);
    // A server of another kind, and one more Weir, are filled from it.
    let (b, second) = (Influxd::start(), Setup::new().embedded().start());
    let three = || [("a", url(&first)), ("b", b.url()), ("c", url(&second))];
    for members in [&three()[..2], &three()[..]] {
        gateway.configure(|_| setup_at(members));
        gateway.reload();
        let (name, _) = members.last().unwrap();
        gateway.wait_log(name);
        let said = gateway.must_run(&["placement", "rebuild", name]);
        assert!(said.contains("copied from a"), "{said}");
    }
    gateway.must_write("db", &points(500, 500));
    gateway.wait_delivered();
    for place in ["db.autogen.load", "db.autogen.\"all types\"", "db.\"a year\".\"all types\""] {
        let query = format!("SELECT * FROM {place} GROUP BY *");
        let rows = ask(first.http, &query);
        assert!(rows[0]["values"].as_array().is_some_and(|rows| !rows.is_empty()), "{place}");
        for other in [b.address, second.http] {
            assert_eq!(ask(other, &query), rows, "{place}");
        }
    }
    let types = |address| ask(address, "SHOW FIELD KEYS FROM \"all types\"");
    assert_eq!(types(b.address), types(first.http));
    let verified = gateway.must_run(&["placement", "verify"]);
    assert!(verified.contains(", 0 differ"), "{verified}");
    gateway.must_run(&["placement", "show"]);
}
