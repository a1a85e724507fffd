//! `weir check`: what `weir serve` would do, in words, without doing it and without secrets.

mod postgres;
mod redis;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use influx::settings::{BackendTable, CollisionSettings, StampValue};
use journal::{Ack, WhenFull};
use units::draft::Conversion;

use crate::config::ConfigFile;
use crate::config::{self, LoadedConfig, Settings};
use crate::exit::{self, BAD_NEWS, DONE, Failure};

/// Reads the configuration and prints the plan and the warnings.
pub fn run(wanted: &ConfigFile, out: &mut dyn Write) -> Result<u8, Failure> {
    let loaded = config::load(wanted)?;
    out.write_all(render(&loaded)?.as_bytes())?;
    Ok(DONE)
}

/// Prints what a `pgbouncer.ini`, a `nutcracker.yml` or the TOML of influxdb-relay means as TOML;
/// what is still to be done about it goes to standard error.
pub fn from_other(file: &Path, out: &mut dyn Write) -> Result<u8, Failure> {
    let ending = file.extension().and_then(|of| of.to_str()).unwrap_or_default();
    let Conversion { toml, to_do } = match ending {
        "yml" | "yaml" => from_nutcracker(file)?,
        "toml" => from_relay(file)?,
        _ => from_pgbouncer(file)?,
    };
    out.write_all(toml.as_bytes())?;
    let problems: Vec<_> = config::problems(&toml).into_iter().chain(to_do).collect();
    for problem in &problems {
        exit::note(problem);
    }
    Ok(if problems.is_empty() { DONE } else { BAD_NEWS })
}

fn from_relay(file: &Path) -> Result<Conversion, Failure> {
    let at = |what: &dyn std::fmt::Display| Failure::other(format!("{}: {what}", file.display()));
    let content = std::fs::read_to_string(file).map_err(|error| at(&error))?;
    ::influx::migrate::relay(file, &content).map_err(|error| at(&error))
}

