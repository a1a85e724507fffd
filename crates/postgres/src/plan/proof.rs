//! The proof that a query is a read: each token has a reason to be harmless, or there is no proof.
//!
//! It follows parentheses and the clauses of queries just so far that it knows which names are
//! relations and which are functions. Where it is lost it gives up, which is always safe: a query
//! that is valid and not followed is not a read.

use std::borrow::Cow;

use wire::sql::{Token, TokenKind};

use super::facts::{Facts, Mark};
use super::frame::{Clause, Frame, From, Opener, With};
use super::names::{is_name, name};
use super::reason::Reason;
use super::words;

/// `Ok` if the statement, a query by its first word, is proven to be a read; and whether it is a
/// steady one.
pub(super) fn prove(tokens: &[Token<'_>], facts: &Facts) -> Result<bool, Reason> {
    if !facts.are_loaded() {
        let constant =
            |token: &Token<'_>| token.kind.is_literal() || matches!(token.kind, TokenKind::Comma);
        let (first, rest) = tokens.split_first().ok_or(Reason::Structure)?;
        let harmless = first.is("select") && rest.iter().all(constant);
        return if harmless { Ok(false) } else { Err(Reason::NoFacts) };
    }
    if facts.are_closed() {
        return Err(Reason::Catalogue);
    }
    let frames = vec![Frame::statement()];
    let (defined, before, type_at) = (Vec::new(), Before::Other, 0);
    let steady = facts.are_steady();
    let mut proof = Proof { tokens, facts, frames, defined, before, type_at, steady };
    for at in 0..tokens.len() {
        proof.token(at)?;
    }
    match proof.frames.as_slice() {
        [statement] if statement.may_end() && statement.clause != Clause::Start => Ok(proof.steady),
        _ => Err(Reason::Structure),
    }
}

pub(super) struct Proof<'t, 'a> {
    pub(super) tokens: &'t [Token<'a>],
    facts: &'t Facts,
    /// The open parentheses, the statement itself at the bottom.
    frames: Vec<Frame>,
    /// Names that a `WITH` has defined, anywhere.
    defined: Vec<Cow<'a, [u8]>>,
    pub(super) before: Before,
    /// Where the last name of a type is: what is in parentheses behind it calls nothing.
    type_at: usize,
    /// Nothing so far depends on the transaction.
    steady: bool,
}

/// The token before, as far as it makes a word no keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Dot,
    /// The keyword `AS`, behind which any word is a name.
    As,
    Other,
}

