//! Columns as wide as what is in them.

use std::fmt;

/// Writes rows below their head: the first `left` columns to the left, as names are, the others to
/// the right, as numbers are. `below` may add a line to a row, by its number.
pub fn write(
    f: &mut fmt::Formatter<'_>,
    head: &[&str],
    rows: &[Vec<String>],
    left: usize,
    below: impl Fn(usize) -> Option<String>,
) -> fmt::Result {
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, name)| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).chain([name.len()]).max().unwrap_or_default()
        })
        .collect();
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    line(f, &head, &widths, left)?;
    for (number, row) in rows.iter().enumerate() {
        line(f, row, &widths, left)?;
        if let Some(words) = below(number) {
            writeln!(f, "  {words}")?;
        }
    }
    Ok(())
}

fn line(
    f: &mut fmt::Formatter<'_>,
    cells: &[String],
    widths: &[usize],
    left: usize,
) -> fmt::Result {
    let mut text = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            text.push_str("  ");
        }
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        if column < left {
            text.extend([cell.as_str(), &padding]);
        } else {
            text.extend([padding.as_str(), cell]);
        }
    }
    writeln!(f, "{}", text.trim_end())
}
