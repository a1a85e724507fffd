//! Where the points of each group come from: series of measurements, and rows of sub-queries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use wire::influxql::ast::Cast;

use super::frame::Frame;
use super::inner;
use super::plan::Column;
use super::prepare::Input;
use super::types;
use crate::condition::{Filter, RowFilter, TagReading};
use crate::predicate::TagPredicate;
use crate::query::context::{Context, Reserved};
use crate::query::window::Windows;
use crate::refusal::QueryError;
use crate::scan::{Chunk, TimeRange};
use crate::schema::FieldType;
use crate::series::Series;
use crate::view::PolicyView;

/// Where a column of the statement is found in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// A field: the place in the chunks, and the type as which it is read.
    Field(usize, Option<FieldType>),
    /// A tag, null where it is absent.
    Tag(String),
    /// A tag by which a sub-query groups, empty where it is absent.
    Dimension(String),
    /// Nowhere: null in each row.
    Null,
}

/// A measurement that is read.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The data of its policy.
    pub(super) view: PolicyView,
    /// The name of the measurement.
    pub(super) name: Arc<str>,
    /// The fields to be scanned: those of the statement, then those of its condition.
    pub(super) fields: Vec<String>,
    /// Where the columns of the statement are.
    pub(super) bound: Vec<Bound>,
    /// Where the fields of the condition are.
    pub(super) conditions: Vec<usize>,
}

/// The rows of one group of a sub-query.
#[derive(Clone, Debug)]
pub(super) struct SubqueryRows {
    /// Its tags, in the form of a series.
    pub(super) series: Series,
    /// The rows of the group.
    pub(super) chunks: Vec<Chunk>,
    /// Which sub-query of the statement it is of.
    pub(super) source: usize,
    /// The windows in which the sub-query's functions made the rows, if they did.
    pub(super) windows: Option<Arc<Windows>>,
    /// Where the columns of the statement are.
    pub(super) bound: Arc<[Bound]>,
    /// Where the fields of the condition are.
    pub(super) conditions: Arc<[usize]>,
}

/// Where points come from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// A series of the table at this place.
    Series(usize, Series),
    /// Rows that are there already.
    Held(Arc<SubqueryRows>),
}

/// One source of points.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    /// Where they come from.
    pub(super) origin: Origin,
    /// Which of them are wanted.
    pub(super) rows: RowFilter,
    /// The place among all feeds: those of a table are in the order of its series.
    pub(super) order: usize,
}

/// A measurement with the values of the tags that are grouped by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The name of the measurement.
    pub name: Arc<str>,
    /// The values, empty for tags that are absent.
    pub values: Box<[Arc<str>]>,
}

/// All that a statement reads.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    /// The measurements that are read.
    pub(super) tables: Vec<Table>,
    /// The sources of each group, those of one table in the order of its series.
    pub(super) groups: BTreeMap<Key, Vec<Feed>>,
    /// What rows of sub-queries take of memory.
    held: Vec<Reserved>,
    count: usize,
}

impl Feeds {
    /// Finds what the columns of a statement are read from.
    ///
    /// # Errors
    /// When there are more series than may be read, or a sub-query fails.
    pub(super) fn find(
        frame: &Frame<'_>,
        columns: &[Column],
        range: TimeRange,
        context: &Context,
    ) -> Result<Self, QueryError> {
        let mut found = Self::default();
        let mut series = 0;
        for (at, source) in frame.of.sources.iter().enumerate() {
            match source {
                Input::Measurements { view, names } => {
                    for name in names {
                        series += found.add_table(frame, columns, view, name)?;
                        let limit = context.limits.max_select_series;
                        if limit > 0 && series as u64 > limit {
                            let over = limit.saturating_add(1);
                            let text =
                                format!("max-select-series limit exceeded: ({over}/{limit})");
                            return Err(QueryError(text));
                        }
                    }
                }
                Input::Subquery(inner) => {
                    let inner = frame.inner(inner, range, context.now_ns);
                    found.add_subquery(frame, columns, &inner, at, context)?;
                }
            }
        }
        Ok(found)
    }

    /// How many feeds there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds the series of a measurement; gives their number.
    fn add_table(
        &mut self,
        frame: &Frame<'_>,
        columns: &[Column],
        view: &PolicyView,
        name: &str,
    ) -> Result<usize, QueryError> {
        let known = view.fields(name);
        let mut fields = Places::default();
        let bound: Vec<Bound> = columns
            .iter()
            .map(|column| match column.of {
                Some(Cast::Tag) => Bound::Tag(column.name.clone()),
                of => match known.get(&column.name) {
                    Some(field) if fits(types::of_field(*field), of) => {
                        Bound::Field(fields.add(&column.name), column.kind())
                    }
                    _ => Bound::Null,
                },
            })
            .collect();
        if !bound.iter().any(|bound| matches!(bound, Bound::Field(..))) {
            return Ok(0);
        }
        let condition = frame.of.select.condition.as_ref();
        let is_field = |name: &str| known.contains_key(name);
        let filter = Filter::of(name, condition, TagReading::Value, &is_field)?;
        let conditions = filter.fields.iter().map(|name| fields.add(name)).collect();

        let mut series = Vec::new();
        for one in view.series(name, &filter.tags) {
            let rows = filter.series(&one);
            if !matches!(rows, RowFilter::None) {
                series.push((one, rows));
            }
        }
        limit_series(frame, &mut series);
        let count = series.len();
        let (table, name) = (self.tables.len(), Arc::<str>::from(name));
        for (one, rows) in series {
            let key = Key { name: Arc::clone(&name), values: values(&one, &frame.tags) };
            self.add(key, Origin::Series(table, one), rows);
        }
        let (view, fields) = (view.clone(), fields.names);
        self.tables.push(Table { view, name, fields, bound, conditions });
        Ok(count)
    }

