//! How a server persists, as it says itself in `INFO` and `CONFIG GET`.

use std::path::PathBuf;

use crate::info;
use crate::replica::answers::{config, keys_of};
use crate::server_memory::ServerMemory;

/// The settings that are asked for.
pub const CONFIG: [&str; 7] = [
    "save",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "auto-aof-rewrite-percentage",
    "auto-aof-rewrite-min-size",
    "min-replicas-to-write",
    "dir",
];

/// A server as it was when it was asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerReport {
    /// Another after each restart.
    pub run_id: String,
    /// It is nobody's replica.
    pub is_master: bool,
    /// Replicas that are connected to it, Weir among them.
    pub replicas: u64,
    /// How far its stream is.
    pub offset: u64,
    /// How many keys it has.
    pub keys: Option<u64>,
    /// A supervisor that it knows of started it, and will again.
    pub is_supervised: bool,
    /// It reads its files, or its master's.
    pub is_loading: bool,
    /// Its process, and where that has its files.
    pub process: Option<u32>,
    /// Its append-only file, if it keeps one.
    pub aof: Option<Aof>,
    /// What it does about RDB files.
    pub save: Chore,
    /// What it does about rewrites of its append-only file.
    pub rewrite: Chore,
    /// When it last saved an RDB file, in seconds of Unix time, or was started.
    pub saved_at: u64,
    /// How many writes came since the last save.
    pub changes: u64,
    /// How long its last fork took, in microseconds.
    pub fork_us: u64,
    /// What it says of its memory.
    pub memory: Option<ServerMemory>,
    /// How it is set, if it says so.
    pub settings: Option<Settings>,
}

/// A server's own append-only file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aof {
    /// Its size now, in bytes.
    pub bytes: u64,
    /// Its bytes when it was rewritten last.
    pub base_bytes: u64,
    /// How often a write waited, since the server started, because a sync was still under way.
    pub delayed: u64,
    /// Its last write failed.
    pub has_failed: bool,
}

/// A save, or a rewrite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chore {
    /// For how many seconds one has been under way, where one is.
    pub running: Option<u64>,
    /// How many seconds the last took.
    pub took: Option<u64>,
    /// Whether the last one failed.
    pub has_failed: bool,
}

/// How a server is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `save`: after how many seconds it saves with how many changes.
    pub save: String,
    /// `appendfsync`.
    pub appendfsync: String,
    /// `no-appendfsync-on-rewrite`.
    pub no_fsync_on_rewrite: bool,
    /// `auto-aof-rewrite-percentage`; 0 is never.
    pub rewrite_percent: u64,
    /// `auto-aof-rewrite-min-size`.
    pub rewrite_min_bytes: u64,
    /// `min-replicas-to-write`.
    pub min_replicas: u64,
    /// `dir`.
    pub dir: PathBuf,
}

impl ServerReport {
    /// Reads what a server answers to `INFO`, and to `CONFIG GET` of each of [`CONFIG`] in RESP2.
    /// `None` where that is not an answer to `INFO`.
    pub fn read(about: &[u8], settings: &[Vec<u8>]) -> Option<Self> {
        let text = |field: &str| info::field(about, field);
        let number = |field: &str| text(field).and_then(|text| text.parse::<u64>().ok());
        let is = |field: &str, value: &str| text(field) == Some(value);
        let chore = |[running, seconds, took, status]: [&str; 4]| Chore {
            running: is(running, "1").then(|| number(seconds).unwrap_or_default()),
            // -1 where there was none.
            took: number(took),
            has_failed: is(status, "err"),
        };
        let aof = is("aof_enabled", "1").then(|| Aof {
            bytes: number("aof_current_size").unwrap_or_default(),
            base_bytes: number("aof_base_size").unwrap_or_default(),
            delayed: number("aof_delayed_fsync").unwrap_or_default(),
            has_failed: is("aof_last_write_status", "err"),
        });
        let supervised = text("process_supervised");
        let mut seen = Self {
            run_id: text("run_id")?.to_owned(),
            is_master: is("role", "master"),
            replicas: number("connected_slaves").unwrap_or_default(),
            offset: number("master_repl_offset").unwrap_or_default(),
            keys: keys_of(about),
            is_supervised: supervised.is_some_and(|by| !["no", "unknown"].contains(&by)),
            is_loading: is("loading", "1") || is("async_loading", "1"),
            process: number("process_id").and_then(|id| u32::try_from(id).ok()),
            aof,
            save: chore([
                "rdb_bgsave_in_progress",
                "rdb_current_bgsave_time_sec",
                "rdb_last_bgsave_time_sec",
                "rdb_last_bgsave_status",
            ]),
            rewrite: chore([
                "aof_rewrite_in_progress",
                "aof_current_rewrite_time_sec",
                "aof_last_rewrite_time_sec",
                "aof_last_bgrewrite_status",
            ]),
            saved_at: number("rdb_last_save_time").unwrap_or_default(),
            changes: number("rdb_changes_since_last_save").unwrap_or_default(),
            fork_us: number("latest_fork_usec").unwrap_or_default(),
            memory: ServerMemory::read(about),
            settings: Settings::read(settings),
        };
        if is("aof_rewrite_scheduled", "1") {
            seen.rewrite.running.get_or_insert(0);
        }
        Some(seen)
    }

