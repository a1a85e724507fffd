//! Connections that begin with a question, and are used only where its answer is fit: another
//! server may have taken the address since the connection before.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use tower_service::Service;

use super::{ANSWER_BYTES_MAX, Whole, chain, read};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What each connection to a server begins with.
pub trait Greeting: fmt::Debug + Send + Sync {
    /// What the next connection begins with; `None` where nothing is asked.
    fn begin(&self) -> Option<Exchange>;
}

/// A question at the beginning of a connection, and what becomes of its answer.
pub struct Exchange {
    /// The headers of `POST /query`.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the connection is used, by the answer.
    pub judge: Judge,
}

/// Says by an answer why the connection is not used, in words, where it is not.
pub type Judge = Box<dyn FnOnce(&Whole) -> Result<(), String> + Send>;

/// Makes connections by another connector, and greets on each.
#[derive(Clone)]
pub struct Greeter<C> {
    connector: C,
    greeting: Option<Arc<dyn Greeting>>,
    /// The path of `/query` on the server.
    path: Arc<str>,
    authorization: Arc<ArcSwapOption<HeaderValue>>,
    timeout: Duration,
}

/// The server is not the one that is meant.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnfitError(String);

/// There was no answer to the greeting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct GreetingError(String);

impl<C> Greeter<C> {
    /// Greets at `path` where there is a greeting, for at most `timeout`.
    pub fn new(
        connector: C,
        greeting: Option<Arc<dyn Greeting>>,
        path: &str,
        authorization: &Arc<ArcSwapOption<HeaderValue>>,
        timeout: Duration,
    ) -> Self {
        let authorization = Arc::clone(authorization);
        Self { connector, greeting, path: path.into(), authorization, timeout }
    }
}

impl<C> Service<Uri> for Greeter<C>
where
    C: Service<Uri>,
    C::Response: Read + Write + Unpin + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = uri.authority().map(ToString::to_string).unwrap_or_default();
        let connecting = self.connector.call(uri);
        let greeting = self.greeting.clone();
        let (path, timeout) = (Arc::clone(&self.path), self.timeout);
        let authorization = self.authorization.load_full();
        Box::pin(async move {
            let connection = connecting.await.map_err(Into::into)?;
            let Some(greeting) = greeting else { return Ok(connection) };
            let Some(exchange) = greeting.begin() else { return Ok(connection) };
            let Exchange { mut headers, body, judge } = exchange;
            headers.insert(header::HOST, host.parse()?);
            if let Some(value) = authorization {
                headers.insert(header::AUTHORIZATION, HeaderValue::clone(&value));
            }
            let mut request = Request::new(Full::new(body));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = path.parse()?;
            *request.headers_mut() = headers;
            let greeted = tokio::time::timeout(timeout, greet(connection, request)).await;
            let late = |_| GreetingError(format!("no answer to the greeting within {timeout:?}"));
            let (connection, answer) = greeted.map_err(late)??;
            judge(&answer).map_err(UnfitError)?;
            Ok(connection)
        })
    }
}

/// Sends one request and reads its answer; gives the connection back.
async fn greet<T>(connection: T, request: Request<Full<Bytes>>) -> Result<(T, Whole), BoxError>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(connection).await?;
    let asking = async move {
        let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
        let (head, body) = response.into_parts();
        let body = read(body, ANSWER_BYTES_MAX).await?;
        // With the sender the exchange ends, and the connection comes back.
        Ok::<_, BoxError>(Whole { status: head.status.as_u16(), headers: head.headers, body })
    };
    let (answer, parts) = tokio::join!(asking, connection.without_shutdown());
    let answer = answer?;
    let parts = parts?;
    if !parts.read_buf.is_empty() {
        return Err(GreetingError("it says more than it was asked".to_owned()).into());
    }
    Ok((parts.io, answer))
}

fn lost(error: &hyper::Error) -> GreetingError {
    GreetingError(chain(error))
}
