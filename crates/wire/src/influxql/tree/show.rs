//! Parses `SHOW` statements as `influxql/parser.go` does.

use super::Parser;
use super::select::{Order, dimension};
use crate::influxql::ast::{Cardinality, KeyMatch, Show, ShowClauses};
use crate::influxql::parser::SHOWN;
use crate::influxql::reader::Result;

impl Parser<'_> {
    pub(super) fn show(&mut self) -> Result<Show> {
        match self.one_of(&SHOWN)? {
            "CONTINUOUS" => self.expect("QUERIES").map(|()| Show::ContinuousQueries),
            "DATABASES" => Ok(Show::Databases),
            "DIAGNOSTICS" => self.of_module(Show::Diagnostics),
            "STATS" => self.of_module(Show::Stats),
            "FIELD" => match self.one_of(&["KEY", "KEYS"])? {
                "KEYS" => self.field_keys(),
                _key => self.key_cardinality(Cardinality::FieldKey),
            },
            "GRANTS" => {
                self.expect("FOR")?;
                self.ident().map(|_| Show::Grants)
            }
            "MEASUREMENT" => {
                let exact = self.one_of(&["EXACT", "CARDINALITY"])? == "EXACT";
                if exact {
                    self.expect("CARDINALITY")?;
                }
                self.cardinality(Cardinality::Measurement, exact)
            }
            "MEASUREMENTS" => self.measurements(),
            "QUERIES" => Ok(Show::Queries),
            "RETENTION" => {
                self.expect("POLICIES")?;
                Ok(Show::RetentionPolicies { db: self.optional_db()? })
            }
            "SERIES" => self.series(),
            "SHARD" => self.expect("GROUPS").map(|()| Show::ShardGroups),
            "SHARDS" => Ok(Show::Shards),
            "SUBSCRIPTIONS" => Ok(Show::Subscriptions),
            "TAG" => match self.one_of(&["KEY", "KEYS", "VALUES"])? {
                "KEYS" => self.tag_keys(),
                "VALUES" => self.tag_values(),
                _key => self.key_cardinality(Cardinality::TagKey),
            },
            _users => Ok(Show::Users),
        }
    }

    fn of_module(&mut self, show: Show) -> Result<Show> {
        if self.accept("FOR") {
            self.string()?;
        }
        Ok(show)
    }

    fn optional_db(&mut self) -> Result<Option<String>> {
        let db = if self.accept("ON") { self.ident()? } else { String::new() };
        Ok(Some(db).filter(|db| !db.is_empty()))
    }

    fn series(&mut self) -> Result<Show> {
        let exact = self.accept("EXACT");
        if self.accept("CARDINALITY") {
            return self.cardinality(Cardinality::Series, exact);
        }
        let mut clauses = self.db_and_sources()?;
        self.condition_to_offset(&mut clauses)?;
        Ok(Show::Series(clauses))
    }

    fn measurements(&mut self) -> Result<Show> {
        let mut clauses = ShowClauses { db: self.optional_db()?, ..ShowClauses::default() };
        if self.accept("WITH") {
            self.expect("MEASUREMENT")?;
            self.one_of(&["=", "=~"])?;
            clauses.sources.push(self.source(false)?);
        }
        self.condition_to_offset(&mut clauses)?;
        Ok(Show::Measurements(clauses))
    }

    fn tag_keys(&mut self) -> Result<Show> {
        let mut clauses = self.db_and_sources()?;
        self.condition_to_offset(&mut clauses)?;
        clauses.series_limit = self.optional_count("SLIMIT")?;
        clauses.series_offset = self.optional_count("SOFFSET")?;
        Ok(Show::TagKeys(clauses))
    }

    fn tag_values(&mut self) -> Result<Show> {
        let exact = self.accept("EXACT");
        if exact {
            self.expect("CARDINALITY")?;
        }
        if exact || self.accept("CARDINALITY") {
            return self.cardinality(Cardinality::TagValues, exact);
        }
        let mut clauses = self.db_and_sources()?;
        clauses.key = Some(self.with_key()?);
        self.condition_to_offset(&mut clauses)?;
        Ok(Show::TagValues(clauses))
    }

    fn field_keys(&mut self) -> Result<Show> {
        let mut clauses = self.db_and_sources()?;
        clauses.descending = self.order()? == Some(Order::Descending);
        self.limits(&mut clauses)?;
        Ok(Show::FieldKeys(clauses))
    }

    /// What follows `SHOW TAG KEY` or `SHOW FIELD KEY`.
    fn key_cardinality(&mut self, what: Cardinality) -> Result<Show> {
        let exact = self.accept("EXACT");
        self.one_of(if exact { &["CARDINALITY"] } else { &["EXACT", "CARDINALITY"] })?;
        self.cardinality(what, exact)
    }

    /// What follows the word `CARDINALITY`.
    fn cardinality(&mut self, what: Cardinality, exact: bool) -> Result<Show> {
        let mut clauses = self.db_and_sources()?;
        if what == Cardinality::TagValues {
            clauses.key = Some(self.with_key()?);
        }
        clauses.condition = self.condition()?;
        let dimensions = self.dimensions()?.into_iter().map(dimension).collect();
        self.limits(&mut clauses)?;
        Ok(Show::Cardinality { what, exact, clauses, dimensions })
    }

    fn db_and_sources(&mut self) -> Result<ShowClauses> {
        let db = self.optional_db()?;
        Ok(ShowClauses { db, sources: self.optional_sources()?, ..ShowClauses::default() })
    }

    fn condition_to_offset(&mut self, clauses: &mut ShowClauses) -> Result<()> {
        clauses.condition = self.condition()?;
        clauses.descending = self.order()? == Some(Order::Descending);
        self.limits(clauses)
    }

    fn limits(&mut self, clauses: &mut ShowClauses) -> Result<()> {
        clauses.limit = self.optional_count("LIMIT")?;
        clauses.offset = self.optional_count("OFFSET")?;
        Ok(())
    }

    /// `WITH KEY ...` (`parseTagKeyExpr`).
    fn with_key(&mut self) -> Result<KeyMatch> {
        self.expect("WITH")?;
        self.expect("KEY")?;
        let found = self.take();
        if found.is("IN") {
            self.expect("(")?;
            let mut keys = vec![self.ident()?];
            while self.accept(",") {
                keys.push(self.ident()?);
            }
            self.expect(")")?;
            Ok(KeyMatch::In(keys))
        } else if found.is("=") {
            self.ident().map(KeyMatch::Equal)
        } else if found.is("!=") || found.is("<>") {
            self.ident().map(KeyMatch::NotEqual)
        } else if found.is("=~") {
            self.needed_regex().map(KeyMatch::Regex)
        } else if found.is("!~") {
            self.needed_regex().map(KeyMatch::NotRegex)
        } else {
            Err(self.unexpected(&found, &["IN", "=", "=~"]))
        }
    }
}
