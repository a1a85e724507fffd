//! From memtables to files: all memtables are frozen at one position of the journal, written while
//! new ones fill, and replaced by their files with one switch of the manifest.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use disk::Disk;

use super::Store;
use super::logged::Reach;
use super::troubles::Work;
use crate::catalogue::{Catalogue, Ids};
use crate::data::{MeasurementData, PolicyData, State};
use crate::file::{FileError, FileInfo, FileSpec, FileWriter, Tags};
use crate::manifest::{Manifest, ManifestError, Schema};
use crate::memtable::{MemorySource, Memtable, MemtableRequest, Ranks};
use crate::partition::Partitions;
use crate::scan::{ScanError, TimeRange};
use crate::series::{Series, SeriesId};
use crate::series_log::{self, SeriesMark};
use crate::tombstone::Tombstone;

/// Why memory could not be written as files; all stays in memory then.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    /// A file can't be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The manifest can't be written.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The memtable can't be read, which nothing is known to cause.
    #[error(transparent)]
    Read(#[from] ScanError),
}

impl FlushError {
    /// Whether there is no room on the disk; that may go away by itself.
    pub fn is_full(&self) -> bool {
        match self {
            Self::File(error) => error.is_full(),
            Self::Manifest(error) => error.is_full(),
            Self::Read(_) => false,
        }
    }
}

/// What only the flushing thread needs.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    /// What a failed flush has left frozen.
    frozen: Option<Frozen>,
}

/// The store at the position where it was frozen.
#[derive(Clone, Debug)]
struct Frozen {
    position: u64,
    state: State,
    bytes: u64,
}

/// What a flush adds to a policy.
#[derive(Debug)]
struct PolicyFlush {
    ids: Ids,
    files: Vec<FileInfo>,
    series: SeriesMark,
    /// How many series are in the log then, where it grows.
    logged: Option<u32>,
    /// Series that were dropped, to be tried again when the flush fails.
    dropped: Vec<u32>,
    schema: Schema,
}

impl Store {
    /// Writes what is in memory as files; returns the position they reach.
    ///
    /// # Errors
    /// When a file can't be written; then all stays in memory, and the next flush begins with it.
    pub fn flush(&self) -> Result<u64, FlushError> {
        let flushed = self.flush_all();
        self.troubles.note(Work::Flush, &flushed);
        if flushed.is_err() {
            // Who waits for room learns that there will be none.
            self.memory.wake_waiting();
        }
        flushed
    }

    fn flush_all(&self) -> Result<u64, FlushError> {
        let mut flusher = self.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        // What failed before comes first, then what has gathered since.
        if let Some(frozen) = flusher.frozen.clone() {
            self.write_frozen(&frozen)?;
            flusher.frozen = None;
        }
        if !self.progress.is_all_filed() {
            let frozen = self.freeze();
            flusher.frozen = Some(frozen.clone());
            self.write_frozen(&frozen)?;
            flusher.frozen = None;
        }
        Ok(self.position())
    }

    /// Makes all memtables those that are written.
    fn freeze(&self) -> Frozen {
        let mut state = self.lock();
        let position = self.applied();
        self.background.begin_flush();
        let policies: Vec<u64> = state.policies.keys().copied().collect();
        for id in policies {
            let Some(policy) = Arc::make_mut(&mut state.policies).get_mut(&id) else { continue };
            if policy.measurements.iter().all(|of| of.live.is_empty()) {
                continue;
            }
            for of in &mut Arc::make_mut(policy).measurements {
                if !of.live.is_empty() {
                    let of = Arc::make_mut(of);
                    of.frozen = std::mem::take(&mut of.live);
                }
            }
        }
        let bytes = self.memory.freeze();
        Frozen { position, state: state.clone(), bytes }
    }

    fn write_frozen(&self, frozen: &Frozen) -> Result<(), FlushError> {
        let started = std::time::Instant::now();
        let mut written = Vec::new();
        let result = self.write_policies(frozen, &mut written);
        let switched = result.and_then(|()| {
            let tombstones = self.pending_tombstones();
            let catalogue = Arc::clone(&frozen.state.catalogue);
            let switch = |manifest: &mut Manifest| {
                switch(manifest, frozen.position, &catalogue, &written, &tombstones);
            };
            let version = self.archive.change(switch)?;
            let included = tombstones.iter().map(|(_, of)| of.position).max().unwrap_or(0);
            Ok((version, included))
        });
        match switched {
            Ok((version, included)) => {
                let mut state = self.lock();
                state.version = version;
                state.drop_frozen(included);
                self.progress.note_filed(frozen.position);
                drop(state);
                self.note_logged(&written);
                self.memory.free_frozen();
                let files: usize = written.iter().map(|of| of.files.len()).sum();
                let (bytes, took) = (frozen.bytes, started.elapsed());
                tracing::debug!(files, bytes, ?took, position = frozen.position, "flushed");
                Ok(())
            }
            Err(error) => {
                put_back_dropped(frozen, &mut written);
                if !matches!(error, FlushError::Manifest(ManifestError::Uncertain)) {
                    for (policy, file) in
                        written.iter().flat_map(|of| of.files.iter().map(|file| (of.ids, file)))
                    {
                        self.archive.discard(policy.policy, file);
                    }
                }
                Err(error)
            }
        }
    }

