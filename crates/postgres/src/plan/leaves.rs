//! What a statement may leave on the server's session: nothing, where that is proven.
//!
//! Whatever it names is looked up in the facts, which know by closure what all that bear the name
//! leave, in triggers, defaults, checks, rules, policies, casts and the texts of functions, too.
//! What is not known is not harmless: without facts nothing is proven, and neither is a change of
//! the catalogue.

use wire::sql::{Token, TokenKind};

use super::facts::Facts;
use super::kind::{Kind, Pin};
use super::names::{name, words_of};
use super::query;
use super::words;

/// What a statement may leave on the server's session, beside what Weir follows: settings that are
/// set by name, prepared statements, channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaves {
    /// It was proven to leave nothing.
    #[default]
    Nothing,
    /// What `DISCARD ALL` takes away.
    Some,
    /// What stays as long as the server's process: the seed of `random()`, libraries, connections
    /// of `dblink`, variables of other languages, replication slots and origins, a backup.
    Lasting,
}

/// Statements, beside queries and changes of data, whose names tell all that they run.
const TELLING: [&str; 9] =
    ["show", "declare", "fetch", "move", "close", "lock", "copy", "call", "checkpoint"];
/// What `EXPLAIN` may run that is neither a query nor a change of data.
const NOT_EXPLAINED: [&str; 4] = ["create", "execute", "declare", "refresh"];

/// What a statement of this kind leaves.
pub(super) fn of(kind: &Kind, tokens: &[Token<'_>], facts: &Facts) -> Leaves {
    match kind {
        Kind::Pins(pin) if is_block(tokens) => of_pin(*pin).max(of_block(tokens, facts)),
        _ if is_block(tokens) => of_block(tokens, facts),
        _ if kind.is_followed() => Leaves::Nothing,
        Kind::Pins(pin) => of_pin(*pin).max(named(tokens, facts)),
        Kind::Ddl(_) => Leaves::Some.max(named(tokens, facts)),
        Kind::Write | Kind::CopyIn | Kind::CopyOut { .. } => named(tokens, facts),
        Kind::Other if tells(tokens) => named(tokens, facts),
        Kind::Other => Leaves::Some.max(named(tokens, facts)),
        // What is left by several is asked of each of them.
        _ => Leaves::Some,
    }
}

/// Whether a statement that `leaves` this may use temporary tables: whatever may leave something,
/// unless it is known what.
pub(super) fn uses_temporary(
    kind: &Kind,
    leaves: Leaves,
    tokens: &[Token<'_>],
    facts: &Facts,
) -> bool {
    let tells = matches!(kind, Kind::Ddl(_) | Kind::Pins(Pin::AdvisoryLock));
    let is_told = || {
        let locks = |token: &Token<'_>| name(token).is_some_and(|name| super::traps::locks(&name));
        let others: Vec<_> = tokens.iter().filter(|token| !locks(token)).copied().collect();
        tells && !is_block(tokens) && named(&others, facts) == Leaves::Nothing
    };
    leaves != Leaves::Nothing && !is_told()
}

/// What a text leaves that is not looked into.
pub(super) fn of_text(facts: &Facts) -> Leaves {
    facts.text_leaves().max(Leaves::Some)
}

fn is_block(tokens: &[Token<'_>]) -> bool {
    tokens.first().is_some_and(|first| first.is("do"))
}

/// What the code of a `DO` block leaves: each word in it may name what it runs.
fn of_block(tokens: &[Token<'_>], facts: &Facts) -> Leaves {
    let leaves = tokens.iter().flat_map(words_of).map(|word| facts.leaves(&word));
    leaves.max().unwrap_or_default().max(of_text(facts))
}

fn of_pin(pin: Pin) -> Leaves {
    match pin {
        Pin::Library | Pin::Dblink | Pin::Seed | Pin::Replication => Leaves::Lasting,
        _ => Leaves::Some,
    }
}

fn tells(tokens: &[Token<'_>]) -> bool {
    let Some(first) = tokens.first() else { return true };
    if first.is("explain") {
        return !tokens.iter().any(|token| token.is_any(&NOT_EXPLAINED));
    }
    query::begins(tokens) || first.is_any(&TELLING)
}

/// What all that the statement names leaves.
fn named(tokens: &[Token<'_>], facts: &Facts) -> Leaves {
    if !facts.are_loaded() || facts.are_closed() {
        return of_text(facts);
    }
    let mut leaves = Leaves::Nothing;
    for (at, token) in tokens.iter().enumerate() {
        leaves = leaves.max(match token.kind {
            TokenKind::Word | TokenKind::Quoted => match name(token) {
                Some(name) if is_local_setting(&name, &tokens[at + 1..]) => Leaves::Nothing,
                Some(name) => facts.leaves(&name).max(of_call(&name, tokens, at, facts)),
                None => of_text(facts),
            },
            // A `!=` is looked up as what the server takes it for.
            TokenKind::Operator if token.text == b"!=" => facts.operator_leaves(b"<>"),
            TokenKind::Operator => facts.operator_leaves(token.text),
            TokenKind::UnicodeQuoted | TokenKind::Odd => of_text(facts),
            _ => Leaves::Nothing,
        });
        if leaves == Leaves::Lasting {
            break;
        }
    }
    leaves
}

/// What is called under a name that the facts do not know was made after they were loaded.
fn of_call(name: &[u8], tokens: &[Token<'_>], at: usize, facts: &Facts) -> Leaves {
    let opens = tokens.get(at + 1).is_some_and(|token| token.kind == TokenKind::Open);
    let defines = at
        .checked_sub(1)
        .is_some_and(|before| tokens[before].is_any(&["as", "with", "recursive", "into"]));
    let is_known = !opens
        || defines
        || facts.function(name).is_some()
        || facts.relation(name).is_some()
        || facts.type_named(name).is_some()
        || words::is_no_function(name)
        || words::is_syntax_before_parenthesis(name)
        || words::is_type_keyword(name);
    if is_known { Leaves::Nothing } else { of_text(facts) }
}

/// Whether `set_config` with these arguments sets something for the transaction alone.
fn is_local_setting(name: &[u8], behind: &[Token<'_>]) -> bool {
    name == super::traps::SET_CONFIG
        && behind.first().is_some_and(|open| open.kind == TokenKind::Open)
        && super::traps::is_local(&behind[1..])
}

/// Whether a statement sets something for its transaction by a function.
pub(super) fn sets_locally(tokens: &[Token<'_>]) -> bool {
    tokens.iter().enumerate().any(|(at, token)| {
        let of = name(token);
        of.is_some_and(|name| is_local_setting(&name, &tokens[at + 1..]))
    })
}
