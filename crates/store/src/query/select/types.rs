//! The types of columns before there is a value.

use wire::influxql::ast::{Cast, Expr, Op};

use super::expressions::is_literal;
use crate::query::functions::text;
use crate::refusal::QueryError;
use crate::schema::FieldType;

/// A type; `None` where it is not known.
pub(super) type Type = Option<Cast>;

/// The type of a field as a type of InfluxQL.
pub(super) fn of_field(of: FieldType) -> Cast {
    match of {
        FieldType::Float => Cast::Float,
        FieldType::Integer => Cast::Integer,
        FieldType::Unsigned => Cast::Unsigned,
        FieldType::String => Cast::String,
        FieldType::Boolean => Cast::Boolean,
    }
}

/// The type of the values of a column.
pub(super) fn values(of: Type) -> Option<FieldType> {
    match of? {
        Cast::Float => Some(FieldType::Float),
        Cast::Integer => Some(FieldType::Integer),
        Cast::Unsigned => Some(FieldType::Unsigned),
        Cast::String | Cast::Tag => Some(FieldType::String),
        Cast::Boolean => Some(FieldType::Boolean),
        Cast::AnyField => None,
    }
}

/// Which type wins where sources differ: the greater one.
pub(super) fn rank(of: Type) -> u8 {
    match of {
        None => 0,
        Some(Cast::AnyField) => 1,
        Some(Cast::Tag) => 2,
        Some(Cast::Boolean) => 3,
        Some(Cast::String) => 4,
        Some(Cast::Unsigned) => 5,
        Some(Cast::Integer) => 6,
        Some(Cast::Float) => 7,
    }
}

/// The one that wins.
pub(super) fn wider(a: Type, b: Type) -> Type {
    if rank(b) > rank(a) { b } else { a }
}

/// The order of columns of one name in `*`.
pub(super) fn order(of: Type) -> u8 {
    match of {
        None => 0,
        Some(Cast::Float) => 1,
        Some(Cast::Integer) => 2,
        Some(Cast::String) => 3,
        Some(Cast::Boolean) => 4,
        Some(Cast::Tag) => 7,
        Some(Cast::AnyField) => 8,
        Some(Cast::Unsigned) => 9,
    }
}

fn word(of: Type) -> &'static str {
    match of {
        None => "unknown",
        Some(Cast::Float) => "float",
        Some(Cast::Integer) => "integer",
        Some(Cast::Unsigned) => "unsigned",
        Some(Cast::String) => "string",
        Some(Cast::Boolean) => "boolean",
        Some(Cast::Tag) => "tag",
        Some(Cast::AnyField) => "field",
    }
}

/// What is known where a type is asked for.
pub(super) struct Types<'a> {
    /// The type of a name that carries none.
    pub(super) of_name: &'a dyn Fn(&str) -> Result<Type, QueryError>,
}

