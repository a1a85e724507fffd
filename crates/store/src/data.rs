//! What the store holds in memory of each retention policy, as a tree whose branches are shared
//! with snapshots: whoever changes one copies it first, if a snapshot has it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use crate::catalogue::{Catalogue, Ids};
use crate::memtable::Memtable;
use crate::schema::FieldSet;
use crate::series::SeriesIndex;

/// All policies, by the ids of the policies alone, which are unique.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) policies: Arc<HashMap<u64, Arc<PolicyData>>>,
}

/// One retention policy.
#[derive(Clone, Debug)]
pub(crate) struct PolicyData {
    pub(crate) ids: Ids,
    pub(crate) partition_ns: i64,
    /// Shared by all snapshots: each sees the series below its bounds.
    pub(crate) index: Arc<RwLock<SeriesIndex>>,
    pub(crate) series_bound: u32,
    /// By the number of the measurement; those that are gone stay empty.
    pub(crate) measurements: Vec<Arc<MeasurementData>>,
}

/// One measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasurementData {
    pub(crate) fields: Arc<FieldSet>,
    /// By the start of the partition.
    pub(crate) live: BTreeMap<i64, Arc<Memtable>>,
    /// What is being written as files, older than `live`.
    pub(crate) frozen: BTreeMap<i64, Arc<Memtable>>,
}

impl PolicyData {
    pub(crate) fn new(ids: Ids, partition_ns: i64) -> Self {
        Self { ids, partition_ns, index: Arc::default(), series_bound: 0, measurements: Vec::new() }
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
