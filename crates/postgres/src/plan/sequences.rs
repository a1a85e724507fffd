//! What a statement draws from sequences for certain, and whose last value it asks for.
//!
//! `currval` and `lastval` tell what the server's session has drawn, which may have been another
//! client's statement. They are the client's own only where a statement of its own has drawn before
//! on the same server connection.

use std::borrow::Cow;

use wire::sql::{Token, TokenKind};

use super::facts::Facts;
use super::kind::Kind;
use super::names::{name, words_of};

/// Sequences of a text of several statements that are told apart; of those beyond, nothing is
/// certain.
const NAMED_MAX: usize = 64;

/// What a statement has to do with sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Those that it draws from, whatever its values are, by their bare names; or by literals, in
    /// quotes, which mean the same for as long as names do.
    pub draws: Vec<Box<[u8]>>,
    /// It draws from one, which may be any.
    pub draws_any: bool,
    /// It may draw from some.
    pub may_draw: bool,
    /// Whose last value it asks for, that it has not drawn itself before.
    pub asks: Vec<Asks>,
    /// It asks behind a statement that may have drawn.
    pub asks_later: bool,
    /// It only keeps what asks, as the default of a column does: nothing is asked now.
    pub keeps_asking: bool,
    /// A text that it runs may ask for any.
    pub may_ask: bool,
}

/// Whose last value is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// `lastval()`: that of whichever was drawn from last.
    Any,
    /// `currval` of a sequence.
    Of {
        /// Its bare name, where that is known.
        sequence: Option<Box<[u8]>>,
        /// What it is called by, where that is a literal: in quotes.
        literal: Option<Box<[u8]>>,
    },
}

impl Asks {
    /// Whether it is told what the client itself has drawn: from these, and `drawn_any`, from any
    /// at all.
    #[must_use]
    pub fn is_met(&self, drawn: &[Box<[u8]>], drawn_any: bool) -> bool {
        match self {
            Self::Any => drawn_any,
            Self::Of { sequence, literal } => {
                sequence.iter().chain(literal).any(|known| drawn.contains(known))
            }
        }
    }
}

impl Sequences {
    /// Names may mean something else from now on.
    pub(super) fn names_change(&mut self) {
        self.draws.retain(|drawn| !is_literal(drawn));
    }

    /// What another statement adds that is run after these.
    pub(super) fn add(&mut self, next: Self) {
        self.asks_later |= self.may_draw && !next.asks.is_empty();
        if !next.asks.is_empty() {
            self.keeps_asking = next.keeps_asking && (self.keeps_asking || self.asks.is_empty());
        }
        let open = next
            .asks
            .into_iter()
            .filter(|asks| !asks.is_met(&self.draws, self.draws_any || !self.draws.is_empty()));
        for asks in open {
            match self.asks.len() {
                NAMED_MAX.. => self.asks[0] = Asks::Of { sequence: None, literal: None },
                _ if self.asks.contains(&asks) => {}
                _ => self.asks.push(asks),
            }
        }
        for draws in next.draws {
            if self.draws.len() < NAMED_MAX && !self.draws.contains(&draws) {
                self.draws.push(draws);
            }
        }
        self.draws_any |= next.draws_any;
        self.may_draw |= next.may_draw;
        self.may_ask |= next.may_ask;
    }
}

/// Whether a sequence that was drawn from is known by a literal.
#[must_use]
pub fn is_literal(drawn: &[u8]) -> bool {
    drawn.first() == Some(&b'\'')
}

