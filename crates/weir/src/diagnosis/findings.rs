//! What is wrong at one moment, worst first: a pure function of what is known of it.

use redis::guard::findings::About;
use serde::{Deserialize, Serialize};
use watch::words::{bytes, count, seconds};

use super::event::Level;
use super::fill::Fill;
use super::observation::{Observation, is_away, oldest_age, waiting};
use super::remedy::{self, pg_isready, ping, psql, redis_ping, stopped};
use super::status::{Backend, Cursor, Journal, Status};

/// Findings that are shown; more would be read by nobody.
pub const FINDINGS_MAX: usize = 20;
/// How much of somebody else's words is shown.
const WORDS_CHARS_MAX: usize = 240;
/// A replica that is behind by more is worth a word.
const LAG_SECONDS_MAX: f64 = 10.0;
/// A client that has waited longer for a server is worth a word.
const WAIT_SECONDS_MAX: f64 = 1.0;
/// What has waited longer for the disk of an append-only file is worth a word.
const NOT_DURABLE_SECONDS_MAX: f64 = 2.0;
/// A client that has left a transaction open for longer is worth a word.
const IDLE_SECONDS_MAX: f64 = 60.0;
/// A journal that lasts longer is not worth a word.
const LASTS_SECONDS_MAX: f64 = 30.0 * 86_400.0;
/// A backlog whose oldest point is older is worth a word.
const BACKLOG_SECONDS_MAX: f64 = 30.0;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is: `bad` or `warn`.
    pub level: Level,
    /// What is wrong, in words.
    pub text: String,
    /// The command to type, for a shell; empty where none helps.
    pub remedy: String,
    /// Among those of one level the greater comes first.
    #[serde(skip)]
    weight: f64,
}

/// Findings in the making.
#[derive(Default)]
struct FindingList(Vec<Finding>);

impl FindingList {
    fn bad(&mut self, weight: f64, text: String, remedy: impl Into<String>) {
        self.add(Level::Bad, weight, &text, remedy.into());
    }

    fn warn(&mut self, weight: f64, text: String, remedy: impl Into<String>) {
        self.add(Level::Warn, weight, &text, remedy.into());
    }

    fn add(&mut self, level: Level, weight: f64, text: &str, remedy: String) {
        self.0.push(Finding { level, text: shortened(text), remedy, weight });
    }
}

/// A text cut to what can be read at a glance.
pub fn shortened(text: &str) -> String {
    let mut cut: String = text.chars().take(WORDS_CHARS_MAX).collect();
    if cut.len() < text.len() {
        cut.push_str(" ...");
    }
    cut
}

/// What is wrong, worst first.
pub fn findings(seen: &Observation) -> Vec<Finding> {
    let mut found = FindingList::default();
    let status = &seen.status;
    if !status.ready.yes {
        let why = status.ready.reason.as_deref().unwrap_or("no reason is known");
        let what =
            if status.influx.is_some() { "no writes are taken" } else { "Weir is not ready" };
        found.bad(90.0, format!("{what}: {why}"), not_ready(seen));
    }
    for worker in &seen.stalled {
        let text = format!("{worker} stands still, and its clients with it");
        found.bad(95.0, text, remedy::LOG);
    }
    if let Some(journal) = &status.journal {
        of_journal(seen, journal, &mut found);
    }
    of_influx(seen, &mut found);
    of_postgres(seen, &mut found);
    of_redis(status, &mut found);
    of_aof(status, &mut found);
    of_guard(status, &mut found);
    of_reload(status, &mut found);
    for expiry in seen.expiries.iter().filter(|expiry| expiry.is_near(seen.at)) {
        let text = format!("{}: renew it", expiry.in_words(seen.at));
        let remedy = "systemctl reload weir";
        match expiry.at <= seen.at {
            true => found.bad(60.0, text, remedy),
            false => found.warn(60.0, text, remedy),
        }
    }
    let worst = |a: &Finding, b: &Finding| {
        a.level.cmp(&b.level).then(b.weight.total_cmp(&a.weight)).then(a.text.cmp(&b.text))
    };
    found.0.sort_by(worst);
    found.0.truncate(FINDINGS_MAX);
    found.0
}

