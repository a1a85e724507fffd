//! The store beside other backends, and clients that take it for an InfluxDB.

use rig::http::Request;
use rig::influxd::Influxd;
use rig::wait;
use rig::weir::Setup;

use super::{count, get, must_run, store};
use crate::scene::{point, points};
use crate::users::user;

#[test]
fn the_store_and_a_server_each_get_everything() {
    let mut server = Influxd::start();
    let weir = Setup::new().embedded().backend("a", &server.url()).start();
    must_run(&weir, "CREATE DATABASE db");
    weir.must_write("db", &points(0, 500));
    assert_eq!(count(&weir), 500);
    server.kill();
    weir.must_write("db", &points(500, 500));
    assert_eq!(count(&weir), 1_000, "a server that is away holds nobody up");
    must_run(&weir, "DELETE FROM load WHERE host = 'h1'");
    weir.must_write("db", &points(1_000, 10));
    server.start_again();
    weir.wait_delivered();
    assert_eq!(server.count("db", "load", "v"), count(&weir));
    let accounts = weir.accounts();
    assert!(accounts.iter().all(|account| account.adds_up() && account.accepted == 1_010));
    must_run(&weir, "SELECT v INTO copy FROM load");
    weir.wait_delivered();
    assert_eq!(server.count("db", "copy", "v"), count(&weir));
}

#[test]
fn a_database_that_only_the_server_has_comes_to_the_store_by_a_write() {
    let server = Influxd::start();
    server.create("old");
    let weir = Setup::new().embedded().backend("a", &server.url()).start();
    wait::until("the server's databases are known", wait::LONG, || {
        weir.write("old", &point(0)).status() == 204
    });
    let shown = weir.query("SELECT v FROM load", &[("db", "old")]);
    assert!(shown.text().contains("values"), "{}", shown.text());
    weir.wait_delivered();
    assert_eq!(server.count("old", "load", "v"), 1);
}

#[test]
fn a_store_that_is_added_later_takes_what_the_journal_keeps() {
    let server = Influxd::start();
    server.create("db");
    let mut weir = Setup::new().backend("a", &server.url()).start();
    weir.wait_catalogue();
    weir.must_write("db", &points(0, 100));
    weir.wait_delivered();
    weir.terminate();
    weir.configure(|setup| setup.embedded_with("start = \"oldest\""));
    weir.start_again();
    wait::until("the store has what came before it", wait::LONG, || count(&weir) == 100);
}

#[test]
fn the_influx_command_takes_it_for_an_influxdb() {
    rig::places::need("influx");
    let weir = Setup::new().embedded().start();
    must_run(&weir, "CREATE DATABASE clients");
    crate::clients::run_script("influx-cli", &weir);
}

