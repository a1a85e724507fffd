//! `bench/figures.jsonl` and `docs/figures.md` as files.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rig::places;

use super::{Record, page};
use crate::Outcome;

/// Where figures are kept: a file of lines, and the page that is made of them.
#[derive(Debug)]
pub struct Home {
    lines: PathBuf,
    page: PathBuf,
}

impl Home {
    /// In this file with a page of the same name beside it, or in those of the source tree.
    pub fn at(file: Option<PathBuf>) -> Self {
        match file {
            Some(lines) => Self { page: lines.with_extension("md"), lines },
            None => Self {
                lines: places::root().join("bench/figures.jsonl"),
                page: places::root().join("docs/figures.md"),
            },
        }
    }

    /// Adds lines behind those that are there.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn add(&self, records: &[Record]) -> Outcome<()> {
        let mut text = String::new();
        for record in records {
            text.push_str(&serde_json::to_string(record)?);
            text.push('\n');
        }
        let file = OpenOptions::new().create(true).append(true).open(&self.lines);
        let mut file = file.map_err(|error| told(&self.lines, "written", &error))?;
        file.write_all(text.as_bytes())?;
        Ok(())
    }

    /// All lines, in their order.
    ///
    /// # Errors
    /// When the file can't be read, or a line is not a record.
    pub fn records(&self) -> Outcome<Vec<Record>> {
        let text = std::fs::read_to_string(&self.lines);
        let text = text.map_err(|error| told(&self.lines, "read", &error))?;
        let record = |(number, line): (usize, &str)| {
            serde_json::from_str(line)
                .map_err(|error| format!("{}:{}: {error}", self.lines.display(), number + 1).into())
        };
        text.lines().enumerate().map(record).collect()
    }

    /// The page that the lines give.
    ///
    /// # Errors
    /// As [`Home::records`].
    pub fn page(&self) -> Outcome<String> {
        Ok(page::of(&self.records()?))
    }

    /// Writes that page.
    ///
    /// # Errors
    /// As [`Home::records`], or when the page can't be written.
    pub fn write_page(&self) -> Outcome<()> {
        let written = std::fs::write(&self.page, self.page()?);
        written.map_err(|error| told(&self.page, "written", &error))?;
        Ok(())
    }
}

fn told(file: &Path, what: &str, error: &std::io::Error) -> String {
    format!("{} can't be {what}: {error}", file.display())
}

#[cfg(test)]
mod tests {
    use super::Home;

    #[test]
    fn the_page_of_figures_is_what_the_lines_of_figures_give() {
        let home = Home::at(None);
        let page = std::fs::read_to_string(&home.page).unwrap_or_default();
        let is_same = page == home.page().unwrap();
        assert!(is_same, "`make docs` writes docs/figures.md anew");
    }

    #[test]
    fn a_run_is_added_behind_those_that_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(Some(dir.path().join("figures.jsonl")));
        let records = Home::at(None).records().unwrap();
        home.add(&records[..1]).unwrap();
        home.add(&records[..2]).unwrap();
        assert_eq!(home.records().unwrap(), [&records[..1], &records[..2]].concat());
    }

    #[test]
    fn a_line_that_is_no_figure_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lines = dir.path().join("figures.jsonl");
        std::fs::write(&lines, "{\"row\": 1}\n").unwrap();
        let error = Home::at(Some(lines)).records().unwrap_err().to_string();
        assert!(error.contains("figures.jsonl:1:"), "{error}");
    }
}
