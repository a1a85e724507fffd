//! What is played over one database: statements that make it, then writes and the queries behind
//! them, in turn.

use crate::influxql::script::{Action, Step};

/// Writes that come together, and the queries behind them.
#[derive(Debug, Default)]
pub struct Block {
    pub writes: Vec<Step>,
    pub queries: Vec<Step>,
}

/// A file, or what chance has made, over a database of its own.
#[derive(Debug)]
pub struct Play {
    /// The file, or the seed.
    pub name: String,
    pub db: String,
    /// Statements that make the database and its policies.
    pub creates: Vec<String>,
    pub blocks: Vec<Block>,
    pub is_by_chance: bool,
    /// The lines that are written in all, where any of them can be left out.
    pub lines: Vec<String>,
}

impl Play {
    pub fn of(name: &str, db: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        let mut blocks: Vec<Block> = vec![Block::default()];
        for step in steps {
            let is_write = matches!(step.action, Action::Write { .. });
            if is_write && blocks.last().is_some_and(|block| !block.queries.is_empty()) {
                blocks.push(Block::default());
            }
            let Some(block) = blocks.last_mut() else { continue };
            if is_write { block.writes.push(step) } else { block.queries.push(step) }
        }
        let creates = vec![format!("CREATE DATABASE {db}")];
        Self {
            name: name.to_owned(),
            db: db.to_owned(),
            creates,
            blocks,
            is_by_chance: false,
            lines: Vec::new(),
        }
    }

    /// How many queries it has.
    pub fn queries(&self) -> usize {
        self.blocks.iter().map(|block| block.queries.len()).sum()
    }
}
