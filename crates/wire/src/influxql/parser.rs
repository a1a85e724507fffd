//! From tokens to statements: enough of `influxql/parser.go` to know what each one does.
//!
//! Statements about databases and policies are parsed whole, since the gateway acts on them.
//! Others are read only to their end: whether the rest of them is right is for a backend to say.

use super::lexer::Lexer;
use super::token::{Token, TokenKind};
use super::{Change, Kind, ParseError, Statement};

/// What a query's statements may begin with, in InfluxDB's order.
const VERBS: [&str; 11] = [
    "SELECT", "DELETE", "SHOW", "CREATE", "DROP", "EXPLAIN", "GRANT", "REVOKE", "ALTER", "SET",
    "KILL",
];

/// What `SHOW` can show.
const SHOWN: [&str; 16] = [
    "CONTINUOUS",
    "DATABASES",
    "DIAGNOSTICS",
    "FIELD",
    "GRANTS",
    "MEASUREMENT",
    "MEASUREMENTS",
    "QUERIES",
    "RETENTION",
    "SERIES",
    "SHARD",
    "SHARDS",
    "STATS",
    "SUBSCRIPTIONS",
    "TAG",
    "USERS",
];

/// Bytes of what was found that a message repeats.
const FOUND_BYTES_MAX: usize = 256;

pub(super) struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    peeked: Option<Token<'a>>,
    /// Where the token last taken ends.
    end: usize,
}

