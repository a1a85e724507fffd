//! Members of a set that differ are found.

use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};

use super::{sets, start_applied};

const HOUR_NS: u64 = 3_600_000_000_000;

fn verify(weir: &Weir, words: &[&str]) -> (Option<i32>, String) {
    let output = weir.command(&[&["placement", "verify"], words].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn members_that_differ_are_listed_with_what_each_has() {
    let members = [Influxd::start(), Influxd::start()];
    let mut setup = Setup::new();
    for (name, server) in ["a", "b"].iter().zip(&members) {
        setup = setup.backend(name, &server.url());
    }
    let period = "[[influx.placement]]\nsets = [\"s1\"]\nfuture-max = \"20000d\"\n";
    let weir = start_applied(setup.table(&(sets(&["s1: a b"]) + period)));
    weir.query("CREATE DATABASE db", &[]);
    weir.query("CREATE RETENTION POLICY short ON db DURATION 30000d REPLICATION 1", &[]);
    let lines: String =
        (0..100).map(|n| format!("m,host=h{} v={n},w=1i {}\n", n % 3, n * HOUR_NS)).collect();
    weir.must_write("db", &lines);
    let short = rig::http::Request::post("/write?db=db&rp=short", b"n v=1 5\n".to_vec());
    assert_eq!(weir.send(&short).status(), 204);
    weir.wait_delivered();
    let (code, said) = verify(&weir, &[]);
    assert_eq!((code, said.as_str()), (Some(0), "6 slices compared, 0 differ\n"));
    assert_eq!(verify(&weir, &["--deep", "--slice", "1h"]).0, Some(0));
    // One has a point more, and one has another value for a point.
    let write = |server: &Influxd, line: &str| {
        let request = rig::http::Request::post("/write?db=db", line.as_bytes().to_vec());
        assert_eq!(server.send(&request).status(), 204);
    };
    write(&members[1], "m,host=h9 v=1 5\n");
    write(&members[0], &format!("m,host=h2 v=7 {}\n", 50 * HOUR_NS));
    let (code, said) = verify(&weir, &[]);
    assert_eq!(code, Some(3), "{said}");
    let place = "set s1, \"db\".\"autogen\".\"m\" from 1970-01-01T00:00:00Z";
    assert!(said.contains(&format!("{place}: a has 24 of v and 24 of w, b has 25 of v")), "{said}");
    assert!(said.contains("slices compared, 1 differ"), "{said}");
    let (code, said) = verify(&weir, &["--deep"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("from 1970-01-03T00:00:00Z: a has the checksum "), "{said}");
    assert!(said.contains("slices compared, 2 differ"), "{said}");
}
