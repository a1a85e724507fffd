//! From tokens to statements: enough of `influxql/parser.go` to know what each one does.
//!
//! Statements about databases, policies and users are parsed whole. Others are read only to
//! their end: whether the rest of them is right is for a backend to say.

use super::reader::{Reader, Result};
use super::token::TokenKind;
use super::{Change, Kind, Statement};

/// What a query's statements may begin with, in InfluxDB's order.
pub(super) const VERBS: [&str; 11] = [
    "SELECT", "DELETE", "SHOW", "CREATE", "DROP", "EXPLAIN", "GRANT", "REVOKE", "ALTER", "SET",
    "KILL",
];

/// What `SHOW` can show.
pub(super) const SHOWN: [&str; 16] = [
    "CONTINUOUS",
    "DATABASES",
    "DIAGNOSTICS",
    "FIELD",
    "GRANTS",
    "MEASUREMENT",
    "MEASUREMENTS",
    "QUERIES",
    "RETENTION",
    "SERIES",
    "SHARD",
    "SHARDS",
    "STATS",
    "SUBSCRIPTIONS",
    "TAG",
    "USERS",
];

/// What can be created.
pub(super) const CREATED: [&str; 5] =
    ["CONTINUOUS", "DATABASE", "USER", "RETENTION", "SUBSCRIPTION"];

/// What can be dropped.
pub(super) const DROPPED: [&str; 8] = [
    "CONTINUOUS",
    "DATABASE",
    "MEASUREMENT",
    "RETENTION",
    "SERIES",
    "SHARD",
    "SUBSCRIPTION",
    "USER",
];

/// All statements of a text (`ParseQuery`).
pub(super) fn statements(text: &str) -> Result<Vec<Statement<'_>>> {
    let mut reader = Reader::new(text);
    reader.refuse_nul()?;
    let mut statements = Vec::new();
    let mut separated = true;
    loop {
        let first = reader.peek();
        if first.kind == TokenKind::End {
            return Ok(statements);
        }
        if first.is_symbol(";") {
            reader.take();
            separated = true;
            continue;
        }
        if !separated {
            return Err(reader.unexpected(&first, &[";"]));
        }
        let kind = statement(&mut reader)?;
        statements.push(Statement { text: reader.text_from(&first), kind });
        separated = false;
    }
}

fn statement(reader: &mut Reader<'_>) -> Result<Kind> {
    match reader.one_of(&VERBS)? {
        "SELECT" => select(reader),
        "EXPLAIN" => explain(reader),
        "SHOW" => show(reader),
        "CREATE" => create(reader),
        "DROP" => drop_what(reader),
        "ALTER" => alter(reader),
        "DELETE" => series(reader, Change::Delete),
        "SET" => set_password(reader),
        "KILL" => kill(reader),
        "GRANT" => privilege(reader, "TO"),
        _revoke => privilege(reader, "FROM"),
    }
}

fn select(reader: &mut Reader<'_>) -> Result<Kind> {
    let into = reader.skip()?;
    Ok(if into { Kind::Change(Change::Into) } else { Kind::Read })
}

/// `EXPLAIN` runs nothing and `EXPLAIN ANALYZE` stores nothing, but neither is worth the risk
/// when there is an `INTO`.
fn explain(reader: &mut Reader<'_>) -> Result<Kind> {
    reader.accept("ANALYZE");
    reader.accept_later_word("VERBOSE");
    reader.expect("SELECT")?;
    select(reader)
}

fn show(reader: &mut Reader<'_>) -> Result<Kind> {
    let what = reader.one_of(&SHOWN)?;
    match what {
        "DATABASES" => return Ok(Kind::ShowDatabases),
        "CONTINUOUS" => reader.expect("QUERIES")?,
        "FIELD" => drop(reader.one_of(&["KEY", "KEYS"])?),
        "GRANTS" => reader.expect("FOR")?,
        "MEASUREMENT" => drop(reader.one_of(&["EXACT", "CARDINALITY"])?),
        "RETENTION" => reader.expect("POLICIES")?,
        "SHARD" => reader.expect("GROUPS")?,
        "TAG" => drop(reader.one_of(&["KEY", "KEYS", "VALUES"])?),
        _ => {}
    }
    reader.skip()?;
    let tells_of_all =
        ["DIAGNOSTICS", "GRANTS", "SHARD", "SHARDS", "STATS", "SUBSCRIPTIONS", "USERS"];
    Ok(if tells_of_all.contains(&what) { Kind::ReadAsAdmin } else { Kind::Read })
}

