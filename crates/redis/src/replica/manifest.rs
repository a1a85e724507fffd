//! Manifests: which files make up a generation, in Redis's own format (`aof.c`, since 7.0).
//!
//! A server passes over lines that begin with `#` (`aofLoadManifestFromFile`, Redis from 7.0 and
//! Valkey alike). In them Weir keeps a checksum of the manifest, and what the base must be.

use std::fmt::Write as _;

use super::stream::decimal;

/// What all files' names begin with: Redis's default `appendfilename`.
pub const PREFIX: &str = "appendonly.aof";
/// The manifest of the generation that a server loads.
pub const CURRENT: &str = "appendonly.aof.manifest";
/// Weir's first line: a server that writes the manifest anew leaves it out. The number of the base
/// follows, and CRC-32C of all lines behind this one, which older versions left out.
const OURS: &str = "#WEIR generation";
/// The second: the base's length, its checksum and its offset follow.
const BASE: &str = "#WEIR base ";

/// A base and what came after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Whether Weir wrote it last.
    pub is_ours: bool,
    /// The RDB file that increments follow.
    pub base: Option<GenerationFile>,
    /// What that must be; older versions did not say it.
    pub sum: Option<BaseSum>,
    /// The increments, from the oldest.
    pub increments: Vec<GenerationFile>,
}

/// A file of a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationFile {
    /// Its name in the directory.
    pub name: String,
    /// The number that its name has, which grows with each file.
    pub number: u64,
}

/// What a base must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BaseSum {
    /// Its length in bytes.
    pub len: u64,
    /// CRC-64 of all but its last eight bytes, which are the same where the server writes it.
    pub crc: u64,
    /// The stream's offset of it: the first increment begins there.
    pub offset: u64,
}

/// A manifest is none, or is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// A line says nothing that Redis, or Weir, would write.
    #[error("line {0} of the manifest says nothing that a server would write")]
    Line(usize),
    /// What it says is not what Weir wrote.
    #[error("the manifest's checksum is wrong")]
    Checksum,
}

impl BaseSum {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (len, crc, offset) = (word(), word(), word());
        let crc = u64::from_str_radix(crc, 16).ok()?;
        let (len, offset) = (decimal(len.as_bytes())?, decimal(offset.as_bytes())?);
        word().is_empty().then_some(Self { len, crc, offset })
    }
}

impl GenerationFile {
    /// The base of a generation with this number.
    pub fn base(number: u64) -> Self {
        Self { name: format!("{PREFIX}.{number}.base.rdb"), number }
    }

    /// An increment with this number.
    pub fn increment(number: u64) -> Self {
        Self { name: format!("{PREFIX}.{number}.incr.aof"), number }
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// It is none, or it is one of Weir's and damaged.
    pub fn read(text: &str) -> Result<Self, ManifestError> {
        let ours = text.strip_prefix(OURS);
        if let Some(rest) = ours {
            check(rest)?;
        }
        let mut found = Self { is_ours: ours.is_some(), ..Self::default() };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(sum) = line.strip_prefix(BASE).filter(|_| found.is_ours) {
                found.sum = Some(BaseSum::read(sum).ok_or(ManifestError::Line(number))?);
            }
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let part = part(line).ok_or(ManifestError::Line(number))?;
            match part {
                (part, "b") if found.base.is_none() => found.base = Some(part),
                (part, "i") => found.increments.push(part),
                // What a server is about to delete.
                (_, "h") => {}
                _ => return Err(ManifestError::Line(number)),
            }
        }
        Ok(found)
    }

    /// The manifest as Weir writes it.
    pub fn text(&self) -> String {
        let mut rest = String::new();
        if let Some(BaseSum { len, crc, offset }) = self.sum {
            // Writing to a string does not fail.
            let _ = writeln!(rest, "{BASE}{len} {crc:016x} {offset}");
        }
        rest.push_str(&self.text_of_server());
        let crc = crc32c::crc32c(rest.as_bytes());
        format!("{OURS} {} {crc:08x}\n{rest}", self.number())
    }

    /// The same as a server writes it: Weir does not go on with what it names.
    pub fn text_of_server(&self) -> String {
        let mut text = String::new();
        let parts = self.base.iter().map(|part| (part, 'b'));
        for (part, kind) in parts.chain(self.increments.iter().map(|part| (part, 'i'))) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "file {} seq {} type {kind}", part.name, part.number);
        }
        text
    }

    /// The number of its base.
    pub fn number(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.number)
    }

    /// The names of its files, the base first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.base.iter().chain(&self.increments).map(|part| part.name.as_str())
    }
}

/// Whether all that follows the first line of Weir's is what was written.
fn check(rest: &str) -> Result<(), ManifestError> {
    let (head, behind) = rest.split_once('\n').ok_or(ManifestError::Checksum)?;
    let mut words = head.strip_prefix(' ').ok_or(ManifestError::Checksum)?.split(' ');
    words.next().and_then(|number| decimal(number.as_bytes())).ok_or(ManifestError::Checksum)?;
    // Older versions wrote no checksum.
    let Some(crc) = words.next() else { return Ok(()) };
    let is_right = u32::from_str_radix(crc, 16) == Ok(crc32c::crc32c(behind.as_bytes()));
    if is_right && words.next().is_none() { Ok(()) } else { Err(ManifestError::Checksum) }
}

