//! What servers count by themselves.

use wire::resp::{Replies, Value, put_command, value};

use super::VerifyError;
use super::postgres::rows;
use super::redis::Gathered;
use crate::engine::Conversation;
use crate::workload::Greeting;

/// Names and numbers, as a server has them.
pub type Counts = Vec<(String, u64)>;

/// How often a server of Redis's was asked for the commands that ledgers are kept of.
///
/// # Errors
/// It does not say it.
pub fn of_redis(
    server: &mut Conversation<'_>,
    greeting: impl FnOnce() -> Option<Box<dyn Greeting>>,
) -> Result<Counts, VerifyError> {
    let mut out = Vec::new();
    put_command(&mut out, ["INFO", "commandstats"].iter());
    let mut reader =
        Gathered { left: 1, replies: Replies::default(), bytes: Vec::new(), scanned: 0 };
    server.ask(greeting, &mut out, &mut reader)?;
    let text = match value(&reader.bytes).map(|(value, _)| value) {
        Ok(Value::Bulk(text) | Value::Verbatim(text)) => String::from_utf8_lossy(text).into_owned(),
        Ok(Value::Error(words)) => {
            return Err(VerifyError::Refused(String::from_utf8_lossy(words).into_owned()));
        }
        _ => return Err(VerifyError::Strange("it is not a reply of Redis's")),
    };
    Ok(["set", "rpush"].map(|name| (name.to_owned(), calls(&text, name))).into())
}

fn calls(stats: &str, command: &str) -> u64 {
    let name = format!("cmdstat_{command}:calls=");
    let rest = stats.lines().find_map(|line| line.strip_prefix(&*name));
    rest.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or_default()
}

/// How many transactions a database of PostgreSQL's has committed, and rows it has inserted.
///
/// # Errors
/// It does not say it.
pub fn of_postgres(
    server: &mut Conversation<'_>,
    greeting: impl FnOnce() -> Box<dyn Greeting>,
) -> Result<Counts, VerifyError> {
    let sql = "SELECT xact_commit, tup_inserted FROM pg_stat_database \
               WHERE datname = current_database()";
    let rows = rows(server, greeting, sql)?;
    let number = |column: &Option<Vec<u8>>| {
        let text = std::str::from_utf8(column.as_deref()?).ok()?;
        text.parse().ok()
    };
    let [commits, inserted] = rows.first().ok_or(VerifyError::Strange("it has no row"))?;
    let counts = [("commits", commits), ("rows inserted", inserted)];
    Ok(counts.map(|(name, of)| (name.to_owned(), number(of).unwrap_or_default())).into())
}

#[cfg(test)]
mod tests {
    use super::calls;

    #[test]
    fn the_calls_of_a_command_are_found_by_its_whole_name() {
        let stats = "# Commandstats\r\ncmdstat_setex:calls=9,usec=1\r\n\
                     cmdstat_set:calls=17,usec=5,usec_per_call=0.1\r\n";
        assert_eq!((calls(stats, "set"), calls(stats, "rpush")), (17, 0));
    }
}