impl Types<'_> {
    /// The type of an expression.
    ///
    /// # Errors
    /// When types do not fit together.
    pub(super) fn of(&self, expr: &Expr) -> Result<Type, QueryError> {
        match expr {
            Expr::Reference { cast: known @ Some(cast), .. } if *cast != Cast::AnyField => {
                Ok(*known)
            }
            Expr::Reference { name, .. } => (self.of_name)(name),
            Expr::Call { name, arguments } => {
                let types = arguments.iter().map(|argument| self.of(argument));
                self.of_call(name, &types.collect::<Result<Vec<_>, _>>()?)
            }
            Expr::Binary { op, left, right } => self.of_binary(expr, *op, left, right),
            Expr::Paren(inner) => self.of(inner),
            Expr::Number(_) => Ok(Some(Cast::Float)),
            Expr::Integer(_) => Ok(Some(Cast::Integer)),
            Expr::Unsigned(_) => Ok(Some(Cast::Unsigned)),
            Expr::String(_) => Ok(Some(Cast::String)),
            Expr::Boolean(_) => Ok(Some(Cast::Boolean)),
            _ => Ok(None),
        }
    }

    fn of_call(&self, name: &str, arguments: &[Type]) -> Result<Type, QueryError> {
        let first = arguments.first().copied().flatten();
        Ok(match name {
            "mean"
            | "median"
            | "integral"
            | "stddev"
            | "derivative"
            | "non_negative_derivative"
            | "moving_average"
            | "holt_winters"
            | "holt_winters_with_fit" => Some(Cast::Float),
            "count" | "elapsed" => Some(Cast::Integer),
            // Math functions as well, in InfluxDB too.
            _ => first,
        })
    }

    fn of_binary(
        &self,
        whole: &Expr,
        op: Op,
        left: &Expr,
        right: &Expr,
    ) -> Result<Type, QueryError> {
        let (a, b) = (self.of(left)?, self.of(right)?);
        let signs = match (a, b) {
            (Some(Cast::Unsigned), Some(Cast::Integer)) => Some((left, right)),
            (Some(Cast::Integer), Some(Cast::Unsigned)) => Some((right, left)),
            _ => None,
        };
        let sign = symbol(op);
        if let Some((unsigned, integer)) = signs {
            if is_literal(unsigned) {
                let what = format!("cannot use {sign} with an integer and unsigned literal");
                return Err(mismatch(whole, &what));
            }
            if !is_literal(integer) {
                let what = format!(
                    "cannot use {sign} between an integer and unsigned, an explicit cast is \
                     required"
                );
                return Err(mismatch(whole, &what));
            }
        }
        if a.is_none() || b.is_none() {
            return Ok(a.or(b));
        }
        let of = result(op, a, b);
        if of.is_none() {
            let what = format!("incompatible types: {} and {}", word(a), word(b));
            return Err(mismatch(whole, &what));
        }
        Ok(of)
    }
}

fn is_number(of: Type) -> bool {
    matches!(of, None | Some(Cast::Float | Cast::Integer | Cast::Unsigned))
}

fn mismatch(whole: &Expr, what: &str) -> QueryError {
    QueryError(format!("type error: {}: {what}", text(whole)))
}

/// The type of an operation on two known types; `None` where it cannot be done.
fn result(op: Op, a: Type, b: Type) -> Type {
    use Op::{
        Add, And, BitwiseAnd, BitwiseOr, BitwiseXor, Divide, Equal, Greater, GreaterOrEqual, Less,
        LessOrEqual, Modulo, Multiply, NotEqual, Or, Subtract,
    };
    let truth = Some(Cast::Boolean);
    match op {
        Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual => truth,
        And | Or if a == truth => truth,
        BitwiseAnd | BitwiseOr | BitwiseXor => match (a, b) {
            (Some(Cast::Boolean), _) => truth,
            (Some(Cast::Integer), Some(Cast::Integer)) => a,
            (Some(Cast::Integer | Cast::Unsigned), Some(Cast::Integer | Cast::Unsigned)) => {
                Some(Cast::Unsigned)
            }
            _ => None,
        },
        Add | Subtract | Multiply | Divide | Modulo if is_number(a) && is_number(b) => {
            if a == Some(Cast::Float) || b == Some(Cast::Float) {
                Some(Cast::Float)
            } else if a == b {
                a
            } else {
                Some(Cast::Unsigned)
            }
        }
        _ => None,
    }
}

fn symbol(op: Op) -> &'static str {
    match op {
        Op::Or => "OR",
        Op::And => "AND",
        Op::Equal => "=",
        Op::NotEqual => "!=",
        Op::EqualRegex => "=~",
        Op::NotEqualRegex => "!~",
        Op::Less => "<",
        Op::LessOrEqual => "<=",
        Op::Greater => ">",
        Op::GreaterOrEqual => ">=",
        Op::Add => "+",
        Op::Subtract => "-",
        Op::BitwiseOr => "|",
        Op::BitwiseXor => "^",
        Op::Multiply => "*",
        Op::Divide => "/",
        Op::Modulo => "%",
        Op::BitwiseAnd => "&",
    }
}
