//! The table as it stands on a member, in a database of its own, so that every gateway finds out
//! whether it has the same one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::disk_number::DiskNumber;
use super::note::{MemberNotes, read_note};
use super::read::WrittenTable;
use crate::client::{Client, TransportError};

/// The database that the table stands in.
pub const DATABASE: &str = "_weir";
/// The statement that reads a member's table, and the notes of all gateways on it.
pub const QUERY: &str = "SELECT \"table\", \"note\" FROM \"_weir\"..\"placement\", \
                         \"_weir\"..\"note\" GROUP BY \"gateway\"";

/// What stands on a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberTable {
    /// The name of the member that this server is.
    pub member: String,
    /// How many of the periods are complete: points of theirs are taken, and they stay for ever.
    pub complete: usize,
    /// The disk of each member, as far as is known here.
    pub disks: BTreeMap<String, DiskNumber>,
    /// Whether this member is being filled from another one of its set, and not in force meanwhile.
    #[serde(default)]
    pub rebuilding: bool,
    #[serde(flatten)]
    pub written: WrittenTable,
}

/// What may be done with a member whose table is that of its gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It is given points and asked.
    InForce,
    /// It is being filled from another member of its set: it is given notes and nothing else.
    Rebuilding,
}

/// What a server says when it is asked for its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAnswer {
    /// Its table, and what gateways have noted there.
    Table(Box<MemberTable>, MemberNotes),
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
        let (mut table, mut notes) = (None, MemberNotes::new());
        for series in result.get("series").and_then(Value::as_array).into_iter().flatten() {
            if series.get("name").and_then(Value::as_str) == Some("placement") {
                table = series.pointer("/values/0/1").and_then(Value::as_str);
            } else {
                notes.extend(read_note(series));
            }
        }
        let Some(text) = table else { return Self::Nothing };
        match serde_json::from_str(text) {
            Ok(table) => Self::Table(Box::new(table), notes),
            Err(_) => Self::Error("its table is of a later version of Weir, or damaged".to_owned()),
        }
    }
}

/// The notes on each member that has a table.
pub fn notes_of<'a>(
    answers: impl IntoIterator<Item = (&'a String, &'a MemberAnswer)>,
) -> BTreeMap<String, MemberNotes> {
    let notes = answers.into_iter().filter_map(|(name, answer)| match answer {
        MemberAnswer::Table(_, notes) => Some((name.clone(), notes.clone())),
        MemberAnswer::Nothing | MemberAnswer::Error(_) => None,
    });
    notes.collect()
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
