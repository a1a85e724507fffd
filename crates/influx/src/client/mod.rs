//! HTTP to one backend: writes, statements, queries that are passed on, pings.

pub mod answer;
mod dialling;
mod greeting;
mod lines;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use self::answer::{ANSWER_BYTES_MAX, Answer, Reply};
use self::dialling::Dialling;
pub use self::greeting::{Exchange, Greeting};
use self::greeting::{Greeter, UnfitError};
pub use self::lines::AnswerLines;
use crate::settings::{BackendKind, Secret, ServerSettings};

/// How long a TCP connect may take: a host that is gone must not cost a whole batch timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept. InfluxDB itself closes none; proxies do after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// The longest answer to `SHOW` and other statements that is read.
const STATEMENT_ANSWER_MAX: usize = 16 << 20;

/// Why a backend's client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A password or token file cannot be read.
    #[error("influx.backend {backend:?}: cannot read {path}: {source}")]
    SecretFile {
        /// The backend's name in the configuration.
        backend: String,
        /// The file that the configuration names.
        path: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// A user, password or token cannot be put into a header.
    #[error("influx.backend {backend:?}: user, password or token holds a control character")]
    Header {
        /// The backend's name in the configuration.
        backend: String,
    },
    /// The certificate authorities cannot be used.
    #[error("influx.backend {backend:?}: {source}")]
    Tls {
        /// The backend's name in the configuration.
        backend: String,
        /// What is wrong with them.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Nobody took the connection: nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The server answers, and is not the one that is meant: nothing was sent.
    #[error("{0}")]
    Unfit(String),
    /// The backend did not answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The connection broke, or what came over it is not HTTP.
    #[error("connection broken: {0}")]
    Lost(String),
}

/// A backend's answer, read whole.
#[derive(Debug, Clone)]
pub struct Whole {
    /// The HTTP status code.
    pub status: u16,
    /// The headers of the answer.
    pub headers: HeaderMap,
    /// The body, or as much of it as was asked for.
    pub body: Bytes,
}

type Http = legacy::Client<Greeter<HttpsConnector<Dialling>>, Full<Bytes>>;

/// A client of one backend. Connections are kept alive and shared by all who use it.
#[derive(Debug)]
pub struct Client {
    http: Http,
    settings: ServerSettings,
    /// Scheme, authority and the path before `/write`, without a slash at its end.
    base: String,
    authorization: Arc<ArcSwapOption<HeaderValue>>,
}

impl Client {
    /// A client that has not connected yet, and begins each connection with `greeting`.
    ///
    /// # Errors
    /// When a password file or the certificate authorities cannot be read.
    pub fn new(
        settings: &ServerSettings,
        greeting: Option<Arc<dyn Greeting>>,
    ) -> Result<Self, ClientError> {
        let tcp = Dialling::new(CONNECT_TIMEOUT.min(settings.timeout));
        let tls = flow::tls::client_config(settings.ca.as_deref(), settings.insecure_skip_verify)
            .map_err(|error| ClientError::Tls {
            backend: settings.delivery.name.clone(),
            source: error.into(),
        })?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let base = settings.url.trim_end_matches('/').to_owned();
        let authorization = Arc::default();
        let (path, timeout) = (query_path(&base), CONNECT_TIMEOUT.min(settings.timeout));
        let connector = Greeter::new(connector, greeting, &path, &authorization, timeout);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(32)
            .build(connector);
        let client = Self { http, settings: settings.clone(), base, authorization };
        client.read_credentials()?;
        Ok(client)
    }

    /// Reads the password or token file again, for credentials that were changed meanwhile.
    ///
    /// # Errors
    /// When the file cannot be read; the former credentials stay.
    pub fn read_credentials(&self) -> Result<(), ClientError> {
        let settings = &self.settings;
        let value = match settings.kind {
            BackendKind::Influxdb2 => {
                let token = self.secret(&settings.token, settings.token_file.as_deref())?;
                Some(format!("Token {token}"))
            }
            _ if settings.user.is_empty() => None,
            _ => {
                let password =
                    self.secret(&settings.password, settings.password_file.as_deref())?;
                let pair = BASE64.encode(format!("{}:{password}", settings.user));
                Some(format!("Basic {pair}"))
            }
        };
        let header = value.map(|value| {
            let mut header = HeaderValue::try_from(value)
                .map_err(|_| ClientError::Header { backend: settings.delivery.name.clone() })?;
            header.set_sensitive(true);
            Ok(Arc::new(header))
        });
        self.authorization.store(header.transpose()?);
        Ok(())
    }

    fn secret(&self, given: &Secret, file: Option<&Path>) -> Result<String, ClientError> {
        let Some(path) = file else { return Ok(given.reveal().to_owned()) };
        let text = fs::read_to_string(path).map_err(|source| ClientError::SecretFile {
            backend: self.settings.delivery.name.clone(),
            path: path.display().to_string(),
            source,
        })?;
        Ok(text.lines().next().unwrap_or_default().trim_end().to_owned())
    }

    /// Writes lines in nanoseconds.
    ///
    /// # Errors
    /// When there was no answer.
    pub async fn write(&self, db: &str, rp: &str, lines: Bytes) -> Result<Answer, TransportError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let body = if self.settings.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            gzip(lines).await?
        } else {
            lines
        };
        let uri = self.write_uri(db, rp);
        let timeout = self.settings.timeout;
        let whole = self.call(Method::POST, &uri, headers, body, timeout, ANSWER_BYTES_MAX).await?;
        Ok(whole.classify())
    }

    fn write_uri(&self, db: &str, rp: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let path = if self.settings.kind == BackendKind::Influxdb2 {
            let bucket = if rp.is_empty() { db.to_owned() } else { format!("{db}/{rp}") };
            query.append_pair("org", &self.settings.org).append_pair("bucket", &bucket);
            query.append_pair("precision", "ns");
            "/api/v2/write"
        } else {
            query.append_pair("db", db);
            if !rp.is_empty() {
                query.append_pair("rp", rp);
            }
            "/write"
        };
        format!("{}{path}?{}", self.base, query.finish())
    }

    /// Runs a statement by `POST /query` and reads the whole answer.
    ///
    /// # Errors
    /// When there was no answer within `timeout`.
    pub async fn ask(
        &self,
        form: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Whole, TransportError> {
        let (headers, body) = form_body(form.iter().copied());
        let uri = format!("{}/query", self.base);
        self.call(Method::POST, &uri, headers, body, timeout, STATEMENT_ANSWER_MAX).await
    }

    /// Passes a query on by `POST /query`; the answer's body is given as it comes. `extra` are the
    /// client's headers that matter to an answer, such as `Accept`; credentials must not be in it.
    ///
    /// # Errors
    /// When there was no answer's head. There is no timeout: a query may take as long as it takes.
    pub async fn query(
        &self,
        (mut headers, body): (HeaderMap, Bytes),
        extra: &HeaderMap,
    ) -> Result<Response<Incoming>, TransportError> {
        for name in [header::ACCEPT, header::ACCEPT_ENCODING, header::USER_AGENT] {
            if let Some(value) = extra.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let uri = format!("{}/query", self.base);
        self.send(Method::POST, &uri, headers, body).await
    }

    /// Whether the backend answers at all: `/ping`, which all kinds have.
    ///
    /// # Errors
    /// When there was no answer, or one that says the backend is not well.
    pub async fn ping(&self) -> Result<(), TransportError> {
        let timeout = CONNECT_TIMEOUT.min(self.settings.timeout);
        let uri = format!("{}/ping", self.base);
        let empty = Bytes::new();
        let whole = self.call(Method::GET, &uri, HeaderMap::new(), empty, timeout, 4096).await?;
        match whole.status {
            200..=499 => Ok(()),
            status => Err(TransportError::Lost(format!("/ping answers {status}"))),
        }
    }

    /// Creates a bucket on InfluxDB 2.x: asks for the organization's id, then posts the bucket.
    ///
    /// # Errors
    /// When there was no answer; otherwise the answer tells whether it worked.
    pub async fn create_bucket(&self, name: &str) -> Result<Whole, TransportError> {
        let timeout = self.settings.timeout;
        let org = form_urlencoded::Serializer::new(String::new())
            .append_pair("org", &self.settings.org)
            .finish();
        let uri = format!("{}/api/v2/orgs?{org}", self.base);
        let empty = Bytes::new();
        let orgs = self
            .call(Method::GET, &uri, HeaderMap::new(), empty, timeout, STATEMENT_ANSWER_MAX)
            .await?;
        let found: serde_json::Value = serde_json::from_slice(&orgs.body).unwrap_or_default();
        let Some(org_id) = found.pointer("/orgs/0/id").and_then(serde_json::Value::as_str) else {
            return Ok(orgs);
        };
        let bucket = serde_json::json!({ "orgID": org_id, "name": name, "retentionRules": [] });
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let uri = format!("{}/api/v2/buckets", self.base);
        let body = Bytes::from(bucket.to_string());
        self.call(Method::POST, &uri, headers, body, timeout, ANSWER_BYTES_MAX).await
    }

    async fn call(
        &self,
        method: Method,
        uri: &str,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
        answer_max: usize,
    ) -> Result<Whole, TransportError> {
        let whole = async {
            let response = self.send(method, uri, headers, body).await?;
            let (head, body) = response.into_parts();
            let body = read(body, answer_max).await?;
            Ok(Whole { status: head.status.as_u16(), headers: head.headers, body })
        };
        let whole = tokio::time::timeout(timeout, whole).await;
        whole.unwrap_or(Err(TransportError::Timeout(timeout)))
    }

    async fn send(
        &self,
        method: Method,
        uri: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, TransportError> {
        let uri: Uri =
            uri.parse().map_err(|error| TransportError::Connect(format!("{uri}: {error}")))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        if let Some(value) = crate::via::header() {
            request.headers_mut().insert(crate::via::VIA, value);
        }
        if let Some(value) = self.authorization.load_full() {
            request.headers_mut().insert(header::AUTHORIZATION, HeaderValue::clone(&value));
        }
        self.http.request(request).await.map_err(|error| broken(&error))
    }
}

impl Whole {
    /// The first error in an answer to a statement.
    pub fn refused(&self) -> Option<String> {
        answer::error_in(&self.body)
    }

    /// What the answer to a write means.
    pub fn classify(&self) -> Answer {
        let text = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let reply = Reply {
            status: self.status,
            error_header: text("x-influxdb-error"),
            retry_after: text("retry-after"),
            body: &self.body,
        };
        answer::classify(&reply, SystemTime::now())
    }
}

/// The path of `/query` below the URL of a server.
fn query_path(base: &str) -> String {
    let base: Option<Uri> = base.parse().ok();
    let path = base.as_ref().map_or("", Uri::path).trim_end_matches('/');
    format!("{path}/query")
}

/// A form as the headers and the body of a request.
pub fn form_body<'a>(form: impl Iterator<Item = (&'a str, &'a str)>) -> (HeaderMap, Bytes) {
    let mut headers = HeaderMap::new();
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(header::CONTENT_TYPE, kind);
    let mut body = form_urlencoded::Serializer::new(String::new());
    for (key, value) in form {
        body.append_pair(key, value);
    }
    (headers, Bytes::from(body.finish()))
}

/// Reads at most `max` bytes of a body; what is longer is cut, and its connection not used again.
async fn read(mut body: Incoming, max: usize) -> Result<Bytes, TransportError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| TransportError::Lost(chain(&error)))?;
        let Ok(part) = frame.into_data() else { continue };
        let room = max - read.len();
        read.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() >= room {
            break;
        }
    }
    Ok(read.freeze())
}

