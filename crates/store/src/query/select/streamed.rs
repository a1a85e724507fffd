//! A `SELECT` of points as they are, whose points other servers bring in the order of the answer:
//! they pass through, and of each server nothing is held but what it brought last.

use std::sync::Arc;

use wire::influxql::ast::{Cast, Expr, Fill, MeasurementName, Select, Source};

use super::compile;
use super::emit::Emitter;
use super::execute::EachGroup;
use super::feeds::Key;
use super::frame::Frame;
use super::merged::{MergeOptions, Row, Rows, side_by_side};
use super::plan::Plan;
use super::prepare;
use super::rows::{Scanner, limited};
use crate::query::context::Context;
use crate::query::results::Sink;
use crate::query::timezone::Zone;
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::schema::FieldType;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// Points of one server, group after group in the order of the answer, those of a group by time.
pub trait PointSource: Send {
    /// Goes on to the next group, past what is left of the one at hand; `None` at the end.
    ///
    /// # Errors
    /// That the points do not come.
    fn next_group(&mut self) -> Result<Option<Key>, QueryError>;

    /// The next point of the group at hand: its time, and a value for each of
    /// [`RawSelect::columns`]; `None` at the group's end.
    ///
    /// # Errors
    /// That the points do not come.
    fn next_point(&mut self) -> Result<Option<(i64, Vec<Value>)>, QueryError>;
}

/// A `SELECT` of which each row is made of one point.
#[derive(Debug)]
pub struct RawSelect {
    plan: Plan,
    /// The tags that are grouped by, sorted.
    tags: Vec<String>,
    /// The names of the columns, the time's first.
    names: Arc<[String]>,
    fill: Fill,
    zone: Option<Zone>,
    descending: bool,
    limit: u64,
    offset: u64,
    /// Whether there is no other group, so that nothing is looked for behind the limit.
    is_one_group: bool,
}

impl RawSelect {
    /// Of a statement; `None` where a row takes more than one point, or no field is read.
    ///
    /// # Errors
    /// What is wrong with the statement, in InfluxDB's words.
    pub fn of(
        snapshot: &Snapshot,
        select: &Select,
        context: &Context,
    ) -> Result<Option<Self>, QueryError> {
        let compiled = compile::compile(select, context.now_ns)?;
        let prepared = prepare::prepare(snapshot, &compiled, context)?;
        let frame = Frame::outermost(&prepared, context)?;
        let plan = Plan::of(&frame)?;
        let is_field = |of: Option<Cast>| !matches!(of, None | Some(Cast::Tag));
        if !plan.is_raw() || !plan.columns.iter().any(|column| is_field(column.of)) {
            return Ok(None);
        }
        Ok(Some(Self {
            plan,
            fill: frame.fill,
            descending: frame.descending(),
            tags: frame.tags,
            names: prepared.columns.iter().cloned().collect(),
            zone: prepared.zone,
            is_one_group: prepared.dimensions.is_empty() && is_one_name(&prepared.select),
            limit: prepared.select.limit,
            offset: prepared.select.offset,
        }))
    }

    /// What is read of each point, as it is named in a statement, and its type; `None` where the
    /// snapshot has neither a field nor a tag of that name.
    pub fn columns(&self) -> impl Iterator<Item = (Expr, Option<FieldType>)> {
        self.plan.columns.iter().map(|column| {
            let expr = Expr::Reference { name: column.name.clone(), cast: column.of };
            (expr, column.kind())
        })
    }

    /// The tags that points are grouped by, in the order of a group's values.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// How many points of each group are enough; 0 is all of them.
    pub fn points_max(&self) -> u64 {
        match self.limit {
            0 => 0,
            limit => limit.saturating_add(self.offset),
        }
    }

