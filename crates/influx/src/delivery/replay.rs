//! Sending dead letters to their backend once more, after whatever made it refuse them was set
//! right.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::dead_letters::{self, LetterError, Selection};
use super::halving::{Halving, Outcome, Step};
use super::letter::{Id, Letter};
use crate::client::answer::Answer;
use crate::client::{Client, ClientError, Greeting, TransportError};
use crate::settings::ServerSettings;

/// What came of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Letters the backend has stored; they are removed.
    pub delivered: u64,
    /// Letters the backend refused again; they stay.
    pub refused: u64,
}

/// Why a replay ended early. What was delivered until then is removed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The letters cannot be read or rewritten.
    #[error(transparent)]
    Letters(#[from] LetterError),
    /// The backend's settings cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The backend did not answer.
    #[error("backend {backend}: {source}; {done} letters were delivered before that")]
    Broken {
        /// The backend's name in the configuration.
        backend: String,
        /// Why there was no answer.
        source: TransportError,
        /// Letters delivered before it failed.
        done: usize,
    },
    /// The backend did not take the letters, for a reason that lies in itself.
    #[error("backend {backend}: {words}; {done} letters were delivered before that")]
    Answer {
        /// The backend's name in the configuration.
        backend: String,
        /// Why not, in the backend's words.
        words: String,
        /// Letters delivered before it failed.
        done: usize,
    },
}

/// Sends the letters meant by `selection` to `backend` and removes those that it stores. May run
/// while Weir does. A letter holds an old point: it overwrites a newer one of the same identity.
/// Each connection begins with `greeting`, where there is one.
///
/// # Errors
/// When there are no letters, or the backend does not answer as it should.
pub async fn replay(
    dir: &Path,
    backend: &ServerSettings,
    greeting: Option<Arc<dyn Greeting>>,
    selection: &Selection,
) -> Result<Replayed, ReplayError> {
    let mut replay = Replay {
        client: Client::new(backend, greeting)?,
        backend,
        delivered: HashSet::new(),
        refused: 0,
    };
    let result = replay.all(dir, selection).await;
    let delivered = replay.delivered.len() as u64;
    if delivered > 0 {
        dead_letters::drop(dir, &backend.delivery.name, &Selection::These(replay.delivered))?;
    }
    result.map(|()| Replayed { delivered, refused: replay.refused })
}

struct Replay<'a> {
    client: Client,
    backend: &'a ServerSettings,
    delivered: HashSet<Id>,
    refused: u64,
}

impl Replay<'_> {
    async fn all(&mut self, dir: &Path, selection: &Selection) -> Result<(), ReplayError> {
        let (mut batch, mut bytes) = (Vec::<Letter>::new(), 0);
        for letter in dead_letters::read(dir, &self.backend.delivery.name)? {
            let letter = letter?;
            if !selection.holds(letter.id) {
                continue;
            }
            let fits = batch.len() < self.backend.batch_points as usize
                && bytes + letter.line.len() < self.backend.batch_bytes;
            let same =
                batch.first().is_none_or(|first| first.db == letter.db && first.rp == letter.rp);
            if !(batch.is_empty() || fits && same) {
                self.batch(&batch).await?;
                batch.clear();
                bytes = 0;
            }
            bytes += letter.line.len() + 1;
            batch.push(letter);
        }
        self.batch(&batch).await
    }

    async fn batch(&mut self, batch: &[Letter]) -> Result<(), ReplayError> {
        let mut halving = Halving::new(u32::try_from(batch.len()).unwrap_or(u32::MAX));
        loop {
            let part = match halving.step() {
                Step::Send(part) => part.to_vec(),
                // Nothing fails here without the replay ending, so that no canary is asked for.
                Step::Canary { .. } | Step::Finished => return Ok(()),
            };
            let letters = part.iter().filter_map(|at| batch.get(*at as usize));
            let outcome = self.send(&letters.collect::<Vec<_>>()).await?;
            let accepted = outcome == Outcome::Accepted;
            let poison = halving.settle(outcome);
            self.refused += poison.len() as u64;
            if accepted {
                let ids = part.iter().filter_map(|at| batch.get(*at as usize));
                self.delivered.extend(ids.map(|letter| letter.id));
            }
        }
    }

    async fn send(&self, letters: &[&Letter]) -> Result<Outcome, ReplayError> {
        let mut body = BytesMut::new();
        for letter in letters {
            body.extend_from_slice(&letter.line);
            body.extend_from_slice(b"\n");
        }
        let (db, rp) = letters.first().map_or(("", ""), |first| (&first.db, &first.rp));
        let (backend, done) = (self.backend.delivery.name.clone(), self.delivered.len());
        let answer = self.client.write(db, rp, Bytes::from(body)).await;
        match answer {
            Ok(Answer::Delivered) => Ok(Outcome::Accepted),
            Ok(Answer::Refused(refusal)) => {
                let all = refusal.dropped == Some(letters.len() as u64);
                Ok(Outcome::Refused { words: refusal.words, all, suspects: Vec::new() })
            }
            Ok(Answer::TooLarge(words)) => Ok(Outcome::TooLarge(words)),
            Ok(
                Answer::Missing(_, words)
                | Answer::Denied(words)
                | Answer::Busy(words, _)
                | Answer::Overloaded(words)
                | Answer::Failed(words)
                | Answer::Misdirected(words),
            ) => Err(ReplayError::Answer { backend, words, done }),
            Err(source) => Err(ReplayError::Broken { backend, source, done }),
        }
    }
}
