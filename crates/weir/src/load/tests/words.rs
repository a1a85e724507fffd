//! What a user hears of a call or a run file of `weir load`, word for word: `words.txt` beside this
//! has it, and what `weir load init` prints is `init.toml`. `UPDATE=1` writes both anew.

use std::path::Path;

use super::{Line, file, mix};
use clap::Parser as _;

/// Calls, without `weir load`; a bar parts words.
const CALLS: &[&str] = &[
    "",
    "ftp://h",
    "http://h",
    "http://h|--nonsense",
    "http://h|--rats|5",
    "http://h|--rate|fast",
    "http://h|--rate|0",
    "http://h|--closed|--rate|5",
    "http://h|--steps|1:1s|--duration|5s",
    "http://h|--steps|1",
    "http://h|--think|5ms",
    "http://h|--duration|10",
    "http://h|--connections|many",
    "http://h|--require|p99<5",
    "http://h|--find-limit|p99<1s|--rate|5",
    "http://h|--find-limit|p99<1s|--ledger",
    "http://h|--workload|redis",
    "http://h|--insecure",
    "https://h|--insecure|--ca|x",
    "postgres://h/?sslmode=require|--insecure",
    "http://h|-X|POST|-H|a: b|--body|x|--check|status 200",
    "http://h|--targets|a|--method|POST",
    "http://h|--literal|--data|a.csv",
    "http://h|--requests-per-connection|0",
    "http://h|-H|x",
    "http://h|--mix|get",
    "http://h|--keys|5",
    "http://h|--key-order|zipf",
    "http://h|--script|select-only",
    "http://h|--pipelined",
    "http://h|--db|d",
    "http://h|--gzip",
    "http://h|--prepare",
    "http://h|--workload|influx-write|--db|d|--prepare|--gzip|-H|a: b",
    "http://h|--workload|influx-write|--body|x",
    "http://h|--workload|influx-write|--literal",
    "http://h|--workload|influx-write|--keys|5",
    "http://h|--workload|influx-write|--scale|5",
    "http://h|--workload|influx-write|--batch|many",
    "redis://h|--mix|get=9,set|--keys|5|--key-order|zipf|--size|9|--pipeline|2",
    "redis://h|--mix|fly",
    "dubbo://h/a.B|-X|m|--types|int|--arguments|[5]|--attachment|a=b|--generic|--group|g",
    "dubbo://h/a.B|--service-version|1.0|--body|x",
    "redis://h|--size|9-1",
    "redis://h|--key-order|odd",
    "redis://h|-X|POST",
    "redis://h|-H|a: b",
    "redis://h|--check|text x",
    "redis://h|--data|a.csv",
    "redis://h|--literal",
    "redis://h|--prepare",
    "redis://h|--script|x",
    "redis://h|--rows|jmeter",
    "redis://h|--workload|influx-write",
    "postgres://h|--script|select-only=9,tpcb-like|--prepare|--key-order|zipf|-D|a=1|--scale|2",
    "postgres://h|--protocol|fast",
    "postgres://h|-D|x",
    "postgres://h|--keys|5",
    "postgres://h|--body|x",
    "postgres://h|-H|a: b",
    "postgres://h|--batch|5",
    "postgres://h/?sslmode=maybe",
];