    fn write_policies(
        &self,
        frozen: &Frozen,
        written: &mut Vec<PolicyFlush>,
    ) -> Result<(), FlushError> {
        let version = self.archive.version();
        for policy in frozen.state.policies.values() {
            written.push(PolicyFlush {
                ids: policy.ids,
                files: Vec::new(),
                series: SeriesMark::default(),
                logged: None,
                dropped: Vec::new(),
                schema: schema(policy),
            });
            let Some(new) = written.last_mut() else { continue };
            let positions = (version.manifest.position, frozen.position);
            self.write_policy(policy, positions, new)?;
        }
        Ok(())
    }

    fn write_policy(
        &self,
        policy: &PolicyData,
        positions: (u64, u64),
        new: &mut PolicyFlush,
    ) -> Result<(), FlushError> {
        let partitions = Partitions::new(policy.partition_ns);
        for (measurement, number) in policy.measurements.iter().zip(0..) {
            for (&start, table) in &measurement.frozen {
                let range = TimeRange { min: start, max: partitions.last(start) };
                let info =
                    self.write_table(policy, number, measurement, (range, table), positions)?;
                new.files.extend(info);
            }
        }
        self.log_series(policy, new)
    }

    /// Writes one memtable as a file.
    fn write_table(
        &self,
        policy: &PolicyData,
        number: u32,
        measurement: &MeasurementData,
        (partition, table): (TimeRange, &Arc<Memtable>),
        positions: (u64, u64),
    ) -> Result<Option<FileInfo>, FlushError> {
        let mut ids: Vec<u32> =
            table.blocks().flat_map(|block| block.runs()).map(|run| run.series).collect();
        ids.sort_unstable();
        ids.dedup();
        let index = policy.index.read().unwrap_or_else(PoisonError::into_inner);
        index.sort_as_files(&mut ids);
        let tag_keys = index.keys_of(&ids);
        let name = index.measurement_name(number).map(|name| name.to_string());
        drop(index);
        let fields: Vec<(u32, String, crate::schema::FieldType)> = measurement
            .fields
            .iter()
            .zip(0..)
            .filter(|(_, field)| table.has_field(*field))
            .map(|((name, of), field)| (field, name.to_owned(), of))
            .collect();
        let spec = FileSpec {
            number: self.archive.take_number(),
            measurement: name.unwrap_or_default(),
            partition,
            positions,
            cleaned: 0,
            tag_keys,
            fields: fields.iter().map(|(_, name, of)| (name.clone(), *of)).collect(),
        };
        let dir = self.archive.policy_dir(policy.ids.policy)?;
        let mut writer = FileWriter::create(self.archive.disk(), &dir, spec)?;
        let wanted = MemtableRequest {
            time: TimeRange::ALL,
            fields: fields.iter().map(|(field, _, _)| Some(*field)).collect(),
            descending: false,
        };
        let series: Vec<SeriesId> = ids.iter().copied().map(SeriesId).collect();
        let tables = [Arc::clone(table)];
        let mut named: Option<Series> = None;
        for ranked in MemorySource::new(&tables, &Ranks::new(&series), wanted) {
            let chunk = ranked?.chunk;
            if named.as_ref().is_none_or(|named| named.id != chunk.series) {
                let index = policy.index.read().unwrap_or_else(PoisonError::into_inner);
                named = index.series(chunk.series.0);
            }
            if let Some(series) = &named {
                writer.push(series, &chunk.times, &chunk.columns)?;
            }
        }
        Ok(writer.finish()?)
    }

    /// Appends the series that are new or were dropped to the log of the policy.
    fn log_series(&self, policy: &PolicyData, new: &mut PolicyFlush) -> Result<(), FlushError> {
        let Reach { bound: from, mark } = self.logged.reach(policy.ids.policy);
        new.series = mark;
        let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
        let dropped = index.take_dropped();
        new.dropped.clone_from(&dropped);
        let to = policy.series_bound.max(dropped.iter().map(|id| id + 1).max().unwrap_or(0));
        if from >= to && dropped.is_empty() {
            return Ok(());
        }
        drop(index);
        let dir = self.archive.policy_dir(policy.ids.policy)?;
        let gone: Vec<u32> = dropped.iter().copied().filter(|&id| id < from).collect();
        // Those that are gone first: one of the same name may be among the new ones.
        let all: Vec<u32> = gone.into_iter().chain(from..to).collect();
        let mut mark = new.series;
        for ids in all.chunks(LOGGED_AT_ONCE) {
            mark = append(self.archive.disk(), &dir, mark, policy, ids)?;
        }
        new.series = mark;
        new.logged = Some(to);
        Ok(())
    }