    /// Whether it saves or rewrites now.
    pub fn is_busy(&self) -> bool {
        self.save.running.is_some() || self.rewrite.running.is_some()
    }

    /// Whether it keeps neither an append-only file nor RDB files, as far as it says.
    pub fn keeps_nothing(&self) -> bool {
        let saves = self.settings.as_ref().is_some_and(|settings| settings.save.is_empty());
        self.aof.is_none() && saves
    }
}

impl Settings {
    fn read(replies: &[Vec<u8>]) -> Option<Self> {
        let text = |key: &str| replies.iter().find_map(|reply| config(reply, key));
        let number = |key: &str| text(key).and_then(|text| text.parse().ok());
        Some(Self {
            save: text("save")?.to_owned(),
            appendfsync: text("appendfsync")?.to_owned(),
            no_fsync_on_rewrite: text("no-appendfsync-on-rewrite")? == "yes",
            rewrite_percent: number("auto-aof-rewrite-percentage")?,
            rewrite_min_bytes: number("auto-aof-rewrite-min-size")?,
            min_replicas: number("min-replicas-to-write").unwrap_or_default(),
            dir: PathBuf::from(text("dir")?),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::{Aof, CONFIG, Chore, ServerReport};

    const INFO: &[u8] = b"$999\r\n# Server\r\nprocess_id:42\r\nprocess_supervised:systemd\r\n\
        run_id:c06e\r\n# Persistence\r\nloading:0\r\nasync_loading:0\r\n\
        rdb_changes_since_last_save:7\r\nrdb_bgsave_in_progress:1\r\n\
        rdb_last_save_time:1795574208\r\nrdb_last_bgsave_status:err\r\n\
        rdb_last_bgsave_time_sec:-1\r\nrdb_current_bgsave_time_sec:9\r\naof_enabled:1\r\n\
        aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:61\r\n\
        aof_current_rewrite_time_sec:-1\r\naof_last_bgrewrite_status:ok\r\n\
        aof_last_write_status:ok\r\naof_current_size:200\r\naof_base_size:100\r\n\
        aof_delayed_fsync:12\r\n# Stats\r\nevicted_keys:5\r\nlatest_fork_usec:340\r\n\
        # Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
        master_repl_offset:14\r\n# Keyspace\r\n\
        db0:keys=4,expires=1,avg_ttl=0\r\n";

    fn settings() -> Vec<Vec<u8>> {
        let values = ["3600 1 300 100", "everysec", "yes", "100", "67108864", "0", "/data"];
        let reply = |(key, value): (&&str, &str)| {
            let (key_len, len) = (key.len(), value.len());
            format!("*2\r\n${key_len}\r\n{key}\r\n${len}\r\n{value}\r\n").into_bytes()
        };
        CONFIG.iter().zip(values).map(reply).collect()
    }

    #[test]
    fn what_a_server_says_of_itself_is_read() {
        let seen = ServerReport::read(INFO, &settings()).unwrap();
        assert_eq!((seen.run_id.as_str(), seen.process), ("c06e", Some(42)));
        assert!(seen.is_master && seen.is_supervised && seen.is_busy() && !seen.is_loading);
        assert_eq!(seen.save, Chore { running: Some(9), took: None, has_failed: true });
        assert_eq!(seen.rewrite, Chore { running: None, took: Some(61), has_failed: false });
        let aof = Aof { bytes: 200, base_bytes: 100, delayed: 12, has_failed: false };
        assert_eq!((seen.aof, seen.keys, seen.replicas), (Some(aof), Some(4), 2));
        assert_eq!((seen.changes, seen.saved_at, seen.fork_us), (7, 1_795_574_208, 340));
        assert_eq!(seen.memory.map(|of| of.evicted), Some(5));
        let settings = seen.settings.unwrap();
        assert_eq!((settings.save.as_str(), settings.rewrite_percent), ("3600 1 300 100", 100));
        assert!(settings.no_fsync_on_rewrite && settings.dir == Path::new("/data"));
    }

    #[test]
    fn one_that_does_not_show_its_settings_is_seen_all_the_same() {
        let refused = vec![b"-NOPERM no\r\n".to_vec(); CONFIG.len()];
        let seen = ServerReport::read(INFO, &refused).unwrap();
        assert_eq!(seen.settings, None);
        assert!(!seen.keeps_nothing());
        assert_eq!(ServerReport::read(b"-NOPERM no\r\n", &refused), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(about: Vec<u8>, one: Vec<u8>) {
            let _ = ServerReport::read(&about, &[one.clone(), one]);
        }
    }
}
