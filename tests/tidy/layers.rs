//! Which modules of a crate stand on which. Each crate's root file lists its top modules from the
//! top down, in a comment that begins with [`HEADING`]: a module takes only from those behind it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::items::{ROOT, Tree};
use crate::source::Source;

const HEADING: &str = "// Layers, from the top down";

/// What is wrong with the layers of any crate.
pub fn faults() -> Vec<String> {
    let sources = Source::all();
    let roots = sources.iter().filter(|source| {
        let names: Vec<_> = source.path.iter().map(|name| name.to_string_lossy()).collect();
        matches!(&names[..], [dir, _, src, file]
            if dir == "crates" && src == "src" && (file == "lib.rs" || file == "main.rs"))
    });
    roots.flat_map(|root| faults_of(root, &sources)).collect()
}

fn faults_of(root: &Source, sources: &[Source]) -> Vec<String> {
    let (tree, path) = (Tree::read(&root.path, sources), root.path.display());
    let (tops, listed) = (tree.tops(), listed(&root.code));
    // One module has nothing to stand on.
    if tops.len() < 2 {
        return Vec::new();
    }
    let named: BTreeSet<String> = listed.iter().cloned().collect();
    if named != tops || listed.len() != tops.len() {
        let differing: Vec<_> = named.symmetric_difference(&tops).cloned().collect();
        return vec![format!("{path}: its layers are not its modules: {}", differing.join(", "))];
    }
    let place = |name: &str| listed.iter().position(|of| of == name);
    let mut up = tree.edges();
    // The root stands on all of them.
    up.retain(|(from, to), _| to == ROOT || place(from) > place(to));
    let edges = up.into_iter().map(|((from, to), places)| {
        let places: Vec<_> = places.into_iter().take(5).collect();
        format!("{path}: {from} takes from {to}, above it: {}", places.join(", "))
    });
    edges.collect()
}

/// The modules that a root's file lists; what stands behind a colon says what one is.
fn listed(code: &str) -> Vec<String> {
    let lines = code.lines().skip_while(|line| !line.starts_with(HEADING)).skip(1);
    let names = lines.map_while(|line| line.strip_prefix("//   ")).flat_map(|line| {
        let names = line.split(':').next().unwrap_or_default();
        names.split(',').map(|name| name.trim().to_owned())
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// One file with modules in it.
#[cfg(test)]
fn faults_in(modules: &str) -> Vec<String> {
    let path = Path::new("crates/example/src/lib.rs").to_owned();
    let code = format!("{HEADING}:\n//   high: what it is\n//   middle, low\n\n{modules}");
    faults_of(&Source { path: path.clone(), code: code.clone() }, &[Source { path, code }])
}

#[test]
fn an_edge_that_goes_up_is_found_however_it_is_written() {
    let faults = |high: &str, middle: &str, low: &str| {
        let with = |name: &str, code: &str| format!("mod {name} {{ {code} }}\n");
        let all = [with("high", high), with("middle", middle), with("low", low)].concat();
        faults_in(&format!("pub use middle::Shown;\n{all}fn here() {{}}"))
    };
    let high = "pub struct High; pub fn run() {} pub mod inner { pub struct Inner; }";
    let middle = "pub struct Shown;";
    assert_eq!(faults("use crate::middle::Shown; use crate::low::*;", middle, ""), [""; 0]);
    let up = [
        "use crate::high::High;",
        "use crate::{low, high::{self, inner::Inner as Other}};",
        "fn f() { crate::high::run(); }",
        "fn f() { vec![super::high::run()]; }",
        "use super::high; fn f() { high::run(); }",
        "mod below { use super::super::high::High; }",
        "use crate::Shown;",
        "use crate::*;",
        "fn f() { crate::here(); }",
    ];
    for low in up {
        assert!(!faults(high, middle, low).is_empty(), "{low}");
    }
    // Whatever takes it by way of a re-export takes it from where it is defined.
    let middle = "pub use crate::high::High as Shown; pub use crate::high::inner::*;";
    for low in ["use crate::middle::Shown;", "fn f(_: crate::middle::Inner) {}"] {
        let found = faults(high, middle, low).join("\n");
        assert!(found.contains("low takes from high"), "{low}: {found}");
    }
    let not = [
        "// use crate::high::High;\nfn f() -> &'static str { \"crate::high\" }",
        "#[cfg(test)] mod tests { use crate::high::High; }",
        "#[cfg(test)] #[path = \"x.rs\"] mod tests;",
        "use high::Other; use ::high::More;",
    ];
    for low in not {
        assert_eq!(faults(high, "pub struct Shown;", low), [""; 0], "{low}");
    }
}

#[test]
fn a_module_that_is_not_listed_is_a_fault() {
    let found = faults_in("mod high {}\nmod middle {}\nmod other {}\n#[cfg(test)]\nmod tests {}");
    assert_eq!(
        found,
        ["crates/example/src/lib.rs: its layers are not its modules: low, other"],
        "tests need no place"
    );
}
