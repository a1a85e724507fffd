//! The server of a member, asked by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use http::HeaderMap;
use serde_json::Value;
use wire::influxql::quote_identifier;

use super::super::member::{DATABASE, MemberAnswer, MemberTable};
use super::super::note::{GatewayId, GatewayState, MemberNotes, Note};
use super::super::read::WrittenTable;
use super::failure::ClusterError;
use super::plan::FoundMember;
use super::stream::RowStream;
use crate::catalogue::{Listing, list_databases};
use crate::client::answer::{Answer, Missing};
use crate::client::{Client, ClientError, form_body};
use crate::settings::{BackendSettings, ServerSettings};

/// How long a question about a member may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The servers of a table's members.
///
/// # Errors
/// When a password or certificate file cannot be read.
pub fn servers(
    written: &WrittenTable,
    backends: &[BackendSettings],
) -> Result<Vec<MemberServer>, ClientError> {
    let server = |name: &String| {
        backends.iter().find(|backend| backend.name() == name)?.server().map(MemberServer::new)
    };
    written.members().filter_map(server).collect()
}

/// What each of these servers says that is asked for its table; they are asked at once.
pub async fn answers(
    servers: &[MemberServer],
    timeout: Duration,
) -> BTreeMap<String, MemberAnswer> {
    let asked = servers.iter().map(|server| async move {
        let answer = MemberAnswer::ask(&server.client, timeout).await;
        let answer = answer.unwrap_or_else(|error| MemberAnswer::Error(error.to_string()));
        (server.name.clone(), answer)
    });
    join_all(asked).await.into_iter().collect()
}

/// How long a server is given points that it does not take, and the pause between two tries.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
const WRITE_PAUSE: Duration = Duration::from_millis(500);

/// The server of a member.
#[derive(Clone)]
pub struct MemberServer {
    name: String,
    user: String,
    client: Arc<Client>,
}

impl MemberServer {
    /// A server that nobody has connected to yet.
    ///
    /// # Errors
    /// When its password or certificate files cannot be read.
    pub fn new(settings: &ServerSettings) -> Result<Self, ClientError> {
        let client = Arc::new(Client::new(settings, None)?);
        Ok(Self { name: settings.delivery.name.clone(), user: settings.user.clone(), client })
    }

    /// The name of the member.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// That something of it failed, in these words.
    pub fn failed(&self, words: impl Into<String>) -> ClusterError {
        ClusterError::Member { name: self.name.clone(), words: words.into() }
    }