    /// Sends the rows to the sink as they come. No source is read on once there are as many as the
    /// statement wants.
    ///
    /// # Errors
    /// Those of the sources; rows may have gone out before.
    pub async fn answer<S: PointSource>(
        &self,
        mut sources: Vec<S>,
        context: &Context,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        context.cancel.next_select();
        if let Some(zone) = &self.zone {
            sink.zone(zone.zone());
        }
        let reading = MergeOptions {
            tables: &[],
            range: TimeRange::ALL,
            descending: self.descending,
            beside: &self.plan.beside,
            driver: None,
            shared: None,
            context,
        };
        let mut emitter = Emitter::of(&self.tags, &self.names, context, sink);
        let mut heads = Vec::with_capacity(sources.len());
        for source in &mut sources {
            heads.push(source.next_group()?);
        }
        while let Some(group) = self.first(&heads) {
            let mut parts: Vec<Rows<'_>> = Vec::new();
            for (source, head) in sources.iter_mut().zip(&heads) {
                if head.as_ref() == Some(&group) {
                    parts.push(Box::new(GroupPoints(source)));
                }
            }
            let points = limited(side_by_side(parts, reading), self.limit, self.offset);
            let mut scanner = Scanner::new(&self.plan, self.fill);
            let rows = points.map(|point| point.map(|point| scanner.raw(&self.plan, point)));
            let emitted = emitter.group(&group, 0, Box::new(rows)).await?;
            if emitted.is_break() || self.is_one_group {
                break;
            }
            for (source, head) in sources.iter_mut().zip(&mut heads) {
                if head.as_ref() == Some(&group) {
                    *head = source.next_group()?;
                    self.check_order(&group, head.as_ref())?;
                }
            }
        }
        Ok(())
    }

    /// The group that comes first in the answer.
    fn first(&self, heads: &[Option<Key>]) -> Option<Key> {
        let there = heads.iter().flatten();
        if self.descending { there.max().cloned() } else { there.min().cloned() }
    }

