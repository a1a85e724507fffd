//! What can be chosen, and its limits.

use std::str::FromStr;

use super::builtin;
use crate::keys::Order;

/// The most scripts of a mix.
const SCRIPTS_MAX: usize = 100;
const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// The largest share of a script.
const SHARE_MAX: u32 = 1_000_000;
/// The most tables of `oltp_*`: connections prepare the statements of each.
const TABLES_MAX: u64 = 1000;
/// The most rows of such a table, whose keys are 32 bits long.
const ROWS_MAX: u64 = i32::MAX as u64;
/// The largest scale, at which the keys of `pgbench_accounts` fit in 32 bits.
const SCALE_MAX: u64 = ROWS_MAX / 100_000;

/// A load of PostgreSQL can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostgresError {
    /// A script has no name of ours.
    #[error("{0:?} is not a script: it is @FILE or one of {names}",
            names = super::names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// A line or statement of a script.
    #[error("script {script}: {what}")]
    Script {
        script: String,
        /// What is wrong, and where.
        what: String,
    },
    /// A way to send statements.
    #[error("{0:?} is not a protocol: it is simple, extended or prepared")]
    Protocol(String),
    /// The path of the URL.
    #[error("{0:?} is not a database: write the URL as postgres://host:port/database")]
    Database(String),
    /// A limit is exceeded.
    #[error("{0}")]
    Limit(String),
    /// Tables of scripts that we did not write.
    #[error(
        "--prepare makes the tables of oltp_*, of pgbench's scripts and of ledgers; those of \
         others are yours"
    )]
    Tables,
    /// There is nothing to keep a ledger of.
    #[error(
        "--ledger is kept of rows in the table weir_ledger, and no script puts any there: take \
         --script ledger, or put (:run, :number, :content) into it in a script of your own"
    )]
    NothingKept,
    /// A script of a ledger's, and no ledger.
    #[error("the script ledger is for runs with --ledger")]
    NoLedger,
}

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// As text with the values in it.
    Simple,
    /// Parsed each time, with the values beside.
    Extended,
    /// Parsed once, when a connection is opened.
    Prepared,
}

impl FromStr for Protocol {
    type Err = PostgresError;

    fn from_str(text: &str) -> Result<Self, PostgresError> {
        match text {
            "simple" => Ok(Self::Simple),
            "extended" => Ok(Self::Extended),
            "prepared" => Ok(Self::Prepared),
            _ => Err(PostgresError::Protocol(text.to_owned())),
        }
    }
}

/// A script and how often it runs beside others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name: one of ours, or a file's.
    pub name: String,
    /// Its text; nothing where it is one of ours.
    pub text: Option<String>,
    /// Its share of all that run.
    pub share: u32,
}

impl Source {
    /// Splits `name=share`; without a number behind it, the share is 1.
    pub fn share_of(text: &str) -> (&str, u32) {
        let parts = text.rsplit_once('=');
        let known = parts.and_then(|(name, share)| Some((name, share.parse().ok()?)));
        known.unwrap_or((text, 1))
    }

    /// Its text, of one of ours for so many tables, and how it is sent where nobody says it.
    pub(super) fn body(&self, tables: u64) -> Result<(String, Protocol), PostgresError> {
        match &self.text {
            Some(text) => Ok((text.clone(), Protocol::Simple)),
            None => {
                let unknown = || PostgresError::Unknown(self.name.clone());
                builtin::script(&self.name, tables).ok_or_else(unknown)
            }
        }
    }
}

/// Everything but the scripts.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How statements are sent; nothing: as the tools do whose scripts they are.
    pub protocol: Option<Protocol>,
    /// All statements of a script are sent at once.
    pub pipelined: bool,
    /// Tables of `oltp_*`, from `sbtest1` on.
    pub tables: u64,
    /// Rows of each of these tables.
    pub table_size: u64,
    /// Branches of pgbench's tables, with 100,000 accounts each.
    pub scale: u64,
    /// Variables that scripts begin with.
    pub variables: Vec<(String, i64)>,
    /// In which order keys come.
    pub order: Order,
    /// What chance begins with.
    pub seed: u64,
    /// Who logs in where the URL names nobody.
    pub user: String,
    /// The password where the URL has none.
    pub password: Option<String>,
    /// The run that a ledger is kept of.
    pub run: Option<i64>,
}

impl Options {
    /// Refuses what is beyond a limit.
    pub(super) fn check(&self, sources: &[Source]) -> Result<(), PostgresError> {
        let limit = |words: String| Err(PostgresError::Limit(words));
        if sources.is_empty() || sources.len() > SCRIPTS_MAX {
            return limit(format!("there are 1 to {SCRIPTS_MAX} scripts"));
        }
        if sources.iter().any(|source| source.share == 0 || source.share > SHARE_MAX) {
            return limit(format!("a script's share is from 1 to {SHARE_MAX}"));
        }
        let is_long = |source: &&Source| {
            source.text.as_ref().is_some_and(|text| text.len() > SCRIPT_BYTES_MAX)
        };
        if let Some(long) = sources.iter().find(is_long) {
            return limit(format!("{} is over {SCRIPT_BYTES_MAX} bytes", long.name));
        }
        if self.table_size == 0 || self.table_size > ROWS_MAX {
            return limit(format!("sbtest1 has 1 to {ROWS_MAX} rows"));
        }
        if self.tables == 0 || self.tables > TABLES_MAX {
            return limit(format!("there are 1 to {TABLES_MAX} tables of oltp_*"));
        }
        if self.scale == 0 || self.scale > SCALE_MAX {
            return limit(format!("the scale is from 1 to {SCALE_MAX}"));
        }
        Ok(())
    }

    /// The variables that each script has from the start.
    pub(super) fn given(&self) -> impl Iterator<Item = (&str, i64)> {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let own = [("table_size", whole(self.table_size)), ("scale", whole(self.scale))];
        own.into_iter().chain(self.variables.iter().map(|(name, value)| (&**name, *value)))
    }
}
