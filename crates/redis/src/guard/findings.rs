//! What is wrong with how a server persists, in words: with the number and the remedy.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use watch::words::{bytes, count, seconds};

use super::device::Writing;
use super::history::History;
use super::seen::{Aof, ServerReport, Settings};

/// What a finding is about; its word is the label of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// It can't be asked, or does not show how it is set.
    Unasked,
    /// Its last save, rewrite or write failed.
    Failed,
    /// Writes waited for a sync that was under way.
    DelayedFsync,
    /// It rewrites its append-only file.
    Rewriting,
    /// It saves an RDB file.
    Saving,
    /// Another server of its host saves or rewrites meanwhile.
    Together,
    /// Its last fork took long.
    SlowFork,
    /// It does not sync while it rewrites.
    NoFsyncOnRewrite,
    /// It syncs when the system likes.
    NoFsync,
    /// It rewrites at any time of the day.
    AutoRewrite,
    /// Nothing ever rewrites its append-only file.
    NeverRewritten,
    /// It saves at any time of the day.
    SavePoints,
    /// Another process writes to the device of an append-only file.
    OtherWriter,
    /// A restart would have it come back empty, and its replicas with it.
    EmptyRestart,
    /// It came back with fewer keys.
    CameBackEmpty,
}

impl About {
    pub const ALL: [Self; 15] = [
        Self::Unasked,
        Self::Failed,
        Self::DelayedFsync,
        Self::Rewriting,
        Self::Saving,
        Self::Together,
        Self::SlowFork,
        Self::NoFsyncOnRewrite,
        Self::NoFsync,
        Self::AutoRewrite,
        Self::NeverRewritten,
        Self::SavePoints,
        Self::OtherWriter,
        Self::EmptyRestart,
        Self::CameBackEmpty,
    ];

    /// What metrics and the log call the finding.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Failed => "failed",
            Self::DelayedFsync => "delayed-fsync",
            Self::Rewriting => "rewriting",
            Self::Saving => "saving",
            Self::Together => "together",
            Self::SlowFork => "slow-fork",
            Self::NoFsyncOnRewrite => "no-fsync-on-rewrite",
            Self::NoFsync => "no-fsync",
            Self::AutoRewrite => "auto-rewrite",
            Self::NeverRewritten => "never-rewritten",
            Self::SavePoints => "save-points",
            Self::OtherWriter => "other-writer",
            Self::EmptyRestart => "empty-restart",
            Self::CameBackEmpty => "came-back-empty",
        }
    }

    /// Whether it is about how a server is set, and not about what it does now.
    pub fn is_setting(self) -> bool {
        matches!(
            self,
            Self::NoFsyncOnRewrite | Self::NoFsync | Self::AutoRewrite | Self::SavePoints
        )
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about.
    pub about: About,
    /// What is wrong, with the number and the remedy.
    pub words: String,
}

/// What is known of a server beside what it says.
#[derive(Debug, Clone, Copy)]
pub struct ServerContext<'a> {
    /// What it said before.
    pub history: &'a History,
    /// Weir keeps a file of it.
    pub is_followed: bool,
    /// So many of its replicas are connections of this Weir.
    pub own: u64,
    /// The guard has it rewrite and save.
    pub is_acted_on: bool,
    /// A fork that took longer is said.
    pub fork_max: Duration,
    /// Others of its host that save or rewrite now.
    pub busy: &'a [&'a str],
    /// Who else writes to the device of its append-only file, or of Weir's.
    pub writing: &'a [Writing],
}