impl<'a> Proof<'_, 'a> {
    fn token(&mut self, at: usize) -> Result<(), Reason> {
        let token = self.tokens[at];
        let before = std::mem::replace(&mut self.before, Before::Other);
        match token.kind {
            TokenKind::Word | TokenKind::Quoted => self.word(at, token, before),
            TokenKind::Open => self.open(at),
            TokenKind::Close => self.close(),
            TokenKind::Comma => self.comma(),
            TokenKind::Dot => {
                self.before = Before::Dot;
                Ok(())
            }
            TokenKind::Operator => self.operator(token),
            TokenKind::Cast => self.type_name(at + 1, at.checked_sub(1)),
            TokenKind::UnicodeQuoted | TokenKind::Odd => Err(Reason::OddText),
            TokenKind::Semicolon => Err(Reason::Structure),
            _ => self.operand(),
        }
    }

    pub(super) fn frame(&mut self) -> Result<&mut Frame, Reason> {
        self.frames.last_mut().ok_or(Reason::Structure)
    }

    /// Whether it is harmless, if it is known; what it depends on is noted.
    fn weigh(&mut self, mark: Option<Mark>) -> Option<bool> {
        self.steady &= mark.is_none_or(|mark| mark == Mark::Steady);
        mark.map(|mark| mark != Mark::Unsafe)
    }

    pub(super) fn clause(&self) -> Clause {
        self.frames.last().map_or(Clause::Start, |frame| frame.clause)
    }

    pub(super) fn is(&self, at: usize, keyword: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(keyword))
    }

    pub(super) fn opens(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == TokenKind::Open)
    }

    /// Part of an expression that is not a name.
    pub(super) fn operand(&mut self) -> Result<(), Reason> {
        let frame = self.frame()?;
        match frame.clause {
            Clause::Start if !frame.relations => frame.clause = Clause::Rest,
            Clause::Target | Clause::Rest | Clause::From(From::After | From::On) => {}
            _ => return Err(Reason::Structure),
        }
        Ok(())
    }

    fn operator(&mut self, token: Token<'_>) -> Result<(), Reason> {
        self.operand()?;
        let symbol: &[u8] = match token.text {
            b"=>" | b":=" => return Ok(()),
            b"!=" => b"<>",
            symbol => symbol,
        };
        match self.weigh(self.facts.operator(symbol)) {
            Some(true) => Ok(()),
            Some(false) => Err(Reason::VolatileOperator),
            None => Err(Reason::UnknownOperator),
        }
    }

    fn comma(&mut self) -> Result<(), Reason> {
        let frame = self.frame()?;
        frame.clause = match frame.clause {
            Clause::With(With::Defined) => Clause::With(With::Name),
            Clause::From(From::After | From::On) => Clause::From(From::Item),
            clause @ (Clause::Target | Clause::Rest) => clause,
            _ => return Err(Reason::Structure),
        };
        Ok(())
    }

    fn open(&mut self, at: usize) -> Result<(), Reason> {
        let behind = at.checked_sub(1).map(|before| self.tokens[before]);
        let behind_any = |words: &[&str]| behind.is_some_and(|token| token.is_any(words));
        let opener = if behind_any(&["cast"]) {
            Opener::Cast
        } else if behind_any(&["extract", "substring", "trim", "overlay", "position"]) {
            Opener::ArgumentsWithFrom
        } else {
            Opener::Other
        };
        let frame = self.frame()?;
        let mut relations = false;
        let mut inside = Clause::Start;
        frame.clause = match frame.clause {
            Clause::Start if frame.relations => {
                relations = true;
                Clause::From(From::After)
            }
            Clause::From(From::Item) => {
                relations = true;
                Clause::From(From::After)
            }
            Clause::Start | Clause::SetOperation | Clause::With(With::Defined) => Clause::Rest,
            Clause::With(With::Named) if behind_any(&["as", "materialized"]) => {
                Clause::With(With::Defined)
            }
            Clause::With(With::Named) => {
                inside = Clause::Rest;
                Clause::With(With::Named)
            }
            Clause::With(With::Name) => return Err(Reason::Structure),
            clause => clause,
        };
        self.frames.push(Frame { clause: inside, relations, opener });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Reason> {
        let closed = self.frames.pop().ok_or(Reason::Structure)?;
        if self.frames.is_empty() || !closed.may_end() { Err(Reason::Structure) } else { Ok(()) }
    }

    fn word(&mut self, at: usize, token: Token<'a>, before: Before) -> Result<(), Reason> {
        let name = name(&token).ok_or(Reason::OddText)?;
        if !name.is_ascii() && self.weigh(Some(self.facts.odd_names())) == Some(false) {
            return Err(Reason::OddText);
        }
        if self.weigh(self.facts.type_named(&name)) == Some(false) {
            return Err(Reason::UnsafeType);
        }
        let in_with = matches!(self.clause(), Clause::With(_));
        let label = before == Before::As && !in_with;
        if label && self.frame()?.opener == Opener::Cast {
            // `CAST (literal AS`
            let open = at.checked_sub(3).filter(|open| self.opens(*open));
            self.type_name(at, open.map(|open| open + 1))?;
        }
        if self.opens(at + 1) {
            self.call(at, token, &name, before, label)?;
        } else if before == Before::Dot && self.weigh(self.facts.attribute(&name)) == Some(false) {
            return Err(Reason::Attribute);
        }
        if label || before == Before::Dot {
            return Ok(());
        }
        if token.kind == TokenKind::Word {
            self.steady &= !words::is_time(&name);
            if self.keyword(at, token)? {
                return Ok(());
            }
        }
        self.plain_name(at, name)
    }

    /// A word or quoted name with a parenthesis behind it.
    fn call(
        &mut self,
        at: usize,
        token: Token<'a>,
        name: &[u8],
        before: Before,
        label: bool,
    ) -> Result<(), Reason> {
        let alias = self.clause() == Clause::From(From::After) && before != Before::Dot;
        let defines = self.clause() == Clause::With(With::Name);
        if label || alias || defines || at == self.type_at {
            return Ok(());
        }
        let bare = token.kind == TokenKind::Word && before != Before::Dot;
        if bare && words::is_no_function(name) {
            return Ok(());
        }
        match self.weigh(self.facts.function(name)) {
            Some(true) => Ok(()),
            Some(false) => Err(Reason::VolatileFunction),
            None if bare && words::is_syntax_before_parenthesis(name) => {
                self.steady &= !words::converts(name);
                Ok(())
            }
            None => Err(Reason::UnknownFunction),
        }
    }

    /// A type's name begins at `at`: it has to be known. What becomes of that type is the token at
    /// `value`, if it is one token.
    fn type_name(&mut self, at: usize, value: Option<usize>) -> Result<(), Reason> {
        let mut last = at;
        while self.tokens.get(last + 1).is_some_and(|token| token.kind == TokenKind::Dot) {
            last += 2;
        }
        self.type_at = last;
        let token =
            self.tokens.get(last).filter(|token| is_name(token)).ok_or(Reason::Structure)?;
        let name = name(token).ok_or(Reason::OddText)?;
        // A text that is there only when it is run may be 'now'; see `names_moment` for others.
        let literal = value.and_then(|value| self.tokens.get(value));
        let is_literal = literal.is_some_and(|token| token.kind.is_literal());
        self.steady &= is_literal || words::is_timeless_type(&name);
        let keyword = last == at && token.kind == TokenKind::Word && words::is_type_keyword(&name);
        match self.weigh(self.facts.type_named(&name)) {
            Some(true) => Ok(()),
            None if keyword => Ok(()),
            _ => Err(Reason::UnsafeType),
        }
    }

    /// A name that is not a keyword where it stands.
    fn plain_name(&mut self, at: usize, name: Cow<'a, [u8]>) -> Result<(), Reason> {
        let frame = self.frame()?;
        match frame.clause {
            Clause::Start if frame.relations => frame.clause = Clause::From(From::Item),
            Clause::Start => frame.clause = Clause::Rest,
            _ => {}
        }
        match frame.clause {
            Clause::With(With::Name) => {
                frame.clause = Clause::With(With::Named);
                self.defined.push(name);
                Ok(())
            }
            Clause::From(From::Item) => {
                frame.clause = Clause::From(From::After);
                self.relation(at)
            }
            Clause::Start | Clause::With(_) | Clause::SetOperation => Err(Reason::Structure),
            Clause::Target | Clause::Rest | Clause::From(From::After | From::On) => Ok(()),
        }
    }

    /// The name of a relation, or of a function that stands for one, begins at `at`.
    fn relation(&mut self, at: usize) -> Result<(), Reason> {
        let mut last = at;
        while self.tokens.get(last + 1).is_some_and(|token| token.kind == TokenKind::Dot) {
            last += 2;
        }
        if self.opens(last + 1) {
            return Ok(());
        }
        let name = self.tokens.get(last).and_then(name).ok_or(Reason::OddText)?;
        match self.weigh(self.facts.relation(&name)) {
            Some(true) => Ok(()),
            Some(false) => Err(Reason::UnsafeRelation),
            None if last == at && self.defined.contains(&name) => Ok(()),
            None => Err(Reason::UnknownRelation),
        }
    }
}
