//! A crate's modules as the compiler sees them: what each defines, what it takes, and where a path
//! in its code leads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::reading::File;
use crate::source::Source;

/// What defines an item that stands in the own file of the module whose modules are looked at.
pub const OWN: &str = "self";

/// Longer paths lead nowhere.
const NAMES_MAX: usize = 12;

/// For each module of a room another one that its code leads to, and where it does.
pub type Edges = BTreeMap<(String, String), BTreeSet<String>>;

/// One module, whether in a file of its own or not.
#[derive(Default)]
pub struct Module {
    /// The names from the crate's root to it.
    pub names: Vec<String>,
    /// In which it stands; the root in itself.
    pub parent: usize,
    /// Those that stand in it.
    pub modules: BTreeMap<String, usize>,
    /// What else is defined in it.
    pub items: BTreeSet<String>,
    /// What its `use` items say, and under which name.
    pub taken: BTreeMap<String, Vec<NameImport>>,
    /// Modules of which it takes everything.
    pub globs: Vec<NameImport>,
    /// All paths in its code, those of `use` items too.
    pub written: Vec<PathUse>,
}

/// What a name is another name for.
#[derive(Clone)]
pub struct NameImport {
    /// As it is written.
    pub path: Vec<String>,
    /// Others can take it from here.
    pub is_public: bool,
}

/// A path in the code.
pub struct PathUse {
    /// As it is written; everything of the module where the last name is `*`.
    pub path: Vec<String>,
    /// Where the path stands, as `file:line`.
    pub place: String,
}

/// The modules of one crate, its root first.
pub struct Tree(pub Vec<Module>);

/// What has been seen on the way of a path.
#[derive(Default, Clone)]
struct PathTrace {
    /// Modules that it leads into or through.
    passed: BTreeSet<usize>,
    /// Modules whose own items it leads to.
    definers: BTreeSet<usize>,
    seen: BTreeSet<(usize, Vec<String>)>,
}

impl Tree {
    /// Reads a crate from its root's file on.
    pub fn read(root: &Path, sources: &[Source]) -> Self {
        let mut tree = Self(vec![Module::default()]);
        let mut waiting: Vec<(usize, PathBuf)> = vec![(0, root.to_owned())];
        while let Some((module, path)) = waiting.pop() {
            if let Some(source) = sources.iter().find(|source| source.path == path) {
                waiting.extend(File::new(&mut tree, module, source).read());
            }
        }
        tree
    }

    /// The module of that name in another one.
    pub fn module(&mut self, parent: usize, name: &str) -> usize {
        if let Some(known) = self.0[parent].modules.get(name) {
            return *known;
        }
        let (number, mut names) = (self.0.len(), self.0[parent].names.clone());
        names.push(name.to_owned());
        self.0.push(Module { names, parent, ..Module::default() });
        self.0[parent].modules.insert(name.to_owned(), number);
        number
    }

    /// The names of the modules that stand in a room: in the root, or in another module.
    pub fn modules_of(&self, room: usize) -> BTreeSet<String> {
        self.0[room].modules.keys().cloned().collect()
    }

    /// The module with these names from the root to it.
    pub fn find(&self, names: &[String]) -> Option<usize> {
        self.0.iter().position(|module| module.names == names)
    }

    /// What each module of a room takes from the others, by `use` or by a path.
    pub fn edges(&self, room: usize) -> Edges {
        let mut edges = Edges::new();
        for (number, module) in self.0.iter().enumerate() {
            let Some(from) = self.within(room, number) else { continue };
            for PathUse { path, place } in &module.written {
                let mut way = PathTrace::default();
                match path.split_last() {
                    Some((last, of)) if last == "*" => self.follow_all(number, of, &mut way),
                    _ => drop(self.follow(number, path, &mut way)),
                }
                let passed = way.passed.into_iter().filter(|passed| *passed != room);
                let mut takes: BTreeSet<_> =
                    passed.filter_map(|passed| self.within(room, passed)).collect();
                if way.definers.contains(&room) {
                    takes.insert(OWN);
                }
                takes.remove(from);
                for to in takes {
                    let edge = (from.to_owned(), to.to_owned());
                    edges.entry(edge).or_default().insert(place.clone());
                }
            }
        }
        edges
    }

    /// In which module of a room another one stands; [`OWN`] for the room itself.
    fn within(&self, room: usize, module: usize) -> Option<&str> {
        let names = self.0[module].names.strip_prefix(self.0[room].names.as_slice())?;
        Some(names.first().map_or(OWN, String::as_str))
    }

    /// Follows a path that stands in `module` to where what it names is defined, by way of all
    /// that is taken from elsewhere. Gives the module, where it names one.
    fn follow(&self, module: usize, path: &[String], way: &mut PathTrace) -> Option<usize> {
        // A crate whose name is that of something in it leads in a circle.
        if path.len() > NAMES_MAX || !way.seen.insert((module, path.to_vec())) {
            return None;
        }
        let mut from = module;
        let mut rest = path;
        while let Some((first, further)) = rest.split_first() {
            match first.as_str() {
                "crate" => from = 0,
                "self" => {}
                "super" => from = self.0[from].parent,
                _ => break,
            }
            rest = further;
        }
        self.walk(from, rest, way)
    }

    fn walk(&self, module: usize, path: &[String], way: &mut PathTrace) -> Option<usize> {
        let here = &self.0[module];
        way.passed.insert(module);
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        if let Some(below) = here.modules.get(first) {
            return self.walk(*below, rest, way);
        }
        if here.items.contains(first) {
            way.definers.insert(module);
            return None;
        }
        if let Some(taken) = here.taken.get(first) {
            let mut led = None;
            for taken in taken {
                let further: Vec<String> = taken.path.iter().chain(rest).cloned().collect();
                led = self.follow(module, &further, way).or(led);
            }
            return led;
        }
        for glob in &here.globs {
            let of = self.follow(module, &glob.path, &mut way.clone());
            let Some(of) = of.filter(|of| *of != module && self.has(*of, first, way)) else {
                continue;
            };
            if way.seen.insert((of, path.to_vec())) {
                return self.walk(of, path, way);
            }
        }
        None
    }

    /// Everything of a module is taken: what it shows of others is, too.
    fn follow_all(&self, module: usize, path: &[String], way: &mut PathTrace) {
        let Some(of) = self.follow(module, path, way) else { return };
        if !self.0[of].items.is_empty() {
            way.definers.insert(of);
        }
        let taken = self.0[of].taken.values().flatten().chain(&self.0[of].globs);
        for shown in taken.filter(|taken| taken.is_public) {
            self.follow(of, &shown.path, way);
        }
    }

    /// Whether a module has something of that name, by itself or from another one.
    fn has(&self, module: usize, name: &str, way: &PathTrace) -> bool {
        let (mut waiting, mut seen) = (vec![module], BTreeSet::new());
        while let Some(module) = waiting.pop() {
            let of = &self.0[module];
            if of.modules.contains_key(name)
                || of.items.contains(name)
                || of.taken.contains_key(name)
            {
                return true;
            }
            if seen.insert(module) {
                let globs = of.globs.iter();
                waiting.extend(
                    globs.filter_map(|glob| self.follow(module, &glob.path, &mut way.clone())),
                );
            }
        }
        false
    }
}
