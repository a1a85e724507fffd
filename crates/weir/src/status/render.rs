//! The answer of the admin port's `/status`, and how a person sees it.

use std::fmt;

use watch::words::{bytes, count, harmless, seconds};

use super::postgres::PostgresView;
use super::{aof, clients, clock, guard, latencies, table};
use crate::diagnosis::status::{
    Backend, Cursor, Damage, EmbeddedStore, Influx, Journal, Process, Status,
};

/// How much of a backend's words is shown; `--json` has the rest.
const REASON_CHARS_MAX: usize = 120;
/// A journal that is full in more than these seconds, a year, grows by the noise of one segment.
const FULL_IN_MAX: f64 = 365.0 * 86_400.0;

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.process.fmt(f)?;
        match (&self.ready.reason, &self.influx) {
            (Some(reason), _) => writeln!(f, "NOT READY: {reason}")?,
            (None, Some(influx)) => writeln!(
                f,
                "ready    {} connections, {} points acknowledged since the start",
                count(influx.connections),
                count(influx.points_accepted)
            )?,
            (None, None) => writeln!(f, "ready")?,
        }
        if let Some(journal) = &self.journal {
            writeln!(f, "{journal}")?;
        }
        if let Some(influx) = &self.influx {
            influx.fmt(f)?;
        }
        if let Some(status) = &self.postgres {
            PostgresView(status).fmt(f)?;
        }
        if let Some(status) = &self.redis {
            redis_shown(status, f)?;
        }
        aof::write(&self.followed, f)?;
        if let Some(status) = &self.guard {
            let pools = self.redis.iter().flat_map(|redis| &redis.backends);
            let pools: Vec<&str> = pools.map(|server| server.url.as_str()).collect();
            guard::write(status, &pools, f)?;
        }
        clients::write(f, &self.clients)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, pid, uptime_seconds, workers, host, .. } = self;
        let up = seconds(*uptime_seconds);
        let host = if host.is_empty() { String::new() } else { format!(", on {host}") };
        writeln!(f, "weir {version}, pid {pid}, up {up}, {workers} workers{host}")?;
        let Some(reload) = &self.reload else { return Ok(()) };
        let at = clock::local(reload.at);
        match &reload.refused {
            Some(refused) => {
                let first = refused.lines().next().unwrap_or_default();
                writeln!(f, "RELOAD REFUSED at {at}: {}", harmless(first))
            }
            None if reload.needs_restart.is_empty() => writeln!(f, "reload   {at}"),
            None => {
                let keys = reload.needs_restart.join(", ");
                writeln!(f, "reload   {at}; a restart is needed for {keys}")
            }
        }
    }
}

fn redis_shown(status: &redis::status::Status, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let share = status.lane_commands as f64 * 100.0 / status.commands.max(1) as f64;
    let shared = match status.shared_reads {
        0 => String::new(),
        reads => format!(", {} reads shared", count(reads)),
    };
    writeln!(
        f,
        "redis    {} connections, {} commands since the start, {share:.0} % by lanes{shared}, {} \
         refused",
        count(status.connections),
        count(status.commands),
        count(status.refused),
    )?;
    writeln!(f)?;
    let row = |of: &redis::status::Backend| {
        let times = match of.ejections {
            0 => String::new(),
            times => format!(", ejected {} times", count(times)),
        };
        let state = match (of.ejected_seconds, &of.wrong) {
            (Some(left), _) => format!("ejected for {}", seconds(left)),
            (None, Some(_)) => format!("failing{times}"),
            (None, None) => format!("ok{times}"),
        };
        let state = match of.memory.map_or(0, |memory| memory.evicted) {
            0 => state,
            keys => format!("{state}, {} keys evicted", count(keys)),
        };
        vec![of.pool.clone(), of.name.clone(), of.url.clone(), of.weight.to_string(), state]
    };
    let rows: Vec<_> = status.backends.iter().map(row).collect();
    table::write(f, &["pool", "server", "address", "weight", "state"], &rows, 3, |row| {
        let words = status.backends.get(row)?.wrong.as_ref()?;
        Some(words.replace('\n', " "))
    })?;
    let named = |of: &redis::status::Backend| match &*of.pool {
        redis::settings::MAIN => of.name.clone(),
        pool => format!("{pool} {}", of.name),
    };
    latencies::write(f, status.backends.iter().map(|of| (named(of), &*of.latencies)))
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = bytes(self.bytes_used);
        let most = bytes(self.bytes_max);
        write!(f, "journal  {}, {used} of {most}", self.ack)?;
        match (&self.poisoned, self.disk_full, self.full, self.until_full_seconds) {
            (Some(why), ..) => write!(f, "; POISONED: {why}")?,
            (_, true, ..) => write!(f, "; THE DISK IS FULL")?,
            (_, _, true, _) => write!(f, "; FULL, when-full = \"{}\"", self.when_full)?,
            (.., Some(span)) if span < FULL_IN_MAX => {
                write!(f, "; full in {} at the present rate", seconds(span))?;
            }
            _ => write!(f, "; not growing")?,
        }
        for Damage { place } in &self.damage {
            write!(f, "\n         DAMAGED: {place}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Influx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEAD: [&str; 8] = [
            "backend",
            "state",
            "points waiting",
            "bytes",
            "oldest",
            "delivered",
            "dead-lettered",
            "dropped",
        ];
        let rows: Vec<_> = self.backends.iter().map(row).collect();
        writeln!(f)?;
        table::write(f, &HEAD, &rows, 2, |row| words_of(self.backends.get(row)?))?;
        if let Some(store) = &self.store {
            store.fmt(f)?;
        }
        for text in self.backends.iter().flat_map(|backend| &backend.missing) {
            writeln!(f, "MISSING: {}", text.replace('\n', " "))?;
        }
        self.collisions.as_ref().map_or(Ok(()), |collisions| collisions.fmt(f))
    }
}