/// What a statement of this kind has to do with sequences; and whether a text of the same normal
/// form is sure to have the same.
pub(super) fn find(kind: &Kind, tokens: &[Token<'_>], facts: &Facts) -> (Sequences, bool) {
    let mut found = Sequences { may_draw: !kind.is_followed(), ..Sequences::default() };
    let mut keep = true;
    let Some(first) = tokens.first() else { return (found, keep) };
    if first.is("do") {
        let asks: [&[u8]; 3] = [b"currval", b"lastval", b"execute"];
        found.may_ask = tokens.iter().flat_map(words_of).any(|word| asks.contains(&&*word));
    } else if first.is("insert") {
        found.draws = inserted(&tokens[1..], facts).unwrap_or_default();
    }
    let draws_at = drawing_depth(first, tokens, facts);
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        let behind = &tokens[at + 1..];
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        let asks = match name(token).as_deref() {
            Some(b"lastval") => Asks::Any,
            Some(b"currval") => {
                keep = false;
                asked(behind, facts)
            }
            Some(b"nextval") if draws_at == Some(depth) && is_whole_value(tokens, at) => {
                keep = false;
                found.draws_any = true;
                found.draws.extend(literal(behind));
                continue;
            }
            _ => continue,
        };
        if !asks.is_met(&found.draws, found.draws_any) {
            found.asks.push(asks);
        }
    }
    found.keeps_asking = !found.asks.is_empty() && is_kept(tokens);
    (found, keep)
}

/// Whether a function is among these that tells what was drawn.
pub(super) fn may_ask(tokens: &[Token<'_>]) -> bool {
    let asks = |token: &Token<'_>| {
        name(token).is_some_and(|name| matches!(&*name, b"currval" | b"lastval"))
    };
    tokens.iter().any(asks)
}

/// Whether a statement is sure to keep its expressions for later, and to compute none of them.
/// What is kept is known by the catalogue's facts (`asking` in `facts.sql`).
fn is_kept(tokens: &[Token<'_>]) -> bool {
    let Some((first, rest)) = tokens.split_first() else { return false };
    let computes = ["as", "select", "execute", "partition", "add", "type", "using", "attach"];
    let computes = || rest.iter().any(|token| token.is_any(&computes));
    if first.is("alter") {
        return rest.first().is_some_and(|what| what.is("table")) && !computes();
    }
    let before = ["or", "replace", "global", "local", "temp", "temporary", "unlogged", "recursive"];
    let what = rest.iter().find(|token| !token.is_any(&before));
    first.is("create")
        && what.is_some_and(|what| match what.is("table") {
            true => !computes(),
            false => what.is_any(&["view", "function", "procedure", "policy", "rule", "domain"]),
        })
}

/// How many parentheses are open where a value is computed once for certain: in the list of a
/// `SELECT` of nothing, and in rows of an `INSERT`.
fn drawing_depth(first: &Token<'_>, tokens: &[Token<'_>], facts: &Facts) -> Option<i32> {
    let conditional = [
        "from",
        "where",
        "limit",
        "offset",
        "fetch",
        "union",
        "except",
        "intersect",
        "having",
        "group",
        "with",
        "select",
        "conflict",
        "returning",
    ];
    let is_plain = !tokens.iter().skip(1).any(|token| token.is_any(&conditional));
    match is_plain {
        true if first.is("select") => Some(0),
        true if first.is("insert") && is_plain_table(tokens, facts) => Some(1),
        _ => None,
    }
}

/// Whether the call at `at`, of one literal, is a value by itself.
fn is_whole_value(tokens: &[Token<'_>], at: usize) -> bool {
    let begins = |token: &Token<'_>| {
        matches!(token.kind, TokenKind::Comma | TokenKind::Open) || token.is("select")
    };
    let ends = |token: &Token<'_>| {
        matches!(token.kind, TokenKind::Comma | TokenKind::Close) || token.is("as")
    };
    at.checked_sub(1).is_some_and(|before| begins(&tokens[before]))
        && matches!(
            &tokens[at + 1..],
            [open, text, close, rest @ ..] if is(open, TokenKind::Open)
                && is(text, TokenKind::String)
                && is(close, TokenKind::Close)
                && rest.first().is_none_or(ends)
        )
}

