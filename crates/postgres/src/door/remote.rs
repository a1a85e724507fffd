//! Verifiers of users that are not in the file: asked of a server by `auth_query`, away from the
//! workers, and remembered for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::auth::Credentials;
use crate::auth::auth_query::{Lookup, Outcome, PARAMETERS};
use crate::backends::{Backend, Backends};
use crate::server::{Conversation, Identity, Socket, dial};
use crate::settings::AuthQuery;

/// Answers that are remembered; at the limit all are forgotten, and asked anew as they come.
const ANSWERS_MAX: usize = 10_000;
/// What one question may take, opening a connection included. The statement's own limit is below
/// it (`PARAMETERS`).
const QUESTION_MAX: Duration = Duration::from_secs(15);

/// Who asks, and what is known already.
pub(super) struct Remote {
    settings: AuthQuery,
    credentials: Credentials,
    /// One connection for all questions: a login waits for the one before it, and a crowd of
    /// strangers opens no more than this. Asked again, it is still there.
    line: tokio::sync::Mutex<Option<Line>>,
    answers: Mutex<HashMap<Place, (Instant, Outcome)>>,
}

/// A user, and the database it is looked up in.
type Place = (String, String);

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
            answers: Mutex::default(),
        }
    }

    /// What the server has for `user`; `database` is where the client wants to go, by its name on
    /// the servers.
    pub(super) async fn ask(&self, backends: &Backends, database: &str, user: &str) -> Outcome {
        let database = match self.settings.database.as_str() {
            "" => database,
            named => named,
        };
        let place = (user.to_owned(), database.to_owned());
        if let Some(known) = self.known(&place) {
            return known;
        }
        let mut line = self.line.lock().await;
        // Whoever was before in the queue may have asked the same.
        if let Some(known) = self.known(&place) {
            return known;
        }
        let asked = timeout(QUESTION_MAX, self.on_line(&mut line, backends, &place)).await;
        let outcome = match asked {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(why)) => Outcome::Failed(why),
            Err(_) => Outcome::Failed("no answer in time".to_owned()),
        };
        match &outcome {
            Outcome::Failed(why) => {
                *line = None;
                tracing::warn!(user, database, why, "auth-query has no answer");
            }
            Outcome::Unknown(why) => tracing::info!(user, database, why, "auth-query: no login"),
            Outcome::Known(_) => {}
        }
        self.remember(place, &outcome);
        outcome
    }

    fn known(&self, place: &Place) -> Option<Outcome> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, outcome) = answers.get(place)?;
        (Instant::now() < *until).then(|| outcome.clone())
    }

    fn remember(&self, place: Place, outcome: &Outcome) {
        let remember = self.settings.remember.get();
        if remember.is_zero() || matches!(outcome, Outcome::Failed(_)) {
            return;
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
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
        (user, database): &Place,
    ) -> Result<Outcome, String> {
        if let Some(mut kept) = line.take()
            && kept.database == *database
            && kept.epoch == kept.backend.epoch()
            && let Ok(outcome) = self.talk(&mut kept.talk, user).await
        {
            *line = Some(kept);
            return Ok(outcome);
        }
        let backend = backend(backends).ok_or("no backend takes connections")?;
        let epoch = backend.epoch();
        let identity = Identity {
            user: &self.settings.user,
            database,
            parameters: &PARAMETERS,
            credentials: self.credentials.clone(),
        };
        let dialled = dial(backend.server(), identity).await.map_err(|error| error.to_string())?;
        let talk = Conversation::new(dialled.socket, dialled.rest);
        let mut fresh = Line { database: database.clone(), backend, epoch, talk };
        let outcome = self.talk(&mut fresh.talk, user).await?;
        *line = Some(fresh);
        Ok(outcome)
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

/// The primary, or while there is none whoever takes connections: roles are the same on all.
fn backend(backends: &Backends) -> Option<Arc<Backend>> {
    let view = backends.view();
    let any = || view.backends().iter().find(|backend| backend.takes_connections());
    view.primary().ok().or_else(any).cloned()
}
