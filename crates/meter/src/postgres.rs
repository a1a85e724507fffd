//! PostgreSQL: scripts, as pgbench and sysbench have them. A script is one request, whether its
//! statements are sent one by one or all at once; they are counted beside.

mod builtin;
mod expression;
mod ledger_rows;
mod login;
mod prepare;
mod replies;
mod script;
mod settings;
#[cfg(test)]
mod tests;

pub use builtin::names;
pub use ledger_rows::LedgerRows;
pub use prepare::{Preparation, create_database};
pub use replies::Replies;
pub(crate) use replies::words;
pub use settings::{Options, PostgresError, Protocol, Source};

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::postgres::frontend::{
    Target, put_bind_written, put_describe, put_execute, put_parse, put_query, put_sync,
};

use crate::chance::Chance;
use crate::keys::Order;
use crate::url::Url;
use crate::workload::{Greeting, Workload};
use expression::Draws;
use login::Login;
use script::{Script, Statement, StatementPiece, Step, Values};

/// Runs scripts, and reads the replies to their statements.
#[derive(Debug, Clone)]
pub struct Postgres {
    scripts: Arc<[Script]>,
    /// Of all scripts together.
    shares: u64,
    /// The run that a ledger is kept of.
    run: Option<i64>,
    pipelined: bool,
    order: Order,
    seed: u64,
    login: Login,
    values: Values,
}

impl Postgres {
    /// What goes to the server and database of `url`.
    ///
    /// # Errors
    /// A script can't be read, or an option is beyond a limit.
    pub fn new(url: &Url, sources: &[Source], options: &Options) -> Result<Self, PostgresError> {
        options.check(sources)?;
        let needs_ledger = |source: &Source| source.text.is_none() && source.name == "ledger";
        if options.run.is_none() && sources.iter().any(needs_ledger) {
            return Err(PostgresError::NoLedger);
        }
        let mut scripts = Vec::new();
        let mut prepared = 0;
        for source in sources {
            let mut script = Script::read(source, options)?;
            script.name_statements(&mut prepared);
            scripts.push(script);
        }
        if options.run.is_some() && !scripts.iter().any(|script| script.is_kept) {
            return Err(PostgresError::NothingKept);
        }
        let (mut parses, mut named) = (Vec::new(), BTreeSet::new());
        for statement in scripts.iter().flat_map(Script::statements) {
            if !statement.name.is_empty() && named.insert(&statement.name) {
                put_parse(&mut parses, &statement.name, &statement.text, &[]);
            }
        }
        Ok(Self {
            shares: scripts.iter().map(|script| u64::from(script.share)).sum(),
            scripts: scripts.into(),
            run: options.run,
            pipelined: options.pipelined,
            order: options.order,
            seed: options.seed,
            login: Login::new(url, options, parses)?,
            values: Values::default(),
        })
    }

    /// Which script a request runs.
    fn drawn(&self, chance: &mut Chance) -> usize {
        chance.one_of(self.shares, self.scripts.iter().map(|script| u64::from(script.share)))
    }

    /// What a ledger has to say of it, so that [`LedgerRows::read`] knows what was written.
    pub fn kept(&self) -> serde_json::Value {
        let scripts = self
            .scripts
            .iter()
            .map(|script| serde_json::json!({ "share": script.share, "kept": script.is_kept }));
        let scripts = scripts.collect::<Vec<_>>();
        serde_json::json!({
            "postgres": { "scripts": scripts, "seed": self.seed, "run": self.run },
        })
    }
}

impl Workload for Postgres {
    type Reader = Replies;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        let mut chance = Chance::of(self.seed, number);
        let operation = self.drawn(&mut chance);
        let script = &self.scripts[operation];
        self.values.clear(script.slots);
        let mut draws = Draws::new(chance, self.order, number);
        let mut syncs = false;
        for step in &script.steps {
            let statement = match step {
                Step::Set(slot, expression) => {
                    self.values.set(*slot, expression, &mut draws);
                    None
                }
                Step::Send(statement) => Some(statement),
                Step::SendTo(slot, statements) => {
                    let table = self.values.number(*slot).saturating_sub(1);
                    usize::try_from(table).ok().and_then(|table| statements.get(table))
                }
            };
            let Some(statement) = statement else { continue };
            put(statement, &mut self.values, out);
            syncs = statement.protocol != Protocol::Simple;
            if syncs && !self.pipelined {
                put_sync(out);
            }
        }
        if syncs && self.pipelined {
            put_sync(out);
        }
        operation
    }

    fn reader(&self) -> Replies {
        Replies::new(self.pipelined)
    }

    fn operation(&self, number: u64) -> usize {
        self.drawn(&mut Chance::of(self.seed, number))
    }

    fn operations(&self) -> Vec<String> {
        self.scripts.iter().map(|script| script.name.clone()).collect()
    }

    fn greeting(&self) -> Option<Box<dyn Greeting>> {
        Some(self.login.begin())
    }
}

/// Puts a statement as libpq sends it: what it asks of a portal, it asks with Describe.
fn put(statement: &Statement, values: &mut Values, out: &mut Vec<u8>) {
    if statement.protocol == Protocol::Simple {
        values.scratch.clear();
        for part in &statement.parts {
            match part {
                StatementPiece::Text(text) => values.scratch.extend_from_slice(text),
                StatementPiece::Value(slot) => values.write_literal(*slot),
            }
        }
        put_query(out, &values.scratch);
        return;
    }
    if statement.protocol == Protocol::Extended {
        put_parse(out, b"", &statement.text, &[]);
    }
    values.scratch.clear();
    for slot in &statement.parameters {
        values.write_parameter(*slot);
    }
    // A script has as many parameters as a statement may have: it is checked where it is read.
    let count = u16::try_from(statement.parameters.len()).unwrap_or(u16::MAX);
    put_bind_written(out, &statement.name, count, &values.scratch);
    put_describe(out, Target::Portal(b""));
    put_execute(out, b"", 0);
}