type Result<T> = std::result::Result<T, ParseError>;

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, lexer: Lexer::new(text), peeked: None, end: 0 }
    }

    /// All statements of the text (`ParseQuery`).
    pub(super) fn statements(mut self) -> Result<Vec<Statement<'a>>> {
        if let Some(at) = self.text.find('\0') {
            // InfluxDB takes a NUL for the end of the text, of a comment, or for a blank.
            return Err(self.wrong(at, "found NUL"));
        }
        let mut statements = Vec::new();
        let mut separated = true;
        loop {
            let first = self.peek();
            if first.kind == TokenKind::End {
                return Ok(statements);
            }
            if first.is_symbol(";") {
                self.take();
                separated = true;
                continue;
            }
            if !separated {
                return Err(self.unexpected(&first, &[";"]));
            }
            let kind = self.statement()?;
            statements.push(Statement { text: &self.text[first.start..self.end], kind });
            separated = false;
        }
    }

    fn statement(&mut self) -> Result<Kind> {
        let kind = match self.one_of(&VERBS)? {
            "SELECT" => return self.select(),
            "EXPLAIN" => return self.explain(),
            "SHOW" => return self.show(),
            "CREATE" => return self.create(),
            "DROP" => return self.drop(),
            "ALTER" => return self.alter(),
            "DELETE" => {
                self.sources_or_condition()?;
                Kind::Change(Change::Delete)
            }
            "SET" => {
                self.one_of(&["PASSWORD"])?;
                self.one_of(&["FOR"])?;
                Kind::User
            }
            "KILL" => {
                self.one_of(&["QUERY"])?;
                Kind::Local
            }
            _grant_or_revoke => Kind::User,
        };
        self.skip()?;
        Ok(kind)
    }

    fn select(&mut self) -> Result<Kind> {
        let into = self.skip()?;
        Ok(if into { Kind::Change(Change::Into) } else { Kind::Read })
    }

    /// `EXPLAIN` runs nothing and `EXPLAIN ANALYZE` stores nothing, but neither is worth the
    /// risk when there is an `INTO`.
    fn explain(&mut self) -> Result<Kind> {
        let next = self.peek();
        if next.is("ANALYZE") {
            self.take();
        }
        // Servers after 1.8 know this word; before, it can't stand here.
        if is_word(&self.peek(), "VERBOSE") {
            self.take();
        }
        self.one_of(&["SELECT"])?;
        self.select()
    }

    fn show(&mut self) -> Result<Kind> {
        let what = self.one_of(&SHOWN)?;
        match what {
            "DATABASES" => return Ok(Kind::ShowDatabases),
            "CONTINUOUS" => drop(self.one_of(&["QUERIES"])?),
            "FIELD" => drop(self.one_of(&["KEY", "KEYS"])?),
            "GRANTS" => drop(self.one_of(&["FOR"])?),
            "MEASUREMENT" => drop(self.one_of(&["EXACT", "CARDINALITY"])?),
            "RETENTION" => drop(self.one_of(&["POLICIES"])?),
            "SHARD" => drop(self.one_of(&["GROUPS"])?),
            "TAG" => drop(self.one_of(&["KEY", "KEYS", "VALUES"])?),
            _ => {}
        }
        self.skip()?;
        Ok(Kind::Read)
    }

    fn create(&mut self) -> Result<Kind> {
        let what = self.one_of(&["CONTINUOUS", "DATABASE", "USER", "RETENTION", "SUBSCRIPTION"])?;
        match what {
            "DATABASE" => self.create_database(),
            "RETENTION" => {
                self.one_of(&["POLICY"])?;
                let name = self.name()?;
                let db = self.on()?;
                self.expect("DURATION")?;
                self.duration()?;
                self.expect("REPLICATION")?;
                self.replication()?;
                let default = self.policy_options()?;
                Ok(Kind::Change(Change::CreateRetentionPolicy { db, name, default }))
            }
            "USER" => {
                self.skip()?;
                Ok(Kind::User)
            }
            "CONTINUOUS" => {
                self.one_of(&["QUERY"])?;
                self.other()
            }
            _subscription => self.other(),
        }
    }

    fn create_database(&mut self) -> Result<Kind> {
        let name = self.name()?;
        let mut policy = None;
        if self.accept("WITH") {
            let known = ["DURATION", "NAME", "REPLICATION", "SHARD"];
            let next = self.peek();
            let later = is_word(&next, "FUTURE") || is_word(&next, "PAST");
            if !known.iter().any(|word| next.is(word)) && !later {
                return Err(self.unexpected(&next, &known));
            }
            if self.accept("DURATION") {
                self.duration()?;
            }
            if self.accept("REPLICATION") {
                self.replication()?;
            }
            self.shard_duration()?;
            self.write_limits()?;
            if self.accept("NAME") {
                policy = Some(self.name()?);
            }
        }
        Ok(Kind::Change(Change::CreateDatabase { name, policy }))
    }

    fn drop(&mut self) -> Result<Kind> {
        let what = self.one_of(&[
            "CONTINUOUS",
            "DATABASE",
            "MEASUREMENT",
            "RETENTION",
            "SERIES",
            "SHARD",
            "SUBSCRIPTION",
            "USER",
        ])?;
        match what {
            "DATABASE" => {
                let name = self.name()?;
                Ok(Kind::Change(Change::DropDatabase { name }))
            }
            "RETENTION" => {
                self.one_of(&["POLICY"])?;
                let name = self.name()?;
                let db = self.on()?;
                Ok(Kind::Change(Change::DropRetentionPolicy { db, name }))
            }
            "SERIES" => {
                self.sources_or_condition()?;
                self.skip()?;
                Ok(Kind::Change(Change::DropSeries))
            }
            "USER" => {
                self.name()?;
                Ok(Kind::User)
            }
            "CONTINUOUS" => {
                self.one_of(&["QUERY"])?;
                self.other()
            }
            _measurement_shard_or_subscription => self.other(),
        }
    }

    fn alter(&mut self) -> Result<Kind> {
        self.one_of(&["RETENTION"])?;
        self.one_of(&["POLICY"])?;
        let name = if self.accept("DEFAULT") { "default".to_owned() } else { self.name()? };
        let db = self.on()?;
        let mut default = false;
        let mut options = 0;
        loop {
            let next = self.peek();
            match next.kind {
                TokenKind::Keyword("DURATION") => {
                    self.take();
                    self.duration()?;
                }
                TokenKind::Keyword("REPLICATION") => {
                    self.take();
                    self.replication()?;
                }
                TokenKind::Keyword("SHARD") => self.shard_duration()?,
                TokenKind::Keyword("DEFAULT") => {
                    self.take();
                    default = true;
                }
                _ if is_word(&next, "FUTURE") || is_word(&next, "PAST") => self.write_limits()?,
                _ if options == 0 => {
                    let known = ["DURATION", "REPLICATION", "SHARD", "DEFAULT"];
                    return Err(self.unexpected(&next, &known));
                }
                _ => return Ok(Kind::Change(Change::AlterRetentionPolicy { db, name, default })),
            }
            options += 1;
        }
    }

    /// A statement of which no more need be known.
    fn other(&mut self) -> Result<Kind> {
        self.skip()?;
        Ok(Kind::Change(Change::Other))
    }

    fn policy_options(&mut self) -> Result<bool> {
        self.shard_duration()?;
        let default = self.accept("DEFAULT");
        self.write_limits()?;
        Ok(default)
    }

    fn shard_duration(&mut self) -> Result<()> {
        if self.accept("SHARD") {
            self.expect("DURATION")?;
            self.duration()?;
        }
        Ok(())
    }

    /// `FUTURE LIMIT 1h`, `PAST LIMIT 1h`: of servers after 1.8.10.
    fn write_limits(&mut self) -> Result<()> {
        for word in ["FUTURE", "PAST"] {
            if is_word(&self.peek(), word) {
                self.take();
                self.expect("LIMIT")?;
                self.duration()?;
            }
        }
        Ok(())
    }

    fn on(&mut self) -> Result<String> {
        self.expect("ON")?;
        self.name()
    }

    fn name(&mut self) -> Result<String> {
        let token = self.take();
        match token.kind {
            TokenKind::Ident => Ok(token.value().into_owned()),
            _ => Err(self.unexpected(&token, &["identifier"])),
        }
    }

    fn duration(&mut self) -> Result<()> {
        let token = self.take();
        match token.kind {
            TokenKind::Keyword("INF") => Ok(()),
            TokenKind::Duration if is_duration(token.text) => Ok(()),
            TokenKind::Duration => Err(self.wrong(token.start, "invalid duration")),
            _ => Err(self.unexpected(&token, &["duration"])),
        }
    }

    fn replication(&mut self) -> Result<()> {
        let token = self.take();
        if token.kind != TokenKind::Integer {
            return Err(self.unexpected(&token, &["integer"]));
        }
        if token.text.parse::<i32>().is_ok_and(|n| n >= 1) {
            return Ok(());
        }
        let why = format!("invalid value {}: must be 1 <= n <= {}", token.text, i32::MAX);
        Err(self.wrong(token.start, &why))
    }

    /// `DELETE` and `DROP SERIES` name measurements, a condition, or both.
    fn sources_or_condition(&mut self) -> Result<()> {
        let next = self.peek();
        if next.is("FROM") || next.is("WHERE") {
            return Ok(());
        }
        Err(self.unexpected(&next, &["FROM", "WHERE"]))
    }

    /// Takes the rest of the statement; true when there is an `INTO` in it.
    fn skip(&mut self) -> Result<bool> {
        let mut into = false;
        loop {
            let next = self.peek();
            match next.kind {
                TokenKind::End | TokenKind::Symbol(";") => return Ok(into),
                TokenKind::BadString
                | TokenKind::BadEscape
                | TokenKind::Unended
                | TokenKind::Illegal => {
                    let expected = ["identifier", "string", "number", "bool"];
                    return Err(self.unexpected(&next, &expected));
                }
                TokenKind::Keyword("INTO") => into = true,
                _ => {}
            }
            self.take();
        }
    }

    fn peek(&mut self) -> Token<'a> {
        *self.peeked.get_or_insert_with(|| self.lexer.next())
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.peeked = None;
        self.end = token.end();
        token
    }

    fn accept(&mut self, keyword: &str) -> bool {
        let found = self.peek().is(keyword);
        if found {
            self.take();
        }
        found
    }

    fn expect(&mut self, keyword: &'static str) -> Result<()> {
        self.one_of(&[keyword]).map(drop)
    }

    /// Takes a keyword that must be one of these.
    fn one_of(&mut self, keywords: &[&'static str]) -> Result<&'static str> {
        let token = self.take();
        match token.kind {
            TokenKind::Keyword(word) if keywords.contains(&word) => Ok(word),
            _ => Err(self.unexpected(&token, keywords)),
        }
    }

    fn unexpected(&self, found: &Token<'_>, expected: &[&str]) -> ParseError {
        let shown = found.shown();
        let cut =
            (0..=FOUND_BYTES_MAX.min(shown.len())).rev().find(|&at| shown.is_char_boundary(at));
        let shown = &shown[..cut.unwrap_or(0)];
        let why = format!("found {shown}, expected {}", expected.join(", "));
        self.wrong(found.start, &why)
    }

    fn wrong(&self, at: usize, why: &str) -> ParseError {
        let before = &self.text[..at];
        let newlines = before.matches('\n').count();
        let returns = before.matches('\r').count() - before.matches("\r\n").count();
        let line = before.rfind(['\n', '\r']).map_or(before, |at| &before[at + 1..]);
        ParseError(format!(
            "{why} at line {}, char {}",
            newlines + returns + 1,
            line.chars().count() + 1
        ))
    }
}

/// Whether the token is a bare name that newer servers reserve.
fn is_word(token: &Token<'_>, word: &str) -> bool {
    token.kind == TokenKind::Ident && token.text.eq_ignore_ascii_case(word)
}

/// `1d12h`: digits and a unit, any number of times.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &rest[..rest.len() - unit.len()];
        let units = ["ns", "ms", "u", "µ", "s", "m", "h", "d", "w"];
        let Some(found) = units.iter().find(|known| unit.starts_with(**known)) else {
            return false;
        };
        if digits.parse::<i64>().is_err() {
            return false;
        }
        rest = &unit[found.len()..];
    }
    true
}
