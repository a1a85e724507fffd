//! What a start finds in the files.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use crate::archive::{Archive, Version, policy_dir};
use crate::claims::Claims;
use crate::data::{PolicyData, State};
use crate::file::{FileError, Tags};
use crate::series::SeriesIndex;
use crate::series_log::{self, SeriesMark};

/// How far the log of series of each policy reaches.
pub(super) type Logged = HashMap<u64, Reach>;

/// How far a log of series reaches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    /// Series below are in it.
    pub(super) bound: u32,
    /// How much of it counts.
    pub(super) mark: SeriesMark,
}

/// Builds what is kept in memory of what is in files.
pub(super) fn state(dir: &Path, archive: &Archive, claims: &Claims) -> (State, Logged) {
    let version = archive.version();
    let mut state = State { version: Arc::clone(&version), ..State::default() };
    state.take_catalogue(Arc::new(version.manifest.catalogue.clone()));
    let mut logged = Logged::new();
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
                    read_files(&version, *id, &mut index);
                }
            }
            // Dropped ones that were read are in the log.
            index.take_dropped();
        }
        load_schema(&version, *id, policy, claims);
        logged.insert(*id, reach);
    }
    (state, logged)
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

/// Makes the dictionary anew of what the files name. The next flush writes the log anew, too.
fn read_files(version: &Version, policy: u64, index: &mut SeriesIndex) {
    let mut named: BTreeMap<(String, Tags), u32> = BTreeMap::new();
    let files = version.policies.get(&policy);
    for file in files.into_iter().flat_map(|files| files.files.values().flatten()) {
        let series = file.named_series().unwrap_or_else(|error| {
            tracing::error!(%error, "the series of a file are not known");
            Vec::new()
        });
        for (id, tags) in series {
            // A series that was dropped and came again has the later number.
            let known = named.entry((file.info.measurement.clone(), tags)).or_default();
            *known = id.0.max(*known);
        }
    }
    let mut all: Vec<(u32, (String, Tags))> =
        named.into_iter().map(|(name, id)| (id, name)).collect();
    all.sort_unstable_by_key(|(id, _)| *id);
    for (id, (measurement, tags)) in all {
        if index.load(id, &measurement, &tags).is_err() {
            tracing::error!(measurement, "there are too many series");
        }
    }
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
        claims.measurement(id, name).set(fields);
    }
}
