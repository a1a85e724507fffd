//! Roles whose passwords end soon: `VALID UNTIL`, of which nobody hears before it has come.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::server::Rows;

/// How often a server is asked.
pub(super) const PAUSE: Duration = Duration::from_secs(600);

/// Asks for passwords that end within 14 days, or ended in the last 14: those that ended before
/// are nobody's any more.
pub(super) const QUESTION: &str = "\
SELECT r.rolname, pg_catalog.date_part('epoch', r.rolvaliduntil) FROM pg_catalog.pg_roles AS r \
WHERE r.rolcanlogin AND r.rolvaliduntil OPERATOR(pg_catalog.<) \
(pg_catalog.now() OPERATOR(pg_catalog.+) '14 days'::pg_catalog.interval) \
AND r.rolvaliduntil OPERATOR(pg_catalog.>) \
(pg_catalog.now() OPERATOR(pg_catalog.-) '14 days'::pg_catalog.interval) \
ORDER BY r.rolvaliduntil LIMIT 20";

/// A role whose password ends soon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpiringRole {
    /// The name of the role.
    pub role: String,
    /// When its password ends, in seconds since 1970.
    pub ends_at: f64,
}

/// Reads the answer to [`QUESTION`]; a row that is none is left out.
pub(super) fn read(rows: &Rows) -> Vec<ExpiringRole> {
    let role = |row: &Vec<Option<String>>| match row.as_slice() {
        [Some(role), Some(ends)] => {
            Some(ExpiringRole { role: role.clone(), ends_at: ends.parse().ok()? })
        }
        _ => None,
    };
    rows.iter().filter_map(role).collect()
}

#[cfg(test)]
mod tests {
    use super::{ExpiringRole, read};

    #[test]
    fn rows_are_roles_and_others_are_left_out() {
        let row = |values: &[&str]| values.iter().map(|of| Some((*of).to_owned())).collect();
        let rows = vec![row(&["app", "1800000000.5"]), row(&["odd"]), row(&["odd", "never"])];
        let app = ExpiringRole { role: "app".to_owned(), ends_at: 1_800_000_000.5 };
        assert_eq!(read(&rows), [app]);
    }
}
