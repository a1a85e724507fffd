//! Which modules stand on which. Each crate's root file lists its top modules from the top down, in
//! a comment that begins with [`HEADING`]: a module takes only from those behind it. The file of
//! any other module may list what stands in it in the same way.
//!
//! Items of the listing file itself stand above its modules, unless the list names [`OWN`].

use std::collections::BTreeSet;
use std::path::Path;

use crate::items::{OWN, Tree};
use crate::source::Source;

const HEADING: &str = "// Layers, from the top down";

/// Rooms in which modules stand in circles, and how many of their edges go up: modules that list
/// their own, as `store/query`. A crate is none. A number may only fall.
const GOING_UP: [(&str, usize); 6] = [
    ("influx/front", 10),
    ("meter/engine", 9),
    ("meter/http", 2),
    ("store/query", 2),
    ("store/query/select", 5),
    ("wire/influxql", 3),
];

/// Rooms without circles whose lists are not to go.
const LISTED: [&str; 3] = ["influx/delivery", "influx/placement", "journal/log"];

/// What is wrong with the layers of any crate.
pub fn faults() -> Vec<String> {
    let sources = Source::all();
    let mut faults = Vec::new();
    let mut rooms = BTreeSet::new();
    for root in sources.iter().filter(|source| is_root(&source.path)) {
        let tree = Tree::read(&root.path, &sources);
        faults.extend(faults_of(&tree, 0, root));
        rooms.insert(name_of(&root.path));
        let src = root.path.parent().unwrap_or(Path::new(""));
        let inner = sources.iter().filter(|source| {
            source.path.starts_with(src) && source.path != root.path && lists(&source.code)
        });
        for source in inner {
            rooms.insert(name_of(&source.path));
            match tree.find(&names_of(&source.path)) {
                Some(room) => faults.extend(faults_of(&tree, room, source)),
                None => faults.push(format!("{}: it is no module", source.path.display())),
            }
        }
    }
    let kept = GOING_UP.iter().map(|(room, _)| *room).chain(LISTED);
    let gone = kept.filter(|room| !rooms.contains(*room));
    faults.extend(gone.map(|room| format!("{room} lists no layers any more")));
    let crates = GOING_UP.iter().filter(|(room, _)| !room.contains('/'));
    faults.extend(crates.map(|(room, _)| format!("{room} is a crate: none of its edges goes up")));
    faults
}

fn is_root(path: &Path) -> bool {
    let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    matches!(&names[..], [dir, _, src, file]
        if dir == "crates" && src == "src" && (file == "lib.rs" || file == "main.rs"))
}

/// What the modules of one room do wrong, which `source` lists.
fn faults_of(tree: &Tree, room: usize, source: &Source) -> Vec<String> {
    let (modules, listed) = (tree.modules_of(room), listed(&source.code));
    let path = source.path.display();
    // One module has nothing to stand on.
    if modules.len() < 2 {
        return Vec::new();
    }
    let named: BTreeSet<String> = listed.iter().filter(|name| *name != OWN).cloned().collect();
    let times = |name: &String| listed.iter().filter(|of| *of == name).count();
    if named != modules || listed.iter().any(|name| times(name) > 1) {
        let differing: Vec<_> = named.symmetric_difference(&modules).cloned().collect();
        return vec![format!("{path}: its layers are not its modules: {}", differing.join(", "))];
    }
    let place = |name: &str| listed.iter().position(|of| of == name);
    let mut up = tree.edges(room);
    // What is not listed, the file itself, stands on all of them.
    up.retain(|(from, to), _| {
        place(from).is_some() && place(to).is_none_or(|to| place(from) > Some(to))
    });
    let allowed = GOING_UP.iter().find(|(name, _)| *name == name_of(&source.path));
    let allowed = allowed.map_or(0, |(_, allowed)| *allowed);
    match up.len() {
        found if found == allowed => Vec::new(),
        found if found < allowed => {
            vec![format!("{path}: only {found} edges go up: write that into tests/tidy/layers.rs")]
        }
        found => {
            let edges = up.into_iter().map(|((from, to), places)| {
                let places: Vec<_> = places.into_iter().take(5).collect();
                format!("{path}: {from} takes from {to}, above it: {}", places.join(", "))
            });
            let sum = format!("{path}: {found} edges go up, of {allowed} at most");
            std::iter::once(sum).chain(edges).collect()
        }
    }
}

/// The names of the modules from a crate's root to that of a file.
fn names_of(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        path.with_extension("").iter().skip(3).map(|name| name.to_string_lossy().into()).collect();
    if names.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        names.pop();
    }
    names
}

/// As `GOING_UP` names a room: `store/query` for `crates/store/src/query/mod.rs`.
fn name_of(path: &Path) -> String {
    let name = path.iter().nth(1).unwrap_or_default().to_string_lossy().into_owned();
    std::iter::once(name).chain(names_of(path)).collect::<Vec<_>>().join("/")
}

fn lists(code: &str) -> bool {
    code.lines().any(|line| line.starts_with(HEADING))
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
    let source =
        listing("crates/example/src/lib.rs", "high: what it is\n//   middle, low", modules);
    faults_of(&read(&source.path, &source.code), 0, &source)
}

/// The same modules within another one, whose own file has `items`.
#[cfg(test)]
fn faults_in_room(list: &str, items: &str, modules: &str) -> Vec<String> {
    let code = format!("pub struct Root; mod beside;\nmod room {{ {items} {modules} }}");
    let tree = read(Path::new("crates/example/src/lib.rs"), &code);
    let room = tree.find(&["room".to_owned()]).unwrap();
    faults_of(&tree, room, &listing("crates/example/src/room/mod.rs", list, modules))
}

#[cfg(test)]
fn read(path: &Path, code: &str) -> Tree {
    Tree::read(path, &[Source { path: path.to_owned(), code: code.to_owned() }])
}

#[cfg(test)]
fn listing(path: &str, list: &str, modules: &str) -> Source {
    Source { path: path.into(), code: format!("{HEADING}:\n//   {list}\n\n{modules}") }
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

#[test]
fn modules_within_a_module_have_layers_of_their_own() {
    let modules = |high: &str, low: &str| format!("mod high {{ {high} }} mod low {{ {low} }}");
    let item = "pub struct Item;";
    let faults = |list, high, low| faults_in_room(list, item, &modules(high, low));
    assert_eq!(faults("high, low", "use super::low::Low;", "pub struct Low;"), [""; 0]);
    assert_eq!(faults("high, low", "use crate::Root;", "use crate::Root;"), [""; 0], "outside");
    for low in ["use super::high::High;", "use crate::room::high::High;", "use super::Item;"] {
        assert!(!faults("high, low", "pub struct High;", low).is_empty(), "{low}");
    }
    // The file's own items have the place that the list gives them.
    assert_eq!(faults("high, self, low", "use super::Item;", ""), [""; 0]);
    assert!(!faults("high, self, low", "", "use super::Item;").is_empty());
    let takes = |list| faults_in_room(list, "use self::low::Low;", &modules("", "pub struct Low;"));
    assert_eq!(takes("high, low"), [""; 0]);
    assert_eq!(takes("self, high, low"), [""; 0]);
    assert!(!takes("high, low, self").is_empty());
    let found = faults("high, self", "", "");
    assert_eq!(found, ["crates/example/src/room/mod.rs: its layers are not its modules: low"]);
}
