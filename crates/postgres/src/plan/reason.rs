//! Why a statement does not ride.

/// Why a statement is not a proven read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It is a proven read.
    Proven,
    /// It does not begin as a query does.
    NotAQuery,
    /// More than one statement.
    Several,
    /// It locks rows: `FOR UPDATE`, `FOR SHARE`.
    RowLock,
    /// It has the word `INTO`.
    Into,
    /// It has `INSERT`, `UPDATE`, `DELETE` or `MERGE` in it.
    DataChange,
    /// It calls a function that is volatile, or that calls one.
    VolatileFunction,
    /// It calls a function that is not known.
    UnknownFunction,
    /// It reads what calls something volatile, or what is not on every server: a view, a foreign
    /// table, row security, an unlogged table.
    UnsafeRelation,
    /// It reads a relation that is not known.
    UnknownRelation,
    /// It uses an operator that is volatile.
    VolatileOperator,
    /// It uses an operator that is not known.
    UnknownOperator,
    /// It names a type whose conversion calls something volatile.
    UnsafeType,
    /// `x.y`, where `y` may be a volatile function of `x`.
    Attribute,
    /// It leaves something on the session.
    SessionState,
    /// `SHOW`, which tells of the session.
    Show,
    /// `EXPLAIN` that runs the statement, or of what is not a query.
    Explain,
    /// Its structure is not understood.
    Structure,
    /// Text that is not a token, or identifiers as `U&"..."` or of more than 63 bytes.
    OddText,
    /// Too long to be looked at.
    TooLong,
    /// The session's strings or encoding make its text unsure.
    Encoding,
    /// The catalogue's facts are not known.
    NoFacts,
    /// Something in the catalogue makes that nothing can be proven.
    Catalogue,
    /// It was taken for a read, and a replica refused it since it writes.
    Refuted,
}

impl Reason {
    /// Every reason, in the order of the variants.
    pub const ALL: [Self; 24] = [
        Self::Proven,
        Self::NotAQuery,
        Self::Several,
        Self::RowLock,
        Self::Into,
        Self::DataChange,
        Self::VolatileFunction,
        Self::UnknownFunction,
        Self::UnsafeRelation,
        Self::UnknownRelation,
        Self::VolatileOperator,
        Self::UnknownOperator,
        Self::UnsafeType,
        Self::Attribute,
        Self::SessionState,
        Self::Show,
        Self::Explain,
        Self::Structure,
        Self::OddText,
        Self::TooLong,
        Self::Encoding,
        Self::NoFacts,
        Self::Catalogue,
        Self::Refuted,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::NotAQuery => "not_a_query",
            Self::Several => "several",
            Self::RowLock => "row_lock",
            Self::Into => "into",
            Self::DataChange => "data_change",
            Self::VolatileFunction => "volatile_function",
            Self::UnknownFunction => "unknown_function",
            Self::UnsafeRelation => "unsafe_relation",
            Self::UnknownRelation => "unknown_relation",
            Self::VolatileOperator => "volatile_operator",
            Self::UnknownOperator => "unknown_operator",
            Self::UnsafeType => "unsafe_type",
            Self::Attribute => "attribute",
            Self::SessionState => "session_state",
            Self::Show => "show",
            Self::Explain => "explain",
            Self::Structure => "structure",
            Self::OddText => "odd_text",
            Self::TooLong => "too_long",
            Self::Encoding => "encoding",
            Self::NoFacts => "no_facts",
            Self::Catalogue => "catalogue",
            Self::Refuted => "refuted",
        }
    }
}
