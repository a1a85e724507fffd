//! What clients hear of a refusal of the journal or the embedded store, and what is counted of it.

use ::http::StatusCode;
use journal::AppendError;

use super::Gateway;
use super::answer::{self, Answer};
use crate::admission::Refusal;
use crate::aside::Stopping;

impl Gateway {
    /// Counts a refusal, and gives the answer.
    pub(super) fn refused(&self, refusal: &Refusal) -> Answer {
        self.metrics.refused.count(refusal);
        answer_to(refusal)
    }

    /// Counts a refusal, and gives what the result of a statement says of it.
    pub(super) fn refused_words(&self, refusal: &Refusal) -> String {
        self.metrics.refused.count(refusal);
        words_of(refusal)
    }
}

fn answer_to(refusal: &Refusal) -> Answer {
    let seconds = match refusal {
        Refusal::Append(AppendError::Busy) => return answer::throttled(),
        Refusal::Append(AppendError::TooLarge { .. }) => {
            return answer::error(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE);
        }
        Refusal::NameTooLong(error) => {
            return answer::error(StatusCode::BAD_REQUEST, &error.to_string());
        }
        Refusal::Append(AppendError::Full | AppendError::DiskFull) => 5,
        Refusal::Append(AppendError::Poisoned | AppendError::Closed) => 30,
        Refusal::Unacknowledged(_)
        | Refusal::Behind(_)
        | Refusal::Starting(_)
        | Refusal::Unsettled(_)
        | Refusal::Stopping(_) => 1,
    };
    answer::unavailable(&refusal.to_string(), seconds)
}

/// What the result of a statement says of a refusal.
pub fn words_of(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Append(AppendError::Busy) => StatusCode::SERVICE_UNAVAILABLE.to_string(),
        Refusal::Append(AppendError::TooLarge { .. }) => TOO_LARGE.to_owned(),
        other => other.to_string(),
    }
}

/// Go's words for a 413.
const TOO_LARGE: &str = "Request Entity Too Large";

impl From<Stopping> for Answer {
    fn from(stopping: Stopping) -> Self {
        answer_to(&stopping.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a statement's result are those of the answer to a write.
    #[test]
    fn a_statement_says_what_the_header_of_a_write_says() {
        for refusal in [
            AppendError::Busy.into(),
            AppendError::TooLarge { len: 2, max: 1 }.into(),
            AppendError::DiskFull.into(),
            Refusal::Unacknowledged(journal::AckError::Timeout),
            Refusal::NameTooLong(crate::record::NameTooLong),
            Refusal::Stopping(Stopping),
        ] {
            let answer = answer_to(&refusal);
            let said = answer.headers().get(answer::ERROR).map(|words| words.to_str().unwrap());
            let said = said.map_or_else(|| answer.status().to_string(), str::to_owned);
            assert_eq!(words_of(&refusal), said);
        }
    }
}
