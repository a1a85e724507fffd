//! One dead letter: a point with what its backend said about it, and how it is written down.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

/// Which point a letter holds. Shown and read as `position:index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// The journal's position of the point's record.
    pub position: u64,
    /// The point's place within the record, from 0.
    pub index: u32,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.position, self.index)
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError { text: text.to_owned() };
        let (position, index) = text.split_once(':').ok_or_else(wrong)?;
        let position = position.parse().map_err(|_| wrong())?;
        Ok(Self { position, index: index.parse().map_err(|_| wrong())? })
    }
}

/// A text that is not a letter's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a dead letter's id; write it as `weir dead-letters list` shows it: 4096:0"
)]
pub struct IdError {
    text: String,
}

/// A point with what the backend said about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "LetterLine", try_from = "LetterLine")]
pub struct Letter {
    /// Which point it is.
    pub id: Id,
    /// When it was found, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The database it was to be written to.
    pub db: String,
    /// The retention policy; empty is the backend's default.
    pub rp: String,
    /// The backend's own words.
    pub reason: String,
    /// The point as a line in nanoseconds, without its newline.
    pub line: Vec<u8>,
}

/// A letter as its line in the file.
#[derive(Serialize, Deserialize)]
struct LetterLine {
    position: u64,
    index: u32,
    time_ns: u64,
    db: String,
    #[serde(default)]
    rp: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// Instead of `line` where that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_base64: Option<String>,
}

impl From<Letter> for LetterLine {
    fn from(letter: Letter) -> Self {
        let (line, line_base64) = match String::from_utf8(letter.line) {
            Ok(line) => (Some(line), None),
            Err(error) => (None, Some(BASE64.encode(error.as_bytes()))),
        };
        let Id { position, index } = letter.id;
        let Letter { time_ns, db, rp, reason, .. } = Letter { line: Vec::new(), ..letter };
        Self { position, index, time_ns, db, rp, reason, line, line_base64 }
    }
}

impl TryFrom<LetterLine> for Letter {
    type Error = &'static str;

    fn try_from(written: LetterLine) -> Result<Self, &'static str> {
        let line = match (written.line, written.line_base64) {
            (Some(line), _) => line.into_bytes(),
            (None, Some(text)) => BASE64.decode(text).map_err(|_| "line_base64 is not base64")?,
            (None, None) => return Err("neither line nor line_base64"),
        };
        let id = Id { position: written.position, index: written.index };
        let LetterLine { time_ns, db, rp, reason, .. } =
            LetterLine { line: None, line_base64: None, ..written };
        Ok(Self { id, time_ns, db, rp, reason, line })
    }
}
