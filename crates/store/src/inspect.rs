//! Reading a store's directory without opening it for writing.
//!
//! The store may be in use meanwhile: a file that a compaction has just replaced then looks like
//! one that is missing.

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::archive::policy_dir;
use crate::file::FileInfo;
use crate::file::lost::{Diagnosis, diagnose};
use crate::manifest::{DamagedFile, Manifest, ManifestError};
use crate::scan::TimeRange;
use crate::tombstone::{Condition, Tombstone};
use crate::{manifest, series_log};

/// What is in a store's directory; `Display` prints it for an operator.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The directory that was looked at.
    pub dir: PathBuf,
    /// The format version of the manifest.
    pub format: u32,
    /// The journal position up to which everything is in the files.
    pub position: u64,
    /// Whether every checksum was looked at, or only the manifest and the lengths of files.
    pub verified: bool,
    /// The databases, by name.
    pub databases: Vec<DatabaseReport>,
}

/// One database of the store.
#[derive(Clone, Debug, Serialize)]
pub struct DatabaseReport {
    /// The name of the database.
    pub name: String,
    /// Its retention policies, the oldest first.
    pub policies: Vec<PolicyReport>,
}

/// One retention policy of a database.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyReport {
    /// The name of the policy.
    pub name: String,
    /// Its number, of which its directory has its name.
    pub id: u64,
    /// How many series the series log has.
    pub series: u64,
    /// What is wrong with the series log.
    pub series_log_fault: Option<String>,
    /// In the order of measurements and partitions.
    pub files: Vec<FileReport>,
    /// What was deleted but still is in older files.
    pub tombstones: Vec<Tombstone>,
}

/// One file of a retention policy.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// What the manifest says.
    pub info: FileInfo,
    /// What is wrong with it.
    pub fault: Option<String>,
    /// Points that are missing from answers, or a field of them.
    pub missing: u64,
    /// Whether an operator has accepted that.
    pub accepted: bool,
    /// Whether an earlier version has set it aside: nothing of it is read.
    pub is_aside: bool,
    /// Bytes that were appended to it; they are not read, and nothing is missing.
    pub appended: u64,
}

impl FileReport {
    fn is_bad(&self) -> bool {
        self.fault.is_some() && !self.accepted
    }
}

/// Looks at the manifest and the lengths of the files.
///
/// # Errors
/// When the manifest can't be read.
pub fn inspect(dir: &Path) -> Result<Report, ManifestError> {
    report(dir, false)
}

/// As [`inspect`], and looks at the checksum of every part of every file.
///
/// # Errors
/// When the manifest can't be read.
pub fn verify(dir: &Path) -> Result<Report, ManifestError> {
    report(dir, true)
}

fn report(dir: &Path, verified: bool) -> Result<Report, ManifestError> {
    let Some(manifest) = Manifest::read(dir)? else {
        let dir = dir.to_owned();
        let has_files = dir.join("data").exists();
        return Err(if has_files {
            ManifestError::Missing { dir }
        } else {
            ManifestError::None { dir }
        });
    };
    let databases = manifest.catalogue.databases.iter().map(|(name, database)| {
        let policies = database.policies.iter();
        let policies = policies.map(|policy| PolicyReport {
            name: policy.name.clone(),
            ..policy_report(dir, &manifest, policy.id, verified)
        });
        DatabaseReport { name: name.clone(), policies: policies.collect() }
    });
    Ok(Report {
        dir: dir.to_owned(),
        format: manifest::FORMAT,
        position: manifest.position,
        verified,
        databases: databases.collect(),
    })
}

