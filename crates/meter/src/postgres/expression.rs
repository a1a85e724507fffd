//! What a variable of a script is set to: whole numbers, sums and products of them, and draws, as
//! pgbench writes them.

use std::num::NonZeroI64;

use wire::sql::{Lexer, Strings, Token, TokenKind};

use crate::chance::Chance;
use crate::keys::{Keys, Order};

/// How deep parentheses may be.
const DEPTH_MAX: usize = 50;
/// Groups of digits in a text.
const GROUPS_MAX: i64 = 1000;
/// Digits of a group.
const GROUP: usize = 11;

/// An expression whose value is a whole number.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    Constant(i64),
    /// The value of a variable, by its slot.
    Variable(usize),
    Negative(Box<Self>),
    Sum(Box<Self>, Box<Self>),
    Difference(Box<Self>, Box<Self>),
    Product(Box<Self>, Box<Self>),
    /// By a number that is not 0, towards 0.
    Quotient(Box<Self>, NonZeroI64),
    /// What that leaves, with the sign of what is divided.
    Remainder(Box<Self>, NonZeroI64),
    /// From the first to the second, each as often as any other.
    Random(Box<Self>, Box<Self>),
    /// The same in the order that the load has for keys.
    Key(Box<Self>, Box<Self>),
    /// The same by Zipf's distribution.
    Zipf(Box<Self>, Box<Self>, f64),
    /// The number of the request.
    Request,
}

/// What a variable is set to.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    Number(Number),
    /// So many groups of digits, as sysbench fills its columns.
    DigitGroups(usize),
    /// What a run puts into its ledger's table: a text of the request's number alone.
    Content(i64),
}

/// Groups of digits of a ledger's content.
const CONTENT_GROUPS: usize = 3;

/// What a run puts into its ledger's table for a request.
pub fn put_content(run: i64, request: u64, out: &mut Vec<u8>) {
    let chance = Chance::of(run.cast_unsigned(), request);
    Draws::new(chance, Order::Uniform, request).put_digit_groups(CONTENT_GROUPS, out);
}

/// The draws of one request.
#[derive(Debug)]
pub struct Draws {
    chance: Chance,
    order: Order,
    /// The number of the next key in sequence.
    in_sequence: u64,
    /// The number of the request.
    pub request: u64,
}

impl Draws {
    pub fn new(chance: Chance, order: Order, number: u64) -> Self {
        Self { chance, order, in_sequence: number, request: number }
    }

    /// From `least` to `most`; `least` where there is nothing between them.
    fn between(&mut self, least: i64, most: i64, order: Order) -> i64 {
        let count = most.saturating_sub(least).max(0).unsigned_abs().saturating_add(1);
        let keys = Keys::new(count, order);
        let drawn = keys.draw(self.in_sequence, &mut self.chance);
        if order == Order::Sequence {
            self.in_sequence = self.in_sequence.wrapping_add(1);
        }
        least.wrapping_add_unsigned(drawn)
    }

    /// Puts groups of digits with a dash between each two.
    pub fn put_digit_groups(&mut self, groups: usize, out: &mut Vec<u8>) {
        for group in 0..groups {
            if group > 0 {
                out.push(b'-');
            }
            let mut bits = self.chance.below(10_u64.pow(GROUP as u32));
            for _ in 0..GROUP {
                out.push(b'0' + (bits % 10) as u8);
                bits /= 10;
            }
        }
    }
}

impl Number {
    pub fn value(&self, variables: &[i64], draws: &mut Draws) -> i64 {
        match self {
            Self::Constant(value) => *value,
            Self::Request => i64::try_from(draws.request).unwrap_or(i64::MAX),
            Self::Variable(slot) => variables.get(*slot).copied().unwrap_or_default(),
            Self::Negative(of) => of.value(variables, draws).wrapping_neg(),
            Self::Sum(a, b) => a.value(variables, draws).wrapping_add(b.value(variables, draws)),
            Self::Difference(a, b) => {
                a.value(variables, draws).wrapping_sub(b.value(variables, draws))
            }
            Self::Product(a, b) => {
                a.value(variables, draws).wrapping_mul(b.value(variables, draws))
            }
            Self::Quotient(a, by) => a.value(variables, draws).wrapping_div(by.get()),
            Self::Remainder(a, by) => a.value(variables, draws).wrapping_rem(by.get()),
            Self::Random(a, b) => {
                let (a, b) = (a.value(variables, draws), b.value(variables, draws));
                draws.between(a, b, Order::Uniform)
            }
            Self::Key(a, b) => {
                let (a, b) = (a.value(variables, draws), b.value(variables, draws));
                draws.between(a, b, draws.order)
            }
            Self::Zipf(a, b, exponent) => {
                let (a, b) = (a.value(variables, draws), b.value(variables, draws));
                draws.between(a, b, Order::Zipf(*exponent))
            }
        }
    }
}

impl Expression {
    /// Reads one; `slot` finds variables that hold numbers.
    pub fn read(text: &str, slot: impl Fn(&str) -> Result<usize, String>) -> Result<Self, String> {
        let tokens = Lexer::new(text.as_bytes(), Strings::Standard).collect();
        let mut reader = Reader { tokens, at: 0, depth: 0, slot };
        if reader.word() == Some("digit_groups") {
            reader.at += 1;
            let [groups] = reader.arguments("digit_groups(10)")?;
            reader.end()?;
            return match groups {
                Number::Constant(groups @ 1..=GROUPS_MAX) => Ok(Self::DigitGroups(groups as usize)),
                _ => Err(format!("digit_groups takes a number from 1 to {GROUPS_MAX}")),
            };
        }
        let number = reader.sum()?;
        reader.end()?;
        Ok(Self::Number(number))
    }
}

