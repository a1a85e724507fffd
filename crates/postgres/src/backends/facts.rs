//! What a server says of itself, and the questions for it.
//!
//! Every name is qualified and the connection's search path is `pg_catalog` alone, so that nobody's
//! function of the same name is called with the rights of Weir's user.

use std::time::Duration;

use super::{Position, position::PositionError};
use crate::server::Rows;

/// Settings that the connection begins with.
pub(super) const PARAMETERS: [(&str, &str); 5] = [
    ("application_name", "weir: health"),
    ("client_encoding", "UTF8"),
    ("search_path", "pg_catalog"),
    ("default_transaction_read_only", "on"),
    ("DateStyle", "ISO"),
];

/// Compiling a question about the catalogue takes longer than answering it. Servers before 11 have
/// no such setting.
pub(super) const NO_JIT: &str =
    "SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'jit'";

/// The oldest version whose functions have the names that are asked for here.
const MAJOR_MIN: u32 = 10;

/// Asked once a connection.
pub(super) const IDENTITY: &str = "\
SELECT s.system_identifier, \
pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size')) \
FROM pg_catalog.pg_control_system() AS s";

/// Asked at each poll. Whether it is in recovery is asked once, since the answer may change while
/// the others are given, and then only from yes to no, after which they are still answered.
const FACTS: [&str; 3] = [
    "SELECT s.r, \
     CASE WHEN s.r THEN pg_catalog.pg_last_wal_replay_lsn() \
     ELSE pg_catalog.pg_current_wal_insert_lsn() END, \
     CASE WHEN NOT s.r THEN pg_catalog.substr(pg_catalog.pg_walfile_name(\
     pg_catalog.pg_current_wal_insert_lsn()), 1, 8) END, \
     (SELECT w.received_tli FROM pg_catalog.pg_stat_wal_receiver AS w), ",
    "(SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() AS c)",
    ", pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) \
     pg_catalog.pg_last_xact_replay_timestamp()) \
     FROM (SELECT pg_catalog.pg_is_in_recovery() AS r OFFSET 0) AS s",
];

/// The question of each poll; `control`: with what is read from the control file.
pub(super) fn question(control: bool) -> String {
    FACTS.map(|part| if part == FACTS[1] && !control { "NULL" } else { part }).concat()
}

/// Which cluster a server is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClusterFacts {
    /// Unique to an `initdb` and its replicas; `None` where it may not be asked for.
    pub(super) system: Option<u64>,
    /// `wal_segment_size` in bytes; 0 where it is not known.
    pub(super) segment_bytes: u64,
}

/// What a server is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Which cluster it is of, where that is known.
    pub system: Option<u64>,
    /// Whether it is a replica.
    pub in_recovery: bool,
    /// The timeline that it writes, or that it receives; the one of its last checkpoint where it
    /// receives nothing, or does not tell Weir's user.
    pub timeline: Option<u32>,
    /// Where it writes, or up to where it has replayed.
    pub position: Position,
    /// How long ago the last transaction was committed that it has replayed.
    pub replayed_age: Option<Duration>,
}

