//! `/query`: statements that read go to a backend as they are, statements that change something
//! become records of the journal and run on every backend at their place among the writes.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use wire::influxql::{self, Change, Kind, Statement};

use super::answer::{self, Answer, Content};
use super::auth::User;
use super::http::Connection;
use super::parameters::Parameters;
use super::results::{self, Results};
use super::{Front, body};
use crate::record;

/// How long a client waits for the backends to run its statement, before it hears who follows.
const STATEMENT_WAIT: Duration = Duration::from_secs(5);
/// The most that is read of one statement's result where Weir joins several results itself.
const JOINED_RESULT_MAX: usize = 64 << 20;
/// Says how far behind the backend is that answered.
const BEHIND: HeaderName = HeaderName::from_static("x-weir-behind");
/// InfluxDB's words, where it refused.
const ERROR: HeaderName = HeaderName::from_static("x-influxdb-error");
/// Names the backend that answered.
const BACKEND: HeaderName = HeaderName::from_static("x-weir-backend");

/// Answers a `/query` request.
pub async fn serve(front: &Front, connection: &Connection, head: &Parts, body: Incoming) -> Answer {
    match parameters(front, head, body).await {
        Err(refusal) => refusal,
        Ok(parameters) => {
            connection.progress.serving();
            let request = Request { front, connection, head, parameters: &parameters };
            let answered = request.answer().await;
            answered.unwrap_or_else(|refusal| answer::in_form_of(refusal, request.format()))
        }
    }
}

/// The form's parameters, then the URL's.
async fn parameters(front: &Front, head: &Parts, body: Incoming) -> Result<Parameters, Answer> {
    let mut parameters = Parameters::default();
    if head.method == Method::POST {
        let (limits, pulse) = (front.gateway.live().limits, &front.worker.pulse);
        let bytes = body::read(&head.headers, body, limits, pulse).await?;
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        match kind.map(|kind| (kind, multer::parse_boundary(kind))) {
            Some((_, Ok(boundary))) => multipart(&mut parameters, bytes, boundary).await?,
            Some((kind, _)) if kind.starts_with("application/x-www-form-urlencoded") => {
                parameters.extend(&bytes);
            }
            _ => {}
        }
    }
    parameters.extend(head.uri.query().unwrap_or_default().as_bytes());
    Ok(parameters)
}

async fn multipart(
    parameters: &mut Parameters,
    bytes: Bytes,
    boundary: String,
) -> Result<(), Answer> {
    let bad = |e: multer::Error| answer::error(StatusCode::BAD_REQUEST, &e.to_string());
    let once = futures_util::stream::once(async { Ok::<_, std::convert::Infallible>(bytes) });
    let mut form = multer::Multipart::new(once, boundary);
    while let Some(field) = form.next_field().await.map_err(bad)? {
        let Some(name) = field.name().map(str::to_owned) else { continue };
        parameters.push(&name, field.text().await.map_err(bad)?);
    }
    Ok(())
}

/// One `/query` request with its parameters read.
pub(super) struct Request<'a> {
    pub(super) front: &'a Front,
    pub(super) connection: &'a Connection,
    pub(super) head: &'a Parts,
    pub(super) parameters: &'a Parameters,
}

