//! `SELECT` (`parseSelectStatement` of `influxql/parser.go`).

use super::{Parser, unplaced};
use crate::influxql::ast::{
    Dimension, Expr, Field, Fill, Measurement, MeasurementName, Op, Select, TimeOffset,
};
use crate::influxql::reader::Result;
use crate::influxql::token::TokenKind;

/// Whether `INTO` must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Required,
    Optional,
}

/// `ORDER BY time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The oldest first, as where nothing is said.
    Ascending,
    Descending,
}

impl Parser<'_> {
    /// What follows the word `SELECT`.
    pub(super) fn select(&mut self, target: Target) -> Result<Select> {
        let fields = self.fields()?;
        let target = self.target(target)?;
        self.expect("FROM")?;
        let sources = self.sources(true)?;
        let condition = self.condition()?;
        let dimensions = self.dimensions()?;
        let fill = self.fill()?;
        let order = self.order()?;
        let limit = self.optional_count("LIMIT")?;
        let offset = self.optional_count("OFFSET")?;
        let series_limit = self.optional_count("SLIMIT")?;
        let series_offset = self.optional_count("SOFFSET")?;
        let timezone = self.timezone()?;
        Ok(Select {
            fields,
            target,
            sources,
            condition,
            dimensions: dimensions.into_iter().map(dimension).collect(),
            fill,
            descending: order == Some(Order::Descending),
            ordered: order.is_some(),
            limit,
            offset,
            series_limit,
            series_offset,
            timezone,
        })
    }

    fn fields(&mut self) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        loop {
            fields.push(self.field()?);
            if !self.scanner.scan().is(",") {
                self.unscan();
                return Ok(fields);
            }
        }
    }

    fn field(&mut self) -> Result<Field> {
        let expr = match self.regex()? {
            Some(regex) => Expr::Regex(regex),
            None => {
                let first = self.take();
                self.unscan();
                let expr = self.expression()?;
                if let Some(op) = condition_in(&expr) {
                    let (line, char) = self.scanner.place(&first);
                    return unplaced(&format!(
                        "invalid operator {op} in SELECT clause at line {line}, char {char}; \
                         operator is intended for WHERE clause"
                    ));
                }
                expr
            }
        };
        let alias = if self.accept("AS") { Some(self.ident()?) } else { None };
        self.skip_blanks();
        Ok(Field { expr, alias: alias.filter(|alias| !alias.is_empty()) })
    }

    fn target(&mut self, target: Target) -> Result<Option<Measurement>> {
        let next = self.take();
        if !next.is("INTO") {
            if target == Target::Required {
                return Err(self.unexpected(&next, &["INTO"]));
            }
            self.unscan();
            return Ok(None);
        }
        let mut names = self.segments()?;
        if names.len() < 3 && self.scanner.peek_char() == Some(':') {
            self.expect(":")?;
            self.expect("MEASUREMENT")?;
            names.push(String::new());
        }
        let mut names = names.into_iter().rev();
        let name = names.next().filter(|name| !name.is_empty());
        let name = name.map_or(MeasurementName::Same, MeasurementName::Name);
        let mut outer = names.map(|name| Some(name).filter(|name| !name.is_empty()));
        let policy = outer.next().flatten();
        Ok(Some(Measurement { db: outer.next().flatten(), policy, name }))
    }

    /// `WHERE`, if it is next.
    pub(super) fn condition(&mut self) -> Result<Option<Expr>> {
        if self.accept("WHERE") { self.expression().map(Some) } else { Ok(None) }
    }

    /// `GROUP BY`, if it is next; each as it stands.
    pub(super) fn dimensions(&mut self) -> Result<Vec<Expr>> {
        let mut dimensions = Vec::new();
        if !self.accept("GROUP") {
            return Ok(dimensions);
        }
        self.expect("BY")?;
        loop {
            match self.regex()? {
                Some(regex) => dimensions.push(Expr::Regex(regex)),
                None => {
                    dimensions.push(self.expression()?);
                    self.skip_blanks();
                }
            }
            if !self.scanner.scan().is(",") {
                self.unscan();
                return Ok(dimensions);
            }
        }
    }

    fn fill(&mut self) -> Result<Fill> {
        let Some(arguments) = self.clause("fill")? else { return Ok(Fill::default()) };
        let Some([argument]) = arguments.as_deref() else {
            return unplaced(match arguments {
                Some(_) => "fill requires an argument, e.g.: 0, null, none, previous, linear",
                None => "fill must be a function call",
            });
        };
        match argument {
            Expr::Integer(value) => Ok(Fill::Integer(*value)),
            Expr::Number(value) => Ok(Fill::Number(*value)),
            Expr::Reference { name, cast: None } => match name.as_str() {
                "null" => Ok(Fill::Null),
                "none" => Ok(Fill::None),
                "previous" => Ok(Fill::Previous),
                "linear" => Ok(Fill::Linear),
                _ => unplaced("expected number argument in fill()"),
            },
            _ => unplaced("expected number argument in fill()"),
        }
    }

    fn timezone(&mut self) -> Result<Option<String>> {
        let Some(arguments) = self.clause("tz")? else { return Ok(None) };
        match arguments.as_deref() {
            None => unplaced("tz must be a function call"),
            Some([Expr::String(name)]) => Ok(Some(name.clone())),
            Some([_]) => unplaced("expected string argument in tz()"),
            Some(_) => unplaced("tz requires exactly one argument"),
        }
    }

    /// The arguments of a clause that looks like a call, if it is next; `Some(None)` when it
    /// turns out to be something else.
    #[expect(clippy::option_option, reason = "absent, and present in a wrong form")]
    fn clause(&mut self, name: &str) -> Result<Option<Option<Vec<Expr>>>> {
        let next = self.take();
        self.unscan();
        if next.kind != TokenKind::Ident || !next.value.eq_ignore_ascii_case(name) {
            return Ok(None);
        }
        Ok(Some(match self.expression()? {
            Expr::Call { arguments, .. } => Some(arguments),
            _ => None,
        }))
    }

    /// `ORDER BY`, if it is next.
    pub(super) fn order(&mut self) -> Result<Option<Order>> {
        const ONLY_TIME: &str = "only ORDER BY time supported at this time";
        if !self.accept("ORDER") {
            return Ok(None);
        }
        self.expect("BY")?;
        let first = self.take();
        let order = match first.kind {
            TokenKind::Keyword("ASC") => Order::Ascending,
            TokenKind::Keyword("DESC") => Order::Descending,
            TokenKind::Ident => {
                let order = self.direction();
                if first.value != "time" {
                    return unplaced(ONLY_TIME);
                }
                order
            }
            _ => return Err(self.unexpected(&first, &["identifier", "ASC", "DESC"])),
        };
        let mut more = false;
        while self.accept(",") {
            self.ident()?;
            self.direction();
            more = true;
        }
        if more { unplaced(ONLY_TIME) } else { Ok(Some(order)) }
    }

    /// What `DESC` or `ASC` says, if it is next; the latter where nothing is said.
    fn direction(&mut self) -> Order {
        let next = self.take();
        if next.is("DESC") {
            return Order::Descending;
        }
        if !next.is("ASC") {
            self.unscan();
        }
        Order::Ascending
    }
}

