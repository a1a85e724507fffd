//! What leaves something on the server's session wherever in a statement it stands.

use wire::sql::{Token, TokenKind};

use super::facts::Facts;
use super::kind::Pin;
use super::names::{is_name, name};

/// Functions that leave something on the session, and what. Advisory locks of a transaction
/// (`pg_advisory_xact_lock`) are gone with it.
const FUNCTIONS: [(&[u8], Pin); 18] = [
    (b"pg_advisory_lock", Pin::AdvisoryLock),
    (b"pg_advisory_lock_shared", Pin::AdvisoryLock),
    (b"pg_try_advisory_lock", Pin::AdvisoryLock),
    (b"pg_try_advisory_lock_shared", Pin::AdvisoryLock),
    (b"set_config", Pin::Setting),
    (b"setseed", Pin::Seed),
    (b"dblink_connect", Pin::Dblink),
    (b"dblink_connect_u", Pin::Dblink),
    (b"pg_create_physical_replication_slot", Pin::Replication),
    (b"pg_create_logical_replication_slot", Pin::Replication),
    (b"pg_copy_physical_replication_slot", Pin::Replication),
    (b"pg_copy_logical_replication_slot", Pin::Replication),
    (b"pg_replication_origin_session_setup", Pin::Replication),
    (b"pg_start_backup", Pin::Replication),
    (b"pg_backup_start", Pin::Replication),
    (b"set_limit", Pin::Setting),
    (b"lt_set_config", Pin::Setting),
    (b"pg_stat_force_next_flush", Pin::Setting),
];

/// What the statement leaves on the session by a function that it names or by an object in the
/// temporary schema. A function of a user's may do so too: the facts know what its text tells.
pub(super) fn pin(tokens: &[Token<'_>], facts: &Facts) -> Option<Pin> {
    tokens.iter().enumerate().filter(|(_, token)| is_name(token)).find_map(|(at, token)| {
        let next = tokens.get(at + 1).map(|next| next.kind);
        if token.kind == TokenKind::UnicodeQuoted {
            // Its name is not decoded, and could be one of those.
            let uses = matches!(next, Some(TokenKind::Open | TokenKind::Dot));
            return uses.then_some(Pin::Setting);
        }
        let name = name(token)?;
        if is_temporary(&name) && next == Some(TokenKind::Dot) {
            return Some(Pin::Temporary);
        }
        if next != Some(TokenKind::Open) {
            return None;
        }
        match FUNCTIONS.iter().find(|(function, _)| *function == &*name) {
            Some((b"set_config", _)) if is_local(tokens.get(at + 2..)?) => None,
            Some((_, pin)) => Some(*pin),
            None => facts.pins(&name).then_some(Pin::Function),
        }
    })
}

/// The schema of temporary objects: this session's, or that of the session with a number.
fn is_temporary(schema: &[u8]) -> bool {
    schema.strip_prefix(b"pg_temp").is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix(b"_").is_some_and(|n| n.iter().all(u8::is_ascii_digit))
    })
}

/// Whether the last argument of a call, whose parenthesis is just open, is the word `true`: the
/// setting is then the transaction's. A constant could be another one next time.
fn is_local(arguments: &[Token<'_>]) -> bool {
    let mut depth = 1usize;
    let end = arguments.iter().position(|token| {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    match end.and_then(|end| arguments.get(end.checked_sub(2)?..end)) {
        Some([comma, word]) => comma.kind == TokenKind::Comma && word.is("true"),
        _ => false,
    }
}