    /// What it answers to a statement.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub async fn ask(&self, text: &str) -> Result<Value, ClusterError> {
        self.ask_in("", text).await
    }

    /// What it answers to a statement about a database.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub async fn ask_in(&self, db: &str, text: &str) -> Result<Value, ClusterError> {
        let form = [("q", text), ("epoch", "ns"), ("db", db)];
        let answer = self.client.ask(&form, TIMEOUT).await;
        let answer = answer.map_err(|error| self.failed(error.to_string()))?;
        if let Some(words) = answer.refused() {
            return Err(self.failed(words));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| self.failed(format!("status {}, and no JSON", answer.status)))
    }

    /// The rows that it answers to a query, as they come.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn rows(&self, text: &str) -> Result<RowStream, ClusterError> {
        let form = [("q", text), ("epoch", "ns"), ("chunked", "true"), ("chunk_size", "5000")];
        let answer = self.client.query(form_body(form.into_iter()), &HeaderMap::new()).await;
        let answer = answer.map_err(|error| self.failed(error.to_string()))?;
        Ok(RowStream::new(&self.name, answer.into_body()))
    }

    /// Gives it points, again and again while it is busy or fails. What its policy has dropped by
    /// now is not missed.
    ///
    /// # Errors
    /// When it refuses them, or does not take them for a minute.
    pub async fn give(&self, db: &str, policy: &str, lines: Bytes) -> Result<(), ClusterError> {
        let begun = Instant::now();
        loop {
            let (words, pause) = match self.client.write(db, policy, lines.clone()).await {
                Ok(Answer::Delivered) => return Ok(()),
                Ok(Answer::Refused(refusal)) if is_beyond_policy(&refusal.words) => return Ok(()),
                Ok(Answer::Busy(words, pause)) => (words, pause),
                Ok(Answer::Overloaded(words) | Answer::Failed(words)) => (words, None),
                Ok(answer) => {
                    return Err(self.failed(format!("it does not take points: {answer:?}")));
                }
                Err(error) => (error.to_string(), None),
            };
            if begun.elapsed() > WRITE_PATIENCE {
                return Err(self.failed(words));
            }
            tokio::time::sleep(pause.unwrap_or(WRITE_PAUSE).min(WRITE_PATIENCE)).await;
        }
    }

    /// Its table and the notes there.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn answer(&self) -> Result<MemberAnswer, ClusterError> {
        let answer = MemberAnswer::ask(&self.client, TIMEOUT).await;
        answer.map_err(|error| self.failed(error.to_string()))
    }

    /// Its table, and whether it has points of clients.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn found(&self) -> Result<FoundMember, ClusterError> {
        let answer = self.answer().await?;
        Ok(FoundMember { answer, has_points: self.has_points().await? })
    }

    /// Whether it has points of clients.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn has_points(&self) -> Result<bool, ClusterError> {
        for db in self.databases().await?.databases.keys() {
            let text = format!("SHOW MEASUREMENTS ON {} LIMIT 1", quote_identifier(db));
            if self.ask(&text).await?.pointer("/results/0/series/0").is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The measurements of each of these databases.
    ///
    /// # Errors
    /// When it does not list them.
    pub async fn measurements(
        &self,
        listing: &Listing,
    ) -> Result<BTreeMap<String, Vec<String>>, ClusterError> {
        let mut measurements = BTreeMap::new();
        for db in listing.databases.keys() {
            let text = format!("SHOW MEASUREMENTS ON {}", quote_identifier(db));
            measurements.insert(db.clone(), first_column(&self.ask(&text).await?));
        }
        Ok(measurements)
    }

    /// The names of its users.
    ///
    /// # Errors
    /// When it does not list them.
    pub async fn users(&self) -> Result<BTreeSet<String>, ClusterError> {
        Ok(first_column(&self.ask("SHOW USERS").await?).into_iter().collect())
    }

    /// The databases that clients have made, with their policies.
    ///
    /// # Errors
    /// When it does not list them.
    pub async fn databases(&self) -> Result<Listing, ClusterError> {
        let listing = list_databases(&self.client, TIMEOUT).await;
        let mut listing = listing.map_err(|words| self.failed(words))?;
        listing.databases.retain(|name, _| name != DATABASE && name != "_internal");
        Ok(listing)
    }

    /// A database and policy with a point at or past a time.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn point_past(&self, from_ns: i64) -> Result<Option<String>, ClusterError> {
        for (db, policies) in &self.databases().await?.databases {
            for policy in policies.policies.keys() {
                let place = format!("{}.{}", quote_identifier(db), quote_identifier(policy));
                let text =
                    format!("SELECT * FROM {place}./.*/ WHERE time >= {from_ns} LIMIT 1 SLIMIT 1");
                if self.ask(&text).await?.pointer("/results/0/series/0").is_some() {
                    return Ok(Some(place));
                }
            }
        }
        Ok(None)
    }

    /// Makes the databases and policies that it lacks.
    ///
    /// # Errors
    /// When it refuses.
    pub async fn create(&self, all: &Listing) -> Result<(), ClusterError> {
        let own = self.databases().await?;
        for db in all.databases.keys().filter(|db| !own.databases.contains_key(*db)) {
            for statement in all.creation(db, "") {
                self.ask(&statement).await?;
            }
        }
        Ok(())
    }

    /// Has its databases and policies be those of others, whatever it has of them; those that the
    /// others lack stay.
    ///
    /// # Errors
    /// When it refuses.
    pub async fn create_alike(&self, all: &Listing) -> Result<(), ClusterError> {
        for statement in self.databases().await?.changes_to(all) {
            self.ask(&statement).await?;
        }
        Ok(())
    }

    /// Puts a table there.
    ///
    /// # Errors
    /// When it does not take it.
    pub async fn put(&self, table: &MemberTable) -> Result<(), ClusterError> {
        self.keep(table.line()).await
    }

    /// Puts a gateway's note there, in the place of the one before.
    ///
    /// # Errors
    /// When it does not take it.
    pub async fn note(&self, gateway: &GatewayId, note: &Note) -> Result<(), ClusterError> {
        self.keep(note.line(gateway)).await
    }

    /// Puts the notes there by which gateways that were forgotten find that out when they return.
    ///
    /// # Errors
    /// When it does not take them.
    pub async fn note_forgotten(
        &self,
        notes: &BTreeMap<String, MemberNotes>,
    ) -> Result<(), ClusterError> {
        for (gateway, note) in notes.values().flatten() {
            if note.progress.state == GatewayState::Forgotten {
                self.note(gateway, note).await?;
            }
        }
        Ok(())
    }

    /// Puts a line into the database of the table, and makes that where there is none.
    ///
    /// # Errors
    /// When it does not take it; where it may not make the database, with what to grant.
    pub async fn keep(&self, line: Vec<u8>) -> Result<(), ClusterError> {
        let line = Bytes::from(line);
        let answer = match self.write(line.clone()).await? {
            Answer::Missing(Missing::Database, _) => {
                let create = format!("CREATE DATABASE {DATABASE}");
                self.ask(&create).await.map_err(|error| self.needs_database(&error))?;
                self.write(line).await?
            }
            answer => answer,
        };
        match answer {
            Answer::Delivered => Ok(()),
            answer => Err(self.failed(format!("it does not keep what it is told: {answer:?}"))),
        }
    }

    async fn write(&self, line: Bytes) -> Result<Answer, ClusterError> {
        let answer = self.client.write(DATABASE, "", line).await;
        answer.map_err(|error| self.failed(error.to_string()))
    }

    fn needs_database(&self, error: &ClusterError) -> ClusterError {
        let ClusterError::Member { words, .. } = error else {
            return self.failed(error.to_string());
        };
        let user = quote_identifier(&self.user);
        self.failed(format!(
            "{words}; as an administrator there: CREATE DATABASE {DATABASE}; \
             GRANT ALL ON {DATABASE} TO {user}"
        ))
    }
}

/// Whether points are refused since their policy would have dropped them by now.
fn is_beyond_policy(words: &str) -> bool {
    words.contains("points beyond retention policy")
}

/// The names in the first column of a statement's first table.
fn first_column(answer: &Value) -> Vec<String> {
    let rows = answer.pointer("/results/0/series/0/values").and_then(Value::as_array);
    let names = rows.into_iter().flatten().filter_map(|row| row.get(0)?.as_str());
    names.map(str::to_owned).collect()
}
