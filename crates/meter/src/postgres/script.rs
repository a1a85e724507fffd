//! Scripts, in pgbench's words: lines that begin with `\set`, and statements that end with `;`.

use std::collections::HashMap;
use std::io::Write as _;

use wire::sql::{Strings, Token, TokenKind, statements};

use super::builtin::{LEDGER, TABLE, table};
use super::expression::{Draws, Expression, Number, put_content};
use super::{Options, PostgresError, Protocol, Source};

/// The most variables, statements and tokens of a statement.
const VARIABLES_MAX: usize = 1000;
const STATEMENTS_MAX: usize = 1000;
const TOKENS_MAX: usize = 100_000;
/// The most parameters of a statement, which the protocol counts in 16 bits.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// A script that can be run.
#[derive(Debug, Clone)]
pub struct Script {
    pub name: String,
    pub share: u32,
    pub steps: Vec<Step>,
    /// How many variables it has.
    pub slots: usize,
    /// Whether it puts a row into a ledger's table.
    pub is_kept: bool,
}

/// What is done next.
#[derive(Debug, Clone)]
pub enum Step {
    Set(usize, Expression),
    Send(Statement),
    /// That of the table that the variable of the slot has, from 1 on.
    SendTo(usize, Vec<Statement>),
}

/// A statement of a script, ready to be written.
#[derive(Debug, Clone)]
pub struct Statement {
    pub protocol: Protocol,
    /// What it was prepared as; nothing where it is not.
    pub name: Vec<u8>,
    /// With `$1` for the first of its parameters.
    pub text: Vec<u8>,
    /// The slots of its parameters.
    pub parameters: Vec<usize>,
    /// The same as text between which values are written.
    pub parts: Vec<StatementPiece>,
}

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementPiece {
    Text(Vec<u8>),
    Value(usize),
}

/// The variables of a request.
#[derive(Debug, Clone, Default)]
pub struct Values {
    numbers: Vec<i64>,
    /// Each as it is sent, and whether it is a text, which is quoted where it is in a statement.
    texts: Vec<(Vec<u8>, bool)>,
    /// Where a statement is written before its length is known.
    pub scratch: Vec<u8>,
}

impl Values {
    /// Forgets all of them.
    pub fn clear(&mut self, slots: usize) {
        self.numbers.clear();
        self.numbers.resize(slots, 0);
        if self.texts.len() < slots {
            self.texts.resize(slots, (Vec::new(), false));
        }
    }

    pub fn set(&mut self, slot: usize, expression: &Expression, draws: &mut Draws) {
        let (text, is_text) = &mut self.texts[slot];
        text.clear();
        *is_text = false;
        match expression {
            Expression::Number(number) => {
                let value = number.value(&self.numbers, draws);
                self.numbers[slot] = value;
                // Writing to memory does not fail.
                let _ = write!(text, "{value}");
            }
            Expression::DigitGroups(groups) => {
                draws.put_digit_groups(*groups, text);
                *is_text = true;
            }
            Expression::Content(run) => {
                put_content(*run, draws.request, text);
                *is_text = true;
            }
        }
    }

    /// A variable that is a number.
    pub fn number(&self, slot: usize) -> i64 {
        self.numbers.get(slot).copied().unwrap_or_default()
    }

    /// Writes a value as a parameter: its length and its bytes.
    pub fn write_parameter(&mut self, slot: usize) {
        let (text, _) = &self.texts[slot];
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.scratch.extend_from_slice(&length.to_be_bytes());
        self.scratch.extend_from_slice(text);
    }

    /// Writes a value as it stands in a statement. Texts are digits and dashes.
    pub fn write_literal(&mut self, slot: usize) {
        let (text, is_text) = &self.texts[slot];
        let quote: &[u8] = if *is_text { b"'" } else { b"" };
        for part in [quote, text, quote] {
            self.scratch.extend_from_slice(part);
        }
    }
}

