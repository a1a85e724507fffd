//! What the members of sets are asked, so that a query can run on what they answer: points, or
//! partial results of its aggregates.

use std::collections::BTreeSet;

use store::query::select::{FieldNames, MeasurementRead, RawSelect, Reads};
use wire::influxql::ast::{
    Cast, Dimension, Expr, Field, Measurement, Select, Show, ShowClauses, Source, Statement,
    WildcardKind,
};

use super::partials::Partials;
use super::restriction::{condition, within};
use crate::placement::QueryScope;

/// A statement of the text that members are asked, by what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchStatement {
    /// The retention policies of a database.
    Policies(String),
    /// The types of the fields of the read at this place.
    Types(usize),
    /// The tag keys of it.
    TagKeys(usize),
    /// The points of it.
    Points(usize),
    /// Partial results of the only read, of the statement at this place among those about them.
    Partials(usize),
}

impl FetchStatement {
    /// Whether it is about something else than points and what is made of them.
    pub fn is_schema(&self) -> bool {
        !matches!(self, Self::Points(_) | Self::Partials(_))
    }
}

/// When the points of a query pass through as they come, and are not held here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    /// A row takes more than one point.
    Never,
    /// Sets have points of one group: those of one time are put in order here, as long as there
    /// are few of them.
    WhenLarge,
    /// Each group lies in one set, which has the order of its points.
    AtOnce,
}

/// A query, and what the members are asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchPlan {
    reads: Reads,
    /// What each statement of the text is about; those about points come last.
    asked: Vec<FetchStatement>,
    text: String,
    db: String,
    streaming: Streaming,
    /// How the query is answered without its points.
    partials: Option<Partials>,
}

impl FetchPlan {
    /// Of a `SELECT`.
    ///
    /// # Errors
    /// What is wrong with it, in InfluxDB's words.
    pub fn of(select: &Select, scope: QueryScope<'_>) -> Result<Self, String> {
        let reads = Reads::of(select, scope.now_ns).map_err(|error| error.0)?;
        let asked = asked(&reads, scope.db)?;
        let text = text(&asked, &reads, scope.db);
        let streaming = if reads.is_raw { Streaming::WhenLarge } else { Streaming::Never };
        Ok(Self { asked, text, db: scope.db.to_owned(), reads, streaming, partials: None })
    }

    /// The same by partial results of its aggregates; `None` where it has to have the points.
    pub fn merged(mut self, select: &Select, scope: QueryScope<'_>) -> Option<Self> {
        let read = self.reads.measurements.first()?;
        let partials = Partials::of(select, read, scope.now_ns)?;
        // What is computed with a result is no tag.
        let has_all_tags = select.dimensions.iter().any(is_every_tag);
        let is_kept = |asked: &FetchStatement| {
            asked.is_schema() && (has_all_tags || !matches!(asked, FetchStatement::TagKeys(_)))
        };
        self.asked.retain(is_kept);
        self.asked.extend((0..partials.statements.len()).map(FetchStatement::Partials));
        let texts = partials.statements.iter().map(|one| one.select.to_string());
        let schema = text(&self.asked, &self.reads, &self.db);
        self.text = std::iter::once(schema).chain(texts).collect::<Vec<_>>().join("; ");
        Some(Self { partials: Some(partials), ..self })
    }

    /// The same by points, where partial results turn out not to be enough.
    pub fn by_points(&self) -> Self {
        let asked = asked(&self.reads, &self.db).unwrap_or_default();
        let text = text(&asked, &self.reads, &self.db);
        Self { asked, text, partials: None, ..self.clone() }
    }

    /// How the query is answered without its points, if it is.
    pub fn partials(&self) -> Option<&Partials> {
        self.partials.as_ref()
    }

    /// The same where each group of the query lies in one set; `None` where its points can't pass
    /// through. Members are asked for the schema first.
    pub fn at_once(mut self) -> Option<Self> {
        if self.streaming == Streaming::Never {
            return None;
        }
        self.asked.retain(FetchStatement::is_schema);
        self.text = text(&self.asked, &self.reads, &self.db);
        Some(Self { streaming: Streaming::AtOnce, ..self })
    }

    /// When its points pass through.
    pub fn streaming(&self) -> Streaming {
        self.streaming
    }

    /// What each member is asked for points that pass through.
    pub fn streamed_text(&self, raw: &RawSelect) -> String {
        let columns = raw.columns().map(|(expr, _)| Field { expr, alias: None });
        let select = self.reads.measurements.first().map(|read| Select {
            fields: columns.collect(),
            dimensions: raw.tags().iter().cloned().map(Dimension::Tag).collect(),
            limit: raw.points_max(),
            ..points(read)
        });
        select.map_or_else(String::new, |select| select.to_string())
    }