#[test]
fn grafanas_queries_are_answered() {
    let weir = store();
    weir.must_write("db", &points(0, 100));
    for (q, found) in [
        ("SHOW DATABASES", "\"db\""),
        ("SHOW RETENTION POLICIES on \"db\"", "autogen"),
        ("SHOW MEASUREMENTS LIMIT 100", "load"),
        ("SHOW TAG KEYS FROM \"load\"", "host"),
        ("SHOW TAG VALUES FROM \"load\" WITH KEY = \"host\"", "h6"),
        ("SHOW FIELD KEYS FROM \"load\"", "integer"),
        (
            "SELECT mean(\"v\") FROM \"load\" WHERE time >= 1599999960000ms and time <= \
             1600000020000ms GROUP BY time(10s), \"host\"::tag fill(null)",
            "[1600000000000,",
        ),
    ] {
        let answer = get(&weir, q, "&epoch=ms");
        assert_eq!(answer.status(), 200, "{q}: {}", answer.text());
        assert!(answer.text().contains(found), "{q}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

#[test]
fn answers_come_in_the_form_that_is_asked_for() {
    let weir = store();
    weir.must_write("db", "m,t=a v=1i 1\nm,t=b v=2i 2\n");
    let chunked = get(&weir, "SELECT v FROM m", "&chunked=true&chunk_size=1&epoch=ns").text();
    assert_eq!(chunked.lines().count(), 2, "{chunked}");
    let csv = |q: &str| {
        let target = format!("/query?db=db&q={}", rig::http::escape(q));
        weir.send(&Request::get(&target).header("Accept", "application/csv"))
    };
    let answer = csv("SELECT v FROM m");
    assert_eq!(answer.header("content-type"), Some("text/csv"));
    assert_eq!(answer.text(), "name,tags,time,v\nm,,1,1\nm,,2,2\n");
    let answer = csv("SELECT FROM m");
    assert_eq!((answer.status(), answer.header("content-type")), (400, Some("text/csv")));
    assert!(answer.text().starts_with("error\n\"error parsing query: "), "{}", answer.text());
    let told = get(&weir, "CREATE DATABASE other", "").text();
    assert!(told.contains("deprecated use of 'CREATE DATABASE other'"), "{told}");
    let params = weir.query(
        "SELECT v FROM m WHERE t = $t",
        &[("db", "db"), ("params", "{\"t\": \"b\"}"), ("epoch", "ns")],
    );
    assert!(params.text().contains("[[2,2]]"), "{}", params.text());
    assert_eq!(weir.write("db", "m v=3i 3\n").header("content-type"), Some("application/json"));
}

#[test]
fn answers_are_compressed_for_who_asks_for_it() {
    let weir = store();
    weir.must_write("db", &points(0, 5_000));
    let unfolded = |parameters: &str| {
        let q = rig::http::escape("SELECT * FROM load");
        let target = format!("/query?db=db&q={q}{parameters}");
        let plain = weir.send(&Request::get(&target));
        assert_eq!(plain.header("content-encoding"), None);
        let answer = weir.send(&Request::get(&target).header("Accept-Encoding", "deflate, gzip"));
        assert_eq!(answer.header("content-encoding"), Some("gzip"));
        assert!(answer.body.len() * 4 < plain.body.len(), "{}", answer.body.len());
        let mut text = String::new();
        let mut unfolding = flate2::read::GzDecoder::new(&answer.body[..]);
        std::io::Read::read_to_string(&mut unfolding, &mut text).unwrap();
        assert!(text == plain.text(), "{parameters}");
    };
    for parameters in ["", "&chunked=true&chunk_size=100", "&pretty=true"] {
        unfolded(parameters);
    }
}

#[test]
fn answers_are_as_they_are_for_who_refuses_gzip_or_asks_for_little() {
    let weir = store();
    weir.must_write("db", &points(0, 5_000));
    let ask = |q: &str, accepts: &str| {
        let target = format!("/query?db=db&q={}", rig::http::escape(q));
        weir.send(&Request::get(&target).header("Accept-Encoding", accepts))
    };
    let (all, one) = ("SELECT * FROM load", "SELECT * FROM load LIMIT 1");
    for (q, accepts, encoding) in [
        (all, "gzip", Some("gzip")),
        (all, "gzip;q=0.5", Some("gzip")),
        (all, "gzip;q=0", None),
        (all, "identity, gzip;q=0.5", None),
        (all, "br, *", None),
        (one, "gzip", None),
        ("CREATE DATABASE db", "gzip", None),
        ("SELECT FROM", "gzip", None),
    ] {
        let answer = ask(q, accepts);
        assert_eq!(answer.header("content-encoding"), encoding, "{q} {accepts}");
        let varies = Some("Accept-Encoding").filter(|_| answer.status() == 200);
        assert_eq!(answer.header("vary"), varies, "{q} {accepts}");
        assert!(encoding.is_some() || answer.text().starts_with('{'), "{q} {accepts}");
    }
}

#[test]
fn a_user_sees_only_the_databases_it_may_read() {
    let users = user("root", "toor", "admin = true")
        + &user("wide", "w", "read = []")
        + &user("narrow", "n", "read = [\"mine\"]\nwrite = []");
    let weir = Setup::new().embedded().table(&users).start();
    let ask = |q: &str, who: &str| {
        let q = rig::http::escape(q);
        weir.send(&Request::post(&format!("/query?db=secret&q={q}&{who}"), ""))
    };
    let made = ask("CREATE DATABASE mine; CREATE DATABASE secret", "u=root&p=toor").text();
    assert!(!made.contains("error"), "{made}");
    let seen = ask("SHOW DATABASES", "u=wide&p=w").text();
    assert!(seen.contains("mine") && seen.contains("secret"), "what it may write to: {seen}");
    let seen = ask("SHOW DATABASES", "u=narrow&p=n").text();
    assert!(seen.contains("mine") && !seen.contains("secret"), "{seen}");
    assert_eq!(ask("SELECT * FROM m", "u=narrow&p=n").status(), 403);
}
