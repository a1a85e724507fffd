//! What has happened between two moments: a pure function of both.

use std::collections::BTreeMap;

use watch::words::{bytes, count, seconds};

use super::event::{Change, Level};
use super::fill::Fill;
use super::findings::shortened;
use super::observation::{Expiry, Observation, is_away, waiting};
use super::remedy;
use super::status::{Backend, Status};

/// What has happened from one moment to a later one, worst first.
pub fn changes(before: &Observation, after: &Observation) -> Vec<Change> {
    let mut found = Vec::new();
    ready(&before.status, &after.status, &mut found);
    journal(&before.status, after, &mut found);
    influx(before, after, &mut found);
    postgres(&before.status, after, &mut found);
    redis(&before.status, &after.status, &mut found);
    reload(&before.status, &after.status, &mut found);
    stalls(before, after, &mut found);
    found.extend(expiries(before, after));
    found.sort_by_key(|change| change.level);
    found.iter_mut().for_each(|change| change.text = shortened(&change.text));
    found
}

fn ready(before: &Status, after: &Status, found: &mut Vec<Change>) {
    let text = match (before.ready.yes, after.ready.yes) {
        (true, false) => {
            let why = after.ready.reason.as_deref().unwrap_or("no reason is known");
            found.push(Change::new(Level::Bad, "ready", format!("Weir is not ready: {why}")));
            return;
        }
        (false, true) => "Weir is ready",
        _ => return,
    };
    found.push(Change::new(Level::Good, "ready", text));
}

fn journal(before: &Status, seen: &Observation, found: &mut Vec<Change>) {
    let (Some(before), Some(after)) = (&before.journal, &seen.status.journal) else { return };
    let at = &*seen.installation;
    let laggard = || remedy::laggard(&seen.status, at);
    let mut say = |level, text: String, remedy: &str| {
        found.push(Change::new(level, "journal", text).remedy(remedy));
    };
    if let (None, Some(why)) = (&before.poisoned, &after.poisoned) {
        let text = format!("a sync of the journal failed, nothing is acknowledged any more: {why}");
        say(Level::Bad, text, remedy::POISONED);
    }
    match (before.disk_full, after.disk_full) {
        (false, true) => {
            let remedy = remedy::disk(&at.journal_dir);
            say(Level::Bad, "the journal's disk is full".to_owned(), &remedy);
        }
        (true, false) => say(Level::Good, "the journal's disk has room again".to_owned(), ""),
        _ => {}
    }
    match (before.full, after.full) {
        (false, true) => {
            let text = format!("the journal has reached max-size, {}", bytes(after.bytes_max));
            say(Level::Bad, text, &laggard());
        }
        (true, false) => say(Level::Good, "the journal has room again".to_owned(), ""),
        _ => {}
    }
    match (Fill::of(before), Fill::of(after)) {
        (was, Fill::High) if was < Fill::High && !after.full => {
            let (used, most) = (bytes(after.bytes_used), bytes(after.bytes_max));
            let lasts = after.until_full_seconds.map_or_else(String::new, |lasts| {
                format!("; it is full in {} at the present rate", seconds(lasts))
            });
            say(Level::Warn, format!("the journal is at {used} of {most}{lasts}"), &laggard());
        }
        (was, Fill::Low) if was > Fill::Low => {
            say(Level::Good, "the journal is far from full again".to_owned(), "");
        }
        _ => {}
    }
    if after.damage.len() > before.damage.len() {
        let places: Vec<&str> = after.damage.iter().map(|of| of.place.as_str()).collect();
        let new = places.get(before.damage.len()..).unwrap_or_default().join(", ");
        let remedy = remedy::verify_journal(at);
        say(Level::Bad, format!("the journal is damaged at {new}"), &remedy);
    }
}

