//! Many small files become few large ones.
//!
//! A job joins files of one policy, partition and measurement that are neighbours in the journal,
//! so that what is newer stays newer. It reads and writes a chunk at a time, applies tombstones on
//! the way, and takes effect by one switch of the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashSet;

use crate::archive::{Archive, FindNames, PolicyVersion, RewriteError, Version};
use crate::file::merge::{Merge, Source};
use crate::file::{FileInfo, FileSpec, FileWriter, Names, StoredFile, Tags};
use crate::manifest::ManifestError;
use crate::scan::{ScanError, ScanRequest, TimeRange};
use crate::schema::FieldType;
use crate::series::{Series, SeriesId};

/// Files joined at once: each is a reader with buffers of its own.
const INPUTS_MAX: usize = 8;
/// So many files of about the same size are worth joining.
const INPUTS_MIN: usize = 4;
/// Files up to this size count as of the same size.
const SMALL_BYTES: u64 = 256 << 10;
/// Each tier is so many times larger than the one before.
const TIER_FACTOR: u64 = 8;
/// Bytes that are joined at most: larger files stay as they are.
const BYTES_MAX: u64 = 4 << 30;
/// Rows of a file at most: its sidecar counts them with 32 bits.
const ROWS_MAX: u64 = 1 << 31;

/// Files that are to be joined.
pub struct Job {
    archive: Arc<Archive>,
    policy: u64,
    version: Arc<Version>,
    /// The files, the oldest first.
    inputs: Vec<Arc<StoredFile>>,
    names: Arc<dyn Names>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inputs: Vec<u64> = self.inputs.iter().map(|file| file.info.number).collect();
        f.debug_struct("Job").field("policy", &self.policy).field("inputs", &inputs).finish()
    }
}

/// What a job did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionReport {
    /// How many files were joined.
    pub files: usize,
    /// The points of the files joined.
    pub rows_before: u64,
    /// The points of the result.
    pub rows_after: u64,
    /// Bytes of the files joined.
    pub bytes_before: u64,
    /// Bytes of the result.
    pub bytes_after: u64,
}

/// The next job worth doing. With `thorough`, also two files are joined, and what was deleted is
/// taken out of single files: for times when there is nothing else to do.
pub fn next(archive: &Arc<Archive>, names: FindNames<'_>, thorough: bool) -> Option<Job> {
    let version = archive.version();
    for (policy, files) in &version.policies {
        let Some(inputs) = choose(files, thorough) else {
            continue;
        };
        let Some(names) = names(*policy) else {
            continue;
        };
        let (archive, policy) = (archive.clone(), *policy);
        return Some(Job { archive, policy, version: version.clone(), inputs, names });
    }
    None
}

fn choose(policy: &PolicyVersion, thorough: bool) -> Option<Vec<Arc<StoredFile>>> {
    for files in policy.files.values() {
        let mut partitions: BTreeMap<TimeRange, Vec<&Arc<StoredFile>>> = BTreeMap::new();
        for file in files {
            partitions.entry(file.info.partition).or_default().push(file);
        }
        for files in partitions.values() {
            // A damaged file stays as it is, and between those that are older and newer than it: it
            // may be restored.
            let is_damaged = |file: &&Arc<StoredFile>| policy.damaged.contains(&file.info.number);
            for files in files.split(is_damaged) {
                if let Some(chosen) = choose_of(policy, files, thorough) {
                    return Some(chosen);
                }
            }
        }
    }
    None
}

/// The files worth joining of neighbours in the journal.
fn choose_of(
    policy: &PolicyVersion,
    files: &[&Arc<StoredFile>],
    thorough: bool,
) -> Option<Vec<Arc<StoredFile>>> {
    let infos: Vec<&FileInfo> = files.iter().map(|file| &file.info).collect();
    let least = if thorough { 2 } else { INPUTS_MIN };
    let chosen = neighbours(&infos, least).map(|(from, len)| from..from + len);
    let hit = |file: &Arc<StoredFile>| {
        policy.tombstones.iter().any(|active| file.info.is_hit_by(&active.tombstone))
    };
    let single = || files.iter().position(|file| hit(file)).map(|at| at..at + 1);
    let chosen = if thorough { chosen.or_else(single) } else { chosen };
    let chosen = chosen.and_then(|chosen| files.get(chosen))?;
    Some(chosen.iter().map(|file| Arc::clone(file)).collect())
}

