//! Opening server connections for a worker's pool.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::pool::{self, Budget, OpenError, Opener};
use wire::postgres::{Refusal, sqlstate};

use super::{WorkerContext, limits};
use crate::auth::Credentials;
use crate::backends::{Backend, ClientLogin};
use crate::commit::facts::{self, CommitFacts};
use crate::connection::{Connection, Key, OpeningState, Record};
use crate::lanes::Need;
use crate::server::{AskLimits, Conversation, DialError, Dialled, Identity, QueryError, dial};
use crate::settings::Settings;
use crate::shared::GatewayContext;

/// More than any server says of its commits.
const FACTS_BYTES_MAX: usize = 4096;

/// Opens server connections for the pool.
pub struct Servers {
    pub(super) shared: Arc<GatewayContext>,
    /// What users have logged in with last.
    pub(super) credentials: RefCell<ClientCredentials>,
    /// Whose lanes have some of the connections.
    pub(super) front: RefCell<Weak<WorkerContext>>,
    records: RefCell<Vec<Weak<Record>>>,
}

impl Servers {
    pub(super) fn new(shared: Arc<GatewayContext>) -> Rc<Self> {
        let (credentials, records) = (RefCell::default(), RefCell::default());
        Rc::new(Self { shared, credentials, front: RefCell::new(Weak::new()), records })
    }

    /// Every connection there is, and those that are being opened.
    pub(super) fn records(&self) -> Vec<Rc<Record>> {
        let mut records = self.records.borrow_mut();
        records.retain(|record| record.strong_count() > 0);
        records.iter().filter_map(Weak::upgrade).collect()
    }

    fn record(&self, key: Key, backend: Arc<Backend>) -> Rc<Record> {
        let record = Record::new(self.shared.server_number(), key, backend);
        let mut records = self.records.borrow_mut();
        // Those that have ended are left in it until there are as many of them.
        if records.len() == records.capacity() {
            records.retain(|record| record.strong_count() > 0);
        }
        records.push(Rc::downgrade(&record));
        record
    }
}

/// What servers are shown, by user; of a database (its name there) that has its own user, by both.
#[derive(Default)]
pub(super) struct ClientCredentials(HashMap<(Option<Arc<str>>, Arc<str>), Credentials>);

impl ClientCredentials {
    /// Takes note of what a user came with. Who was let in without a password leaves that of an
    /// earlier login as it is.
    pub(super) fn note(&mut self, of: Option<Arc<str>>, user: Arc<str>, with: Credentials) {
        let known = self.0.get(&(of.clone(), user.clone()));
        let none = |known: &Credentials| matches!(known, Credentials::Certificate);
        let better = match with {
            // As good as not knowing the user.
            Credentials::None => false,
            Credentials::Certificate => known.is_none_or(none),
            _ => true,
        };
        if better {
            self.0.insert((of, user), with);
        }
    }

    fn of(&self, key: &Key) -> Credentials {
        let known = |of: Option<Arc<str>>| self.0.get(&(of, key.user.clone()));
        known(Some(key.database.clone()))
            .or_else(|| known(None))
            .cloned()
            .unwrap_or(Credentials::None)
    }
}

impl Opener for Servers {
    type Key = Key;
    type Connection = Connection;
    type Error = Refusal;

    async fn open(self: Rc<Self>, key: Key) -> Result<Connection, OpenError<Refusal>> {
        let gone = || OpenError { error: stopping(), is_final: true };
        let backend = self.shared.backends.get(key.backend).ok_or_else(gone)?;
        let credentials = self.credentials.borrow().of(&key);
        let identity =
            Identity { user: &key.user, database: &key.database, parameters: &[], credentials };
        let client =
            ClientLogin { user: key.user.clone(), credentials: identity.credentials.clone() };
        let login = backend.logins().of(&key.user, &key.database);
        let opened = OpeningState { epoch: backend.epoch(), login };
        let record = self.record(key.clone(), backend.clone());
        match dial(backend.server(), identity).await {
            Ok(dialled) => {
                backend.connected();
                self.shared.has_logged_in(&key.database, client);
                let max = limits::of_connection(&self.shared.settings());
                let (dialled, commits) = match self.shared.settings().shares_commits() {
                    true => {
                        ask_of_commits(dialled, backend.server().target.connect_timeout).await?
                    }
                    false => (dialled, None),
                };
                let mut connection = Connection::new(dialled, record, opened, max);
                connection.commits = commits;
                Ok(connection)
            }
            Err(error) => {
                let is_final = error.is_of_this_login();
                if !is_final {
                    backend.connect_failed(&error.to_string());
                }
                Err(OpenError { error: refused(&error), is_final })
            }
        }
    }