fn influx(before: &Observation, after: &Observation, found: &mut Vec<Change>) {
    let (Some(was), Some(is)) = (&before.status.influx, &after.status.influx) else { return };
    for backend in &is.backends {
        let name = &backend.name;
        let subject = format!("backend {name}");
        let Some(former) = was.backends.iter().find(|of| of.name == *name) else {
            let text = format!("backend {name} is new");
            found.push(Change::new(Level::Info, subject, text));
            continue;
        };
        found.extend(away(former, backend, before, after));
        let dead = |of: &Backend| of.cursor.as_ref().map_or(0, |cursor| cursor.dead_lettered);
        let lost = |of: &Backend| {
            of.cursor.as_ref().map_or(0, super::status::Cursor::dropped_of_all_kinds)
        };
        if dead(backend) > 0 && dead(former) == 0 {
            let text = format!("backend {name} refuses points for good; they are dead letters");
            let change = Change::new(Level::Warn, format!("dead letters {name}"), text);
            found.push(change.remedy(remedy::dead_letters(name, &after.installation)));
        }
        if lost(backend) > 0 && lost(former) == 0 {
            let text = format!("backend {name} never gets {} points", count(lost(backend)));
            found.push(Change::new(Level::Bad, format!("dropped {name}"), text));
        }
    }
    for gone in was.backends.iter().filter(|of| !is.backends.iter().any(|is| is.name == of.name)) {
        let text = format!("backend {} is gone from the configuration", gone.name);
        found.push(Change::new(Level::Info, format!("backend {}", gone.name), text));
    }
}

fn away(
    former: &Backend,
    backend: &Backend,
    before: &Observation,
    after: &Observation,
) -> Option<Change> {
    let name = &backend.name;
    let subject = format!("backend {name}");
    let why = backend.reason.as_deref().unwrap_or("no reason is known");
    let at = &after.installation;
    match (is_away(former), is_away(backend)) {
        (_, true) if backend.state == "stopped" && former.state != "stopped" => {
            let text = format!("backend {name} needs somebody: {why}");
            let remedy = remedy::stopped(backend, &after.status, at);
            Some(Change::new(Level::Bad, subject, text).remedy(remedy))
        }
        (false, true) => {
            let change = Change::new(Level::Warn, subject, format!("backend {name} went: {why}"));
            Some(change.remedy(remedy::ping(backend, at)))
        }
        (true, false) => {
            let since = before.away.get(name).copied().unwrap_or(after.at);
            let (span, left) = (seconds((after.at - since).max(0.0)), count(waiting(backend)));
            let text = format!("backend {name} is back after {span}; {left} points wait for it");
            Some(Change::new(Level::Good, subject, text))
        }
        _ => None,
    }
}

fn postgres(before: &Status, seen: &Observation, found: &mut Vec<Change>) {
    let (Some(before), Some(after)) = (&before.postgres, &seen.status.postgres) else { return };
    let primary = |of: &::postgres::status::Status| {
        of.backends.iter().find(|of| of.role == "primary").map(|of| of.name.clone())
    };
    match (primary(before), primary(after)) {
        (Some(was), Some(is)) if was != is => {
            let text = format!("PostgreSQL: the primary is {is}; it was {was}");
            found.push(Change::new(Level::Warn, "primary", text));
        }
        (Some(was), None) => {
            let text = format!("PostgreSQL has no primary; it was {was}");
            let change = Change::new(Level::Bad, "primary", text);
            found.push(change.remedy(remedy::candidate(after)));
        }
        (None, Some(is)) => {
            found.push(Change::new(Level::Good, "primary", format!("PostgreSQL: {is} is primary")));
        }
        _ => {}
    }
    for server in &after.backends {
        let Some(former) = before.backends.iter().find(|of| of.name == server.name) else {
            continue;
        };
        let (name, subject) = (&server.name, format!("PostgreSQL {}", server.name));
        match (former.role == "down", server.role == "down") {
            (false, true) => {
                let why = server.trouble.as_deref().unwrap_or("it does not answer");
                let text = format!("PostgreSQL server {name} is down: {why}");
                let change = Change::new(Level::Warn, subject, text);
                found.push(change.remedy(remedy::pg_isready(&server.address)));
            }
            (true, false) => {
                let text = format!("PostgreSQL server {name} is back, as {}", server.role);
                found.push(Change::new(Level::Good, subject, text));
            }
            _ => {}
        }
    }
    match (before.paused, after.paused) {
        (false, true) => {
            let change = Change::new(Level::Warn, "pause", "PostgreSQL: PAUSE is in force");
            found.push(change.remedy(remedy::console(&seen.installation, "RESUME")));
        }
        (true, false) => {
            found.push(Change::new(Level::Good, "pause", "PostgreSQL: PAUSE has ended"));
        }
        _ => {}
    }
}

