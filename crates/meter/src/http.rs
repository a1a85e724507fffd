//! HTTP/1.1: one request, many in turn, or the steps of a user, with what their answers have to be.

// Layers, from the top down; `self` is what this file defines.
//   targets, visit
//   answer, requests
//   check, cookies, text
//   data, recorded_answer
//   self

pub mod answer;
pub mod check;
pub mod cookies;
pub mod data;
pub(crate) mod recorded_answer;
mod requests;
pub mod targets;
pub(crate) mod text;
mod visit;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::url::{Url, UrlError};
use crate::workload::Workload;
pub use requests::{Options, STEPS_MAX, Sequence, Step};
use requests::{Requests, User};
use visit::Visit;

/// A request as it is sent, but for its target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Header lines, a name and a value each; one of the same name replaces the usual one.
    pub headers: Vec<(String, String)>,
    /// The body; there is a `Content-Length` where it is not empty, or the method has a body.
    pub body: Vec<u8>,
}

/// A part of a request can't be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A method has letters only, and begins no tunnel.
    #[error(
        "{0:?} is not a method that can be sent: it has letters only, as GET, and opens no tunnel"
    )]
    Method(String),
    /// A header has no colon, or bytes that can't be in one.
    #[error("{0:?} is not a header: write it as 'Name: value'")]
    Header(String),
    /// A gap can't be filled.
    #[error("{gap} {what}")]
    Gap {
        /// As it is written.
        gap: String,
        /// What is wrong with it.
        what: String,
    },
    /// An order of rows has no such name.
    #[error("{0:?} is not an order of rows: it is sequence, random or once")]
    Order(String),
    /// A check is none.
    #[error("{text:?} is not a check: {what}")]
    Check {
        /// As it is written.
        text: String,
        /// What is wrong with it.
        what: String,
    },
    /// A value can't be taken so.
    #[error("{text:?} takes nothing from an answer: {what}")]
    Take {
        /// As it is written.
        text: String,
        /// What is wrong with it.
        what: String,
    },
    /// A line of a file of targets.
    #[error("line {line}: {what}")]
    Target {
        /// The number of the line, from 1 on.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A target can't be asked for.
    #[error("the target {target:?} can't be used: {what}")]
    Path {
        /// As it is written.
        target: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The URL of a target.
    #[error(transparent)]
    Url(UrlError),
    /// A limit is exceeded.
    #[error("{0}")]
    Limit(String),
    /// What is wrong with one of several requests.
    #[error("request {step}: {source}")]
    Step {
        /// Its number and name.
        step: String,
        source: Box<RequestError>,
    },
}

impl RequestError {
    fn check(text: &str, what: &str) -> Self {
        Self::Check { text: text.to_owned(), what: what.to_owned() }
    }

    fn take(text: &str, what: &str) -> Self {
        Self::Take { text: text.to_owned(), what: what.to_owned() }
    }
}

/// Whether a byte may be in the name of a header (RFC 9110, section 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads a header as `Name: value`.
///
/// # Errors
/// It is none.
pub fn header(text: &str) -> Result<(String, String), RequestError> {
    let wrong = || RequestError::Header(text.to_owned());
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    if name.is_empty()
        || !name.bytes().all(is_token_byte)
        || value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t')
    {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// The head of requests that differ in their bodies alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    method: String,
    target: String,
    /// From behind the target up to the length of the body, which comes last.
    lines: String,
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
    /// It is not a method.
    pub fn new(
        url: &Url,
        target: &str,
        method: &str,
        headers: &[(String, String)],
    ) -> Result<Self, RequestError> {
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !is_method || method.eq_ignore_ascii_case("CONNECT") {
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
        let mut lines = " HTTP/1.1\r\n".to_owned();
        for (name, value) in usual.chain(own) {
            lines.extend([name, ": ", value, "\r\n"]);
        }
        let own_length = headers.iter().any(|(own, _)| own.eq_ignore_ascii_case("Content-Length"));
        let length = match method {
            _ if own_length => Length::Own,
            "POST" | "PUT" | "PATCH" => Length::Always,
            _ => Length::OfBody,
        };
        Ok(Self { method: method.to_owned(), target: target.to_owned(), lines, length })
    }

    /// Puts a request with that body.
    pub fn put(&self, body: &[u8], out: &mut Vec<u8>) {
        for part in [&*self.method, " ", &self.target, &self.lines] {
            out.extend_from_slice(part.as_bytes());
        }
        self.length.put(body, out);
    }
}

/// Sends HTTP requests by their steps, and reads their answers.
#[derive(Debug, Clone)]
pub struct Http {
    requests: Arc<Requests>,
    /// Nobody who has asked anything before.
    user: User,
    scratch: Vec<u8>,
}

impl Http {
    /// Sends that request to the target of `url`, the same each time.
    ///
    /// # Errors
    /// It can't be sent.
    pub fn new(url: &Url, request: &Request) -> Result<Self, RequestError> {
        Self::of(url, Options::of(request.clone()))
    }

    /// Sends that request to another target of the same server.
    ///
    /// # Errors
    /// It can't be sent.
    pub fn to_target(url: &Url, target: &str, request: &Request) -> Result<Self, RequestError> {
        let mut options = Options::of(request.clone());
        options.steps.iter_mut().for_each(|step| step.target = Some(target.to_owned()));
        Self::of(url, options)
    }

    /// Sends what the options say.
    ///
    /// # Errors
    /// A part of it can't be sent.
    pub fn of(url: &Url, options: Options) -> Result<Self, RequestError> {
        let requests = Arc::new(Requests::new(url, options)?);
        Ok(Self { requests, user: User::default(), scratch: Vec::new() })
    }
}

/// Basic authentication (RFC 7617).
fn authorization(url: &Url) -> String {
    let (user, password) = (url.user().unwrap_or_default(), url.password().unwrap_or_default());
    format!("Basic {}", BASE64.encode(format!("{user}:{password}")))
}

impl Workload for Http {
    type Reader = Visit;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        self.user.number = number;
        self.requests.put(self.requests.first(number), &self.user, &mut self.scratch, out)
    }

    fn reader(&self) -> Visit {
        Visit::new(Arc::clone(&self.requests))
    }

    fn operation(&self, number: u64) -> usize {
        self.requests.each[self.requests.first(number)].operation
    }

    fn operations(&self) -> Vec<String> {
        self.requests.operations.clone()
    }

    fn requests_max(&self) -> Option<u64> {
        self.requests.requests_max()
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
