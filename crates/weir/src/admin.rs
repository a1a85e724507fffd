//! The admin port: what an operator, a load balancer and Prometheus ask. It has no
//! authentication and only answers questions, so it listens on loopback unless told otherwise.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use watch::metrics::Registry;

/// Connections served at once; what comes beyond waits in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// The head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a client may take to send the head of a request, an idle connection included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection is closed after this long whatever it does: the longest profile and some.
const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(600);
/// How long to wait after an error of accept(2), as when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What is profiled when the question names no span, as in Go's `net/http/pprof`.
const PROFILE_SECONDS: u64 = 30;
/// The longest span that can be profiled.
const PROFILE_SECONDS_MAX: u64 = 300;
/// Samples a second of CPU time: no divisor of common timers' rates, so as not to beat with them.
const PROFILE_HZ: u32 = 99;

const PATHS: &str = "\
/metrics                          for Prometheus\n\
/health                           200 while the process answers\n\
/ready                            200 while writes are taken, else 503; for load balancers\n\
/status                           what `weir status` shows, as JSON\n\
/debug/pprof/profile?seconds=30   a CPU profile for `go tool pprof`\n";

/// `[admin]`: the port an operator and a load balancer ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Where it listens, as `address:port`; `""` is nowhere. There is no authentication: whoever
    /// reaches it can read the state and take a CPU profile, so keep it off public networks.
    pub listen: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8088".to_owned() }
    }
}

impl Settings {
    /// The address to listen on; `None` where the port is off.
    ///
    /// # Errors
    /// What was written is not an address; the text says what to write instead.
    pub fn address(&self) -> Result<Option<SocketAddr>, String> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        let wrong = |_| {
            let listen = &self.listen;
            format!("admin.listen = {listen:?} is not an address; write \"127.0.0.1:8088\" or \"\"")
        };
        self.listen.parse().map(Some).map_err(wrong)
    }
}

/// Where the answers come from. Each is called per question and must not wait.
pub struct Sources {
    /// All metrics of the process.
    pub registry: Registry,
    /// Whether writes are taken, else why not.
    pub ready: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// The state that `/status` shows.
    pub status: Box<dyn Fn() -> serde_json::Value + Send + Sync>,
}

/// Answers on `listener` for ever; dropping the future ends every connection.
pub async fn serve(listener: TcpListener, sources: Arc<Sources>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let sources = Arc::clone(&sources);
                connections.spawn(async move {
                    connection(stream, sources).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the admin port can't accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, sources: Arc<Sources>) {
    let service = service_fn(|request| {
        let sources = Arc::clone(&sources);
        async move { Ok::<_, Infallible>(answer(&request, &sources).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_LIFE_MAX, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an admin connection ended early"),
        Err(_) => tracing::debug!("an admin connection was open for too long"),
    }
}

async fn answer(request: &Request<Incoming>, sources: &Sources) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "the admin port only answers questions: use GET\n".into();
        let mut refused = reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", text);
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        // What follows may be a body that nobody will read.
        refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return refused;
    }
    match request.uri().path() {
        "/" => reply(StatusCode::OK, "text/plain", PATHS.into()),
        "/metrics" => {
            let text = sources.registry.render().into();
            reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        "/health" => {
            let body = json!({ "status": "pass", "version": env!("CARGO_PKG_VERSION") });
            reply(StatusCode::OK, "application/json", line(&body))
        }
        "/ready" => match (sources.ready)() {
            Ok(()) => reply(StatusCode::OK, "application/json", line(&json!({ "ready": true }))),
            Err(reason) => {
                let body = json!({ "ready": false, "reason": reason });
                reply(StatusCode::SERVICE_UNAVAILABLE, "application/json", line(&body))
            }
        },
        "/status" => reply(StatusCode::OK, "application/json", line(&(sources.status)())),
        "/debug/pprof/profile" => profile(request.uri().query().unwrap_or_default()).await,
        path => {
            let text = format!("there is no {path}; there is\n\n{PATHS}").into();
            reply(StatusCode::NOT_FOUND, "text/plain", text)
        }
    }
}

async fn profile(query: &str) -> Response<Full<Bytes>> {
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
    let seconds = match asked.map(str::parse::<u64>) {
        None => PROFILE_SECONDS,
        Some(Ok(seconds @ 1..=PROFILE_SECONDS_MAX)) => seconds,
        Some(_) => {
            let text = format!("seconds must be a number from 1 to {PROFILE_SECONDS_MAX}\n");
            return reply(StatusCode::BAD_REQUEST, "text/plain", text.into());
        }
    };
    match watch::profile::cpu(seconds, PROFILE_HZ).await {
        Ok(profile) => reply(StatusCode::OK, "application/octet-stream", profile.into()),
        Err(error) => {
            reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{error}\n").into())
        }
    }
}

fn reply(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn line(value: &serde_json::Value) -> Bytes {
    format!("{value}\n").into()
}

#[cfg(test)]
mod tests;