    fn budgets(&self, key: &Key) -> Vec<Budget> {
        self.shared.budgets(key)
    }

    fn settings(&self, key: &Key, all: &pool::Settings) -> pool::Settings {
        let settings = self.shared.settings();
        let Some(of) = settings.database_there(&key.database) else { return all.clone() };
        let workers = self.shared.workers();
        pool::Settings {
            idle_min: of.min_idle.map_or(all.idle_min, |min| min.div_ceil(workers)),
            age: of.max_age.map_or(all.age, some),
            ..all.clone()
        }
    }

    fn may_be_let_in(&self, key: &Key, at: Instant) -> bool {
        let backend = self.shared.backends.get(key.backend);
        backend.is_some_and(|backend| backend.logins().have_changed_since(at))
    }

    fn give_up_one(&self, key: &Key) -> bool {
        let front = self.front.borrow().upgrade();
        front.is_some_and(|front| front.give_up_lane(key, Need::Any, Instant::now()))
    }

    fn give_up_unused(&self, key: &Key, unused: Duration) -> bool {
        let front = self.front.borrow().upgrade();
        front.is_some_and(|front| front.give_up_unused_lane(key, unused, Instant::now()))
    }

    fn is_good(&self, connection: &mut Connection) -> bool {
        connection.is_good()
    }
}

/// Asks a new connection what its commits are like. A server that refuses to say so has commits of
/// its own.
async fn ask_of_commits(
    dialled: Dialled,
    time: Duration,
) -> Result<(Dialled, Option<CommitFacts>), OpenError<Refusal>> {
    let Dialled { socket, key, parameters, rest } = dialled;
    let mut talk = Conversation::new(socket, rest);
    let limits = AskLimits { bytes: FACTS_BYTES_MAX, time };
    let commits = match talk.ask(facts::QUESTION, &[], limits).await {
        Ok(rows) => CommitFacts::read(&rows),
        Err(QueryError::Refused(error)) if error.severity == "ERROR" => None,
        Err(error) => {
            let error = Refusal::error(sqlstate::CANNOT_CONNECT, error.to_string());
            return Err(OpenError { error, is_final: false });
        }
    };
    let (socket, rest) = talk.into_parts();
    Ok((Dialled { socket, key, parameters, rest }, commits))
}

pub(super) fn stopping() -> Refusal {
    Refusal::fatal(sqlstate::ADMIN_SHUTDOWN, "Weir is stopping")
}

/// How a worker of so many keeps its share of the connections.
pub(super) fn pool_settings(settings: &Settings, workers: usize) -> pool::Settings {
    pool::Settings {
        idle_min: settings.pool.min_idle.div_ceil(workers),
        idle_time: some(settings.pool.idle_timeout),
        age: some(settings.pool.max_age),
        retry: settings.pool.login_retry.get(),
        ..pool::Settings::default()
    }
}

/// A limit; `None` where there is none.
pub fn some(limit: units::Duration) -> Option<Duration> {
    Some(limit.get()).filter(|limit| !limit.is_zero())
}

/// A limit after that moment; without one it is as good as for ever.
pub fn after(since: Instant, limit: Option<Duration>) -> Instant {
    since + limit.unwrap_or(Duration::from_secs(366 * 86_400))
}

/// What a client hears when a server could not be reached: the server's own words where it has
/// given any.
fn refused(error: &DialError) -> Refusal {
    match error.server_error() {
        Some(said) => {
            let mut refusal = Refusal::error(said.code.clone(), said.message.clone());
            refusal.hint.clone_from(&said.hint);
            refusal
        }
        None => Refusal::error(sqlstate::CANNOT_CONNECT, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_without_a_password_takes_none_away() {
        let mut known = ClientCredentials::default();
        let password = |text: &str| Credentials::Password(text.into());
        let key = |database: &str| Key { backend: 0, database: database.into(), user: "u".into() };
        known.note(None, "u".into(), Credentials::Certificate);
        assert_eq!(known.of(&key("d")), Credentials::Certificate);
        for with in [password("a"), Credentials::None, Credentials::Certificate] {
            known.note(None, "u".into(), with);
            assert_eq!(known.of(&key("d")), password("a"));
        }
        known.note(Some("d".into()), "u".into(), password("b"));
        assert_eq!([known.of(&key("d")), known.of(&key("e"))], [password("b"), password("a")]);
        known.note(None, "u".into(), password("c"));
        assert_eq!(known.of(&key("e")), password("c"));
    }
}
