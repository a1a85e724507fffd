//! What the store holds in memory of each retention policy, as a tree whose branches are shared
//! with snapshots: whoever changes one copies it first, if a snapshot has it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use crate::archive::Version;
use crate::catalogue::{Catalogue, Ids};
use crate::file::{Names, Tags};
use crate::memtable::Memtable;
use crate::schema::FieldSet;
use crate::series::{SeriesId, SeriesIndex};
use crate::tombstone::Active;

/// All policies, by the ids of the policies alone, which are unique.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) policies: Arc<HashMap<u64, Arc<PolicyData>>>,
    /// The files on the disk.
    pub(crate) version: Arc<Version>,
}

/// One retention policy in memory.
#[derive(Clone, Debug)]
pub(crate) struct PolicyData {
    pub(crate) ids: Ids,
    pub(crate) partition_ns: i64,
    /// Shared by all snapshots: each sees the series below its bounds.
    pub(crate) index: Arc<RwLock<SeriesIndex>>,
    pub(crate) series_bound: u32,
    /// By the number of the measurement; those that are gone stay empty.
    pub(crate) measurements: Vec<Arc<MeasurementData>>,
    /// What was deleted since the manifest was written.
    pub(crate) tombstones: Arc<Vec<Active>>,
}

/// One measurement of a policy in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasurementData {
    pub(crate) fields: Arc<FieldSet>,
    /// By the start of the partition.
    pub(crate) live: BTreeMap<i64, Arc<Memtable>>,
    /// What is being written as files, older than `live`.
    pub(crate) frozen: BTreeMap<i64, Arc<Memtable>>,
}

/// The tags of the series of a policy.
struct IndexNames {
    index: Arc<RwLock<SeriesIndex>>,
    deleted: Arc<Vec<Active>>,
}

impl Names for IndexNames {
    fn tags(&self, series: SeriesId) -> Option<Tags> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        Some(index.series(series.0)?.tags)
    }

    fn id(&self, measurement: &str, tags: &Tags) -> Option<SeriesId> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.find(measurement, tags).map(SeriesId)
    }

    fn deleted(&self) -> Arc<Vec<Active>> {
        Arc::clone(&self.deleted)
    }
}

impl PolicyData {
    pub(crate) fn new(ids: Ids, partition_ns: i64) -> Self {
        Self {
            ids,
            partition_ns,
            index: Arc::default(),
            series_bound: 0,
            measurements: Vec::new(),
            tombstones: Arc::default(),
        }
    }

    /// The dictionary, for tombstones and compaction.
    pub(crate) fn names(&self) -> Arc<dyn Names> {
        let (index, deleted) = (Arc::clone(&self.index), Arc::clone(&self.tombstones));
        Arc::new(IndexNames { index, deleted })
    }

    /// A measurement, made when it is new.
    #[inline]
    pub(crate) fn measurement_mut(&mut self, number: u32) -> &mut MeasurementData {
        let number = number as usize;
        if number >= self.measurements.len() {
            self.measurements.resize_with(number + 1, Arc::default);
        }
        Arc::make_mut(&mut self.measurements[number])
    }

    /// Leaves nothing of a measurement that has no series left.
    pub(crate) fn forget_measurement(&mut self, number: u32) {
        if let Some(measurement) = self.measurements.get_mut(number as usize) {
            *measurement = Arc::default();
        }
    }

    /// Those of some series of a measurement that have no point left in memory.
    pub(crate) fn without_rows(&self, number: u32, ids: Vec<u32>) -> Vec<u32> {
        let mut left: HashSet<u32> = ids.iter().copied().collect();
        let of = self.measurements.get(number as usize);
        for table in of.iter().flat_map(|of| of.frozen.values().chain(of.live.values())) {
            for run in table.blocks().flat_map(|block| block.runs()) {
                left.remove(&run.series);
            }
        }
        ids.into_iter().filter(|id| left.contains(id)).collect()
    }

    /// Those of some series of a measurement that have no point left, in memory or in files.
    pub(crate) fn without_points(
        &self,
        version: &Version,
        number: u32,
        name: &str,
        ids: Vec<u32>,
    ) -> Vec<u32> {
        let ids = self.without_rows(number, ids);
        let mut left: HashSet<u32> = ids.iter().copied().collect();
        let files = version.policies.get(&self.ids.policy);
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        for file in files.and_then(|files| files.files.get(name)).into_iter().flatten() {
            let in_files = files.into_iter().flat_map(|files| files.tombstones.iter());
            let hits: Vec<&Active> = in_files
                .chain(self.tombstones.iter())
                .filter(|of| file.info.is_hit_by(&of.tombstone))
                .collect();
            // Of a file that cannot be read all may be there.
            let Ok(series) = file.series() else { return Vec::new() };
            for (id, time) in
                series.into_iter().filter(|(id, _)| left.contains(&id.0)).collect::<Vec<_>>()
            {
                let Some(of) = index.series(id.0) else { continue };
                let spans = hits.iter().filter(|hit| hit.matches(&of.tags));
                if !time.is_covered_by(spans.map(|hit| hit.tombstone.time).collect()) {
                    left.remove(&id.0);
                }
            }
        }
        ids.into_iter().filter(|id| left.contains(id)).collect()
    }
}

impl State {
    /// A policy, to be changed.
    pub(crate) fn policy_mut(&mut self, ids: Ids) -> Option<&mut PolicyData> {
        let policy = Arc::make_mut(&mut self.policies).get_mut(&ids.policy)?;
        (policy.ids == ids).then(|| Arc::make_mut(policy))
    }

    /// Takes a new catalogue: data of policies that are no more goes, and new ones begin.
    pub(crate) fn take_catalogue(&mut self, catalogue: Arc<Catalogue>) {
        let policies = Arc::make_mut(&mut self.policies);
        policies.retain(|_, policy| catalogue.by_id(policy.ids).is_some());
        for (ids, policy) in catalogue.policies() {
            let data = policies
                .entry(ids.policy)
                .or_insert_with(|| Arc::new(PolicyData::new(ids, policy.partition_ns)));
            if data.partition_ns != policy.partition_ns {
                Arc::make_mut(data).partition_ns = policy.partition_ns;
            }
        }
        self.catalogue = catalogue;
    }
}
