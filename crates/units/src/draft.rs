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
        Self { front, opening: opening.to_vec(), above, sections: vec![main], left: Vec::new() }
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

    /// Writes the whole file, what is left out as comments at its end.
    pub fn render(&self) -> String {
        let mut lines: Vec<String> = self.opening.iter().flat_map(|of| wrapped(of)).collect();
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
        if !self.left.is_empty() {
            lines.push(String::new());
            lines.push("# Not carried over:".to_owned());
            for left in &self.left {
                let mut wrapped = wrapped(&format!("- {left}")).into_iter();
                lines.extend(wrapped.next());
                lines.extend(wrapped.map(|line| line.replacen("# ", "#   ", 1)));
            }
        }
        lines.join("\n") + "\n"
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
