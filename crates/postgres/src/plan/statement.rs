//! From a text to what it is: cut into statements, each known by its first words.

use wire::sql::{Lexer, Strings, Token, TokenKind, statements};

use super::contains::Contains;
use super::effects::Effects;
use super::facts::{Facts, Mark};
use super::kind::{Kind, Pin};
use super::names::name;
use super::planner::Scope;
use super::reason::Reason;
use super::{block, modes, point, proof, query, schema_change, session, setting, traps};

/// Tokens of one statement that are looked at; a longer one is not a proven read.
pub(super) const TOKENS_MAX: usize = 8192;

/// What a text is, and whether another text of the same normal form is sure to be the same.
pub(super) struct Classified {
    pub(super) found: StatementTraits,
    pub(super) keep: bool,
}

/// What a statement is.
pub(super) struct StatementTraits {
    pub(super) kind: Kind,
    pub(super) reason: Reason,
    /// The same as [`super::Plan::steady`].
    pub(super) steady: bool,
    /// Whether it is a point statement, and which.
    pub(super) point: Option<point::PointStatement>,
    /// What it does to the session.
    pub(super) effects: Effects,
}

impl StatementTraits {
    /// What is not a steady read and no point statement.
    pub(super) fn of(kind: Kind, reason: Reason) -> Self {
        Self { kind, reason, steady: false, point: None, effects: Effects::default() }
    }
}

/// What `sql` is. `facts` prove its reads.
pub(super) fn classify_text(sql: &[u8], scope: Scope, facts: &Facts) -> Classified {
    let unsure = scope.unsure_encoding && !sql.is_ascii();
    let mut statements = statements(sql, scope.strings);
    let mut tokens = Vec::new();
    let mut first: Option<Classified> = None;
    let mut contains = Contains::default();
    let (mut several, mut effects) = (false, Effects::default());
    while statements.next_into(&mut tokens, TOKENS_MAX) {
        let mut next = one(&tokens, scope, unsure, facts);
        if tokens.len() > TOKENS_MAX {
            // Not all of it was looked at.
            if !matches!(next.found.kind, Kind::Pins(_))
                && let Some(pin) = long(sql, scope, &tokens, facts)
            {
                next.found.kind = Kind::Pins(pin);
            }
            next.found.effects = next.found.effects.or_unknown(facts);
        }
        effects.add(next.found.effects.clone());
        contains = contains.with(Contains::of(&next.found.kind));
        match first {
            None => first = Some(next),
            Some(_) => several = true,
        }
    }
    match first {
        // What follows may depend on what a constant in `SET` said.
        Some(_) if several => {
            let found = StatementTraits::of(Kind::Several(contains), Reason::Several);
            Classified { found: StatementTraits { effects, ..found }, keep: false }
        }
        Some(one) => one,
        None => {
            Classified { found: StatementTraits::of(Kind::Empty, Reason::NotAQuery), keep: true }
        }
    }
}

/// What a statement that is not kept whole may leave on the session; all of the text is looked at.
fn long(sql: &[u8], scope: Scope, tokens: &[Token<'_>], facts: &Facts) -> Option<Pin> {
    let is_query = query::begins(tokens);
    traps::pin_of_long_text(Lexer::new(sql, scope.strings), is_query, facts)
}

fn one(tokens: &[Token<'_>], scope: Scope, unsure: bool, facts: &Facts) -> Classified {
    // What a constant in them says makes them what they are.
    let keep = !tokens.first().is_some_and(|first| first.is_any(&["set", "reset", "do"]));
    // A backslash can be half a character, and then escapes nothing: where strings end is unknown.
    let escapes = scope.strings == Strings::Backslash
        || tokens
            .iter()
            .any(|token| matches!(token.kind, TokenKind::EscapeString | TokenKind::Odd));
    if unsure && escapes {
        let found = StatementTraits::of(Kind::Pins(Pin::Setting), Reason::Encoding);
        let effects = Effects::default().or_unknown(facts);
        return Classified { found: StatementTraits { effects, ..found }, keep: false };
    }
    let mut found = find(tokens, facts);
    let (effects, keeps) = Effects::of(&found.kind, tokens, facts);
    if found.kind == Kind::Read && (unsure || scope.strings == Strings::Backslash) {
        let effects = if unsure { effects.or_unknown(facts) } else { effects };
        let found = StatementTraits::of(Kind::Other, Reason::Encoding);
        return Classified { found: StatementTraits { effects, ..found }, keep: false };
    }
    found.effects = effects;
    if matches!(found.kind, Kind::Read | Kind::Write) {
        found.point = point::find(tokens, facts);
    }
    Classified { found, keep: keep && keeps && !unsure }
}

fn find(tokens: &[Token<'_>], facts: &Facts) -> StatementTraits {
    let Some(first) = tokens.first() else {
        return StatementTraits::of(Kind::Empty, Reason::NotAQuery);
    };
    if let Some(kind) = modes::transaction(tokens) {
        return StatementTraits::of(kind, Reason::NotAQuery);
    }
    if first.is_any(&["set", "reset"]) {
        return StatementTraits::of(setting::classify(tokens), Reason::NotAQuery);
    }
    // Wherever it stands, and whatever the statement is besides.
    if let Some(pin) = traps::pin(tokens, facts) {
        return StatementTraits::of(Kind::Pins(pin), Reason::SessionState);
    }
    if first.is("do")
        && let Some(pin) = block::pin(tokens, facts)
    {
        return StatementTraits::of(Kind::Pins(pin), Reason::SessionState);
    }
    if first.is("show") {
        return StatementTraits::of(Kind::Other, Reason::Show);
    }
    if query::begins(tokens) {
        return query::classify(tokens, facts);
    }
    let kind = match changing(first, tokens) {
        Kind::CopyOut { .. } => Kind::CopyOut { may_write: copy_may_write(tokens, facts) },
        kind => kind,
    };
    StatementTraits::of(kind, Reason::NotAQuery)
}

/// Whether a `COPY ... TO STDOUT` may change data: it copies a query that is not proven to be a
/// read, or a relation that a policy of calls something volatile.
fn copy_may_write(tokens: &[Token<'_>], facts: &Facts) -> bool {
    if !tokens.get(1).is_some_and(|token| token.kind == TokenKind::Open) {
        let is_unsafe = |name: &[u8]| facts.relation(name) == Some(Mark::Unsafe);
        return tokens.iter().any(|token| name(token).is_some_and(|name| is_unsafe(&name)));
    }
    let mut depth = 0usize;
    let end = tokens.iter().skip(1).position(|token| {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let query = end.and_then(|end| tokens.get(2..end + 1));
    query.is_none_or(|query| proof::prove(query, facts).is_err())
}

/// Statements that are no queries.
fn changing(first: &Token<'_>, tokens: &[Token<'_>]) -> Kind {
    if first.is_any(&["insert", "update", "delete", "merge", "truncate"]) {
        return Kind::Write;
    }
    if let Some(kind) = session::classify(tokens) {
        return kind;
    }
    let ddl = [
        "create", "alter", "drop", "grant", "revoke", "comment", "security", "reassign", "import",
        "reindex",
    ];
    if first.is_any(&ddl) { schema_change::classify(tokens) } else { Kind::Other }
}
