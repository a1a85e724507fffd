//! Which files the programs are made of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::source::{self, Source};

/// Rust files that no `mod` leads to from any crate's root.
pub fn unreachable_files() -> Vec<String> {
    let sources = Source::all();
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<PathBuf> =
        sources.iter().map(|s| s.path.clone()).filter(|path| is_root(path)).collect();
    while let Some(path) = waiting.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let code = sources.iter().find(|s| s.path == path).map_or("", |s| s.code.as_str());
        waiting.extend(modules(&path, code).into_iter().map(|(_, file)| file));
    }
    let dead = sources.iter().filter(|source| !reached.contains(&source.path));
    dead.map(|source| source.path.display().to_string()).collect()
}

/// What cargo compiles by itself.
fn is_root(path: &Path) -> bool {
    let named = |name: &str| path.ends_with(name);
    let parent = path.parent().unwrap_or(Path::new(""));
    let targets = ["benches", "examples", "fuzz_targets"];
    named("src/lib.rs")
        || named("src/main.rs")
        || named("build.rs")
        || [
            "tests/rig/lib.rs",
            "tests/integration/main.rs",
            "tests/tidy/main.rs",
            "tests/clients/tokio-postgres/main.rs",
        ]
        .map(named)
        .contains(&true)
        || targets.iter().any(|dir| parent.ends_with(dir))
        || parent.ends_with("src/bin")
        || (parent.ends_with("tests") && path.starts_with("crates"))
        || (named("main.rs")
            && parent.parent().is_some_and(|above| above.ends_with("tests"))
            && path.starts_with("crates"))
}

/// The modules that `mod` items in `code` name, and their files.
pub fn modules(path: &Path, code: &str) -> Vec<(String, PathBuf)> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_index = is_root(path) || stem == "mod";
    let below = if is_index { parent.to_owned() } else { parent.join(&stem) };
    let mut found = Vec::new();
    let mut named_path = None;
    for line in code.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            named_path = rest.split('"').next().map(|name| parent.join(name));
        }
        let Some(name) = line.strip_suffix(';').and_then(module_name) else { continue };
        let beside = [below.join(format!("{name}.rs")), below.join(name).join("mod.rs")];
        let candidates = named_path.take().into_iter().chain(beside);
        let files = candidates.filter(|path| source::root().join(path).is_file());
        found.extend(files.map(|file| (name.to_owned(), file)));
    }
    found
}

fn module_name(item: &str) -> Option<&str> {
    let (before, name) = item.split_once("mod ")?;
    let visible = before.is_empty() || before.trim_end().starts_with("pub");
    (visible && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}
