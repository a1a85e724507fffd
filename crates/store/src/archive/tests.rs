//! Flushes and compactions that end in the middle: everything is there once, and nothing else.

mod fixture;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use disk::{Disk, Faults};

use crate::archive::{Archive, Version};
use crate::catalogue::Ids;
use crate::compaction;
use crate::file::merge::{Merge, Source};
use crate::file::tests::{FIELDS, Model, TestNames, expected, rows, series, sorted, spec};
use crate::file::{FileInfo, Names, write};
use crate::manifest::ManifestError;
use crate::predicate::TagPredicate;
use crate::scan::{ScanRequest, TimeRange};
use crate::series::SeriesId;
use crate::series_log;
use crate::tombstone::{Condition, Tombstone};

const POLICY: u64 = 7;

fn names(_: u64) -> Option<Arc<dyn Names>> {
    Some(Arc::new(TestNames))
}

fn points(from: i64, value: i32) -> Model {
    let of = |number: u32| {
        (from..from + 40).map(move |n| (n * 10 + i64::from(number), [Some(value); 5]))
    };
    (0..4).map(|number| (number, of(number).collect())).collect()
}

fn everything(version: &Version) -> Vec<(u32, i64, Vec<String>)> {
    read_all(version, false)
}

fn read_all(version: &Version, leaves_out_lost: bool) -> Vec<(u32, i64, Vec<String>)> {
    let fields: Vec<String> = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let request = Arc::new(ScanRequest {
        measurement: "m".into(),
        time: TimeRange::ALL,
        fields: fields.clone(),
        descending: false,
    });
    let Some(policy) = version.policies.get(&POLICY) else {
        return Vec::new();
    };
    let ids: Arc<[SeriesId]> = (0..10).map(|number| series(number).id).collect();
    let files = policy.files.values().flatten();
    let sources = files.map(|file| {
        let names = Arc::new(TestNames);
        let scan = file.scan(ids.clone(), request.clone(), &policy.tombstones, names);
        Box::new(scan.leaving_out_lost(leaves_out_lost)) as Source
    });
    let chunks: Vec<_> =
        Merge::new(sources.collect(), false).map(|ranked| ranked.unwrap().chunk).collect();
    rows(&chunks, &fields)
}

fn wanted(models: &[Model]) -> Vec<(u32, i64, Vec<String>)> {
    let mut merged = Model::new();
    for (number, points) in models.iter().flatten() {
        merged.entry(*number).or_default().extend(points);
    }
    let fields: Vec<String> = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let numbers: Vec<u32> = (0..10).collect();
    expected(&merged, &numbers, TimeRange::ALL, &fields, false)
}

/// What a flush of the store does, in short.
fn flush(archive: &Archive, position: u64, model: &Model) -> Result<(), String> {
    let dir = archive.policy_dir(POLICY).map_err(|error| error.to_string())?;
    let columns = sorted(model);
    let version = archive.version();
    let entry = version.manifest.policies.get(&POLICY);
    let mark = entry.map(|entry| entry.series).unwrap_or_default();
    let logged = (mark.series as u32..4).map(series).collect::<Vec<_>>();
    let logged = logged.iter().map(|series| (series.id, "m", &series.tags));
    let mark = series_log::append(archive.disk(), &dir, mark, logged).map_err(|e| e.to_string())?;
    let spec = spec(archive.take_number(), (position - 1, position), &columns);
    let file = write(archive.disk(), &dir, spec, &columns).map_err(|error| error.to_string())?;
    let changed = archive.change(|manifest| {
        manifest.position = position;
        let entry = manifest.policies.entry(POLICY).or_default();
        entry.ids = Ids { db: POLICY, policy: POLICY };
        entry.series = mark;
        entry.files.extend(file.clone());
    });
    changed.map(drop).map_err(|error| {
        if let Some(file) = file.filter(|_| !matches!(error, ManifestError::Uncertain)) {
            archive.discard(POLICY, &file);
        }
        error.to_string()
    })
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                waiting.push(entry.path());
            } else {
                found.insert(entry.file_name().into_string().unwrap());
            }
        }
    }
    found
}

