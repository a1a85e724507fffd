//! Which files the store consists of, and how far they reach in the journal.
//!
//! One line of magic, format version, CRC-32C and length, then JSON. It is written under another
//! name and renamed, so that there is always exactly one; its position is the store's only cursor.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use disk::Disk;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Ids};
use crate::file::{FileInfo, Loss};
use crate::scan::TimeRange;
use crate::schema::FieldType;
use crate::series_log::SeriesMark;
use crate::tombstone::Tombstone;

/// The format this program writes; it reads this one.
pub const FORMAT: u32 = 1;
const MAGIC: &str = "weir-store-manifest";
/// The file's name in the store's directory.
pub const NAME: &str = "manifest";
const NEW_NAME: &str = "manifest.new";

/// The types of the fields of each measurement.
pub type Schema = BTreeMap<String, BTreeMap<String, FieldType>>;

/// What the store consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Everything the journal brought up to here is in the files.
    pub position: u64,
    /// The number of the next file.
    pub next_file: u64,
    /// Databases and retention policies.
    pub catalogue: Catalogue,
    /// The retention policies' data, by their ids.
    pub policies: BTreeMap<u64, PolicyEntry>,
}

/// What a retention policy consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// The ids of the policy and its database.
    pub ids: Ids,
    /// The types of the fields of each measurement.
    pub schema: Schema,
    /// How much of the series log counts.
    pub series: SeriesMark,
    /// The files that hold the policy's points.
    pub files: Vec<FileInfo>,
    /// What was deleted, as far as there are older files.
    pub tombstones: Vec<Tombstone>,
    /// Files of which something can't be read.
    pub damaged: Vec<DamagedFile>,
}

impl PolicyEntry {
    /// Takes an expired file out. The types of a measurement go with its last file: records behind
    /// the manifest's position may have others.
    pub(crate) fn drop_file(&mut self, number: u64) {
        let gone = self.files.iter().find(|file| file.number == number);
        let measurement = gone.map(|file| file.measurement.clone());
        self.files.retain(|file| file.number != number);
        let aside = self.damaged.iter().filter(|damaged| !damaged.in_place);
        let set_aside = aside.map(|damaged| &damaged.info);
        if let Some(name) = measurement
            && !self.files.iter().chain(set_aside).any(|file| file.measurement == name)
        {
            self.schema.remove(&name);
        }
    }
}

/// A file of which something can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedFile {
    /// What was known of it.
    pub info: FileInfo,
    /// What is wrong with it.
    pub what: String,
    /// Whether it is still one of the policy's files, and what can be read of it is. Otherwise an
    /// earlier version has set it aside: it was renamed to its name and `.damaged`.
    #[serde(default)]
    pub in_place: bool,
    /// How many points are missing, or a field of them; all where this is `None`.
    #[serde(default)]
    pub points: Option<u64>,
    /// No missing point is outside of these times; those of the file where this is `None`.
    #[serde(default)]
    pub time: Option<TimeRange>,
    /// The fields that are missing; empty where all may be.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Whether the names of series are missing, too.
    #[serde(default)]
    pub nameless: bool,
    /// Whether an operator has accepted that these points are missing: nothing is said of them any
    /// more.
    #[serde(default)]
    pub accepted: bool,
}

impl DamagedFile {
    /// A file that stays where it is.
    pub fn in_place(info: &FileInfo, loss: Loss) -> Self {
        Self {
            info: info.clone(),
            what: loss.what,
            in_place: true,
            points: Some(loss.points),
            time: Some(loss.time),
            fields: loss.fields,
            nameless: false,
            accepted: false,
        }
    }

    /// How many points are missing, or a field of them.
    pub fn points(&self) -> u64 {
        self.points.unwrap_or(self.info.rows)
    }

    /// No missing point is outside of these times.
    pub fn time(&self) -> TimeRange {
        self.time.unwrap_or(self.info.time)
    }

    /// Whether answers are to say that points are missing.
    pub fn is_told(&self) -> bool {
        !self.accepted && self.points() > 0
    }
}

