//! The server of a member, asked by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::Value;
use wire::influxql::quote_identifier;

use super::super::member::{DATABASE, MemberAnswer, MemberTable};
use super::super::read::WrittenTable;
use super::failure::ClusterError;
use super::plan::FoundMember;
use crate::catalogue::{Listing, list_databases};
use crate::client::answer::{Answer, Missing};
use crate::client::{Client, ClientError};
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

/// The server of a member.
pub struct MemberServer {
    name: String,
    user: String,
    client: Client,
}

impl MemberServer {
    /// A server that nobody has connected to yet.
    ///
    /// # Errors
    /// When its password or certificate files cannot be read.
    pub fn new(settings: &ServerSettings) -> Result<Self, ClientError> {
        let client = Client::new(settings, None)?;
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
        let answer = self.client.ask(&[("q", text), ("epoch", "ns")], TIMEOUT).await;
        let answer = answer.map_err(|error| self.failed(error.to_string()))?;
        if let Some(words) = answer.refused() {
            return Err(self.failed(words));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| self.failed(format!("status {}, and no JSON", answer.status)))
    }

    /// Its table, and whether it has points of clients.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn found(&self) -> Result<FoundMember, ClusterError> {
        let answer = MemberAnswer::ask(&self.client, TIMEOUT).await;
        let answer = answer.map_err(|error| self.failed(error.to_string()))?;
        let mut has_points = false;
        for db in self.databases().await?.databases.keys() {
            let text = format!("SHOW MEASUREMENTS ON {} LIMIT 1", quote_identifier(db));
            has_points |= self.ask(&text).await?.pointer("/results/0/series/0").is_some();
        }
        Ok(FoundMember { answer, has_points })
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

    /// Puts a table there, and makes its database where there is none.
    ///
    /// # Errors
    /// When it does not take it; where it may not make the database, with what to grant.
    pub async fn put(&self, table: &MemberTable) -> Result<(), ClusterError> {
        let line = Bytes::from(table.line());
        let answer = self.write(line.clone()).await?;
        let answer = match answer {
            Answer::Missing(Missing::Database, _) => {
                let create = format!("CREATE DATABASE {DATABASE}");
                self.ask(&create).await.map_err(|error| self.needs_database(&error))?;
                self.write(line).await?
            }
            answer => answer,
        };
        match answer {
            Answer::Delivered => Ok(()),
            answer => Err(self.failed(format!("it does not take the table: {answer:?}"))),
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
