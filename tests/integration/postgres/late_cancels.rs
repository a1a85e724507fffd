//! A cancel that comes when its statement is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pg::NoTls;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::beside::EndGuard;
use rig::postgres::Cluster;

use super::scene::{client, value, weir};

/// Rows that take longer to write than a signal to arrive.
const ROWS: &str = "SELECT repeat('x', 200) || n FROM generate_series(1, 300) n";

#[test]
fn nobody_elses_read_is_ended_amid_its_rows_by_a_cancel() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "[postgres.lanes]\ncount = 1");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = EndGuard(&over);
        let readers: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut reader = client(&weir).expect("let in");
                    let mut count = 0;
                    while !over.load(Ordering::Relaxed) {
                        let rows = reader.simple_query(ROWS).map_err(|error| error.to_string())?;
                        // A description in front of them, a tag behind.
                        assert_eq!(rows.len(), 302);
                        count += 1;
                    }
                    Ok::<_, String>(count)
                })
            })
            .collect();
        let mut chance = StdRng::seed_from_u64(1);
        let mut canceller = client(&weir).expect("let in");
        let token = canceller.cancel_token();
        for _ in 0..150 {
            let sql = |rows: u32| format!("SELECT count(*) FROM generate_series(1, {rows}) g");
            for _ in 0..2 {
                let _ = value(&mut canceller, &sql(10));
            }
            let token = token.clone();
            let wait = Duration::from_micros(chance.random_range(100..4000));
            let cancel = scope.spawn(move || {
                thread::sleep(wait);
                token.cancel_query(NoTls)
            });
            if let Err(error) = value(&mut canceller, &sql(10_000)) {
                assert!(error.starts_with("57014"), "{error}");
            }
            cancel.join().expect("no panic").expect("it is taken");
        }
        drop(end);
        for reader in readers {
            let count = reader.join().expect("no panic");
            assert!(count.as_ref().is_ok_and(|count| *count > 10), "{count:?}");
        }
    });
}
