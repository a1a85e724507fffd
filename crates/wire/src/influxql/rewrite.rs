//! Statements made fit to be kept: with a fixed time, and without passwords.

use super::lexer::Lexer;
use super::time;
use super::token::{Token, TokenKind};

const REDACTED: &str = "[REDACTED]";

pub(super) fn freeze_now(statement: &str, now_ns: i64) -> String {
    let mut lexer = Lexer::new(statement);
    let mut out = String::with_capacity(statement.len() + 32);
    let mut copied = 0;
    let mut recent: [Option<Token<'_>>; 4] = [None; 4];
    let mut words = 0;
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            break;
        }
        words += 1;
        if words == 2 && token.is("CONTINUOUS") {
            // Its now() is the time of each run, not of its creation.
            return statement.to_owned();
        }
        recent = [recent[1], recent[2], recent[3], Some(token)];
        if let [before, Some(name), Some(open), Some(close)] = recent
            && is_now(&name, &open, &close)
        {
            out.push_str(&statement[copied..name.start]);
            // Offsets, as in `GROUP BY time(1h, now())`, are durations, which now() passes for.
            out.push_str(&match before {
                Some(comma) if comma.is_symbol(",") => format!("{now_ns}ns"),
                _ => format!("'{}'", time::rfc3339(now_ns)),
            });
            copied = close.end();
        }
    }
    out.push_str(&statement[copied..]);
    out
}

/// A call has no blank before its parenthesis (`parser.go`, `parseUnaryExpr`).
fn is_now(name: &Token<'_>, open: &Token<'_>, close: &Token<'_>) -> bool {
    name.kind == TokenKind::Ident
        && name.value().eq_ignore_ascii_case("now")
        && open.is_symbol("(")
        && name.end() == open.start
        && close.is_symbol(")")
}

pub(super) fn redact(text: &str) -> String {
    if let Some(at) = password_at(text)
        && super::split(text).is_err()
    {
        // Where strings begin and end is in doubt.
        return format!("{} {REDACTED}", &text[..at + PASSWORD.len()]);
    }
    let mut lexer = Lexer::new(text);
    let mut out = String::with_capacity(text.len());
    let mut secret = Secret::None;
    let mut end = 0;
    loop {
        let token = lexer.next();
        let between = &text[end..token.start];
        // A comment may hold a statement.
        out.push_str(if password_at(between).is_some() { " " } else { between });
        let adjacent = token.start == end;
        end = token.end();
        let hidden = match (secret, token.kind) {
            (_, TokenKind::End) => {
                out.push_str(&text[token.start..]);
                return out;
            }
            (Secret::Next, TokenKind::Keyword("FOR")) => {
                secret = Secret::User;
                false
            }
            (Secret::User, _) => {
                secret = Secret::Equals;
                false
            }
            (Secret::Equals, TokenKind::Symbol("=")) => {
                secret = Secret::Next;
                false
            }
            (Secret::Next | Secret::Equals, kind) => {
                // Anything here may be a password with its quotes forgotten, and go on.
                if kind == TokenKind::Text {
                    secret = Secret::Behind;
                }
                true
            }
            // A quote within the password, not escaped.
            (Secret::Behind, TokenKind::Ident | TokenKind::Text) if adjacent => {
                secret = Secret::Next;
                true
            }
            (_, TokenKind::Keyword("PASSWORD")) => {
                secret = Secret::Next;
                false
            }
            (Secret::None | Secret::Behind, _) => {
                secret = Secret::None;
                false
            }
        };
        out.push_str(if hidden { REDACTED } else { token.text });
    }
}

/// How near a password is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secret {
    None,
    /// It is next, or a user's name is announced.
    Next,
    /// A user's name is next.
    User,
    /// An equals sign is next, before it.
    Equals,
    /// It was just there.
    Behind,
}

const PASSWORD: &str = "password";

fn password_at(text: &str) -> Option<usize> {
    let mut windows = text.as_bytes().windows(PASSWORD.len());
    windows.position(|found| found.eq_ignore_ascii_case(PASSWORD.as_bytes()))
}

/// See [`quote_identifier`](super::quote_identifier) and [`quote_string`](super::quote_string).
pub(super) fn quote(text: &str, mark: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            '\\' => out.push_str("\\\\"),
            _ if char == mark => {
                out.push('\\');
                out.push(char);
            }
            _ => out.push(char),
        }
    }
    out.push(mark);
    out
}
