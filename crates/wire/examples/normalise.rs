//! How long the normal form of a statement takes: `cargo run --release -p weir-wire --example
//! normalise`. Prints nanoseconds a statement, the best of many rounds; no allocation is made.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use wire::sql::{Strings, normalise};

const STATEMENTS: [&str; 4] = [
    "SELECT abalance FROM pgbench_accounts WHERE aid = 4711;",
    "select id, name, email from users where id = $1 limit 1",
    "SELECT \"t0\".\"id\", \"t0\".\"body\", \"t0\".\"created_at\" FROM \"posts\" AS \"t0\" WHERE \
     (\"t0\".\"author_id\" = 42 AND \"t0\".\"state\" IN ('a', 'b', 'c')) ORDER BY \"t0\".\"id\" \
     DESC LIMIT 20",
    "INSERT INTO sbtest1 (id, k, c, pad) VALUES (1234, 5678, '1111-2222-3333', '4444-5555')",
];

const ROUNDS: usize = 200;
const RUNS: usize = 10_000;

fn main() {
    let mut form = Vec::with_capacity(4096);
    let mut known = HashMap::new();
    for statement in STATEMENTS {
        form.clear();
        normalise(statement.as_bytes(), Strings::Standard, 4096, &mut form);
        known.insert(form.clone(), statement.len());
    }
    for statement in STATEMENTS {
        let mut best = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            for (lookup, best) in best.iter_mut().enumerate() {
                let start = Instant::now();
                for _ in 0..RUNS {
                    form.clear();
                    let text = black_box(statement).as_bytes();
                    black_box(normalise(text, Strings::Standard, 4096, &mut form));
                    if lookup == 1 {
                        black_box(known.get(&form));
                    }
                }
                *best = best.min(start.elapsed().as_nanos() as f64 / RUNS as f64);
            }
        }
        println!(
            "{:4} bytes: {:6.1} ns, with a look-up by SipHash {:6.1} ns",
            statement.len(),
            best[0],
            best[1]
        );
    }
}
