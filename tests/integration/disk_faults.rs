//! Faults of the disk under the journal, as an operator meets them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::fake::Fake;
use rig::faults::{DiskOrder, FAIL_SYNCS};
use rig::places;
use rig::status::Account;
use rig::wait;
use rig::weir::Setup;

use crate::scene::{Scene, assert_points, point, points};

/// Of a segment, with nothing in it.
const PAGE: [u8; 4096] = [0; 4096];

/// The segment files in order.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    let large = |path: &PathBuf| path.is_file() && fs::metadata(path).unwrap().len() >= 64 << 10;
    let mut found: Vec<PathBuf> = entries.filter(large).collect();
    found.sort();
    found
}

/// The first place in the journal where these bytes stand.
fn find(dir: &Path, bytes: &str) -> (PathBuf, u64) {
    let found = segments(dir).into_iter().find_map(|path| {
        let content = fs::read(&path).unwrap();
        // Behind it there are zeros, and many.
        let written = content.chunks(PAGE.len()).position(|page| *page == PAGE);
        let content = &content[..written.map_or(content.len(), |pages| pages * PAGE.len())];
        let at = content.windows(bytes.len()).position(|window| window == bytes.as_bytes())?;
        Some((path, at as u64))
    });
    found.unwrap_or_else(|| panic!("{bytes:?} is nowhere in the journal"))
}

fn alter(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// Both backends away, `count` points in the journal one by one, Weir killed.
fn killed_with_backlog(count: u64, journal: &str) -> Scene {
    let mut scene = Scene::with(|setup| setup.journal(journal));
    scene.a.take_down();
    scene.b.take_down();
    scene.write_one_by_one(0, count);
    scene.weir.kill();
    scene
}

#[test]
fn a_torn_tail_is_cut_and_everything_acknowledged_arrives() {
    let mut scene = killed_with_backlog(100, "");
    let dir = scene.weir.journal_dir();
    let (path, last) = find(&dir, point(99).trim_end());
    // As if the machine had died within the next group.
    let after = (last + 200).next_multiple_of(4096);
    alter(&path, after, &[0x57; 300]);
    scene.weir.start_again();
    scene.write_one_by_one(100, 10);
    scene.a.bring_up();
    scene.b.bring_up();
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 110);
    assert_points(&scene.b, 0, 110);
}

#[test]
fn flipped_bits_in_the_middle_are_reported_and_the_rest_arrives() {
    let mut scene = killed_with_backlog(100, "");
    let dir = scene.weir.journal_dir();
    let (path, at) = find(&dir, point(50).trim_end());
    alter(&path, at + 3, b"#");
    let verify = scene.weir.command(&["journal", "verify", dir.to_str().unwrap()]);
    assert_eq!(verify.status.code(), Some(3), "{}", String::from_utf8_lossy(&verify.stdout));
    let name = path.file_name().unwrap().to_str().unwrap();
    let said = String::from_utf8_lossy(&verify.stdout).into_owned();
    assert!(said.contains(name), "the place is named: {said}");

    scene.weir.start_again();
    scene.a.bring_up();
    scene.b.bring_up();
    scene.weir.wait_delivered();
    let lines = scene.a.lines();
    let lost = (0..100).filter(|n| !lines.iter().any(|line| line == point(*n).trim_end()));
    let lost: Vec<u64> = lost.collect();
    assert!(lost.contains(&50) && lost.len() < 10, "only what was damaged: {lost:?}");
    let account = scene.weir.account("a");
    assert!(account.adds_up(), "{account:?}");
    assert_eq!((account.dropped, account.delivered), (lost.len() as u64, 100 - lost.len() as u64));
    scene.weir.wait_log("damage");
}

#[test]
fn a_missing_segment_is_reported_and_the_rest_arrives() {
    let mut scene = killed_with_backlog(1, "segment-size = \"64KiB\"\nmax-size = \"10MiB\"");
    scene.weir.start_again();
    for round in 0..20 {
        scene.weir.must_write("db", &points(1 + round * 200, 200));
    }
    scene.weir.kill();
    let dir = scene.weir.journal_dir();
    let (victim, _) = find(&dir, point(2_000).trim_end());
    fs::remove_file(&victim).unwrap();
    scene.weir.start_again();
    scene.a.bring_up();
    scene.b.bring_up();
    scene.weir.wait_delivered();
    let account = scene.weir.account("a");
    assert!(account.adds_up() && account.dropped > 0, "{account:?}");
    assert_eq!(scene.a.distinct() as u64, account.delivered);
    let lines = scene.a.lines();
    assert!(lines.iter().any(|line| line == point(0).trim_end()));
    assert!(lines.iter().any(|line| line == point(4_000).trim_end()));
}