fn not_ready(seen: &Observation) -> String {
    match &seen.status.journal {
        Some(journal) if journal.poisoned.is_some() => remedy::POISONED.to_owned(),
        Some(journal) if journal.disk_full => remedy::disk(&seen.installation.journal_dir),
        Some(journal) if journal.full => remedy::laggard(&seen.status, &seen.installation),
        _ => remedy::LOG.to_owned(),
    }
}

fn of_journal(seen: &Observation, journal: &Journal, found: &mut FindingList) {
    if let Some(why) = &journal.poisoned {
        let text = format!("a sync of the journal failed, nothing is acknowledged: {why}");
        found.bad(100.0, text, remedy::POISONED);
    }
    for damage in &journal.damage {
        let text = format!("the journal is damaged at {}", damage.place);
        found.bad(50.0, text, remedy::verify_journal(&seen.installation));
    }
    let lasts = journal.until_full_seconds.unwrap_or(f64::INFINITY);
    if Fill::of(journal) == Fill::High && !journal.full && !journal.disk_full {
        let (used, most) = (bytes(journal.bytes_used), bytes(journal.bytes_max));
        let when = match lasts.is_finite() {
            true => format!(" and full in {}", seconds(lasts)),
            false => String::new(),
        };
        let then = match journal.when_full.as_str() {
            "reject" => "writes are refused then",
            _ => "the oldest points are given up then",
        };
        let text = format!(
            "the journal is at {used} of {most}{when}; {then}: bring back the backend that \
             lags, or raise journal.max-size"
        );
        found.bad(80.0, text, remedy::laggard(&seen.status, &seen.installation));
    }
}

/// The journal's part of a backend's absence: until when nothing is lost by it.
fn lasts(journal: Option<&Journal>) -> String {
    match journal.map(|journal| (journal.full, journal.until_full_seconds)) {
        Some((true, _)) => "; the journal is full".to_owned(),
        Some((_, Some(left))) if left < LASTS_SECONDS_MAX => {
            format!("; the journal lasts {} more", seconds(left))
        }
        _ => String::new(),
    }
}

/// A number of points as it is said: `2.1 M points`, `1 point`.
pub fn points(value: u64) -> String {
    match value {
        1 => "1 point".to_owned(),
        0..100_000 => format!("{} points", count(value)),
        100_000..1_000_000 => format!("{} k points", value / 1000),
        _ => format!("{:.1} M points", value as f64 / 1e6),
    }
}

fn of_influx(seen: &Observation, found: &mut FindingList) {
    let Some(influx) = &seen.status.influx else { return };
    let journal = seen.status.journal.as_ref();
    for backend in &influx.backends {
        of_backend(seen, backend, journal, found);
        for words in &backend.missing {
            let remedy = remedy::verify_store(&seen.installation);
            found.bad(40.0, format!("answers lack {words}"), remedy);
        }
    }
    for of in influx.collisions.iter().flat_map(|all| &all.measurements) {
        let by = |who: &str| of.overwritten.get(who).copied().unwrap_or(0);
        let writers = by("hosts") + by("connections");
        if writers > 0 {
            let (db, name) = (&of.database, &of.measurement);
            let stamp = match by("connections") {
                0 => "peer",
                _ => "parameter:writer",
            };
            let text = format!(
                "{} of {db}.{name} overwrote those of other writers: stamp = {{ writer = \
                 \"{stamp}\" }} in [influx] keeps both",
                points(writers)
            );
            found.warn(20.0 + share(writers), text, remedy::edit(&seen.status));
        }
    }
}

