//! Answers as tables that fit a terminal.

use std::io::{self, Write};

use serde_json::Value;

use crate::remote::Series;

/// How many blanks stand between columns.
const GAP: usize = 2;
/// What a column keeps when there is little room.
const COLUMN_CHARS_MIN: usize = 4;

/// Writes tables, one below the other.
pub struct Tables<'a> {
    out: &'a mut dyn Write,
    /// Characters of a line; `None` is without limit.
    width: Option<usize>,
    last: Option<Shape>,
}

/// The table last written.
struct Shape {
    statement: u64,
    /// The table without its rows.
    series: Series,
    columns: Vec<Column>,
}

#[derive(Clone, Copy)]
struct Column {
    chars: usize,
    /// Numbers stand at the right.
    right: bool,
}

impl<'a> Tables<'a> {
    /// Tables that are to be `width` characters wide at most.
    pub fn new(out: &'a mut dyn Write, width: Option<usize>) -> Self {
        Self { out, width, last: None }
    }

    /// Writes a table, or the rows that continue the last one.
    ///
    /// # Errors
    /// Those of writing.
    pub fn show(&mut self, statement: u64, series: &Series) -> io::Result<()> {
        let rows: Vec<Vec<String>> =
            series.values.iter().map(|row| row.iter().map(cell).collect()).collect();
        let shape = match self.last.take() {
            Some(last) if last.continued_by(statement, series) => last,
            last => {
                if last.is_some() {
                    writeln!(self.out)?;
                }
                let columns = fitted(measure(series, &rows), self.width);
                let head = Series { values: Vec::new(), ..series.clone() };
                let shape = Shape { statement, series: head, columns };
                self.head(&shape)?;
                shape
            }
        };
        for row in &rows {
            self.line(&shape.columns, row)?;
        }
        self.last =
            Some(Shape { series: Series { partial: series.partial, ..shape.series }, ..shape });
        Ok(())
    }

    fn head(&mut self, shape: &Shape) -> io::Result<()> {
        let Series { name, tags, columns, .. } = &shape.series;
        if !name.is_empty() {
            writeln!(self.out, "name: {}", plain(name))?;
        }
        if !tags.is_empty() {
            let tags: Vec<_> =
                tags.iter().map(|(key, value)| format!("{}={}", plain(key), cell(value))).collect();
            writeln!(self.out, "tags: {}", tags.join(", "))?;
        }
        let hidden = columns.len() - shape.columns.len();
        if hidden > 0 {
            writeln!(self.out, "({hidden} more columns do not fit; --format csv has them)")?;
        }
        let names: Vec<_> = columns.iter().map(|name| plain(name)).collect();
        self.line(&shape.columns, &names)?;
        let lines: Vec<_> = shape.columns.iter().map(|column| "-".repeat(column.chars)).collect();
        self.line(&shape.columns, &lines)
    }

    fn line(&mut self, columns: &[Column], cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
            if at > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = self.cut(cell, column.chars);
            let blanks = " ".repeat(column.chars.saturating_sub(cell.chars().count()));
            let (before, behind) =
                if column.right { (blanks.as_str(), "") } else { ("", &*blanks) };
            line.extend([before, &cell, behind]);
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    /// What fits; without a terminal everything does.
    fn cut(&self, cell: &str, chars: usize) -> String {
        if self.width.is_none() || cell.chars().count() <= chars {
            return cell.to_owned();
        }
        cell.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
    }
}

impl Shape {
    fn continued_by(&self, statement: u64, series: &Series) -> bool {
        self.series.partial
            && self.statement == statement
            && self.series.name == series.name
            && self.series.tags == series.tags
            && self.series.columns == series.columns
    }
}

/// The widths that all cells would have room in.
fn measure(series: &Series, rows: &[Vec<String>]) -> Vec<Column> {
    let of_column = |(at, name): (usize, &String)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        let chars = cells.max().unwrap_or(0).max(plain(name).chars().count());
        let mut values = series.values.iter().filter_map(|row| row.get(at));
        let right = values.any(Value::is_number)
            && series.values.iter().filter_map(|row| row.get(at)).all(|value| !value.is_string());
        Column { chars, right }
    };
    series.columns.iter().enumerate().map(of_column).collect()
}

