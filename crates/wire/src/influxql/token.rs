//! The tokens of InfluxQL (`influxql/token.go`).

use std::borrow::Cow;

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    /// As written, quotes included.
    pub(super) text: &'a str,
    /// Byte offset of `text` in what is read.
    pub(super) start: usize,
    /// Whether it stands where measurements are named: after `FROM`, up to the next keyword.
    pub(super) in_sources: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A reserved word, in capitals.
    Keyword(&'static str),
    /// A name, bare or in double quotes.
    Ident,
    /// `$name`: bound by the request's parameters.
    Param,
    /// `'...'`.
    Text,
    Integer,
    Number,
    Duration,
    Regex,
    /// An operator or a mark.
    Symbol(&'static str),
    /// A string or quoted name that doesn't end on its line.
    BadString,
    /// A string with a backslash before something else than `n`, a quote or a backslash.
    BadEscape,
    /// A regular expression that doesn't end on its line.
    BadRegex,
    /// A comment that doesn't end.
    BadComment,
    /// A character that no token starts with.
    Illegal,
    /// Blanks, to those who ask for them.
    Blank,
    /// A comment, to those who ask for it.
    Comment,
    /// The end of the text.
    End,
}

impl<'a> Token<'a> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self.kind, TokenKind::Keyword(found) if found == keyword)
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.kind, TokenKind::Symbol(found) if found == symbol)
    }

    /// Whether it is a bare name that servers after 1.8 reserve.
    pub(super) fn is_later_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Ident && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether it is a keyword or a name without quotes.
    pub(super) fn is_bare_word(&self) -> bool {
        matches!(self.kind, TokenKind::Keyword(_) | TokenKind::Ident | TokenKind::Param)
            && !self.text.ends_with('"')
    }

    /// What a name or string says: without quotes and escapes.
    pub(super) fn value(&self) -> Cow<'a, str> {
        // A quote within a word starts it anew: `ab"c"` is the name `c`, as InfluxDB reads it.
        let quoted = match self.text.find(['"', '\'']) {
            Some(quote) => &self.text[quote..],
            None => return Cow::Borrowed(self.text),
        };
        let whole = self.kind != TokenKind::BadString;
        let closed = whole && quoted.len() > 1 && quoted.ends_with(&quoted[..1]);
        let inner = &quoted[1..quoted.len() - usize::from(closed)];
        if !inner.contains('\\') {
            return Cow::Borrowed(inner);
        }
        let mut value = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(char) = chars.next() {
            match char {
                '\\' => match chars.next() {
                    Some('n') => value.push('\n'),
                    Some(other) => value.push(other),
                    None => {}
                },
                _ => value.push(char),
            }
        }
        Cow::Owned(value)
    }

    /// How InfluxDB's messages name it (`parser.go`, `tokstr`).
    pub(super) fn shown(&self) -> Cow<'a, str> {
        let name = match self.kind {
            TokenKind::Keyword(word) => return Cow::Borrowed(word),
            TokenKind::Symbol(symbol) => return Cow::Borrowed(symbol),
            TokenKind::End => return Cow::Borrowed("EOF"),
            TokenKind::BadComment => return Cow::Borrowed("ILLEGAL"),
            TokenKind::BadRegex | TokenKind::Comment => return Cow::Borrowed(""),
            TokenKind::BadEscape => {
                let escape = self.text.rfind('\\').unwrap_or(0);
                return Cow::Borrowed(&self.text[escape..]);
            }
            TokenKind::Ident => "IDENT",
            TokenKind::Text => "STRING",
            TokenKind::BadString => "BADSTRING",
            TokenKind::Regex => "REGEX",
            TokenKind::Param
            | TokenKind::Integer
            | TokenKind::Number
            | TokenKind::Duration
            | TokenKind::Blank
            | TokenKind::Illegal => return Cow::Borrowed(self.text),
        };
        let value = self.value();
        if value.is_empty() { Cow::Borrowed(name) } else { value }
    }
}

/// The reserved words of InfluxDB 1.8, sorted.
static KEYWORDS: [&str; 80] = [
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BEGIN",
    "BY",
    "CARDINALITY",
    "CONTINUOUS",
    "CREATE",
    "DATABASE",
    "DATABASES",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESTINATIONS",
    "DIAGNOSTICS",
    "DISTINCT",
    "DROP",
    "DURATION",
    "END",
    "EVERY",
    "EXACT",
    "EXPLAIN",
    "FALSE",
    "FIELD",
    "FOR",
    "FROM",
    "GRANT",
    "GRANTS",
    "GROUP",
    "GROUPS",
    "IN",
    "INF",
    "INSERT",
    "INTO",
    "KEY",
    "KEYS",
    "KILL",
    "LIMIT",
    "MEASUREMENT",
    "MEASUREMENTS",
    "NAME",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "PASSWORD",
    "POLICIES",
    "POLICY",
    "PRIVILEGES",
    "QUERIES",
    "QUERY",
    "READ",
    "REPLICATION",
    "RESAMPLE",
    "RETENTION",
    "REVOKE",
    "SELECT",
    "SERIES",
    "SET",
    "SHARD",
    "SHARDS",
    "SHOW",
    "SLIMIT",
    "SOFFSET",
    "STATS",
    "SUBSCRIPTION",
    "SUBSCRIPTIONS",
    "TAG",
    "TO",
    "TRUE",
    "USER",
    "USERS",
    "VALUES",
    "WHERE",
    "WITH",
    "WRITE",
];

/// The reserved word that `word` spells in whatever case.
pub(super) fn keyword(word: &str) -> Option<&'static str> {
    let by_capitals =
        |known: &&str| known.bytes().cmp(word.bytes().map(|byte| byte.to_ascii_uppercase()));
    KEYWORDS.binary_search_by(by_capitals).ok().map(|at| KEYWORDS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted_and_found_in_any_case() {
        assert!(KEYWORDS.is_sorted());
        assert_eq!(keyword("select"), Some("SELECT"));
        assert_eq!(keyword("WrItE"), Some("WRITE"));
        assert_eq!(keyword("all"), Some("ALL"));
        assert_eq!(keyword("selects"), None);
        assert_eq!(keyword(""), None);
    }
}