fn of_backend(
    seen: &Observation,
    backend: &Backend,
    journal: Option<&Journal>,
    found: &mut FindingList,
) {
    let (name, waiting, at) = (&backend.name, waiting(backend), &seen.installation);
    let why = backend.reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    if is_away(backend) {
        let since = seen.away.get(name).copied().unwrap_or(seen.at);
        let span = seconds((seen.at - since).max(0.0));
        let wait = match waiting {
            0 => "nothing waits".to_owned(),
            1 => "1 point waits".to_owned(),
            more => format!("{} wait", points(more)),
        };
        let lasts = if waiting > 0 { lasts(journal) } else { String::new() };
        match backend.state.as_str() {
            "stopped" => {
                let text = format!("{name} has needed somebody for {span}: {wait}{lasts}{why}");
                found.bad(70.0 + share(waiting), text, stopped(backend, &seen.status, at));
            }
            _ => {
                let text = format!("{name} has been away for {span}: {wait}{lasts}{why}");
                found.bad(65.0 + share(waiting), text, ping(backend, at));
            }
        }
    } else if let Some(age) = oldest_age(backend).filter(|age| *age > BACKLOG_SECONDS_MAX) {
        let (when, remedy) = match seen.caught_up_in(backend) {
            Some(left) => (format!("caught up in {}", seconds(left)), String::new()),
            None => (format!("it does not catch up{}", lasts(journal)), ping(backend, at)),
        };
        let text = format!("{name} is {} behind: {} wait; {when}", seconds(age), points(waiting));
        found.warn(45.0 + share(waiting), text, remedy);
    }
    let none = Cursor::default();
    let cursor = backend.cursor.as_ref().unwrap_or(&none);
    if cursor.dead_lettered > 0 {
        let words = backend.last_refusal.as_deref();
        let words = words.map(|of| format!(": {of}")).unwrap_or_default();
        let text = format!("{name} has refused {} for good{words}", points(cursor.dead_lettered));
        let weight = 30.0 + share(cursor.dead_lettered);
        found.warn(weight, text, remedy::dead_letters(name, at));
    }
    let dropped = cursor.dropped_of_all_kinds();
    if dropped > 0 {
        let text =
            format!("{name} never gets {}: given up, damaged or unreadable", points(dropped));
        found.warn(35.0 + share(dropped), text, remedy::verify_journal(at));
    }
}

/// From 0 to below 10, by how many there are.
fn share(of: u64) -> f64 {
    ((of as f64).max(1.0).log10() / 2.0).min(9.9)
}

fn of_postgres(seen: &Observation, found: &mut FindingList) {
    let Some(postgres) = &seen.status.postgres else { return };
    let console = |command: &str| remedy::console(&seen.installation, command);
    if postgres.paused {
        found.bad(55.0, "PostgreSQL: PAUSE is in force".to_owned(), console("RESUME"));
    }
    let is_primary = |of: &postgres::status::Backend| of.role == "primary";
    if !postgres.backends.is_empty() && !postgres.backends.iter().any(is_primary) {
        let text = "PostgreSQL has no primary: nothing is written".to_owned();
        found.bad(85.0, text, remedy::candidate(postgres));
    }
    for server in &postgres.backends {
        of_postgres_server(postgres, server, found);
    }
    for pool in &postgres.pools {
        let holders = |command: &str| remedy::holders(postgres, &seen.installation, command);
        of_pool(pool, holders, found);
    }
}

fn of_postgres_server(
    postgres: &postgres::status::Status,
    server: &postgres::status::Backend,
    found: &mut FindingList,
) {
    let (name, address) = (&server.name, &server.address);
    let why = server.trouble.as_deref().unwrap_or("it does not answer");
    match server.role.as_str() {
        "down" => {
            let text = format!("PostgreSQL server {name} is down: {why}");
            found.bad(62.0, text, pg_isready(address));
        }
        "rival" | "misplaced" | "foreign" => {
            let sql = "SELECT pg_is_in_recovery(), system_identifier FROM pg_control_system()";
            found.bad(75.0, format!("PostgreSQL server {name}: {why}"), psql(address, sql));
        }
        _ if server.trouble.is_some() => {
            found.warn(50.0, format!("PostgreSQL server {name}: {why}"), pg_isready(address));
        }
        _ => {}
    }
    let lag = server.lag_seconds.filter(|lag| *lag > LAG_SECONDS_MAX);
    if let (Some(lag), None) = (lag, &server.trouble) {
        let text = format!("PostgreSQL replica {name} is {} behind", seconds(lag));
        let sql = "SELECT * FROM pg_stat_replication";
        found.warn(40.0, text, remedy::psql_primary(postgres, sql));
    }
}

