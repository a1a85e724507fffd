//! The connection that listens in one database: opened when somebody wants to listen, opened anew
//! when it breaks or the primary is another one, closed a while after nobody listens any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::backoff::Backoff;
use flow::dial::Socket;
use tokio::time::{sleep, timeout};
use wire::postgres::backend::{Fields, Notification, tag};
use wire::postgres::{Refusal, frontend};

use super::hub::{Hub, Verb};
use crate::backends::{Backend, Backends, OwnError};
use crate::server::{Conversation, ServerError, TalkError};

/// How long one try waits for a primary, before it says so in the log and waits on.
const PRIMARY_WAIT: Duration = Duration::from_secs(30);
/// The first wait after a connection was lost; it doubles up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_secs(5);
/// A connection that lasted so long was a good one: the next wait is the first again.
const LASTED: Duration = Duration::from_secs(10);
/// Silence after which the server is asked whether it is there, since a connection that hangs
/// would look like one on which nobody notifies.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the server may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the connection stays when nobody listens.
const LINGER: Duration = Duration::from_secs(30);
/// Channels in one question.
const BATCH_MAX: usize = 500;

/// Settings that the connection begins with. Payloads come as UTF-8: only sessions of that
/// encoding are served.
const PARAMETERS: [(&str, &str); 3] = [
    ("application_name", "weir: listen"),
    ("client_encoding", "UTF8"),
    ("search_path", "pg_catalog"),
];

/// Why a connection is given up.
enum Over {
    /// Nobody listens any more.
    Idle,
    /// Its server is no longer the primary, or not the one that it was.
    Moved,
    Broken(String),
}

impl From<TalkError> for Over {
    fn from(error: TalkError) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Keeps the hub's channels listened to, for as long as the process runs.
pub(super) async fn run(hub: Arc<Hub>, backends: Arc<Backends>) {
    let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LAST);
    loop {
        while !hub.is_wanted() {
            hub.changed().await;
        }
        match open(&hub, &backends).await {
            Ok(mut listening) => {
                let since = Instant::now();
                let over = listening.serve(&hub, &backends).await;
                let database = hub.database();
                let backend = listening.backend.name();
                match over {
                    Over::Idle => tracing::debug!(database, backend, "nobody listens any more"),
                    Over::Moved => tracing::info!(database, backend, "listening moves on"),
                    Over::Broken(ref why) => {
                        tracing::warn!(database, backend, why, "a listening connection is lost");
                        listening.backend.suspect();
                    }
                }
                drop(listening);
                // Who has come since the last look at it is heard by the next connection.
                hub.lost();
                if since.elapsed() >= LASTED {
                    backoff.reset();
                }
                if matches!(over, Over::Idle | Over::Moved) {
                    continue;
                }
            }
            Err(error) => {
                let is_final = error.is_of_this_login();
                tracing::warn!(database = hub.database(), %error, "no connection to listen on");
                if is_final {
                    hub.refuse_all(&error.to_string().into());
                }
                hub.lost();
            }
        }
        backoff.wait().await;
    }
}

/// A connection that listens.
struct ListenConnection {
    talk: Conversation<Socket>,
    backend: Arc<Backend>,
    /// Of the backend when it was opened.
    epoch: u64,
    /// When the server was heard last.
    heard: Instant,
}

async fn open(hub: &Hub, backends: &Backends) -> Result<ListenConnection, OwnError> {
    let backend = backends.primary_within(PRIMARY_WAIT).await?;
    let epoch = backend.epoch();
    let dialled = backend.dial_own(hub.database(), &PARAMETERS).await?;
    let talk = Conversation::new(dialled.socket, dialled.rest);
    Ok(ListenConnection { talk, backend, epoch, heard: Instant::now() })
}

impl ListenConnection {
    async fn serve(&mut self, hub: &Hub, backends: &Backends) -> Over {
        match self.listen(hub, backends).await {
            Ok(over) | Err(over) => over,
        }
    }

    async fn listen(&mut self, hub: &Hub, backends: &Backends) -> Result<Over, Over> {
        let mut changes = backends.changes();
        let mut wanted = Instant::now();
        loop {
            loop {
                let batch = hub.batch(BATCH_MAX);
                if batch.is_empty() {
                    break;
                }
                self.tell(hub, &batch).await?;
            }
            tell_of_gap(hub);
            if hub.is_wanted() {
                wanted = Instant::now();
            } else if wanted.elapsed() >= LINGER {
                return Ok(Over::Idle);
            }
            // What it was may have changed before it was looked at for the first time.
            if self.backend.epoch() != self.epoch {
                return Ok(Over::Moved);
            }
            if backends.primary().is_ok_and(|now| now.number() != self.backend.number()) {
                return Ok(Over::Moved);
            }
            let silence = SILENCE.saturating_sub(self.heard.elapsed());
            tokio::select! {
                frame = self.talk.next() => {
                    let frame = frame?;
                    self.heard = Instant::now();
                    aside(hub, frame.tag, frame.body, frame.whole)?;
                }
                () = hub.changed() => {}
                _ = changes.changed() => {}
                () = sleep(silence) => {
                    self.ask(hub, "").await?;
                }
            }
        }
    }

