//! The body of an HTTP answer, as JSON.

use serde_json::Value;

use crate::http::answer::Answers;
use crate::workload::{Answer, Malformed, Reader};

/// The most bytes of an answer.
const ANSWER_MAX: usize = 1 << 30;

/// Keeps an answer as it comes.
pub struct Body {
    answers: Answers,
    bytes: Vec<u8>,
}

impl Body {
    /// Of a connection on which nothing was asked yet, or whose answers were all read.
    pub fn new() -> Self {
        Self { answers: Answers::new(false), bytes: Vec::new() }
    }

    /// What the answer is, once it is whole.
    pub fn json(&self) -> Option<Value> {
        let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let (head, body) = self.bytes.split_at(end);
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        let is_chunked = head.lines().any(|line| {
            let value = line.strip_prefix("transfer-encoding:");
            value.is_some_and(|value| value.contains("chunked"))
        });
        let body = if is_chunked { whole(body)? } else { body.to_vec() };
        serde_json::from_slice(&body).ok()
    }
}

/// The data of a chunked body (RFC 9112, section 7.1).
fn whole(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(data);
        }
        let begin = end + 2;
        data.extend_from_slice(rest.get(begin..begin.checked_add(size)?)?);
        rest = rest.get(begin + size + 2..)?;
    }
}

impl Reader for Body {
    fn begin(&mut self, operation: usize) {
        self.answers.begin(operation);
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        if self.bytes.len() + bytes.len() > ANSWER_MAX {
            return Err(Malformed("an answer is over 1 GiB"));
        }
        self.bytes.extend_from_slice(bytes);
        self.answers.read(bytes)
    }

    fn ended(&mut self) -> Option<Answer> {
        self.answers.ended()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{Body, whole};
    use crate::workload::Reader as _;

    #[test]
    fn a_body_is_read_in_any_pieces_chunked_or_not() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\": 17}".to_vec();
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                        4;x=y\r\n{\"a\"\r\n5\r\n: 17}\r\n0\r\n\r\n"
            .to_vec();
        for answer in [plain, chunked] {
            for size in [1, 7, 1000] {
                let mut body = Body::new();
                let read = answer.chunks(size).map(|piece| body.read(piece).unwrap());
                assert!(read.last().unwrap().is_some());
                assert_eq!(body.json().unwrap()["a"], 17);
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = whole(&bytes);
            let _ = whole(&[b"fffffffffffffffe\r\n", &bytes[..]].concat());
        }
    }
}