/// Why a backend does not deliver, or what went wrong last, and why it refuses points.
fn words_of(backend: &Backend) -> Option<String> {
    let last_error = || {
        let words = backend.last_error.as_ref()?;
        let at = backend.last_error_at.map(|at| format!(" at {}", clock::local(at)));
        Some(format!("last error{}: {words}", at.unwrap_or_default()))
    };
    let refusal = backend.last_refusal.as_ref().map(|of| format!("refused points: {of}"));
    let parts = [backend.reason.clone().or_else(last_error), refusal];
    let parts: Vec<String> = parts.into_iter().flatten().map(|of| shortened(&of)).collect();
    (!parts.is_empty()).then(|| parts.join("\n  "))
}

/// One line of somebody else's words.
fn shortened(words: &str) -> String {
    let mut cut: String = words.chars().take(REASON_CHARS_MAX).collect();
    if cut.len() < words.len() {
        cut.push_str(" ...");
    }
    cut.replace('\n', " ")
}

impl fmt::Display for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, files_bytes, memory_bytes, series, queries } = *self;
        writeln!(
            f,
            "store    {} files of {}, {} in memory, {} series, {} queries running",
            count(files),
            bytes(files_bytes),
            bytes(memory_bytes),
            count(series),
            count(queries)
        )
    }
}

fn row(of: &Backend) -> Vec<String> {
    let none = Cursor::default();
    let cursor = of.cursor.as_ref().unwrap_or(&none);
    vec![
        of.name.clone(),
        of.state.clone(),
        count(cursor.waiting.items),
        bytes(cursor.waiting.bytes),
        cursor.waiting.oldest_age_seconds.map_or_else(|| "-".to_owned(), seconds),
        count(cursor.delivered),
        count(cursor.dead_lettered),
        count(cursor.dropped_of_all_kinds()),
    ]
}

#[cfg(test)]
mod tests {
    use super::Status;
    use serde_json::json;

    fn status() -> serde_json::Value {
        let cursor = |delivered: u64, waiting: u64| {
            json!({
                "delivered": delivered, "dead_lettered": 12, "dropped": 0, "dropped_oldest": 1,
                "dropped_damaged": 2,
                "waiting": {
                    "items": waiting, "bytes": waiting * 60,
                    "oldest_age_seconds": (waiting > 0).then_some(123.4),
                },
            })
        };
        json!({
            "process": { "version": "0.1.0", "pid": 42, "uptime_seconds": 97_200.0, "workers": 2 },
            "ready": { "yes": true, "reason": null },
            "journal": {
                "ack": "durable", "when_full": "reject", "poisoned": null, "full": false,
                "disk_full": false, "bytes_used": 1_288_490_189_u64, "bytes_max": 10_u64 << 30,
                "until_full_seconds": 11_520.0, "damage": [],
            },
            "influx": { "connections": 512, "points_accepted": 5_000_000, "backends": [
                {
                    "name": "a", "state": "delivering", "reason": null,
                    "cursor": cursor(5_000_000, 0),
                },
                {
                    "name": "old-server", "state": "retrying",
                    "cursor": cursor(3_765_433, 1_234_567),
                    "reason": "can't connect to 10.0.0.2:8086: Connection refused",
                },
            ] },
        })
    }

    #[test]
    fn a_backlog_is_seen_in_points_bytes_and_seconds() {
        let status: Status = serde_json::from_value(status()).unwrap();
        assert_eq!(status.to_string(), include_str!("../../tests/golden/status.txt"));
    }

    #[test]
    fn what_is_wrong_with_the_journal_is_loud() {
        for (key, value, shown) in [
            ("poisoned", json!("fdatasync failed"), "POISONED: fdatasync failed"),
            ("disk_full", json!(true), "THE DISK IS FULL"),
            ("full", json!(true), "FULL, when-full = \"reject\""),
            ("until_full_seconds", json!(null), "not growing"),
            ("until_full_seconds", json!(1e9), "not growing"),
            ("damage", json!([{ "place": "0000.log at 4096" }]), "DAMAGED: 0000.log at 4096"),
        ] {
            let mut document = status();
            document["journal"][key] = value;
            let status: Status = serde_json::from_value(document).unwrap();
            assert!(status.to_string().contains(shown), "{status}");
        }
    }

    #[test]
    fn what_the_stores_answers_lack_is_loud() {
        let mut document = status();
        document["influx"]["backends"][0]["missing"] = json!(["5 points of measurement m"]);
        let status: Status = serde_json::from_value(document).unwrap();
        assert!(status.to_string().contains("\nMISSING: 5 points of measurement m\n"), "{status}");
    }

    #[test]
    fn why_it_is_not_ready_is_the_first_thing_said() {
        let mut document = status();
        document["ready"] = json!({ "yes": false, "reason": "the journal is full" });
        let status: Status = serde_json::from_value(document).unwrap();
        assert_eq!(status.to_string().lines().nth(1), Some("NOT READY: the journal is full"));
    }
}
