//! Where in a query a token stands, as far as relations and functions have to be told apart.

/// What is between two parentheses, or the statement itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) clause: Clause,
    /// The parenthesis stands where a relation does: what is in it is a query or more relations.
    pub(super) relations: bool,
    pub(super) opener: Opener,
}

/// The part of a query that a token is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    /// Before the query's first word.
    Start,
    /// In the definitions of a `WITH`.
    With(With),
    /// Behind `SELECT`, among the output columns.
    Target,
    /// Behind `FROM`, where relations are named.
    From(From),
    /// Behind `UNION`, `INTERSECT` or `EXCEPT`: a query has to follow.
    SetOperation,
    /// An expression, or the rest of a query: no relation can be named here.
    Rest,
}

/// Where in `WITH name (columns) AS MATERIALIZED (query), ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    /// A name has to follow.
    Name,
    /// Between the name and its query.
    Named,
    /// Behind the query of a definition.
    Defined,
}

/// Where in `FROM relation alias JOIN relation ON condition, ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// A relation has to follow.
    Item,
    /// Behind a relation: an alias, a join or a comma.
    After,
    /// In the condition of a join.
    On,
}

/// What the parenthesis belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opener {
    /// `CAST (... AS type)`
    Cast,
    /// `EXTRACT`, `SUBSTRING`, `TRIM`, `OVERLAY`: `FROM` is between their arguments.
    ArgumentsWithFrom,
    Other,
}

impl Frame {
    pub(super) fn statement() -> Self {
        Self { clause: Clause::Start, relations: false, opener: Opener::Other }
    }

    /// Whether a query or list could end here.
    pub(super) fn may_end(&self) -> bool {
        match self.clause {
            Clause::Start => !self.relations,
            Clause::Target | Clause::Rest => true,
            Clause::From(from) => from != From::Item,
            Clause::With(_) | Clause::SetOperation => false,
        }
    }

    /// Whether a query begins with the next word.
    pub(super) fn may_begin_query(&self) -> bool {
        matches!(self.clause, Clause::Start | Clause::SetOperation | Clause::With(With::Defined))
    }
}
