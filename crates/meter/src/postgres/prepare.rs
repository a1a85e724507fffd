//! What `--prepare` makes: the tables of sysbench's `oltp_*` and of pgbench's scripts, and the rows
//! that are missing in them.

use wire::postgres::frontend::put_query;

use super::builtin::table;
use super::login::Login;
use super::{Options, PostgresError, Replies, Source};
use crate::url::Url;
use crate::workload::{Greeting, Workload};

/// Rows that are made by one statement.
const ROWS: u64 = 10_000;
/// Accounts of a branch.
const ACCOUNTS: u64 = 100_000;

const PGBENCH: &str = "\
    CREATE TABLE IF NOT EXISTS pgbench_branches (bid int NOT NULL PRIMARY KEY, bbalance int, \
    filler char(88)) WITH (fillfactor=100); \
    CREATE TABLE IF NOT EXISTS pgbench_tellers (tid int NOT NULL PRIMARY KEY, bid int, \
    tbalance int, filler char(84)) WITH (fillfactor=100); \
    CREATE TABLE IF NOT EXISTS pgbench_accounts (aid int NOT NULL PRIMARY KEY, bid int, \
    abalance int, filler char(84)) WITH (fillfactor=100); \
    CREATE TABLE IF NOT EXISTS pgbench_history (tid int, bid int, aid int, delta int, \
    mtime timestamp, filler char(22))";

/// No row is refused for being there twice: that is what is looked for.
const KEPT: &str = "\
    CREATE TABLE IF NOT EXISTS weir_ledger (run bigint NOT NULL, number bigint NOT NULL, \
    content text NOT NULL); \
    CREATE INDEX IF NOT EXISTS weir_ledger_number ON weir_ledger (run, number)";

/// Asks for tables, one statement a request.
#[derive(Debug, Clone)]
pub struct Preparation {
    login: Login,
    steps: Vec<Step>,
}

/// What is asked of the server before the load.
#[derive(Debug, Clone)]
enum Step {
    Sql(String),
    /// A table's rows from one number to another.
    Rows(Fill, u64, u64),
}

/// What rows are made of.
#[derive(Debug, Clone, Copy)]
enum Fill {
    /// As sysbench fills the table of that number, which has so many in all.
    Sbtest {
        number: u64,
        of: u64,
    },
    Branches,
    Tellers,
    Accounts,
}

impl Preparation {
    /// What those scripts need.
    ///
    /// # Errors
    /// They are not ours, or the options are beyond a limit.
    pub fn new(url: &Url, sources: &[Source], options: &Options) -> Result<Self, PostgresError> {
        options.check(sources)?;
        let mut steps = Vec::new();
        let ours = |is_of: fn(&str) -> bool| {
            let mut of_ours = sources.iter().filter(|source| source.text.is_none());
            of_ours.any(|source| is_of(&source.name))
        };
        if options.run.is_some() {
            steps.push(Step::Sql(KEPT.to_owned()));
        }
        if ours(|name| name.starts_with("oltp_")) {
            (1..=options.tables).for_each(|of| put_sbtest(&mut steps, of, options.table_size));
        }
        if ours(|name| !name.starts_with("oltp_") && name != "ledger") {
            steps.push(Step::Sql(PGBENCH.to_owned()));
            put_rows(&mut steps, Fill::Branches, options.scale);
            put_rows(&mut steps, Fill::Tellers, options.scale * 10);
            put_rows(&mut steps, Fill::Accounts, options.scale * ACCOUNTS);
            for table in ["branches", "tellers", "accounts"] {
                steps.push(Step::Sql(format!("ANALYZE pgbench_{table}")));
            }
        }
        if steps.is_empty() {
            return Err(PostgresError::Tables);
        }
        Ok(Self { login: Login::new(url, options, Vec::new())?, steps })
    }

    /// How many requests it has.
    pub fn requests(&self) -> u64 {
        self.steps.len() as u64
    }
}

/// Makes the database of a URL, asked in the database `postgres`.
///
/// # Errors
/// The URL names none.
pub fn create_database(url: &Url, options: &Options) -> Result<Preparation, PostgresError> {
    let login = Login::new(url, options, Vec::new())?;
    let name = login.database().replace('"', "\"\"");
    let steps = vec![Step::Sql(format!("CREATE DATABASE \"{name}\""))];
    Ok(Preparation { login: login.to_database("postgres"), steps })
}

fn put_rows(steps: &mut Vec<Step>, fill: Fill, count: u64) {
    for first in (1..=count).step_by(ROWS as usize) {
        steps.push(Step::Rows(fill, first, count.min(first + ROWS - 1)));
    }
}

/// A table of sysbench's, with its rows.
fn put_sbtest(steps: &mut Vec<Step>, number: u64, rows: u64) {
    let table = table(number);
    steps.push(Step::Sql(format!(
        "CREATE TABLE IF NOT EXISTS {table} (id SERIAL, k INTEGER DEFAULT '0' NOT NULL, \
         c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)); \
         CREATE INDEX IF NOT EXISTS k_{number} ON {table}(k)"
    )));
    put_rows(steps, Fill::Sbtest { number, of: rows }, rows);
    steps.push(Step::Sql(format!(
        "SELECT setval('{table}_id_seq', greatest({rows}, (SELECT max(id) FROM {table})))"
    )));
    steps.push(Step::Sql(format!("ANALYZE {table}")));
}

impl Fill {
    /// The statement that makes these rows, but for those that are there.
    fn rows(self, first: u64, last: u64) -> String {
        let (to, key) = match self {
            Self::Sbtest { number, of } => {
                // The condition names the row, so that each has texts of its own.
                let groups = |count: u32| {
                    format!(
                        "(SELECT string_agg(lpad(trunc(random() * 1e11)::bigint::text, 11, '0'), \
                         '-') FROM generate_series(1, {count}) WHERE i > 0)"
                    )
                };
                let values = format!(
                    "{} (id, k, c, pad) SELECT i, 1 + trunc(random() * {of})::int, {}, {}",
                    table(number),
                    groups(10),
                    groups(5)
                );
                (values, "id")
            }
            Self::Branches => ("pgbench_branches (bid, bbalance) SELECT i, 0".to_owned(), "bid"),
            Self::Tellers => {
                let values = "pgbench_tellers (tid, bid, tbalance) SELECT i, (i - 1) / 10 + 1, 0";
                (values.to_owned(), "tid")
            }
            Self::Accounts => {
                let values = format!(
                    "pgbench_accounts (aid, bid, abalance, filler) \
                     SELECT i, (i - 1) / {ACCOUNTS} + 1, 0, ''"
                );
                (values, "aid")
            }
        };
        format!(
            "INSERT INTO {to} FROM generate_series({first}, {last}) i \
             ON CONFLICT ({key}) DO NOTHING"
        )
    }
}

impl Workload for Preparation {
    type Reader = Replies;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        let step = usize::try_from(number).ok().and_then(|number| self.steps.get(number));
        match step {
            Some(Step::Sql(text)) => put_query(out, text.as_bytes()),
            Some(Step::Rows(fill, first, last)) => {
                put_query(out, fill.rows(*first, *last).as_bytes());
            }
            None => {}
        }
        0
    }

    fn reader(&self) -> Replies {
        Replies::new(false)
    }

    fn greeting(&self) -> Option<Box<dyn Greeting>> {
        Some(self.login.begin())
    }
}