    /// Whether a group follows another one; if it does not, it may have been answered already.
    fn check_order(&self, before: &Key, next: Option<&Key>) -> Result<(), QueryError> {
        match next {
            Some(next) if (before < next) == self.descending => {
                Err(QueryError("the series of a set do not come in their order".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a statement reads one measurement, and says its name.
fn is_one_name(select: &Select) -> bool {
    match &select.sources[..] {
        [Source::Measurement(of)] => matches!(of.name, MeasurementName::Name(_)),
        _ => false,
    }
}

/// The points of the group at hand.
struct GroupPoints<'a, S>(&'a mut S);

impl<S: PointSource> Iterator for GroupPoints<'_, S> {
    type Item = Result<Row, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_point().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::ops::ControlFlow;

    use wire::influxql::ast::Statement;

    use super::*;
    use crate::gathered::Gathered;
    use crate::query::results::{Message, Rows as ResultRows};

    /// Groups by their host, each with its points.
    #[derive(Default)]
    struct Fake {
        groups: VecDeque<(&'static str, Vec<(i64, f64)>)>,
        at_hand: VecDeque<(i64, f64)>,
        /// How many points were read.
        read: usize,
    }

    impl PointSource for &mut Fake {
        fn next_group(&mut self) -> Result<Option<Key>, QueryError> {
            let Some((host, points)) = self.groups.pop_front() else { return Ok(None) };
            if host == "broken" {
                return Err(QueryError("broken off".to_owned()));
            }
            self.at_hand = points.into();
            Ok(Some(Key { name: "m".into(), values: Box::new([host.into()]) }))
        }

        fn next_point(&mut self) -> Result<Option<(i64, Vec<Value>)>, QueryError> {
            self.read += 1;
            let point = self.at_hand.pop_front();
            Ok(point.map(|(time, value)| (time, vec![Value::Float(value)])))
        }
    }

    #[derive(Default)]
    struct Collected(Vec<String>);

    impl Sink for Collected {
        fn rows(&mut self, rows: ResultRows) -> ControlFlow<()> {
            let host = &rows.tags[0].1;
            for row in &rows.values {
                let (Value::Time(time), Value::Float(value)) = (&row[0], &row[1]) else {
                    panic!("{row:?}")
                };
                self.0.push(format!("{host}@{time}={value}"));
            }
            ControlFlow::Continue(())
        }
        fn message(&mut self, _: Message) {}
    }

    fn raw(sql: &str) -> Option<RawSelect> {
        let mut schema = Gathered::default();
        schema.add_policy("db", "autogen", 3600, true);
        let policy = schema.policy("db", "").unwrap();
        schema.add_field(policy, "m", ("v", FieldType::Float)).unwrap();
        schema.add_tag_key(policy, "m", "host").unwrap();
        let parsed = wire::influxql::parse(sql, &wire::influxql::Params::default()).unwrap();
        let Some(Statement::Select(select)) = parsed.first() else { panic!("{sql}") };
        RawSelect::of(&schema.snapshot(), select, &Context::new("db", 0)).unwrap()
    }

    type Points<'a> = &'a [(i64, f64)];

    fn fakes(of: [&[(&'static str, Points<'_>)]; 2]) -> [Fake; 2] {
        of.map(|groups| Fake {
            groups: groups.iter().map(|(host, points)| (*host, points.to_vec())).collect(),
            ..Fake::default()
        })
    }

    fn answer(sql: &str, fakes: &mut [Fake; 2]) -> (String, Option<String>) {
        let mut found = Collected::default();
        let context = Context::new("db", 0);
        let sources = fakes.iter_mut().collect();
        let raw = raw(sql).unwrap();
        let ended = crate::query::drive::to_end(raw.answer(sources, &context, &mut found));
        (found.0.join(" "), ended.err().map(|error| error.0))
    }

    #[test]
    fn points_of_a_group_are_merged_by_time_and_groups_follow_each_other() {
        let both = || {
            fakes([
                &[("a", &[(1, 1.0), (4, 2.0)]), ("c", &[(1, 3.0)])],
                &[("a", &[(2, 4.0), (4, 5.0)]), ("b", &[(9, 6.0)])],
            ])
        };
        let all = answer("SELECT v FROM m GROUP BY host", &mut both());
        assert_eq!(all, ("a@1=1 a@2=4 a@4=2 a@4=5 b@9=6 c@1=3".to_owned(), None));
        let computed = answer("SELECT v * 2 FROM m GROUP BY host LIMIT 2 OFFSET 1", &mut both());
        assert_eq!(computed.0, "a@2=8 a@4=4");
        let newest = &mut fakes([&[("b", &[(3, 1.0)])], &[("c", &[(9, 2.0), (1, 3.0)])]]);
        let newest = answer("SELECT v FROM m GROUP BY host ORDER BY time DESC", newest);
        assert_eq!(newest.0, "c@9=2 c@1=3 b@3=1");
    }

    #[test]
    fn no_source_is_read_past_the_limit() {
        let many: Vec<(i64, f64)> = (0..100).map(|at| (at, 0.0)).collect();
        let mut both = fakes([&[("a", &many)], &[("a", &many)]]);
        let (rows, _) = answer("SELECT v FROM m GROUP BY host LIMIT 4", &mut both);
        assert_eq!(rows.split(' ').count(), 4);
        assert!(both.iter().all(|fake| fake.read < 6), "{} {}", both[0].read, both[1].read);
    }

    #[test]
    fn a_source_that_breaks_off_or_goes_back_is_an_error() {
        let sql = "SELECT v FROM m GROUP BY host";
        let broken = answer(sql, &mut fakes([&[("a", &[(1, 1.0)])], &[("broken", &[])]]));
        assert_eq!(broken.1.unwrap(), "broken off");
        let back = answer(sql, &mut fakes([&[("b", &[(1, 1.0)]), ("a", &[(2, 1.0)])], &[]]));
        assert!(back.1.unwrap().contains("order"));
    }

    #[test]
    fn a_row_of_several_points_is_not_raw() {
        for (sql, is_raw) in [
            ("SELECT v FROM m", true),
            ("SELECT abs(v) + 1, host FROM m LIMIT 3", true),
            ("SELECT * FROM m GROUP BY *", true),
            ("SELECT max(v) FROM m", false),
            ("SELECT difference(v) FROM m", false),
            ("SELECT host::tag FROM m", false),
            ("SELECT nowhere FROM m", false),
        ] {
            assert_eq!(raw(sql).is_some(), is_raw, "{sql}");
        }
        let raw = raw("SELECT *, v + 1 FROM m GROUP BY host LIMIT 5 OFFSET 2").unwrap();
        assert_eq!((raw.tags(), raw.points_max()), (&["host".to_owned()][..], 7));
        let columns: Vec<String> = raw.columns().map(|(expr, _)| expr.to_string()).collect();
        assert_eq!(columns, ["v::float"]);
    }
}