/// The first operation in what is selected that only a condition may have.
fn condition_in(expr: &Expr) -> Option<Op> {
    match expr {
        Expr::Binary { op, left, right } => {
            let in_condition = !matches!(
                op,
                Op::Add
                    | Op::Subtract
                    | Op::BitwiseOr
                    | Op::BitwiseXor
                    | Op::Multiply
                    | Op::Divide
                    | Op::Modulo
                    | Op::BitwiseAnd
            );
            if in_condition {
                return Some(*op);
            }
            // The last one found is the one InfluxDB names.
            condition_in(right).or_else(|| condition_in(left))
        }
        Expr::Paren(inner) => condition_in(inner),
        Expr::Call { arguments, .. } => arguments.iter().rev().find_map(condition_in),
        _ => None,
    }
}

/// What one of `GROUP BY` means; what means nothing stays as it is, for whoever runs the query to
/// say so.
pub(super) fn dimension(expr: Expr) -> Dimension {
    match expr {
        Expr::Reference { name, .. } if !name.eq_ignore_ascii_case("time") => Dimension::Tag(name),
        Expr::Regex(regex) => Dimension::Regex(regex),
        Expr::Wildcard(kind) => Dimension::Wildcard(kind),
        Expr::Call { name, arguments } => match interval(&name, &arguments) {
            Some(time) => time,
            None => Dimension::Other(Expr::Call { name, arguments }),
        },
        other => Dimension::Other(other),
    }
}

/// `time(interval)` and `time(interval, offset)`.
fn interval(name: &str, arguments: &[Expr]) -> Option<Dimension> {
    let (interval_ns, offset) = match arguments {
        [Expr::Duration(interval_ns)] => (*interval_ns, TimeOffset::Duration(0)),
        [Expr::Duration(interval_ns), offset] => (*interval_ns, time_offset(offset)?),
        _ => return None,
    };
    (name == "time" && interval_ns > 0).then_some(Dimension::Time { interval_ns, offset })
}

fn time_offset(offset: &Expr) -> Option<TimeOffset> {
    match offset {
        Expr::Duration(offset_ns) => Some(TimeOffset::Duration(*offset_ns)),
        Expr::Call { name, arguments } if name == "now" && arguments.is_empty() => {
            Some(TimeOffset::Now)
        }
        _ => None,
    }
}
