//! Verifiers of users that are not in the file: asked of a server by `auth_query`, away from the
//! workers, and remembered for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::dial::Socket;
use parking_lot::Mutex;
use tokio::time::timeout;
use wire::postgres::sqlstate;

use crate::auth::Credentials;
use crate::auth::auth_query::{Lookup, Outcome, PARAMETERS};
use crate::backends::{Backend, Backends};
use crate::server::{Conversation, DialError, Dialled, Identity, dial};
use crate::settings::AuthQuery;
use flow::logins::turns::Turns;

/// Answers that are remembered; at the limit all are forgotten, and asked anew as they come.
const ANSWERS_MAX: usize = 10_000;
/// What one question may take, opening a connection included. The statement's own limit is below
/// it (`PARAMETERS`).
const QUESTION_MAX: Duration = Duration::from_secs(15);

/// For so long nobody is asked after there was no answer, so that a crowd does not wait one by one.
const SILENCE: Duration = Duration::from_secs(1);
/// The longest name of a user in PostgreSQL (`NAMEDATALEN` - 1).
const NAME_BYTES_MAX: usize = 63;

/// Who asks, and what is known already.
pub(super) struct Remote {
    settings: AuthQuery,
    credentials: Credentials,
    /// One connection for all questions: a login waits for the one under way, and a crowd of
    /// strangers opens no more than this. Asked again, it is still there.
    line: tokio::sync::Mutex<Option<Line>>,
    /// Whose turn it is to ask.
    turns: Arc<Turns>,
    /// Until when nobody is asked, since there was no answer at all.
    silent: Mutex<Option<(Instant, String)>>,
    answers: Mutex<HashMap<LookupKey, (Instant, Outcome)>>,
}

/// A user, and the database it is looked up in.
type LookupKey = (String, String);

struct Line {
    database: String,
    backend: Arc<Backend>,
    /// Of the backend when the connection was opened.
    epoch: u64,
    talk: Conversation<Socket>,
}

impl Remote {
    pub(super) fn new(settings: AuthQuery, credentials: Credentials) -> Self {
        Self {
            settings,
            credentials,
            line: tokio::sync::Mutex::new(None),
            turns: Turns::new(1),
            silent: Mutex::default(),
            answers: Mutex::default(),
        }
    }

    /// What the server has for `user`, asked in `database`, a name on the servers; empty is the one
    /// that Weir itself connects to.
    pub(super) async fn ask(&self, backends: &Backends, database: &str, user: &str) -> Outcome {
        if user.len() > NAME_BYTES_MAX {
            // A server would look for the beginning of it.
            return Outcome::Unknown { why: "no user has so long a name", there: None };
        }
        let place = (user.to_owned(), database.to_owned());
        if let Some(known) = self.known(&place) {
            return known;
        }
        let turn = self.turns.turn().await;
        // Whoever was before in the queue may have asked the same.
        if let Some(known) = self.known(&place).or_else(|| self.silent()) {
            return known;
        }
        let mut line = self.line.lock().await;
        let asked = timeout(QUESTION_MAX, self.on_line(&mut line, backends, &place)).await;
        let outcome = match asked {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(why)) => self.is_silent(why),
            Err(_) => self.is_silent("no answer in time".to_owned()),
        };
        match &outcome {
            Outcome::Failed(why) => {
                *line = None;
                tracing::warn!(user, database, why, "auth-query has no answer");
            }
            Outcome::Unknown { why, .. } => {
                tracing::info!(user, database, why, "auth-query: no login");
            }
            Outcome::Known(_) => {}
        }
        self.remember(place, &outcome);
        drop(turn);
        outcome
    }

    /// What there is to say while nobody is asked.
    fn silent(&self) -> Option<Outcome> {
        let silent = self.silent.lock();
        let (until, why) = silent.as_ref()?;
        (Instant::now() < *until).then(|| Outcome::Failed(why.clone()))
    }

    /// There was no answer, and will be none to those who wait already.
    fn is_silent(&self, why: String) -> Outcome {
        *self.silent.lock() = Some((Instant::now() + SILENCE, why.clone()));
        Outcome::Failed(why)
    }

    fn known(&self, place: &LookupKey) -> Option<Outcome> {
        let answers = self.answers.lock();
        let (until, outcome) = answers.get(place)?;
        (Instant::now() < *until).then(|| outcome.clone())
    }

    fn remember(&self, place: LookupKey, outcome: &Outcome) {
        let remember = self.settings.remember.get();
        if remember.is_zero() || matches!(outcome, Outcome::Failed(_)) {
            return;
        }
        let mut answers = self.answers.lock();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(place, (Instant::now() + remember, outcome.clone()));
    }

    /// Asks over the connection that is kept, and over a new one where that is gone.
    async fn on_line(
        &self,
        line: &mut Option<Line>,
        backends: &Backends,
        (user, database): &LookupKey,
    ) -> Result<Outcome, String> {
        if let Some(mut kept) = line.take()
            && kept.database == *database
            && kept.epoch == kept.backend.epoch()
            && let Ok(outcome) = self.talk(&mut kept.talk, user).await
        {
            *line = Some(kept);
            return Ok(outcome);
        }
        let mut fresh = self.dial(backends, database).await?;
        let outcome = self.talk(&mut fresh.talk, user).await?;
        *line = Some(fresh);
        Ok(outcome)
    }

    /// Opens a connection to a database, and where there is none of that name to the one that
    /// Weir itself connects to: whether a database is there is nothing for who has not logged in.
    async fn dial(&self, backends: &Backends, database: &str) -> Result<Line, String> {
        let backend = backend(backends).ok_or("no backend takes connections")?;
        let epoch = backend.epoch();
        let own = backend.own_database();
        let dialled = match self.dial_in(&backend, named(database, &own)).await {
            Err(DialError::Refused { error, .. }) if error.code == sqlstate::UNDEFINED_DATABASE => {
                self.dial_in(&backend, &own).await
            }
            dialled => dialled,
        };
        let dialled = dialled.map_err(|error| error.to_string())?;
        let talk = Conversation::new(dialled.socket, dialled.rest);
        Ok(Line { database: database.to_owned(), backend, epoch, talk })
    }

    async fn dial_in(&self, backend: &Backend, database: &str) -> Result<Dialled, DialError> {
        let identity = Identity {
            user: &self.settings.user,
            database,
            parameters: &PARAMETERS,
            credentials: self.credentials.clone(),
        };
        dial(backend.server(), identity).await
    }

    async fn talk(&self, talk: &mut Conversation<Socket>, user: &str) -> Result<Outcome, String> {
        let said = |error: crate::server::TalkError| error.to_string();
        let mut out = Vec::new();
        let mut lookup = Lookup::begin(user, &self.settings.query, &mut out);
        talk.say(&out).await.map_err(said)?;
        loop {
            let frame = talk.next().await.map_err(said)?;
            if let Some(outcome) = lookup.on(frame.tag, frame.body) {
                return Ok(outcome);
            }
        }
    }
}

fn named<'a>(database: &'a str, own: &'a str) -> &'a str {
    if database.is_empty() { own } else { database }
}

/// The primary, or while there is none whoever takes connections: roles are the same on all.
fn backend(backends: &Backends) -> Option<Arc<Backend>> {
    let view = backends.view();
    let any = || view.backends().iter().find(|backend| backend.takes_connections());
    view.primary().ok().or_else(any).cloned()
}
