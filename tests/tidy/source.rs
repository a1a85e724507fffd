//! Finds and reads the files of the tree.

use std::fs;
use std::path::{Path, PathBuf};

/// What has nothing of ours in it; `.git` is a file where a work tree is not the repository's own.
const NOT_OURS: [&str; 6] = ["target", ".git", "weir-data", "node_modules", "corpus", "artifacts"];

pub struct Source {
    /// Where it is, from the root of the tree.
    pub path: PathBuf,
    pub code: String,
}

impl Source {
    /// Every Rust file of the tree.
    pub fn all() -> Vec<Self> {
        let rust = files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
        rust.map(|path| Self { code: read(&path), path }).collect()
    }

    /// Those which are part of Weir or the benchmark, without tests' own files.
    pub fn production() -> Vec<Self> {
        let mut all = Self::all();
        all.retain(|source| {
            let path = source.path.display().to_string();
            let ours = path.starts_with("crates/") || path.starts_with("bench/");
            let stem = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let test = ["tests", "testing"].contains(&stem.as_str())
                || stem.ends_with("_tests")
                || ["/tests/", "/scenarios", "/examples/"].iter().any(|part| path.contains(part));
            ours && !test
        });
        all
    }

    /// The code before the file's own tests, which stand at its end.
    pub fn untested(&self) -> &str {
        self.code.split("#[cfg(test)]").next().unwrap_or_default()
    }

    /// Line, name and length of each function. rustfmt has put the closing brace of a function
    /// where its first line begins, so that no parser is needed.
    pub fn functions(&self) -> Vec<(usize, String, usize)> {
        let lines: Vec<&str> = self.code.lines().collect();
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = function_name(line) else { continue };
            let indent = &line[..line.len() - line.trim_start().len()];
            let (close, ends) = (format!("{indent}}}"), format!("{indent})"));
            let rest = lines[at..].iter();
            let end = rest.clone().position(|line| **line == close).unwrap_or(0);
            // A signature without a body.
            let semicolon = lines[at..].iter().position(|line| {
                line.trim_end().ends_with(';') && (line.starts_with(&ends) || *line == lines[at])
            });
            if semicolon.is_none_or(|at| at > end) {
                found.push((at + 1, name.to_owned(), end + 1));
            }
        }
        found
    }
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let modifiers = ["pub", "async", "const", "extern", "\"C\""];
    let only =
        before.split_whitespace().all(|word| modifiers.contains(&word) || word.starts_with("pub("));
    let name = after.split(['(', '<']).next()?;
    (only && line.contains('(') && !line.trim_end().ends_with("}")).then_some(name)
}

/// Every text file of the tree, but for lock files, which name registries by their nature.
pub fn texts() -> Vec<(PathBuf, String)> {
    let ours = files().into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        !name.ends_with(".lock") && name != "package-lock.json"
    });
    let text = |path: PathBuf| Some((path.clone(), fs::read_to_string(root().join(path)).ok()?));
    ours.filter_map(text).collect()
}

/// The root of the tree.
pub fn root() -> PathBuf {
    rig::places::root()
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// Every file, from the root of the tree.
pub fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).expect("the tree can be read").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("the tree can be read");
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                found.push(path.strip_prefix(root()).unwrap_or(&path).to_owned());
            }
        }
    }
    found.sort();
    found
}