    /// What each member is asked.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What runs on the answers.
    pub fn select(&self) -> &Select {
        self.partials.as_ref().map_or(&self.reads.select, |partials| &partials.select)
    }

    /// What a statement of the text is about.
    pub fn asked(&self, statement: usize) -> Option<&FetchStatement> {
        self.asked.get(statement)
    }

    /// What is read of a measurement.
    pub fn read(&self, at: usize) -> Option<&MeasurementRead> {
        self.reads.measurements.get(at)
    }

    /// The database that a measurement is in.
    pub fn database<'a>(&'a self, of: &'a Measurement) -> &'a str {
        of.db.as_deref().unwrap_or(&self.db)
    }
}

fn database<'a>(of: &'a Measurement, request: &'a str) -> Result<&'a str, String> {
    let db = of.db.as_deref().filter(|db| !db.is_empty()).unwrap_or(request);
    if db.is_empty() { Err("database name required".to_owned()) } else { Ok(db) }
}

/// What is asked for what is read.
///
/// # Errors
/// That a measurement is in no database.
fn asked(reads: &Reads, request_db: &str) -> Result<Vec<FetchStatement>, String> {
    let mut databases = BTreeSet::new();
    for read in &reads.measurements {
        databases.insert(database(&read.measurement, request_db)?.to_owned());
    }
    let mut asked: Vec<FetchStatement> =
        databases.into_iter().map(FetchStatement::Policies).collect();
    let is_read = |read: &MeasurementRead| match &read.fields {
        FieldNames::All => true,
        FieldNames::Some(names) => !names.is_empty(),
    };
    let places = || (0..).zip(&reads.measurements).filter(|(_, read)| is_read(read));
    for (at, read) in places() {
        asked.push(FetchStatement::Types(at));
        asked.extend(read.has_all_tags.then_some(FetchStatement::TagKeys(at)));
    }
    asked.extend(places().map(|(at, _)| FetchStatement::Points(at)));
    Ok(asked)
}

/// All statements but those about partial results as one text.
fn text(asked: &[FetchStatement], reads: &Reads, request_db: &str) -> String {
    let asked = asked.iter().filter(|asked| !matches!(asked, FetchStatement::Partials(_)));
    let texts = asked.map(|asked| statement(asked, reads, request_db).to_string());
    texts.collect::<Vec<_>>().join("; ")
}

fn is_every_tag(dimension: &Dimension) -> bool {
    matches!(dimension, Dimension::Wildcard(_) | Dimension::Regex(_))
}

/// The statement that asks for something.
fn statement(asked: &FetchStatement, reads: &Reads, request_db: &str) -> Statement {
    let read = match asked {
        FetchStatement::Policies(db) => {
            return Statement::Show(Show::RetentionPolicies { db: Some(db.clone()) });
        }
        FetchStatement::Types(at) | FetchStatement::TagKeys(at) | FetchStatement::Points(at) => {
            reads.measurements.get(*at)
        }
        FetchStatement::Partials(_) => None,
    };
    // Places are those of what is read.
    let Some(read) = read else { return Statement::Show(Show::Databases) };
    let clauses = || {
        let db = database(&read.measurement, request_db).unwrap_or_default().to_owned();
        let source = Measurement { db: None, ..read.measurement.clone() };
        let sources = vec![Source::Measurement(source)];
        ShowClauses { db: Some(db), sources, ..ShowClauses::default() }
    };
    match asked {
        FetchStatement::TagKeys(_) => {
            let condition = within(read.range);
            Statement::Show(Show::TagKeys(ShowClauses { condition, ..clauses() }))
        }
        FetchStatement::Points(_) => Statement::Select(Box::new(points(read))),
        FetchStatement::Types(_) | FetchStatement::Policies(_) | FetchStatement::Partials(_) => {
            Statement::Show(Show::FieldKeys(clauses()))
        }
    }
}

/// The points of a measurement, each series by itself.
fn points(read: &MeasurementRead) -> Select {
    let field = |expr: Expr| Field { expr, alias: None };
    let named = |(name, cast): (&String, &Cast)| {
        field(Expr::Reference { name: name.clone(), cast: Some(*cast) })
    };
    let fields = match &read.fields {
        FieldNames::All => vec![field(Expr::Wildcard(Some(WildcardKind::Field)))],
        FieldNames::Some(names) => names.iter().map(named).collect(),
    };
    Select {
        fields,
        sources: vec![Source::Measurement(read.measurement.clone())],
        condition: condition(read, read.range),
        dimensions: vec![Dimension::Wildcard(None)],
        descending: read.descending,
        ordered: read.descending,
        limit: read.limit,
        ..Select::default()
    }
}