/// Nothing but what the manifest lists is in the directory.
fn assert_tidy(dir: &Path, version: &Version) {
    let mut listed: BTreeSet<String> = ["lock", "manifest"].map(str::to_owned).into();
    for entry in version.manifest.policies.values() {
        for FileInfo { number, .. } in &entry.files {
            listed.insert(format!("{number:012}.parquet"));
            listed.insert(format!("{number:012}.runs"));
        }
        listed.insert(series_log::NAME.to_owned());
    }
    let mut found = names_in(dir);
    // The log of a policy whose first flush ended in the middle is of no policy.
    if !version.manifest.policies.is_empty() {
        found.insert(series_log::NAME.to_owned());
    }
    assert_eq!(found, listed);
}

fn models() -> Vec<Model> {
    (0..5).map(|n| points(n * 25, n as i32)).collect()
}

/// Flushes, a deletion and compactions; stops at the first failure. Gives how many flushes were
/// done.
fn run(archive: &Arc<Archive>) -> (usize, Result<(), String>) {
    for (at, model) in models().iter().enumerate() {
        if let Err(error) = flush(archive, at as u64 + 1, model) {
            return (at, Err(error));
        }
        while let Some(job) = compaction::next(archive, &names, at == 4) {
            if let Err(error) = job.run() {
                return (at + 1, Err(error.to_string()));
            }
        }
    }
    (5, Ok(()))
}

#[test]
fn a_kill_at_any_step_loses_nothing_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::counting();
    let archive = Arc::new(Archive::open(dir.path(), Disk::with(faults.clone())).unwrap());
    assert_eq!(run(&archive), (5, Ok(())));
    let version = archive.version();
    assert_eq!(version.manifest.policies[&POLICY].files.len(), 1);
    assert!(everything(&version) == wanted(&models()));
    drop((archive, version));
    assert!(faults.steps().len() > 100, "{:?}", faults.steps());
    for step in 0..faults.steps().len() {
        for loses_power in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let faults = Faults::counting();
            faults.die_at(step);
            let done = Archive::open(dir.path(), Disk::with(faults.clone()))
                .map_or(0, |archive| run(&Arc::new(archive)).0);
            assert!(faults.is_dead());
            if loses_power {
                faults.lose_power(|| false).unwrap();
            }
            let archive = Archive::open(dir.path(), Disk::default()).unwrap();
            let version = archive.version();
            // The flush at hand is there as a whole, or not at all.
            let there = version.manifest.position as usize;
            assert!(there == done || there == done + 1, "step {step}: {there} {done}");
            let right = everything(&version) == wanted(&models()[..there]);
            assert!(right, "step {step} {:?}", faults.steps().last());
            assert_tidy(dir.path(), &version);
        }
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing_half_written() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::counting();
    let archive = Arc::new(Archive::open(dir.path(), Disk::with(faults.clone())).unwrap());
    let first = faults.steps().len();
    run(&archive).1.unwrap();
    drop(archive);
    for step in first..faults.steps().len() {
        let dir = tempfile::tempdir().unwrap();
        let faults = Faults::counting();
        let archive = Arc::new(Archive::open(dir.path(), Disk::with(faults.clone())).unwrap());
        faults.no_room(step, 1);
        let (done, end) = run(&archive);
        let version = archive.version();
        assert_eq!(version.manifest.position as usize, done, "step {step}");
        assert!(everything(&version) == wanted(&models()[..done]), "step {step}");
        if end.is_err() {
            assert_tidy_but_for_the_log(dir.path(), &version);
        }
        // There is room again: everything goes on.
        for (at, model) in models().iter().enumerate().skip(done) {
            flush(&archive, at as u64 + 1, model).unwrap();
        }
        while let Some(job) = compaction::next(&archive, &names, true) {
            job.run().unwrap();
        }
        assert!(everything(&archive.version()) == wanted(&models()));
        drop(version);
        assert_tidy(dir.path(), &archive.version());
    }
}

fn assert_tidy_but_for_the_log(dir: &Path, version: &Version) {
    let files = version.manifest.policies.values().flat_map(|entry| &entry.files);
    let parquet: BTreeSet<String> = files.map(FileInfo::name).collect();
    let found = names_in(dir);
    let found: BTreeSet<String> = found
        .into_iter()
        .filter(|name| !matches!(&**name, "lock" | "manifest" | series_log::NAME))
        .filter(|name| !name.ends_with(".runs"))
        .collect();
    assert_eq!(found, parquet);
}

fn deletion(position: u64, matching: &TagPredicate, time: TimeRange) -> Tombstone {
    Tombstone { position, measurement: None, matching: Condition::from(matching), time }
}

