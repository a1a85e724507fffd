//! PostgreSQL's own regress suite, by hand: `WEIR_REGRESS_SQL=<src/test/regress/sql> cargo test -p
//! weir-postgres --test suite -- --ignored --nocapture regress`. Its statements are run in order on
//! one server; each that is called a read runs as one, and must leave nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pg::Client;
use postgres::plan::{Facts, Kind, Planner, Reason, Scope, Unsettles};
use rig::postgres::Cluster;
use wire::sql::{Lexer, Strings, TokenKind};

use super::probe;

/// Files that others need, first.
const FIRST: [&str; 8] = [
    "test_setup",
    "create_function_c",
    "create_misc",
    "create_operator",
    "create_procedure",
    "create_table",
    "create_type",
    "create_index",
];

/// Files left out: what they do to the server is not undone, or takes minutes.
const WITHOUT: [&str; 3] = ["tablespace", "infinite_recurse", "numeric_big"];

#[derive(Default)]
struct Count {
    statements: usize,
    reads: usize,
    failed: usize,
    wrong: Vec<String>,
    /// How many statements have each reason.
    reasons: BTreeMap<Reason, usize>,
}

struct Suite {
    cluster: Cluster,
    facts: Client,
    planner: Planner,
    stale: bool,
    count: Count,
}

#[test]
#[ignore = "needs PostgreSQL's sources, and a quarter of an hour"]
fn regress() {
    let directory = std::env::var_os("WEIR_REGRESS_SQL").unwrap();
    let cluster = Cluster::start();
    cluster.create_database("regression", "postgres");
    let facts = cluster.connect_as("postgres", "", "regression").unwrap();
    let planner = Planner::new(Arc::new(Facts::none()), 10_000);
    let mut suite = Suite { cluster, facts, planner, stale: true, count: Count::default() };
    for file in files(Path::new(&directory)) {
        suite.file(&file);
        let Count { statements, reads, failed, wrong, .. } = &suite.count;
        let file = file.file_stem().unwrap().to_string_lossy();
        eprintln!("{file}: {statements} {reads} reads, {failed} failed, {} wrong", wrong.len());
    }
    eprintln!("{:?}", suite.count.reasons);
    let wrong = suite.count.wrong;
    assert!(wrong.is_empty(), "called a read:\n{}", wrong.join("\n"));
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "sql"))
        .collect();
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    files.retain(|path| !WITHOUT.contains(&stem(path).as_str()));
    files.sort_by_key(|path| {
        let stem = stem(path);
        (FIRST.iter().position(|first| *first == stem).unwrap_or(FIRST.len()), stem)
    });
    files
}

impl Suite {
    fn file(&mut self, path: &Path) {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let mut client = self.client();
        for sql in statements(&text) {
            if client.is_closed() {
                client = self.client();
            }
            self.statement(&mut client, &sql);
        }
    }

    fn client(&self) -> Client {
        let mut client = self.cluster.connect_as("postgres", "", "regression").unwrap();
        client.batch_execute("set statement_timeout = '5s'; set lock_timeout = '2s'").unwrap();
        client
    }

    fn statement(&mut self, client: &mut Client, sql: &str) {
        self.count.statements += 1;
        let mut plan = self.planner.plan(sql.as_bytes(), Scope::default());
        let unsure = plan.kind == Kind::Read
            || matches!(
                plan.reason,
                Reason::UnknownFunction
                    | Reason::UnknownRelation
                    | Reason::UnknownOperator
                    | Reason::NoFacts
                    | Reason::UnsafeType
            );
        if unsure && self.stale {
            self.planner.set_facts(probe::facts(&mut self.facts));
            self.stale = false;
            plan = self.planner.plan(sql.as_bytes(), Scope::default());
        }
        *self.count.reasons.entry(plan.reason).or_default() += 1;
        match &plan.kind {
            Kind::Read => {
                self.count.reads += 1;
                match probe::run_within(client, sql) {
                    probe::Trace::None => {}
                    probe::Trace::Failed => self.count.failed += 1,
                    probe::Trace::Left(what) => self.count.wrong.push(format!("{sql}: {what}")),
                }
            }
            // The client library does not speak these here.
            Kind::CopyIn | Kind::CopyOut { .. } => {}
            kind => {
                let _ = client.simple_query(sql);
                self.stale |= !matches!(
                    kind,
                    Kind::Set(_) | Kind::Write | Kind::Ddl(Unsettles::Nothing) | Kind::Empty
                );
            }
        }
    }
}

/// The statements of a script for psql, without its own commands and the data of `COPY`.
fn statements(script: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with('\\') {
            continue;
        }
        let (line, ends) = match line.find(" \\g") {
            Some(at) => (&line[..at], true),
            None => (line, false),
        };
        text.push_str(line);
        text.push('\n');
        if !ends && !is_complete(&text) {
            continue;
        }
        let whole = std::mem::take(&mut text);
        if whole.to_lowercase().contains("from stdin") {
            lines.by_ref().find(|line| *line == "\\.");
        }
        cut(&whole, &mut found);
    }
    found
}

fn is_complete(text: &str) -> bool {
    let (mut depth, mut last, mut atomic, mut end) = (0, None, false, false);
    for token in Lexer::new(text.as_bytes(), Strings::Standard) {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        atomic |= token.is("atomic");
        end = last == Some(TokenKind::Semicolon) && token.is("end")
            || end && token.kind == TokenKind::Semicolon;
        last = Some(token.kind);
    }
    last == Some(TokenKind::Semicolon) && depth <= 0 && (!atomic || end)
}

/// At each semicolon outside parentheses.
fn cut(text: &str, found: &mut Vec<String>) {
    if text.to_lowercase().contains("atomic") {
        found.push(text.to_owned());
        return;
    }
    let (mut depth, mut start) = (0, 0);
    for token in Lexer::new(text.as_bytes(), Strings::Standard) {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            TokenKind::Semicolon if depth <= 0 => {
                found.push(text[start..token.start].to_owned());
                start = token.start + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        found.push(text[start..].to_owned());
    }
}
