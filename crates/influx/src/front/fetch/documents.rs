//! The answer of a member as the documents that it comes in, a line each (`chunked=true`).

use std::collections::BTreeMap;
use std::future::poll_fn;

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::Value;

use crate::client::AnswerLines;
use crate::front::answer::{Answer, Content};
use crate::front::passed::Passed;

/// The longest document that is read: some thousand rows.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// A part of an answer: of one statement, or of several.
#[derive(Debug, Default, Deserialize)]
pub struct Document {
    /// What it has of each statement.
    #[serde(default)]
    pub results: Vec<ResultPart>,
    /// Why there is no answer.
    pub error: Option<String>,
}

/// What a document has of a statement.
#[derive(Debug, Deserialize)]
pub struct ResultPart {
    /// The place of the statement in the text.
    #[serde(default)]
    pub statement_id: usize,
    /// The series, or parts of them.
    #[serde(default)]
    pub series: Vec<SeriesPart>,
    /// Why there is no result.
    pub error: Option<String>,
    /// Whether a later document has more of it.
    #[serde(default)]
    pub partial: bool,
}

/// Rows of one series.
#[derive(Debug, Deserialize)]
pub struct SeriesPart {
    /// The measurement's name; empty in answers that are of none.
    #[serde(default)]
    pub name: String,
    /// All tags that are grouped by; empty where the series has none of the key.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The names of the columns, the time's first.
    #[serde(default)]
    pub columns: Vec<String>,
    /// A row each, as long as the columns.
    #[serde(default)]
    pub values: Vec<Vec<Value>>,
}

/// An answer on its way.
pub struct Documents {
    body: Option<Box<Passed>>,
    lines: AnswerLines,
    /// Whether the last result that came was to have more.
    is_partial: bool,
}

impl Documents {
    /// The documents of an answer.
    pub fn of(answer: Answer) -> Self {
        let (body, lines) = match answer.into_body() {
            Content::Passed(passed) => (Some(passed), AnswerLines::default()),
            Content::Full(bytes) => (None, AnswerLines::of(&bytes)),
            Content::Empty | Content::Streamed(_) => (None, AnswerLines::default()),
        };
        Self { body, lines, is_partial: false }
    }

    #[cfg(test)]
    pub fn of_text(text: &str) -> Self {
        Self { body: None, lines: AnswerLines::of(text.as_bytes()), is_partial: false }
    }

    /// Waits until the first document is here: until then another member can be asked instead.
    ///
    /// # Errors
    /// That the answer broke off.
    pub async fn begin(&mut self) -> Result<(), String> {
        let first = self.line().await?;
        let Some(first) = first else { return Err("it answered nothing".to_owned()) };
        self.lines.put_back(first);
        Ok(())
    }

    /// The results of the next document; `None` at the end.
    ///
    /// # Errors
    /// The member's own words; that the answer is not whole, or can't be read.
    pub async fn next(&mut self) -> Result<Option<Vec<ResultPart>>, String> {
        let Some(line) = self.line().await? else {
            return match self.is_partial {
                true => Err("the answer of a set broke off".to_owned()),
                false => Ok(None),
            };
        };
        let document: Document = serde_json::from_slice(&line)
            .map_err(|error| format!("the answer of a set cannot be read: {error}"))?;
        if let Some(error) = document.error {
            return Err(error);
        }
        if let Some(error) = document.results.iter().find_map(|result| result.error.clone()) {
            return Err(error);
        }
        if let Some(last) = document.results.last() {
            self.is_partial = last.partial;
        }
        Ok(Some(document.results))
    }

    /// The next line that is not empty.
    async fn line(&mut self) -> Result<Option<BytesMut>, String> {
        loop {
            if let Some(line) = self.lines.take_line() {
                return Ok(Some(line));
            }
            if self.lines.bytes() > DOCUMENT_BYTES_MAX {
                let most = DOCUMENT_BYTES_MAX >> 20;
                return Err(format!("the rows of a set are longer than {most} MiB together"));
            }
            let frame = match &mut self.body {
                Some(body) => poll_fn(|cx| body.poll_frame(cx)).await,
                None => None,
            };
            match frame {
                Some(Ok(frame)) => {
                    self.lines.push(&frame.into_data().unwrap_or_default());
                }
                Some(Err(error)) => return Err(format!("the answer of a set broke off: {error}")),
                None => {
                    self.body = None;
                    return Ok(self.lines.take_rest());
                }
            }
        }
    }
}