    fn note_logged(&self, written: &[PolicyFlush]) {
        let state = self.lock();
        let grown = written.iter().filter_map(|of| {
            of.logged.map(|bound| (of.ids.policy, Reach { bound, mark: of.series }))
        });
        let bounds = state.policies.iter().map(|(id, policy)| (*id, policy.series_bound));
        self.logged.note(grown, bounds);
    }

    /// What was deleted since the manifest was written, by policy.
    fn pending_tombstones(&self) -> Vec<(u64, Tombstone)> {
        let state = self.lock();
        let all = state.policies.iter().flat_map(|(id, policy)| {
            policy.tombstones.iter().map(|of| (*id, Tombstone::clone(&of.tombstone)))
        });
        all.collect()
    }
}

impl State {
    /// Forgets the memtables that are in files now, and the tombstones that are in the manifest.
    fn drop_frozen(&mut self, included: u64) {
        let ids: Vec<u64> = self.policies.keys().copied().collect();
        for id in ids {
            let Some(policy) = Arc::make_mut(&mut self.policies).get_mut(&id) else { continue };
            let frozen = policy.measurements.iter().any(|of| !of.frozen.is_empty());
            if !frozen && policy.tombstones.is_empty() {
                continue;
            }
            let policy = Arc::make_mut(policy);
            for of in &mut policy.measurements {
                if !of.frozen.is_empty() {
                    Arc::make_mut(of).frozen.clear();
                }
            }
            Arc::make_mut(&mut policy.tombstones).retain(|of| of.tombstone.position > included);
        }
    }
}

/// Series that were dropped are to be logged by the next flush.
fn put_back_dropped(frozen: &Frozen, written: &mut [PolicyFlush]) {
    for of in written {
        if let Some(policy) = frozen.state.policies.get(&of.ids.policy) {
            let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
            index.put_back_dropped(std::mem::take(&mut of.dropped));
        }
    }
}

/// Series that are appended to a log at once.
const LOGGED_AT_ONCE: usize = 1 << 16;

/// Appends series, by their numbers, to the log of a policy. One that was dropped has no
/// measurement there: its number is never used again.
fn append(
    disk: &Disk,
    dir: &Path,
    mark: SeriesMark,
    policy: &PolicyData,
    ids: &[u32],
) -> Result<SeriesMark, FileError> {
    let index = policy.index.read().unwrap_or_else(PoisonError::into_inner);
    let entry = |&id: &u32| {
        let measurement = index.measurement_of(id).and_then(|of| index.measurement_name(of));
        match measurement.zip(index.series(id)) {
            Some((name, series)) => (series.id, Arc::clone(name), series.tags),
            None => (SeriesId(id), Arc::from(""), Tags::from([])),
        }
    };
    let all: Vec<(SeriesId, Arc<str>, Tags)> = ids.iter().map(entry).collect();
    drop(index);
    series_log::append(disk, dir, mark, all.iter().map(|(id, name, tags)| (*id, &**name, tags)))
}

/// The types of the fields of a policy.
fn schema(policy: &PolicyData) -> Schema {
    let index = policy.index.read().unwrap_or_else(PoisonError::into_inner);
    let mut schema = Schema::new();
    for (name, number) in index.names() {
        let Some(of) = policy.measurements.get(number as usize) else { continue };
        let fields = of.fields.iter().map(|(field, of)| (field.to_owned(), of));
        schema.insert(name.to_string(), fields.collect::<BTreeMap<_, _>>());
    }
    schema
}

fn switch(
    manifest: &mut Manifest,
    position: u64,
    catalogue: &Catalogue,
    written: &[PolicyFlush],
    tombstones: &[(u64, Tombstone)],
) {
    manifest.position = position;
    manifest.catalogue = catalogue.clone();
    manifest.policies.retain(|id, _| written.iter().any(|of| of.ids.policy == *id));
    for of in written {
        let entry = manifest.policies.entry(of.ids.policy).or_default();
        entry.ids = of.ids;
        entry.schema = of.schema.clone();
        entry.series = of.series;
        entry.files.extend(of.files.iter().cloned());
    }
    for (id, tombstone) in tombstones {
        if let Some(entry) = manifest.policies.get_mut(id)
            && !entry.tombstones.contains(tombstone)
        {
            entry.tombstones.push(tombstone.clone());
        }
    }
}