#[test]
fn what_is_deleted_stays_deleted_and_what_came_later_stays() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Arc::new(Archive::open(dir.path(), Disk::default()).unwrap());
    let models = models();
    flush(&archive, 1, &models[0]).unwrap();
    flush(&archive, 2, &models[1]).unwrap();
    let h1 = TagPredicate::Equal("host".into(), "h00001".into());
    let time = TimeRange { min: 100, max: 500 };
    let deleted = deletion(2, &h1, time);
    archive.change(|m| m.policies.get_mut(&POLICY).unwrap().tombstones.push(deleted)).unwrap();
    flush(&archive, 3, &models[2]).unwrap();

    let mut before = models[..2].to_vec();
    for model in &mut before {
        model.get_mut(&1).unwrap().retain(|t, _| !time.contains(*t));
    }
    before.push(models[2].clone());
    let right = wanted(&before);
    assert!(everything(&archive.version()) == right);
    // A snapshot taken before the compaction sees its files to the end.
    let old = archive.version();
    while let Some(job) = compaction::next(&archive, &names, true) {
        job.run().unwrap();
    }
    assert!(everything(&old) == right);
    let version = archive.version();
    assert!(everything(&version) == right);
    let entry = &version.manifest.policies[&POLICY];
    assert_eq!((entry.files.len(), entry.tombstones.len()), (1, 0));
    drop(old);
    assert_tidy(dir.path(), &version);

    // Everything goes: no file stays, and no tombstone.
    let all = deletion(9, &TagPredicate::All, TimeRange::ALL);
    drop(version);
    archive.change(|m| m.policies.get_mut(&POLICY).unwrap().tombstones.push(all)).unwrap();
    let version = archive.version();
    let entry = &version.manifest.policies[&POLICY];
    assert_eq!((entry.files.len(), entry.tombstones.len()), (0, 0));
    assert_tidy(dir.path(), &version);
}

#[test]
fn a_policy_that_goes_takes_its_files_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Arc::new(Archive::open(dir.path(), Disk::default()).unwrap());
    flush(&archive, 1, &points(0, 1)).unwrap();
    archive.change(|manifest| manifest.policies.clear()).unwrap();
    assert_tidy(dir.path(), &archive.version());
    drop(archive);
    Archive::open(dir.path(), Disk::default()).unwrap();
    assert!(!super::policy_dir(dir.path(), POLICY).exists());
}

/// What a policy's files give where what is lost is left out.
fn what_is_left(version: &Version) -> Vec<(u32, i64, Vec<String>)> {
    read_all(version, true)
}

#[test]
fn a_damaged_file_stays_and_what_is_lost_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Arc::new(Archive::open(dir.path(), Disk::default()).unwrap());
    let models = models();
    flush(&archive, 1, &models[0]).unwrap();
    flush(&archive, 2, &models[1]).unwrap();
    let version = archive.version();
    let file = version.policies[&POLICY].files["m"][0].clone();
    let whole = std::fs::read(file.path()).unwrap();
    // The indexes and the footer: nothing of it can be read without them.
    let mut bytes = whole.clone();
    bytes[whole.len() - 20] ^= 1;
    std::fs::write(file.path(), &bytes).unwrap();
    assert!(matches!(file.verify(), crate::file::Verified::Damaged(_)));
    assert_eq!(archive.repair(&names).unwrap(), 1);
    assert_eq!(archive.repair(&names).unwrap(), 0);
    let version = archive.version();
    assert!(what_is_left(&version) == wanted(&models[1..2]));
    let missing = &version.policies[&POLICY].missing[0];
    let text = &missing.text;
    assert!(text.contains(&file.info.name()) && text.contains("160 points"), "{text}");
    assert_eq!((missing.points, missing.time), (160, file.info.time));
    // No compaction touches it, nor joins those around it.
    while let Some(job) = compaction::next(&archive, &names, true) {
        job.run().unwrap();
    }
    assert_eq!(archive.version().policies[&POLICY].files["m"].len(), 2);
    // It stays named after a start, until it is accepted.
    drop((archive, version));
    let archive = Archive::open(dir.path(), Disk::default()).unwrap();
    assert_eq!(archive.version().policies[&POLICY].missing.len(), 1);
    assert_eq!(archive.repair(&names).unwrap(), 1);
    assert_eq!(super::accept(dir.path()).unwrap().len(), 1);
    assert!(archive.take_acceptance().unwrap());
    assert!(!archive.take_acceptance().unwrap());
    assert!(archive.version().policies[&POLICY].missing.is_empty());
    assert!(super::accept(dir.path()).is_err());
    drop(archive);
    let archive = Archive::open(dir.path(), Disk::default()).unwrap();
    assert_eq!(archive.repair(&names).unwrap(), 1);
    assert!(archive.version().policies[&POLICY].missing.is_empty());
    assert!(what_is_left(&archive.version()) == wanted(&models[1..2]));
    // Restored from a backup, it is read again.
    drop(archive);
    std::fs::write(file.path(), &whole).unwrap();
    let archive = Archive::open(dir.path(), Disk::default()).unwrap();
    assert_eq!(archive.repair(&names).unwrap(), 0);
    assert!(everything(&archive.version()) == wanted(&models[..2]));
    assert!(archive.version().policies[&POLICY].damaged.is_empty());
}