fn redis(before: &Status, after: &Status, found: &mut Vec<Change>) {
    if let (Some(before), Some(after)) = (&before.redis, &after.redis) {
        for server in &after.backends {
            let former = before.backends.iter().find(|of| is_same_server(of, server));
            let Some(former) = former else { continue };
            found.extend(redis_server(former, server));
            found.extend(redis_place(former, server));
            found.extend(redis_evicts(former, server));
        }
        redis_pools(before, after, found);
    }
    for master in &after.followed {
        let Some(former) = before.followed.iter().find(|of| of.name == master.name) else {
            continue;
        };
        let (name, subject) = (&master.name, format!("append-only file {}", master.name));
        match (&former.trouble, &master.trouble) {
            (None, Some(why)) => {
                let text = format!("the append-only file of {name} is in trouble: {why}");
                let change = Change::new(Level::Bad, subject, text);
                found.push(change.remedy(remedy::followed(master)));
            }
            (Some(_), None) => {
                let text = format!("the append-only file of {name} is well again");
                found.push(Change::new(Level::Good, subject, text));
            }
            _ => {}
        }
    }
    guard(before, after, found);
}

fn is_same_server(one: &::redis::status::Backend, other: &::redis::status::Backend) -> bool {
    (&one.pool, &one.name) == (&other.pool, &other.name)
}

/// A server is another one under its name, as after a failover.
fn redis_place(
    former: &::redis::status::Backend,
    server: &::redis::status::Backend,
) -> Option<Change> {
    let (name, url) = (&server.name, &server.url);
    let text = match (&former.replica_of, &server.replica_of) {
        _ if former.url != *url && former.sentinel.is_none() && server.sentinel.is_none() => {
            format!("Redis server {name} is at {url}; it was at {}", former.url)
        }
        (Some(master), None) => format!("Redis server {name} is a master; {master} was its master"),
        (None, Some(master)) => format!("Redis server {name} is a replica of {master}"),
        _ => return None,
    };
    Some(Change::new(Level::Warn, format!("Redis {} {name}", server.pool), text))
}

/// A server has begun to evict keys.
fn redis_evicts(
    former: &::redis::status::Backend,
    server: &::redis::status::Backend,
) -> Option<Change> {
    let (before, memory) = (former.memory?, server.memory?);
    if before.evicted > 0 || memory.evicted == 0 {
        return None;
    }
    let max = memory.max_bytes.filter(|max| *max > 0);
    let max = max.map_or_else(String::new, |max| format!(" of {}", bytes(max)));
    let text = format!("Redis server {} evicts keys: its memory{max} is full", server.name);
    let change = Change::new(Level::Info, format!("Redis {} {}", server.pool, server.name), text);
    Some(change.remedy(remedy::redis_cli(&server.url, "info memory")))
}

/// Servers that have come to a pool, as nodes of a Cluster do, and those that have left it.
fn redis_pools(
    before: &::redis::status::Status,
    after: &::redis::status::Status,
    found: &mut Vec<Change>,
) {
    let mut pools: BTreeMap<&str, [Vec<&str>; 2]> = BTreeMap::new();
    for (side, (these, others)) in [(after, before), (before, after)].into_iter().enumerate() {
        let is_there = |of: &::redis::status::Backend| {
            others.backends.iter().any(|other| is_same_server(of, other))
        };
        for server in these.backends.iter().filter(|of| !is_there(of)) {
            pools.entry(&server.pool).or_default()[side].push(&server.name);
        }
    }
    for (pool, [came, went]) in pools {
        let level = if went.is_empty() { Level::Info } else { Level::Warn };
        let part = |names: &[&str], verb: &str| {
            (!names.is_empty()).then(|| format!("{} {verb}", names.join(", ")))
        };
        let parts: Vec<String> =
            [part(&went, "left"), part(&came, "came")].into_iter().flatten().collect();
        let text = format!("servers of Redis pool {pool}: {}", parts.join("; "));
        found.push(Change::new(level, format!("Redis pool {pool}"), text));
    }
}