impl Script {
    /// Reads a script's text; its variables begin with those that options give.
    pub fn read(source: &Source, options: &Options) -> Result<Self, PostgresError> {
        let (text, own) = source.body(options.tables)?;
        let protocol = options.protocol.unwrap_or(own);
        let tables = if source.text.is_none() { options.tables } else { 1 };
        let mut reading =
            ScriptReader { protocol, tables, slots: Vec::new(), steps: Vec::new(), kept: 0 };
        let failed = |what: String| PostgresError::Script { script: source.name.clone(), what };
        for (name, value) in options.given() {
            reading.set(name, &value.to_string()).map_err(failed)?;
        }
        if let Some(run) = options.run {
            reading.set("run", &run.to_string()).map_err(failed)?;
            reading.assign("number", Expression::Number(Number::Request)).map_err(failed)?;
            reading.assign("content", Expression::Content(run)).map_err(failed)?;
        }
        let mut pending = String::new();
        for (number, line) in text.lines().enumerate() {
            let at_line = |what: String| failed(format!("line {}: {what}", number + 1));
            match line.trim_start().strip_prefix('\\') {
                None => {
                    pending.push_str(line);
                    pending.push('\n');
                }
                Some(command) => {
                    reading.statements(&pending).map_err(at_line)?;
                    pending.clear();
                    reading.command(command).map_err(at_line)?;
                }
            }
        }
        reading.statements(&pending).map_err(failed)?;
        let ScriptReader { slots, steps, kept, .. } = reading;
        if kept > 1 && options.run.is_some() {
            return Err(failed(format!("{LEDGER} is in it {kept} times: a request has one row")));
        }
        let (name, share) = (source.name.clone(), source.share);
        let script = Self { name, share, steps, slots: slots.len(), is_kept: kept == 1 };
        match script.steps.iter().filter(|step| !matches!(step, Step::Set(..))).count() {
            0 => Err(failed("it has no statement".to_owned())),
            1..=STATEMENTS_MAX => Ok(script),
            _ => Err(failed(format!("it has over {STATEMENTS_MAX} statements"))),
        }
    }

    /// Its statements in order, those for all tables among them.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.steps.iter().flat_map(|step| match step {
            Step::Send(statement) => std::slice::from_ref(statement),
            Step::SendTo(_, statements) => &statements[..],
            Step::Set(..) => &[],
        })
    }

    /// Names its prepared statements; those of the same text share one.
    pub fn name_statements(&mut self, next: &mut usize) {
        let mut known: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        let statements = self.steps.iter_mut().flat_map(|step| match step {
            Step::Send(statement) => std::slice::from_mut(statement),
            Step::SendTo(_, statements) => &mut statements[..],
            Step::Set(..) => &mut [],
        });
        for statement in statements.filter(|of| of.protocol == Protocol::Prepared) {
            let name = known.entry(statement.text.clone()).or_insert_with(|| {
                *next += 1;
                format!("load_{next}").into_bytes()
            });
            statement.name.clone_from(name);
        }
    }
}

struct ScriptReader {
    protocol: Protocol,
    /// Tables that [`TABLE`] stands for, where there are several.
    tables: u64,
    slots: Vec<String>,
    steps: Vec<Step>,
    /// How often a ledger's table is named.
    kept: usize,
}

impl ScriptReader {
    fn slot(&self, name: &str) -> Result<usize, String> {
        let found = self.slots.iter().position(|known| known == name);
        found.ok_or_else(|| format!("no variable {name:?} is set before it is used"))
    }

