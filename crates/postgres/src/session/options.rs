//! What the configuration says of one client's session.

use super::patience::Patience;
use crate::pipeline::lease::machine::LeaseOptions;
use crate::settings::{Commit, Consistency, LastValues, Mode, Route, Settings};

/// What is configured for the sessions of one user in one database. What a user's table says comes
/// before a database's, and that before `[postgres]`.
#[derive(Debug)]
pub(super) struct Options {
    /// How long statements and pauses may take.
    pub patience: Patience,
    /// For how long a client keeps a server connection.
    pub mode: Mode,
    /// Whether proven reads ride lanes.
    pub lanes_on: bool,
    /// Whether reads may be asked together with equal ones of other clients.
    pub shares_reads: bool,
    /// Whether point statements that come as text are prepared.
    pub prepares_points: bool,
    /// How much of what was written before a replica must have replayed.
    pub consistency: Consistency,
    /// Where statements go until the client says otherwise.
    pub route: Option<Route>,
    /// Whether writes may share transactions.
    pub batches_on: bool,
    /// Whether the answers to its commits wait for what many commits have in common.
    pub shares_commits: bool,
    /// Whether a server is kept for the next round after one that may have drawn from a sequence.
    pub keeps_last_values: bool,
}

impl Options {
    /// As the settings in force have them.
    pub fn new(settings: &Settings, database_name: &str, user_name: &str) -> Self {
        let (database, user) = (settings.database(database_name), settings.user(user_name));
        let mode = settings.mode(database_name, user_name);
        let lanes_on = user.and_then(|user| user.lanes);
        let lanes_on = lanes_on.or_else(|| database.and_then(|database| database.lanes));
        let lanes_on = lanes_on.unwrap_or(settings.lanes.on);
        let shares_reads = database.and_then(|database| database.share_reads);
        let consistency = database.and_then(|database| database.consistency);
        let route = user.and_then(|user| user.route);
        let last_values = user.and_then(|user| user.last_values);
        let last_values = last_values.or_else(|| database.and_then(|of| of.last_values));
        Self {
            patience: Patience::new(settings, database_name, user_name),
            mode,
            lanes_on,
            shares_reads: shares_reads.unwrap_or(settings.share_reads),
            prepares_points: settings.prepare_points && mode == Mode::Transaction,
            consistency: consistency.unwrap_or(settings.consistency),
            route: route.or_else(|| database.and_then(|database| database.route)),
            batches_on: lanes_on && mode == Mode::Transaction && settings.batches.on,
            shares_commits: mode == Mode::Transaction
                && settings.commit(database_name, user_name) == Commit::Shared,
            keeps_last_values: last_values == Some(LastValues::Keep),
        }
    }

    /// What of it counts for a client that has a server connection.
    pub fn lease(&self) -> LeaseOptions {
        LeaseOptions {
            is_pinned_by_mode: self.mode == Mode::Session,
            keeps_last_values: self.keeps_last_values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        let backend = "[[backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:1\"";
        let settings = toml::from_str(&format!("{toml}\n{backend}")).unwrap();
        Options::new(&settings, "shop", "ann")
    }

    #[test]
    fn a_users_table_comes_before_a_databases_and_that_before_everyones() {
        let (user, database) = ("[[user]]\nname = \"ann\"", "[[database]]\nname = \"shop\"");
        let all = "[lanes]\non = false";
        assert!(!options(all).lanes_on);
        let with_database = format!("{database}\nlanes = true\nroute = \"replica\"\n{all}");
        let of_database = options(&with_database);
        assert!(of_database.lanes_on);
        assert_eq!(of_database.route, Some(Route::Replica));
        let of_user = options(&format!(
            "{user}\npassword = \"x\"\nlanes = false\nroute = \"primary\"\n{with_database}"
        ));
        assert!(!of_user.lanes_on);
        assert_eq!(of_user.route, Some(Route::Primary));
    }

    #[test]
    fn a_client_that_keeps_its_server_shares_no_transaction() {
        assert!(options("").batches_on && options("").prepares_points);
        let session = options("mode = \"session\"");
        assert_eq!(session.mode, Mode::Session);
        assert!(!session.batches_on && !session.prepares_points);
        assert!(!options("[lanes]\non = false").batches_on);
    }
}
