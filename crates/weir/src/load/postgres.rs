//! What a load of PostgreSQL is made of.

use std::env;
use std::fmt;
use std::time::Duration;

use clap::Args;
use meter::engine::{AskError, OpenError};
use meter::keys::Order;
use meter::postgres::{Options, Postgres, Preparation, Protocol, Source, create_database};
use meter::url::Url;
use serde::{Deserialize, Deserializer, Serialize};

use super::Command;
use super::http::read_text;
use super::inputs::Inputs;
use super::values;
use crate::exit::Failure;

/// What an error ends with where the database of a URL is not there.
const NO_DATABASE: &str = "(3D000)";

/// How long a statement that makes tables may take, as the rows or the index of a large one.
const STATEMENT_MAX: Duration = Duration::from_secs(10 * 60);

/// What of PostgreSQL is asked.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(next_help_heading = "PostgreSQL")]
pub struct PostgresOptions {
    /// Scripts with their shares, as oltp_point_select, select-only=9,@own.sql=1, where @FILE is a
    /// file in pgbench's words
    #[arg(long, value_name = "NAME=N,...", value_delimiter = ',', default_value = "select-only")]
    script: Vec<String>,
    /// How statements are sent: simple, extended or prepared; without it as the tool does whose
    /// script it is
    #[arg(long, value_name = "NAME")]
    #[serde(default, deserialize_with = "values::text_if_any")]
    protocol: Option<Protocol>,
    /// All statements of a script are sent at once
    #[arg(long)]
    pipelined: bool,
    /// Tables of oltp_*, one of which is drawn for each kind of statement
    #[arg(long, value_name = "N", default_value_t = 1)]
    tables: u64,
    /// Rows of each table of oltp_*
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    table_size: u64,
    /// Branches of pgbench's tables, which have 100000 accounts each
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u64,
    /// A variable that scripts begin with, as name=7; may be given several times
    #[arg(long, short = 'D', value_name = "NAME=N", value_parser = variable)]
    #[serde(deserialize_with = "variables")]
    define: Vec<(String, i64)>,
    /// In which order keys come: uniform, sequence, zipf, zipf:1.2, or special as sysbench's
    #[arg(long, value_name = "ORDER", default_value = "uniform")]
    #[arg(help_heading = "Redis and PostgreSQL")]
    #[serde(deserialize_with = "values::text")]
    key_order: Order,
    /// Makes what is missing before the load: the database, and tables of scripts that are built in
    #[arg(long, help_heading = "PostgreSQL and InfluxDB")]
    pub prepare: bool,
}

fn variable(text: &str) -> Result<(String, i64), String> {
    let known = text.split_once('=').and_then(|(name, value)| {
        let value = value.trim().parse().ok()?;
        Some((name.trim().to_owned(), value))
    });
    known.ok_or_else(|| format!("{text:?} is not a variable: write it as name=7"))
}

fn variables<'de, D: Deserializer<'de>>(field: D) -> Result<Vec<(String, i64)>, D::Error> {
    values::each(field, variable)
}

impl PostgresOptions {
    /// What runs, with the texts of files.
    fn sources(&self, inputs: &Inputs) -> Result<Vec<Source>, Failure> {
        let read = |script: &String| {
            let (name, share) = Source::share_of(script);
            let text = match name.strip_prefix('@') {
                None => None,
                Some(file) => Some(read_text(inputs, "the script", file)?),
            };
            let name = name.trim_start_matches('@').to_owned();
            Ok(Source { name, text, share })
        };
        self.script.iter().map(read).collect()
    }

    /// Who logs in, and with what, as libpq takes it from the environment.
    fn options(&self, inputs: &Inputs, seed: u64, run: Option<u64>) -> Options {
        Options {
            protocol: self.protocol,
            pipelined: self.pipelined,
            tables: self.tables,
            table_size: self.table_size,
            scale: self.scale,
            variables: self.define.clone(),
            order: self.key_order,
            seed,
            run: run.map(u64::cast_signed),
            ..inputs.login()
        }
    }

    /// The workload for that server.
    pub fn workload(
        &self,
        url: &Url,
        inputs: &Inputs,
        seed: u64,
        run: Option<u64>,
    ) -> Result<Postgres, Failure> {
        let options = self.options(inputs, seed, run);
        Postgres::new(url, &self.sources(inputs)?, &options).map_err(Failure::other)
    }

    /// Makes the tables that are missing, and the database.
    pub fn prepare(
        &self,
        run: Option<u64>,
        command: &Command,
        inputs: &Inputs,
    ) -> Result<(), Failure> {
        let (url, options) = (&command.url, self.options(inputs, 1, run));
        let sources = self.sources(inputs)?;
        let tables = Preparation::new(url, &sources, &options).map_err(Failure::other)?;
        let make = || command.asked(&mut tables.clone(), tables.requests(), STATEMENT_MAX, inputs);
        let is_missing = |error: &AskError| {
            let AskError::Open(OpenError::Refused { source, .. }) = error else { return false };
            source.0.ends_with(NO_DATABASE)
        };
        let made = match make()? {
            Err(error) if is_missing(&error) => {
                let mut database = create_database(url, &options).map_err(Failure::other)?;
                match command.asked(&mut database, 1, STATEMENT_MAX, inputs)? {
                    Ok(()) => make()?,
                    Err(error) => Err(error),
                }
            }
            made => made,
        };
        made.map_err(super::unprepared)
    }
}

/// Who logs in, and with what, where the URL does not say it.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct PgLogin {
    user: String,
    password: Option<String>,
}

impl PgLogin {
    /// As libpq takes it from the environment.
    pub fn of_environment() -> Self {
        let users = ["PGUSER", "USER", "LOGNAME"];
        let user = users
            .into_iter()
            .find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()))
            .or_else(own_name);
        let password = env::var("PGPASSWORD").ok();
        Self { user: user.unwrap_or_default(), password }
    }

    /// The same as options of a load in which nothing is run.
    pub fn options(&self) -> Options {
        Options {
            protocol: None,
            pipelined: false,
            tables: 1,
            table_size: 10_000,
            scale: 1,
            variables: Vec::new(),
            order: Order::Uniform,
            seed: 1,
            user: self.user.clone(),
            password: self.password.clone(),
            run: None,
        }
    }
}

impl fmt::Debug for PgLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The name of who runs this, by the system's own file of users: a container and a cron job have
/// none in their environment.
fn own_name() -> Option<String> {
    let id = rustix::process::geteuid().as_raw().to_string();
    name_of(&std::fs::read_to_string("/etc/passwd").ok()?, &id)
}

/// The name of a user by its number, in the form of `passwd(5)`.
fn name_of(users: &str, id: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_user_is_named_by_its_number() {
        let users = "root:x:0:0::/root:/bin/sh\nbroken\nann:x:1000:100::/:/bin/sh\n";
        assert_eq!(name_of(users, "1000").as_deref(), Some("ann"));
        assert_eq!(name_of(users, "0").as_deref(), Some("root"));
        assert_eq!(name_of(users, "100"), None);
    }
}