fn create(reader: &mut Reader<'_>) -> Result<Kind> {
    match reader.one_of(&CREATED)? {
        "DATABASE" => create_database(reader),
        "RETENTION" => create_policy(reader),
        "USER" => create_user(reader),
        "CONTINUOUS" => {
            reader.expect("QUERY")?;
            other(reader)
        }
        _subscription => other(reader),
    }
}

fn create_database(reader: &mut Reader<'_>) -> Result<Kind> {
    let name = reader.name()?;
    let mut policy = None;
    if reader.accept("WITH") {
        let known = ["DURATION", "NAME", "REPLICATION", "SHARD"];
        let next = reader.peek();
        let later = next.is_later_word("FUTURE") || next.is_later_word("PAST");
        if !known.iter().any(|word| next.is(word)) && !later {
            return Err(reader.unexpected(&next, &known));
        }
        if reader.accept("DURATION") {
            reader.duration()?;
        }
        if reader.accept("REPLICATION") {
            replication(reader)?;
        }
        if reader.accept("SHARD") {
            reader.expect("DURATION")?;
            reader.duration()?;
        }
        write_limits(reader)?;
        if reader.accept("NAME") {
            policy = Some(reader.name()?);
        }
    }
    Ok(Kind::Change(Change::CreateDatabase { name, policy }))
}

fn create_policy(reader: &mut Reader<'_>) -> Result<Kind> {
    reader.expect("POLICY")?;
    let name = reader.name()?;
    let db = on(reader)?;
    reader.expect("DURATION")?;
    reader.duration()?;
    reader.expect("REPLICATION")?;
    replication(reader)?;
    if reader.accept("SHARD") {
        shard_duration(reader)?;
    }
    let default = reader.accept("DEFAULT");
    write_limits(reader)?;
    Ok(Kind::Change(Change::CreateRetentionPolicy { db, name, default }))
}

fn alter(reader: &mut Reader<'_>) -> Result<Kind> {
    reader.expect("RETENTION")?;
    reader.expect("POLICY")?;
    let name = if reader.accept("DEFAULT") { "default".to_owned() } else { reader.name()? };
    let db = on(reader)?;
    let mut found: Vec<&str> = Vec::new();
    loop {
        let next = reader.peek();
        let word = match next.kind {
            TokenKind::Keyword(word @ ("DURATION" | "REPLICATION" | "SHARD" | "DEFAULT")) => word,
            _ if next.is_later_word("FUTURE") || next.is_later_word("PAST") => "",
            _ if found.is_empty() => {
                let known = ["DURATION", "REPLICATION", "SHARD", "DEFAULT"];
                return Err(reader.unexpected(&next, &known));
            }
            _ => break,
        };
        if found.contains(&word) {
            return Err(reader.wrong(&next, &format!("found duplicate {word} option")));
        }
        found.push(word);
        if word.is_empty() {
            write_limits(reader)?;
            continue;
        }
        reader.take();
        match word {
            "DURATION" => reader.duration()?,
            "REPLICATION" => replication(reader)?,
            "SHARD" => shard_duration(reader)?,
            _default => {}
        }
    }
    let default = found.contains(&"DEFAULT");
    Ok(Kind::Change(Change::AlterRetentionPolicy { db, name, default }))
}

