//! What is said of servers that are set, and behave, in one way or another.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::device::Writing;
use super::findings::{About, ServerContext, findings};
use super::history::History;
use super::named::named;
use super::seen::{Aof, Chore, ServerReport, Settings};
use crate::settings;

const MIB: u64 = 1 << 20;

/// A master without any file, as one is that Weir follows.
fn bare() -> ServerReport {
    ServerReport {
        run_id: "a".into(),
        is_master: true,
        settings: Some(sound()),
        ..ServerReport::default()
    }
}

/// Settings that nothing is wrong with.
fn sound() -> Settings {
    Settings { appendfsync: "everysec".into(), rewrite_min_bytes: 64 * MIB, ..Settings::default() }
}

fn around(history: &History) -> ServerContext<'_> {
    ServerContext {
        history,
        is_followed: false,
        own: 0,
        is_acted_on: false,
        fork_max: Duration::from_millis(100),
        busy: &[],
        writing: &[],
    }
}

fn with_file(aof: Aof, settings: Settings) -> ServerReport {
    ServerReport { aof: Some(aof), settings: Some(settings), ..bare() }
}

/// The words of the one finding there must be.
#[track_caller]
fn only(seen: &ServerReport, around: &ServerContext<'_>, about: About) -> String {
    let found = findings(seen, around);
    assert_eq!(found.iter().map(|of| of.about).collect::<Vec<_>>(), [about], "{found:?}");
    found[0].words.clone()
}

#[track_caller]
fn assert_has(words: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(words.contains(part), "{part}: {words}"));
}

#[test]
fn nothing_is_said_of_a_cache_nor_of_a_master_that_weir_follows() {
    let history = History::default();
    assert_eq!(findings(&bare(), &around(&history)), []);
    let followed = ServerContext { is_followed: true, own: 1, ..around(&history) };
    assert_eq!(findings(&ServerReport { replicas: 1, ..bare() }, &followed), []);
    let taking = ServerContext { own: 2, ..followed };
    assert_eq!(
        findings(&ServerReport { replicas: 2, ..bare() }, &taking),
        [],
        "a base comes beside"
    );
}

#[test]
fn late_syncs_are_counted_and_the_way_out_is_named() {
    let aof = |delayed| Aof { delayed, ..Aof::default() };
    let mut history = History::default();
    history.note(&with_file(aof(0), sound()), Duration::ZERO);
    history.note(&with_file(aof(1234), sound()), Duration::from_secs(10));
    let words = only(&with_file(aof(1234), sound()), &around(&history), About::DelayedFsync);
    assert_has(&words, &["1,234 times", "aof_delayed_fsync", "[redis.aof]"]);
    let followed = ServerContext { is_followed: true, ..around(&history) };
    let words = only(&with_file(aof(1234), sound()), &followed, About::DelayedFsync);
    assert_has(&words, &["Weir keeps its file", "appendonly no"]);
}

#[test]
fn what_is_under_way_is_said_with_for_how_long_and_beside_whom() {
    let history = History::default();
    let chore = Chore { running: Some(192), took: Some(61), has_failed: false };
    let aof = Aof { bytes: 512 * MIB, base_bytes: 500 * MIB, ..Aof::default() };
    let rewriting = ServerReport { rewrite: chore, ..with_file(aof, sound()) };
    let words = only(&rewriting, &around(&history), About::Rewriting);
    assert_has(&words, &["512 MiB", "3m 12s", "1m 1s"]);
    let saving = ServerReport { save: chore, ..bare() };
    assert_has(&only(&saving, &around(&history), About::Saving), &["RDB", "3m 12s"]);
    let busy = ServerContext { busy: &["b", "c"], ..around(&history) };
    let found = findings(&saving, &busy);
    assert_eq!(found[1].about, About::Together);
    assert_has(&found[1].words, &["b, c", "mode = \"act\""]);
    assert_eq!(findings(&bare(), &busy), [], "it does nothing itself");
}

#[test]
fn forks_that_take_long_and_failures_are_said() {
    let history = History::default();
    let slow = ServerReport { fork_us: 340_000, ..bare() };
    assert_has(&only(&slow, &around(&history), About::SlowFork), &["340ms", "replica"]);
    assert_eq!(findings(&ServerReport { fork_us: 99_000, ..bare() }, &around(&history)), []);
    let failed = Chore { has_failed: true, ..Chore::default() };
    let failed = ServerReport { save: failed, rewrite: failed, ..bare() };
    let words = only(&failed, &around(&history), About::Failed);
    assert_has(&words, &["save and its last rewrite", "disk is full"]);
}

