//! Reading a file into the tree of its crate's modules. Code that only tests have is left out.

use std::path::PathBuf;

use crate::items::{NameImport, PathUse, Tree};
use crate::modules;
use crate::source::Source;
use crate::tokens::{Placed, Token, tokens};

/// One file that is being read.
pub struct File<'a> {
    tree: &'a mut Tree,
    source: &'a Source,
    tokens: Vec<Placed>,
    at: usize,
    /// Braces that are open.
    depth: usize,
    /// The modules in whose braces it stands, with how many were open outside of each.
    within: Vec<(usize, usize)>,
    /// Files of modules that it names.
    files: Vec<(String, PathBuf)>,
    found: Vec<(usize, PathBuf)>,
    /// The item that begins is for others, too.
    is_public: bool,
}

impl<'a> File<'a> {
    /// The file of a module.
    pub fn new(tree: &'a mut Tree, module: usize, source: &'a Source) -> Self {
        let files = modules::modules(&source.path, &source.code);
        let (within, found) = (vec![(module, 0)], Vec::new());
        let tokens = tokens(&source.code);
        Self { tree, source, tokens, at: 0, depth: 0, within, files, found, is_public: false }
    }

    /// Reads it; gives the modules that have files of their own.
    pub fn read(mut self) -> Vec<(usize, PathBuf)> {
        while let Some((token, _)) = self.tokens.get(self.at).cloned() {
            match token {
                Token::Name(name) => self.name(&name),
                Token::Sign('#') if self.is_of_tests() => self.skip_item(),
                Token::Sign('{') => (self.depth, self.at) = (self.depth + 1, self.at + 1),
                Token::Sign('}') => self.close(),
                // A path from outside, or of what stands in angle brackets.
                Token::Path => drop(self.path()),
                Token::Sign(_) => self.at += 1,
            }
        }
        self.found
    }

    fn close(&mut self) {
        (self.depth, self.at) = (self.depth.saturating_sub(1), self.at + 1);
        if self.within.len() > 1 && self.within.last().is_some_and(|(_, of)| *of == self.depth) {
            self.within.pop();
        }
    }

    fn module(&self) -> usize {
        self.within.last().map_or(0, |(module, _)| *module)
    }

    fn sign(&self, at: usize) -> Option<char> {
        match self.tokens.get(at)?.0 {
            Token::Sign(sign) => Some(sign),
            _ => None,
        }
    }

