//! Tags that the gateway adds to points.

/// A tag to add to every point that has none of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StampTag {
    key: String,
    value: String,
    /// `,key=value`, escaped as line protocol wants it.
    encoded: Vec<u8>,
    /// Where the escaped key ends within `encoded`.
    key_end: usize,
}

/// Why a tag can't be stamped on points.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StampError {
    /// The key is empty, or `time`, which InfluxDB refuses as a tag.
    #[error("{0:?} can't be the name of a tag")]
    Key(String),
    /// InfluxDB has no tags with an empty value.
    #[error("the tag {0:?} has an empty value")]
    EmptyValue(String),
    /// A backslash or a control character can't be written so that every reader agrees on it.
    #[error("the tag {0:?} has a backslash or a control character in its name or value")]
    Unprintable(String),
    /// Name and value together are longer than [`StampTag::BYTES_MAX`].
    #[error("the tag {0:?} is longer than 1024 bytes")]
    TooLong(String),
}

impl StampTag {
    /// Bytes that key and value may have together.
    pub const BYTES_MAX: usize = 1024;

    /// A tag from its plain, unescaped name and value.
    ///
    /// # Errors
    /// When the tag could not be written in line protocol, or InfluxDB would refuse it.
    pub fn new(key: &str, value: &str) -> Result<Self, StampError> {
        if key.is_empty() || key == "time" {
            return Err(StampError::Key(key.to_owned()));
        }
        if value.is_empty() {
            return Err(StampError::EmptyValue(key.to_owned()));
        }
        if key.len() + value.len() > Self::BYTES_MAX {
            return Err(StampError::TooLong(key.to_owned()));
        }
        if key.chars().chain(value.chars()).any(|c| c == '\\' || c.is_control()) {
            return Err(StampError::Unprintable(key.to_owned()));
        }
        let mut encoded = vec![b','];
        escape(key, &mut encoded);
        let key_end = encoded.len();
        encoded.push(b'=');
        escape(value, &mut encoded);
        Ok(Self { key: key.to_owned(), value: value.to_owned(), encoded, key_end })
    }

    /// The tag's name without escapes.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The tag's value without escapes.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The tag as line protocol: `,key=value`, with escapes.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// The escaped key, as a line that has this tag spells it.
    pub(super) fn encoded_key(&self) -> &[u8] {
        &self.encoded[1..self.key_end]
    }
}

/// Tag keys and values escape comma, equals sign and space (`models/points.go`, `tagEscapeCodes`).
fn escape(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        if matches!(byte, b',' | b'=' | b' ') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}
