//! Sixteen sets are asked at the same time: together they take as long as one.

use std::time::{Duration, Instant};

use rig::fake::{Fake, Mode};
use rig::http::{Connection, Request};
use rig::wait;
use rig::weir::Setup;

use super::{sets, start_applied};

const SETS: usize = 16;
const PAUSE: Duration = Duration::from_millis(50);
/// Not even six at a time would be as quick. On a machine that does nothing else it is 1.1 times
/// the time of one set.
const AT_ONCE: Duration = Duration::from_millis(140);
const TIMES: usize = 10;

/// How long a query takes.
fn time(connection: &mut Connection, sql: &str) -> Duration {
    let begun = Instant::now();
    let answer = connection.send(&Request::query(sql, &[("db", "db")])).unwrap();
    assert_eq!(answer.status(), 200, "{sql}: {}", answer.text());
    begun.elapsed()
}

#[test]
fn a_query_over_sixteen_sets_takes_as_long_as_one_over_one() {
    let fakes: Vec<Fake> = (0..SETS).map(|n| Fake::start(&format!("fake{n}"), &["db"])).collect();
    let mut setup = Setup::new();
    let (mut of, mut names) = (Vec::new(), Vec::new());
    for (n, fake) in fakes.iter().enumerate() {
        setup = setup.backend(&format!("m{n}"), &fake.url());
        of.push(format!("s{n}: m{n}"));
        names.push(format!("s{n}"));
    }
    let of: Vec<&str> = of.iter().map(String::as_str).collect();
    let placement = format!("[[influx.placement]]\nsets = {names:?}\nsplit-by = [\"host\"]\n");
    let weir = start_applied(setup.table(&(sets(&of) + &placement)));
    weir.wait_catalogue();
    fakes.iter().for_each(|fake| fake.set_queries(Mode::Slow(PAUSE)));
    let mut connection = Connection::open(weir.http).unwrap();
    let of_one = "SELECT max(v) FROM m WHERE host = 'a'";
    let one = (0..TIMES).map(|_| time(&mut connection, of_one)).min().unwrap();
    assert!(one >= PAUSE, "{one:?}");
    for sql in
        ["SHOW MEASUREMENTS", "SELECT max(v) FROM m GROUP BY host", "SELECT median(v) FROM m"]
    {
        // What else the machine does is not the query's.
        wait::until("all sets are asked at once", wait::LONG, || {
            let all = time(&mut connection, sql);
            println!("{sql}: {all:?}, one set: {one:?}");
            all <= AT_ONCE
        });
    }
    let all = weir.query("SHOW MEASUREMENTS", &[("db", "db")]).text();
    assert!((0..SETS).all(|n| all.contains(&format!("\"fake{n}\""))), "{all}");
}
