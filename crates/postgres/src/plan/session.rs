//! Statements about the session itself, and `COPY`.

use wire::sql::{Token, TokenKind};

use super::kind::{Deallocate, Discard, Kind, Pin};
use super::names;

/// What a statement is that begins with a word of these; None if it is none of the known forms.
pub(super) fn classify(tokens: &[Token<'_>]) -> Option<Kind> {
    let (first, rest) = tokens.split_first()?;
    if first.is("discard") {
        discard(rest)
    } else if first.is("deallocate") {
        deallocate(rest)
    } else if first.is("listen") {
        match rest {
            [channel] => Some(match names::text(channel) {
                Some(name) => Kind::Listen(name),
                // Under a name that the server makes of it.
                None => Kind::Pins(Pin::Listen),
            }),
            _ => None,
        }
    } else if first.is("unlisten") {
        match rest {
            [star] if star.text == b"*" => Some(Kind::Unlisten(None)),
            [channel] => Some(Kind::Unlisten(Some(names::text(channel)?))),
            _ => None,
        }
    } else if first.is("notify") {
        Some(Kind::Notify)
    } else if first.is_any(&["prepare", "execute"]) {
        Some(Kind::Pins(Pin::Prepared))
    } else if first.is("load") {
        Some(Kind::Pins(Pin::Library))
    } else if first.is("declare") {
        Some(declare(rest))
    } else if first.is("copy") {
        Some(copy(rest))
    } else {
        None
    }
}

fn discard(rest: &[Token<'_>]) -> Option<Kind> {
    let [what] = rest else { return None };
    Some(Kind::Discard(match () {
        () if what.is("all") => Discard::All,
        () if what.is("plans") => Discard::Plans,
        () if what.is("sequences") => Discard::Sequences,
        () if what.is_any(&["temp", "temporary"]) => Discard::Temporary,
        () => return None,
    }))
}

/// `DEALLOCATE [PREPARE] {name | ALL}`; `prepare` alone is a name.
fn deallocate(rest: &[Token<'_>]) -> Option<Kind> {
    let name = match rest {
        [prepare, name] if prepare.is("prepare") => name,
        [name] => name,
        _ => return None,
    };
    Some(Kind::Deallocate(if name.is("all") {
        Deallocate::All
    } else {
        Deallocate::Name(names::text(name)?)
    }))
}

/// `DECLARE name [options] CURSOR [WITH HOLD] FOR ...`: the words before `FOR` tell.
fn declare(rest: &[Token<'_>]) -> Kind {
    let held = rest
        .windows(2)
        .take_while(|pair| !pair[0].is("for"))
        .any(|pair| pair[0].is("with") && pair[1].is("hold"));
    if held { Kind::Pins(Pin::HeldCursor) } else { Kind::Other }
}

/// `COPY ... {FROM STDIN | TO STDOUT}`, at the depth of the statement itself; the server takes
/// `FROM STDOUT` and `TO STDIN` for the same.
fn copy(rest: &[Token<'_>]) -> Kind {
    let mut depth = 0usize;
    for pair in rest.windows(2) {
        match pair[0].kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && pair[1].is_any(&["stdin", "stdout"]) {
            if pair[0].is("from") {
                return Kind::CopyIn;
            }
            if pair[0].is("to") {
                return Kind::CopyOut { may_write: true };
            }
        }
    }
    Kind::Other
}
