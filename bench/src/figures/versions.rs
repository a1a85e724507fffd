//! Which versions stood beside each other.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rig::places;
use rig::postgres::{Bouncer, program};

use crate::arguments::Name;

pub type Versions = BTreeMap<String, String>;

/// Programs beside the InfluxDB gateway, what says their version, and what they are called.
const INFLUX: [(&str, &str, &str); 7] = [
    ("nginx", "-v", "nginx"),
    ("influxd", "version", "InfluxDB"),
    ("vmagent", "-version", "vmagent"),
    ("influxdb-relay", "-version", "influxdb-relay"),
    ("influx-proxy", "-version", "influx-proxy"),
    ("telegraf", "--version", "Telegraf"),
    ("wrk", "-v", "wrk"),
];
/// The same beside the embedded store.
const STORE: [(&str, &str, &str); 1] = [INFLUX[1]];
/// The same beside the PostgreSQL gateway; PgBouncer and PostgreSQL are looked for elsewhere.
const POSTGRES: [(&str, &str, &str); 6] = [
    ("haproxy", "-v", "HAProxy"),
    ("pgdog", "--version", "PgDog"),
    ("pgcat", "--version", "PgCat"),
    ("pg_doorman", "--version", "pg_doorman"),
    ("odyssey", "--version", "Odyssey"),
    ("sysbench", "--version", "sysbench"),
];

/// The same beside the Redis gateway.
const REDIS: [(&str, &str, &str); 5] = [
    ("redis-server", "--version", "Redis"),
    ("nutcracker", "--version", "nutcracker"),
    ("redis-benchmark", "--version", "redis-benchmark"),
    ("envoy", "--version", "Envoy"),
    ("predixy", "--version", "predixy"),
];

/// The same beside append-only files.
const AOF: [(&str, &str, &str); 1] = [REDIS[0]];

/// The same beside the load meter.
const METER: [(&str, &str, &str); 5] =
    [INFLUX[0], INFLUX[6], ("h2load", "--version", "h2load"), REDIS[0], REDIS[2]];

/// The same beside the operator's page.
const PAGE: [(&str, &str, &str); 2] = [INFLUX[6], ("chromium", "--version", "Chromium")];

/// Those of Weir and of all that is installed and may stand beside it in this row.
pub fn of(name: Name) -> Versions {
    let (programs, is_postgres): (&[(&str, &str, &str)], bool) = match name.gateway() {
        "InfluxDB gateway" => (&INFLUX, false),
        "Embedded store" => (&STORE, false),
        "Redis gateway" => (&REDIS, false),
        "Append-only files" => (&AOF, false),
        "Operator's page" => (&PAGE, false),
        "Load meter" => (&METER, name == Name::LoadPostgres),
        _ => (&POSTGRES, true),
    };
    let mut all = BTreeMap::from([("Weir".to_owned(), weir())]);
    for (file, flag, name) in programs {
        if let Some(file) = places::find(file) {
            let version = said(&file, flag).unwrap_or_else(|| "unknown".to_owned());
            all.insert((*name).to_owned(), version);
        }
    }
    if is_postgres {
        let usual = Bouncer::usual();
        let named = [("PgBouncer", Some(usual)), ("PgBouncer 1.21+", Bouncer::newer())];
        let bouncers = named.into_iter().filter_map(|(name, one)| Some((name, one?.program)));
        let server = [("PostgreSQL", program("postgres"))];
        for (name, file) in bouncers.chain(server) {
            all.extend(said(&file, "--version").map(|version| (name.to_owned(), version)));
        }
    }
    all
}

/// Weir's version, and the commit of the source tree with what was changed in it since.
fn weir() -> String {
    let version = said(&places::weir(), "--version").unwrap_or_else(|| "unknown".to_owned());
    let git = |arguments: &[&str]| {
        let done = Command::new("git").args(arguments).current_dir(places::root()).output().ok()?;
        let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        done.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return version };
    // The figures themselves are being written to.
    let paths = ["status", "--porcelain", "--", ".", ":!docs", ":!bench/figures.jsonl"];
    match git(&paths).is_none_or(|changes| changes.is_empty()) {
        true => format!("{version}, commit {commit}"),
        false => format!("{version}, commit {commit} with changes"),
    }
}

/// The first word with a number and a dot in what a program says of itself, on either output.
fn said(file: &Path, flag: &str) -> Option<String> {
    let done = Command::new(file).arg(flag).output().ok()?;
    let text = [done.stdout, done.stderr].concat();
    first_version(&String::from_utf8_lossy(&text))
}

fn first_version(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || "/,;()".contains(c));
    let versions = words.filter_map(|word| {
        let at = word.find(|c: char| c.is_ascii_digit())?;
        let version = &word[at..];
        let is_one = version
            .split('.')
            .take(2)
            .filter(|part| !part.is_empty() && part.starts_with(|c: char| c.is_ascii_digit()));
        (is_one.count() == 2).then(|| version.to_owned())
    });
    versions.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::first_version;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let said = [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("InfluxDB v1.6.7~rc0 (git: unknown unknown)", "1.6.7~rc0"),
            ("PgBouncer 1.18.0\nlibevent 2.1.12-stable", "1.18.0"),
            ("HAProxy version 2.6.12-1+deb12u2 2025/04/16", "2.6.12-1+deb12u2"),
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", "15.14"),
            ("Chromium 156.0.8078.108 built on Debian", "156.0.8078.108"),
            ("wrk debian/4.1.0-3+b2 [epoll] Copyright", "4.1.0-3+b2"),
        ];
        for (text, version) in said {
            assert_eq!(first_version(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(first_version("no version here"), None);
    }
}
