//! What can leave a trace, as the server's own catalogues have it, tried on the servers themselves.
//!
//! Each call and each literal is tried on both servers directly, in fresh sessions. What they say
//! alike has to be alike through Weir as well; of what they don't, only whether it fails.

use std::collections::BTreeMap;

use pg::Client;
use rig::postgres::{Cluster, Rows, rows};

use super::step::{Marks, Statement};

/// Calls that take longer are not made.
const PATIENCE: &str = "SET statement_timeout = '500ms'; SET client_min_messages = error";
/// Between the fields of one row, and between what one setting may be.
const BAR: char = '|';

/// What is tried as the text of a literal, of whichever types take it.
pub const LITERALS: [&str; 22] = [
    "01/02/2003",
    "2003-02-01 04:05:06",
    "01/02/2003 04:05:06 PST",
    "04:05:06 PST",
    "1 day -2:03:04",
    "1-2 3 4:05:06",
    "-1.5",
    "1,234.50",
    "7",
    "things",
    "whose()",
    "mark_state(text,text)",
    "things_pkey",
    "{01/02/2003,NULL}",
    "{a,null}",
    "[01/02/2003,03/04/2005)",
    "{[01/02/2003,03/04/2005)}",
    "<a>b</a>",
    "a b",
    "fat & cats",
    "simple",
    "actor",
];

/// Words for a moment, in types that have one.
const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// A setting that anybody may set.
#[derive(Debug)]
pub struct Setting {
    pub name: String,
    pub values: Vec<String>,
}

#[derive(Debug)]
pub struct ServerCatalogue {
    pub settings: Vec<Setting>,
    /// Calls of functions, each with what it was seen to be.
    pub calls: Vec<Statement>,
    /// Expressions that depend on settings when they are read or written.
    pub literals: Vec<String>,
    /// Expressions that are true if what stands for a moment was read in this transaction.
    pub moments: Vec<String>,
}

impl ServerCatalogue {
    pub fn find(a: &Cluster, b: &Cluster) -> Self {
        let catalogue = a.sql(include_str!("catalogue.sql"));
        let mut sides =
            [a, b].map(|cluster| cluster.connect_as("ann", "", "postgres").expect("ann is let in"));
        let of = |what: &str| {
            let is = |row: &&Vec<Option<String>>| row[0].as_deref() == Some(what);
            let fields =
                |row: &Vec<Option<String>>| [1, 2, 3].map(|at| row[at].clone().unwrap_or_default());
            catalogue.iter().filter(is).map(fields).collect::<Vec<_>>()
        };
        let settings = of("setting").into_iter().map(|[name, _, values]| Setting {
            name,
            values: values.split(BAR).map(str::to_owned).collect(),
        });
        let (mut literals, mut moments) = (Vec::new(), Vec::new());
        for [kind, ..] in of("type") {
            for text in LITERALS {
                let literal = format!("('{text}'::{kind})::text");
                if agree(&mut sides, &format!("SELECT {literal}")) == Some(true) {
                    literals.push(literal);
                }
            }
            for word in MOMENTS {
                let then = format!("'{word}'::{kind}");
                if agree(&mut sides, &format!("SELECT {then}")).is_some() {
                    moments.push(moment(&kind, word));
                }
            }
        }
        let calls = of("function").into_iter().flat_map(|row| calls(&mut sides, &row)).collect();
        moments.retain(|sql| agree(&mut sides, &format!("SELECT {sql}")) == Some(true));
        Self { settings: settings.collect(), calls, literals, moments }
    }

    /// How much there is of each.
    pub fn counted(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            ("settings", self.settings.len()),
            ("calls", self.calls.len()),
            ("literals", self.literals.len()),
            ("moments", self.moments.len()),
        ])
    }
}

/// What is true of a moment's word in the transaction in which it was read.
fn moment(kind: &str, word: &str) -> String {
    match word {
        "now" => format!("'now'::{kind}::text = now()::{kind}::text"),
        _ => format!("('{word}'::{kind} - 'today'::{kind})::text"),
    }
}

/// Whether both servers say the same; `None` where they refuse.
fn agree(sides: &mut [Client; 2], sql: &str) -> Option<bool> {
    let [a, b] = sides.each_mut().map(|client| tried(client, sql));
    match (a, b) {
        (Ok(a), Ok(b)) => Some(a == b),
        _ => None,
    }
}

/// What one server says, after which nothing of it is left.
fn tried(client: &mut Client, sql: &str) -> Result<Rows, String> {
    let code = |error: pg::Error| {
        error.code().map_or_else(|| format!("broken: {error}"), |code| code.code().to_owned())
    };
    let begin = format!("DISCARD ALL; {PATIENCE}");
    for sql in begin.split(';') {
        client.batch_execute(sql).map_err(code)?;
    }
    client.batch_execute("BEGIN").map_err(code)?;
    let said = rows(client, sql).map_err(code);
    client.batch_execute("ROLLBACK").map_err(code)?;
    said
}

