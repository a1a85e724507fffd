//! The table as it stands on a member, in a database of its own, so that every gateway finds out
//! whether it has the same one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read::WrittenTable;
use crate::client::{Client, TransportError};

/// The database that the table stands in.
pub const DATABASE: &str = "_weir";
/// The statement that reads the table of a member.
pub const QUERY: &str = "SELECT \"table\" FROM \"_weir\"..\"placement\"";

/// What stands on a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberTable {
    /// The name of the member that this server is.
    pub member: String,
    /// How many of the periods are complete: points of theirs are taken, and they stay for ever.
    pub complete: usize,
    /// The disk of each member, as far as is known here.
    pub disks: BTreeMap<String, DiskNumber>,
    #[serde(flatten)]
    pub written: WrittenTable,
}

/// Tells a member's disk from those that it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DiskNumber {
    /// How many disks the member had, with this one.
    pub count: u64,
    /// Drawn when the member was given its first table.
    pub number: u64,
}

/// What a server says when it is asked for its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAnswer {
    Table(Box<MemberTable>),
    /// It has no table, nor its database.
    Nothing,
    /// It says something else, in these words.
    Error(String),
}

impl MemberAnswer {
    /// What a server answers that is asked for its table.
    ///
    /// # Errors
    /// When there is no answer within `timeout`.
    pub async fn ask(client: &Client, timeout: Duration) -> Result<Self, TransportError> {
        let answer = client.ask(&[("q", QUERY)], timeout).await?;
        Ok(Self::read(answer.status, &answer.body))
    }

    /// What the answer to [`QUERY`] says, with its status.
    pub fn read(status: u16, body: &[u8]) -> Self {
        let Ok(answer) = serde_json::from_slice::<Value>(body) else {
            return Self::Error(format!("status {status}, and no JSON in answer to a query"));
        };
        let result = answer.pointer("/results/0");
        let error = answer.get("error").or_else(|| result?.get("error")).and_then(Value::as_str);
        match error {
            Some(words) if words.starts_with("database not found") => return Self::Nothing,
            Some(words) => return Self::Error(words.to_owned()),
            None => {}
        }
        let Some(result) = result else {
            return Self::Error(format!("status {status}, and no result in answer to a query"));
        };
        let Some(text) = result.pointer("/series/0/values/0/1").and_then(Value::as_str) else {
            return Self::Nothing;
        };
        match serde_json::from_str(text) {
            Ok(table) => Self::Table(Box::new(table)),
            Err(_) => Self::Error("its table is of a later version of Weir, or damaged".to_owned()),
        }
    }
}

impl MemberTable {
    /// The line that puts it there, in the place of the one before.
    pub fn line(&self) -> Vec<u8> {
        // Strings and numbers can always be written.
        let text = serde_json::to_string(self).unwrap_or_default();
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("placement table=\"{text}\" 0\n").into_bytes()
    }

    /// The disk that this server has.
    pub fn disk(&self) -> Option<DiskNumber> {
        self.disks.get(&self.member).copied()
    }
}
