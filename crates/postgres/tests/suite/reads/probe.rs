//! A session that runs statements as reads and looks at what they leave.

use std::sync::Arc;

use pg::Client;
use postgres::plan::Facts;
use rig::postgres::rows;

/// SQLSTATE of a write in a transaction that is read-only.
const READ_ONLY: &str = "25006";

/// What shows that a statement was no read: what the session has besides, in one row.
const STATE: &str = "select
    txid_current_if_assigned() is not null and current_setting('transaction_read_only') = 'on',
    pg_my_temp_schema(),
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
    (select string_agg(c, ',') from pg_listening_channels() c),
    (select count(*) from pg_prepared_statements),
    (select count(*) from pg_cursors where is_holdable),
    current_setting('trap.x', true),
    (select md5(string_agg(name || '=' || coalesce(setting, ''), ',' order by name))
        from pg_settings where name not like 'transaction_%')";

/// What a statement left.
#[derive(Debug, PartialEq, Eq)]
pub enum Trace {
    /// Nothing; it may have failed for another reason.
    None,
    /// It failed, and not because it writes.
    Failed,
    /// It left this on the session.
    Left(String),
}

/// A session in which statements are tried.
pub struct Probe {
    client: Client,
    before: String,
}

impl Probe {
    pub fn new(mut client: Client) -> Self {
        client.batch_execute("set statement_timeout = '5s'; set lock_timeout = '1s'").unwrap();
        let before = state(&mut client);
        Self { client, before }
    }

    /// Runs a statement in a transaction that may only read, and commits it.
    pub fn run(&mut self, sql: &str) -> Trace {
        self.client.batch_execute("begin read only").unwrap();
        let ran = self.client.simple_query(sql);
        let failed = ran.as_ref().err().map(|error| match error.as_db_error() {
            Some(error) => format!("{} {}", error.code().code(), error.message()),
            None => error.to_string(),
        });
        let inside = if failed.is_none() { state(&mut self.client) } else { self.before.clone() };
        self.client.batch_execute("commit").unwrap();
        let after = state(&mut self.client);
        match failed {
            Some(error) if error.starts_with(READ_ONLY) => Trace::Left(error),
            _ if inside != self.before => Trace::Left(inside),
            _ if after != self.before => Trace::Left(after),
            Some(_) => Trace::Failed,
            None => Trace::None,
        }
    }
}

fn state(client: &mut Client) -> String {
    format!("{:?}", rows(client, STATE).unwrap())
}

/// The catalogue's facts as the gateway loads them.
pub fn facts(client: &mut Client) -> Arc<Facts> {
    client.batch_execute("set search_path = pg_catalog; set jit = off").unwrap();
    let mut rows = rows(client, Facts::query()).unwrap();
    // A statement that pins is looked at no further, and the traps' functions say in their text
    // that they do.
    rows.retain(|row| row[0].as_deref() != Some("pin"));
    Arc::new(Facts::of_rows(&rows).unwrap())
}

/// The same over a session that others have used, be it inside a transaction or not; nothing of it
/// is kept.
pub fn run_within(client: &mut Client, sql: &str) -> Trace {
    let nested = client.batch_execute("savepoint weir_probe").is_ok();
    let begin = if nested { "set transaction read only" } else { "begin read only" };
    if client.batch_execute(begin).is_err() {
        // A transaction that has failed already.
        return Trace::Failed;
    }
    let Ok(before) = rows(client, STATE) else {
        let _ = client.batch_execute(if nested { "rollback to weir_probe" } else { "rollback" });
        return Trace::Failed;
    };
    let ran = client.simple_query(sql);
    let code = ran.as_ref().err().and_then(|error| error.code()).map(|code| code.code().to_owned());
    let after = if ran.is_ok() { rows(client, STATE).ok() } else { None };
    let _ = client.batch_execute(if nested { "rollback to weir_probe" } else { "commit" });
    let ended = if nested { None } else { Some(rows(client, STATE).unwrap_or_default()) };
    match (code, after) {
        (Some(code), _) if code == READ_ONLY => Trace::Left(code),
        (None, Some(after)) if after != before => Trace::Left(format!("{before:?} {after:?}")),
        // Outside a transaction no id is assigned at first, so the two can be compared.
        (_, _) if ended.as_ref().is_some_and(|ended| *ended != before) => {
            Trace::Left(format!("{before:?} {ended:?}"))
        }
        (Some(_), _) => Trace::Failed,
        _ => Trace::None,
    }
}