    fn word(&self, at: usize) -> Option<&str> {
        match &self.tokens.get(at)?.0 {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }

    fn name(&mut self, name: &str) {
        let was_public = std::mem::take(&mut self.is_public);
        match name {
            "pub" => {
                self.at += 1;
                self.is_public = true;
                if self.sign(self.at) == Some('(') {
                    self.skip_to(')');
                }
            }
            "mod" if self.word(self.at + 1).is_some() => self.begin_module(),
            "use" if self.sign(self.at + 1) != Some('<') => {
                self.at += 1;
                self.take(&[], was_public);
            }
            _ => {
                self.define(name);
                let place = self.place();
                let path = self.path();
                if path.len() > 1 {
                    self.write(PathUse { path, place });
                }
            }
        }
    }

    fn place(&self) -> String {
        let line = self.tokens.get(self.at).map_or(0, |(_, line)| *line);
        format!("{}:{line}", self.source.path.display())
    }

    fn write(&mut self, written: PathUse) {
        let module = self.module();
        self.tree.0[module].written.push(written);
    }

    fn begin_module(&mut self) {
        let name = self.word(self.at + 1).unwrap_or_default().to_owned();
        let module = self.tree.module(self.module(), &name);
        if self.sign(self.at + 2) == Some('{') {
            self.within.push((module, self.depth));
        } else {
            let files = self.files.iter().filter(|(of, _)| *of == name);
            self.found.extend(files.map(|(_, path)| (module, path.clone())));
        }
        self.at += 2;
    }

    /// Takes note of the item that begins with this word, if one does.
    fn define(&mut self, keyword: &str) {
        let kinds = ["struct", "enum", "union", "trait", "type", "const", "static", "fn"];
        let (module, depth) = self.within.last().copied().unwrap_or_default();
        let inner = if self.within.len() > 1 { depth + 1 } else { depth };
        let is_macro = keyword == "macro_rules" && self.sign(self.at + 1) == Some('!');
        if self.depth != inner || !(kinds.contains(&keyword) || is_macro) {
            return;
        }
        let name = self.word(self.at + if is_macro { 2 } else { 1 }).unwrap_or_default();
        if !["fn", "mut", "unsafe", "extern", ""].contains(&name) {
            let name = name.to_owned();
            self.tree.0[module].items.insert(name);
        }
    }

    /// The path that stands here.
    fn path(&mut self) -> Vec<String> {
        let mut path: Vec<String> = self.word(self.at).map(str::to_owned).into_iter().collect();
        self.at += path.len();
        while self.tokens.get(self.at).is_some_and(|(token, _)| *token == Token::Path) {
            self.at += 1;
            let Some(name) = self.word(self.at).map(str::to_owned) else { break };
            path.push(name);
            self.at += 1;
        }
        path
    }

    /// A `use` item from here on, or what stands in its braces; `above` stands in front of it.
    fn take(&mut self, above: &[String], is_public: bool) {
        loop {
            let place = self.place();
            let mut path = above.to_vec();
            path.extend(self.path());
            match self.sign(self.at) {
                Some('{') => {
                    self.at += 1;
                    self.take(&path, is_public);
                    self.at += 1;
                }
                Some('*') => {
                    self.at += 1;
                    let module = self.module();
                    let taken = NameImport { path: path.clone(), is_public };
                    self.tree.0[module].globs.push(taken);
                    path.push("*".to_owned());
                    self.write(PathUse { path, place });
                }
                _ => self.take_one(path, is_public, place),
            }
            if self.sign(self.at) != Some(',') {
                return;
            }
            self.at += 1;
            if self.sign(self.at) == Some('}') {
                return;
            }
        }
    }

    fn take_one(&mut self, mut path: Vec<String>, is_public: bool, place: String) {
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.word(self.at) == Some("as") {
            name = self.word(self.at + 1).unwrap_or_default().to_owned();
            self.at += 2;
        }
        let module = self.module();
        let taken = NameImport { path: path.clone(), is_public };
        self.tree.0[module].taken.entry(name).or_default().push(taken);
        self.write(PathUse { path, place });
    }

    /// Whether what stands here is `#[cfg(test)]`.
    fn is_of_tests(&self) -> bool {
        self.sign(self.at + 1) == Some('[')
            && self.word(self.at + 2) == Some("cfg")
            && self.word(self.at + 4) == Some("test")
            && self.sign(self.at + 5) == Some(')')
    }

    /// Goes behind the item whose attributes begin here.
    fn skip_item(&mut self) {
        while self.sign(self.at) == Some('#') {
            self.skip_to(']');
        }
        let mut depth = 0;
        while let Some((token, _)) = self.tokens.get(self.at) {
            self.at += 1;
            match token {
                Token::Sign('{' | '(' | '[') => depth += 1,
                Token::Sign(')' | ']') => depth -= 1,
                Token::Sign('}') => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                Token::Sign(';') if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Goes behind the bracket that closes the next one.
    fn skip_to(&mut self, close: char) {
        let open = if close == ')' { '(' } else { '[' };
        let mut depth = 0;
        while let Some((token, _)) = self.tokens.get(self.at) {
            self.at += 1;
            match token {
                Token::Sign(sign) if *sign == open => depth += 1,
                Token::Sign(sign) if *sign == close && depth == 1 => return,
                Token::Sign(sign) if *sign == close => depth -= 1,
                _ => {}
            }
        }
    }
}
