//! Keywords that lead from one part of a query to the next, or that no read has.

use wire::sql::{Token, TokenKind};

use super::frame::{Clause, From, Opener, With};
use super::proof::{Before, Proof};
use super::reason::Reason;

impl Proof<'_, '_> {
    /// Whether the word at `at`, which could be a keyword there, is one that was followed; one that
    /// was not is a name, or part of an expression.
    pub(super) fn keyword(&mut self, at: usize, token: Token<'_>) -> Result<bool, Reason> {
        if token.is_any(&["insert", "update", "delete", "merge"]) {
            return Err(Reason::DataChange);
        }
        if token.is("into") {
            return Err(Reason::Into);
        }
        if token.is("for") && self.next_is_any(at, &["update", "share", "no", "key"]) {
            return Err(Reason::RowLock);
        }
        // What follows is the name of a function that no catalogue calls harmless.
        if token.is("tablesample") {
            return Err(Reason::VolatileFunction);
        }
        match self.clause() {
            Clause::With(With::Name) => Ok(self.skips_recursive(at, token)),
            Clause::With(With::Named) => self.definition(token),
            Clause::From(from) => match self.in_from(at, token, from)? {
                true => Ok(true),
                false => self.anywhere(at, token),
            },
            _ => self.anywhere(at, token),
        }
    }

    /// Whether it is this word, and no column's name or label.
    fn is_keyword(&self, at: usize, keyword: &str) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.tokens.get(before));
        let names = before.is_some_and(|token| token.kind == TokenKind::Dot || token.is("as"));
        self.is(at, keyword) && !names
    }

    fn next_is_any(&self, at: usize, words: &[&str]) -> bool {
        self.tokens.get(at + 1).is_some_and(|next| next.is_any(words))
    }

    /// `WITH RECURSIVE`, unless it is the name that is defined.
    fn skips_recursive(&self, at: usize, token: Token<'_>) -> bool {
        let first = at.checked_sub(1).is_some_and(|before| self.is(before, "with"));
        first && token.is("recursive") && !self.is(at + 1, "as") && !self.opens(at + 1)
    }

    /// `AS [NOT] [MATERIALIZED]` between a name and its query.
    fn definition(&mut self, token: Token<'_>) -> Result<bool, Reason> {
        if token.is_any(&["as", "not", "materialized"]) { Ok(true) } else { Err(Reason::Structure) }
    }

    fn set(&mut self, clause: Clause) -> Result<bool, Reason> {
        self.frame()?.clause = clause;
        Ok(true)
    }

    fn in_from(&mut self, at: usize, token: Token<'_>, from: From) -> Result<bool, Reason> {
        // `WITHIN GROUP (` and `COLLATION FOR (` are parts of expressions.
        const ENDS: [&str; 6] = ["where", "having", "limit", "offset", "fetch", "window"];
        if from == From::Item {
            // `ROWS FROM (f(), g())`
            let rows = token.is("rows") && self.is(at + 1, "from");
            let rows_from = token.is("from") && at > 0 && self.is(at - 1, "rows");
            return Ok(rows || rows_from || token.is_any(&["lateral", "only"]));
        }
        if token.is("join") {
            self.set(Clause::From(From::Item))
        } else if token.is("on") && from == From::After {
            self.set(Clause::From(From::On))
        } else if token.is_any(&ENDS)
            || (token.is_any(&["group", "order"]) && self.is(at + 1, "by"))
        {
            self.set(Clause::Rest)
        } else {
            Ok(false)
        }
    }

    fn anywhere(&mut self, at: usize, token: Token<'_>) -> Result<bool, Reason> {
        let frame = *self.frame()?;
        if token.is("as") {
            self.before = Before::As;
            return self.operand().map(|()| true);
        }
        if token.is("with") && frame.clause == Clause::Start {
            return self.set(Clause::With(With::Name));
        }
        if token.is("select") || token.is("table") {
            if !frame.may_begin_query() {
                return Err(Reason::Structure);
            }
            return self.set(match token.is("select") {
                true => Clause::Target,
                false => Clause::From(From::Item),
            });
        }
        if token.is("values") && frame.may_begin_query() && self.opens(at + 1) {
            return self.set(Clause::Rest);
        }
        if token.is_any(&["union", "intersect", "except"]) {
            return match frame.clause {
                Clause::Target | Clause::Rest | Clause::From(From::After | From::On) => {
                    self.set(Clause::SetOperation)
                }
                _ => Err(Reason::Structure),
            };
        }
        if frame.clause == Clause::SetOperation && token.is_any(&["all", "distinct"]) {
            return Ok(true);
        }
        if token.is("from") {
            return self.from(at, frame.clause, frame.opener);
        }
        Ok(false)
    }

    /// `FROM` begins a list of relations behind `SELECT`, and is part of some expressions.
    fn from(&mut self, at: usize, clause: Clause, opener: Opener) -> Result<bool, Reason> {
        // `x.is distinct from y` is a column with the label `distinct`.
        let is = at.saturating_sub(if at >= 3 && self.is(at - 2, "not") { 3 } else { 2 });
        let compared = at >= 2 && self.is(at - 1, "distinct") && self.is_keyword(is, "is");
        match clause {
            _ if compared => self.operand().map(|()| true),
            Clause::Target => self.set(Clause::From(From::Item)),
            Clause::Start | Clause::Rest if opener == Opener::ArgumentsWithFrom => {
                self.operand().map(|()| true)
            }
            _ => Err(Reason::Structure),
        }
    }
}
