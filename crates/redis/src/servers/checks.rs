//! Logins that a server checks, and connections that are logged in as clients' users.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use flow::limit::Limit;
use flow::pool::Budget;
use wire::resp::put_error;

use super::{LOCATED_WITHIN, Servers};
use crate::metrics::errors::Kind;
use crate::server::{Connection, ConnectionProfile, Login, ServerError};

/// So many servers are asked about a login at most, each where the one before it is away.
const ASKED_MAX: usize = 2;
/// How often it counts that a server takes no connection.
const COUNTED_EVERY: Duration = Duration::from_millis(500);
/// How a server says that it has too many connections, before it has looked at any password.
const TOO_MANY: &str = "ERR max number of clients";

/// Why a client is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotIn {
    /// A server says so, in these words.
    Refused(String),
    /// No server could be asked: why, in words for the client.
    Unasked(String),
}

/// What the connections of clients' users to each server count towards.
#[derive(Debug)]
pub(super) struct Budgets {
    max: Cell<usize>,
    all: RefCell<HashMap<usize, Budget>>,
    /// When servers were counted as failed that take no connection.
    refused: RefCell<HashMap<usize, Instant>>,
}

impl Budgets {
    pub(super) fn new(max: usize) -> Self {
        Self { max: Cell::new(max), all: RefCell::default(), refused: RefCell::default() }
    }

    /// That of a server.
    pub(super) fn of(&self, server: usize) -> Budget {
        let mut all = self.all.borrow_mut();
        let budget = all.entry(server).or_insert_with(|| Budget::new(Limit::new(self.max.get())));
        budget.clone()
    }

    fn set_max(&self, max: usize) {
        self.max.set(max);
        self.all.borrow().values().for_each(|budget| budget.set_max(max));
    }
}

impl Servers {
    /// Has so many connections of clients' users to each server be there at most.
    pub fn set_user_connections(&self, max: usize) {
        self.budgets.set_max(max);
    }

    /// Opens a connection as [`dial`](Self::dial) does, with what its server knows it by.
    pub(super) async fn dial_for_clients(
        &self,
        login: &Login,
        place: ConnectionProfile,
        number: usize,
    ) -> Result<Connection, ServerError> {
        let mut connection = self.dial(login, place, number).await?;
        let server = self.view().server(place.server).cloned();
        if let Some(server) = server {
            server.identify(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Opens a connection for a place, logged in in this way.
    pub(super) async fn dial(
        &self,
        login: &Login,
        place: ConnectionProfile,
        number: usize,
    ) -> Result<Connection, ServerError> {
        let until = tokio::time::Instant::now() + LOCATED_WITHIN;
        let (node, health) = (self.fleet.reached(place.server, until).await, self.fleet.health());
        let tell = |error: &ServerError| {
            health.reached(place.server, self.worker, Some(&error.words));
        };
        let node = node.inspect_err(tell)?;
        // What this worker goes by from now on must not be older.
        self.look();
        match node.server.logged_in(login).open(place, number).await {
            Ok(mut connection) => {
                health.reached(place.server, self.worker, None);
                connection.incarnation = node.incarnation;
                self.fleet.ask_commands(place.server, node.incarnation, &node.server);
                Ok(connection)
            }
            Err(error) => {
                match &error {
                    // Nothing is wrong with a server that refuses a client.
                    ServerError { said: Some(_), .. } => {
                        health.reached(place.server, self.worker, None);
                        return Err(error);
                    }
                    ServerError { is_refusal: true, words, .. } => {
                        health.reached(place.server, self.worker, Some(words));
                    }
                    ServerError { takes_none: true, .. } if !self.is_counted(place.server) => {}
                    ServerError { words, .. } => {
                        health.failed(place.server, self.worker, words);
                    }
                }
                self.fleet.call();
                Err(error)
            }
        }
    }

    /// Whether it counts that a server takes no connection: each command that it is asked for finds
    /// that out, and ejections go by how long it is away.
    fn is_counted(&self, server: usize) -> bool {
        let (mut refused, now) = (self.budgets.refused.borrow_mut(), Instant::now());
        let is_new = |at: &Instant| now.saturating_duration_since(*at) >= COUNTED_EVERY;
        let counts = refused.get(&server).is_none_or(is_new);
        if counts {
            refused.insert(server, now);
        }
        counts
    }

    /// Has a server check a login, now, on a connection that nothing else is asked on. Another one
    /// is asked where it is away.
    ///
    /// # Errors
    /// It is refused, or no server can be asked.
    pub async fn check(&self, login: &Login) -> Result<(), NotIn> {
        self.look();
        let (holders, live) = (self.holders(), self.fleet.health().live());
        let is_live = |of: &usize| live.get(*of).copied().unwrap_or(true);
        let (first, rest): (Vec<usize>, Vec<usize>) = holders.into_iter().partition(is_live);
        let mut why = "there is no server".to_owned();
        for server in first.into_iter().chain(rest).take(ASKED_MAX) {
            let place = ConnectionProfile { server, ..ConnectionProfile::FIRST };
            let Err(error) = self.dial(login, place, usize::MAX).await else { return Ok(()) };
            if let Some(said) = error.said.as_deref().filter(|said| !said.starts_with(TOO_MANY)) {
                return Err(NotIn::Refused(said.to_owned()));
            }
            let name = self.server_name(server).unwrap_or_default();
            why = format!("{name} cannot be reached: {error}");
            if error.is_refusal {
                break;
            }
        }
        Err(NotIn::Unasked(format!("ERR weir: not sent: {why}")))
    }

    /// What a client hears whose command found no lane, since a server has refused its user.
    pub(super) fn is_refused(&self, number: usize, said: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(said.len() + 3);
        put_error(&mut out, said);
        self.count(number, |times| times.failed(Kind::of(&out)));
        out
    }
}
