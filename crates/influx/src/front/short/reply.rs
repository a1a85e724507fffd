//! The answer of a write as bytes.

use std::cell::RefCell;
use std::time::SystemTime;

use super::super::Front;
use super::super::answer::{Answer, Content};
use super::super::http as long;
use super::super::request_id::RequestId;

/// The text of a `Date` header, made once a second.
#[derive(Default)]
pub struct Date(RefCell<(u64, String)>);

impl Date {
    fn put(&self, out: &mut Vec<u8>) {
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut known = self.0.borrow_mut();
        if known.0 != seconds || known.1.is_empty() {
            *known = (seconds, httpdate::fmt_http_date(now));
        }
        out.extend_from_slice(known.1.as_bytes());
    }
}

impl Front {
    /// Writes an answer as the long way would.
    pub fn put_answer(
        &self,
        out: &mut Vec<u8>,
        done: &Result<(), Answer>,
        id: &RequestId,
        last: bool,
    ) {
        let put = |out: &mut Vec<u8>, name: &str, value: &[u8]| {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        };
        match done {
            Ok(()) => out.extend_from_slice(
                b"HTTP/1.1 204 No Content\r\ncontent-type: application/json\r\n",
            ),
            Err(refusal) => {
                let status = refusal.status();
                let reason = status.canonical_reason().unwrap_or("Unknown");
                out.extend_from_slice(
                    format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).as_bytes(),
                );
                for (name, value) in refusal.headers() {
                    put(out, name.as_str(), value.as_bytes());
                }
            }
        }
        let live = self.gateway.live();
        let (version, build) = (live.version.header.as_bytes(), long::OSS.as_bytes());
        let own = long::on_every_answer(version, build, id.as_bytes());
        for (name, value) in own {
            put(out, name.as_str(), value);
        }
        if last {
            put(out, "connection", b"close");
        }
        let body = done.as_ref().err().map(|refusal| match refusal.body() {
            Content::Full(body) => &body[..],
            // What is made while it is sent is not a write's.
            _ => &[],
        });
        if let Some(body) = body {
            put(out, "content-length", body.len().to_string().as_bytes());
        }
        out.extend_from_slice(b"date: ");
        self.date.put(out);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body.unwrap_or_default());
    }
}
