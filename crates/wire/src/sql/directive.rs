//! `/* weir: primary */` in front of a statement.

use super::bytes;
use super::strings;

/// What a comment in front of the first token asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// `weir: primary`
    Primary,
    /// `weir: replica`
    Replica,
    /// `weir: auto`
    Auto,
}

/// The directive in the comments in front of the first token; of several the last one. A comment
/// that asks for anything else is a comment.
#[must_use]
pub fn directive(text: &[u8]) -> Option<Directive> {
    let mut at = 0;
    let mut found = None;
    loop {
        let (end, inside) = match (text.get(at), text.get(at + 1)) {
            (Some(&byte), _) if bytes::is_space(byte) => {
                at += 1;
                continue;
            }
            (Some(b'-'), Some(b'-')) => {
                let end = strings::line_end(text, at);
                (end, text.get(at + 2..end))
            }
            (Some(b'/'), Some(b'*')) => {
                let Some(end) = strings::comment_end(text, at) else { return found };
                (end, text.get(at + 2..end - 2))
            }
            _ => return found,
        };
        found = asked(inside.unwrap_or_default()).or(found);
        at = end;
    }
}

fn asked(comment: &[u8]) -> Option<Directive> {
    let rest = comment.trim_ascii().strip_prefix(b"weir")?.trim_ascii_start();
    match rest.strip_prefix(b":")?.trim_ascii() {
        b"primary" => Some(Directive::Primary),
        b"replica" => Some(Directive::Replica),
        b"auto" => Some(Directive::Auto),
        _ => None,
    }
}