/// A server's answer can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    /// Not as it was asked for.
    #[error("its answer about itself is not as expected: {0}")]
    Answer(&'static str),
    /// A position that is none.
    #[error("its answer about itself is not as expected: {0}")]
    Position(#[from] PositionError),
    /// The server is older than PostgreSQL 10.
    #[error("it is PostgreSQL {0}, and Weir needs 10 or later")]
    Version(String),
}

/// Refuses what is too old to be asked.
pub(super) fn check_version(version: Option<&str>) -> Result<(), FactsError> {
    let version = version.unwrap_or_default();
    let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    // Something else that speaks the protocol may have a version of its own kind.
    match digits.parse::<u32>() {
        Ok(major) if major < MAJOR_MIN => Err(FactsError::Version(version.to_owned())),
        _ => Ok(()),
    }
}

impl ClusterFacts {
    /// From the answer to [`IDENTITY`].
    pub(super) fn read(rows: &Rows) -> Result<Self, FactsError> {
        let [row] = rows.as_slice() else { return Err(FactsError::Answer("no single row")) };
        let [Some(system), Some(segment)] = row.as_slice() else {
            return Err(FactsError::Answer("not two values"));
        };
        // It is unsigned, and shown as signed.
        let system = system.parse::<i64>().map_err(|_| FactsError::Answer("system_identifier"))?;
        let segment = segment.parse().map_err(|_| FactsError::Answer("wal_segment_size"))?;
        Ok(Self { system: Some(system.cast_unsigned()), segment_bytes: segment })
    }
}

impl Facts {
    /// From the answer to [`question`].
    pub(super) fn read(rows: &Rows, cluster: ClusterFacts) -> Result<Self, FactsError> {
        let [row] = rows.as_slice() else { return Err(FactsError::Answer("no single row")) };
        let [recovery, position, writes, receives, checkpoint, age] = row.as_slice() else {
            return Err(FactsError::Answer("not six values"));
        };
        let in_recovery = match recovery.as_deref() {
            Some("t") => true,
            Some("f") => false,
            _ => return Err(FactsError::Answer("pg_is_in_recovery")),
        };
        // A replica that has replayed nothing yet has no position.
        let position: Position = position.as_deref().unwrap_or("0/0").parse()?;
        let number = |text: &Option<String>| text.as_deref().and_then(|t| t.parse::<u32>().ok());
        let timeline = if in_recovery {
            number(receives).filter(|timeline| *timeline > 0).or_else(|| number(checkpoint))
        } else {
            writes.as_deref().and_then(|hex| u32::from_str_radix(hex, 16).ok())
        };
        let age = age.as_deref().and_then(|text| text.parse::<f64>().ok());
        Ok(Self {
            system: cluster.system,
            in_recovery,
            timeline,
            position: if in_recovery {
                position
            } else {
                position.end_of_record(cluster.segment_bytes)
            },
            replayed_age: age.and_then(|secs| Duration::try_from_secs_f64(secs.max(0.0)).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterFacts, Facts, check_version, question};
    use crate::backends::Position;
    use std::time::Duration;

    fn row(values: &[&str]) -> Vec<Vec<Option<String>>> {
        let value = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        vec![values.iter().map(value).collect()]
    }

    #[test]
    fn a_primary_and_a_replica_are_told_apart() {
        let cluster = ClusterFacts::read(&row(&["-1", "16777216"])).unwrap();
        assert_eq!((cluster.system, cluster.segment_bytes), (Some(u64::MAX), 16 << 20));
        let primary = row(&["f", "0/3002018", "0000000A", "", "9", ""]);
        let primary = Facts::read(&primary, cluster).unwrap();
        assert!(!primary.in_recovery);
        assert_eq!((primary.timeline, primary.position), (Some(10), Position(0x3002000)));
        let replica = Facts::read(&row(&["t", "0/3002018", "", "", "9", "1.5"]), cluster).unwrap();
        assert_eq!((replica.timeline, replica.position), (Some(9), Position(0x3002018)));
        assert_eq!(replica.replayed_age, Some(Duration::from_millis(1500)));
        let replica = Facts::read(&row(&["t", "", "", "12", "9", "-1"]), cluster).unwrap();
        assert_eq!((replica.timeline, replica.position), (Some(12), Position(0)));
    }

    #[test]
    fn other_answers_are_refused() {
        let cluster = ClusterFacts::default();
        for rows in [
            vec![],
            row(&[]),
            row(&["f"]),
            row(&["x", "0/0", "", "", "", ""]),
            row(&["t", "0", "", "", "", ""]),
        ] {
            assert!(Facts::read(&rows, cluster).is_err(), "{rows:?}");
            assert!(ClusterFacts::read(&rows).is_err(), "{rows:?}");
        }
    }

    #[test]
    fn old_versions_are_told_apart() {
        assert!(check_version(Some("15.4 (Debian 15.4-2)")).is_ok());
        assert!(check_version(Some("17beta1")).is_ok());
        assert!(check_version(Some("9.6.24")).is_err());
        assert!(check_version(None).is_ok());
        assert!(question(false).contains(", NULL,") && !question(false).contains("control"));
    }
}