/// Why the manifest can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file system says no.
    #[error("can't {what} {}: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// The file it was done to.
        path: PathBuf,
        /// What the file system says.
        source: std::io::Error,
    },
    /// It is not what was written.
    #[error(
        "{} is damaged: {what}; restore it from a backup of the whole directory, or move the \
         directory away to begin with an empty store", path.display()
    )]
    Damaged {
        /// The path of the manifest.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A later program wrote it.
    #[error("{} has format {found}; this program reads format {FORMAT}", path.display())]
    Format {
        /// The path of the manifest.
        path: PathBuf,
        /// The version in it.
        found: u32,
    },
    /// There are files but no manifest.
    #[error("{} holds files of a store but no manifest; nothing was changed", dir.display())]
    Missing {
        /// The directory of the store.
        dir: PathBuf,
    },
    /// The directory has no manifest and no files.
    #[error("{} holds no store", dir.display())]
    None {
        /// The directory that was looked at.
        dir: PathBuf,
    },
    /// Another process has the store.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The directory of the store.
        dir: PathBuf,
    },
    /// An earlier change ended in the middle: which of two manifests the disk has is not known.
    #[error("the store's manifest could not be made durable; restart to go on")]
    Uncertain,
}

impl ManifestError {
    pub(crate) fn of<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl Fn(std::io::Error) -> Self + 'a {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }

    /// Whether there is no room on the disk; that may go away by itself.
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind;
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }
}

impl Manifest {
    /// Reads the manifest of a store. `None` where there is none.
    ///
    /// # Errors
    /// When it can't be read, or is damaged or of another format.
    pub fn read(dir: &Path) -> Result<Option<Self>, ManifestError> {
        let path = dir.join(NAME);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ManifestError::of("read", &path)(error)),
        };
        Self::decode(&bytes, &path).map(Some)
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self, ManifestError> {
        let damaged =
            |what: &str| ManifestError::Damaged { path: path.to_owned(), what: what.to_owned() };
        let line = bytes.iter().position(|byte| *byte == b'\n');
        let (header, rest) = line
            .and_then(|at| bytes.split_at_checked(at + 1))
            .ok_or_else(|| damaged("it has no first line"))?;
        let header =
            std::str::from_utf8(header).map_err(|_| damaged("its first line is not text"))?;
        let words: Vec<&str> = header.split_whitespace().collect();
        let [MAGIC, format, crc, len] = *words else {
            return Err(damaged("its first line is not that of a manifest"));
        };
        let format: u32 = format.parse().map_err(|_| damaged("its format is not a number"))?;
        if format != FORMAT {
            return Err(ManifestError::Format { path: path.to_owned(), found: format });
        }
        if len.parse() != Ok(rest.len()) {
            return Err(damaged("it is not as long as it was"));
        }
        if u32::from_str_radix(crc, 16) != Ok(crc32c::crc32c(rest)) {
            return Err(damaged("its checksum is wrong"));
        }
        serde_json::from_slice(rest).map_err(|error| damaged(&error.to_string()))
    }

    fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let body = serde_json::to_vec(self)?;
        let crc = crc32c::crc32c(&body);
        let mut bytes = format!("{MAGIC} {FORMAT} {crc:08x} {}\n", body.len()).into_bytes();
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Makes this the manifest of the store. When this fails, the old one still is; only after
    /// [`ManifestError::Uncertain`] it is not known which of both.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, disk: &Disk, dir: &Path) -> Result<(), ManifestError> {
        let (path, new) = (dir.join(NAME), dir.join(NEW_NAME));
        let bytes =
            self.encode().map_err(|error| ManifestError::of("write", &new)(error.into()))?;
        let written = disk.create(&new).and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync()
        });
        let renamed = written
            .map_err(ManifestError::of("write", &new))
            .and_then(|()| disk.rename(&new, &path).map_err(ManifestError::of("rename", &new)));
        if let Err(error) = renamed {
            let _ = disk.remove(&new);
            return Err(error);
        }
        disk.sync_dir(dir).map_err(|error| {
            tracing::error!(%error, "the store's directory could not be synced");
            ManifestError::Uncertain
        })
    }

    /// The number of a new file.
    pub fn take_number(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }
}

/// Removes what an unfinished write left.
pub(crate) fn remove_unfinished(disk: &Disk, dir: &Path) -> Result<(), ManifestError> {
    let new = dir.join(NEW_NAME);
    if new.exists() { disk.remove(&new).map_err(ManifestError::of("remove", &new)) } else { Ok(()) }
}
