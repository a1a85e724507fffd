//! Statements that change the catalogue, and what becomes of the facts.

use wire::sql::Token;

use super::kind::{Kind, Pin, Unsettles};
use super::names::name;
use super::sequences;

/// What may bring functions that are not known yet.
const CODE: [&str; 6] = ["extension", "function", "procedure", "language", "trusted", "procedural"];
/// What can be made anew without making anything that is known less harmless than it was.
const ADDING: [&str; 3] = ["table", "materialized", "sequence"];

/// Objects that no fact speaks of.
const APART: [&str; 19] = [
    "index",
    "unique",
    "statistics",
    "role",
    "user",
    "group",
    "database",
    "tablespace",
    "publication",
    "subscription",
    "collation",
    "text",
    "event",
    "system",
    "conversion",
    "default",
    "large",
    "server",
    "access",
];

/// What a statement is that begins with `CREATE`, `ALTER`, `DROP` and the like.
pub(super) fn classify(tokens: &[Token<'_>]) -> Kind {
    let Some((first, rest)) = tokens.split_first() else { return Kind::Other };
    if first.is("create") {
        return create(rest);
    }
    let what = rest.first();
    let is_apart = what.is_some_and(|what| what.is_any(&APART));
    let apart = first.is_any(&["grant", "revoke", "comment", "security", "reassign", "reindex"]);
    // `ALTER DATABASE x SET default_transaction_isolation`: what transactions are by default.
    let default = first.is("alter") && rest.iter().any(is_transaction_default);
    Kind::Ddl(match (is_apart || apart) && !default {
        true => Unsettles::Nothing,
        false if first.is("alter") && what.is_some_and(|what| what.is_any(&CODE)) => {
            Unsettles::Code
        }
        false => Unsettles::Changes,
    })
}

/// Whether it changes who may log in where, or with which settings.
pub(super) fn changes_logins(tokens: &[Token<'_>]) -> bool {
    let Some((first, rest)) = tokens.split_first() else { return false };
    if first.is_any(&["grant", "revoke"]) {
        // Of roles, or on databases.
        let on = rest.iter().position(|token| token.is("on"));
        return on.is_none_or(|at| rest.get(at + 1).is_some_and(|what| what.is("database")));
    }
    let of = ["role", "user", "group", "database", "system"];
    first.is_any(&["create", "alter", "drop"]) && rest.first().is_some_and(|what| what.is_any(&of))
}

/// The name of a setting that says what a transaction is if it does not say so itself.
fn is_transaction_default(token: &Token<'_>) -> bool {
    let prefix = b"default_transaction_";
    let name = name(token);
    name.is_some_and(|name| {
        name.get(..prefix.len()).is_some_and(|n| n.eq_ignore_ascii_case(prefix))
    })
}

fn create(rest: &[Token<'_>]) -> Kind {
    let mut rest = rest;
    let replaces = matches!(rest, [or, replace, ..] if or.is("or") && replace.is("replace"));
    if replaces {
        rest = &rest[2..];
    }
    loop {
        match rest {
            [scope, after @ ..] if scope.is_any(&["global", "local", "recursive", "unlogged"]) => {
                rest = after;
            }
            [temporary, ..] if temporary.is_any(&["temp", "temporary"]) => {
                return Kind::Pins(Pin::Temporary);
            }
            [what, ..] if what.is_any(&APART) => return Kind::Ddl(Unsettles::Nothing),
            // A partition or child of a table that is known may be of a kind that is not harmless;
            // and what refers to one with `ON DELETE CASCADE` or `SET NULL` changes along with it.
            // A column's default may ask for what others have drawn.
            [what, after @ ..]
                if what.is_any(&ADDING)
                    && !replaces
                    && !attaches(after)
                    && !sequences::may_ask(after) =>
            {
                return Kind::Ddl(Unsettles::Adds);
            }
            [what, ..] if what.is_any(&CODE) => return Kind::Ddl(Unsettles::Code),
            _ => return Kind::Ddl(Unsettles::Changes),
        }
    }
}

fn attaches(tokens: &[Token<'_>]) -> bool {
    tokens.iter().any(|token| token.is_any(&["inherits", "of", "cascade", "set"]))
}