/// What is wrong with a server.
pub fn findings(seen: &ServerReport, around: &ServerContext<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |about: About, words: Option<String>| {
        found.extend(words.map(|words| Finding { about, words }));
    };
    let settings = seen.settings.as_ref();
    let unshown = settings
        .is_none()
        .then(|| "it does not show how it is set: grant Weir's user +config|get".to_owned());
    say(About::Unasked, unshown);
    say(About::Failed, failed(seen));
    say(About::DelayedFsync, around.history.late().map(|times| late(times, around)));
    say(About::Rewriting, seen.rewrite.running.map(|for_seconds| rewriting(for_seconds, seen)));
    say(About::Saving, seen.save.running.map(|for_seconds| saving(for_seconds, seen)));
    say(About::Together, together(seen, around));
    say(About::SlowFork, slow_fork(seen, around));
    if let (Some(aof), Some(settings)) = (seen.aof, settings) {
        say(About::NoFsyncOnRewrite, unsynced_rewrite(settings, seen));
        say(About::NoFsync, unsynced(settings, around));
        say(About::AutoRewrite, auto_rewrite(aof, settings, around));
        say(About::NeverRewritten, never_rewritten(aof, settings, around));
    }
    say(About::SavePoints, settings.and_then(|settings| save_points(settings, seen, around)));
    say(About::OtherWriter, around.writing.first().map(|most| other_writer(most, around)));
    say(About::EmptyRestart, empty_restart(seen, around));
    say(
        About::CameBackEmpty,
        around.history.emptied().map(|had| came_back_empty(had, seen, around)),
    );
    found
}

/// What is said where a server can't be asked.
pub fn unasked(why: &str) -> Finding {
    let words = format!("it cannot be asked how it persists, which needs +info: {why}");
    Finding { about: About::Unasked, words }
}

