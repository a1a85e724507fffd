//! Expressions (`ParseExpr` of `influxql/parser.go`).

use super::{Parser, unplaced};
use crate::influxql::ast::{Cast, Expr, Op, WildcardKind};
use crate::influxql::reader::Result;
use crate::influxql::token::TokenKind;

/// Levels of an expression's tree: whoever walks it recurses as deep.
const DEPTH_MAX: u32 = 400;

/// Links of a chain of `AND` or `OR` that stands as InfluxDB builds it, each within the next; a
/// longer one is built as a balanced tree, which says the same.
const CHAIN_MAX: usize = 64;

/// An expression and how many levels it has.
struct Tree {
    expr: Expr,
    depth: u32,
}

impl Tree {
    fn leaf(expr: Expr) -> Self {
        Self { expr, depth: 1 }
    }

    fn over(expr: Expr, depth: u32) -> Self {
        Self { expr, depth: depth + 1 }
    }
}

/// How tightly an operation binds.
fn precedence(op: Op) -> u8 {
    match op {
        Op::Or => 1,
        Op::And => 2,
        Op::Equal
        | Op::NotEqual
        | Op::EqualRegex
        | Op::NotEqualRegex
        | Op::Less
        | Op::LessOrEqual
        | Op::Greater
        | Op::GreaterOrEqual => 3,
        Op::Add | Op::Subtract | Op::BitwiseOr | Op::BitwiseXor => 4,
        Op::Multiply | Op::Divide | Op::Modulo | Op::BitwiseAnd => 5,
    }
}

