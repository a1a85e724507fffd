//! What the admin port answers. It only answers questions.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, RETRY_AFTER, VARY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde_json::json;
use watch::metrics::Registry;

use super::access::{Access, Refusal, Want};
use crate::page::{Page, VIEWERS_MAX, Viewer, assets};

/// What is profiled when the question names no span, as in Go's `net/http/pprof`.
const PROFILE_SECONDS: u64 = 30;
/// The longest span that can be profiled.
const PROFILE_SECONDS_MAX: u64 = 300;
/// Samples a second of CPU time: no divisor of common timers' rates, so as not to beat with them.
const PROFILE_HZ: u32 = 99;

const PATHS: &str = "\
/                                 the operator's page, in a browser\n\
/live                             what it shows, once a second: a stream of server-sent events\n\
/history                          ten minutes, a day, and what has happened, as JSON\n\
/metrics                          for Prometheus\n\
/health                           200 while the process answers\n\
/ready                            200 while writes are taken, else 503; for load balancers\n\
/status                           what `weir status` shows, as JSON\n\
/debug/pprof/profile?seconds=30   a CPU profile for `go tool pprof`\n";

/// Where the answers come from. Each is called per question and must not wait.
pub struct Sources {
    /// What is shown to whoever opens `/` in a browser.
    pub page: Arc<Page>,
    /// All metrics of the process.
    pub registry: Registry,
    /// Whether writes are taken, else why not.
    pub ready: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// The state that `/status` shows.
    pub status: Box<dyn Fn() -> serde_json::Value + Send + Sync>,
}

/// An answer: whole, or a stream without an end.
type Answer = Response<Either<Full<Bytes>, Viewer>>;

/// The answer to a question from there.
pub async fn answer(
    request: &Request<Incoming>,
    peer: IpAddr,
    access: &Access,
    sources: &Sources,
) -> Answer {
    let whole = match answered(request, peer, access, sources).await {
        Some(whole) => whole,
        None => match sources.page.join(takes_gzip(request.headers())) {
            Some(viewer) => {
                let head = reply(StatusCode::OK, "text/event-stream", Bytes::new());
                let mut head = head.map(|_| Either::Right(viewer));
                if takes_gzip(request.headers()) {
                    let gzip = HeaderValue::from_static("gzip");
                    head.headers_mut().insert(CONTENT_ENCODING, gzip);
                }
                // A proxy in between is not to wait for more.
                head.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
                return head;
            }
            None => crowded(),
        },
    };
    whole.map(Either::Left)
}

/// The answer to all that is not the stream; `None` is that.
async fn answered(
    request: &Request<Incoming>,
    peer: IpAddr,
    access: &Access,
    sources: &Sources,
) -> Option<Response<Full<Bytes>>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "the admin port only answers questions: use GET\n".into();
        let mut refused = reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", text);
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        // What follows may be a body that nobody will read.
        refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return Some(refused);
    }
    let path = request.uri().path();
    if let Some(answer) = probed(path, sources) {
        return Some(answer);
    }
    let want = if path.starts_with("/debug/") { Want::Profile } else { Want::Look };
    if let Err(refusal) = access.admit(request.headers(), peer, want).await {
        return Some(refused(refusal));
    }
    let answer = match path {
        // A head has no stream behind it, and takes no seat.
        "/live" if *request.method() == Method::HEAD => {
            reply(StatusCode::OK, "text/event-stream", Bytes::new())
        }
        "/live" => return None,
        "/" if !wants_html(request.headers()) => reply(StatusCode::OK, "text/plain", PATHS.into()),
        "/help" => reply(StatusCode::OK, "text/plain", PATHS.into()),
        "/history" => history(request, &sources.page).await,
        "/metrics" => {
            let text = sources.registry.render().into();
            reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        "/status" => reply(StatusCode::OK, "application/json", line(&(sources.status)())),
        "/debug/pprof/profile" => profile(request.uri().query().unwrap_or_default()).await,
        path => match assets::at(path) {
            Some(asset) => shown(asset, takes_gzip(request.headers())),
            None => {
                let text = format!("there is no {path}; there is\n\n{PATHS}").into();
                reply(StatusCode::NOT_FOUND, "text/plain", text)
            }
        },
    };
    Some(answer)
}

/// The policy of everything that a browser may show: nothing from elsewhere, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";
/// The longest name of a server that may be asked for.
const NAMED_BYTES_MAX: usize = 200;

/// Whether a browser asks, rather than a program that takes anything.
fn wants_html(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).iter();
    accepts.filter_map(|value| value.to_str().ok()).any(|value| value.contains("text/html"))
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = weight.trim().trim_end_matches(['0', '.']) == "q=";
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// A file of the page.
fn shown(asset: &assets::Asset, gzip: bool) -> Response<Full<Bytes>> {
    let body = if gzip { asset.gzip() } else { asset.plain() };
    let mut answer = reply(StatusCode::OK, asset.kind, body);
    let headers = answer.headers_mut();
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    answer
}

async fn history(request: &Request<Incoming>, page: &Arc<Page>) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let named = pairs.find(|(key, _)| key == "of").map(|(_, value)| value.into_owned());
    let named = named.filter(|named| named.len() <= NAMED_BYTES_MAX);
    let (page, gzip) = (Arc::clone(page), takes_gzip(request.headers()));
    let made = tokio::task::spawn_blocking(move || page.history(named.as_deref(), gzip));
    let Ok(Ok(body)) = made.await else {
        let text = "Weir is stopping\n".into();
        return reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain", text);
    };
    let mut answer = reply(StatusCode::OK, "application/json", body.into());
    if gzip {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// Why there is no seat for one more viewer.
fn crowded() -> Response<Full<Bytes>> {
    let text = format!("{VIEWERS_MAX} viewers look at this Weir already: close one\n");
    let mut refused = reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain", text.into());
    refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    refused
}

/// What load balancers and supervisors ask, whoever they are and by whatever name.
fn probed(path: &str, sources: &Sources) -> Option<Response<Full<Bytes>>> {
    let (status, body) = match path {
        "/health" => {
            (StatusCode::OK, json!({ "status": "pass", "version": env!("CARGO_PKG_VERSION") }))
        }
        "/ready" => match (sources.ready)() {
            Ok(()) => (StatusCode::OK, json!({ "ready": true })),
            Err(reason) => {
                (StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false, "reason": reason }))
            }
        },
        _ => return None,
    };
    Some(reply(status, "application/json", line(&body)))
}

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    let (status, words) = match refusal {
        Refusal::Host(name) => {
            let words = format!(
                "this port is not asked as {name:?}: use its address or localhost, or add the \
                 name to hosts in [admin]\n"
            );
            (StatusCode::FORBIDDEN, words)
        }
        Refusal::Unknown => {
            let words = "a user of [[admin.user]] or the token of [admin] is needed\n".to_owned();
            (StatusCode::UNAUTHORIZED, words)
        }
        Refusal::Forbidden => {
            let words = "CPU profiles need an [[admin.user]] with admin = true\n".to_owned();
            (StatusCode::FORBIDDEN, words)
        }
        Refusal::Unavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, "no password can be checked now\n".to_owned())
        }
    };
    let mut refused = reply(status, "text/plain", words.into());
    if status == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_static("Basic realm=\"weir\", charset=\"UTF-8\"");
        refused.headers_mut().insert(WWW_AUTHENTICATE, realm);
    }
    refused
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
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

fn line(value: &serde_json::Value) -> Bytes {
    format!("{value}\n").into()
}
