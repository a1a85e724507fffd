//! The tables below the headers of crates that say in which file a thing is decided.

use std::path::{Path, PathBuf};

use crate::source::{root, texts};

/// What the table begins with.
const HEADING: &str = "// Where it is decided";

/// The table of one crate.
pub struct Table {
    /// The crate's root file, from the root of the tree.
    path: PathBuf,
    lines: Vec<String>,
}

impl Table {
    /// Those of all crates.
    pub fn all() -> Vec<Self> {
        let roots = texts().into_iter().filter(|(path, _)| is_root(path));
        roots
            .filter_map(|(path, text)| {
                let begin = text.find(HEADING)?;
                let lines = text[begin..].lines().skip(1).take_while(|line| line.starts_with("//"));
                Some(Self { path, lines: lines.map(str::to_owned).collect() })
            })
            .collect()
    }

    /// Files that it names and that are not there: below the crate's own `src`, or below `crates`.
    pub fn absent_files(&self) -> Vec<String> {
        let words = self.lines.iter().flat_map(|line| line.split([' ', ',', ':', ';', '(', ')']));
        let files = words.filter(|word| word.ends_with(".rs") || word.ends_with(".sql"));
        let own = root().join(self.path.parent().unwrap_or(Path::new("")));
        files
            .filter(|file| !own.join(file).is_file() && !root().join("crates").join(file).is_file())
            .map(|file| format!("{}: {file}", self.path.display()))
            .collect()
    }
}

/// Whether it is the root file of a crate of the workspace.
fn is_root(path: &Path) -> bool {
    path.starts_with("crates") && (path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"))
}
