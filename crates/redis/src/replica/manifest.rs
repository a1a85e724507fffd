//! Manifests: which files make up a generation, in Redis's own format (`aof.c`, since 7.0).

use std::fmt::Write as _;

use super::stream::decimal;

/// What all files' names begin with: Redis's default `appendfilename`.
pub const PREFIX: &str = "appendonly.aof";
/// The manifest of the generation that a server loads.
pub const CURRENT: &str = "appendonly.aof.manifest";
/// Weir's first line: a server that writes the manifest anew leaves it out.
const OURS: &str = "#WEIR generation";

/// A base and what came after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Whether Weir wrote it last.
    pub is_ours: bool,
    /// The RDB file.
    pub base: Option<Part>,
    /// The increments, from the oldest.
    pub increments: Vec<Part>,
}

/// A file of a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name in the directory.
    pub name: String,
    /// Its number.
    pub number: u64,
}

/// A line of a manifest says nothing that Redis would write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {0} of the manifest says nothing that a server would write")]
pub struct ManifestError(usize);

impl Part {
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
    /// It is none.
    pub fn read(text: &str) -> Result<Self, ManifestError> {
        let mut found = Self { is_ours: text.starts_with(OURS), ..Self::default() };
        for (number, line) in (1..).zip(text.lines()) {
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let part = part(line).ok_or(ManifestError(number))?;
            match part {
                (part, "b") if found.base.is_none() => found.base = Some(part),
                (part, "i") => found.increments.push(part),
                // What a server is about to delete.
                (_, "h") => {}
                _ => return Err(ManifestError(number)),
            }
        }
        Ok(found)
    }

    /// Its text.
    pub fn text(&self) -> String {
        format!("{OURS} {}\n{}", self.number(), self.text_of_server())
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

    /// Its files' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.base.iter().chain(&self.increments).map(|part| part.name.as_str())
    }
}

fn part(line: &str) -> Option<(Part, &str)> {
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
    is_plain.then(|| (Part { name: name.to_owned(), number }, kind))
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
    use super::{Manifest, Part, is_manifest, number_of, number_of_base};

    #[test]
    fn it_is_read_as_it_was_written_and_a_servers_is_told_apart() {
        let increments = vec![Part::increment(3), Part::increment(4)];
        let manifest = Manifest { is_ours: true, base: Some(Part::base(3)), increments };
        let text = manifest.text();
        assert_eq!(Manifest::read(&text), Ok(manifest.clone()));
        let (_, servers) = text.split_once('\n').unwrap();
        let wanted = Manifest { is_ours: false, ..manifest };
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
    fn what_redis_8_says_of_an_increment_is_passed_over() {
        let later = "file appendonly.aof.1.base.rdb seq 1 type b\n\
                     file appendonly.aof.1.incr.aof seq 1 type i startoffset 5 endoffset 9\n\
                     file appendonly.aof.2.incr.aof seq 2 type i startoffset 9\n";
        let manifest = Manifest::read(later).unwrap();
        assert_eq!(manifest.increments, [Part::increment(1), Part::increment(2)]);
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