#[test]
fn settings_that_hurt_are_said_with_what_to_set() {
    let history = History::default();
    let aof = Aof { bytes: 90 * MIB, base_bytes: 60 * MIB, ..Aof::default() };
    let say = |settings, about| only(&with_file(aof, settings), &around(&history), about);
    let words = say(Settings { no_fsync_on_rewrite: true, ..sound() }, About::NoFsyncOnRewrite);
    assert_has(&words, &["no-appendfsync-on-rewrite is yes", "Set no"]);
    let words = say(Settings { appendfsync: "no".into(), ..sound() }, About::NoFsync);
    assert_has(&words, &["appendfsync is no", "everysec"]);
    let words = say(Settings { rewrite_percent: 100, ..sound() }, About::AutoRewrite);
    assert_has(&words, &["at 120 MiB (now 90 MiB)", "Set 0", "mode = \"act\""]);
    let acted = ServerContext { is_acted_on: true, ..around(&history) };
    let seen = with_file(aof, Settings { rewrite_percent: 100, ..sound() });
    assert_has(&only(&seen, &acted, About::AutoRewrite), &["in its window"]);
    let grown = Aof { bytes: 150 * MIB, ..aof };
    let words = only(&with_file(grown, sound()), &around(&history), About::NeverRewritten);
    assert_has(&words, &["from 60 MiB to 150 MiB", "BGREWRITEAOF"]);
    assert_eq!(findings(&with_file(grown, sound()), &acted), [], "the guard has it rewrite");
    let saves = Settings { save: "3600 1 300 100".into(), ..sound() };
    let words = say(saves, About::SavePoints);
    assert_has(&words, &["\"3600 1 300 100\"", "a fork"]);
    let unshown = ServerReport { settings: None, ..bare() };
    assert_has(&only(&unshown, &around(&history), About::Unasked), &["+config|get"]);
}

#[test]
fn who_else_writes_to_the_disk_is_named() {
    let history = History::default();
    let writing = |process| Writing {
        process,
        name: "dd".into(),
        bytes_per_second: 300 * MIB,
        path: PathBuf::from("/data"),
    };
    let writing = [writing(42), writing(43)];
    let beside = ServerContext { writing: &writing, ..around(&history) };
    let words = only(&bare(), &beside, About::OtherWriter);
    assert_has(&words, &["dd (process 42)", "300 MiB/s", "/data", "1 more", "another disk"]);
}

#[test]
fn a_master_that_a_restart_would_empty_is_said_and_so_is_one_that_it_has() {
    let mut history = History::default();
    let supervised = ServerReport { is_supervised: true, keys: Some(1000), ..bare() };
    let words = only(&supervised, &around(&history), About::EmptyRestart);
    assert_has(&words, &["its supervisor", "Restart=no"]);
    let with_replicas = ServerReport { replicas: 2, ..bare() };
    let words = only(&with_replicas, &around(&history), About::EmptyRestart);
    assert_has(&words, &["2 replicas are emptied"]);
    let followed = ServerContext { is_followed: true, own: 1, ..around(&history) };
    assert_has(&only(&with_replicas, &followed, About::EmptyRestart), &["1 replica is", "pinned"]);
    let replica = ServerReport { is_master: false, ..with_replicas };
    assert_eq!(findings(&replica, &around(&history)), []);
    history.note(&ServerReport { keys: Some(1000), ..bare() }, Duration::ZERO);
    let back = ServerReport { run_id: "b".into(), keys: Some(3), ..bare() };
    history.note(&back, Duration::from_secs(10));
    let words = only(&back, &around(&history), About::CameBackEmpty);
    assert_has(&words, &["with 3 of 1,000 keys"]);
}

#[test]
fn each_server_is_watched_once_and_belongs_to_a_host() {
    let table = "[[backend]]\nname = \"a\"\nurl = \"redis://127.0.0.1:1\"\n\
                 [[backend]]\nname = \"b\"\nurl = \"redis://10.0.0.1:1\"\nhost = \"rack-1\"\n\
                 [[pool]]\nname = \"p\"\nlisten = \"127.0.0.1:9\"\n\
                 [[pool.backend]]\nname = \"a\"\nurl = \"redis://10.0.0.2:1\"\n\
                 [[pool.backend]]\nname = \"again\"\nurl = \"redis://10.0.0.1:1\"\n\
                 [[pool.backend]]\nname = \"socket\"\nurl = \"/run/redis.sock\"\n";
    let settings: settings::Settings = toml::from_str(table).unwrap();
    let all = named(&settings, None, &[], &[]).unwrap();
    let shown: Vec<_> = all.iter().map(|of| (of.name.as_str(), of.host.as_str())).collect();
    let wanted =
        [("a", "localhost"), ("b", "rack-1"), ("p/a", "10.0.0.2"), ("p/socket", "localhost")];
    assert_eq!(shown, wanted);
    assert!(all[0].is_here && !all[1].is_here && all[3].is_here);
}

proptest! {
    #[test]
    fn every_finding_has_a_number_or_a_remedy_and_no_figure_makes_it_panic(
        bytes: u64, base_bytes: u64, percent: u64, fork_us: u64, running: Option<u64>,
    ) {
        let chore = Chore { running, took: running, has_failed: true };
        let settings = Settings { rewrite_percent: percent.min(1 << 32), ..sound() };
        let aof = Aof { bytes, base_bytes, ..Aof::default() };
        let base = with_file(aof, settings);
        let seen = ServerReport { fork_us, save: chore, rewrite: chore, ..base };
        for found in findings(&seen, &around(&History::default())) {
            prop_assert!(found.words.len() > 40, "{:?}", found);
            prop_assert!(About::ALL.contains(&found.about));
        }
    }
}
