//! The Markdown pages: what of them is prose, where their links lead, what can be linked to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::source::{root, texts};

pub struct Page {
    /// Where it is, from the root of the tree.
    pub path: PathBuf,
    text: String,
}

/// A link of a page.
pub struct Link {
    /// The line it is in.
    pub number: usize,
    /// What stands in its parentheses.
    pub target: String,
}

impl Page {
    /// Every page of the tree.
    pub fn all() -> Vec<Self> {
        let pages = texts().into_iter().filter(|(path, _)| is_page(path));
        pages.map(|(path, text)| Self { path, text }).collect()
    }

    /// The lines with their numbers, but for those in blocks of code.
    fn prose(&self) -> Vec<(usize, &str)> {
        let mut fenced = false;
        // A block without fences begins after an empty line; within a list such a line goes on.
        let mut may_begin = true;
        let mut in_list = false;
        let mut found = Vec::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            let words = line.trim_start();
            if words.starts_with("```") || words.starts_with("~~~") {
                fenced = !fenced;
                continue;
            }
            let indented = line.starts_with("    ") && may_begin && !in_list;
            if !fenced && !indented {
                found.push((number, line));
                may_begin = line.trim().is_empty();
                in_list = is_item(words) || (in_list && (may_begin || line.starts_with(' ')));
            }
        }
        found
    }

    /// Lines of prose of more than so many columns, with their numbers. A table's row can't be cut,
    /// nor can a link; a line is as long as what stands before its last link's target.
    pub fn long_lines(&self, columns_max: usize) -> Vec<(usize, usize)> {
        let prose =
            self.prose().into_iter().filter(|(_, line)| !line.trim_start().starts_with('|'));
        let measured = prose.map(|(number, line)| (number, line, without_targets(line)));
        measured
            .filter(|(_, _, columns)| *columns > columns_max)
            .map(|(number, line, _)| (number, line.chars().count()))
            .collect()
    }

    /// How many lines it has.
    pub fn length(&self) -> usize {
        self.text.lines().count()
    }

    /// The rows of the table below a heading, each with its cells.
    pub fn rows(&self, heading: &str) -> Vec<Vec<&str>> {
        let below = self.text.lines().skip_while(|line| *line != heading).skip(1);
        let section = below.take_while(|line| !line.starts_with("## "));
        let rows = section.filter(|line| line.starts_with('|')).skip(2);
        rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
    }

    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// What empty lines part.
    pub fn paragraphs(&self) -> Vec<&str> {
        self.text.split("\n\n").map(str::trim).collect()
    }

    /// The links, those to pictures and those of HTML included.
    pub fn links(&self) -> Vec<Link> {
        let mut found = Vec::new();
        for (number, line) in self.prose() {
            let line = without_code(line);
            for (begin, end) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')]
            {
                for (at, _) in line.match_indices(begin) {
                    let target = &line[at + begin.len()..];
                    let target = target.split(end).next().unwrap_or_default();
                    found.push(Link { number, target: target.trim().to_owned() });
                }
            }
            // [name]: where `[words][name]` leads.
            if let Some((name, target)) = line.split_once("]: ")
                && name.starts_with('[')
            {
                found.push(Link { number, target: target.trim().to_owned() });
            }
        }
        found
    }

    /// What can stand behind a `#`: the headings as GitHub makes anchors of them, and any `id`.
    fn anchors(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for (_, line) in self.prose() {
            let title = line.trim_start_matches('#');
            if title.len() < line.len() && title.starts_with(' ') {
                let anchor = anchor(title.trim());
                let before = times.entry(anchor.clone()).or_default();
                found.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
                *before += 1;
            }
            for (at, begin) in line.match_indices("id=\"") {
                let id = line[at + begin.len()..].split('"').next();
                found.insert(id.unwrap_or_default().to_owned());
            }
        }
        found
    }
}

/// Links that lead nowhere within the tree, in words. What is elsewhere is not asked for.
pub fn dead_links(pages: &[Page]) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages {
        for Link { number, target } in page.links() {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let at = format!("{}:{number}: {target}", page.path.display());
            let path = match file {
                "" => page.path.clone(),
                file => joined(page.path.parent().unwrap_or(Path::new("")), file),
            };
            if !root().join(&path).exists() {
                found.push(format!("{at}: there is no {}", path.display()));
            } else if !anchor.is_empty() && is_page(&path) {
                let there = pages.iter().find(|page| page.path == path);
                if !there.is_some_and(|page| page.anchors().contains(anchor)) {
                    found.push(format!("{at}: {} has no such heading", path.display()));
                }
            }
        }
    }
    found
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn is_item(words: &str) -> bool {
    let number = words.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| words.starts_with(mark))
        || (number.len() < words.len() && number.starts_with(". "))
}

/// The columns of a line without its links' targets.
fn without_targets(line: &str) -> usize {
    let mut columns = 0;
    let mut rest = line;
    while let Some((before, link)) = rest.split_once("](") {
        columns += before.chars().count() + "]()".len();
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    let bare = rest.split(' ').filter(|word| !word.contains("://"));
    columns + bare.map(|word| word.chars().count() + 1).sum::<usize>().saturating_sub(1)
}

/// The line with nothing in its code spans, which hold no links.
fn without_code(line: &str) -> String {
    let spans = line.split('`').enumerate();
    spans.map(|(at, part)| if at % 2 == 0 { part } else { "" }).collect::<Vec<_>>().join("`")
}

/// GitHub's anchor of a heading: small letters, digits, hyphens, underscores.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// `file` as `dir` sees it, without `..`.
fn joined(dir: &Path, file: &str) -> PathBuf {
    let mut path = dir.to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn a_block_of_code_a_table_and_a_link_may_be_long() {
        let long = "word ".repeat(30);
        let text = format!(
            "{long}\n\n    {long}\n\n```\n{long}\n```\n| {long} |\n\n- item\n\n    {long}\n\
             short [link](http://example.org/{})\n",
            "x".repeat(120)
        );
        let found = page("a.md", &text).long_lines(120);
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 12]);
    }

    #[test]
    fn a_link_leads_to_a_file_and_to_a_heading_of_it() {
        let there = page("docs/operating.md", "# `weir serve`, and more\n## Twice\n## Twice\n");
        let text = "[a](operating.md#weir-serve-and-more) [b](operating.md#twice-1) [c](../docs)\n\
                    `[no](link)` [d](https://example.org) [e](operating.md#thrice)\n\
                    <img src=\"nowhere.png\">\n";
        let found = dead_links(&[page("docs/x.md", text), there]);
        let expected = [
            "docs/x.md:2: operating.md#thrice: docs/operating.md has no such heading",
            "docs/x.md:3: nowhere.png: there is no docs/nowhere.png",
        ];
        assert_eq!(found, expected);
    }
}