    /// Tells the server what to listen to. Where it refuses, channel by channel.
    async fn tell(&mut self, hub: &Hub, batch: &[(Arc<str>, Verb)]) -> Result<(), Over> {
        let refused = self.ask(hub, &statements(batch)).await?;
        let Some(error) = refused else {
            hub.confirm(batch);
            return Ok(());
        };
        // A server in recovery takes no LISTEN: this is not the primary.
        if error.code.starts_with("25") {
            return Err(Over::Broken(error.to_string()));
        }
        if let [(name, verb)] = batch {
            tracing::warn!(database = hub.database(), channel = &**name, %error, "no LISTEN");
            match verb {
                Verb::Listen => hub.refuse(name, &error.to_string().into()),
                Verb::Unlisten => hub.confirm(batch),
            }
            return Ok(());
        }
        for one in batch {
            Box::pin(self.tell(hub, std::slice::from_ref(one))).await?;
        }
        Ok(())
    }

    /// Asks the server and waits for the end of its answer; its error, if that was one.
    async fn ask(&mut self, hub: &Hub, sql: &str) -> Result<Option<ServerError>, Over> {
        let mut question = Vec::new();
        frontend::put_query(&mut question, sql.as_bytes());
        let answer = async {
            self.talk.say(&question).await?;
            let mut refused = None;
            loop {
                let frame = self.talk.next().await?;
                match frame.tag {
                    tag::READY_FOR_QUERY => return Ok(refused),
                    tag::ERROR_RESPONSE => {
                        let fields = Fields::read(frame.body).map_err(TalkError::from)?;
                        if fields.is_fatal() {
                            return Err(Over::Broken(ServerError::new(&fields).to_string()));
                        }
                        refused = Some(ServerError::new(&fields));
                    }
                    tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE => {}
                    tag => aside(hub, tag, frame.body, frame.whole)?,
                }
            }
        };
        let answer = timeout(ANSWER, answer).await;
        self.heard = Instant::now();
        answer.unwrap_or_else(|_| {
            Err(Over::Broken(format!("no answer within {ANSWER:?}; does the server hang?")))
        })
    }
}

/// `LISTEN` and `UNLISTEN` of a batch. As one text they are one transaction.
fn statements(batch: &[(Arc<str>, Verb)]) -> String {
    let mut sql = String::new();
    for (name, verb) in batch {
        sql.push_str(match verb {
            Verb::Listen => "LISTEN \"",
            Verb::Unlisten => "UNLISTEN \"",
        });
        sql.push_str(&name.replace('"', "\"\""));
        sql.push_str("\";");
    }
    sql
}

/// What comes without being asked for.
fn aside(hub: &Hub, tag: u8, body: &[u8], whole: &[u8]) -> Result<(), Over> {
    match tag {
        tag::NOTIFICATION_RESPONSE => {
            let notification = Notification::read(body).map_err(TalkError::from)?;
            if let Ok(channel) = std::str::from_utf8(notification.channel) {
                hub.deliver(channel, &whole.into());
            }
            Ok(())
        }
        tag::NOTICE_RESPONSE | tag::PARAMETER_STATUS => Ok(()),
        tag::ERROR_RESPONSE => {
            let fields = Fields::read(body).map_err(TalkError::from)?;
            Err(Over::Broken(ServerError::new(&fields).to_string()))
        }
        other => Err(TalkError::Unexpected(other).into()),
    }
}

/// Tells those who have missed something. With a server connection of their own they would have
/// seen it break.
fn tell_of_gap(hub: &Hub) {
    let Some(gap) = hub.restored() else { return };
    let seconds = gap.lasted.as_secs_f64();
    tracing::warn!(
        database = hub.database(),
        seconds,
        clients = gap.missed_by.len(),
        "listening again: what was notified meanwhile is lost"
    );
    let what = format!(
        "the connection that listens for this client was lost: notifications of the last \
         {seconds:.1} s did not come"
    );
    let mut notice = Vec::new();
    Refusal::error(GAP, what).encode_as_warning(&mut notice);
    let notice: Arc<[u8]> = notice.into();
    gap.missed_by.values().for_each(|mailbox| hub.put(mailbox, &notice));
}

/// SQLSTATE `01000`, the class of warnings.
const GAP: &str = "01000";
