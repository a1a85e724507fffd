//! The forms of transaction control that are known exactly (`TransactionStmt` of `gram.y`).

use wire::sql::{Token, TokenKind};

use super::kind::{BeginForm, Isolation, Kind};
use super::names::is_name;

/// What a statement is that begins with a word of transaction control; None if it is none of the
/// known forms.
pub(super) fn transaction(tokens: &[Token<'_>]) -> Option<Kind> {
    let (first, rest) = tokens.split_first()?;
    if first.is("begin") {
        begin(after_work(rest))
    } else if first.is("start") {
        let (transaction, modes) = rest.split_first()?;
        transaction.is("transaction").then(|| begin(modes))?
    } else if first.is_any(&["commit", "end"]) {
        Some(Kind::Commit { chain: chain(after_work(rest))? })
    } else if first.is("abort") {
        Some(Kind::Rollback { chain: chain(after_work(rest))? })
    } else if first.is("rollback") {
        let rest = after_work(rest);
        match rest {
            [to, names @ ..] if to.is("to") => savepoint(names, true, Kind::RollbackTo),
            _ => Some(Kind::Rollback { chain: chain(rest)? }),
        }
    } else if first.is("savepoint") {
        savepoint(rest, false, Kind::Savepoint)
    } else if first.is("release") {
        savepoint(rest, true, Kind::Release)
    } else if first.is("prepare") {
        match rest {
            [transaction, name] if transaction.is("transaction") && name.kind.is_literal() => {
                Some(Kind::PrepareTransaction)
            }
            _ => None,
        }
    } else {
        None
    }
}

/// Past `WORK` or `TRANSACTION`.
fn after_work<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    match tokens {
        [word, rest @ ..] if word.is_any(&["work", "transaction"]) => rest,
        _ => tokens,
    }
}

/// `[AND [NO] CHAIN]` and nothing else.
fn chain(tokens: &[Token<'_>]) -> Option<bool> {
    match tokens {
        [] => Some(false),
        [and, chain] if and.is("and") && chain.is("chain") => Some(true),
        [and, no, chain] if and.is("and") && no.is("no") && chain.is("chain") => Some(false),
        _ => None,
    }
}

/// A name, with the word `SAVEPOINT` before it where that may be left out.
fn savepoint(tokens: &[Token<'_>], word: bool, kind: Kind) -> Option<Kind> {
    match tokens {
        [name] if is_name(name) => Some(kind),
        [savepoint, name] if word && savepoint.is("savepoint") && is_name(name) => Some(kind),
        _ => None,
    }
}

fn begin(modes: &[Token<'_>]) -> Option<Kind> {
    Some(Kind::Begin(form(modes)?))
}

/// `transaction_mode_list`: modes with or without commas between them; the last of a kind counts.
fn form(mut rest: &[Token<'_>]) -> Option<BeginForm> {
    let mut form = BeginForm::default();
    let mut first = true;
    while !rest.is_empty() {
        if !first && rest[0].kind == TokenKind::Comma {
            rest = &rest[1..];
        }
        first = false;
        let words = |at: usize, word: &str| rest.get(at).is_some_and(|token| token.is(word));
        let taken = if words(0, "isolation") && words(1, "level") {
            let (isolation, taken) = level(rest.get(2..)?)?;
            form.isolation = Some(isolation);
            2 + taken
        } else if words(0, "read") && (words(1, "only") || words(1, "write")) {
            form.read_only = Some(words(1, "only"));
            2
        } else if words(0, "deferrable") {
            form.deferrable = Some(true);
            1
        } else if words(0, "not") && words(1, "deferrable") {
            form.deferrable = Some(false);
            2
        } else {
            return None;
        };
        rest = rest.get(taken..)?;
    }
    Some(form)
}

fn level(tokens: &[Token<'_>]) -> Option<(Isolation, usize)> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
    if is(0, "serializable") {
        Some((Isolation::Serializable, 1))
    } else if is(0, "repeatable") && is(1, "read") {
        Some((Isolation::RepeatableRead, 2))
    } else if is(0, "read") && is(1, "committed") {
        Some((Isolation::ReadCommitted, 2))
    } else if is(0, "read") && is(1, "uncommitted") {
        Some((Isolation::ReadUncommitted, 2))
    } else {
        None
    }
}
