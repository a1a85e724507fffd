//! Expressions of conditions and `SELECT` lists.

use super::Regex;

/// A node of an expression's tree.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named as in the syntax above them")]
pub enum Expr {
    /// A name with the type said behind `::`.
    Reference {
        /// The tag or field.
        name: String,
        /// `::float` and so on.
        cast: Option<Cast>,
    },
    /// `*`, `*::field` or `*::tag`.
    Wildcard(Option<WildcardKind>),
    /// `/regex/`.
    Regex(Regex),
    /// `name(arguments)`; the name in lower case.
    Call { name: String, arguments: Vec<Expr> },
    /// `left op right`.
    Binary { op: Op, left: Box<Expr>, right: Box<Expr> },
    /// `( ... )`.
    Paren(Box<Expr>),
    /// `DISTINCT field`, without brackets.
    Distinct(String),
    /// A number with a point.
    Number(f64),
    /// An integer that fits into int64.
    Integer(i64),
    /// A whole number past int64.
    Unsigned(u64),
    /// `'text'`; what looks like a time is for the reader to see.
    String(String),
    /// `true` or `false`, in any case.
    Boolean(bool),
    /// A duration such as `1h30m`, in nanoseconds.
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

/// Which columns a `*` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WildcardKind {
    /// `*::tag` stands for no fields.
    Tag,
    /// `*::field` stands for no tags.
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
