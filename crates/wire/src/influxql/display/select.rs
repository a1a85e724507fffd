//! `SELECT` and what it is made of, as text.

use std::fmt::{Display, Formatter, Result};

use super::{Name, Number, clause, count, list};
use crate::influxql::ast::{
    Dimension, Expr, Field, Fill, Measurement, MeasurementName, Select, Source, TimeOffset,
};
use crate::influxql::duration;
use crate::influxql::{quote_string, time};

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SELECT ")?;
        super::List(&self.fields).fmt(f)?;
        clause(f, "INTO", self.target.as_ref())?;
        list(f, "FROM", &self.sources)?;
        clause(f, "WHERE", self.condition.as_ref())?;
        list(f, "GROUP BY", &self.dimensions)?;
        match self.fill {
            Fill::Null => {}
            Fill::None => f.write_str(" fill(none)")?,
            Fill::Previous => f.write_str(" fill(previous)")?,
            Fill::Linear => f.write_str(" fill(linear)")?,
            Fill::Integer(value) => write!(f, " fill({value})")?,
            Fill::Number(value) => write!(f, " fill({})", Number(value))?,
        }
        match (self.ordered, self.descending) {
            (_, true) => f.write_str(" ORDER BY time DESC")?,
            (true, false) => f.write_str(" ORDER BY time ASC")?,
            (false, false) => {}
        }
        count(f, "LIMIT", self.limit)?;
        count(f, "OFFSET", self.offset)?;
        count(f, "SLIMIT", self.series_limit)?;
        count(f, "SOFFSET", self.series_offset)?;
        match &self.timezone {
            Some(zone) => write!(f, " TZ({})", quote_string(zone)),
            None => Ok(()),
        }
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.expr.fmt(f)?;
        clause(f, "AS", self.alias.as_deref().map(Name))
    }
}

impl Display for Dimension {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Tag(name) => Name(name).fmt(f),
            Self::Regex(regex) => regex.fmt(f),
            Self::Wildcard(kind) => Expr::Wildcard(*kind).fmt(f),
            Self::Time { interval_ns, offset } => {
                write!(f, "time({}", duration::format(*interval_ns))?;
                match offset {
                    TimeOffset::Duration(0) => f.write_str(")"),
                    TimeOffset::Duration(by_ns) => write!(f, ", {})", duration::format(*by_ns)),
                    TimeOffset::Time(time_ns) => {
                        write!(f, ", '{}')", time::rfc3339_short(*time_ns))
                    }
                    TimeOffset::Now => f.write_str(", now())"),
                }
            }
            Self::Other(expr) => expr.fmt(f),
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Measurement(measurement) => measurement.fmt(f),
            Self::Subquery(select) => write!(f, "({select})"),
        }
    }
}

impl Display for Measurement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(db) = &self.db {
            write!(f, "{}.", Name(db))?;
        }
        if let Some(policy) = &self.policy {
            Name(policy).fmt(f)?;
        }
        if self.db.is_some() || self.policy.is_some() {
            f.write_str(".")?;
        }
        match &self.name {
            MeasurementName::Name(name) => Name(name).fmt(f),
            MeasurementName::Regex(regex) => regex.fmt(f),
            MeasurementName::Same => f.write_str(":MEASUREMENT"),
        }
    }
}
