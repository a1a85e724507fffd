//! `/query` and `/write` of a server.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

use super::{Answer, Server};
use crate::exit::{Failure, note};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a write may take: the server's own limit is 10 s or so.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest answer that is read whole.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// The longest words of an error.
const ERROR_BYTES_MAX: usize = 1 << 20;

/// A client of one server.
pub struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
}

/// What became of a write.
pub struct WriteAnswer {
    /// The status of the response.
    pub status: StatusCode,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// The server's words, if it had any.
    pub error: String,
}

impl WriteAnswer {
    /// Whether the same may be taken later.
    pub fn may_be_taken_later(&self) -> bool {
        let status = self.status;
        status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
    }
}

impl Client {
    /// A client that has not connected yet.
    ///
    /// # Errors
    /// The password or the certificate authorities can't be read.
    pub fn new(server: &Server) -> Result<Self, Failure> {
        let password = server.password()?;
        let login = server.user.as_deref().map(|user| (user, password.as_str()));
        Self::of(server.base(), server.ca.as_deref(), login)
    }

    /// The same of the server at `base`, with a user's name and password where it asks for one.
    ///
    /// # Errors
    /// The certificate authorities can't be read.
    pub fn of(
        base: String,
        ca: Option<&Path>,
        login: Option<(&str, &str)>,
    ) -> Result<Self, Failure> {
        let tls = flow::tls::client_config(ca, false).map_err(Failure::other);
        // Without authorities of its own a machine can still speak plain HTTP.
        let tls = if base.starts_with("https:") {
            tls?
        } else {
            tls.or_else(|_| flow::tls::client_config(None, true).map_err(Failure::other))?
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let authorization = match login {
            Some((user, password)) => {
                let pair = BASE64.encode(format!("{user}:{password}"));
                let value = HeaderValue::try_from(format!("Basic {pair}"));
                Some(value.map_err(Failure::other)?)
            }
            None => None,
        };
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, base, authorization })
    }

    async fn post(
        &self,
        target: &str,
        content_type: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::post(format!("{}{target}", self.base))
            .header(CONTENT_TYPE, content_type)
            .header(ACCEPT, accept)
            .body(Full::new(body))
            .map_err(|error| Failure::other(format!("{}: {error}", self.base)))?;
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        self.http.request(request).await.map_err(|error| {
            Failure::other(format!("{} can't be asked: {}", self.base, causes(&error)))
        })
    }

    /// Sends a query; the answer is what comes after a status of success.
    ///
    /// # Errors
    /// The server does not answer, or refuses; with its words.
    pub async fn query(&self, pairs: &[(&str, &str)], accept: &str) -> Result<Incoming, Failure> {
        let form = Bytes::from(encoded(pairs));
        let kind = "application/x-www-form-urlencoded";
        let response = self.post("/query", kind, accept, form).await?;
        let status = response.status();
        if status.is_success() {
            // JSON says it among its messages.
            let missing = response.headers().get_all("x-weir-missing").iter();
            for text in missing.filter(|_| accept.ends_with("csv")) {
                note(String::from_utf8_lossy(text.as_bytes()));
            }
            return Ok(response.into_body());
        }
        Err(Failure::other(words(status, response.into_body()).await))
    }

    /// Runs statements and gives the answer whole.
    ///
    /// # Errors
    /// As [`query`](Self::query); also when a statement failed.
    pub async fn ask(&self, q: &str, db: &str) -> Result<Answer, Failure> {
        let pairs = [("q", q), ("db", db), ("epoch", "ns")];
        let body = self.query(&pairs, "application/json").await?;
        let answer: Answer = serde_json::from_slice(&whole(body).await?)
            .map_err(|error| Failure::other(format!("the answer is not JSON: {error}")))?;
        match answer.error() {
            Some(error) => Err(Failure::other(error)),
            None => Ok(answer),
        }
    }

    /// Writes points.
    ///
    /// # Errors
    /// In words, when there was no answer.
    pub async fn write(&self, pairs: &[(&str, &str)], body: Bytes) -> Result<WriteAnswer, Failure> {
        let target = format!("/write?{}", encoded(pairs));
        let sent = self.post(&target, "text/plain; charset=utf-8", "*/*", body);
        let Ok(response) = tokio::time::timeout(WRITE_TIMEOUT, sent).await else {
            let seconds = WRITE_TIMEOUT.as_secs();
            return Err(Failure::other(format!("{}: no answer in {seconds} s", self.base)));
        };
        let response = response?;
        let status = response.status();
        let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = asked.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let error = if status.is_success() {
            // Read to its end, so that the connection can be used again.
            drop(whole(response.into_body()).await);
            String::new()
        } else {
            words(status, response.into_body()).await
        };
        Ok(WriteAnswer { status, retry_after, error })
    }
}

/// The pairs as a form or a URL has them, but for those without a value.
fn encoded(pairs: &[(&str, &str)]) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    form.finish()
}

/// An error with what caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// A body, whole.
///
/// # Errors
/// The connection breaks, or the body is longer than a gigabyte.
pub async fn whole(body: Incoming) -> Result<Bytes, Failure> {
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    read.map(http_body_util::Collected::to_bytes)
        .map_err(|error| Failure::other(format!("the answer breaks off: {error}")))
}

/// What a refusal says.
async fn words(status: StatusCode, body: Incoming) -> String {
    let Ok(read) = Limited::new(body, ERROR_BYTES_MAX).collect().await else {
        return status.to_string();
    };
    let body = read.to_bytes();
    let answer = serde_json::from_slice::<Answer>(&body).unwrap_or_default();
    match answer.error() {
        Some(error) => error.to_owned(),
        None if body.is_empty() => status.to_string(),
        None => format!("{status}: {}", String::from_utf8_lossy(&body).trim()),
    }
}

/// A chunked answer, piece by piece: a JSON document on each line.
pub struct Documents {
    body: Incoming,
    read: BytesMut,
}

impl Documents {
    /// The documents of an answer.
    pub fn new(body: Incoming) -> Self {
        Self { body, read: BytesMut::new() }
    }

    /// The next one.
    ///
    /// # Errors
    /// The connection breaks, or what comes is not JSON.
    pub async fn next(&mut self) -> Result<Option<Answer>, Failure> {
        let mut searched = 0;
        loop {
            let newline = self.read.iter().skip(searched).position(|byte| *byte == b'\n');
            if let Some(at) = newline {
                let line = self.read.split_to(searched + at + 1);
                if line.trim_ascii().is_empty() {
                    searched = 0;
                    continue;
                }
                return document(&line).map(Some);
            }
            searched = self.read.len();
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.read.extend_from_slice(&bytes);
                    }
                }
                Some(Err(error)) => {
                    return Err(Failure::other(format!("the answer breaks off: {error}")));
                }
                None if self.read.trim_ascii().is_empty() => return Ok(None),
                None => return document(&self.read.split()).map(Some),
            }
        }
    }
}

fn document(line: &[u8]) -> Result<Answer, Failure> {
    serde_json::from_slice(line)
        .map_err(|error| Failure::other(format!("the answer is not JSON: {error}")))
}
