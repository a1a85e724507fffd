//! Which type each field has been promised to have.
//!
//! A worker promises a type before the point is in the journal, so that no other worker lets a
//! point of another type in meanwhile. What is applied decides in the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;

use crate::catalogue::Catalogue;
use crate::schema::FieldType;

/// The types of the fields of one measurement.
pub(crate) type Types = HashMap<String, FieldType>;

/// The types of all fields, those included that are on their way through the journal.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    policies: RwLock<HashMap<u64, Arc<PolicyClaims>>>,
    /// Counts what was forgotten: who keeps claims looks whether it has changed.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct PolicyClaims {
    measurements: RwLock<HashMap<String, Arc<MeasurementClaims>>>,
}

/// The claims of one measurement.
#[derive(Debug, Default)]
pub(crate) struct MeasurementClaims {
    types: ArcSwap<Types>,
    /// Held by who adds a field.
    adding: Mutex<()>,
}

impl Claims {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The claims of a measurement, made when there are none.
    pub(crate) fn measurement(&self, policy: u64, measurement: &str) -> Arc<MeasurementClaims> {
        let policy = get_or_add(&self.policies, &policy);
        get_or_add(&policy.measurements, measurement)
    }

    /// Forgets policies that are no more.
    pub(crate) fn keep(&self, catalogue: &Catalogue) {
        let known: Vec<u64> = catalogue.policies().map(|(ids, _)| ids.policy).collect();
        let mut policies = self.policies.write().unwrap_or_else(PoisonError::into_inner);
        policies.retain(|policy, _| known.contains(policy));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Forgets a measurement that is no more.
    pub(crate) fn forget(&self, policy: u64, measurement: &str) {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = policies.get(&policy) {
            let mut all = policy.measurements.write().unwrap_or_else(PoisonError::into_inner);
            all.remove(measurement);
        }
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// What a map has for a key, added when it has nothing.
fn get_or_add<K, Q, V>(map: &RwLock<HashMap<K, Arc<V>>>, key: &Q) -> Arc<V>
where
    K: std::hash::Hash + Eq + std::borrow::Borrow<Q>,
    Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    V: Default,
{
    if let Some(known) = map.read().unwrap_or_else(PoisonError::into_inner).get(key) {
        return Arc::clone(known);
    }
    let mut map = map.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(map.entry(key.to_owned()).or_default())
}

impl MeasurementClaims {
    /// The types as they are now.
    pub(crate) fn types(&self) -> Arc<Types> {
        self.types.load_full()
    }

    /// Claims a type for a field; returns the type that it has now.
    pub(crate) fn claim(&self, field: &str, of: FieldType) -> FieldType {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let types = self.types.load();
        if let Some(&known) = types.get(field) {
            return known;
        }
        let mut types = Types::clone(&types);
        types.insert(field.to_owned(), of);
        self.types.store(Arc::new(types));
        of
    }

    /// Sets the types that were applied, whatever was claimed.
    pub(crate) fn set<'a>(&self, fields: impl Iterator<Item = (&'a str, FieldType)>) {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut types = Types::clone(&self.types.load());
        types.extend(fields.map(|(field, of)| (field.to_owned(), of)));
        self.types.store(Arc::new(types));
    }
}
