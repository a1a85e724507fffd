//! What the rounds of a row say, as a table.

use std::fmt::Write as _;

use super::rounds::{Round, Sides};
use super::statistics::{Estimate, estimate};

/// Two copies of one program that differ by more leave nothing to be said of another.
const SAME: std::ops::RangeInclusive<f64> = 0.98..=1.02;

const HEAD: &str = "| row | figure | new/old | 95 % | old/old | 95 % | rounds | |\n\
                    |---|---|---|---|---|---|---|---|\n";

/// A table with a line for each row and figure, in the order in which the rows come.
pub fn table(rounds: &[Round]) -> String {
    let mut rows: Vec<&str> = Vec::new();
    for round in rounds {
        if !rows.contains(&round.row.as_str()) {
            rows.push(&round.row);
        }
    }
    let mut text = HEAD.to_owned();
    type Figure = (&'static str, fn(&Round) -> Sides);
    let figures: [Figure; 2] =
        [("requests/s", |round| round.per_second), ("CPU time a request", |round| round.cpu_us)];
    for row in rows {
        let of_row: Vec<&Round> = rounds.iter().filter(|round| round.row == row).collect();
        for (figure, of) in figures {
            let ratios = |of_sides: fn(&Sides) -> f64| -> Vec<f64> {
                of_row.iter().map(|round| of_sides(&of(round))).collect()
            };
            let new = estimate(&ratios(Sides::new_over_old));
            let old = estimate(&ratios(Sides::old_over_old));
            if let (Some(new), Some(old)) = (new, old) {
                let (rounds, said) = (of_row.len(), said(&old));
                let (new, old) = (shown(&new), shown(&old));
                let _ = writeln!(text, "| {row} | {figure} | {new} | {old} | {rounds} | {said} |");
            }
        }
    }
    text
}

fn shown(all: &Estimate) -> String {
    format!("{:.3} | {:.3} to {:.3}", all.median, all.low, all.high)
}

/// What is to be said where one program beside itself is not the same.
fn said(old_over_old: &Estimate) -> &'static str {
    if SAME.contains(&old_over_old.median) { "" } else { "void: this machine can't tell" }
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::beside::rounds::{Round, Sides};

    fn round(row: &str, per_second: [f64; 3], cpu_us: [f64; 3]) -> Round {
        let (per_second, cpu_us) = (Sides::of(per_second), Sides::of(cpu_us));
        Round { row: row.to_owned(), round: 0, order: [0, 1, 2], per_second, cpu_us }
    }

    #[test]
    fn a_row_says_what_the_new_one_costs() {
        let rounds = vec![round("select", [99.0, 100.0, 100.0], [10.3, 10.0, 10.0]); 3];
        let text = table(&rounds);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| select | requests/s | 0.990 | 0.990 to 0.990 | 1.000 | 1.000 to 1.000 | 3 |  |",
                "| select | CPU time a request | 1.030 | 1.030 to 1.030 | 1.000 | 1.000 to 1.000 \
                 | 3 |  |",
            ]
        );
    }

    #[test]
    fn where_two_copies_of_the_old_one_differ_nothing_is_said_of_the_new_one() {
        let void =
            |copy: f64| table(&[round("x", [100.0, 100.0, copy], [1.0; 3])]).contains("void");
        assert!(void(97.9) && void(102.1));
        assert!(!void(98.0) && !void(100.0) && !void(102.0));
    }

    #[test]
    fn rows_are_kept_apart() {
        let one = round("a", [1.0; 3], [1.0; 3]);
        let other = round("b", [2.0, 1.0, 1.0], [1.0; 3]);
        let text = table(&[one.clone(), other.clone(), one]);
        assert_eq!(text.lines().count(), 2 + 2 * 2);
        assert!(text.contains("| b | requests/s | 2.000 |"), "{text}");
    }
}
