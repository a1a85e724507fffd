//! One HTTP connection: its limits, its requests in turn, and the way of each to its handler.
//! Plain writes go the short way ([`super::short`]) until something else comes.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use flow::drain::Started;
use flow::progress::Progress;
use flow::stream::Stream;
use http::header::{ALLOW, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;

use super::Front;
use super::answer::{self, Answer};
use super::auth::User;
use super::origin::Page;
use super::request_id::{REQUEST_ID, X_REQUEST_ID};
use super::requests::Requests;
use super::stamp::Stamp;
use super::writer::ConnectionSource;
use super::{ping, query, short, vars, write};
use crate::via;

const VERSION: HeaderName = HeaderName::from_static("x-influxdb-version");
const BUILD: HeaderName = HeaderName::from_static("x-influxdb-build");
/// What clients take for the open-source server, as opposed to `ENT`.
pub static OSS: HeaderValue = HeaderValue::from_static("OSS");
/// Header fields of one request; past that hyper answers 431.
const HEADERS_MAX: usize = 100;

/// What a request may need to know of its connection.
pub struct Connection {
    /// The tags that go on its points.
    pub stamp: Stamp,
    /// What its points are told from others by.
    pub source: ConnectionSource,
    /// Where it is said what the connection does, so that a slow client is cut off.
    pub progress: Progress,
    /// Where it comes from.
    pub peer: IpAddr,
    /// Whether it is encrypted.
    pub tls: bool,
    /// Closes it where its client reads nothing and others are to have what that takes.
    pub hang_up: Arc<Notify>,
}

impl Connection {
    /// Whose its last request was.
    pub fn note_user(&self, user: Option<&User>) {
        self.progress.set_user(user.map(|user| &*user.name));
    }
}

/// Serves a connection until the client or the drain ends it.
pub async fn serve(front: Rc<Front>, stream: Stream, peer: SocketAddr) {
    let live = front.gateway.live();
    let connection = Rc::new(Connection {
        stamp: Stamp::of(&live.stamp, peer),
        source: ConnectionSource::new(peer),
        progress: stream.progress().clone(),
        peer: peer.ip(),
        tls: stream.is_tls(),
        hang_up: Arc::default(),
    });
    drop(live);
    let mut draining = std::pin::pin!(front.worker.drain.started());
    let rest = short::serve(front.short.as_ref(), &connection, stream, draining.as_mut()).await;
    if let Some(stream) = rest {
        // In a place of its own, which a connection that only writes does not have.
        Box::pin(serve_rest(front.clone(), connection, stream, peer, draining)).await;
    }
}

/// Serves all that comes from now on.
async fn serve_rest(
    front: Rc<Front>,
    connection: Rc<Connection>,
    stream: Stream,
    peer: SocketAddr,
    draining: Pin<&mut Started>,
) {
    let live = front.gateway.live();
    let service = service_fn(|request| {
        let (front, connection) = (front.clone(), connection.clone());
        async move { Ok::<_, Infallible>(respond(&front, &connection, request).await) }
    });
    let mut server = http1::Builder::new();
    // Not `pipeline_flush`: it keeps each answer back, and all of a long one in memory, while any
    // byte of what follows the request is there, be it an empty line.
    server.half_close(true).max_headers(HEADERS_MAX).max_buf_size(live.limits.head_max);
    drop(live);
    let mut serving = server.serve_connection(TokioIo::new(Requests::of(stream)), service);
    let mut hung_up = std::pin::pin!(connection.hang_up.notified());
    let served = async {
        tokio::select! {
            ended = &mut serving => ended,
            () = draining => {
                Pin::new(&mut serving).graceful_shutdown();
                (&mut serving).await
            }
        }
    };
    let ended = tokio::select! {
        ended = served => ended,
        () = &mut hung_up => {
            let why = "its answer is not read, and there are too many";
            tracing::debug!(%peer, "connection closed: {why}");
            return;
        }
    };
    if let Err(error) = &ended {
        // A client that goes or talks nonsense is its own affair; hyper has answered 400 or 431.
        tracing::debug!(%peer, %error, "connection ended early");
    }
    if ended.is_err() || !front.worker.drain.is_started() {
        serving.into_parts().io.into_inner().linger().await;
    }
}

/// The whole way of a request: handler, then the headers that every answer has.
async fn respond(front: &Front, connection: &Connection, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    connection.progress.body();
    let id = front.ids.of(&head.headers);
    let page = Page::of(&head, connection.tls, &front.gateway.live().origins);
    let mut answer = match page.refusal(&head).or_else(|| returned(&head)) {
        Some(refusal) => refusal,
        None => route(front, connection, &head, body).await,
    };
    connection.progress.idle();
    let headers = answer.headers_mut();
    for (name, value) in on_every_answer(&front.gateway.live().version.header, &OSS, &id.to_value())
    {
        headers.insert(name, value.clone());
    }
    page.put_headers(headers);
    front.gateway.metrics.answered(answer.status());
    answer
}

/// The headers that every answer has, in their order.
pub fn on_every_answer<V: Copy>(version: V, build: V, id: V) -> [(HeaderName, V); 4] {
    [(VERSION, version), (BUILD, build), (X_REQUEST_ID, id), (REQUEST_ID, id)]
}

/// The answer to a request that this Weir has sent itself, through whatever lies between.
fn returned(head: &Parts) -> Option<Answer> {
    via::has_been_here(&head.headers).then(|| {
        let words = "this Weir has sent that itself: one of its backends leads back to it, \
                     directly or through others; give that backend's url the server's own address";
        answer::error(StatusCode::LOOP_DETECTED, words)
    })
}

async fn route(front: &Front, connection: &Connection, head: &Parts, body: Incoming) -> Answer {
    let path = head.uri.path();
    if let Some(api) = write::Api::at(path).filter(|_| head.method == Method::POST) {
        return write::serve(front, connection, api, head, body).await;
    }
    match (&head.method, path) {
        (&Method::GET | &Method::POST, "/query") => {
            query::serve(front, connection, head, body).await
        }
        (&Method::GET | &Method::HEAD, "/ping") => ping::ping(front, head),
        (&Method::GET | &Method::HEAD, "/status") => answer::empty(StatusCode::NO_CONTENT),
        (&Method::GET, "/health") => ping::health(front),
        (&Method::GET | &Method::HEAD, "/ready") => ping::ready(front),
        (&Method::GET, "/debug/vars") => vars::serve(front, connection.peer, head).await,
        (&Method::OPTIONS, "/write" | "/query") => answer::empty(StatusCode::OK),
        (&Method::POST, "/api/v2/query") => answer::text(
            StatusCode::FORBIDDEN,
            &b"Flux query service disabled. Weir forwards InfluxQL only, at /query.\n"[..],
        ),
        (_, "/write") => wrong_method("OPTIONS, POST"),
        (_, "/query") => wrong_method("GET, OPTIONS, POST"),
        (_, "/api/v2/write" | "/api/v2/query") => wrong_method("POST"),
        (_, "/ping" | "/status" | "/ready") => wrong_method("GET, HEAD"),
        (_, "/health" | "/debug/vars") => wrong_method("GET"),
        _ => answer::text(StatusCode::NOT_FOUND, &b"404 page not found\n"[..]),
    }
}

fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = answer::text(StatusCode::METHOD_NOT_ALLOWED, &b"Method Not Allowed\n"[..]);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}
