//! Point statements: those for which a server has only one sensible plan, whatever their constants
//! are. They name their rows by a key of one table, or bring one table its rows.
//!
//! Such a statement may be prepared once and run with other constants. Where constants stand they
//! mean what a parameter does: compared with a column, given to a column, or in sums. What the
//! server's grammar wants a constant for (`LIMIT` apart, a type's length, a typed literal) is not
//! followed, nor is a constant that only a function's declaration would give a type.

use wire::sql::{Token, TokenKind};

use super::facts::{Facts, Key, Mark};
use super::names::{is_name, name};
use super::words::NAME_BYTES_MAX;

/// What makes a transaction visible in a row.
const SYSTEM_COLUMNS: [&str; 6] = ["xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"];

/// What is known of a point statement beside that it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PointStatement {
    /// Where it changes data: nothing tells whether it runs in a transaction of its own. It runs no
    /// code of users' and sees neither its transaction nor what others in it do that commit alone.
    pub(super) is_quiet: bool,
}

/// What a query or a change of data is, if it is a point statement.
pub(super) fn find(tokens: &[Token<'_>], facts: &Facts) -> Option<PointStatement> {
    // As text the server says each time that it cuts such a name off.
    let is_cut = |token: &Token<'_>| is_name(token) && token.text.len() > NAME_BYTES_MAX;
    let mut point = Point { rest: tokens, facts, is_quiet: facts.are_read_committed() };
    let first = point.take()?;
    let found = match first.text.to_ascii_lowercase().as_slice() {
        b"select" => point.select(),
        b"insert" => point.insert(),
        b"update" => point.update(),
        b"delete" => point.delete(),
        _ => None,
    };
    found?;
    let is_quiet = point.is_quiet && tokens.iter().all(|token| is_quiet(token, facts));
    let is_whole = point.rest.is_empty() && !tokens.iter().any(is_cut);
    is_whole.then_some(PointStatement { is_quiet })
}

/// Whether a token stands neither for code of users' nor for the transaction.
fn is_quiet(token: &Token<'_>, facts: &Facts) -> bool {
    match token.kind {
        TokenKind::Operator => {
            facts.operator(match token.text {
                b"!=" => b"<>",
                symbol => symbol,
            }) != Some(Mark::Unsafe)
        }
        _ => name(token).is_none_or(|name| {
            !SYSTEM_COLUMNS.iter().any(|column| column.as_bytes() == &*name)
                && facts.attribute(&name) != Some(Mark::Unsafe)
        }),
    }
}

/// What is left of a statement. Each method takes what it is about, or says `None`.
struct Point<'t, 'a> {
    rest: &'t [Token<'a>],
    facts: &'t Facts,
    is_quiet: bool,
}

type Name<'a> = std::borrow::Cow<'a, [u8]>;