fn part(line: &str) -> Option<(GenerationFile, &str)> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["file", name, "seq", number, "type", kind, ref later @ ..] = words[..] else {
        return None;
    };
    // Redis 8 says where an increment begins and ends; each key has a value.
    if !later.len().is_multiple_of(2) {
        return None;
    }
    let is_plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    let number = decimal(number.as_bytes())?;
    is_plain.then(|| (GenerationFile { name: name.to_owned(), number }, kind))
}

/// Whether a file of this name says what a generation is: the current one, an older, or a pinned
/// one. What a server was writing when it died does not.
pub fn is_manifest(name: &str) -> bool {
    let is_older = |kind: &str| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('.'));
    name == CURRENT
        || (name.ends_with(".manifest") && (is_older("generation") || is_older("pinned")))
}

/// The number of a base that a file is, by its name.
pub fn number_of_base(name: &str) -> Option<u64> {
    number_of(name).filter(|_| name.contains(".base."))
}

/// The number in a file's name, where it is named as a part.
pub fn number_of(name: &str) -> Option<u64> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix('.')?;
    let (number, kind) = rest.split_once('.')?;
    ["base.rdb", "base.aof", "incr.aof"].contains(&kind).then(|| decimal(number.as_bytes()))?
}

#[cfg(test)]
mod tests {
    use super::{
        BaseSum, GenerationFile, Manifest, ManifestError, is_manifest, number_of, number_of_base,
    };

    #[test]
    fn it_is_read_as_it_was_written_and_a_servers_is_told_apart() {
        let increments = vec![GenerationFile::increment(3), GenerationFile::increment(4)];
        let sum = Some(BaseSum { len: 5, crc: u64::MAX, offset: 9 });
        let manifest =
            Manifest { is_ours: true, base: Some(GenerationFile::base(3)), sum, increments };
        let text = manifest.text();
        assert_eq!(Manifest::read(&text), Ok(manifest.clone()));
        let (_, servers) = text.split_once('\n').unwrap();
        let wanted = Manifest { is_ours: false, sum: None, ..manifest };
        assert_eq!(Manifest::read(servers), Ok(wanted));
        assert!(Manifest::read("file ../x seq 1 type b\n").is_err());
        assert!(Manifest::read("file a seq x type b\n").is_err());
        assert!(Manifest::read("nonsense").is_err());
        assert_eq!(number_of("appendonly.aof.12.incr.aof"), Some(12));
        assert_eq!(number_of("appendonly.aof.manifest"), None);
        assert_eq!(number_of_base("appendonly.aof.12.base.rdb"), Some(12));
        assert_eq!(number_of_base("appendonly.aof.12.incr.aof"), None);
    }

    #[test]
    fn a_manifest_that_is_cut_or_has_a_bit_turned_is_told_from_one_that_weir_wrote() {
        let increments = vec![GenerationFile::increment(3), GenerationFile::increment(4)];
        let sum = Some(BaseSum { len: 5, crc: 7, offset: 9 });
        let manifest =
            Manifest { is_ours: true, base: Some(GenerationFile::base(3)), sum, increments };
        let text = manifest.text();
        let is_taken = |text: &str| Manifest::read(text).is_ok_and(|found| found.is_ours);
        for cut in 0..text.len() {
            assert!(!is_taken(&text[..cut]), "cut at {cut}");
        }
        for (at, bit) in (0..text.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let found = std::str::from_utf8(&bytes).ok().and_then(|text| Manifest::read(text).ok());
            let is_same = found.is_none_or(|found| !found.is_ours || found == manifest);
            assert!(is_same, "bit {bit} of byte {at}");
        }
        for line in text.lines() {
            assert!(!is_taken(&text.replace(&format!("{line}\n"), "")), "without {line}");
        }
        // That of an older version is taken as it is.
        let older = format!("#WEIR generation 3\n{}", manifest.text_of_server());
        assert_eq!(Manifest::read(&older), Ok(Manifest { sum: None, ..manifest }));
        assert_eq!(Manifest::read("#WEIR generation"), Err(ManifestError::Checksum));
    }

    #[test]
    fn what_redis_8_says_of_an_increment_is_passed_over() {
        let later = "file appendonly.aof.1.base.rdb seq 1 type b\n\
                     file appendonly.aof.1.incr.aof seq 1 type i startoffset 5 endoffset 9\n\
                     file appendonly.aof.2.incr.aof seq 2 type i startoffset 9\n";
        let manifest = Manifest::read(later).unwrap();
        assert_eq!(
            manifest.increments,
            [GenerationFile::increment(1), GenerationFile::increment(2)]
        );
        assert!(Manifest::read("file a seq 1 type i startoffset\n").is_err());
    }

    #[test]
    fn what_a_server_was_writing_is_no_manifest() {
        let all = ["appendonly.aof.manifest", "generation.1.manifest", "pinned.7.manifest"];
        assert!(all.into_iter().all(is_manifest));
        let none = ["temp-appendonly.aof.manifest", "pinned.7.manifest.new", "x.manifest"];
        assert!(!none.into_iter().any(is_manifest));
    }
}
