//! The rest of a condition, for one measurement: what its series decide, and what its rows.

use std::sync::Arc;

use ::regex::bytes::Regex;
use wire::influxql::ast::{Cast, Expr, Op};

use super::rows::{Nulls, Row, RowFilter as Rows, Tree};
use crate::go_regex;
use crate::math::Math;
use crate::predicate::TagPredicate;
use crate::refusal::QueryError;
use crate::schema::FieldType;
use crate::series::Series;

pub use super::rows::RowFilter;

/// How two tags are compared, and a tag with a text by `<`, `<=`, `>` or `>=`. InfluxDB reads such
/// a comparison in two ways; all others mean the same in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagReading {
    /// By value: `=` holds where both tags are there and equal, `!=` everywhere else, an order
    /// nowhere. So `SELECT` and `SHOW ... CARDINALITY` read it (`inmem/meta.go`, `idsForExpr`).
    Value,
    /// By presence: `=` holds where both tags are there, anything else where only the left one is;
    /// a text is compared by order as by `!=`. So `DELETE`, `DROP SERIES`, `SHOW SERIES` and
    /// `SHOW TAG KEYS | VALUES` read it (`tsdb/index.go`, `IndexSet.seriesByExprIterator`).
    Presence,
    /// As texts of a row: an absent tag is empty. So conditions over sub-queries are read
    /// (`query/cursor.go`, `newFilterCursor`): a name is a column whatever its cast says, or else
    /// a tag that was grouped by.
    Row,
}

/// A condition without time, for the series and rows of one measurement.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Holds for every series that can have a matching row, and for some that have none.
    pub tags: TagPredicate,
    /// The fields that [`RowFilter::keep`] wants to see, in its order; empty where tags decide.
    pub fields: Vec<String>,
    /// `None` where `tags` says it all.
    node: Option<Node>,
}

impl Filter {
    /// Compiles what [`super::split`] left over, for the rows of a sub-query. A name is that of a
    /// column, or else of a tag that the sub-query may have grouped by.
    ///
    /// # Errors
    /// When a regular expression is none, or calls a function that is not for rows.
    pub fn of_subquery(
        rest: Option<&Expr>,
        is_column: &dyn Fn(&str) -> bool,
    ) -> Result<Self, QueryError> {
        Self::of("", rest, TagReading::Row, is_column)
    }

    /// Compiles what [`super::split`] left over, for the measurement that `_name` is compared
    /// with. A name is a field where its cast says so, or where nothing is said and `is_field`
    /// does; every other one is a tag, present or not.
    ///
    /// # Errors
    /// As [`Filter::of_subquery`].
    pub fn of(
        measurement: &str,
        rest: Option<&Expr>,
        reading: TagReading,
        is_field: &dyn Fn(&str) -> bool,
    ) -> Result<Self, QueryError> {
        let mut compiler = Compiler { measurement, reading, is_field, fields: Vec::new() };
        let node = rest.map_or(Ok(Node::Constant(true)), |rest| compiler.node(rest))?;
        let tags = node.predicate();
        let node = if node.is_predicate() { None } else { Some(node) };
        Ok(Self { tags, fields: compiler.fields, node })
    }

    /// Whether [`Filter::tags`] says all that the condition says of tags: nothing else is to be
    /// asked of a series, only of its rows.
    pub fn is_of_tags(&self) -> bool {
        self.node.as_ref().is_none_or(|node| !node.compares_tags())
    }

    /// What is left to ask of the rows of a series.
    pub fn series(&self, series: &Series) -> RowFilter {
        self.node.as_ref().map_or(Rows::All, |node| node.series(series))
    }
}

#[derive(Clone, Debug)]
enum Node {
    Constant(bool),
    /// What an index of tags can answer.
    Tag(TagPredicate),
    /// `tag = other_tag`: only where both are there; and its opposite.
    SameTag(String, String, bool),
    /// What needs a row; with whether it names tags, too.
    Row(Arc<Tree>, bool),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

/// No series has a tag that is two things.
fn nothing() -> TagPredicate {
    let (key, value) = (String::new(), "x".to_owned());
    let equal = TagPredicate::Equal(key.clone(), value.clone());
    TagPredicate::And(Box::new(equal), Box::new(TagPredicate::NotEqual(key, value)))
}

/// A tag is there.
fn present(key: &str) -> TagPredicate {
    TagPredicate::NotEqual(key.to_owned(), String::new())
}

impl Node {
    fn predicate(&self) -> TagPredicate {
        match self {
            Self::Constant(false) => nothing(),
            Self::Constant(true) | Self::SameTag(..) | Self::Row(..) => TagPredicate::All,
            Self::Tag(predicate) => predicate.clone(),
            Self::And(left, right) => match (left.predicate(), right.predicate()) {
                (TagPredicate::All, one) | (one, TagPredicate::All) => one,
                (left, right) => TagPredicate::And(Box::new(left), Box::new(right)),
            },
            Self::Or(left, right) => match (left.predicate(), right.predicate()) {
                (TagPredicate::All, _) | (_, TagPredicate::All) => TagPredicate::All,
                (left, right) => TagPredicate::Or(Box::new(left), Box::new(right)),
            },
        }
    }

