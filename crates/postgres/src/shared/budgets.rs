//! How many server connections there may be, over all workers, of a pool, a database, a user and a
//! backend; and how many clients, of a database and a user.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use flow::limit::{Limit, Permit};
use flow::pool::Budget;
use parking_lot::Mutex;
use wire::postgres::{Refusal, sqlstate};

use super::GatewayContext;
use crate::connection::Key;
use crate::settings::Settings;

/// Of so many users and databases those are forgotten that have no client.
const ADMITTED_MAX: usize = 1_000;

/// What a limit on server connections is about; the names are those on the servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Limited {
    Backend(usize),
    Database(usize, Arc<str>),
    User(usize, Arc<str>),
    Pool(Key),
}

impl Limited {
    /// Those that a connection counts towards.
    fn of(key: &Key) -> [Self; 4] {
        [
            Self::Pool(key.clone()),
            Self::Database(key.backend, key.database.clone()),
            Self::User(key.backend, key.user.clone()),
            Self::Backend(key.backend),
        ]
    }

    /// The limit by these settings.
    fn max(&self, settings: &Settings) -> usize {
        let max = match self {
            Self::Pool(key) => {
                settings.pool_size(settings.database_there(&key.database), &key.user)
            }
            Self::Database(_, name) => settings.servers_of_database(settings.database_there(name)),
            Self::User(_, name) => settings.servers_of_user(name),
            Self::Backend(_) => settings.pool.max_per_backend,
        };
        or_none(max)
    }
}

/// 0 is without limit; it may get one while connections count.
fn or_none(max: usize) -> usize {
    if max == 0 { usize::MAX } else { max }
}

/// How many clients there are of each user and to each database, and may be.
#[derive(Debug, Default)]
pub(super) struct Admitted(Mutex<HashMap<Admission, Limit>>);

/// What a limit on clients is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Admission {
    User(String),
    Database(String),
}

impl Admission {
    fn max(&self, settings: &Settings) -> usize {
        or_none(match self {
            Self::User(name) => settings.clients_of_user(name),
            Self::Database(name) => settings.clients_of_database(name),
        })
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user \"{name}\""),
            Self::Database(name) => write!(f, "database \"{name}\""),
        }
    }
}

impl Admitted {
    /// Takes on new limits. Clients beyond a lower one stay.
    pub(super) fn reload(&self, settings: &Settings) {
        let mut known = self.0.lock();
        known.retain(|_, limit| limit.used() > 0);
        known.iter().for_each(|(what, limit)| limit.set_max(what.max(settings)));
    }
}

impl GatewayContext {
    /// A place for a client among those of its user and of its database.
    ///
    /// # Errors
    /// What it is told: there are as many as there may be.
    pub(crate) fn admit(&self, database: &str, user: &str) -> Result<Vec<Permit>, Refusal> {
        let settings = self.settings();
        let mut known = self.admitted.0.lock();
        if known.len() >= ADMITTED_MAX {
            known.retain(|_, limit| limit.used() > 0);
        }
        let both = [Admission::User(user.to_owned()), Admission::Database(database.to_owned())];
        let permits = both.map(|what| {
            let refused = format!("too many connections of {what}");
            let max = what.max(&settings);
            let limit = known.entry(what).or_insert_with(|| Limit::new(max));
            let refusal = || Refusal::fatal(sqlstate::TOO_MANY_CONNECTIONS, refused);
            limit.take().ok_or_else(refusal)
        });
        permits.into_iter().collect()
    }
}

/// The limits, shared by the workers' pools.
#[derive(Debug, Default)]
pub(super) struct Budgets(Mutex<HashMap<Limited, Budget>>);

impl Budgets {
    fn of(&self, key: &Key, settings: &Settings) -> Vec<Budget> {
        let mut budgets = self.0.lock();
        let budget = |what: Limited| {
            let max = what.max(settings);
            budgets.entry(what).or_insert_with(|| Budget::new(Limit::new(max))).clone()
        };
        Limited::of(key).into_iter().map(budget).collect()
    }

    /// Takes on new limits. Connections beyond a lower one stay for as long as they are used.
    pub(super) fn reload(&self, settings: &Settings) {
        for (what, budget) in self.0.lock().iter() {
            budget.set_max(what.max(settings));
        }
    }
}

impl GatewayContext {
    /// The limits that a server connection counts towards.
    pub(crate) fn budgets(&self, key: &Key) -> Vec<Budget> {
        self.budgets.of(key, &self.settings())
    }

    /// How many server connections of a pool there may be, whatever else counts.
    pub(crate) fn room(&self, key: &Key) -> usize {
        let settings = self.settings();
        Limited::of(key).iter().map(|what| what.max(&settings)).min().unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DatabaseSettings;

    #[test]
    fn limits_are_those_of_the_database_s_own_entry_and_change_with_a_reload() {
        let mut settings = Settings::default();
        let entry = |name: &str, dbname: &str, size| DatabaseSettings {
            name: name.to_owned(),
            dbname: dbname.to_owned(),
            pool_size: Some(size),
            ..DatabaseSettings::default()
        };
        settings.database = vec![entry("shop", "shop_there", 3), entry("shop_there", "other", 9)];
        let key = Key { backend: 0, database: "shop_there".into(), user: "u".into() };
        let budgets = Budgets::default();
        let maxima = |budgets: &Budgets, settings: &Settings| -> Vec<usize> {
            let of = budgets.of(&key, settings);
            of.iter().map(|budget| budget.limit().max()).collect()
        };
        assert_eq!(maxima(&budgets, &settings), [3, usize::MAX, usize::MAX, usize::MAX]);
        settings.database[0].pool_size = Some(5);
        settings.pool.max_per_backend = 7;
        budgets.reload(&settings);
        assert_eq!(maxima(&budgets, &settings), [5, usize::MAX, usize::MAX, 7]);
    }
}
