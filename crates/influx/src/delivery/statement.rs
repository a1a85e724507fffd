//! Running a statement on one backend, at its place among the points.

use super::intake::OwnedStatement;
use super::sender::{Interrupted, Sender};
use crate::backends::Ran;
use crate::client::answer::{error_in, shortened};
use crate::client::{TransportError, Whole};

/// Failures of the backend's own after which a statement counts as failed: else one that makes the
/// server fail would hold back all points behind it for ever.
const FAILURES_MAX: u32 = 8;

/// Runs a statement until it is executed or refused. What InfluxDB says to it is final: it is told
/// to whoever waits, counted and logged. Running it a second time, as after a crash, does no harm,
/// since everything that followed it is delivered again as well.
///
/// # Errors
/// When the delivery is to end before.
pub async fn run(sender: &mut Sender, statement: &OwnedStatement) -> Result<Ran, Interrupted> {
    let settings = sender.backend.settings();
    if !settings.kind.has_catalogue() {
        return Ok(Ran::Skipped);
    }
    let timeout = settings.statement_timeout;
    let mut form = vec![("q", statement.text.as_str())];
    for (key, value) in
        [("db", &statement.db), ("rp", &statement.rp), ("params", &statement.params)]
    {
        if !value.is_empty() {
            form.push((key, value.as_str()));
        }
    }
    let mut failures = 0;
    loop {
        if sender.is_stopping() {
            return Err(Interrupted::Ends);
        }
        sender.wait_until_fit().await?;
        let words = match sender.client().ask(&form, timeout).await {
            Ok(said) => match judge(said) {
                StatementVerdict::Final(ran) => {
                    sender.at_ease();
                    sender.backend.answered();
                    note(sender, statement, &ran);
                    return Ok(ran);
                }
                StatementVerdict::Denied(words) => {
                    sender.denied(&words).await?;
                    continue;
                }
                StatementVerdict::Busy(words) => {
                    sender.retry_after(&words, None).await?;
                    continue;
                }
                StatementVerdict::Failed(words) => words,
            },
            Err(TransportError::Unfit(words)) => {
                sender.wait_for_agreement(&words).await?;
                continue;
            }
            Err(TransportError::Connect(words)) => {
                sender.backend.breaker().failure(&words);
                sender.retry_after(&format!("cannot connect: {words}"), None).await?;
                continue;
            }
            Err(error) => error.to_string(),
        };
        sender.backend.breaker().failure(&words);
        failures += 1;
        if failures >= FAILURES_MAX {
            let ran = Ran::Failed(words);
            note(sender, statement, &ran);
            return Ok(ran);
        }
        sender.retry_after(&words, None).await?;
    }
}

enum StatementVerdict {
    Final(Ran),
    Denied(String),
    Busy(String),
    Failed(String),
}

fn judge(said: Whole) -> StatementVerdict {
    let words = |said: &Whole| {
        let text = said.refused().unwrap_or_else(|| format!("status {}", said.status));
        shortened(text)
    };
    match said.status {
        200..=299 => StatementVerdict::Final(Ran::Answered(said.body)),
        401 | 403 => StatementVerdict::Denied(words(&said)),
        // 508: it comes back here (`via`), which is mended in the configuration.
        408 | 425 | 429 | 503 | 508 => StatementVerdict::Busy(words(&said)),
        500..=599 => StatementVerdict::Failed(words(&said)),
        // A 400 is InfluxDB's for what it cannot parse; anything else cannot be cured by trying
        // again.
        _ => StatementVerdict::Final(Ran::Failed(words(&said))),
    }
}

fn note(sender: &Sender, statement: &OwnedStatement, ran: &Ran) {
    let failed = match ran {
        Ran::Answered(body) => error_in(body),
        Ran::Failed(words) => Some(words.clone()),
        Ran::Skipped => None,
    };
    let backend = sender.backend.name();
    let text = wire::influxql::redact(&statement.text);
    match failed {
        None => {
            sender.instruments.statements.inc();
            tracing::info!(backend, statement = text, db = statement.db, "statement executed");
        }
        Some(reason) => {
            sender.instruments.statements_failed.inc();
            tracing::warn!(
                backend,
                statement = text,
                db = statement.db,
                reason,
                "statement failed"
            );
        }
    }
}