/// The same with the widest columns cut until all fit, and those at the right that can't fit gone.
fn fitted(mut columns: Vec<Column>, width: Option<usize>) -> Vec<Column> {
    let Some(width) = width else { return columns };
    let least = |columns: &[Column]| -> usize {
        let chars = columns.iter().map(|column| column.chars.min(COLUMN_CHARS_MIN));
        chars.sum::<usize>() + GAP * columns.len().saturating_sub(1)
    };
    while columns.len() > 1 && least(&columns) > width {
        columns.pop();
    }
    let room = width.saturating_sub(GAP * columns.len().saturating_sub(1));
    // The largest width to which all may be cut.
    let fits =
        |most: usize| columns.iter().map(|column| column.chars.min(most)).sum::<usize>() <= room;
    let widest = columns.iter().map(|column| column.chars).max().unwrap_or(0);
    let most = (1..=widest).rev().find(|most| fits(*most)).unwrap_or(1);
    for column in &mut columns {
        column.chars = column.chars.min(most);
    }
    columns
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

/// Without what would move the terminal's cursor.
fn plain(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    let escape = |c: char| -> String {
        if c.is_control() { c.escape_default().collect() } else { c.to_string() }
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: Option<usize>, pieces: &[&str]) -> String {
        let mut out = Vec::new();
        let mut tables = Tables::new(&mut out, width);
        for piece in pieces {
            tables.show(0, &serde_json::from_str(piece).unwrap()).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    const HOSTS: &str = r#"{"name":"cpu","tags":{"host":"a"},"columns":["time","value","note"],
        "values":[["2024-01-01T00:00:00Z",1.5,"short"],["2024-01-01T00:00:10Z",200,null]]}"#;

    #[test]
    fn numbers_stand_at_the_right_and_nulls_are_empty() {
        let table = "\
name: cpu
tags: host=a
time                  value  note
--------------------  -----  -----
2024-01-01T00:00:00Z    1.5  short
2024-01-01T00:00:10Z    200
";
        assert_eq!(shown(None, &[HOSTS]), table);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_widest_columns_first() {
        let table = shown(Some(24), &[HOSTS]);
        assert!(table.lines().all(|line| line.chars().count() <= 24), "{table}");
        assert!(table.contains("2024-01-0…    1.5  short\n"), "{table}");
        let many = r#"{"columns":["a","b","c"],"values":[["xxxxxx","yyyyyy","zzzzzz"]]}"#;
        let table = shown(Some(11), &[many]);
        assert!(table.starts_with("(1 more columns do not fit"), "{table}");
        assert!(table.ends_with("xxx…  yyyy…\n") || table.ends_with("xxx…  yyy…\n"), "{table}");
    }

    #[test]
    fn pieces_of_one_series_are_one_table() {
        let first = r#"{"name":"m","columns":["time"],"values":[[1]],"partial":true}"#;
        let second = r#"{"name":"m","columns":["time"],"values":[[2]]}"#;
        let other = r#"{"name":"n","columns":["time"],"values":[[3]]}"#;
        let tables = shown(None, &[first, second, other]);
        assert_eq!(tables, "name: m\ntime\n----\n   1\n   2\n\nname: n\ntime\n----\n   3\n");
    }

    #[test]
    fn the_terminal_is_safe_from_what_is_shown() {
        let evil = r#"{"columns":["a"],"values":[["\u001b[2J\n"]]}"#;
        assert!(shown(None, &[evil]).contains("\\u{1b}[2J\\n"));
    }
}