fn remedy(around: &ServerContext<'_>) -> &'static str {
    match around.is_followed {
        true => "Weir keeps its file: set appendonly no",
        false => {
            "have Weir keep its file ([redis.aof]) and set appendonly no, or give the file a \
                  disk of its own"
        }
    }
}

fn failed(seen: &ServerReport) -> Option<String> {
    let all = [
        (seen.save.has_failed, "save"),
        (seen.rewrite.has_failed, "rewrite of its append-only file"),
        (seen.aof.is_some_and(|aof| aof.has_failed), "write to its append-only file"),
    ];
    let what: Vec<&str> = all.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
    (!what.is_empty()).then(|| {
        format!(
            "its last {} failed, and it may refuse writes: see its log, and whether its disk is \
             full or its fork found no memory",
            what.join(" and its last ")
        )
    })
}

fn late(times: u64, around: &ServerContext<'_>) -> String {
    format!(
        "{} times in the last minutes a sync of its append-only file was late (aof_delayed_fsync), \
         and all of its clients waited for the disk, for seconds at worst; its slow log shows \
         nothing of it: {}",
        count(times),
        remedy(around)
    )
}

fn took(last: Option<u64>) -> String {
    last.map_or(String::new(), |took| format!(" (the last took {})", seconds(took as f64)))
}

fn rewriting(for_seconds: u64, seen: &ServerReport) -> String {
    let size = seen.aof.map_or(String::new(), |aof| format!(" of {}", bytes(aof.bytes)));
    format!(
        "it has been rewriting its append-only file{size} for {}{}: its syncs wait for the disk \
         meanwhile. It ends by itself",
        seconds(for_seconds as f64),
        took(seen.rewrite.took)
    )
}

fn saving(for_seconds: u64, seen: &ServerReport) -> String {
    format!(
        "it has been saving an RDB file for {}{}: the disk is busy, and pages that are written \
         take memory twice. It ends by itself",
        seconds(for_seconds as f64),
        took(seen.save.took)
    )
}

fn together(seen: &ServerReport, around: &ServerContext<'_>) -> Option<String> {
    (seen.is_busy() && !around.busy.is_empty()).then(|| {
        format!(
            "it saves or rewrites at once with {} of its host: [redis.guard] mode = \"act\" has \
             them do it in turns, with save \"\" and auto-aof-rewrite-percentage 0",
            around.busy.join(", ")
        )
    })
}

fn slow_fork(seen: &ServerReport, around: &ServerContext<'_>) -> Option<String> {
    let took = Duration::from_micros(seen.fork_us);
    (took > around.fork_max).then(|| {
        format!(
            "its last fork took {}, in which it served nobody: smaller servers, transparent huge \
             pages off, or saves and bases from a replica",
            seconds(took.as_secs_f64())
        )
    })
}

fn unsynced_rewrite(settings: &Settings, seen: &ServerReport) -> Option<String> {
    settings.no_fsync_on_rewrite.then(|| {
        format!(
            "no-appendfsync-on-rewrite is yes: what it writes while it rewrites{} is lost with \
             the machine. Set no, and rewrite when few write",
            took(seen.rewrite.took)
        )
    })
}

fn unsynced(settings: &Settings, around: &ServerContext<'_>) -> Option<String> {
    (settings.appendfsync == "no").then(|| {
        format!(
            "appendfsync is no: up to half a minute of writes is lost with the machine. Set \
             everysec; for the stalls of that, {}",
            remedy(around)
        )
    })
}

fn auto_rewrite(aof: Aof, settings: &Settings, around: &ServerContext<'_>) -> Option<String> {
    let percent = settings.rewrite_percent;
    let grown = u128::from(aof.base_bytes) * u128::from(percent + 100) / 100;
    let at = u64::try_from(grown).unwrap_or(u64::MAX).max(settings.rewrite_min_bytes);
    (percent > 0).then(|| {
        let turns = match around.is_acted_on {
            true => "the guard has it rewrite in its window",
            false => "with [redis.guard] mode = \"act\" it rewrites in a window, in turns",
        };
        format!(
            "auto-aof-rewrite-percentage is {percent}: it rewrites at {} (now {}), whatever the \
             hour and whoever else does. Set 0; {turns}",
            bytes(at),
            bytes(aof.bytes)
        )
    })
}

fn never_rewritten(aof: Aof, settings: &Settings, around: &ServerContext<'_>) -> Option<String> {
    let is_large = aof.bytes > settings.rewrite_min_bytes && aof.bytes / 2 > aof.base_bytes;
    (settings.rewrite_percent == 0 && !around.is_acted_on && is_large).then(|| {
        format!(
            "its append-only file has grown from {} to {} and nothing rewrites it: \
             auto-aof-rewrite-percentage is 0. Send BGREWRITEAOF, or set [redis.guard] \
             mode = \"act\"",
            bytes(aof.base_bytes),
            bytes(aof.bytes)
        )
    })
}

fn save_points(
    settings: &Settings,
    seen: &ServerReport,
    around: &ServerContext<'_>,
) -> Option<String> {
    let points = &settings.save;
    let instead = match (around.is_followed, around.is_acted_on) {
        (true, _) => "Weir keeps its file: set save \"\"",
        (false, true) => "raise them, so that the guard's window comes first",
        (false, false) => "with [redis.guard] mode = \"act\" it saves in a window, in turns",
    };
    (!points.is_empty()).then(|| {
        format!(
            "save is \"{points}\": it saves whatever the hour, each time by a fork{}; {instead}",
            took(seen.save.took)
        )
    })
}

fn other_writer(most: &Writing, around: &ServerContext<'_>) -> String {
    let more = around.writing.len() - 1;
    let others = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(
        "{} (process {}) writes {}/s and has files open on the device of {}{others}: syncs there \
         wait for it. Give one of them another disk",
        most.name,
        most.process,
        bytes(most.bytes_per_second),
        most.path.display(),
    )
}

fn empty_restart(seen: &ServerReport, around: &ServerContext<'_>) -> Option<String> {
    let others = seen.replicas.saturating_sub(around.own);
    let is_at_risk = seen.is_master && seen.keeps_nothing() && (seen.is_supervised || others > 0);
    is_at_risk.then(|| {
        let by = match seen.is_supervised {
            true => "its supervisor",
            false => "whoever",
        };
        let then = match others {
            0 => String::new(),
            1 => ", and 1 replica is emptied with it".to_owned(),
            others => format!(", and {others} replicas are emptied with it"),
        };
        let copy = match around.is_followed {
            true => "; what Weir has of it stays, pinned",
            false => "",
        };
        format!(
            "it keeps neither append-only file nor RDB file: {by} restarts it, it comes back \
             empty{then}{copy}. Have nothing restart it by itself (systemd: Restart=no), or give \
             it a file"
        )
    })
}

fn came_back_empty(had: u64, seen: &ServerReport, around: &ServerContext<'_>) -> String {
    let now = seen.keys.unwrap_or_default();
    let from = match around.is_followed {
        true => "what Weir has of it is pinned: start a server from there",
        false => "its last copy is where its replicas or backups are",
    };
    format!(
        "it was restarted and came back with {} of {} keys: {from}, and have nothing restart it by \
         itself",
        count(now),
        count(had)
    )
}