impl<'a> Point<'_, 'a> {
    fn take(&mut self) -> Option<Token<'a>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn next_is(&self, kind: TokenKind) -> bool {
        self.rest.first().is_some_and(|token| token.kind == kind)
    }

    fn takes_if(&mut self, fits: impl Fn(&Token<'a>) -> bool) -> bool {
        let is_next = self.rest.first().is_some_and(fits);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    fn takes(&mut self, kind: TokenKind) -> bool {
        self.takes_if(|token| token.kind == kind)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.takes_if(|token| token.is(word))
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.takes_word(word).then_some(())
    }

    fn operator(&mut self, among: &[&[u8]]) -> Option<&'a [u8]> {
        let token = self.take()?;
        let fits = token.kind == TokenKind::Operator && among.contains(&token.text);
        fits.then_some(token.text)
    }

    /// `SELECT` columns `FROM` table `WHERE` conditions [`LIMIT` number]
    fn select(&mut self) -> Option<()> {
        loop {
            let token = self.take()?;
            match token.kind {
                TokenKind::Word if token.is("from") => break,
                TokenKind::Word | TokenKind::Quoted | TokenKind::Dot | TokenKind::Comma => {}
                TokenKind::Operator if token.text == b"*" => {}
                _ => return None,
            }
        }
        self.keyed_rows()?;
        (!self.takes_word("limit") || self.literal()).then_some(())
    }

    /// `DELETE FROM` table `WHERE` conditions
    fn delete(&mut self) -> Option<()> {
        self.word("from")?;
        self.keyed_rows()
    }

    /// `UPDATE` table `SET` assignments `WHERE` conditions
    fn update(&mut self) -> Option<()> {
        let (facts, table) = (self.facts, self.table("set")?);
        self.assignments()?;
        self.word("where")?;
        self.conditions(facts.table(&table)?)
    }

    /// `INSERT INTO` table [(columns)] `VALUES` (values) [, ...] [`ON CONFLICT` [(columns)]
    /// `DO NOTHING` | `DO UPDATE SET` assignments]
    fn insert(&mut self) -> Option<()> {
        self.word("into")?;
        let table = self.qualified()?;
        self.facts.table(&table)?;
        self.is_quiet &= self.facts.is_quiet(&table);
        if self.next_is(TokenKind::Open) {
            self.columns()?;
        }
        self.word("values")?;
        loop {
            self.takes(TokenKind::Open).then_some(())?;
            self.values()?;
            if !self.takes(TokenKind::Comma) {
                break;
            }
        }
        if self.rest.is_empty() {
            return Some(());
        }
        self.word("on")?;
        self.word("conflict")?;
        if self.next_is(TokenKind::Open) {
            self.columns()?;
        }
        self.word("do")?;
        if self.takes_word("nothing") {
            return Some(());
        }
        self.word("update")?;
        self.word("set")?;
        self.assignments()
    }

    /// A table, an alias perhaps, `WHERE` and conditions that name rows of it by a key.
    fn keyed_rows(&mut self) -> Option<()> {
        let (facts, table) = (self.facts, self.table("where")?);
        self.conditions(facts.table(&table)?)
    }

    /// A table, an alias perhaps, and the word.
    fn table(&mut self, word: &str) -> Option<Name<'a>> {
        let table = self.qualified()?;
        if !self.takes_word(word) {
            self.takes_word("as");
            is_name(&self.take()?).then_some(())?;
            self.word(word)?;
        }
        self.is_quiet &= self.facts.is_quiet(&table);
        Some(table)
    }

    /// The last of names with dots between them.
    fn qualified(&mut self) -> Option<Name<'a>> {
        loop {
            let token = self.take()?;
            let name = name(&token)?;
            if !self.takes(TokenKind::Dot) {
                return Some(name);
            }
        }
    }

    /// Reads a list of names in parentheses.
    fn columns(&mut self) -> Option<()> {
        self.take()?;
        loop {
            name(&self.take()?)?;
            if self.takes(TokenKind::Close) {
                return Some(());
            }
            self.takes(TokenKind::Comma).then_some(())?;
        }
    }

    /// Columns compared with constants, all of some key by `=`.
    fn conditions(&mut self, keys: &[Key]) -> Option<()> {
        let mut equal = Vec::new();
        loop {
            let column = self.qualified()?;
            if self.takes_word("is") {
                self.takes_word("not");
                self.word("null")?;
            } else {
                let symbol = self.operator(&[b"=", b"<", b">", b"<=", b">=", b"<>", b"!="])?;
                self.constant().then_some(())?;
                if symbol == b"=" {
                    equal.push(column);
                }
            }
            if !self.takes_word("and") {
                break;
            }
        }
        let is_equal = |column: &[u8]| equal.iter().any(|name| **name == *column);
        keys.iter().any(|key| key.iter().all(|column| is_equal(column))).then_some(())
    }

    /// A literal, with a sign perhaps.
    fn constant(&mut self) -> bool {
        self.takes_if(is_minus);
        self.literal()
    }

    /// A literal of any kind: a plan holds for all texts of its normal form.
    fn literal(&mut self) -> bool {
        self.takes_if(|token| token.kind.is_literal())
    }

    /// Columns, each with what it is set to, up to `WHERE` or the end. No fields of columns: a
    /// field's type may be one that reads a constant by more than its number, as a table's column
    /// may not.
    fn assignments(&mut self) -> Option<()> {
        loop {
            name(&self.take()?)?;
            self.operator(&[b"="])?;
            self.value(|token| token.kind == TokenKind::Comma || token.is("where"))?;
            if !self.takes(TokenKind::Comma) {
                return Some(());
            }
        }
    }

    /// What a row is made of, up to the parenthesis behind it.
    fn values(&mut self) -> Option<()> {
        loop {
            self.value(|token| matches!(token.kind, TokenKind::Comma | TokenKind::Close))?;
            if self.takes(TokenKind::Close) {
                return Some(());
            }
            self.takes(TokenKind::Comma).then_some(())?;
        }
    }

    /// A value up to where it ends: a constant; names and numbers in sums; or anything without a
    /// constant, without a query and without what may stand behind the last value of a statement
    /// (`FROM`, `RETURNING`).
    fn value(&mut self, ends: impl Fn(&Token<'_>) -> bool) -> Option<()> {
        let mut depth = 0_usize;
        let is_end = |token: &Token<'_>| {
            match token.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close if depth > 0 => depth -= 1,
                _ => return depth == 0 && ends(token),
            }
            false
        };
        let len = self.rest.iter().position(is_end).unwrap_or(self.rest.len());
        let (value, rest) = self.rest.split_at(len);
        if self.constant() && self.rest.len() == rest.len() {
            return Some(());
        }
        self.rest = rest;
        let is_harmless = |token: &Token<'_>| match token.kind {
            TokenKind::Word => !is_more(token),
            TokenKind::Quoted | TokenKind::Dot | TokenKind::Operator => true,
            TokenKind::Open | TokenKind::Close | TokenKind::Comma => true,
            _ => false,
        };
        let is_now = |token: &Token<'_>| {
            token.is("now") && self.facts.function(b"now") != Some(Mark::Unsafe)
        };
        let is_call = |pair: &[Token<'_>]| pair[1].kind == TokenKind::Open && !is_now(&pair[0]);
        self.is_quiet &= !value.windows(2).any(is_call);
        let is_value =
            value.iter().all(is_harmless) || (is_sum(value) && !value.iter().any(is_more));
        (is_value && !value.is_empty()).then_some(())
    }
}

/// Whether it begins more than a value.
fn is_more(token: &Token<'_>) -> bool {
    token.is_any(&["select", "values", "table", "with", "from", "returning"])
}

/// Names and literals with `+`, `-`, `*` or `/` between them. A literal behind a name would be one
/// of that type, whose name wants it to be there.
fn is_sum(value: &[Token<'_>]) -> bool {
    let is_sign = |token: &Token<'_>| {
        token.kind == TokenKind::Operator && matches!(token.text, b"+" | b"-" | b"*" | b"/")
    };
    let is_part = |token: &Token<'_>| {
        let is_dot = token.kind == TokenKind::Dot;
        is_sign(token) || is_dot || is_name(token) || token.kind.is_literal()
    };
    let is_apart = |pair: &[Token<'_>]| {
        !pair.iter().any(|of| of.kind.is_literal()) || pair.iter().any(is_sign)
    };
    value.iter().all(is_part) && value.windows(2).all(is_apart)
}

fn is_minus(token: &Token<'_>) -> bool {
    token.kind == TokenKind::Operator && token.text == b"-"
}
