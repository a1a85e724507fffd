//! Who may log in to which database, and with which settings: what a connection has from its login
//! and keeps for as long as it lasts, whatever becomes of it on the server.
//!
//! A connection remembers the [`Login`] it was opened with. Where that is another one now, it is
//! closed at its next rest, and a client's greeting is asked for anew.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::server::Rows;

/// How often a server is asked whether anything has changed past Weir.
pub(super) const PAUSE: Duration = Duration::from_secs(2);

/// What logins depend on: by what it is, a name and another one, how it is. The catalogues are
/// those that all databases share, so any connection will do. A default that came and went between
/// two questions is seen by the count of the catalogue's changes: a connection may have been opened
/// while it was there.
pub(super) const QUESTION: &str = "\
SELECT 'role' AS what, r.rolname::text AS name, '' AS other, pg_catalog.concat_ws('/', r.oid, \
r.rolcanlogin, r.rolsuper, (SELECT pg_catalog.string_agg(m.roleid::text, ',' ORDER BY m.roleid) \
FROM pg_catalog.pg_auth_members m WHERE m.member = r.oid)) AS state FROM pg_catalog.pg_roles r \
UNION ALL SELECT 'database', d.datname::text, '', \
pg_catalog.concat_ws('/', d.oid, d.datallowconn, d.datacl) FROM pg_catalog.pg_database d \
UNION ALL SELECT 'setting', coalesce(d.datname::text, ''), coalesce(r.rolname::text, ''), \
s.setconfig::text FROM pg_catalog.pg_db_role_setting s \
LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase \
LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole \
UNION ALL SELECT 'server', '', '', pg_catalog.concat_ws('/', pg_catalog.pg_conf_load_time(), \
pg_catalog.pg_stat_get_tuples_inserted(c.oid), pg_catalog.pg_stat_get_tuples_updated(c.oid), \
pg_catalog.pg_stat_get_tuples_deleted(c.oid)) FROM pg_catalog.pg_class c \
WHERE c.oid = 'pg_catalog.pg_db_role_setting'::pg_catalog.regclass";

/// The question for one value that changes with any of it.
pub(super) fn state_question() -> String {
    format!(
        "SELECT pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat_ws('/', l.what, l.name, \
         l.other, l.state), ',' ORDER BY l.what, l.name, l.other)) FROM ({}) l",
        QUESTION
    )
}

/// What the login of a user to a database is, as far as is known. Two that are equal lead to the
/// same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    told: u64,
    state: u64,
    /// The server was not asked since there is such a role: it may be gone again when it is.
    is_new: bool,
}

impl Login {
    /// Whether it has to be looked at anew even where no login is known to have changed.
    #[inline]
    pub fn is_new(self) -> bool {
        self.is_new
    }
}

/// What is known of all logins of one server.
#[derive(Debug, Default)]
pub struct Logins {
    picture: ArcSwap<HashMap<[Box<str>; 3], u64>>,
    /// Statements through Weir that have changed some.
    told: AtomicU64,
    /// How often the server was asked.
    asked: AtomicU64,
    /// Changes with either of the first two.
    generation: AtomicU64,
    /// When `generation` changed last.
    changed: Mutex<Option<Instant>>,
}

impl Logins {
    /// Changes whenever any login may have changed.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What the login of this user to this database is now.
    pub fn of(&self, user: &str, database: &str) -> Login {
        let (picture, told) = (self.picture.load(), self.told.load(Ordering::Acquire));
        let parts = [
            ["role", user, ""],
            ["database", database, ""],
            ["setting", database, user],
            ["setting", database, ""],
            ["setting", "", user],
            ["setting", "", ""],
            ["server", "", ""],
        ];
        let mut hasher = DefaultHasher::new();
        let is_new = !picture.contains_key(&parts[0].map(Box::from));
        if is_new {
            self.asked.load(Ordering::Acquire).hash(&mut hasher);
        }
        for part in parts {
            picture.get(&part.map(Box::from)).hash(&mut hasher);
        }
        Login { told, state: hasher.finish(), is_new }
    }

    /// A statement through Weir has changed some.
    pub fn changed(&self) {
        self.told.fetch_add(1, Ordering::AcqRel);
        self.others();
    }

    /// The server was asked whether any has changed.
    pub(super) fn asked(&self) {
        self.asked.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes in the answer to [`QUESTION`].
    pub(super) fn learn(&self, rows: &Rows) {
        let mut picture = HashMap::with_capacity(rows.len());
        for row in rows {
            let [Some(what), Some(name), Some(other), state] = row.as_slice() else { continue };
            let mut hasher = DefaultHasher::new();
            state.hash(&mut hasher);
            let key = [what, name, other].map(|text| text.as_str().into());
            picture.insert(key, hasher.finish());
        }
        self.picture.store(Arc::new(picture));
        self.others();
    }

    fn others(&self) {
        *self.changed.lock() = Some(Instant::now());
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether any has since then, so that who was refused may be let in.
    pub fn have_changed_since(&self, at: Instant) -> bool {
        self.changed.lock().is_some_and(|changed| changed > at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_changes_with_what_it_depends_on_and_with_nothing_else() {
        let logins = Logins::default();
        let row = |row: [&str; 4]| row.map(|text| Some(text.to_owned())).to_vec();
        let mut rows = vec![
            row(["role", "ann", "", "10/t"]),
            row(["role", "bob", "", "11/t"]),
            row(["database", "d", "", "5/t"]),
            row(["setting", "d", "ann", "{a=1}"]),
            row(["server", "", "", "now"]),
        ];
        logins.learn(&rows);
        let before = [logins.of("ann", "d"), logins.of("bob", "d"), logins.of("bob", "e")];
        let now = || [logins.of("ann", "d"), logins.of("bob", "d"), logins.of("bob", "e")];
        let differ = |now: [Login; 3]| [0, 1, 2].map(|at| now[at] != before[at]);
        assert_eq!(differ(now()), [false; 3]);
        rows[0] = row(["role", "ann", "", "10/f"]);
        logins.learn(&rows);
        assert_eq!(differ(now()), [true, false, false]);
        rows[2] = row(["database", "d", "", "5/f"]);
        logins.learn(&rows);
        assert_eq!(differ(now()), [true, true, false]);
        rows[4] = row(["server", "", "", "later"]);
        logins.learn(&rows);
        assert_eq!(differ(now()), [true; 3]);
        assert!(!logins.of("ann", "d").is_new() && logins.of("eve", "d").is_new());
        let new = logins.of("eve", "d");
        logins.asked();
        assert_ne!(logins.of("eve", "d"), new, "she may be gone by now");
        let (told, generation) = (now(), logins.generation());
        logins.changed();
        assert!(logins.generation() > generation && now().iter().zip(told).all(|(a, b)| *a != b));
    }
}