/// Texts of run files.
const FILES: &[&str] = &[
    "rate = 5",
    "url = 'http://h'",
    "url = 'ftp://h'",
    "url = 'http://h'\nrate = 5\nclosed = false\nrequire = ['p99<1s', 'errors<1']\nduration = '3s'",
    "url = 'http://h'\nrate = '5'\nconnections = '3'\nrequire = 'p99<1s'\nsteps = []",
    "url = 'http://h'\nrats = 5",
    "url = 'http://h'\nhelp = true",
    "url = 'http://h'\nrate = 'fast'",
    "url = 'http://h'\nrate = 5\nclosed = true",
    "url = 'http://h'\nrate = [5, 6]",
    "url = 'http://h'\nduration = 10",
    "url = 'http://h'\nconnections = 1.5",
    "url = 'http://h'\npoisson = 'yes'",
    "url = 'http://h'\nthink = '5ms'",
    "url = 'http://h'\n[rate]\nx = 1",
    "url = 'http://h'\nmix = 'get'",
    "url = 'http://h'\nprepare = true",
    "url = 'http://h'\nprepare = false\nmethod = 'POST'\nheader = 'a: b'\nbody = 'x'",
    "url = 'http://h'\nworkload = 'influx-write'\ndb = 'd'\nrows = 'jmeter'\nbatch = 5",
    "url = 'http://h'\nworkload = 'influx-write'\nbody = 'x'",
    "url = 'http://h'\nworkload = 'http'",
    "url = 'redis://h'\nmix = 'get=9,set=1'\nkeys = 5\nsize = 9\npipeline = 2",
    "url = 'redis://h'\nkeys = 'many'",
    "url = 'dubbo://h/a.B'\nmethod = 'm'\ntypes = 'int'\narguments = '[5]'\nattachment = ['a=b']",
    "url = 'redis://h'\nmethod = 'POST'",
    "url = 'postgres://h'\nscript = ['select-only=9', 'tpcb-like']\ndefine = ['a=1']\nscale = 2",
    "url = 'postgres://h'\nbody = 'x'",
    "url = 'http://h'\n[[step]]\ntarget = '/'\ncheck = 'status 200'",
    "url = 'http://h'\n[[step]]\nname = 'a'",
    "url = 'http://h'\n[[step]]\ntarget = '/'\nchek = 'x'",
    "url = 'redis://h'\n[[step]]\ntarget = '/'",
    "url = 'http://h'\n[verdict]\nlittle = 0.5\nlateness-min = '1ms'",
    "url = 'http://h'\n[verdict]\nlitle = 0.5",
    "url = 'http://h'\n[verdict]\nlittle = 5",
    "url = 'http://h'\n[[load]]\nurl = 'http://h'",
    "rate = 9\n[[load]]\nurl = 'http://h'\nshare = 1\n[[load]]\nurl = 'redis://h'\nshare = 2",
    "mix = 'get'\n[[load]]\nurl = 'http://h'\n[[load]]\nurl = 'redis://h'",
    "[[load]]\nname = 'a'\nurl = 'http://h'\nmix = 'get'",
    "[[load]]\nname = 'a'\nurl = 'http://h'\nrats = 5",
    "[[load]]\nname = 'a'\nurl = 'http://h'\nduration = '5s'",
    "[[load]]\nname = 'a'\nurl = 'http://h'\n[[load]]\nname = 'a'\nurl = 'http://h'",
    "[[load]]\nurl = 'http://h'\nshare = 1\n[[load]]\nurl = 'http://h'",
    "load = 5",
];

fn of_call(call: &str) -> Result<(), String> {
    let words = call.split('|').filter(|word| !word.is_empty());
    let line = Line::try_parse_from(std::iter::once("weir load").chain(words));
    let load = line.map_err(|error| error.to_string())?.command;
    load.speed.pace().map(drop).map_err(|failure| failure.to_string())
}

fn of_file(text: &str) -> Result<(), String> {
    for (_, load) in mix::loads(text, toml::Table::new())? {
        load.speed.pace().map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

/// What is said, without how to type it on a command line.
fn told(begins: Result<(), String>) -> String {
    let said = begins.err().unwrap_or_else(|| "begins".to_owned());
    said.split("\n\n").next().unwrap_or_default().trim_end().replace('\n', "\n    ")
}

#[track_caller]
fn held_equal(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/load/tests").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "{name} is not what the program says; UPDATE=1 writes it:\n{text}");
}

#[test]
fn what_can_not_work_is_told_in_these_words() {
    let mut text = String::new();
    for call in CALLS {
        text += &format!("weir load {}\n    {}\n", call.replace('|', " "), told(of_call(call)));
    }
    for file in FILES {
        text += &format!("{}\n    {}\n", file.replace('\n', "\n  "), told(of_file(file)));
    }
    held_equal("words.txt", &text);
}

#[test]
fn the_template_of_a_run_file_is_this() {
    held_equal("init.toml", &file::template());
}
