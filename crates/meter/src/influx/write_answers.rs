//! Answers to writes, with the server's own words where it has refused one.

use serde_json::Value;

use crate::http::answer::Answers;
use crate::http::recorded_answer::RecordedAnswer;
use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// Where InfluxDB's versions and those that speak like them put their words.
const KEYS: [&str; 2] = ["error", "message"];

/// Reads the answers of one connection.
#[derive(Debug, Clone)]
pub struct WriteAnswers(pub(super) Answers);

impl Reader for WriteAnswers {
    fn begin(&mut self, _: usize) {
        self.0.expect(false, true);
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        self.0.read(bytes)
    }

    fn ended(&mut self) -> Option<Answer> {
        self.0.ended()
    }

    fn begun(&self) -> Option<String> {
        self.0.begun()
    }

    fn failure(&self, answer: &Answer) -> String {
        let words = self.0.kept().filter(|_| answer.kind != Kind::Succeeded).and_then(words);
        match words {
            Some(words) => format!("status {}: {words}", answer.code),
            None => format!("status {}", answer.code),
        }
    }
}

/// What an answer says: in its body (`error` in 1.x and 3, `message` in 2.x), else in a header.
fn words(kept: &RecordedAnswer) -> Option<String> {
    let document = kept.body().and_then(|body| serde_json::from_slice::<Value>(body).ok());
    let in_body = document
        .and_then(|document| KEYS.iter().find_map(|key| document[key].as_str().map(str::to_owned)));
    let in_head = || {
        let value = kept.headers("x-influxdb-error").next()?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let words = in_body.or_else(in_head)?;
    // An error is a line.
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(words)
}
