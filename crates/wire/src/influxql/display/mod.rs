//! The tree as text (`String()` of `influxql/ast.go`): read again, it is the same tree.

use std::fmt::{Display, Formatter, Result};

use super::ast::Op;

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
