//! A backend as an operator sees it.

use std::time::SystemTime;

use flow::health;
use journal::CursorStatus;
use serde::Serialize;

use super::{DeliveryState, Phase};
use crate::settings::DeliverySettings;

/// A backend as `weir status` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct BackendStatus {
    /// The backend's name in the configuration.
    pub name: String,
    /// Its address, without credentials; empty for the embedded store.
    pub url: String,
    /// The protocol it speaks; `embedded` for the embedded store.
    pub kind: &'static str,
    /// What its delivery is doing.
    pub state: Phase,
    /// Why it is stopped or retrying, in the backend's words.
    pub reason: Option<String>,
    /// Whether it is asked: `closed`, `half-open`, `open`.
    pub breaker: &'static str,
    /// How old the oldest point is that it has still to get, in seconds.
    pub behind_seconds: f64,
    /// What went wrong last, also when all is well again.
    pub last_error: Option<String>,
    /// When that was, in seconds since 1970.
    pub last_error_at: Option<f64>,
    /// Why it has refused a point for good last: the reason of the newest dead letter.
    pub last_refusal: Option<String>,
    /// The account of its points.
    pub cursor: Option<PointAccount>,
    /// What the embedded store's answers lack since files are damaged, in words; not what was
    /// accepted by `weir store accept`.
    pub missing: Vec<String>,
}

/// The account of a backend's points: `accepted` is `delivered`, `dead_lettered`, `dropped_total`
/// and `waiting` together.
#[derive(Debug, Clone, Serialize)]
pub struct PointAccount {
    #[serde(flatten)]
    cursor: CursorStatus,
    /// Points that it never gets, whatever the reason.
    dropped_total: u64,
}

impl From<&CursorStatus> for PointAccount {
    fn from(cursor: &CursorStatus) -> Self {
        Self { cursor: cursor.clone(), dropped_total: cursor.dropped_total() }
    }
}

impl std::ops::Deref for PointAccount {
    type Target = CursorStatus;

    fn deref(&self) -> &CursorStatus {
        &self.cursor
    }
}

impl BackendStatus {
    /// The same where the store's files can't be changed as they should, and nothing worse is
    /// known; and with what is missing from its answers.
    pub fn of_store(mut self, trouble: Option<String>, missing: Vec<String>) -> Self {
        self.missing = missing;
        if let Some(words) = trouble.filter(|_| self.reason.is_none()) {
            self.state = Phase::Retrying;
            self.reason = Some(words);
        }
        self
    }
}

/// What the standing and the cursor of a backend tell; `failure` is asked where its delivery has
/// nothing to complain of.
pub fn status_of(
    settings: &DeliverySettings,
    (kind, url): (&'static str, &str),
    standing: &DeliveryState,
    cursors: &[CursorStatus],
    failure: impl FnOnce() -> Option<(String, SystemTime)>,
) -> BackendStatus {
    let error = standing.last_error().or_else(failure);
    let since_1970 = |at: SystemTime| {
        at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    };
    let (phase, reason) = standing.phase();
    BackendStatus {
        name: settings.name.clone(),
        url: url.to_owned(),
        kind,
        state: phase,
        reason,
        breaker: health::State::Closed.name(),
        behind_seconds: standing.behind().as_secs_f64(),
        last_error_at: error.as_ref().map(|(_, at)| since_1970(*at)),
        last_error: error.map(|(words, _)| words),
        last_refusal: standing.last_refusal(),
        cursor: cursors.iter().find(|cursor| cursor.name == settings.name).map(Into::into),
        missing: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_the_status_finds_what_makes_an_account_add_up() {
        let cursor = CursorStatus {
            accepted: 10,
            delivered: 4,
            dropped: 1,
            dropped_oldest: 2,
            dropped_damaged: 3,
            ..CursorStatus::default()
        };
        let shown = serde_json::to_value(PointAccount::from(&cursor)).unwrap();
        let number = |key: &str| shown[key].as_u64().unwrap();
        assert_eq!(number("accepted"), number("delivered") + number("dropped_total"));
        assert_eq!(number("dropped_oldest"), 2);
    }
}