fn policy_report(dir: &Path, manifest: &Manifest, id: u64, verified: bool) -> PolicyReport {
    let entry = manifest.policies.get(&id).cloned().unwrap_or_default();
    let dir = policy_dir(dir, id);
    let files = entry.files.into_iter().map(|info| {
        let known = entry.damaged.iter().find(|of| of.in_place && of.info.number == info.number);
        file_report(&dir, info, known, verified)
    });
    let mut files: Vec<FileReport> = files.collect();
    files.extend(entry.damaged.into_iter().filter(|damaged| !damaged.in_place).map(|damaged| {
        FileReport {
            missing: damaged.points(),
            info: damaged.info,
            fault: Some(damaged.what),
            accepted: damaged.accepted,
            is_aside: true,
            appended: 0,
        }
    }));
    files.sort_by(|a, b| {
        let key = |file: &FileReport| (file.info.partition, file.info.positions);
        a.info.measurement.cmp(&b.info.measurement).then_with(|| key(a).cmp(&key(b)))
    });
    let log = if verified { series_log::read(&dir, entry.series, drop) } else { Ok(()) };
    PolicyReport {
        name: String::new(),
        id,
        series: entry.series.series,
        series_log_fault: log.err().map(|error| error.to_string()),
        files,
        tombstones: entry.tombstones,
    }
}

fn file_report(
    dir: &Path,
    info: FileInfo,
    known: Option<&DamagedFile>,
    verified: bool,
) -> FileReport {
    let found = if verified { read(dir, &info) } else { None };
    let (fault, missing) = found.or_else(|| lengths(dir, &info)).unzip();
    let fault = fault.or_else(|| known.map(|known| known.what.clone()));
    let missing = known.map_or(0, DamagedFile::points).max(missing.unwrap_or(0));
    let of = std::fs::metadata(info.path(dir));
    let appended = of.map_or(0, |of| of.len().saturating_sub(info.bytes));
    let accepted = known.is_some_and(|known| known.accepted && known.points() >= missing);
    FileReport { info, fault, missing, accepted, is_aside: false, appended }
}

/// What is wrong by the lengths of files alone, and how many points that costs.
fn lengths(dir: &Path, info: &FileInfo) -> Option<(String, u64)> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = info.path(dir);
    match std::fs::metadata(&path) {
        Ok(of) if of.len() >= info.bytes => {}
        Ok(of) => {
            let what = format!("{} has {} bytes instead of {}", name(&path), of.len(), info.bytes);
            return Some((what, info.rows));
        }
        Err(error) => return Some((format!("{}: {error}", path.display()), info.rows)),
    }
    // A sidecar can be made anew.
    let (path, wanted) = (info.sidecar_path(dir), info.sidecar_bytes);
    match std::fs::metadata(&path) {
        Ok(of) if of.len() == wanted => None,
        Ok(of) => Some((format!("{} has {} bytes instead of {wanted}", name(&path), of.len()), 0)),
        Err(error) => Some((format!("{}: {error}", path.display()), 0)),
    }
}

/// What is wrong by every byte, and how many points that costs.
fn read(dir: &Path, info: &FileInfo) -> Option<(String, u64)> {
    match diagnose(dir, info) {
        Ok(Diagnosis::Intact) => None,
        Ok(Diagnosis::Sidecar(what)) => Some((what, 0)),
        Ok(Diagnosis::Damaged(_, loss)) => Some((loss.what, loss.points)),
        Err(error) => Some((error.to_string(), 0)),
    }
}

impl Report {
    /// Whether nothing is damaged or missing, but for what an operator has accepted.
    pub fn is_intact(&self) -> bool {
        self.policies().all(|policy| {
            policy.series_log_fault.is_none() && !policy.files.iter().any(FileReport::is_bad)
        })
    }

