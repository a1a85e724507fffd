//! The types of expressions, and InfluxDB's errors where two do not go together.

use wire::influxql::ast::{Cast, Expr, Op};

use super::Division;
use super::scalar::binary;
use crate::query::functions::text;
use crate::query::results::{QueryError, Value};
use crate::schema::FieldType;

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// That of a field.
    Field(FieldType),
    /// A tag's: a string that is no field.
    Tag,
}

impl Type {
    /// InfluxDB's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Field(kind) => kind.name(),
            Self::Tag => "tag",
        }
    }

    /// As a field's.
    pub fn field(self) -> FieldType {
        match self {
            Self::Field(kind) => kind,
            Self::Tag => FieldType::String,
        }
    }

    fn zero(self) -> Value {
        match self.field() {
            FieldType::Float => Value::Float(0.0),
            FieldType::Integer => Value::Integer(0),
            FieldType::Unsigned => Value::Unsigned(0),
            FieldType::String => Value::String("".into()),
            FieldType::Boolean => Value::Boolean(false),
        }
    }
}

/// The type of an expression (`TypeValuerEval` of InfluxQL's `ast.go`), `None` where it is not
/// known. `reference` gives that of a tag or field without a cast, in whatever is selected from.
///
/// # Errors
/// When an operation has two types that do not go together.
pub fn type_of(
    expr: &Expr,
    reference: &dyn Fn(&str) -> Option<Type>,
) -> Result<Option<Type>, QueryError> {
    let field = |kind| Ok(Some(Type::Field(kind)));
    match expr {
        Expr::Reference { name, cast } => Ok(match cast {
            None | Some(Cast::AnyField) => reference(name),
            Some(Cast::Tag) => Some(Type::Tag),
            Some(Cast::Float) => Some(Type::Field(FieldType::Float)),
            Some(Cast::Integer) => Some(Type::Field(FieldType::Integer)),
            Some(Cast::Unsigned) => Some(Type::Field(FieldType::Unsigned)),
            Some(Cast::String) => Some(Type::Field(FieldType::String)),
            Some(Cast::Boolean) => Some(Type::Field(FieldType::Boolean)),
        }),
        Expr::Paren(inner) => type_of(inner, reference),
        Expr::Number(_) => field(FieldType::Float),
        Expr::Integer(_) => field(FieldType::Integer),
        Expr::Unsigned(_) => field(FieldType::Unsigned),
        Expr::String(_) => field(FieldType::String),
        Expr::Boolean(_) => field(FieldType::Boolean),
        Expr::Distinct(name) => Ok(reference(name)),
        Expr::Call { name, arguments } => {
            let types: Result<Vec<_>, _> =
                arguments.iter().map(|argument| type_of(argument, reference)).collect();
            Ok(call(name, types?.first().copied().flatten()))
        }
        Expr::Binary { op, left, right } => {
            let (a, b) = (type_of(left, reference)?, type_of(right, reference)?);
            operation(expr, *op, (left, a), (right, b))
        }
        Expr::Wildcard(_) | Expr::Regex(_) | Expr::Duration(_) | Expr::Time(_) => Ok(None),
    }
}

/// The type of a call. Those that InfluxDB does not list have that of their argument, the
/// mathematical functions among them.
fn call(name: &str, first: Option<Type>) -> Option<Type> {
    let kind = match name {
        "mean" | "median" | "integral" | "stddev" | "derivative" => FieldType::Float,
        "non_negative_derivative" | "moving_average" => FieldType::Float,
        "holt_winters" | "holt_winters_with_fit" => FieldType::Float,
        "count" | "elapsed" => FieldType::Integer,
        _ => return first,
    };
    Some(Type::Field(kind))
}

fn is_literal(expr: &Expr) -> bool {
    let number = matches!(expr, Expr::Number(_) | Expr::Integer(_) | Expr::Unsigned(_));
    let other = matches!(expr, Expr::String(_) | Expr::Boolean(_) | Expr::Regex(_));
    number || other || matches!(expr, Expr::Duration(_) | Expr::Time(_))
}

fn operation(
    expr: &Expr,
    op: Op,
    (left, a): (&Expr, Option<Type>),
    (right, b): (&Expr, Option<Type>),
) -> Result<Option<Type>, QueryError> {
    let fail = |why: String| Err(QueryError(format!("type error: {}: {why}", text(expr))));
    let (unsigned, integer) =
        (Some(Type::Field(FieldType::Unsigned)), Some(Type::Field(FieldType::Integer)));
    let mixed = if a == unsigned && b == integer {
        Some((left, right))
    } else if a == integer && b == unsigned {
        Some((right, left))
    } else {
        None
    };
    if let Some((unsigned, integer)) = mixed {
        if is_literal(unsigned) {
            return fail(format!("cannot use {op} with an integer and unsigned literal"));
        } else if !is_literal(integer) {
            return fail(format!(
                "cannot use {op} between an integer and unsigned, an explicit cast is required"
            ));
        }
    }
    let (Some(a), Some(b)) = (a, b) else { return Ok(a.or(b)) };
    let kind = match binary(op, &a.zero(), &b.zero(), Division::Integer) {
        Value::Float(_) => FieldType::Float,
        Value::Integer(_) | Value::Time(_) => FieldType::Integer,
        Value::Unsigned(_) => FieldType::Unsigned,
        Value::String(_) => FieldType::String,
        Value::Boolean(_) => FieldType::Boolean,
        Value::Null => {
            return fail(format!("incompatible types: {} and {}", a.name(), b.name()));
        }
    };
    Ok(Some(Type::Field(kind)))
}
