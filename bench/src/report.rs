//! The table that is printed.

use std::fmt;

/// What became of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is what it has to be.
    Reached,
    /// It is not.
    Missed,
    /// There is nothing to compare with, and why.
    NoPeer(String),
    /// The measurement means nothing, and why.
    Void(String),
    /// Something went wrong, and what.
    Failed(String),
    /// Printed beside the others; nothing is asked of it.
    Beside,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached => f.write_str("reached"),
            Self::Missed => f.write_str("MISSED"),
            Self::NoPeer(why) => write!(f, "no peer: {why}"),
            Self::Void(why) => write!(f, "VOID: {why}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::Beside => f.write_str("-"),
        }
    }
}

/// One figure.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is.
    pub figure: String,
    /// What was measured, with its parts.
    pub measured: String,
    /// What it has to be.
    pub to_reach: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Client CPU, disk, backlog and whatever else is worth a word; with `|` at the start, a line
    /// of a table.
    pub notes: Vec<String>,
    /// The commands.
    pub repeat: String,
}

impl Row {
    /// A row that could not be measured.
    pub fn failed(figure: &str, why: &str) -> Self {
        Self {
            figure: figure.to_owned(),
            measured: "-".to_owned(),
            to_reach: "-".to_owned(),
            verdict: Verdict::Failed(why.replace('\n', " ")),
            notes: Vec::new(),
            repeat: String::new(),
        }
    }

    /// The same with what makes it worthless instead of its verdict, where there is anything.
    #[must_use]
    pub fn unless(mut self, worthless: Option<Verdict>) -> Self {
        if let Some(verdict) = worthless {
            self.verdict = verdict;
        }
        self
    }
}

/// Whether a figure that should be at least `least` is.
pub fn at_least(measured: f64, least: f64) -> Verdict {
    if measured >= least { Verdict::Reached } else { Verdict::Missed }
}

/// Whether a figure that should be at most `most` is.
pub fn at_most(measured: f64, most: f64) -> Verdict {
    if measured <= most { Verdict::Reached } else { Verdict::Missed }
}

/// All rows, as Markdown.
#[derive(Debug, Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// Adds rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.0.extend(rows);
    }

    /// Whether nothing was missed, void or failed.
    pub fn all_reached(&self) -> bool {
        let bad = |row: &Row| {
            matches!(row.verdict, Verdict::Missed | Verdict::Void(_) | Verdict::Failed(_))
        };
        !self.0.iter().any(bad)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| figure | measured | to reach | verdict |")?;
        writeln!(f, "|---|---|---|---|")?;
        for row in &self.0 {
            let Row { figure, measured, to_reach, verdict, .. } = row;
            writeln!(f, "| {figure} | {measured} | {to_reach} | {verdict} |")?;
        }
        for row in self.0.iter().filter(|row| !row.notes.is_empty() || !row.repeat.is_empty()) {
            writeln!(f, "\n**{}**", row.figure)?;
            for note in &row.notes {
                let point = if note.starts_with('|') { "" } else { "- " };
                writeln!(f, "{point}{note}")?;
            }
            if !row.repeat.is_empty() {
                writeln!(f, "- to repeat: `{}`", row.repeat)?;
            }
        }
        Ok(())
    }
}

/// The middle of some figures; 0 of none.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