fn redis_server(
    former: &::redis::status::Backend,
    server: &::redis::status::Backend,
) -> Option<Change> {
    let (name, subject) = (&server.name, format!("Redis {} {}", server.pool, server.name));
    let is_ill = |of: &::redis::status::Backend| of.wrong.is_some() || of.ejected_seconds.is_some();
    match (former.ejected_seconds.is_some(), server.ejected_seconds.is_some()) {
        (false, true) => {
            let text = format!("Redis server {name} is ejected: others have its keys");
            let change = Change::new(Level::Bad, subject, text);
            return Some(change.remedy(remedy::redis_ping(server)));
        }
        (true, false) if !is_ill(server) => {
            let text = format!("Redis server {name} has its keys again");
            return Some(Change::new(Level::Good, subject, text));
        }
        _ => {}
    }
    match (is_ill(former), &server.wrong) {
        (false, Some(why)) => {
            let text = format!("Redis server {name} fails: {why}");
            let change = Change::new(Level::Warn, subject, text);
            Some(change.remedy(remedy::redis_ping(server)))
        }
        (true, None) if !is_ill(server) => {
            Some(Change::new(Level::Good, subject, format!("Redis server {name} is back")))
        }
        _ => None,
    }
}

fn guard(before: &Status, after: &Status, found: &mut Vec<Change>) {
    let (Some(before), Some(after)) = (&before.guard, &after.guard) else { return };
    let servers = |of: &'_ ::redis::guard::shown::Status| -> Vec<::redis::guard::shown::Server> {
        of.hosts.iter().flat_map(|host| host.servers.clone()).collect()
    };
    let (was, is) = (servers(before), servers(after));
    for server in &is {
        let former = was.iter().find(|of| of.name == server.name);
        let former = former.map_or(&[][..], |of| &of.findings);
        let (name, subject) = (&server.name, format!("guard {}", server.name));
        // What a server does now and then, as saving, is no event; nor is how it is set.
        let tells = |of: &&::redis::guard::findings::Finding| {
            use ::redis::guard::findings::About;
            !of.about.is_setting() && !matches!(of.about, About::Rewriting | About::Saving)
        };
        for new in server.findings.iter().filter(tells) {
            if !former.iter().any(|of| of.about == new.about) {
                let text = format!("Redis {name}, {}: {}", new.about.word(), new.words);
                let change = Change::new(Level::Warn, &*subject, text);
                found.push(change.remedy(remedy::redis_cli(&server.url, "info persistence")));
            }
        }
        for gone in former.iter().filter(tells) {
            if !server.findings.iter().any(|of| of.about == gone.about) {
                let text = format!("Redis {name}: {} is over", gone.about.word());
                found.push(Change::new(Level::Good, &*subject, text));
            }
        }
    }
}

fn reload(before: &Status, after: &Status, found: &mut Vec<Change>) {
    let Some(reload) = &after.process.reload else { return };
    if before.process.reload.as_ref().is_some_and(|former| former.at == reload.at) {
        return;
    }
    let change = match (&reload.refused, &reload.needs_restart[..]) {
        (Some(why), _) => {
            let text = format!("a reload was refused, the former configuration stays: {why}");
            Change::new(Level::Warn, "reload", text).remedy(remedy::check(after))
        }
        (None, []) => Change::new(Level::Info, "reload", "the configuration was reloaded"),
        (None, keys) => {
            let keys = keys.join(", ");
            let text = format!("the configuration was reloaded, but for {keys}");
            Change::new(Level::Info, "reload", text).remedy("systemctl restart weir")
        }
    };
    found.push(change);
}

fn stalls(before: &Observation, after: &Observation, found: &mut Vec<Change>) {
    for ((worker, stage), times) in &after.stalls {
        let former = before.stalls.get(&(worker.clone(), stage.clone())).copied().unwrap_or(0);
        if *times > former {
            let text = format!("{worker} stood still in stage {stage}");
            found.push(Change::new(Level::Warn, format!("stall {worker} {stage}"), text));
        }
    }
}

/// What has come to end within 14 days.
pub fn expiries(before: &Observation, after: &Observation) -> Vec<Change> {
    let was_near = |of: &Expiry| before.expiries.contains(of) && of.is_near(before.at);
    let near = after.expiries.iter().filter(|of| of.is_near(after.at) && !was_near(of));
    let change = |of: &Expiry| Change::new(Level::Warn, &*of.what, of.in_words(after.at));
    near.map(change).collect()
}

#[cfg(test)]
mod tests;
