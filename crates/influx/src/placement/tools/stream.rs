//! The rows of a chunked answer, a table at a time.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;

use super::failure::ClusterError;
use super::rows::RowTable;
use crate::client::AnswerLines;

/// How long a server may take for the next bytes of its answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest piece of an answer: 5,000 rows.
const PIECE_BYTES_MAX: usize = 256 << 20;

/// An answer that is read as it comes.
pub struct RowStream {
    member: String,
    body: Incoming,
    lines: AnswerLines,
    tables: VecDeque<RowTable>,
}

/// A piece of an answer, which has a line of its own.
#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    results: Vec<PieceResult>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct PieceResult {
    #[serde(default)]
    series: Vec<RowTable>,
    error: Option<String>,
}

impl RowStream {
    /// Of the answer of a member.
    pub fn new(member: &str, body: Incoming) -> Self {
        let (lines, tables) = (AnswerLines::default(), VecDeque::new());
        Self { member: member.to_owned(), body, lines, tables }
    }

    /// The next table; `None` behind the last one.
    ///
    /// # Errors
    /// When the answer breaks off, is none, or says that something failed.
    pub async fn next(&mut self) -> Result<Option<RowTable>, ClusterError> {
        loop {
            if let Some(table) = self.tables.pop_front() {
                return Ok(Some(table));
            }
            let Some(line) = self.line().await? else { return Ok(None) };
            let piece: Piece =
                serde_json::from_slice(&line).map_err(|_| self.failed("its answer is not JSON"))?;
            let failed = piece.results.iter().find_map(|result| result.error.clone());
            if let Some(words) = piece.error.or(failed) {
                return Err(self.failed(words));
            }
            self.tables.extend(piece.results.into_iter().flat_map(|result| result.series));
        }
    }

    /// The next line that is not empty.
    async fn line(&mut self) -> Result<Option<BytesMut>, ClusterError> {
        loop {
            if let Some(line) = self.lines.take_line() {
                return Ok(Some(line));
            }
            if self.lines.bytes() > PIECE_BYTES_MAX {
                return Err(self.failed("5,000 rows of its answer are more than 256 MiB"));
            }
            let Ok(frame) = tokio::time::timeout(PATIENCE, self.body.frame()).await else {
                return Err(self.failed(format!("its answer stands still for {PATIENCE:?}")));
            };
            match frame {
                Some(Ok(frame)) => {
                    self.lines.push(&frame.into_data().unwrap_or_default());
                }
                Some(Err(error)) => {
                    return Err(self.failed(format!("its answer breaks off: {error}")));
                }
                None => return Ok(self.lines.take_rest()),
            }
        }
    }

    fn failed(&self, words: impl Into<String>) -> ClusterError {
        ClusterError::Member { name: self.member.clone(), words: words.into() }
    }
}
