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
    tokens.iter().enumerate().find_map(|(at, token)| {
        let pin = named(token, tokens.get(at + 1)?, facts)?;
        let arguments = tokens.get(at + 2..).unwrap_or_default();
        (!token.text.eq_ignore_ascii_case(SET_CONFIG) || !is_local(arguments)).then_some(pin)
    })
}

/// The same for a text that is too long to be kept as tokens. Whether a setting is the
/// transaction's is not looked at, and any `INTO` of a query may make a temporary table.
pub(super) fn pin_of_long_text<'t>(
    tokens: impl Iterator<Item = Token<'t>>,
    is_query: bool,
    facts: &Facts,
) -> Option<Pin> {
    let mut before: Option<Token<'_>> = None;
    for token in tokens {
        if let Some(pin) = before.and_then(|before| named(&before, &token, facts)) {
            return Some(pin);
        }
        if is_query && token.is("into") {
            return Some(Pin::Temporary);
        }
        before = Some(token);
    }
    None
}

/// Tokens of a call that are looked at for what its last argument is. Calls within calls would be
/// gone through as often as they are deep.
const ARGUMENTS_MAX: usize = 256;

/// The function whose last argument decides, without quotes.
pub(super) const SET_CONFIG: &[u8] = b"set_config";

/// What is left by a name with `next` behind it.
fn named(token: &Token<'_>, next: &Token<'_>, facts: &Facts) -> Option<Pin> {
    let calls = next.kind == TokenKind::Open;
    if !(calls || next.kind == TokenKind::Dot) || !is_name(token) {
        return None;
    }
    if token.kind == TokenKind::UnicodeQuoted {
        // Its name is not decoded, and could be one of those.
        return Some(Pin::Setting);
    }
    let name = name(token)?;
    if !calls {
        return is_temporary(&name).then_some(Pin::Temporary);
    }
    match FUNCTIONS.iter().find(|(function, _)| *function == &*name) {
        Some((_, pin)) => Some(*pin),
        None => facts.pins(&name).then_some(Pin::Function),
    }
}

/// Whether a function is known to take a lock of the session, and to do no more.
pub(super) fn locks(name: &[u8]) -> bool {
    FUNCTIONS.iter().any(|(function, pin)| *function == name && *pin == Pin::AdvisoryLock)
}

/// The schema of temporary objects: this session's, or that of the session with a number.
fn is_temporary(schema: &[u8]) -> bool {
    schema.strip_prefix(b"pg_temp").is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix(b"_").is_some_and(|n| n.iter().all(u8::is_ascii_digit))
    })
}

/// Whether the last argument of a call, whose parenthesis is just open, is the word `true`: the
/// setting is then the transaction's. A constant could be another one next time, and a call that is
/// too long is taken for one of the session's.
pub(super) fn is_local(arguments: &[Token<'_>]) -> bool {
    let arguments = &arguments[..arguments.len().min(ARGUMENTS_MAX)];
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