#[test]
fn a_missing_file_is_named_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), Disk::default()).unwrap();
    flush(&archive, 1, &points(0, 1)).unwrap();
    let path = archive.version().policies[&POLICY].files["m"][0].path();
    drop(archive);
    std::fs::remove_file(path).unwrap();
    let archive = Archive::open(dir.path(), Disk::default()).unwrap();
    assert_eq!(archive.version().policies[&POLICY].missing.len(), 1);
    assert!(what_is_left(&archive.version()).is_empty());
}

#[test]
fn a_damaged_sidecar_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Arc::new(Archive::open(dir.path(), Disk::default()).unwrap());
    let model = points(0, 1);
    flush(&archive, 1, &model).unwrap();
    let file = archive.version().policies[&POLICY].files["m"][0].clone();
    let runs = file.path().with_extension("runs");
    let whole = std::fs::read(&runs).unwrap();
    std::fs::write(&runs, b"nothing").unwrap();
    assert!(file.series().is_err());
    assert_eq!(archive.repair(&names).unwrap(), 0);
    assert_eq!(std::fs::read(&runs).unwrap(), whole);
    assert!(everything(&archive.version()) == wanted(&[model]));
}

#[test]
fn a_file_that_cannot_be_opened_or_mended_now_is_not_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::counting();
    let archive = Arc::new(Archive::open(dir.path(), Disk::with(faults.clone())).unwrap());
    let model = points(0, 1);
    flush(&archive, 1, &model).unwrap();
    let file = archive.version().policies[&POLICY].files["m"][0].clone();
    // Its name leads in a circle: as with too many open files, it can't be opened.
    let (path, away) = (file.path(), file.path().with_extension("away"));
    std::fs::rename(&path, &away).unwrap();
    std::os::unix::fs::symlink(&path, &path).unwrap();
    assert!(file.series().is_err());
    assert_eq!(archive.repair(&names).unwrap(), 0);
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    assert!(everything(&archive.version()) == wanted(std::slice::from_ref(&model)));
    // There is no room for a new sidecar.
    file.opened().map(drop).unwrap();
    std::fs::write(file.path().with_extension("runs"), b"nothing").unwrap();
    archive.open.forget(file.info.number);
    assert!(file.series().is_err());
    faults.no_room(faults.steps().len(), 100);
    assert!(archive.repair(&names).is_err());
    faults.no_room(usize::MAX, 0);
    assert_eq!(archive.repair(&names).unwrap(), 0);
    assert!(everything(&archive.version()) == wanted(&[model]));
    assert!(archive.version().policies[&POLICY].missing.is_empty());
}

#[test]
fn a_damaged_or_missing_manifest_stops_the_start_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), Disk::default()).unwrap();
    let again = Archive::open(dir.path(), Disk::default());
    assert!(matches!(again, Err(ManifestError::InUse { .. })));
    flush(&archive, 1, &points(0, 1)).unwrap();
    drop(archive);
    let path = dir.path().join("manifest");
    let whole = std::fs::read(&path).unwrap();
    let before = names_in(dir.path());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let opened = Archive::open(dir.path(), Disk::default());
        assert!(opened.is_err(), "byte {at}");
    }
    std::fs::remove_file(&path).unwrap();
    let opened = Archive::open(dir.path(), Disk::default());
    assert!(matches!(opened, Err(ManifestError::Missing { .. })));
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(names_in(dir.path()), before);
    Archive::open(dir.path(), Disk::default()).unwrap();
}
