//! Types of fields between the check of a write and its place in the store.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rig::beside::EndGuard;
use rig::http::{Connection, Request};
use rig::machine;
use rig::wait;
use rig::weir::{Setup, Weir};

use super::{must_run, rows, store, with};
use crate::scene::points;

/// For how long writers and statements meet.
const MEETING: Duration = Duration::from_secs(5);

/// Writes points of changing types to `m` while `statement` empties it again and again. Whatever is
/// acknowledged must have found its place: nothing may be refused behind a 204.
fn meet(weir: &Weir, statement: &str) {
    let (over, acknowledged, refused) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        let end = EndGuard(&over);
        for writer in 0..4_usize {
            let (over, next) = (&over, &next);
            let (acknowledged, refused) = (&acknowledged, &refused);
            scope.spawn(move || {
                let values = ["1.5", "1i", "true", "\"t\""];
                let mut connection = Connection::open(weir.http).unwrap();
                for turn in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let value = values[(writer + turn / 8) % values.len()];
                    let time = next.fetch_add(1, Ordering::Relaxed);
                    let line = format!("m,h=a f={value} {time}\n");
                    let answer = connection.send(&Request::post("/write?db=db", line)).unwrap();
                    match answer.status() {
                        204 => acknowledged.fetch_add(1, Ordering::Relaxed),
                        400 => refused.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{other}: {}", answer.text()),
                    };
                }
            });
        }
        let until = Instant::now() + MEETING;
        while Instant::now() < until {
            let answer = weir.query(statement, &[("db", "db")]);
            assert_eq!(answer.status(), 200, "{}", answer.text());
        }
        drop(end);
    });
    weir.wait_delivered();
    let account = weir.account("store");
    let (acknowledged, refused) = (acknowledged.into_inner(), refused.into_inner());
    assert!(acknowledged > 50 && refused > 0, "{acknowledged} {refused}");
    assert_eq!(account.dead_lettered, 0, "acknowledged {acknowledged}: {account:?}");
    assert_eq!(account.accepted, acknowledged, "{account:?}");
}

#[test]
fn a_point_acknowledged_while_its_measurement_is_dropped_is_not_lost() {
    meet(&store(), "DROP MEASUREMENT m");
}

#[test]
fn a_point_acknowledged_while_its_series_are_dropped_or_deleted_is_not_lost() {
    meet(&store(), "DROP SERIES FROM m; DELETE FROM m");
}

#[test]
fn a_measurement_that_was_dropped_takes_another_type_at_once() {
    let weir = store();
    for (turn, value) in
        ["1.5", "1i", "true", "\"t\"", "2.5"].into_iter().cycle().take(50).enumerate()
    {
        weir.must_write("db", &format!("m f={value} {turn}\nm f={value} {}\n", turn + 1));
        assert_eq!(rows(&weir, "SELECT f FROM m").len(), 2);
        must_run(&weir, ["DROP MEASUREMENT m", "DELETE FROM m", "DROP SERIES FROM m"][turn % 3]);
    }
}

#[test]
fn a_write_that_there_is_no_room_for_leaves_its_types_to_others() {
    let weir =
        with(|setup| setup.with_faults().store("journal-ahead = \"1MiB\"\nmemory = \"64MiB\""));
    weir.store_faults("hold");
    let mut taken = 0;
    wait::until("writes are refused", wait::LONG, || {
        taken += 1_000;
        weir.write("db", &points(taken, 1_000)).status() == 503
    });
    for body in ["new f=1.5 1\n", "new g=1.5,f=t 1\n"] {
        assert_eq!(weir.write("db", body).status(), 503);
    }
    weir.store_faults("");
    wait::until("there is room", wait::LONG, || {
        weir.write("db", &points(taken, 1)).status() == 204
    });
    weir.must_write("db", "new f=1i,g=\"text\" 1\n");
    let refused = weir.write("db", "new f=1.5 2\n");
    assert_eq!(refused.status(), 400, "{}", refused.text());
}

/// One worker, whose watchdog counts what keeps it for longer than a debug build may need for its
/// own.
fn one_worker() -> Weir {
    let weir = Setup::new().top("workers = 1\nstall-limit = \"1s\"").embedded().start();
    must_run(&weir, "CREATE DATABASE db");
    weir
}

/// In the Weir that `WEIR_BIN` names, a release build, every piece of work counts that has taken
/// more than 10 ms of the worker's CPU time.
fn assert_nobody_was_held_up(weir: &Weir) {
    let held = std::env::var_os("WEIR_BIN").map_or(0.0, |_| weir.held());
    let stalls = weir.metrics().sum("weir_worker_stalls_total", &[]);
    assert_eq!((stalls, held), (0.0, 0.0), "{}", weir.log());
}

/// A body of about so many bytes.
fn long(bytes: usize, mut piece: impl FnMut(&mut String, usize)) -> String {
    let mut text = String::new();
    for n in 0.. {
        if text.len() >= bytes {
            break;
        }
        piece(&mut text, n);
    }
    text
}

#[test]
fn one_line_with_many_new_fields_holds_nobody_up() {
    let _alone = machine::alone();
    let weir = one_worker();
    for fields in [10_000, 40_000, 60_000] {
        let line: String = (0..fields).fold(format!("wide{fields} "), |mut line, n| {
            let comma = if n > 0 { "," } else { "" };
            let _ = write!(line, "{comma}f{n}=1");
            line
        });
        weir.must_write("db", &format!("{line} 1\n"));
        assert_eq!(rows(&weir, &format!("SELECT f{} FROM wide{fields}", fields - 1)).len(), 1);
    }
    assert_nobody_was_held_up(&weir);
}

#[test]
fn many_new_measurements_fields_or_shapes_in_one_body_hold_nobody_up() {
    let _alone = machine::alone();
    let weir = one_worker();
    let size = 600 << 10;
    let bodies = [
        long(size, |text, n| writeln!(text, "a{n} f=1 1").unwrap()),
        long(size, |text, n| writeln!(text, "b f{n}=1 1").unwrap()),
        // Known by now, in another order with each line.
        long(size, |text, n| writeln!(text, "b f{}=1 {n}", n * 7 % 20_000).unwrap()),
        long(size, |text, n| writeln!(text, "c a{}=1,b=1 {n}", n % 2).unwrap()),
        // All but the first of another type.
        long(size, |text, n| writeln!(text, "d f=1{} {n}", if n > 0 { "i" } else { "" }).unwrap()),
        long(size, |text, n| writeln!(text, "e,t{n}=x f=1 1").unwrap()),
        long(60 << 10, |text, n| write!(text, "{}t{n}=x", if n > 0 { "," } else { "g," }).unwrap())
            + " f=1 1\n",
    ];
    for body in &bodies {
        let answer = weir.write("db", body);
        assert!(matches!(answer.status(), 204 | 400), "{}", answer.text());
    }
    assert_nobody_was_held_up(&weir);
    assert_eq!(weir.account("store").dead_lettered, 0);
}
