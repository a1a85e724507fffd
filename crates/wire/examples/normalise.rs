//! How long the normaliser takes a line: `cargo run --release -p weir-wire --example normalise`.
#![allow(clippy::print_stdout, reason = "what it is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use wire::line::{Options, Precision, StampError, StampTag, normalise};

const LINES: u32 = 5_000;
const AT_LEAST: Duration = Duration::from_millis(300);

/// A name, how to treat the lines, and how to make the nth of them.
type Case<'a> = (&'a str, &'a Options<'a>, fn(u32) -> String);

fn main() -> Result<(), StampError> {
    let stamp = [StampTag::new("instance", "10.1.2.3")?];
    let plain = Options {
        precision: Precision::Nanosecond,
        now_ns: 1_700_000_000_000_000_000,
        stamp: &[],
        unsigned: false,
    };
    let in_ms = Options { precision: Precision::Millisecond, ..plain };
    let stamped = Options { stamp: &stamp, ..plain };
    let cases: [Case<'_>; 8] = [
        ("60 bytes, copied whole", &plain, |n| {
            format!("cpu,host=server{:02} value={n:08}.25 17000000000{n:08}\n", n % 100)
        }),
        ("60 bytes, milliseconds", &in_ms, |n| {
            format!("cpu,host=server{:02} value={n:08}.25,ab=1i 17000{n:08}\n", n % 100)
        }),
        ("60 bytes, no timestamp", &plain, |n| {
            format!("cpu,host=server{:02},region=eu-west value={n:08}.25,count={n:06}i\n", n % 100)
        }),
        ("60 bytes, stamped", &stamped, |n| {
            format!("cpu,host=server{:02} value={n:08}.25 17000000000{n:08}\n", n % 100)
        }),
        ("200 bytes, 5 tags, 6 fields", &plain, |n| {
            format!(
                "request,app=shop,host=web{:02},method=GET,path=/cart,status=200 min=0.25,max=17.5,\
                 mean=1.625,count={n:05}i,ok=true,who=\"a visitor of the shop\" \
                 17000000000{n:08}\n",
                n % 100
            )
        }),
        ("60 bytes, an escape in a tag", &plain, |n| {
            format!("cpu,host=the\\ server{:02} value={n:05}.25 17000000000{n:08}\n", n % 100)
        }),
        ("60 bytes, a leading blank", &plain, |n| {
            format!(" cpu,host=server{:02} value={n:07}.25 17000000000{n:08}\n", n % 100)
        }),
        ("60 bytes, bad", &plain, |n| {
            format!("cpu,host=server{:02} value={n:08}.25x 17000000000{n:07}\n", n % 100)
        }),
    ];
    for (name, options, line) in cases {
        let body: String = (0..LINES).map(line).collect();
        let mut out = Vec::new();
        let mut rounds = 0;
        let start = Instant::now();
        while start.elapsed() < AT_LEAST {
            out.clear();
            black_box(normalise(black_box(body.as_bytes()), options, &mut out));
            rounds += 1;
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds * LINES);
        let bytes = body.len() / LINES as usize;
        println!("{name:30} {ns:6.1} ns a line of {bytes} bytes");
    }
    Ok(())
}