#[test]
fn a_read_only_directory_is_an_error_that_says_what_to_do() {
    let a = Fake::start("a", &["db"]);
    let file = places::directory();
    let place = file.path().join("no-directory");
    fs::write(&place, "a file").unwrap();
    let weir = Setup::new().backend("a", &a.url()).journal_dir(place.clone()).prepare();
    let (code, log) = weir.start_in_vain();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains(place.to_str().unwrap()), "{log}");

    // Root may write whatever the permissions say, but not to a file system that is read-only.
    let dir = places::directory();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mount = rustix::process::geteuid().is_root().then(|| Mount::read_only(dir.path()));
    let weir = Setup::new().backend("a", &a.url()).journal_dir(dir.path().join("j")).prepare();
    let (code, log) = weir.start_in_vain();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains(dir.path().to_str().unwrap()), "{log}");
    drop(mount);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn two_processes_never_share_a_journal() {
    let scene = Scene::new();
    let second = Setup::new()
        .backend("a", &scene.a.url())
        .backend("b", &scene.b.url())
        .journal_dir(scene.weir.journal_dir())
        .prepare();
    let (code, log) = second.start_in_vain();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("journal"), "{log}");
    scene.write_one_by_one(0, 1);
}

/// A small file system, unmounted with the value. It needs root and mount(8).
pub struct Mount(PathBuf);

impl Mount {
    pub fn tmpfs(at: &Path, size: &str) -> Self {
        Self::mounted(at, &["-t", "tmpfs", "-o", &format!("size={size}"), "weir-test"])
    }

    fn read_only(at: &Path) -> Self {
        Self::mounted(at, &["-t", "tmpfs", "-o", "ro", "weir-test"])
    }

    fn mounted(at: &Path, how: &[&str]) -> Self {
        let status = Command::new(places::need("mount")).args(how).arg(at).status().unwrap();
        assert!(status.success(), "mount needs root and the right to mount: {status}");
        Self(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_goes_on_delivering_and_recovers_by_itself() {
    let dir = places::directory();
    let mount = dir.path().join("disk");
    fs::create_dir(&mount).unwrap();
    let _mount = Mount::tmpfs(&mount, "8m");
    let small = "segment-size = \"1MiB\"\nmax-size = \"1GiB\"";
    let mut scene = Scene::with(|s| s.journal(small).journal_dir(mount.join("journal")));
    scene.b.take_down();
    let mut taken = 0;
    let refusal = wait::value("the disk is full", wait::LONG, || {
        let answer = scene.weir.write("db", &points(taken, 500));
        if answer.status() == 204 {
            taken += 500;
            return None;
        }
        Some(answer)
    });
    assert_eq!(refusal.status(), 503, "{}", refusal.text());
    assert!(refusal.header("retry-after").is_some());
    let words = refusal.text().to_lowercase();
    assert!(words.contains("disk") || words.contains("room") || words.contains("space"), "{words}");
    wait::until("the healthy one has everything", wait::LONG, || {
        scene.weir.account("a").waiting == 0
    });
    let query = scene.weir.query("SELECT v FROM load", &[("db", "db")]);
    assert_eq!(query.status(), 200, "reading goes on");
    scene.b.bring_up();
    scene.weir.wait_delivered();
    wait::until("writes are taken again", wait::LONG, || {
        scene.weir.write("db", &points(taken, 1)).status() == 204
    });
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, taken + 1);
    assert_points(&scene.b, 0, taken + 1);
    assert!(scene.weir.accounts().iter().all(Account::adds_up));
}

#[test]
fn a_sync_that_fails_once_ends_all_acknowledgements_until_a_restart() {
    let mut scene = Scene::with(Setup::with_faults);
    scene.write_one_by_one(0, 50);
    let failing = DiskOrder::give(&scene.weir.journal_dir(), FAIL_SYNCS);
    let answer = scene.weir.write("db", &point(1_000));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    drop(failing);
    for n in 1_001..1_010 {
        let answer = scene.weir.write("db", &point(n));
        assert_eq!(answer.status(), 503, "a failed sync is never tried again: {}", answer.text());
    }
    let ready = scene.weir.ask_admin("/ready");
    assert_eq!(ready.status(), 503);
    assert!(ready.text().contains("sync"), "in words: {}", ready.text());
    let status = String::from_utf8(scene.weir.command(&["status"]).stdout).unwrap();
    assert!(status.contains("POISONED"), "{status}");
    scene.weir.wait_log("\"ERROR\"");
    scene.weir.kill();
    scene.weir.start_again();
    scene.write_one_by_one(50, 50);
    scene.weir.wait_delivered();
    let lines = scene.a.lines();
    let lost = (0..100).filter(|n| !lines.iter().any(|line| line == point(*n).trim_end()));
    assert_eq!(lost.count(), 0, "what was acknowledged before and after is there");
}