    /// A line that begins with a backslash.
    fn command(&mut self, line: &str) -> Result<(), String> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if command != "set" {
            return Err(format!("\\{command} is not understood: only \\set is"));
        }
        let wrong = "it is written \\set name expression";
        let (name, expression) =
            rest.trim().split_once(char::is_whitespace).ok_or_else(|| wrong.to_owned())?;
        self.set(name, expression)
    }

    fn set(&mut self, name: &str, expression: &str) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(format!("{name:?} is not a variable's name"));
        }
        let expression = Expression::read(expression, |name| self.slot(name))?;
        self.assign(name, expression)
    }

    fn assign(&mut self, name: &str, expression: Expression) -> Result<(), String> {
        let slot = self.slot(name).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(name.to_owned());
        }
        if slot >= VARIABLES_MAX {
            return Err(format!("it has over {VARIABLES_MAX} variables"));
        }
        self.steps.push(Step::Set(slot, expression));
        Ok(())
    }

    /// The statements of a text; those for several tables are one step.
    fn statements(&mut self, text: &str) -> Result<(), String> {
        if self.tables == 1 || !text.contains(TABLE) {
            let read = self.read(text)?;
            self.steps.extend(read.into_iter().map(Step::Send));
            return Ok(());
        }
        let numbers = 1..=self.tables;
        let of_tables = numbers.map(|number| self.read(&text.replace(TABLE, &table(number))));
        let mut of_tables = of_tables.collect::<Result<Vec<_>, String>>()?;
        let slot = self.slot("table")?;
        while of_tables.iter().all(|rest| !rest.is_empty()) {
            let each: Vec<_> = of_tables.iter_mut().map(|rest| rest.remove(0)).collect();
            self.steps.push(Step::SendTo(slot, each));
        }
        Ok(())
    }

    fn read(&mut self, text: &str) -> Result<Vec<Statement>, String> {
        let mut found = Vec::new();
        let mut all = statements(text.as_bytes(), Strings::Standard);
        let mut tokens = Vec::new();
        while all.next_into(&mut tokens, TOKENS_MAX) {
            if tokens.len() > TOKENS_MAX {
                return Err(format!("a statement has over {TOKENS_MAX} words"));
            }
            let is_table = |token: &&Token<'_>| token.text.eq_ignore_ascii_case(LEDGER.as_bytes());
            self.kept += tokens.iter().filter(is_table).count();
            found.push(self.statement(text.as_bytes(), &tokens)?);
        }
        Ok(found)
    }

    /// A statement, from its first token to its last.
    fn statement(&self, text: &[u8], tokens: &[Token<'_>]) -> Result<Statement, String> {
        let begin = tokens.first().map_or(0, |token| token.start);
        let end = tokens.last().map_or(begin, |token| token.start + token.text.len());
        let mut statement = Statement {
            protocol: self.protocol,
            name: Vec::new(),
            text: Vec::new(),
            parameters: Vec::new(),
            parts: Vec::new(),
        };
        let mut at = begin;
        for pair in tokens.windows(2) {
            let [mark, name] = pair else { continue };
            let is_variable = mark.kind == TokenKind::Mark
                && mark.text == b":"
                && name.kind == TokenKind::Word
                && name.start == mark.start + 1;
            if !is_variable {
                continue;
            }
            let slot = self.slot(&String::from_utf8_lossy(name.text))?;
            statement.text(&text[at..mark.start]);
            statement.value(slot);
            at = name.start + name.text.len();
        }
        statement.text(&text[at..end]);
        if statement.parameters.len() > PARAMETERS_MAX {
            return Err(format!("a statement has over {PARAMETERS_MAX} parameters"));
        }
        if tokens.iter().any(|token| token.kind == TokenKind::Odd) {
            let shown = String::from_utf8_lossy(&text[begin..end.min(begin + 60)]).into_owned();
            return Err(format!("{shown:?} is not valid SQL: a quote or a comment has no end"));
        }
        Ok(statement)
    }
}

impl Statement {
    fn text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        self.parts.push(StatementPiece::Text(text.to_vec()));
    }

    fn value(&mut self, slot: usize) {
        self.parameters.push(slot);
        self.text.extend_from_slice(format!("${}", self.parameters.len()).as_bytes());
        self.parts.push(StatementPiece::Value(slot));
    }
}