/// The smallest neighbours worth joining, at least `least` of them: where they begin and how many
/// they are.
fn neighbours(files: &[&FileInfo], least: usize) -> Option<(usize, usize)> {
    let tiers: BTreeSet<u32> = files.iter().map(|file| tier(file.bytes)).collect();
    for most in tiers {
        for start in 0..files.len() {
            for len in (least..=INPUTS_MAX).rev() {
                let window = files.get(start..start + len);
                if window.is_some_and(|window| is_worth_it(window, most)) {
                    return Some((start, len));
                }
            }
        }
    }
    None
}

/// Whether files may be joined, and none of them is so large that it were mostly copied.
fn is_worth_it(files: &[&FileInfo], tier_max: u32) -> bool {
    let rows: u64 = files.iter().map(|file| file.rows).sum();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let largest = files.iter().map(|file| file.bytes).max().unwrap_or(0);
    let is_even = largest.saturating_mul(3) <= bytes.saturating_mul(2) || bytes <= SMALL_BYTES;
    tier(largest) <= tier_max && is_even && bytes <= BYTES_MAX && rows <= ROWS_MAX
}

fn tier(bytes: u64) -> u32 {
    (bytes / SMALL_BYTES).checked_ilog(TIER_FACTOR).map_or(0, |tier| tier + 1)
}