fn operation(kind: TokenKind) -> Option<Op> {
    let (TokenKind::Keyword(word) | TokenKind::Symbol(word)) = kind else { return None };
    Some(match word {
        "OR" => Op::Or,
        "AND" => Op::And,
        "=" => Op::Equal,
        "!=" | "<>" => Op::NotEqual,
        "=~" => Op::EqualRegex,
        "!~" => Op::NotEqualRegex,
        "<" => Op::Less,
        "<=" => Op::LessOrEqual,
        ">" => Op::Greater,
        ">=" => Op::GreaterOrEqual,
        "+" => Op::Add,
        "-" => Op::Subtract,
        "|" => Op::BitwiseOr,
        "^" => Op::BitwiseXor,
        "*" => Op::Multiply,
        "/" => Op::Divide,
        "%" => Op::Modulo,
        "&" => Op::BitwiseAnd,
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.tree().map(|tree| tree.expr)
    }

    fn tree(&mut self) -> Result<Tree> {
        let first = self.operand()?;
        self.climb(first, 0)
    }

    /// Reads operations that bind at least as tightly as `least`, with `left` as first operand.
    fn climb(&mut self, left: Tree, least: u8) -> Result<Tree> {
        let mut chain = vec![left];
        let mut chained = None;
        loop {
            let next = self.take();
            let op = operation(next.kind).filter(|op| precedence(*op) >= least);
            let Some(op) = op else {
                self.unscan();
                return self.join(chained, chain);
            };
            let right = match op {
                Op::EqualRegex | Op::NotEqualRegex => Tree::leaf(Expr::Regex(self.needed_regex()?)),
                _ => self.operand()?,
            };
            let right = self.climb(right, precedence(op) + 1)?;
            if !(chained == Some(op) && matches!(op, Op::And | Op::Or)) {
                chain = vec![self.join(chained, chain)?];
                chained = Some(op);
            }
            chain.push(right);
        }
    }

    /// One tree of operands that one operation stands between.
    fn join(&mut self, op: Option<Op>, mut chain: Vec<Tree>) -> Result<Tree> {
        let joined = match op {
            None => chain.pop(),
            Some(op) if chain.len() > CHAIN_MAX => Some(balanced(op, chain)),
            Some(op) => chain.into_iter().reduce(|left, right| binary(op, left, right)),
        };
        match joined {
            Some(tree) if tree.depth <= DEPTH_MAX => Ok(tree),
            _ => {
                let next = self.take();
                Err(self.wrong(&next, &format!("expression of more than {DEPTH_MAX} levels")))
            }
        }
    }

    /// `parseUnaryExpr`.
    fn operand(&mut self) -> Result<Tree> {
        let first = self.take();
        match first.kind {
            TokenKind::Symbol("(") => {
                let inner = self.nested(Self::tree)?;
                self.expect(")")?;
                Ok(Tree::over(Expr::Paren(Box::new(inner.expr)), inner.depth))
            }
            TokenKind::Ident => self.named(&first.value),
            TokenKind::Keyword("DISTINCT") => self.distinct(),
            TokenKind::Symbol("*") => self.wildcard().map(Tree::leaf),
            TokenKind::Symbol("+") => self.signed(false),
            TokenKind::Symbol("-") => self.signed(true),
            _ => self.literal(first).map(Tree::leaf),
        }
    }

    /// A call, if its parenthesis follows at once; else a reference.
    fn named(&mut self, name: &str) -> Result<Tree> {
        if self.scanner.scan().is("(") {
            return self.call(name);
        }
        self.unscan();
        self.unscan();
        self.reference().map(Tree::leaf)
    }

    fn distinct(&mut self) -> Result<Tree> {
        let next = self.scanner.scan();
        if next.is("(") {
            return self.call("distinct");
        }
        if next.kind != TokenKind::Blank {
            return Err(self.unexpected(&next, &["(", "identifier"]));
        }
        self.ident().map(Expr::Distinct).map(Tree::leaf)
    }

    fn wildcard(&mut self) -> Result<Expr> {
        if !self.scanner.scan().is("::") {
            self.unscan();
            return Ok(Expr::Wildcard(None));
        }
        let kind = self.scanner.scan();
        match kind.kind {
            TokenKind::Keyword("FIELD") => Ok(Expr::Wildcard(Some(WildcardKind::Field))),
            TokenKind::Keyword("TAG") => Ok(Expr::Wildcard(Some(WildcardKind::Tag))),
            _ => Err(self.unexpected(&kind, &["field", "tag"])),
        }
    }

    /// What stands behind a sign.
    fn signed(&mut self, negative: bool) -> Result<Tree> {
        let next = self.take();
        match next.kind {
            TokenKind::Number
            | TokenKind::Integer
            | TokenKind::Duration
            | TokenKind::Ident
            | TokenKind::Symbol("(") => self.unscan(),
            _ => {
                let expected = ["identifier", "number", "duration", "("];
                return Err(self.unexpected(&next, &expected));
            }
        }
        let Tree { expr, depth } = self.operand()?;
        let sign = if negative { -1 } else { 1 };
        let expr = match expr {
            Expr::Number(value) => Expr::Number(if negative { -value } else { value }),
            Expr::Integer(value) => Expr::Integer(value.wrapping_mul(sign)),
            Expr::Duration(value) => Expr::Duration(value.wrapping_mul(sign)),
            Expr::Unsigned(value) if !negative => Expr::Unsigned(value),
            // The one that fits as soon as it has its sign.
            Expr::Unsigned(value) if value == i64::MIN.unsigned_abs() => Expr::Integer(i64::MIN),
            Expr::Unsigned(value) => {
                return unplaced(&format!("constant -{value} underflows int64"));
            }
            other => {
                let sign = Tree::leaf(Expr::Integer(sign));
                return Ok(binary(Op::Multiply, sign, Tree { expr: other, depth }));
            }
        };
        Ok(Tree { expr, depth })
    }

    /// The arguments and the closing parenthesis of a call.
    fn call(&mut self, name: &str) -> Result<Tree> {
        let arguments = self.nested(Self::arguments)?;
        let close = self.scanner.scan();
        if !close.is(")") {
            return Err(self.unexpected(&close, &[")"]));
        }
        let depth = arguments.iter().map(|argument| argument.depth).max().unwrap_or(0);
        let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
        Ok(Tree::over(Expr::Call { name: name.to_lowercase(), arguments }, depth))
    }

    fn arguments(&mut self) -> Result<Vec<Tree>> {
        let mut arguments = Vec::new();
        if let Some(regex) = self.regex()? {
            arguments.push(Tree::leaf(Expr::Regex(regex)));
        } else {
            let next = self.scanner.scan();
            self.unscan();
            if next.is(")") {
                return Ok(arguments);
            }
            arguments.push(self.tree()?);
        }
        while self.accept(",") {
            arguments.push(match self.regex()? {
                Some(regex) => Tree::leaf(Expr::Regex(regex)),
                None => self.tree()?,
            });
        }
        Ok(arguments)
    }

    /// `ParseVarRef`.
    fn reference(&mut self) -> Result<Expr> {
        let name = self.segments()?.join(".");
        if !self.scanner.scan().is("::") {
            self.unscan();
            return Ok(Expr::Reference { name, cast: None });
        }
        let found = self.scanner.scan();
        let cast = match found.kind {
            TokenKind::Keyword("FIELD") => Cast::AnyField,
            TokenKind::Keyword("TAG") => Cast::Tag,
            TokenKind::Ident => match found.value.to_lowercase().as_str() {
                "float" => Cast::Float,
                "integer" => Cast::Integer,
                "unsigned" => Cast::Unsigned,
                "string" => Cast::String,
                "boolean" => Cast::Boolean,
                _ => {
                    let known =
                        ["float", "integer", "unsigned", "string", "boolean", "field", "tag"];
                    return Err(self.unexpected(&found, &known));
                }
            },
            _ => {
                let known = ["float", "integer", "string", "boolean", "field", "tag"];
                return Err(self.unexpected(&found, &known));
            }
        };
        Ok(Expr::Reference { name, cast: Some(cast) })
    }
}

fn binary(op: Op, left: Tree, right: Tree) -> Tree {
    let depth = left.depth.max(right.depth);
    let expr = Expr::Binary { op, left: Box::new(left.expr), right: Box::new(right.expr) };
    Tree::over(expr, depth)
}

/// Joins neighbours until one is left.
fn balanced(op: Op, mut chain: Vec<Tree>) -> Tree {
    while chain.len() > 1 {
        let mut trees = chain.into_iter();
        let mut joined = Vec::with_capacity(trees.len() / 2 + 1);
        while let Some(left) = trees.next() {
            joined.push(match trees.next() {
                Some(right) => binary(op, left, right),
                None => left,
            });
        }
        chain = joined;
    }
    chain.pop().unwrap_or(Tree::leaf(Expr::Boolean(true)))
}