impl Request<'_> {
    async fn answer(&self) -> Result<Answer, Answer> {
        let (name, password) = (self.parameters.get("u"), self.parameters.get("p"));
        let auth = &self.front.gateway.auth;
        let user = auth.user(name.into(), password.into(), &self.head.headers).await?;
        let q = self.parameters.get("q").trim();
        if q.is_empty() {
            return Err(bad_request("missing required parameter \"q\""));
        }
        let params = self.parameters.get("params");
        if !params.is_empty() {
            serde_json::from_str::<serde_json::Map<String, Value>>(params)
                .map_err(|e| bad_request(&format!("error parsing query parameters: {e}")))?;
        }
        // What the store reads to its end knows better what is wrong.
        let embedded = self.front.gateway.embedded()?;
        let embedded = embedded.map(|embedded| Ok((embedded, self.parse(q)?))).transpose()?;
        let statements = influxql::split(q).map_err(|e| bad_request(&e.to_string()))?;
        if let Some(user) = &user {
            for statement in &statements {
                self.authorise(user, statement)?;
            }
        }
        if let Some((embedded, statements)) = embedded {
            return self.ask(embedded, user, q, statements).await;
        }
        let reads_only = statements.iter().all(|s| is_read(&s.kind));
        if reads_only {
            return self.forward(q).await;
        }
        let results = self.one_by_one(&statements).await?;
        if self.parameters.get("async") == "true" {
            return Ok(answer::empty(StatusCode::NO_CONTENT));
        }
        Ok(answer::json(StatusCode::OK, results.render(self.is_pretty())))
    }

    /// Reading needs the right to read, deleting the right to write, all else an administrator
    /// (`influxql`, `RequiredPrivileges`).
    fn authorise(&self, user: &User, statement: &Statement<'_>) -> Result<(), Answer> {
        if user.admin || statement.kind == Kind::ShowDatabases {
            return Ok(());
        }
        let mut databases = statement.databases();
        let named = self.parameters.get("db");
        if !named.is_empty() || databases.is_empty() {
            databases.push(named.to_owned());
        }
        let refused = |needs: &str| {
            let text = influxql::redact(statement.text);
            let why = format!("statement '{text}', requires {needs}");
            let message = format!("error authorizing query: {} not authorized: {why}", user.name);
            answer::error(StatusCode::FORBIDDEN, &message)
        };
        let (allowed, needs) = match &statement.kind {
            Kind::Read => {
                let all = databases.iter().all(|db| db.is_empty() || user.may_read(db));
                (all, format!("READ on {}", databases.join(", ")))
            }
            Kind::Change(Change::Delete | Change::DropSeries | Change::Into) => {
                let all = databases.iter().all(|db| user.may_write(db) && user.may_read(db));
                (all, format!("WRITE on {}", databases.join(", ")))
            }
            _ => (false, "admin privilege".to_owned()),
        };
        if allowed { Ok(()) } else { Err(refused(&needs)) }
    }

    /// Passes the request on to the best backend; to the next one where it does not begin to
    /// answer.
    async fn forward(&self, q: &str) -> Result<Answer, Answer> {
        let mut last = "no backend is reachable".to_owned();
        for backend in self.front.gateway.backends.candidates() {
            let form = std::iter::once(("q", q)).chain(self.parameters.forwarded());
            match backend.query(form, &self.head.headers).await {
                Ok(response) if response.status().is_server_error() => {
                    last = format!("backend {:?} answered {}", backend.name(), response.status());
                }
                Ok(response) => return Ok(passed_on(response, &backend)),
                Err(error) => last = error.to_string(),
            }
        }
        self.front.gateway.metrics.query_failed();
        Err(answer::unavailable(&format!("no backend answered the query: {last}"), 1))
    }

    /// Runs statements of which some change something, and stops at the first error.
    async fn one_by_one(&self, statements: &[Statement<'_>]) -> Result<Results, Answer> {
        let mut results = Results::default();
        for statement in statements {
            let result = match &statement.kind {
                kind if is_read(kind) => self.read(statement).await?,
                Kind::Change(change) => self.change(statement, change).await?,
                _ => self.everywhere(statement).await,
            };
            if !results.push(result) {
                break;
            }
        }
        while results.len() < statements.len() {
            results.push_error("not executed");
        }
        Ok(results)
    }

    async fn read(&self, statement: &Statement<'_>) -> Result<Value, Answer> {
        let answer = self.forward(statement.text).await?;
        match Limited::new(answer.into_body(), JOINED_RESULT_MAX).collect().await {
            Ok(body) => Ok(results::single(&body.to_bytes())),
            Err(error) => {
                Ok(json!({ "error": format!("the backend's answer broke off: {error}") }))
            }
        }
    }

    /// A statement with a password in it: on every backend now, or on none.
    async fn everywhere(&self, statement: &Statement<'_>) -> Value {
        let db = self.parameters.get("db");
        match self.front.gateway.backends.run_everywhere(statement.text, db).await {
            Ok(document) => results::single(&document),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }

    async fn change(&self, statement: &Statement<'_>, change: &Change) -> Result<Value, Answer> {
        let gateway = &self.front.gateway;
        let frozen = influxql::freeze_now(statement.text, super::now_ns());
        let (db, rp) = (self.parameters.get("db"), self.parameters.get("rp"));
        let params = self.parameters.get("params");
        let ticket = gateway.backends.statement();
        let record = record::Statement { id: ticket.id(), text: &frozen, db, rp, params };
        gateway.append_statement(&record, change).await?;
        let report = ticket.wait(STATEMENT_WAIT).await;
        let mut result = report.document().map_or_else(|| json!({}), |d| results::single(&d));
        if self.head.method == Method::GET {
            let text = format!(
                "deprecated use of '{}' in a read only context, please use a POST request instead",
                statement.text.trim()
            );
            results::add_message(&mut result, "warning", &text);
        }
        if !report.following.is_empty() {
            let text = format!("will run later on: {}", report.following.join(", "));
            results::add_message(&mut result, "info", &text);
        }
        Ok(result)
    }
}

/// A backend's answer as Weir's: its status, its kind, its body as it comes.
fn passed_on(response: http::Response<Incoming>, backend: &crate::backends::Backend) -> Answer {
    let (head, incoming) = response.into_parts();
    let mut answer = answer::empty(head.status);
    *answer.body_mut() = Content::Passed(incoming);
    let headers = answer.headers_mut();
    let passed = [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::RETRY_AFTER, ERROR];
    for name in passed {
        if let Some(value) = head.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    if let Ok(name) = HeaderValue::from_str(backend.name()) {
        headers.insert(BACKEND, name);
    }
    if let Some(behind) = backend.behind() {
        let seconds = HeaderValue::from_str(&format!("{:.3}", behind.as_secs_f64()));
        headers.extend(seconds.ok().map(|seconds| (BEHIND, seconds)));
    }
    answer
}

fn bad_request(message: &str) -> Answer {
    answer::error(StatusCode::BAD_REQUEST, message)
}

/// Whether a statement is for one backend to answer, and changes nothing on it.
fn is_read(kind: &Kind) -> bool {
    matches!(kind, Kind::Read | Kind::ShowDatabases | Kind::Local)
}
