//! What a server says of commits on a new connection: at which level they are, and which server
//! process makes them.

use super::level::CommitLevel;

/// Asked once, right behind a login, where nothing but the role's and the server's own settings
/// hold. The time at which the server process was started is written without regard to the
/// session's settings.
pub const QUESTION: &str = "\
SELECT pg_catalog.current_setting('synchronous_commit'), pg_catalog.concat_ws('/', \
(SELECT c.system_identifier FROM pg_catalog.pg_control_system() c), \
pg_catalog.to_char(pg_catalog.timezone('UTC', pg_catalog.pg_postmaster_start_time()), \
'YYYYMMDDHH24MISSUS')) WHERE pg_catalog.has_function_privilege(\
'pg_catalog.set_config(text,text,boolean)', 'EXECUTE')";

/// Which server process a connection leads to. Behind an address that is handed on to several
/// servers, a mark at one of them proves nothing of a commit at another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProcess(Box<str>);

/// What commits on a connection are like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFacts {
    /// What the role's commits wait for.
    pub level: CommitLevel,
    /// Which server process makes them.
    pub process: ServerProcess,
}

impl CommitFacts {
    /// What the answer to [`QUESTION`] says; `None` where marks are of no use: the role's commits
    /// wait for nothing, or at a level that is not known, or the server does not say who it is.
    pub fn read(rows: &[Vec<Option<String>>]) -> Option<Self> {
        let [row] = rows else { return None };
        let [Some(level), Some(process)] = row.as_slice() else { return None };
        let (system, started) = process.split_once('/')?;
        if system.is_empty() || started.is_empty() {
            return None;
        }
        let level = CommitLevel::read(level).ok().flatten()?;
        Some(Self { level, process: ServerProcess(process.as_str().into()) })
    }
}

/// What is run first in a transaction, or last before its COMMIT, so that it commits without
/// waiting. Only where nobody has set another level than the role's: whoever has waits for it.
/// With the transaction's end it is gone, whatever becomes of that.
pub fn without_waiting(level: CommitLevel) -> String {
    format!(
        "SELECT pg_catalog.set_config('synchronous_commit', 'off', true) \
         WHERE pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) '{}'",
        level.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[Option<&str>]) -> Option<CommitFacts> {
        let row = values.iter().map(|value| value.map(str::to_owned)).collect();
        CommitFacts::read(&[row])
    }

    #[test]
    fn a_connection_has_the_level_of_its_role_and_the_process_of_its_server() {
        let facts = read(&[Some("on"), Some("73/2026")]).unwrap();
        assert_eq!(facts.level, CommitLevel::On);
        assert_eq!(facts.process, read(&[Some("local"), Some("73/2026")]).unwrap().process);
        for other in ["73/2027", "74/2026"] {
            assert_ne!(facts.process, read(&[Some("on"), Some(other)]).unwrap().process);
        }
    }

    #[test]
    fn what_a_server_does_not_say_is_no_fact() {
        for values in [
            &[Some("off"), Some("73/2026")][..],
            &[Some("quorum"), Some("73/2026")],
            &[None, Some("73/2026")],
            &[Some("on"), None],
            &[Some("on"), Some("2026")],
            &[Some("on"), Some("/2026")],
            &[Some("on"), Some("73/")],
            &[Some("on")],
            &[],
        ] {
            assert_eq!(read(values), None, "{values:?}");
        }
        assert_eq!(CommitFacts::read(&[]), None);
        let row = || vec![Some("on".to_owned()), Some("73/2026".to_owned())];
        assert_eq!(CommitFacts::read(&[row(), row()]), None);
    }

    #[test]
    fn a_commit_waits_where_another_level_was_set() {
        let sql = without_waiting(CommitLevel::RemoteWrite);
        assert!(sql.contains("'synchronous_commit', 'off', true)"));
        assert!(sql.ends_with("OPERATOR(pg_catalog.=) 'remote_write'"), "{sql}");
    }
}