fn drop_what(reader: &mut Reader<'_>) -> Result<Kind> {
    let what = reader.one_of(&DROPPED)?;
    match what {
        "DATABASE" => {
            let name = reader.name()?;
            Ok(Kind::Change(Change::DropDatabase { name }))
        }
        "RETENTION" => {
            reader.expect("POLICY")?;
            let name = reader.name()?;
            let db = on(reader)?;
            Ok(Kind::Change(Change::DropRetentionPolicy { db, name }))
        }
        "SERIES" => series(reader, Change::DropSeries),
        "USER" => {
            reader.name()?;
            Ok(Kind::User)
        }
        "CONTINUOUS" => {
            reader.expect("QUERY")?;
            other(reader)
        }
        "MEASUREMENT" => {
            reader.name()?;
            Ok(Kind::Change(Change::Other))
        }
        "SHARD" => {
            reader.integer()?;
            Ok(Kind::Change(Change::Other))
        }
        _subscription => other(reader),
    }
}

/// A statement that names measurements, a condition, or both.
fn series(reader: &mut Reader<'_>, change: Change) -> Result<Kind> {
    let next = reader.peek();
    if !next.is("FROM") && !next.is("WHERE") {
        return Err(reader.unexpected(&next, &["FROM", "WHERE"]));
    }
    reader.skip()?;
    Ok(Kind::Change(change))
}

/// A statement of which no more need be known.
fn other(reader: &mut Reader<'_>) -> Result<Kind> {
    reader.skip()?;
    Ok(Kind::Change(Change::Other))
}

fn create_user(reader: &mut Reader<'_>) -> Result<Kind> {
    reader.name()?;
    reader.expect("WITH")?;
    reader.expect("PASSWORD")?;
    reader.string()?;
    if reader.accept("WITH") {
        reader.expect("ALL")?;
        reader.expect("PRIVILEGES")?;
    }
    Ok(Kind::User)
}

fn set_password(reader: &mut Reader<'_>) -> Result<Kind> {
    reader.expect("PASSWORD")?;
    reader.expect("FOR")?;
    reader.name()?;
    let equals = reader.take();
    if !equals.is_symbol("=") {
        return Err(reader.unexpected(&equals, &["="]));
    }
    reader.string()?;
    Ok(Kind::User)
}

/// `GRANT ... TO` or `REVOKE ... FROM`: without a database only for all privileges.
fn privilege(reader: &mut Reader<'_>, link: &'static str) -> Result<Kind> {
    let next = reader.take();
    let all = next.is("ALL");
    if !all && !next.is("READ") && !next.is("WRITE") {
        return Err(reader.unexpected(&next, &["READ", "WRITE", "ALL [PRIVILEGES]"]));
    }
    if all {
        reader.accept("PRIVILEGES");
    }
    let next = reader.take();
    if next.is("ON") {
        reader.name()?;
        reader.expect(link)?;
    } else if !all {
        return Err(reader.unexpected(&next, &["ON"]));
    } else if !next.is(link) {
        return Err(reader.unexpected(&next, &["ON", link]));
    }
    reader.name()?;
    Ok(Kind::User)
}

fn kill(reader: &mut Reader<'_>) -> Result<Kind> {
    reader.expect("QUERY")?;
    reader.integer()?;
    if reader.accept("ON") {
        reader.name()?;
    }
    Ok(Kind::Local)
}

fn on(reader: &mut Reader<'_>) -> Result<String> {
    reader.expect("ON")?;
    reader.name()
}

fn replication(reader: &mut Reader<'_>) -> Result<()> {
    let token = reader.integer()?;
    if token.text.parse::<i32>().is_ok_and(|n| n >= 1) {
        return Ok(());
    }
    let why = format!("invalid value {}: must be 1 <= n <= {}", token.text, i32::MAX);
    Err(reader.wrong(&token, &why))
}

fn shard_duration(reader: &mut Reader<'_>) -> Result<()> {
    reader.expect("DURATION")?;
    let next = reader.peek();
    if next.is("INF") {
        return Err(reader.wrong(&next, "invalid duration INF for shard duration"));
    }
    reader.duration()
}

/// `FUTURE LIMIT 1h`, `PAST LIMIT 1h`: of servers after 1.8.10.
fn write_limits(reader: &mut Reader<'_>) -> Result<()> {
    for word in ["FUTURE", "PAST"] {
        if reader.accept_later_word(word) {
            reader.expect("LIMIT")?;
            reader.duration()?;
        }
    }
    Ok(())
}
