//! A figure that was measured, what is wanted of it, and the table that is printed.

use std::fmt;

use crate::figures::{FigureTarget, Series};

/// What figures are in.
pub mod unit {
    /// One figure over another.
    pub const RATIO: &str = "ratio";
    pub const REQUESTS: &str = "requests/s";
    pub const STATEMENTS: &str = "statements/s";
    pub const COMMANDS: &str = "commands/s";
    pub const TRANSACTIONS: &str = "transactions/s";
    /// Lines of the line protocol a second.
    pub const LINES: &str = "lines/s";
    /// Rows into the store a second.
    pub const ROWS: &str = "rows/s";
    pub const POINTS: &str = "points";
    pub const MB: &str = "MB/s";
    pub const OF_10_000: &str = "of 10,000";
    pub const US: &str = "us";
    /// Microseconds of CPU time for a request or a statement.
    pub const CPU_US: &str = "us of CPU";
    /// Milliseconds.
    pub const MS: &str = "ms";
    /// Seconds.
    pub const SECONDS: &str = "s";
    /// Bytes.
    pub const BYTES: &str = "bytes";
    /// Hundredths of a whole.
    pub const PERCENT: &str = "%";
    /// Requests, however long that took.
    pub const REQUESTS_IN_ALL: &str = "requests";
    /// A kibibyte, which is 1,024 bytes.
    pub const KIB: &str = "KiB";
    /// A mebibyte, which is 1,048,576 bytes.
    pub const MIB: &str = "MiB";
}

/// What became of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is what it has to be, or misses that by 5 % at most.
    Reached,
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

impl Verdict {
    /// In a word, as `bench/figures.jsonl` has it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "missed",
            Self::NoPeer(_) => "no peer",
            Self::Void(_) => "void",
            Self::Failed(_) => "failed",
            Self::Beside => "beside",
        }
    }

    /// Why it is neither reached nor missed.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::NoPeer(why) | Self::Void(why) | Self::Failed(why) => Some(why),
            Self::Reached | Self::Missed | Self::Beside => None,
        }
    }
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

#[derive(Debug, Clone)]
pub struct Row {
    pub figure: String,
    pub value: Option<f64>,
    /// What it is in.
    pub unit: &'static str,
    /// What it has to be.
    pub wanted: Option<FigureTarget>,
    /// What became of it.
    pub verdict: Verdict,
    /// How many clients there were, where figures of a row differ in that.
    pub clients: Option<usize>,
    /// Every round of every way.
    pub series: Vec<Series>,
    /// Client CPU, disk, backlog and whatever else is worth a word; with `|` at the start, a line
    /// of a table.
    pub notes: Vec<String>,
    pub repeat: String,
}

impl Row {
    /// A figure that has to be something.
    pub fn judged(
        figure: impl Into<String>,
        value: f64,
        unit: &'static str,
        wanted: FigureTarget,
    ) -> Self {
        let verdict = match wanted.is_met(value) {
            _ if !value.is_finite() => Verdict::Failed("no figure".to_owned()),
            true => Verdict::Reached,
            false => Verdict::Missed,
        };
        Self { wanted: Some(wanted), verdict, ..Self::beside(figure, value, unit) }
    }

    /// A figure of which nothing is asked.
    pub fn beside(figure: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let value = Some(value).filter(|value| value.is_finite());
        let row = Self::empty(figure, Verdict::Beside);
        Self { value, unit, ..row }
    }

    pub fn notes_on(figure: impl Into<String>, notes: Vec<String>) -> Self {
        Self { notes, ..Self::empty(figure, Verdict::Beside) }
    }

    /// A row whose peer is absent.
    pub fn no_peer(figure: impl Into<String>, why: impl Into<String>) -> Self {
        Self::empty(figure, Verdict::NoPeer(why.into()))
    }

    /// A row that could not be measured.
    pub fn failed(figure: impl Into<String>, why: &str) -> Self {
        Self::empty(figure, Verdict::Failed(why.replace('\n', " ")))
    }

    fn empty(figure: impl Into<String>, verdict: Verdict) -> Self {
        Self {
            figure: figure.into(),
            value: None,
            unit: unit::RATIO,
            wanted: None,
            verdict,
            clients: None,
            series: Vec::new(),
            notes: Vec::new(),
            repeat: String::new(),
        }
    }

    /// The same with the rounds that it comes from.
    #[must_use]
    pub fn of(mut self, series: Vec<Series>) -> Self {
        self.series = series;
        self
    }

    /// The same with notes.
    #[must_use]
    pub fn noted(mut self, notes: Vec<String>) -> Self {
        self.notes = notes;
        self
    }

    /// The same with what repeats it.
    #[must_use]
    pub fn repeat(mut self, command: impl Into<String>) -> Self {
        self.repeat = command.into();
        self
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

/// A figure with its unit, in so many digits as mean something.
pub fn shown(value: f64, unit: &str) -> String {
    let digits = |value: f64| match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    match unit {
        unit::RATIO => digits(value),
        _ if unit.ends_with("/s") && value >= 999_500.0 => format!("{} M", digits(value / 1e6)),
        _ if unit.ends_with("/s") && value >= 10_000.0 => format!("{:.1} k", value / 1e3),
        _ if unit.ends_with("/s") => format!("{value:.0}"),
        _ => format!("{} {unit}", digits(value)),
    }
}

/// All rows, as Markdown.
#[derive(Debug, Default)]
pub struct Table(Vec<Row>);

impl Table {
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
            let Row { figure, value, unit, wanted, verdict, .. } = row;
            let measured = value.map_or_else(|| "-".to_owned(), |value| shown(value, unit));
            let wanted = wanted.map_or_else(|| "-".to_owned(), |wanted| wanted.shown(unit));
            writeln!(f, "| {figure} | {measured} | {wanted} | {verdict} |")?;
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

/// The middle of some figures, or of the two in the middle; 0 of none.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.wrapping_sub(1)), at(half)) }
}

#[cfg(test)]
mod tests {
    use super::{Row, Verdict, median, shown, unit};
    use crate::figures::FigureTarget;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn figures_have_as_many_digits_as_mean_something() {
        assert_eq!(shown(0.894, unit::RATIO), "0.89");
        assert_eq!(shown(27.31, unit::RATIO), "27.3");
        assert_eq!(shown(2336.4, unit::RATIO), "2336");
        assert_eq!(shown(47_123.0, unit::STATEMENTS), "47.1 k");
        assert_eq!(shown(17.2e6, unit::LINES), "17.2 M");
        assert_eq!(shown(7.31, unit::KIB), "7.31 KiB");
    }

    #[test]
    fn a_figure_is_judged_by_what_is_wanted_of_it() {
        let least = FigureTarget::at_least(0.8, 1.0);
        let row = |value| Row::judged("x", value, unit::RATIO, least).verdict;
        assert_eq!(row(0.8), Verdict::Reached);
        assert_eq!(row(0.77), Verdict::Reached, "a miss within 5 % is none");
        assert_eq!(row(0.75), Verdict::Missed);
        assert!(matches!(row(f64::NAN), Verdict::Failed(_)));
        let most = Row::judged("x", 9.0, unit::KIB, FigureTarget::at_most(8.0, 4.0));
        assert_eq!(most.verdict, Verdict::Missed);
        let whole = |value| Row::judged("x", value, unit::RATIO, FigureTarget::whole()).verdict;
        assert_eq!((whole(1.0), whole(0.9999)), (Verdict::Reached, Verdict::Missed));
    }
}
