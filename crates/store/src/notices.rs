//! What is missing from an answer, noted while it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::archive::Missing;

/// Files whose loss is said one by one; of more there is only the number.
const TOLD_MAX: usize = 32;

/// What is missing from an answer. Clones are the same answer's.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    /// By the number of the file.
    all: BTreeMap<u64, Arc<str>>,
    /// Those of the statement at hand.
    of_statement: BTreeMap<u64, Arc<str>>,
    /// The files that the answer's head names, once it has gone out.
    in_head: Option<BTreeSet<u64>>,
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_all<'a>(&self, missing: impl Iterator<Item = &'a Missing>) {
        for missing in missing {
            let mut noted = self.lock();
            noted.all.insert(missing.file, Arc::clone(&missing.text));
            noted.of_statement.insert(missing.file, Arc::clone(&missing.text));
        }
    }

    /// What was noted since this was last asked: of one statement. And whether some of it came too
    /// late for the answer's head.
    pub fn take_statement(&self) -> (Vec<String>, bool) {
        let mut noted = self.lock();
        let of_statement = std::mem::take(&mut noted.of_statement);
        let head = noted.in_head.as_ref();
        let is_late = head.is_some_and(|head| of_statement.keys().any(|of| !head.contains(of)));
        (told(&of_statement), is_late)
    }

    /// All that was noted, for the answer's head, which goes out now.
    pub fn seal(&self) -> Vec<String> {
        let mut noted = self.lock();
        noted.in_head = Some(noted.all.keys().copied().collect());
        told(&noted.all)
    }
}

fn told(noted: &BTreeMap<u64, Arc<str>>) -> Vec<String> {
    some(noted.values().map(|text| &**text))
}

/// The first texts, and how many more there are.
pub(crate) fn some<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Vec<String> {
    let more = texts.len().saturating_sub(TOLD_MAX);
    let mut told: Vec<String> = texts.take(TOLD_MAX).map(str::to_owned).collect();
    if more > 0 {
        told.push(format!("points of {more} more damaged store files are missing"));
    }
    told
}
