//! Something that happened, as an operator is told.

use serde::{Deserialize, Serialize};

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Clients notice, or points are lost.
    Bad,
    /// It needs somebody soon.
    Warn,
    /// It was done as wanted.
    Info,
    /// Something is well again.
    Good,
}

/// What has changed, without its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// How much it matters.
    pub level: Level,
    /// What it is about, as `backend b`: changes of one subject are counted together.
    pub subject: String,
    /// What happened, in words.
    pub text: String,
    /// The command to type, for a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Change {
    /// A change without a remedy.
    pub fn new(level: Level, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { level, subject: subject.into(), text: text.into(), remedy: None }
    }

    /// The same with what to type; an empty command is none.
    #[must_use]
    pub fn remedy(self, command: impl Into<String>) -> Self {
        Self { remedy: Some(command.into()).filter(|of| !of.is_empty()), ..self }
    }
}

/// A change, and when it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, which grows by one with each event, over restarts too.
    pub number: u64,
    /// When it was, in seconds since 1970.
    pub at: f64,
    /// What has changed by it.
    #[serde(flatten)]
    pub change: Change,
}