    /// Whether [`Node::predicate`] is as narrow as this.
    fn is_predicate(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Tag(_) => true,
            Self::SameTag(..) | Self::Row(..) => false,
            Self::And(left, right) | Self::Or(left, right) => {
                left.is_predicate() && right.is_predicate()
            }
        }
    }

    /// Whether it compares a tag with another one.
    fn compares_tags(&self) -> bool {
        match self {
            Self::SameTag(..) => true,
            Self::And(left, right) | Self::Or(left, right) => {
                left.compares_tags() || right.compares_tags()
            }
            Self::Constant(_) | Self::Tag(_) | Self::Row(..) => false,
        }
    }

    fn series(&self, series: &Series) -> Rows {
        let constant = |yes| if yes { Rows::All } else { Rows::None };
        match self {
            Self::Constant(yes) => constant(*yes),
            Self::Tag(predicate) => constant(matches(predicate, series)),
            Self::SameTag(left, right, equal) => {
                let (left, right) = (series.tag(left), series.tag(right));
                constant((!left.is_empty() && left == right) == *equal)
            }
            Self::Row(tree, false) => Rows::Some(Arc::clone(tree)),
            Self::Row(tree, true) => Rows::Some(Arc::new(tree.with_tags(series))),
            Self::And(left, right) => match (left.series(series), right.series(series)) {
                (Rows::None, _) | (_, Rows::None) => Rows::None,
                (Rows::All, one) | (one, Rows::All) => one,
                (Rows::Some(left), Rows::Some(right)) => {
                    Rows::Some(Arc::new(Tree::And(left, right)))
                }
            },
            Self::Or(left, right) => match (left.series(series), right.series(series)) {
                (Rows::All, _) | (_, Rows::All) => Rows::All,
                (Rows::None, one) | (one, Rows::None) => one,
                (Rows::Some(left), Rows::Some(right)) => {
                    Rows::Some(Arc::new(Tree::Or(left, right)))
                }
            },
        }
    }
}

/// Whether a predicate holds for a series.
fn matches(predicate: &TagPredicate, series: &Series) -> bool {
    match predicate {
        TagPredicate::All => true,
        TagPredicate::Equal(key, value) => series.tag(key) == value,
        TagPredicate::NotEqual(key, value) => series.tag(key) != value,
        TagPredicate::Match(key, regex) => regex.is_match(series.tag(key).as_bytes()),
        TagPredicate::NotMatch(key, regex) => !regex.is_match(series.tag(key).as_bytes()),
        TagPredicate::And(left, right) => matches(left, series) && matches(right, series),
        TagPredicate::Or(left, right) => matches(left, series) || matches(right, series),
    }
}

struct Compiler<'a> {
    measurement: &'a str,
    reading: TagReading,
    is_field: &'a dyn Fn(&str) -> bool,
    fields: Vec<String>,
}

