//! What a statement reads from (`parseSources` of `influxql/parser.go`).

use super::Parser;
use super::select::Target;
use crate::influxql::ast::{Measurement, MeasurementName, Source};
use crate::influxql::reader::Result;

impl Parser<'_> {
    /// What follows the word `FROM`.
    pub(super) fn sources(&mut self, subqueries: bool) -> Result<Vec<Source>> {
        let mut sources = vec![self.source(subqueries)?];
        while self.accept(",") {
            sources.push(self.source(subqueries)?);
        }
        Ok(sources)
    }

    /// `FROM` and what follows, if it is next; without sub-queries.
    pub(super) fn optional_sources(&mut self) -> Result<Vec<Source>> {
        if self.accept("FROM") { self.sources(false) } else { Ok(Vec::new()) }
    }

    pub(super) fn source(&mut self, subqueries: bool) -> Result<Source> {
        if let Some(regex) = self.regex()? {
            let name = MeasurementName::Regex(regex);
            return Ok(Source::Measurement(Measurement { db: None, policy: None, name }));
        }
        if subqueries && self.accept("(") {
            self.expect("SELECT")?;
            let select = self.nested(|parser| parser.select(Target::Optional))?;
            self.expect(")")?;
            return Ok(Source::Subquery(Box::new(select)));
        }
        let mut names = self.segments()?.into_iter();
        let parts = (names.next().unwrap_or_default(), names.next(), names.next());
        let (db, policy, name) = match parts {
            (db, Some(policy), Some(name)) => (db, policy, MeasurementName::Name(name)),
            (first, second, _) => match (self.regex()?, second) {
                (Some(regex), Some(second)) => (first, second, MeasurementName::Regex(regex)),
                (Some(regex), None) => (String::new(), first, MeasurementName::Regex(regex)),
                (None, Some(second)) => (String::new(), first, MeasurementName::Name(second)),
                (None, None) => (String::new(), String::new(), MeasurementName::Name(first)),
            },
        };
        let said = |name: String| Some(name).filter(|name| !name.is_empty());
        Ok(Source::Measurement(Measurement { db: said(db), policy: said(policy), name }))
    }
}