    /// Runs a sub-query and adds its rows.
    fn add_subquery(
        &mut self,
        frame: &Frame<'_>,
        columns: &[Column],
        inner: &Frame<'_>,
        source: usize,
        context: &Context,
    ) -> Result<(), QueryError> {
        let of = inner.of;
        let mut names: HashMap<String, usize> = HashMap::new();
        for (name, at) in inner::column_places(of) {
            names.entry(name).or_insert(at);
        }
        let bound: Arc<[Bound]> = columns
            .iter()
            .map(|column| match names.get(&column.name) {
                Some(at) => Bound::Field(*at, column.kind()),
                None if of.dimensions.contains(&column.name) => {
                    Bound::Dimension(column.name.clone())
                }
                None => Bound::Null,
            })
            .collect();
        let is_column = |wanted: &str| names.contains_key(wanted);
        let filter = Filter::of_subquery(frame.of.select.condition.as_ref(), &is_column)?;
        let at = |wanted: &String| names.get(wanted).copied();
        let conditions: Arc<[usize]> = filter.fields.iter().filter_map(at).collect();

        let windows = inner.is_windowed().then(|| Arc::new(inner.windows(inner.range)));
        let mut groups: Vec<(usize, Key, SubqueryRows, RowFilter)> = Vec::new();
        let held = inner::collect(inner, context, &mut |name, order, series, chunks| {
            let rows = filter.series(&series);
            if matches!(rows, RowFilter::None) || !matches(&filter.tags, &series) {
                return Ok(());
            }
            let key = Key { name, values: values(&series, &frame.tags) };
            let (bound, conditions) = (Arc::clone(&bound), Arc::clone(&conditions));
            let windows = windows.clone();
            let held = SubqueryRows { series, chunks, source, windows, bound, conditions };
            groups.push((order, key, held, rows));
            Ok(())
        })?;
        self.held.push(held);
        groups.sort_by_key(|(order, ..)| *order);
        for (_, key, held, rows) in groups {
            self.add(key, Origin::Held(Arc::new(held)), rows);
        }
        Ok(())
    }

    fn add(&mut self, key: Key, origin: Origin, rows: RowFilter) {
        let feed = Feed { origin, rows, order: self.count };
        self.count += 1;
        self.groups.entry(key).or_default().push(feed);
    }
}

/// Whether a field can be read as a type: numbers as each other.
fn fits(field: Cast, of: types::Type) -> bool {
    let number = |of| matches!(of, Cast::Float | Cast::Integer | Cast::Unsigned);
    match of {
        None => false,
        Some(Cast::AnyField) => true,
        Some(of) => of == field || (number(of) && number(field)),
    }
}

/// Whether a series is one of those meant.
fn matches(of: &TagPredicate, series: &Series) -> bool {
    match of {
        TagPredicate::All => true,
        TagPredicate::Equal(key, value) => series.tag(key) == value,
        TagPredicate::NotEqual(key, value) => series.tag(key) != value,
        TagPredicate::Match(key, regex) => regex.is_match(series.tag(key).as_bytes()),
        TagPredicate::NotMatch(key, regex) => !regex.is_match(series.tag(key).as_bytes()),
        TagPredicate::And(a, b) => matches(a, series) && matches(b, series),
        TagPredicate::Or(a, b) => matches(a, series) || matches(b, series),
    }
}

/// Names, each with its place.
#[derive(Default)]
struct Places {
    names: Vec<String>,
    by_name: HashMap<String, usize>,
}

impl Places {
    /// The place of a name, which is added where it is missing.
    fn add(&mut self, name: &str) -> usize {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        self.by_name.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }
}

/// The values of some tags of a series.
fn values(series: &Series, tags: &[String]) -> Box<[Arc<str>]> {
    let empty: Arc<str> = Arc::from("");
    let value = |key: &String| {
        let at = series.tags.binary_search_by(|(known, _)| (**known).cmp(key));
        let found = at.ok().and_then(|at| series.tags.get(at));
        found.map_or_else(|| Arc::clone(&empty), |(_, value)| Arc::clone(value))
    };
    tags.iter().map(value).collect()
}

/// `SLIMIT` and `SOFFSET`: whole groups of the answer, of each measurement.
fn limit_series(frame: &Frame<'_>, series: &mut Vec<(Series, RowFilter)>) {
    let (limit, offset) = (frame.series_limit, frame.series_offset);
    if limit == 0 && offset == 0 {
        return;
    }
    let groups = series.iter().map(|(one, _)| group_name(one, &frame.outer_tags));
    let groups: BTreeSet<String> = groups.collect();
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let take = usize::try_from(limit).unwrap_or(usize::MAX);
    let kept: BTreeSet<String> = groups.into_iter().skip(skip).take(take).collect();
    series.retain(|(one, _)| kept.contains(&group_name(one, &frame.outer_tags)));
}

/// By this name InfluxDB orders groups where it counts them: the keys of the tags that are there,
/// then their values.
fn group_name(series: &Series, tags: &[String]) -> String {
    let there = || tags.iter().filter(|tag| !series.tag(tag).is_empty());
    let keys = there().map(String::as_str);
    keys.chain(there().map(|tag| series.tag(tag))).collect::<Vec<_>>().join("|")
}