fn from_pgbouncer(file: &Path) -> Result<Conversion, Failure> {
    let read = |path: &Path| {
        // A comment in an old encoding is no reason to stop.
        std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    ::postgres::migrate::pgbouncer(file, &read).map_err(Failure::other)
}

fn from_nutcracker(file: &Path) -> Result<Conversion, Failure> {
    let at = |what: &dyn std::fmt::Display| Failure::other(format!("{}: {what}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| at(&error))?;
    let pools = ::redis::migrate::nutcracker(&bytes).map_err(|error| at(&error))?;
    Ok(::redis::migrate::toml(file, &pools))
}

fn render(loaded: &LoadedConfig) -> io::Result<String> {
    let file = loaded.file.as_deref().unwrap_or(Path::new("The default")).display();
    let mut text = Vec::new();
    writeln!(text, "{file} can be used. `weir serve` would")?;
    for (what, how) in plan(&loaded.settings) {
        writeln!(text, "  {what:<14} {how}")?;
    }
    for warning in &loaded.warnings {
        writeln!(text, "warning: {warning}")?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// One line per fact; a fact that goes on has no word of its own.
fn plan(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let mut under = |word: &'static str, facts: Vec<String>| {
        let words = std::iter::once(word).chain(std::iter::repeat(""));
        lines.extend(words.zip(facts));
    };
    under("listen", listeners(settings));
    if settings.has_influx() {
        under("let in", users(settings));
        under("create", created(settings));
        under("stamp", stamps(settings));
        under("count", collisions(settings));
        under("acknowledge", vec![acknowledgement(settings.journal.ack).to_owned()]);
        under("keep", kept(settings));
        let backends = settings.influx.backend.iter();
        under("deliver to", backends.map(|of| backend(of, settings)).collect());
        under("share out over", sets(settings));
    }
    if let Some(sql) = &settings.postgres {
        under("let in", postgres::users(sql));
        under("offer", postgres::databases(sql));
        under("connect", postgres::pools(sql));
        under("ask", postgres::backends(sql));
    }
    if let Some(keys) = &settings.redis {
        for (name, pool) in keys.pools() {
            if !keys.pool.is_empty() {
                under("in the pool", vec![name]);
            }
            under("let in", redis::users(&pool));
            under("place", redis::placement(&pool));
            under("ask", redis::backends(&pool));
        }
    }
    if let Some(keys) = &settings.redis {
        under("follow", redis::followed(keys));
        under("have", redis::acts(keys));
    }
    under("run", vec![format!("{} workers", settings.worker_count())]);
    lines
}

/// The sets of a cluster, each with its members.
fn sets(settings: &Settings) -> Vec<String> {
    let sets = settings.influx.set.iter();
    sets.map(|set| format!("set {:?}: {}", set.name, set.members.join(", "))).collect()
}

fn listeners(settings: &Settings) -> Vec<String> {
    let influx = &settings.influx;
    let scheme = if influx.tls.is_some() { "https" } else { "http" };
    let http =
        influx.listen.iter().map(|address| format!("on {scheme}://{address} for InfluxDB clients"));
    let udp = influx.udp.iter().map(|udp| {
        let policy = match udp.retention_policy.as_str() {
            "" => String::new(),
            policy => format!(".{policy:?}"),
        };
        format!("on udp://{} for line protocol into {:?}{policy}", udp.listen, udp.database)
    });
    let admin = match settings.admin.address() {
        Ok(Some(address)) => {
            let scheme = if settings.admin.tls.is_some() { "https" } else { "http" };
            let who = if settings.admin.has_logins() { ", with logins" } else { "" };
            let what = "the operator's page, /metrics, /ready and `weir status`";
            format!("on {scheme}://{address} for {what}{who}")
        }
        _ => "on no admin port: admin.listen is empty".to_owned(),
    };
    let mut all: Vec<String> = Vec::new();
    if settings.has_influx() {
        all.extend(http.chain(udp));
    }
    all.extend(settings.postgres.iter().flat_map(postgres::listeners));
    all.extend(settings.redis.iter().flat_map(redis::listeners));
    all.push(admin);
    all
}

fn users(settings: &Settings) -> Vec<String> {
    let users = &settings.influx.user;
    if users.is_empty() {
        return vec!["everybody: there is no [[influx.user]]".to_owned()];
    }
    let rights = |names: &[String]| match names {
        [] => "nothing".to_owned(),
        names if names.iter().any(|name| name == "*") => "every database".to_owned(),
        names => names.join(", "),
    };
    let described = users.iter().map(|user| {
        let name = &user.name;
        if user.admin {
            return format!("{name}, for everything");
        }
        format!("{name}, to read {}, to write {}", rights(&user.read), rights(&user.write))
    });
    described.collect()
}

fn created(settings: &Settings) -> Vec<String> {
    let created = "each database that a write names and that is not there".to_owned();
    if settings.influx.auto_create_database { vec![created] } else { Vec::new() }
}

fn stamps(settings: &Settings) -> Vec<String> {
    let stamp = |(tag, value): (&String, &String)| match StampValue::of(value) {
        StampValue::Peer => format!("each point with {tag} = the client's address"),
        StampValue::PeerPort => format!("each point with {tag} = the client's address and port"),
        StampValue::User => format!("each point with {tag} = the user that writes"),
        StampValue::Parameter(name) => {
            format!("each point with {tag} = the parameter {name:?} of the write's URL")
        }
        StampValue::Fixed(text) => format!("each point with {tag} = {text:?}"),
    };
    let mut stamps: Vec<_> = settings.influx.stamp.iter().map(stamp).collect();
    if has_writers_apart(settings) {
        let sums = "so each writer has series of its own: sum() over them is right, and mean() and";
        stamps.push(sums.to_owned());
        stamps.push("last() show one writer's share (docs/influxdb.md, Overwriting)".to_owned());
    }
    stamps
}

/// Whether the points of one client get other tags than those of another.
fn has_writers_apart(settings: &Settings) -> bool {
    let is_fixed = |value: &String| matches!(StampValue::of(value), StampValue::Fixed(_));
    !settings.influx.stamp.values().all(is_fixed)
}

fn collisions(settings: &Settings) -> Vec<String> {
    let CollisionSettings { window, memory, .. } = &settings.influx.collisions;
    match memory.len() {
        0 => Vec::new(),
        _ => vec![format!("points that overwrite others within {window}, with at most {memory}")],
    }
}

fn acknowledgement(ack: Ack) -> &'static str {
    match ack {
        Ack::Durable => "a write once it is synced to the disk (ack = \"durable\")",
        Ack::Written => {
            "a write once the system has it; a crash of the machine loses up to one \
             flush-interval (ack = \"written\")"
        }
        Ack::Memory => {
            "a write once it is in memory; a crash of Weir loses up to one group, one of the \
             machine up to one flush-interval and one group (ack = \"memory\")"
        }
    }
}

/// Only for the eye: a directory that can't be made absolute is shown as it is written.
fn absolute(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
}

fn kept(settings: &Settings) -> Vec<String> {
    let journal = &settings.journal;
    let dir = absolute(&journal.dir);
    let then = match journal.when_full {
        WhenFull::Reject => "refuse writes with 503",
        WhenFull::DropOldest => "drop the oldest, even if a backend has not had it",
    };
    vec![
        format!("what a backend has not had yet in {}", dir.display()),
        format!("up to {} of it, then {then}", journal.max_size),
    ]
}

fn backend(settings: &BackendTable, all: &Settings) -> String {
    if settings.embedded {
        let (name, memory) = (&settings.name, all.store.memory);
        let dir = absolute(&all.store.dir);
        return format!(
            "{name}, the store within Weir, in {}, after at most {memory} in memory",
            dir.display()
        );
    }
    let BackendTable { name, url, user, .. } = settings;
    let kind = serde_json::to_value(settings.kind).unwrap_or_default();
    let kind = kind.as_str().unwrap_or_default();
    let login = match (user.as_str(), settings.token.is_empty() && settings.token_file.is_none()) {
        ("", true) => String::new(),
        ("", false) => ", with a token".to_owned(),
        (user, _) => format!(", as {user}"),
    };
    format!("{name} at {url} ({kind}{login}), up to {} points a batch", settings.batch_points)
}
