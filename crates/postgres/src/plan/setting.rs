//! `SET` and `RESET` (`VariableSetStmt` and `VariableResetStmt` of `gram.y`).

use wire::sql::{Token, TokenKind};

use super::kind::{Kind, Pin};
use super::names;

/// A change of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// `SET [SESSION] name = value`.
    Session {
        /// Its name in lower case; that which `SET NAMES`, `SET TIME ZONE` or `SET SCHEMA` stands
        /// for.
        name: Box<str>,
        /// The value in a form that means the same after `SET name =` in any session: constants in
        /// quotes, with commas between several. None: `DEFAULT`.
        value: Option<Box<str>>,
    },
    /// `SET LOCAL name = value`: for the rest of the transaction, nothing outside one.
    Local {
        /// Its name in lower case.
        name: Box<str>,
    },
    /// `RESET name`.
    Reset {
        /// Its name in lower case.
        name: Box<str>,
    },
    /// `RESET ALL`.
    ResetAll,
    /// `SET TRANSACTION ...`, `SET CONSTRAINTS ...`: for the rest of the transaction.
    Transaction,
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION ...`: the defaults of later transactions.
    Characteristics,
}

/// Settings that are no plain ones: what they change is not undone by setting them elsewhere.
const TRANSACTION_SETTINGS: [&str; 3] =
    ["transaction_isolation", "transaction_read_only", "transaction_deferrable"];

/// Why a setting with this value binds a client to its server's session, if it does: with `pg_temp`
/// in `search_path` a plain `CREATE TABLE` makes a temporary one. `name` in lower case.
#[must_use]
pub fn pins(name: &str, value: &str) -> Option<Pin> {
    match name {
        "role" | "session_authorization" => Some(Pin::Role),
        "seed" => Some(Pin::Seed),
        "search_path" if value.to_ascii_lowercase().contains("pg_temp") => Some(Pin::Temporary),
        // A value may be written in a way that is not read here.
        "search_path" if value.contains('\\') => Some(Pin::Setting),
        _ => None,
    }
}

/// What a `SET` or `RESET` is. What is not understood pins: it may change the session.
pub(super) fn classify(tokens: &[Token<'_>]) -> Kind {
    let understood = match tokens.split_first() {
        Some((first, rest)) if first.is("set") => set(rest),
        Some((_, rest)) => reset(rest),
        None => None,
    };
    understood.unwrap_or(Kind::Pins(Pin::Setting))
}

fn set(tokens: &[Token<'_>]) -> Option<Kind> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
    // `SET local = 1` and `SET local.x = 1` are of settings with such names.
    let keyword = !is(1, "to") && !is_symbol(tokens.get(1), "=") && !is_symbol(tokens.get(1), ".");
    if keyword && (is(0, "constraints") || is(0, "transaction")) {
        // A snapshot belongs to the transaction too.
        return Some(Kind::Set(SettingChange::Transaction));
    }
    if is(0, "session") && is(1, "characteristics") {
        return Some(Kind::Set(SettingChange::Characteristics));
    }
    let scoped = keyword && (is(0, "session") || is(0, "local")) && !is(1, "authorization");
    let local = scoped && is(0, "local");
    let (name, value) = assignment(tokens.get(usize::from(scoped)..)?)?;
    let pin = pins(&name, value.as_deref().unwrap_or_default());
    match pin {
        // Another role for the transaction is over with it; a temporary table is not.
        Some(pin) if !local || pin == Pin::Temporary => Some(Kind::Pins(pin)),
        _ if TRANSACTION_SETTINGS.contains(&&*name) => Some(Kind::Set(SettingChange::Transaction)),
        _ if local => Some(Kind::Set(SettingChange::Local { name })),
        _ => Some(Kind::Set(SettingChange::Session { name, value })),
    }
}

/// A setting's name, and its value; None for `DEFAULT`.
type Assignment = (Box<str>, Option<Box<str>>);

/// `name {TO | =} value`, and the forms with words of their own.
fn assignment(tokens: &[Token<'_>]) -> Option<Assignment> {
    let plain = |name: &str, value: &[Token<'_>]| Some((name.into(), values(value)?));
    match tokens {
        [_, to, ..] if to.is("to") || is_symbol(Some(to), "=") => {}
        [time, zone, local] if time.is("time") && zone.is("zone") && local.is("local") => {
            return Some(("timezone".into(), None));
        }
        [time, zone, value @ ..] if time.is("time") && zone.is("zone") => {
            return plain("timezone", value);
        }
        [names] if names.is("names") => return Some(("client_encoding".into(), None)),
        [names, value] if names.is("names") => return plain("client_encoding", &[*value]),
        [schema, value] if schema.is("schema") => return plain("search_path", &[*value]),
        [xml, option, value] if xml.is("xml") && option.is("option") => {
            return plain("xmloption", &[*value]);
        }
        [role, value] if role.is("role") => return plain("role", &[*value]),
        [session, authorization, value]
            if session.is("session") && authorization.is("authorization") =>
        {
            return plain("session_authorization", &[*value]);
        }
        [seed, value] if seed.is("seed") => return plain("seed", &[*value]),
        _ => {}
    }
    let (name, rest) = setting_name(tokens)?;
    match rest {
        [to, value @ ..] if to.is("to") || is_symbol(Some(to), "=") => Some((name, values(value)?)),
        _ => None,
    }
}

fn is_symbol(token: Option<&Token<'_>>, symbol: &str) -> bool {
    token.is_some_and(|token| token.text == symbol.as_bytes())
}

/// `name` or `prefix.name`, in lower case as the server compares it, and what stands behind it.
fn setting_name<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<(Box<str>, &'t [Token<'a>])> {
    let mut name = String::from(&*names::text(tokens.first()?)?);
    let mut rest = tokens.get(1..)?;
    while let [dot, part, after @ ..] = rest {
        if dot.kind != TokenKind::Dot {
            break;
        }
        name.push('.');
        name.push_str(&names::text(part)?);
        rest = after;
    }
    name.make_ascii_lowercase();
    Some((name.into(), rest))
}

/// A list of values, each as a constant in quotes; None inside for `DEFAULT`, None for what is not
/// understood.
#[expect(clippy::option_option, reason = "not understood, and the default, are two things")]
fn values(tokens: &[Token<'_>]) -> Option<Option<Box<str>>> {
    if let [word] = tokens
        && word.is("default")
    {
        return Some(None);
    }
    let mut list = String::new();
    for (at, value) in tokens.split(|token| token.kind == TokenKind::Comma).enumerate() {
        if at > 0 {
            list.push_str(", ");
        }
        list.push('\'');
        match value {
            [sign, number] if number.kind == TokenKind::Number && is_sign(sign) => {
                if sign.text == b"-" {
                    list.push('-');
                }
                list.push_str(std::str::from_utf8(number.text).ok()?);
            }
            [one] => list.push_str(&constant(one)?.replace('\'', "''")),
            _ => return None,
        }
        list.push('\'');
    }
    Some(Some(list.into()))
}

fn is_sign(token: &Token<'_>) -> bool {
    token.kind == TokenKind::Operator && matches!(token.text, b"-" | b"+")
}

/// The text that a constant stands for. One with a backslash could mean something else where
/// `standard_conforming_strings` is off.
fn constant(token: &Token<'_>) -> Option<String> {
    let text = match token.kind {
        TokenKind::Word | TokenKind::Quoted => return names::text(token).map(String::from),
        TokenKind::Number => token.text.to_vec(),
        TokenKind::String => {
            let inside = token.text.strip_prefix(b"'")?.strip_suffix(b"'")?;
            let whole = super::names::undouble(inside, b'\'');
            // Continued on another line: there is more between its parts than text.
            if inside.iter().filter(|&&b| b == b'\'').count() != 2 * quotes(&whole) {
                return None;
            }
            whole
        }
        _ => return None,
    };
    if text.contains(&b'\\') {
        return None;
    }
    String::from_utf8(text).ok()
}

fn quotes(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte == b'\'').count()
}

fn reset(tokens: &[Token<'_>]) -> Option<Kind> {
    let change = match tokens {
        [all] if all.is("all") => SettingChange::ResetAll,
        [time, zone] if time.is("time") && zone.is("zone") => {
            SettingChange::Reset { name: "timezone".into() }
        }
        [role] if role.is_any(&["role", "session_authorization"]) => {
            return Some(Kind::Pins(Pin::Role));
        }
        [session, authorization] if session.is("session") && authorization.is("authorization") => {
            return Some(Kind::Pins(Pin::Role));
        }
        [transaction, isolation, level]
            if transaction.is("transaction") && isolation.is("isolation") && level.is("level") =>
        {
            SettingChange::Transaction
        }
        _ => match setting_name(tokens)? {
            (name, []) if matches!(&*name, "role" | "session_authorization") => {
                return Some(Kind::Pins(Pin::Role));
            }
            (name, []) if TRANSACTION_SETTINGS.contains(&&*name) => SettingChange::Transaction,
            (name, []) => SettingChange::Reset { name },
            _ => return None,
        },
    };
    Some(Kind::Set(change))
}