impl Job {
    /// Bytes of the files that are joined.
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|file| file.info.bytes).sum()
    }

    /// Joins the files. Does nothing where one of them has gone meanwhile.
    ///
    /// # Errors
    /// When a file can't be read or written; the store is as it was then.
    pub fn run(self) -> Result<CompactionReport, RewriteError> {
        let output = self.write()?;
        let inputs: HashSet<u64> = self.inputs.iter().map(|file| file.info.number).collect();
        let mut is_stale = false;
        let switched = self.archive.change(|manifest| {
            let entry = manifest.policies.get_mut(&self.policy);
            let known = entry.as_ref().map_or(0, |entry| {
                entry.files.iter().filter(|file| inputs.contains(&file.number)).count()
            });
            is_stale = known != inputs.len();
            if let Some(entry) = entry.filter(|_| !is_stale) {
                entry.files.retain(|file| !inputs.contains(&file.number));
                entry.files.extend(output.clone());
            }
        });
        if let Some(output) = &output
            && (is_stale
                || switched.as_ref().is_err_and(|e| !matches!(e, ManifestError::Uncertain)))
        {
            self.archive.discard(self.policy, output);
        }
        switched?;
        if is_stale {
            return Ok(CompactionReport::default());
        }
        Ok(CompactionReport {
            files: self.inputs.len(),
            rows_before: self.inputs.iter().map(|file| file.info.rows).sum(),
            rows_after: output.as_ref().map_or(0, |file| file.rows),
            bytes_before: self.bytes(),
            bytes_after: output.as_ref().map_or(0, |file| file.bytes),
        })
    }

    fn write(&self) -> Result<Option<FileInfo>, RewriteError> {
        let empty = PolicyVersion::default();
        let policy = self.version.policies.get(&self.policy).map_or(&empty, |policy| policy);
        let spec = self.spec(policy)?;
        let order: Arc<[SeriesId]> = self.order()?.into();
        let request = Arc::new(ScanRequest {
            measurement: spec.measurement.clone(),
            time: TimeRange::ALL,
            fields: spec.fields.iter().map(|(name, _)| name.clone()).collect(),
            descending: false,
        });
        let sources = self.inputs.iter().map(|file| {
            let names = self.names.clone();
            let scan = file.scan(order.clone(), request.clone(), &policy.tombstones, names);
            Box::new(scan) as Source
        });
        let dir = self.archive.policy_dir(self.policy)?;
        let mut writer = FileWriter::create(self.archive.disk(), &dir, spec)?;
        let mut series: Option<Series> = None;
        for ranked in Merge::new(sources.collect(), false) {
            let chunk = ranked?.chunk;
            if series.as_ref().is_none_or(|series| series.id != chunk.series) {
                let tags = self.names.tags(chunk.series);
                series = tags.map(|tags| Series { id: chunk.series, tags });
            }
            // A series without a name has been dropped since: nobody can ask for it.
            if let Some(series) = &series {
                writer.push(series, &chunk.times, &chunk.columns)?;
            }
        }
        Ok(writer.finish()?)
    }

    fn spec(&self, policy: &PolicyVersion) -> Result<FileSpec, ScanError> {
        let mut fields: BTreeMap<String, FieldType> = BTreeMap::new();
        let mut tag_keys: BTreeSet<String> = BTreeSet::new();
        for file in &self.inputs {
            fields.extend(file.fields()?);
            tag_keys.extend(file.tag_keys()?);
        }
        let infos = || self.inputs.iter().map(|file| &file.info);
        let first = infos().next();
        Ok(FileSpec {
            number: self.archive.take_number(),
            measurement: first.map(|info| info.measurement.clone()).unwrap_or_default(),
            partition: first.map_or(TimeRange::ALL, |info| info.partition),
            positions: (
                infos().map(|info| info.positions.0).min().unwrap_or_default(),
                infos().map(|info| info.positions.1).max().unwrap_or_default(),
            ),
            cleaned: policy.tombstones.iter().map(|t| t.tombstone.position).max().unwrap_or(0),
            tag_keys: tag_keys.into_iter().collect(),
            fields: fields.into_iter().collect(),
        })
    }

    /// The series of all inputs, in the order of their tags, which is that of each input.
    fn order(&self) -> Result<Vec<SeriesId>, ScanError> {
        let mut lists = Vec::new();
        for file in &self.inputs {
            lists.push(file.series()?.into_iter().map(|(id, _)| id).peekable());
        }
        let mut heads: Vec<Option<(Tags, SeriesId)>> = vec![None; lists.len()];
        let mut seen = HashSet::new();
        let mut order = Vec::new();
        loop {
            for (list, head) in lists.iter_mut().zip(&mut heads) {
                while head.is_none()
                    && let Some(id) = list.next()
                {
                    let tags = self.names.tags(id).filter(|_| !seen.contains(&id));
                    *head = tags.map(|tags| (tags, id));
                }
            }
            let least = heads.iter().flatten().min_by(|a, b| a.0.cmp(&b.0)).map(|(_, id)| *id);
            let Some(least) = least else {
                return Ok(order);
            };
            order.push(least);
            seen.insert(least);
            for head in &mut heads {
                if head.as_ref().is_some_and(|(_, id)| *id == least) {
                    *head = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(number: u64, bytes: u64) -> FileInfo {
        FileInfo {
            number,
            measurement: "m".into(),
            partition: TimeRange::ALL,
            positions: (number, number + 1),
            cleaned: 0,
            rows: bytes / 4,
            time: TimeRange::ALL,
            bytes,
            crc: 0,
            sidecar_bytes: 0,
        }
    }

    fn chosen(sizes: &[u64], least: usize) -> Option<(usize, usize)> {
        let infos: Vec<FileInfo> =
            sizes.iter().enumerate().map(|(at, size)| info(at as u64, *size)).collect();
        neighbours(&infos.iter().collect::<Vec<_>>(), least)
    }

    #[test]
    fn small_neighbours_come_first() {
        let mib = 1 << 20;
        assert_eq!(chosen(&[mib; 3], INPUTS_MIN), None);
        assert_eq!(chosen(&[mib; 4], INPUTS_MIN), Some((0, 4)));
        assert_eq!(chosen(&[mib; 20], INPUTS_MIN), Some((0, 8)));
        let grown = [100 * mib, 100 * mib, 100 * mib, 9, 9, 9, 9];
        assert_eq!(chosen(&grown, INPUTS_MIN), Some((3, 4)));
        // One small file between large ones is joined with them.
        assert_eq!(chosen(&[100 * mib, 9, 100 * mib, 100 * mib], INPUTS_MIN), Some((0, 4)));
        assert_eq!(chosen(&[100 * mib, 9, 9, 9], INPUTS_MIN), None);
        assert_eq!(chosen(&[100 * mib, 60 * mib], 2), Some((0, 2)));
        assert_eq!(chosen(&[3 << 30, 3 << 30, 9], 2), None);
        assert_eq!(chosen(&[9], 2), None);
    }

    #[test]
    fn each_byte_is_written_a_few_times_only() {
        let mut files: Vec<u64> = Vec::new();
        let (mut flushed, mut written) = (0, 0);
        for _ in 0..2000 {
            files.push(10 << 20);
            flushed += 10 << 20;
            while let Some((from, len)) = chosen(&files, INPUTS_MIN) {
                let sum = files.drain(from..from + len).sum();
                written += sum;
                files.insert(from, sum);
            }
        }
        assert!(written <= 8 * flushed, "{}", written / flushed);
        assert!(files.len() < 24, "{}", files.len());
    }
}