    fn policies(&self) -> impl Iterator<Item = &PolicyReport> {
        self.databases.iter().flat_map(|database| &database.policies)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "store {}, format {}", self.dir.display(), self.format)?;
        writeln!(f, "journal position {}: all before it is in the files", self.position)?;
        for database in &self.databases {
            for policy in &database.policies {
                writeln!(f, "\n{}.{} in data/{}", database.name, policy.name, policy.id)?;
                write!(f, "{policy}")?;
            }
        }
        let damaged: Vec<&FileReport> =
            self.policies().flat_map(|policy| &policy.files).filter(|file| file.is_bad()).collect();
        let missing: u64 = damaged.iter().map(|file| file.missing).sum();
        writeln!(f)?;
        if damaged.is_empty() {
            writeln!(f, "no file is damaged")?;
        } else {
            let files = damaged.len();
            writeln!(f, "{files} FILES DAMAGED, {missing} points missing; see weir store accept")?;
        }
        f.write_str(if self.verified {
            "every checksum was looked at"
        } else {
            "only the manifest and the lengths of files were looked at; verify reads every byte"
        })
    }
}

impl fmt::Display for PolicyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = || self.files.iter().filter(|file| !file.is_aside);
        writeln!(
            f,
            "  {} series, {} points in {} files of {} bytes",
            self.series,
            live().map(|file| file.info.rows).sum::<u64>(),
            live().count(),
            live().map(|file| file.info.bytes + file.info.sidecar_bytes).sum::<u64>(),
        )?;
        if let Some(fault) = &self.series_log_fault {
            writeln!(f, "  SERIES LOG DAMAGED: {fault}; the next start makes it anew")?;
        }
        let mut measurement = None;
        for file in &self.files {
            if measurement != Some(&file.info.measurement) {
                writeln!(f, "  measurement {}", file.info.measurement)?;
                measurement = Some(&file.info.measurement);
            }
            writeln!(f, "    {file}")?;
        }
        for tombstone in &self.tombstones {
            writeln!(f, "  deleted at {}: {}", tombstone.position, Deleted(tombstone))?;
        }
        Ok(())
    }
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &self.info;
        write!(
            f,
            "{}: {} points, {} bytes, {}, positions {} to {}",
            info.name(),
            info.rows,
            info.bytes + info.sidecar_bytes,
            Span(info.time),
            info.positions.0,
            info.positions.1
        )?;
        if self.appended > 0 {
            write!(f, ", {} bytes appended, which are not read", self.appended)?;
        }
        let missing = self.missing;
        match &self.fault {
            Some(fault) if self.accepted => write!(f, ", damaged, accepted: {fault}"),
            Some(fault) if self.is_aside => write!(f, ", SET ASIDE: {fault}"),
            Some(fault) => write!(f, ", DAMAGED, {missing} points missing: {fault}"),
            None => Ok(()),
        }
    }
}

/// A range of times as an operator writes it.
struct Span(TimeRange);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: i64| {
            Timestamp::from_nanosecond(i128::from(time))
                .map_or_else(|_| time.to_string(), |time| time.to_string())
        };
        if self.0 == TimeRange::ALL {
            return f.write_str("all times");
        }
        write!(f, "{} to {}", time(self.0.min), time(self.0.max))
    }
}

/// What a tombstone says, in words.
struct Deleted<'a>(&'a Tombstone);

impl fmt::Display for Deleted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.measurement {
            Some(measurement) => write!(f, "of {measurement}, ")?,
            None => f.write_str("of every measurement, ")?,
        }
        write!(f, "{}, {}", Words(&self.0.matching), Span(self.0.time))
    }
}

struct Words<'a>(&'a Condition);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Condition::All => f.write_str("every series"),
            Condition::Equal(key, value) => write!(f, "{key} = '{value}'"),
            Condition::NotEqual(key, value) => write!(f, "{key} != '{value}'"),
            Condition::Match(key, regex) => write!(f, "{key} =~ /{regex}/"),
            Condition::NotMatch(key, regex) => write!(f, "{key} !~ /{regex}/"),
            Condition::And(a, b) => write!(f, "({} AND {})", Words(a), Words(b)),
            Condition::Or(a, b) => write!(f, "({} OR {})", Words(a), Words(b)),
        }
    }
}
