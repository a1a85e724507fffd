//! Expressions.

use super::Regex;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A name with the type said behind `::`.
    Reference {
        /// The tag or field.
        name: String,
        /// `::float` and so on.
        cast: Option<Cast>,
    },
    /// `*`, `*::field`, `*::tag`.
    Wildcard(Option<WildcardKind>),
    /// `/regex/`.
    Regex(Regex),
    /// `name(arguments)`; the name in lower case.
    Call {
        /// The function.
        name: String,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// `left op right`.
    Binary {
        /// Which operation.
        op: Op,
        /// Left.
        left: Box<Expr>,
        /// Right.
        right: Box<Expr>,
    },
    /// `( ... )`.
    Paren(Box<Expr>),
    /// `DISTINCT field`, without brackets.
    Distinct(String),
    /// A number with a point.
    Number(f64),
    /// A whole number.
    Integer(i64),
    /// A whole number past int64.
    Unsigned(u64),
    /// `'text'`; what looks like a time is for the reader to see.
    String(String),
    /// `true`, `false`.
    Boolean(bool),
    /// `1h30m`, nanoseconds.
    Duration(i64),
    /// A bound parameter or rewritten `now()`: nanoseconds since 1970.
    Time(i64),
}

impl Expr {
    /// The Go type that stands for it in InfluxDB's syntax tree, as errors name it.
    #[must_use]
    pub fn go_type(&self) -> &'static str {
        match self {
            Self::Reference { .. } => "*influxql.VarRef",
            Self::Wildcard(_) => "*influxql.Wildcard",
            Self::Regex(_) => "*influxql.RegexLiteral",
            Self::Call { .. } => "*influxql.Call",
            Self::Binary { .. } => "*influxql.BinaryExpr",
            Self::Paren(_) => "*influxql.ParenExpr",
            Self::Distinct(_) => "*influxql.Distinct",
            Self::Number(_) => "*influxql.NumberLiteral",
            Self::Integer(_) => "*influxql.IntegerLiteral",
            Self::Unsigned(_) => "*influxql.UnsignedLiteral",
            Self::String(_) => "*influxql.StringLiteral",
            Self::Boolean(_) => "*influxql.BooleanLiteral",
            Self::Duration(_) => "*influxql.DurationLiteral",
            Self::Time(_) => "*influxql.TimeLiteral",
        }
    }
}

/// `::type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// `::float`.
    Float,
    /// `::integer`.
    Integer,
    /// `::unsigned`.
    Unsigned,
    /// `::string`.
    String,
    /// `::boolean`.
    Boolean,
    /// `::tag`.
    Tag,
    /// `::field`.
    AnyField,
}

/// `*::tag` or `*::field`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WildcardKind {
    /// Tags only.
    Tag,
    /// Fields only.
    Field,
}

/// Operations, those that bind tighter last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each says what it is")]
pub enum Op {
    Or,
    And,
    Equal,
    NotEqual,
    EqualRegex,
    NotEqualRegex,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    BitwiseOr,
    BitwiseXor,
    Multiply,
    Divide,
    Modulo,
    BitwiseAnd,
}
