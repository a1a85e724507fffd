//! How many server connections there may be, over all workers, of a pool, a database, a user and a
//! backend.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use flow::limit::Limit;
use flow::pool::Budget;

use super::{Gateway, lock};
use crate::settings::Settings;
use crate::worker::Key;

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
        let pool = &settings.pool;
        let max = match self {
            Self::Pool(key) => {
                let database = settings.database_there(&key.database);
                let of_user = settings.user(&key.user).and_then(|user| user.pool_size);
                of_user.or_else(|| database?.pool_size).unwrap_or(pool.size)
            }
            Self::Database(_, name) => {
                let database = settings.database_there(name);
                let own = database.and_then(|database| database.max_server_connections);
                own.unwrap_or(pool.max_per_database)
            }
            Self::User(_, name) => {
                let own = settings.user(name).and_then(|user| user.max_server_connections);
                own.unwrap_or(pool.max_per_user)
            }
            Self::Backend(_) => pool.max_per_backend,
        };
        // 0 is without limit; it may get one while connections count.
        if max == 0 { usize::MAX } else { max }
    }
}

/// The limits, shared by the workers' pools.
#[derive(Debug, Default)]
pub(super) struct Budgets(Mutex<HashMap<Limited, Budget>>);

impl Budgets {
    fn of(&self, key: &Key, settings: &Settings) -> Vec<Budget> {
        let mut budgets = lock(&self.0);
        let budget = |what: Limited| {
            let max = what.max(settings);
            budgets.entry(what).or_insert_with(|| Budget::new(Limit::new(max))).clone()
        };
        Limited::of(key).into_iter().map(budget).collect()
    }

    /// Takes on new limits. Connections beyond a lower one stay for as long as they are used.
    pub(super) fn reload(&self, settings: &Settings) {
        for (what, budget) in lock(&self.0).iter() {
            budget.set_max(what.max(settings));
        }
    }
}

impl Gateway {
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