/// A function with such arguments as are likely to be taken.
fn calls(sides: &mut [Client; 2], row: &[String; 3]) -> Vec<Statement> {
    let [_, kind, names] = row;
    let mut names = names.splitn(3, BAR);
    let (schema, name) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    let arguments = names.next().unwrap_or_default();
    let arguments: Vec<&str> = arguments.split(',').filter(|text| !text.is_empty()).collect();
    let mut calls = Vec::new();
    for turn in 0..if schema == "public" { 6 } else { 2 } {
        let values: Option<Vec<&str>> =
            arguments.iter().map(|argument| sample(argument, turn)).collect();
        let Some(values) = values else { return calls };
        let verb = if kind.ends_with('p') { "CALL" } else { "SELECT" };
        let sql = format!("{verb} {schema}.\"{name}\"({})", values.join(", "));
        if calls.iter().any(|one: &Statement| one.sql == sql) {
            continue;
        }
        let Some(alike) = alike(sides, &sql) else { continue };
        let is_own = schema == "public" && name != "whose";
        let marks = Marks {
            blur: !alike,
            stains: kind.starts_with('v') || is_own,
            sways: kind.starts_with('v') || is_own,
            alone: kind.ends_with('p'),
            ..Marks::default()
        };
        calls.push(Statement { sql, values: Vec::new(), marks });
    }
    calls
}

/// Whether both servers say the same, refusals too; `None` where it can't be called.
fn alike(sides: &mut [Client; 2], sql: &str) -> Option<bool> {
    let [a, b] = sides.each_mut().map(|client| tried(client, sql));
    let is_of_use = |code: &String| !matches!(&**code, "57014" | "42883" | "42725" | "42804");
    match (&a, &b) {
        (Ok(_), Ok(_)) => Some(a == b),
        (Err(a), Err(b)) => (a == b && is_of_use(a) && !a.starts_with("broken")).then_some(true),
        _ => None,
    }
}

/// A value for an argument `name:type`.
fn sample(argument: &str, turn: usize) -> Option<&'static str> {
    let (name, kind) = argument.split_once(':')?;
    let of: &[&str] = match (name, kind) {
        ("k", _) => &["'app.mark'", "'datestyle'", "'search_path'", "'app.tenant'", "'timezone'"],
        ("v", _) => &["'German'", "'tenant_2'", "'two'", "'Asia/Tokyo'", "'SQL, DMY'"],
        ("what", _) => &[
            "$$SET datestyle = 'SQL, DMY'$$",
            "'SET ROLE actor'",
            "'PREPARE left_behind AS SELECT 1'",
            "'CREATE TEMP TABLE secrets AS SELECT 1 AS id, 1 AS tenant, 2 AS secret'",
            "$$SELECT set_config('search_path', 'pg_temp, tenant_2', false)$$",
            "'LISTEN left_behind'",
        ],
        ("n", _) => &["1", "2", "3", "4", "5", "6"],
        (_, "text" | "character varying" | "\"any\"" | "anyelement" | "character") => {
            &["'datestyle'", "'public.drawn'", "'one'", "'01/02/2003'"]
        }
        (_, "name") => &["'public'", "'ann'"],
        (_, "integer" | "bigint" | "smallint") => &["7", "1"],
        (_, "double precision" | "numeric" | "real") => &["0.5", "-1"],
        (_, "boolean") => &["true", "false"],
        (_, "regclass") => &["'public.drawn'", "'public.things'"],
        (_, "oid") => &["1259", "'public.drawn'::regclass"],
        (_, "date") => &["'2003-01-02'"],
        (_, "timestamp with time zone" | "timestamp without time zone") => {
            &["'2003-01-02 03:04:05'"]
        }
        (_, "interval") => &["'1 day 02:03:04'"],
        (_, "time with time zone") => &["'03:04:05+02'"],
        (_, "money") => &["'12.50'"],
        (_, "bytea") => &["'abc'::bytea"],
        (_, "jsonb" | "json") => &["'{\"a\": 1}'"],
        (_, "jsonpath") => &["'$.a'"],
        (_, "xml") => &["'<a>b</a>'"],
        (_, "regproc" | "regprocedure") => &["'whose'"],
        (_, "regtype") => &["'text'"],
        (_, "regconfig") => &["'simple'"],
        (_, "text[]") => &["'{a,b}'"],
        _ => return None,
    };
    of.get(turn % of.len()).copied()
}
