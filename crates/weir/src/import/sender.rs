//! Bodies on their way to the server, several at once, each until it is taken or refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::backoff::Backoff;
use http::StatusCode;
use tokio::task::JoinSet;

use super::cutter::Points;
use crate::exit::{Failure, note};
use crate::remote::Client;

/// A server that takes nothing for this long is given up.
const PATIENCE: Duration = Duration::from_secs(600);
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Refusals that are shown; the rest is counted.
const SHOWN_MAX: u64 = 10;
/// Characters of a refusal.
const SHOWN_CHARS_MAX: usize = 300;

/// Sends pieces, several at a time.
pub struct Sender {
    client: Arc<Client>,
    precision: Arc<str>,
    in_flight_max: usize,
    tasks: JoinSet<Result<Sent, Failure>>,
    lines: u64,
    failed: u64,
    refusals: u64,
}

/// What became of a body.
struct Sent {
    lines: u64,
    /// Lines that were refused, and why.
    refused: Option<(u64, String)>,
}

impl Sender {
    /// Nothing is on its way yet.
    pub fn new(client: Arc<Client>, precision: &str, in_flight_max: usize) -> Self {
        // The server's old name of nanoseconds.
        let precision = if precision == "ns" { "n" } else { precision };
        let precision = Arc::from(precision);
        Self {
            client,
            precision,
            in_flight_max,
            tasks: JoinSet::new(),
            lines: 0,
            failed: 0,
            refusals: 0,
        }
    }

    /// Lines that the server has answered for.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines of those that it refused.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Runs a statement after all that was sent before it.
    ///
    /// # Errors
    /// In the server's words.
    pub async fn statement(&mut self, text: &str) -> Result<(), Failure> {
        self.finish().await?;
        let ran = self.client.ask(text, "").await;
        ran.map(drop).map_err(|error| Failure::other(format!("{text}: {error}")))
    }

    /// Waits until one more body may be on its way.
    ///
    /// # Errors
    /// Another one can't be delivered.
    pub async fn room(&mut self) -> Result<(), Failure> {
        while self.tasks.len() >= self.in_flight_max {
            self.next().await?;
        }
        Ok(())
    }

    /// Puts a body on its way.
    pub fn send(&mut self, points: Points) {
        let (client, precision) = (Arc::clone(&self.client), Arc::clone(&self.precision));
        self.tasks.spawn(async move { deliver(&client, &precision, points).await });
    }

    /// Waits for all that is on its way.
    ///
    /// # Errors
    /// Something can't be delivered.
    pub async fn finish(&mut self) -> Result<(), Failure> {
        while !self.tasks.is_empty() {
            self.next().await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<(), Failure> {
        let Some(ended) = self.tasks.join_next().await else { return Ok(()) };
        let sent = ended.map_err(Failure::other)??;
        self.lines += sent.lines;
        if let Some((lines, why)) = sent.refused {
            self.failed += lines;
            self.refusals += 1;
            if self.refusals <= SHOWN_MAX {
                note(why);
            }
        }
        Ok(())
    }
}

async fn deliver(client: &Client, precision: &str, points: Points) -> Result<Sent, Failure> {
    let Points { target, first, lines, body } = points;
    if target.db.is_empty() {
        let why = "the file names no database with `# CONTEXT-DATABASE:`; say --db";
        return Err(Failure::other(why));
    }
    let pairs = [("db", target.db.as_str()), ("rp", &target.rp), ("precision", precision)];
    let begun = Instant::now();
    let mut backoff = Backoff::new(WAIT_MIN, WAIT_MAX);
    loop {
        let (why, asked) = match client.write(&pairs, body.clone()).await {
            Ok(written) if written.status.is_success() => {
                return Ok(Sent { lines, refused: None });
            }
            Ok(written) if written.status == StatusCode::BAD_REQUEST => {
                let refused = refused(&written.error, lines);
                let words: String = written.error.chars().take(SHOWN_CHARS_MAX).collect();
                let why = format!("lines {first} to {}: {words}", first + lines - 1);
                return Ok(Sent { lines, refused: Some((refused, why)) });
            }
            Ok(written) if written.may_be_taken_later() => (written.error, written.retry_after),
            Ok(written) => return Err(Failure::other(written.error)),
            Err(failure) => (failure.to_string(), None),
        };
        if begun.elapsed() > PATIENCE {
            let minutes = PATIENCE.as_secs() / 60;
            return Err(Failure::other(format!("given up after {minutes} minutes: {why}")));
        }
        let wait = backoff.delay();
        tokio::time::sleep(asked.unwrap_or(wait).min(PATIENCE)).await;
    }
}

/// How many of `lines` a 400 is about: InfluxDB names each line it can't parse, on a line of its
/// own with the words of the client in it, or counts at the end those it drops; anything else is
/// about all. Where it dropped points it says nothing of lines it could not parse, so that these
/// are not counted.
fn refused(error: &str, lines: u64) -> u64 {
    let Some(words) = error.strip_prefix("partial write: ") else { return lines };
    let (words, dropped) = match words.rsplit_once(" dropped=") {
        Some((words, number)) => (words, number.trim_end().parse().unwrap_or(0)),
        None => (words, 0),
    };
    let unparsed = words.lines().filter(|line| line.starts_with("unable to parse '"));
    (unparsed.count() as u64).saturating_add(dropped).clamp(1, lines.max(1))
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn failed_lines_are_counted_by_the_servers_words() {
        let conflict = "partial write: field type conflict: input field \"f\" on measurement \"m\" \
                        is type float, already exists as type integer dropped=3";
        assert_eq!(refused(conflict, 5_000), 3);
        let unparsed = "partial write: unable to parse 'a': missing fields\nunable to parse 'b': \
                        missing fields dropped=0";
        assert_eq!(refused(unparsed, 5_000), 2);
        let quoted = "partial write: unable to parse 'm unable to parse ' dropped=9 x': missing \
                      fields dropped=0";
        assert_eq!(refused(quoted, 5_000), 1, "what a client wrote counts nothing");
        assert_eq!(refused("unable to parse 'a': missing fields", 40), 40);
        assert_eq!(refused("database name required", 7), 7);
    }
}
