//! What a start finds in the files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use crate::archive::{Archive, Version, policy_dir};
use crate::claims::Claims;
use crate::data::{PolicyData, State};
use crate::file::FileError;
use crate::series::SeriesIndex;
use crate::series_log;

/// The series in each policy's log.
pub(super) type Logged = HashMap<u64, u32>;

/// Builds what is kept in memory of what is in files.
pub(super) fn state(dir: &Path, archive: &Archive, claims: &Claims) -> (State, Logged) {
    let version = archive.version();
    let mut state = State { version: Arc::clone(&version), ..State::default() };
    state.take_catalogue(Arc::new(version.manifest.catalogue.clone()));
    let mut logged = Logged::new();
    let policies = Arc::make_mut(&mut state.policies);
    for (id, policy) in policies.iter_mut() {
        let policy = Arc::make_mut(policy);
        if let Some(entry) = version.manifest.policies.get(id) {
            let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = read_log(&policy_dir(dir, *id), entry.series, &mut index) {
                tracing::error!(%error, "the log of series is read from the files instead");
                *index = SeriesIndex::default();
            }
            // Dropped ones that were read are in the log.
            index.take_dropped();
        }
        load_schema(&version, *id, policy, claims);
        logged.insert(*id, policy.series_bound);
    }
    (state, logged)
}

fn read_log(
    dir: &Path,
    mark: series_log::SeriesMark,
    index: &mut SeriesIndex,
) -> Result<(), FileError> {
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