impl Compiler<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node, QueryError> {
        match expr {
            Expr::Binary { op: Op::And, left, right } => {
                Ok(Node::And(Box::new(self.node(left)?), Box::new(self.node(right)?)))
            }
            Expr::Binary { op: Op::Or, left, right } => {
                Ok(Node::Or(Box::new(self.node(left)?), Box::new(self.node(right)?)))
            }
            Expr::Binary { op, left, right } => self.comparison(*op, left, right),
            Expr::Paren(inner) => self.node(inner),
            Expr::Boolean(value) => Ok(Node::Constant(*value)),
            _ => Ok(Node::Constant(false)),
        }
    }

    /// A comparison that the index can answer, or one for the rows (`idsForExpr`).
    fn comparison(&mut self, op: Op, left: &Expr, right: &Expr) -> Result<Node, QueryError> {
        let calculated = |expr: &Expr| matches!(expr, Expr::Binary { .. });
        let (name, other) = match (left, right) {
            _ if calculated(left) || calculated(right) => return self.row(op, left, right),
            (Expr::Reference { name, cast }, other) | (other, Expr::Reference { name, cast }) => {
                if name != "_name" && self.names_a_field(name, *cast) {
                    return self.row(op, left, right);
                }
                (name, other)
            }
            _ => return self.row(op, left, right),
        };
        if name == "_name" && matches!(other, Expr::String(_) | Expr::Regex(_)) {
            return self.of_measurement(op, other);
        }
        let key = name.clone();
        match (op, other) {
            (_, Expr::Reference { name, cast }) if self.names_a_field(name, *cast) => {
                self.row(op, left, right)
            }
            (Op::Equal, Expr::String(v)) => Ok(Node::Tag(TagPredicate::Equal(key, v.clone()))),
            (Op::NotEqual, Expr::String(v)) => {
                Ok(Node::Tag(TagPredicate::NotEqual(key, v.clone())))
            }
            (Op::EqualRegex, Expr::Regex(r)) => {
                Ok(Node::Tag(TagPredicate::Match(key, go_regex::compile(&r.0)?)))
            }
            (Op::NotEqualRegex, Expr::Regex(r)) => {
                Ok(Node::Tag(TagPredicate::NotMatch(key, go_regex::compile(&r.0)?)))
            }
            _ if self.reading == TagReading::Row => self.row(op, left, right),
            (_, Expr::Reference { name, .. }) if self.reading == TagReading::Presence => {
                let other = match op {
                    Op::Equal => present(name),
                    _ => TagPredicate::Equal(name.clone(), String::new()),
                };
                Ok(Node::Tag(TagPredicate::And(Box::new(present(&key)), Box::new(other))))
            }
            (_, Expr::String(v)) if self.reading == TagReading::Presence => {
                Ok(Node::Tag(TagPredicate::NotEqual(key, v.clone())))
            }
            (Op::Equal | Op::NotEqual, Expr::Reference { name, .. }) => {
                Ok(Node::SameTag(key, name.clone(), op == Op::Equal))
            }
            // That index knows no order of tags, and finds nothing.
            (_, Expr::String(_) | Expr::Regex(_) | Expr::Reference { .. }) => {
                Ok(Node::Constant(false))
            }
            _ => self.row(op, left, right),
        }
    }

    fn of_measurement(&self, op: Op, other: &Expr) -> Result<Node, QueryError> {
        let name = self.measurement;
        let yes = match (op, other) {
            (Op::Equal, Expr::String(text)) => name == text,
            (Op::NotEqual, Expr::String(text)) => name != text,
            (Op::EqualRegex, Expr::Regex(r)) => go_regex::compile(&r.0)?.is_match(name.as_bytes()),
            (Op::NotEqualRegex, Expr::Regex(r)) => {
                !go_regex::compile(&r.0)?.is_match(name.as_bytes())
            }
            _ => false,
        };
        Ok(Node::Constant(yes))
    }

    fn names_a_field(&self, name: &str, cast: Option<Cast>) -> bool {
        match cast {
            _ if self.reading == TagReading::Row => (self.is_field)(name),
            Some(Cast::Tag) => false,
            Some(_) => true,
            None => (self.is_field)(name),
        }
    }

    fn row(&mut self, op: Op, left: &Expr, right: &Expr) -> Result<Node, QueryError> {
        let mut names_tags = false;
        let left = Box::new(self.operand(left, &mut names_tags)?);
        let right = Box::new(self.operand(right, &mut names_tags)?);
        let row = Row::Binary(op, left, right, self.nulls());
        Ok(Node::Row(Arc::new(Tree::Row(row)), names_tags))
    }

    fn nulls(&self) -> Nulls {
        match self.reading {
            TagReading::Row => Nulls::FalseBesideTruths,
            TagReading::Value | TagReading::Presence => Nulls::Unequal,
        }
    }

    fn operand(&mut self, expr: &Expr, names_tags: &mut bool) -> Result<Row, QueryError> {
        Ok(match expr {
            Expr::Reference { name, cast } => {
                if !self.names_a_field(name, *cast) {
                    *names_tags = true;
                    return Ok(match self.reading {
                        TagReading::Row => Row::Dimension(name.clone()),
                        TagReading::Value | TagReading::Presence => Row::Tag(name.clone()),
                    });
                }
                let known = self.fields.iter().position(|field| field == name);
                let place = known.unwrap_or_else(|| {
                    self.fields.push(name.clone());
                    self.fields.len() - 1
                });
                Row::Column(place, cast.and_then(field_type))
            }
            Expr::Binary { op, left, right } => {
                let left = Box::new(self.operand(left, names_tags)?);
                let right = Box::new(self.operand(right, names_tags)?);
                Row::Binary(*op, left, right, self.nulls())
            }
            Expr::Paren(inner) => self.operand(inner, names_tags)?,
            Expr::Number(value) => Row::Float(*value),
            Expr::Integer(value) => Row::Integer(*value),
            Expr::Unsigned(value) => Row::Unsigned(*value),
            Expr::Boolean(value) => Row::Boolean(*value),
            Expr::String(text) => Row::String(Arc::from(text.as_str())),
            Expr::Regex(regex) => Row::Regex(compiled(&regex.0)?),
            Expr::Call { name, arguments } => {
                let mut inner = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    inner.push(self.operand(argument, names_tags)?);
                }
                let math = Math::named(name).filter(|math| math.arguments() == inner.len());
                math.map_or(Row::Null, |math| Row::Call(math, inner))
            }
            _ => Row::Null,
        })
    }
}

/// The type that a field is cast to.
fn field_type(cast: Cast) -> Option<FieldType> {
    match cast {
        Cast::Float => Some(FieldType::Float),
        Cast::Integer => Some(FieldType::Integer),
        Cast::Unsigned => Some(FieldType::Unsigned),
        Cast::String => Some(FieldType::String),
        Cast::Boolean => Some(FieldType::Boolean),
        Cast::Tag | Cast::AnyField => None,
    }
}

fn compiled(pattern: &str) -> Result<Arc<Regex>, QueryError> {
    go_regex::compile(pattern)
}
