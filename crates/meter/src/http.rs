//! HTTP/1.1: one request, the same each time.

pub mod answer;

use std::io::Write as _;

use answer::Answers;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::url::Url;
use crate::workload::Workload;

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// As `GET`.
    pub method: String,
    /// Header lines, a name and a value each; one of the same name replaces the usual one.
    pub headers: Vec<(String, String)>,
    /// The body; there is a `Content-Length` where it is not empty, or the method has a body.
    pub body: Vec<u8>,
}

/// A part of a request can't be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A method has letters only.
    #[error("{0:?} is no method: it has letters only, as GET")]
    Method(String),
    /// A header has no colon, or bytes that can't be in one.
    #[error("{0:?} is no header: write it as 'Name: value'")]
    Header(String),
}

/// Reads a header as `Name: value`.
///
/// # Errors
/// It is none.
pub fn header(text: &str) -> Result<(String, String), RequestError> {
    let wrong = || RequestError::Header(text.to_owned());
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty()
        || !name.bytes().all(is_token)
        || value.bytes().any(|b| b < b' ' && b != b'\t')
    {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// The head of requests that differ in their bodies alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// All of it up to the length of the body, which comes last.
    text: String,
    length: Length,
}

/// When a head says how long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// Where the body is empty, too.
    Always,
    /// Where there is a body.
    OfBody,
    /// The headers that were given say so.
    Own,
}

impl Head {
    /// Of requests to that target; a header of the same name replaces the usual one.
    ///
    /// # Errors
    /// It is no method.
    pub fn new(
        url: &Url,
        target: &str,
        method: &str,
        headers: &[(String, String)],
    ) -> Result<Self, RequestError> {
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(RequestError::Method(method.to_owned()));
        }
        let mut usual = vec![("Host", url.authority()), ("User-Agent", "weir-load".to_owned())];
        usual.push(("Accept", "*/*".to_owned()));
        if url.user().or(url.password()).is_some() {
            usual.push(("Authorization", authorization(url)));
        }
        usual.retain(|(name, _)| !headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
        let usual = usual.iter().map(|(name, value)| (*name, &**value));
        let own = headers.iter().map(|(name, value)| (&**name, &**value));
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        for (name, value) in usual.chain(own) {
            text.extend([name, ": ", value, "\r\n"]);
        }
        let own_length = headers.iter().any(|(own, _)| own.eq_ignore_ascii_case("Content-Length"));
        let length = match method {
            _ if own_length => Length::Own,
            "POST" | "PUT" | "PATCH" => Length::Always,
            _ => Length::OfBody,
        };
        Ok(Self { text, length })
    }

    /// Puts a request with that body.
    pub fn put(&self, body: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.text.as_bytes());
        let is_said = match self.length {
            Length::Always => true,
            Length::OfBody => !body.is_empty(),
            Length::Own => false,
        };
        if is_said {
            // Writing to a vector does not fail.
            let _ = write!(out, "Content-Length: {}\r\n", body.len());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }
}

/// The workload of one request.
#[derive(Debug, Clone)]
pub struct Http {
    bytes: Vec<u8>,
    is_head: bool,
}

impl Http {
    /// Sends that request to the target of `url`.
    ///
    /// # Errors
    /// It can't be sent.
    pub fn new(url: &Url, request: &Request) -> Result<Self, RequestError> {
        Self::to_target(url, url.target(), request)
    }

    /// Sends that request to another target of the same server.
    ///
    /// # Errors
    /// It can't be sent.
    pub fn to_target(url: &Url, target: &str, request: &Request) -> Result<Self, RequestError> {
        let Request { method, headers, body } = request;
        let mut bytes = Vec::new();
        Head::new(url, target, method, headers)?.put(body, &mut bytes);
        Ok(Self { bytes, is_head: method == "HEAD" })
    }
}

/// Basic authentication (RFC 7617).
fn authorization(url: &Url) -> String {
    let (user, password) = (url.user().unwrap_or_default(), url.password().unwrap_or_default());
    format!("Basic {}", BASE64.encode(format!("{user}:{password}")))
}

impl Workload for Http {
    type Reader = Answers;

    fn request(&mut self, _: u64, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&self.bytes);
        0
    }

    fn reader(&self) -> Answers {
        Answers::new(self.is_head)
    }
}

#[cfg(test)]
mod tests {
    use super::{Http, Request, RequestError, header};
    use crate::url::Url;
    use crate::workload::Workload as _;

    fn sent(url: &str, method: &str, headers: &[&str], body: &str) -> String {
        let headers = headers.iter().map(|text| header(text).unwrap()).collect();
        let request = Request { method: method.into(), headers, body: body.into() };
        let mut out = Vec::new();
        Http::new(&url.parse::<Url>().unwrap(), &request).unwrap().request(0, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_is_as_it_was_asked_for() {
        assert_eq!(
            sent("http://h:81/a?b=c", "GET", &[], ""),
            "GET /a?b=c HTTP/1.1\r\nHost: h:81\r\nUser-Agent: weir-load\r\nAccept: */*\r\n\r\n"
        );
        assert_eq!(
            sent("http://u:p@h", "POST", &["host: other", "X: 1"], "abc"),
            "POST / HTTP/1.1\r\nUser-Agent: weir-load\r\nAccept: */*\r\n\
             Authorization: Basic dTpw\r\nhost: other\r\nX: 1\r\nContent-Length: 3\r\n\r\nabc"
        );
    }

    #[test]
    fn what_would_break_the_request_is_refused() {
        for text in ["no colon", ": value", "a b: c", "a: b\r\nc: d"] {
            assert_eq!(header(text), Err(RequestError::Header(text.to_owned())));
        }
        let request = Request { method: "GET /".into(), headers: Vec::new(), body: Vec::new() };
        assert!(Http::new(&"http://h".parse().unwrap(), &request).is_err());
    }
}
