//! A configuration in TOML under construction, as another program's is carried over.

use std::collections::BTreeMap;

/// How wide a comment may be.
const COLUMNS: usize = 96;

/// One table, with its keys and comments in their order.
#[derive(Debug, Default)]
pub struct Section {
    header: String,
    lines: Vec<String>,
}

/// What has been found so far.
#[derive(Debug)]
pub struct Draft {
    front: &'static str,
    opening: Vec<String>,
    above: Section,
    sections: Vec<Section>,
    left: Vec<String>,
    to_do: Vec<String>,
}

/// What another program's configuration has become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// The configuration in TOML.
    pub toml: String,
    /// What is to be done by hand before it serves everybody whom the other served.
    pub to_do: Vec<String>,
}

/// Whether a path lies where a service with `PrivateTmp` has files of its own.
pub fn is_in_tmp(path: &str) -> bool {
    ["/tmp", "/var/tmp"].iter().any(|tmp| {
        path.strip_prefix(tmp).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// A text in quotes, as TOML wants it.
pub fn text(value: &str) -> String {
    let mut quoted = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A list of texts.
pub fn texts<S: AsRef<str>>(values: &[S]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| text(value.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

/// A key, quoted where it must be.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { text(name) }
}

impl Section {
    /// Adds `key = value`; the value is TOML already.
    pub fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        self.lines.push(format!("{} = {value}", key(name)));
    }

    /// Adds `key = { pairs }`.
    pub fn set_table(&mut self, name: &str, pairs: &[(String, String)]) {
        let pairs = pairs.iter().map(|(name, value)| format!("{} = {}", key(name), text(value)));
        self.set(name, format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
    }

    /// Adds `key = { name = [texts] }`.
    pub fn set_lists(&mut self, name: &str, lists: &BTreeMap<String, Vec<String>>) {
        let pairs = lists.iter().map(|(name, list)| format!("{} = {}", key(name), texts(list)));
        self.set(name, format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
    }

    /// Adds a comment above the next key.
    pub fn note(&mut self, words: &str) {
        self.lines.extend(wrapped(words));
    }
}

impl Draft {
    /// Nothing yet but the front's own table, with comments before it.
    pub fn new(front: &'static str, opening: &[String]) -> Self {
        let main = Section { header: format!("[{front}]"), lines: Vec::new() };
        let above = Section::default();
        let (left, to_do) = (Vec::new(), Vec::new());
        Self { front, opening: opening.to_vec(), above, sections: vec![main], left, to_do }
    }

    /// The keys above all tables, which are for every front.
    pub fn above(&mut self) -> &mut Section {
        &mut self.above
    }

    /// The front's own table, or one below it, as `pool`.
    pub fn table(&mut self, below: &str) -> &mut Section {
        let header = match below {
            "" => format!("[{}]", self.front),
            below => format!("[{}.{below}]", self.front),
        };
        self.at(header, false)
    }

    /// A new element of the list `name` of the front's own table.
    pub fn element(&mut self, name: &str) -> &mut Section {
        self.at(format!("[[{}.{name}]]", self.front), true)
    }

    fn at(&mut self, header: String, anew: bool) -> &mut Section {
        let known = self.sections.iter().position(|section| !anew && section.header == header);
        let at = known.unwrap_or_else(|| {
            self.sections.push(Section { header, lines: Vec::new() });
            self.sections.len() - 1
        });
        &mut self.sections[at]
    }

    /// Something that is not carried over, with the reason.
    pub fn leave(&mut self, words: impl Into<String>) {
        self.left.push(words.into());
    }

    /// Something that is to be done by hand: without it some of those who were served are not.
    pub fn demand(&mut self, words: impl Into<String>) {
        let words = words.into();
        if !self.to_do.contains(&words) {
            self.to_do.push(words);
        }
    }

    /// The whole file, with what is to be done about it.
    pub fn finish(self) -> Conversion {
        Conversion { toml: self.render(), to_do: self.to_do }
    }

    /// Writes the whole file: what is to be done as comments at its top, what is left out as
    /// comments at its end.
    fn render(&self) -> String {
        let mut lines: Vec<String> = self.opening.iter().flat_map(|of| wrapped(of)).collect();
        list(&mut lines, "To do before it serves all whom the other served:", &self.to_do);
        if !self.above.lines.is_empty() {
            lines.push(String::new());
            lines.extend(self.above.lines.iter().cloned());
        }
        // Plain tables before lists of them, so that no key falls into the table above it.
        let (tables, lists): (Vec<_>, Vec<_>) =
            self.sections.iter().partition(|section| !section.header.starts_with("[["));
        for section in tables.into_iter().chain(lists) {
            lines.push(String::new());
            lines.push(section.header.clone());
            lines.extend(section.lines.iter().cloned());
        }
        list(&mut lines, "Not carried over:", &self.left);
        lines.join("\n") + "\n"
    }
}

/// A list in comments, where there is anything in it.
fn list(lines: &mut Vec<String>, title: &str, entries: &[String]) {
    if entries.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(format!("# {title}"));
    for entry in entries {
        let mut wrapped = wrapped(&format!("- {entry}")).into_iter();
        lines.extend(wrapped.next());
        lines.extend(wrapped.map(|line| line.replacen("# ", "#   ", 1)));
    }
}

/// A comment in lines that can be read.
fn wrapped(words: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::from("#");
    // A line break in a value must not end the comment.
    for word in words.split_whitespace() {
        if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut line, String::from("#")));
        }
        line.push(' ');
        line.extend(word.chars().map(|c| if c.is_control() { '?' } else { c }));
    }
    lines.push(line);
    lines
}