/// `holders` gives the command that shows who holds server connections.
fn of_pool(
    pool: &postgres::status::Pool,
    holders: impl Fn(&str) -> String,
    found: &mut FindingList,
) {
    let (db, user) = (&pool.database, &pool.user);
    if pool.wait_max_seconds > WAIT_SECONDS_MAX {
        let (waiting, longest) = (count(pool.waiting), seconds(pool.wait_max_seconds));
        let text = format!(
            "{waiting} clients of {user} at {db} wait for a PostgreSQL connection, {longest} so \
             far: raise pool-size, or end what holds connections"
        );
        found.warn(48.0, text, holders("SHOW SERVERS"));
    }
    if pool.idle_in_transaction_max_seconds > IDLE_SECONDS_MAX {
        let idle = count(pool.idle_in_transaction);
        let longest = seconds(pool.idle_in_transaction_max_seconds);
        let text = format!(
            "{idle} clients of {user} at {db} are idle in a transaction, the longest for {longest}"
        );
        found.warn(38.0, text, holders("SHOW CLIENTS"));
    }
}

fn of_redis(status: &Status, found: &mut FindingList) {
    let Some(redis) = &status.redis else { return };
    for server in &redis.backends {
        let (name, why) = (&server.name, server.wrong.as_deref().unwrap_or("it failed"));
        if let Some(left) = server.ejected_seconds {
            let left = seconds(left);
            let text = format!("Redis server {name} is ejected for {left} more ({why})");
            found.bad(64.0, text, redis_ping(server));
        } else if server.wrong.is_some() {
            found.bad(63.0, format!("Redis server {name} fails: {why}"), redis_ping(server));
        }
    }
}

fn of_aof(status: &Status, found: &mut FindingList) {
    for master in &status.followed {
        let name = &master.name;
        if let Some(why) = &master.trouble {
            let text = format!("the append-only file of {name} is in trouble: {why}");
            found.bad(66.0, text, remedy::followed(master));
        }
        let late = master.not_durable_seconds;
        if late > NOT_DURABLE_SECONDS_MAX {
            let (late, waits) = (seconds(late), bytes(master.not_durable_bytes));
            let text = format!("{waits} of {name} have not been on the disk for {late}");
            found.warn(52.0, text, "iostat -x 1 5");
        }
    }
}

fn of_guard(status: &Status, found: &mut FindingList) {
    let servers = status.guard.iter().flat_map(|guard| &guard.hosts).flat_map(|of| &of.servers);
    for server in servers {
        let passing = |about: About| matches!(about, About::Rewriting | About::Saving);
        for finding in server.findings.iter().filter(|of| !passing(of.about)) {
            let weight = if finding.about.is_setting() { 10.0 } else { 42.0 };
            let text =
                format!("Redis {}, {}: {}", server.name, finding.about.word(), finding.words);
            found.warn(weight, text, remedy::redis_cli(&server.url, "info persistence"));
        }
    }
}

fn of_reload(status: &Status, found: &mut FindingList) {
    let Some(reload) = &status.process.reload else { return };
    if let Some(why) = &reload.refused {
        let text = format!("the last reload was refused: {why}");
        found.warn(58.0, text, remedy::check(status));
    } else if !reload.needs_restart.is_empty() {
        let keys = reload.needs_restart.join(", ");
        let text = format!("changed in the file, and waiting for a restart: {keys}");
        found.warn(5.0, text, "systemctl restart weir");
    }
}

#[cfg(test)]
mod tests;