struct Reader<'a, S> {
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
    slot: S,
}

impl<'a, S: Fn(&str) -> Result<usize, String>> Reader<'a, S> {
    fn peek(&self) -> Option<(TokenKind, &'a str)> {
        let token = self.tokens.get(self.at)?;
        Some((token.kind, std::str::from_utf8(token.text).unwrap_or_default()))
    }

    fn word(&self) -> Option<&'a str> {
        self.peek().filter(|(kind, _)| *kind == TokenKind::Word).map(|(_, text)| text)
    }

    fn takes(&mut self, kind: TokenKind, text: &str) -> bool {
        let is_there = self.peek() == Some((kind, text));
        self.at += usize::from(is_there);
        is_there
    }

    fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some((_, text)) => Err(unknown(text)),
        }
    }

    fn sum(&mut self) -> Result<Number, String> {
        let mut left = self.product()?;
        loop {
            if self.takes(TokenKind::Operator, "+") {
                left = Number::Sum(left.into(), self.product()?.into());
            } else if self.takes(TokenKind::Operator, "-") {
                left = Number::Difference(left.into(), self.product()?.into());
            } else {
                return Ok(left);
            }
        }
    }

    fn product(&mut self) -> Result<Number, String> {
        let mut left = self.one()?;
        loop {
            if self.takes(TokenKind::Operator, "*") {
                left = Number::Product(left.into(), self.one()?.into());
            } else if self.takes(TokenKind::Operator, "/") {
                left = Number::Quotient(left.into(), self.divisor()?);
            } else if self.takes(TokenKind::Operator, "%") {
                left = Number::Remainder(left.into(), self.divisor()?);
            } else {
                return Ok(left);
            }
        }
    }

    /// A number that is written out, so that no request meets a division by 0.
    fn divisor(&mut self) -> Result<NonZeroI64, String> {
        let by = match self.one()? {
            Number::Constant(by) => NonZeroI64::new(by),
            Number::Negative(of) => match *of {
                Number::Constant(by) => NonZeroI64::new(by.wrapping_neg()),
                _ => None,
            },
            _ => None,
        };
        by.ok_or_else(|| "behind / and % stands a whole number other than 0".to_owned())
    }

    fn one(&mut self) -> Result<Number, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("parentheses are {DEPTH_MAX} deep at most"));
        }
        let one = self.one_within();
        self.depth -= 1;
        one
    }

    fn one_within(&mut self) -> Result<Number, String> {
        let (kind, text) = self.peek().ok_or("something is missing at the end")?;
        self.at += 1;
        match (kind, text) {
            (TokenKind::Number, text) => {
                text.parse().map(Number::Constant).map_err(|_| unknown(text))
            }
            (TokenKind::Operator, "-") => Ok(Number::Negative(self.one()?.into())),
            (TokenKind::Open, _) => {
                let within = self.sum()?;
                let closed = self.takes(TokenKind::Close, ")");
                closed.then_some(within).ok_or_else(|| "a ) is missing".to_owned())
            }
            (TokenKind::Mark, ":") => {
                let name = self.word().ok_or("a variable's name is missing behind :")?;
                self.at += 1;
                (self.slot)(name).map(Number::Variable)
            }
            (TokenKind::Word, "random") => {
                let [a, b] = self.arguments("random(1, 9)")?;
                Ok(Number::Random(a.into(), b.into()))
            }
            (TokenKind::Word, "key") => {
                let [a, b] = self.arguments("key(1, 9)")?;
                Ok(Number::Key(a.into(), b.into()))
            }
            (TokenKind::Word, "random_zipfian") => self.zipfian(),
            (_, text) => Err(unknown(text)),
        }
    }

    /// `random_zipfian(1, 9, 1.2)`: its last argument is not a whole number.
    fn zipfian(&mut self) -> Result<Number, String> {
        let wrong = || "it is written random_zipfian(1, 9, 1.2), from 0.001 to 5".to_owned();
        let opened = self.takes(TokenKind::Open, "(");
        let a = self.sum()?;
        let first = self.takes(TokenKind::Comma, ",");
        let b = self.sum()?;
        let second = self.takes(TokenKind::Comma, ",");
        let exponent = self.peek().and_then(|(_, text)| text.parse::<f64>().ok());
        self.at += 1;
        let exponent = exponent.filter(|exponent| (0.001..=5.0).contains(exponent));
        match (exponent, opened && first && second && self.takes(TokenKind::Close, ")")) {
            (Some(exponent), true) => Ok(Number::Zipf(a.into(), b.into(), exponent)),
            _ => Err(wrong()),
        }
    }

    fn arguments<const N: usize>(&mut self, example: &str) -> Result<[Number; N], String> {
        let wrong = || format!("it is written {example}");
        if !self.takes(TokenKind::Open, "(") {
            return Err(wrong());
        }
        let mut found = Vec::new();
        loop {
            found.push(self.sum()?);
            if self.takes(TokenKind::Close, ")") {
                return found.try_into().map_err(|_| wrong());
            }
            if !self.takes(TokenKind::Comma, ",") {
                return Err(wrong());
            }
        }
    }
}

fn unknown(text: &str) -> String {
    format!(
        "{text:?} is not understood: there are whole numbers, :variables, + - * / % ( ), \
         random(1, 9), random_zipfian(1, 9, 1.2), key(1, 9) and digit_groups(10)"
    )
}
