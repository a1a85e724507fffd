//! The tree as text (`String()` of `influxql/ast.go`): read again, it is the same tree.
//!
//! Where InfluxDB's own text would not come back, a few digits or quotes are added to it.

mod select;
mod show;
mod statement;

use std::fmt::{Display, Formatter, Result};

use super::ast::{Cast, Expr, Op, Regex, WildcardKind};
use super::duration;
use super::token::keyword;
use super::{quote_identifier, quote_string, time};

/// A name, in quotes where it needs them.
pub(super) struct Name<'a>(pub(super) &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(name) = self;
        let bare = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && keyword(name).is_none();
        if bare { f.write_str(name) } else { f.write_str(&quote_identifier(name)) }
    }
}

/// Items with commas between them.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, item) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// ` WORD item`, where there is one.
fn clause<T: Display>(f: &mut Formatter<'_>, word: &str, item: Option<T>) -> Result {
    item.map_or(Ok(()), |item| write!(f, " {word} {item}"))
}

/// ` WORD a, b`, where there are any.
fn list<T: Display>(f: &mut Formatter<'_>, word: &str, items: &[T]) -> Result {
    clause(f, word, Some(List(items)).filter(|_| !items.is_empty()))
}

/// ` WORD 5`, unless it is 0.
fn count(f: &mut Formatter<'_>, word: &str, count: u64) -> Result {
    clause(f, word, Some(count).filter(|count| *count > 0))
}

/// A number that is read as one with a point again.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let text = self.0.to_string();
        f.write_str(&text)?;
        if text.contains('.') || !self.0.is_finite() { Ok(()) } else { f.write_str(".0") }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Reference { name, cast: None } => Name(name).fmt(f),
            Self::Reference { name, cast: Some(cast) } => write!(f, "{}::{cast}", Name(name)),
            Self::Wildcard(None) => f.write_str("*"),
            Self::Wildcard(Some(WildcardKind::Tag)) => f.write_str("*::tag"),
            Self::Wildcard(Some(WildcardKind::Field)) => f.write_str("*::field"),
            Self::Regex(regex) => regex.fmt(f),
            // The one keyword that is a function.
            Self::Call { name, arguments } if name == "distinct" => {
                write!(f, "distinct({})", List(arguments))
            }
            Self::Call { name, arguments } => write!(f, "{}({})", Name(name), List(arguments)),
            Self::Binary { op, left, right } => match signed(*op, right) {
                Some((sign, right)) => write!(f, "{left} {op} {sign}{right}"),
                None => write!(f, "{left} {op} {right}"),
            },
            Self::Paren(inner) => write!(f, "({inner})"),
            Self::Distinct(name) => write!(f, "DISTINCT {}", Name(name)),
            Self::Number(value) => Number(*value).fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::String(text) => f.write_str(&quote_string(text)),
            Self::Boolean(value) => value.fmt(f),
            Self::Duration(duration_ns) => f.write_str(&duration::format(*duration_ns)),
            Self::Time(time_ns) => write!(f, "'{}'", time::rfc3339_short(*time_ns)),
        }
    }
}

/// The sign and the rest of an operand that was written with a sign, as in `a / -b`, where its
/// product with -1 would be taken apart.
fn signed(op: Op, right: &Expr) -> Option<(char, &Expr)> {
    let tight = matches!(op, Op::Multiply | Op::Divide | Op::Modulo | Op::BitwiseAnd);
    match right {
        Expr::Binary { op: Op::Multiply, left, right } if tight => match **left {
            Expr::Integer(-1) => Some(('-', right)),
            Expr::Integer(1) => Some(('+', right)),
            _ => None,
        },
        _ => None,
    }
}

impl Display for Regex {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "/{}/", self.0.replace('/', "\\/"))
    }
}

impl Display for Cast {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Float => "float",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned",
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Tag => "tag",
            Self::AnyField => "field",
        })
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Or => "OR",
            Self::And => "AND",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::EqualRegex => "=~",
            Self::NotEqualRegex => "!~",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::BitwiseOr => "|",
            Self::BitwiseXor => "^",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::BitwiseAnd => "&",
        })
    }
}

#[cfg(test)]
mod tests;
