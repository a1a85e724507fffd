//! What the lexer yields.

/// How the session reads `'...'`: its setting `standard_conforming_strings`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strings {
    /// `on`, the default since PostgreSQL 9.1: a backslash is a backslash.
    #[default]
    Standard,
    /// `off`: a backslash escapes, as in `E'...'`.
    Backslash,
}

/// A piece of SQL and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The lexical class of the piece.
    pub kind: TokenKind,
    /// Its bytes, with quotes and prefixes.
    pub text: &'a [u8],
    /// Where it begins in the text that was lexed, in bytes.
    pub start: usize,
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An identifier or keyword without quotes, in the case it was written in.
    Word,
    /// `"identifier"`.
    Quoted,
    /// `U&"identifier"`, whose escapes are not decoded here.
    UnicodeQuoted,
    /// `'...'` (and `N'...'`), with all of its continuations on later lines.
    String,
    /// `E'...'`.
    EscapeString,
    /// `U&'...'`.
    UnicodeString,
    /// A bit string, `B'...'` or `X'...'`.
    BitString,
    /// `$tag$...$tag$`.
    DollarString,
    /// A number without a sign.
    Number,
    /// `$1`.
    Parameter,
    /// An operator, `*`, `=>` and `:=` among them.
    Operator,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// `.`
    Dot,
    /// `;`
    Semicolon,
    /// `::`
    Cast,
    /// `[`, `]`, `:` and `..`.
    Mark,
    /// What is not a token: an end that is missing, a number that runs into a word, a stray byte.
    Odd,
}

impl TokenKind {
    /// Whether it is a constant, or stands for one: what the normal form leaves out.
    #[must_use]
    pub fn is_literal(self) -> bool {
        matches!(
            self,
            Self::String
                | Self::EscapeString
                | Self::UnicodeString
                | Self::BitString
                | Self::DollarString
                | Self::Number
                | Self::Parameter
        )
    }
}

impl Token<'_> {
    /// Whether it is this keyword, which is given in lower case. Quoted it is never one.
    #[must_use]
    pub fn is(&self, keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(keyword.as_bytes())
    }

    /// Whether it is one of these keywords, which are given in lower case.
    #[must_use]
    pub fn is_any(&self, keywords: &[&str]) -> bool {
        self.kind == TokenKind::Word && keywords.iter().any(|keyword| self.is(keyword))
    }
}
