//! What a run with a ledger has put into the ledger's table.

use serde_json::Value;

use super::expression::put_content;
use super::login::Login;
use super::{Options, PostgresError};
use crate::chance::Chance;
use crate::url::Url;
use crate::workload::Greeting;

/// The rows of a run, by the numbers of its requests.
#[derive(Debug, Clone)]
pub struct LedgerRows {
    /// The shares of its scripts, and whether each puts a row into the table.
    scripts: Vec<(u32, bool)>,
    shares: u64,
    seed: u64,
    run: i64,
    login: Login,
}

impl LedgerRows {
    /// Reads what [`super::Postgres::kept`] says.
    ///
    /// # Errors
    /// The URL's path is not a database.
    pub fn read(url: &Url, kept: &Value, options: &Options) -> Result<Option<Self>, PostgresError> {
        let of = &kept["postgres"];
        let read = || {
            let script = |of: &Value| {
                let share = u32::try_from(of["share"].as_u64()?).ok()?;
                Some((share, of["kept"].as_bool()?))
            };
            let scripts = of["scripts"].as_array()?.iter().map(script);
            Some((scripts.collect::<Option<Vec<_>>>()?, of["seed"].as_u64()?, of["run"].as_i64()?))
        };
        let Some((scripts, seed, run)) = read() else { return Ok(None) };
        let shares = scripts.iter().map(|(share, _)| u64::from(*share)).sum();
        let login = Login::new(url, options, Vec::new())?;
        Ok(Some(Self { scripts, shares, seed, run, login }))
    }

    /// The number by which the run is known in the table.
    pub fn run(&self) -> i64 {
        self.run
    }

    /// What a request has put into the table; nothing where its script puts nothing there.
    pub fn content(&self, number: u64) -> Option<Vec<u8>> {
        let mut chance = Chance::of(self.seed, number);
        let shares = self.scripts.iter().map(|(share, _)| u64::from(*share));
        let (_, is_kept) = self.scripts.get(chance.one_of(self.shares, shares))?;
        let mut content = Vec::new();
        put_content(self.run, number, &mut content);
        is_kept.then_some(content)
    }

    /// How a connection begins.
    pub fn greeting(&self) -> Box<dyn Greeting> {
        self.login.begin()
    }
}
