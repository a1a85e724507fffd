//! What a start finds in the files.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::logged::{LoggedSeries, Reach};
use crate::archive::{Archive, Version, policy_dir};
use crate::claims::Claims;
use crate::data::{PolicyData, State};
use crate::file::{FileError, FileInfo, Loss, NO_SERIES, StoredFile, Tags};
use crate::manifest::ManifestError;
use crate::scan::TimeRange;
use crate::series::SeriesIndex;
use crate::series_log::{self, SeriesMark};

/// Builds what is kept in memory of what is in files.
///
/// # Errors
/// When names are lost and that can't be written down.
pub(super) fn state(
    dir: &Path,
    archive: &Archive,
    claims: &Claims,
) -> Result<(State, LoggedSeries), ManifestError> {
    let version = archive.version();
    let mut state = State { version: Arc::clone(&version), ..State::default() };
    state.take_catalogue(Arc::new(version.manifest.catalogue.clone()));
    let mut reaches = HashMap::new();
    let policies = Arc::make_mut(&mut state.policies);
    for (id, policy) in policies.iter_mut() {
        let policy = Arc::make_mut(policy);
        let mut reach = Reach::default();
        if let Some(entry) = version.manifest.policies.get(id) {
            let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
            match read_log(&policy_dir(dir, *id), entry.series, &mut index) {
                Ok(()) => reach = Reach { bound: index.bound(), mark: entry.series },
                Err(error) => {
                    tracing::error!(%error, "the series are read from the files instead");
                    *index = SeriesIndex::default();
                    read_files(archive, *id, &mut index)?;
                }
            }
            // Dropped ones that were read are in the log.
            index.take_dropped();
        }
        load_schema(&version, *id, policy, claims);
        reaches.insert(*id, reach);
    }
    state.version = archive.version();
    Ok((state, LoggedSeries::found(reaches)))
}

fn read_log(dir: &Path, mark: SeriesMark, index: &mut SeriesIndex) -> Result<(), FileError> {
    let mut whole = true;
    series_log::read(dir, mark, |series| {
        whole &= index.load(series.id.0, &series.measurement, &series.tags).is_ok();
    })?;
    if whole {
        return Ok(());
    }
    let what = "it names a series twice".to_owned();
    Err(FileError::Damaged { path: dir.join(series_log::NAME), what })
}

/// Makes the dictionary anew of what the files name. The next flush writes the log anew, too. What
/// no file names any more is written down as missing.
fn read_files(
    archive: &Archive,
    policy: u64,
    index: &mut SeriesIndex,
) -> Result<(), ManifestError> {
    let version = archive.version();
    let Some(files) = version.policies.get(&policy) else { return Ok(()) };
    let mut named: BTreeMap<(String, Tags), u32> = BTreeMap::new();
    let (mut unnumbered, mut unnamed) = (Vec::new(), Vec::new());
    let mut bound = 0;
    for file in files.files.values().flatten() {
        let is_left = |tags: &Tags, time: TimeRange| {
            let hits = files.tombstones.iter();
            let hits = hits.filter(|of| file.info.is_hit_by(&of.tombstone) && of.matches(tags));
            !time.is_covered_by(hits.map(|hit| hit.tombstone.time).collect())
        };
        let numbers = file.series().unwrap_or_default().into_iter().map(|(id, _)| id);
        bound = numbers.filter(|id| *id != NO_SERIES).map(|id| id.0 + 1).fold(bound, u32::max);
        match file.named_series() {
            Ok(series) => {
                for (id, _, tags) in series.into_iter().filter(|(_, time, of)| is_left(of, *time)) {
                    // A series that was dropped and came again has the later number.
                    let known = named.entry((file.info.measurement.clone(), tags)).or_default();
                    *known = id.0.max(*known);
                }
            }
            Err(error) => {
                tracing::error!(%error, "the series of a file are read without its sidecar");
                match file.tags_alone() {
                    Ok(tags) => {
                        let left = tags.into_iter().filter(|(time, tags)| is_left(tags, *time));
                        let measurement = &file.info.measurement;
                        unnumbered.extend(left.map(|(_, tags)| (measurement.clone(), tags)));
                    }
                    Err(error) => {
                        tracing::error!(%error, "the series of a file are not known");
                        unnamed.push(Arc::clone(file));
                    }
                }
            }
        }
    }
    let mut all: Vec<(u32, (String, Tags))> =
        named.into_iter().map(|(name, id)| (id, name)).collect();
    all.sort_unstable_by_key(|(id, _)| *id);
    let mut fits = true;
    for (id, (measurement, tags)) in all {
        fits &= index.load(id, &measurement, &tags).is_ok();
    }
    if let Some(last) = bound.checked_sub(1).filter(|last| *last >= index.bound()) {
        // Numbers of series whose names are lost, or that were dropped, are not used again.
        fits &= index.load(last, "", &[]).is_ok();
    }
    for (measurement, tags) in unnumbered {
        let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (&**key, &**value)).collect();
        fits &= index.add(&measurement, &tags).is_ok();
    }
    if !fits {
        tracing::error!("there are too many series");
    }
    let losses = unnamed.iter().filter_map(|file| loss_of_names(file, index));
    archive.note_nameless(&losses.collect::<Vec<_>>())
}

/// The points of a file whose series no other file names.
fn loss_of_names(file: &StoredFile, index: &SeriesIndex) -> Option<(FileInfo, Loss)> {
    let what = "its tags can't be read, and the log of series is damaged";
    let loss = match file.loss_of(&|id| id != NO_SERIES && index.series(id.0).is_none(), what) {
        Ok(loss) => loss?,
        Err(error) => Loss::all(&file.info, error.to_string()),
    };
    Some((file.info.clone(), loss))
}

fn load_schema(version: &Version, id: u64, policy: &mut PolicyData, claims: &Claims) {
    let index = Arc::clone(&policy.index);
    let index = index.read().unwrap_or_else(PoisonError::into_inner);
    policy.series_bound = index.bound();
    let Some(entry) = version.manifest.policies.get(&id) else { return };
    for (name, fields) in &entry.schema {
        let Some(number) = index.measurement(name) else { continue };
        let of = policy.measurement_mut(number);
        for (field, of_type) in fields {
            Arc::make_mut(&mut of.fields).add(field, *of_type);
        }
        let fields = fields.iter().map(|(field, of)| (field.as_str(), *of));
        claims.store(id, name, fields);
    }
}