/// Level 1: the link is the bottleneck where compression is wanted at all.
async fn gzip(lines: Bytes) -> Result<Bytes, TransportError> {
    let compress = move || {
        use std::io::Write as _;
        let out = Vec::with_capacity(lines.len() / 4);
        let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
        encoder.write_all(&lines).and_then(|()| encoder.finish())
    };
    let lost = |error: String| TransportError::Lost(format!("compressing failed: {error}"));
    let written = tokio::task::spawn_blocking(compress).await;
    let written = written.map_err(|error| lost(error.to_string()))?;
    written.map(Bytes::from).map_err(|error| lost(error.to_string()))
}

fn broken(error: &legacy::Error) -> TransportError {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let mut unfit = causes.filter_map(|cause| cause.downcast_ref::<UnfitError>());
    if let Some(unfit) = unfit.next() {
        TransportError::Unfit(unfit.to_string())
    } else if error.is_connect() {
        TransportError::Connect(chain(error))
    } else {
        TransportError::Lost(chain(error))
    }
}

/// The innermost cause: `hyper`'s outer errors only say that sending failed.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    loop {
        // An error of TLS has a remedy that its innermost cause does not name.
        if let Some(words) = cause.downcast_ref().and_then(flow::tls::in_words) {
            return words;
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => return cause.to_string(),
        }
    }
}