/// The literal in the parentheses behind a function, as it is written. It means the same sequence
/// for as long as names do.
fn literal(tokens: &[Token<'_>]) -> Option<Box<[u8]>> {
    let [open, text, rest @ ..] = tokens else { return None };
    let is_one = is(open, TokenKind::Open) && is(text, TokenKind::String);
    let closes = match rest {
        [cast, class, ..] if is(cast, TokenKind::Cast) => class.is("regclass"),
        [close, ..] => is(close, TokenKind::Close),
        [] => false,
    };
    (is_one && closes).then(|| text.text.into())
}

/// The sequence in the parentheses behind `currval`: `'name'`, or `pg_get_serial_sequence` of a
/// table and a column.
fn asked(tokens: &[Token<'_>], facts: &Facts) -> Asks {
    let literal = literal(tokens);
    let sequence = match tokens {
        [_, text, ..] if literal.is_some() => bare(text),
        [open, call, inner, table, comma, column, close, ..]
            if is(open, TokenKind::Open)
                && call.is("pg_get_serial_sequence")
                && is(inner, TokenKind::Open)
                && is(table, TokenKind::String)
                && is(comma, TokenKind::Comma)
                && is(column, TokenKind::String)
                && is(close, TokenKind::Close) =>
        {
            // A column's name is taken as it is, without folding.
            let column = &column.text[1..column.text.len() - 1];
            let drawn = bare(table).map(|table| facts.drawn(&table)).unwrap_or_default();
            drawn.iter().find(|(of, _)| **of == *column).map(|(_, sequence)| sequence.clone())
        }
        _ => None,
    };
    Asks::Of { sequence, literal }
}

fn is(token: &Token<'_>, kind: TokenKind) -> bool {
    token.kind == kind
}

/// The last part of a name in a literal, as the server folds it; `None` where that is not plain.
fn bare(literal: &Token<'_>) -> Option<Box<[u8]>> {
    let text = literal.text.strip_prefix(b"'")?.strip_suffix(b"'")?;
    let last = text.rsplit(|byte| *byte == b'.').next()?;
    let quoted = last.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match quoted {
        Some(name) => name.iter().all(plain).then(|| name.into()),
        None => last.iter().all(plain).then(|| last.to_ascii_lowercase().into()),
    }
}

/// The last part of the table's name in `INTO name`, and what is behind it.
fn into<'a, 't>(tokens: &'a [Token<'t>]) -> Option<(Cow<'t, [u8]>, &'a [Token<'t>])> {
    let [into, first, rest @ ..] = tokens else { return None };
    into.is("into").then_some(())?;
    let (mut table, mut rest) = (name(first)?, rest);
    while rest.first().is_some_and(|token| is(token, TokenKind::Dot)) {
        table = name(rest.get(1)?)?;
        rest = &rest[2..];
    }
    Some((table, rest))
}

/// Whether rows go into a table of which no rule says what becomes of them.
fn is_plain_table(tokens: &[Token<'_>], facts: &Facts) -> bool {
    into(&tokens[1..]).is_some_and(|(table, _)| facts.table(&table).is_some())
}

/// The sequences that `INTO table [(columns)] {VALUES | DEFAULT VALUES}` draws from: those of
/// columns that have no value.
fn inserted(tokens: &[Token<'_>], facts: &Facts) -> Option<Vec<Box<[u8]>>> {
    let (table, mut rest) = into(tokens)?;
    if let [r#as, _, behind @ ..] = rest
        && r#as.is("as")
    {
        rest = behind;
    }
    let drawn = facts.drawn(&table);
    if let [default, values, ..] = rest
        && default.is("default")
        && values.is("values")
    {
        return Some(drawn.iter().map(|(_, sequence)| sequence.clone()).collect());
    }
    is(rest.first()?, TokenKind::Open).then_some(())?;
    let end = rest.iter().position(|token| is(token, TokenKind::Close))?;
    let columns: Option<Vec<_>> = rest[1..end]
        .split(|token| is(token, TokenKind::Comma))
        .map(|column| if let [one] = column { name(one) } else { None })
        .collect();
    let columns = columns?;
    // Of a query there may be no rows.
    rest.get(end + 1)?.is("values").then_some(())?;
    let without = drawn.iter().filter(|(of, _)| !columns.iter().any(|column| **column == **of));
    Some(without.map(|(_, sequence)| sequence.clone()).collect())
}
