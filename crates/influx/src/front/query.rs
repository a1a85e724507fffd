//! `/query`: statements that read go to a backend as they are, statements that change something
//! become records of the journal and run on every backend at their place among the writes.

mod fetching;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use flow::memory::MemoryShare;
use futures_util::future::try_join_all;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use wire::influxql::{self, Change, Kind, Statement, ast};

use super::answer::{self, Answer, Refusal};
use super::ask;
use super::auth::User;
use super::body::Whole;
use super::changes::Changes;
use super::credentials::Asker;
use super::execution::Reader;
use super::http::Connection;
use super::joint::{Epoch, JointQuery};
use super::parameters::{AnswerUse, Parameters};
use super::parking::Bounds;
use super::passed::{Passed, passed_on};
use super::results::{self, Results};
use super::routing::{self, Answering, Candidates, Route, route};
use super::stages::PARSE;
use super::unsent::Unsent;
use super::{Front, body, gzip};
use crate::aside::TEXT_AT_ONCE_MAX;
use crate::client::form_body;
use crate::embedded::Network;
use crate::placement::{DATABASE, QueryScope, SetNumber};

/// What an answer that is passed on may take of memory, read from the backend and not yet sent.
const PASSED_BYTES: usize = 512 << 10;
/// What a result that Weir reads may take of memory for each of its bytes.
const READ_FACTOR: usize = 4;
/// What the result of a statement that is not executed is long.
const NOT_EXECUTED_BYTES: usize = 45;
/// The most that is read of one statement's result where Weir joins several results itself.
const JOINED_RESULT_MAX: usize = 64 << 20;
/// Answers a `/query` request.
pub async fn serve(front: &Front, connection: &Connection, head: &Parts, body: Incoming) -> Answer {
    match parameters(front, head, body).await {
        Err(refusal) => refusal,
        // The share is kept until the answer begins.
        Ok((parameters, _share)) => {
            connection.progress.serving();
            let begun = Instant::now();
            let parameters = &Arc::new(parameters);
            let request = Request { front, connection, head, parameters };
            let answered = request.answer().await;
            front.gateway.metrics.queried(begun.elapsed());
            let answer =
                answered.unwrap_or_else(|refusal| answer::in_form_of(refusal, request.format()));
            gzip::finished(answer, &head.headers, &front.gateway.control).await
        }
    }
}

/// The form's parameters, then the URL's.
async fn parameters(
    front: &Front,
    head: &Parts,
    body: Incoming,
) -> Result<(Parameters, MemoryShare), Answer> {
    let mut parameters = Parameters::default();
    let memory = &front.gateway.memory.bodies;
    let mut share = memory.none();
    if head.method == Method::POST {
        let gateway = &front.gateway;
        let whole = body::read(&head.headers, body, gateway.live().limits, memory).await?;
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        (parameters, share) = match whole.at_once(TEXT_AT_ONCE_MAX, &front.worker.pulse)? {
            Some(bytes) => (form(&kind, bytes).await?, whole.share),
            None => {
                let control = gateway.control.clone();
                let form = move || control.block_on(large_form(&kind, whole));
                gateway.aside.run(form).await??
            }
        };
    }
    parameters.extend(head.uri.query().unwrap_or_default().as_bytes());
    Ok((parameters, share))
}

/// A form that may take long to read; its pairs are about as long as it is.
async fn large_form(kind: &str, whole: Whole) -> Result<(Parameters, MemoryShare), Refusal> {
    let Whole { bytes, mut share, .. } = whole.unfolded()?;
    if !share.grow(bytes.len()) {
        return Err(body::no_memory().into());
    }
    Ok((form(kind, bytes).await?, share))
}

/// The pairs of a form of any kind that there is.
async fn form(kind: &str, bytes: Bytes) -> Result<Parameters, Answer> {
    let mut parameters = Parameters::default();
    match multer::parse_boundary(kind) {
        Ok(boundary) => multipart(&mut parameters, bytes, boundary).await?,
        Err(_) if kind.starts_with("application/x-www-form-urlencoded") => {
            parameters.extend(&bytes);
        }
        Err(_) => {}
    }
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

/// What a request's text says. There may be millions of statements, so that nothing is done with
/// each of them on the worker.
struct ParsedQuery {
    /// Where each statement is in the text, and what it does.
    written: Vec<(Range<usize>, Kind)>,
    /// The statements for the store, where it is to answer.
    asked: Option<(Vec<String>, Vec<ast::Statement>)>,
    /// Where each statement is asked, in a cluster.
    routes: Option<Vec<Route>>,
}

impl ParsedQuery {
    /// Reads the text, and looks whether the user may do what it says.
    fn of(
        parameters: &Parameters,
        user: Option<&User>,
        answering: &Answering,
    ) -> Result<Self, Answer> {
        let (q, params) = (parameters.get("q").trim(), parameters.get("params"));
        if !params.is_empty() {
            serde_json::from_str::<serde_json::Map<String, Value>>(params)
                .map_err(|e| bad_request(&format!("error parsing query parameters: {e}")))?;
        }
        // What the store reads to its end knows better what is wrong.
        let parsed = match answering {
            Answering::Copies => None,
            Answering::Store | Answering::Sets(..) => Some(ask::parse(q, params)?),
        };
        let statements = influxql::split(q).map_err(|e| bad_request(&e.to_string()))?;
        if let Some(user) = user {
            let named = parameters.get("db");
            statements.iter().try_for_each(|statement| authorise(user, statement, named))?;
        }
        let texts = || statements.iter().map(|statement| statement.text.to_owned()).collect();
        let (asked, routes) = match (parsed, answering) {
            (Some(parsed), Answering::Sets(table, now_ns)) => {
                let scope = QueryScope { db: parameters.get("db"), now_ns: *now_ns };
                let routes = parsed.iter().zip(&statements).map(|(parsed, written)| {
                    let hidden = routing::hidden(&written.databases(), scope.db);
                    hidden.unwrap_or_else(|| route(table, parsed, scope))
                });
                (None, Some(routes.collect()))
            }
            (parsed, _) => (parsed.map(|parsed| (texts(), parsed)), None),
        };
        let place = |statement: Statement<'_>| {
            let begin = (statement.text.as_ptr() as usize).saturating_sub(q.as_ptr() as usize);
            (begin..begin + statement.text.len(), statement.kind)
        };
        Ok(Self { written: statements.into_iter().map(place).collect(), asked, routes })
    }
}

/// AnswerUse needs the right to read, deleting the right to write, all else an administrator
/// (`influxql`, `RequiredPrivileges`).
fn authorise(user: &User, statement: &Statement<'_>, named: &str) -> Result<(), Answer> {
    if user.admin || statement.kind == Kind::ShowDatabases {
        return Ok(());
    }
    let mut databases = statement.databases();
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

/// One `/query` request with its parameters read.
pub(super) struct Request<'a> {
    pub(super) front: &'a Front,
    pub(super) connection: &'a Connection,
    pub(super) head: &'a Parts,
    pub(super) parameters: &'a Arc<Parameters>,
}

impl Request<'_> {
    async fn answer(&self) -> Result<Answer, Answer> {
        let (name, password) = (self.parameters.get("u"), self.parameters.get("p"));
        let auth = &self.front.gateway.auth;
        let asker = Asker { peer: self.connection.peer, database: self.parameters.get("db") };
        let user = auth.user(name.into(), password.into(), &self.head.headers, &asker).await?;
        self.connection.note_user(user.as_deref());
        let q = self.parameters.get("q").trim();
        if q.is_empty() {
            return Err(bad_request("missing required parameter \"q\""));
        }
        let embedded = self.front.gateway.embedded()?;
        let answering = self.answering(embedded.is_some());
        let mut said = self.said(user.clone(), answering.clone()).await?;
        if let Some((embedded, asked)) = embedded.zip(said.asked.take()) {
            return self.ask(embedded, user, q, asked).await;
        }
        let reads_only = said.written.iter().all(|(_, kind)| is_read(kind));
        let metrics = &self.front.gateway.metrics;
        said.routes.iter().flatten().filter_map(Route::way).for_each(|way| metrics.routed(way));
        let common = match &said.routes {
            Some(routes) => routing::common(routes),
            None => Some(Route::Any),
        };
        if let Some(route) = common.filter(|_| reads_only) {
            let text = answering.frozen(q);
            let from = answering.candidates(&self.front.gateway.deliveries.backends, &route);
            let headers = gzip::for_backend(&self.head.headers);
            return self.forward(from, &text, AnswerUse::Passed, &headers).await;
        }
        if let (Some([Route::Fetch(sets, plan, _)]), Answering::Sets(_, now_ns)) =
            (said.routes.as_deref(), &answering)
        {
            let fetched = (sets.as_slice(), &**plan);
            return self.fetch(q, fetched, (&answering, *now_ns)).await;
        }
        let (mut results, share) = self.one_by_one(q, &said, &answering).await?;
        if self.parameters.get("async") == "true" {
            return Ok(answer::empty(StatusCode::NO_CONTENT));
        }
        let (pretty, count) = (self.is_pretty(), said.written.len());
        let bytes = share.bytes() / READ_FACTOR + (count - results.len()) * NOT_EXECUTED_BYTES;
        let render = move || {
            while results.len() < count {
                results.push_error("not executed");
            }
            results.render(pretty)
        };
        let document = self.front.gateway.aside.run_if_long(bytes, render).await?;
        Ok(answer::json(StatusCode::OK, document))
    }

    /// What the text says, read elsewhere where it is long.
    async fn said(
        &self,
        user: Option<Arc<User>>,
        answering: Answering,
    ) -> Result<ParsedQuery, Answer> {
        let bytes = self.parameters.get("q").len() + self.parameters.get("params").len();
        if bytes <= TEXT_AT_ONCE_MAX {
            let _stage = self.front.worker.pulse.enter_sized(&PARSE, bytes);
            return ParsedQuery::of(self.parameters, user.as_deref(), &answering);
        }
        let parameters = Arc::clone(self.parameters);
        let read = move || {
            ParsedQuery::of(&parameters, user.as_deref(), &answering).map_err(Refusal::from)
        };
        Ok(self.front.gateway.aside.run(read).await??)
    }

    fn answering(&self, has_store: bool) -> Answering {
        match self.front.gateway.deliveries.backends.placement().in_force() {
            _ if has_store => Answering::Store,
            Some(table) => Answering::Sets(table, super::now_ns()),
            None => Answering::Copies,
        }
    }

    /// Passes the request on to the best backend; to the next one where it does not begin to
    /// answer.
    async fn forward(
        &self,
        candidates: Candidates,
        q: &str,
        use_of: AnswerUse,
        headers: &HeaderMap,
    ) -> Result<Answer, Answer> {
        let share = self.front.gateway.answer_share(PASSED_BYTES)?;
        let mut reasons = Vec::new();
        let (text, parameters) = (q.to_owned(), Arc::clone(self.parameters));
        let form = move || form_body(parameters.for_backend(&text, use_of));
        let form = self.front.gateway.aside.run_if_long(q.len(), form).await?;
        for backend in &candidates.backends {
            match backend.query(form.clone(), headers).await {
                Ok(response) if response.status().is_server_error() => {
                    let (name, status) = (backend.name(), response.status());
                    reasons.push(format!("backend {name:?} answered {status}"));
                }
                Ok(response) => {
                    let passed = |body| self.passed(body, share);
                    return Ok(passed_on(response, backend, passed));
                }
                Err(error) if candidates.set.is_some() => {
                    reasons.push(format!("{}: {error}", backend.name()));
                }
                Err(error) => reasons.push(error.to_string()),
            }
        }
        self.front.gateway.metrics.query_failed();
        Err(answer::unavailable(&candidates.unanswered(&reasons), 1))
    }

    /// A backend's answer for this client.
    fn passed(&self, body: Incoming, share: MemoryShare) -> Passed {
        let gateway = &self.front.gateway;
        let unsent = Unsent::new(share, gateway.memory.answers.clone());
        Passed::new(body, self.reader(unsent, 0), gateway.control.clone())
    }

    /// The client, whose query may hold so much while it does not read.
    pub(super) fn reader(&self, unsent: Arc<Unsent>, query_bytes: usize) -> Reader {
        let gateway = &self.front.gateway;
        let bounds = Bounds { query_bytes, ..gateway.live().unread };
        Reader {
            unsent,
            parking: Arc::clone(&gateway.memory.parking),
            bounds,
            from: Network::of(self.connection.peer),
            hang_up: Arc::clone(&self.connection.hang_up),
        }
    }

    /// Runs statements of which some change something, up to the first error.
    async fn one_by_one(
        &self,
        q: &str,
        said: &ParsedQuery,
        answering: &Answering,
    ) -> Result<(Results, MemoryShare), Answer> {
        let mut results = Results::default();
        let mut share = self.front.gateway.memory.answers.none();
        for (number, (place, kind)) in said.written.iter().enumerate() {
            let text = q.get(place.clone()).unwrap_or_default();
            let route = said.routes.as_ref().and_then(|routes| routes.get(number));
            let route = route.unwrap_or(&Route::Any);
            let result = match (route, kind) {
                (Route::Refused(why), _) => json!({ "error": why }),
                (Route::Explained(words), _) => {
                    let plan = json!({ "columns": ["QUERY PLAN"], "values": [[words]] });
                    json!({ "series": [plan] })
                }
                (Route::Databases, _) => {
                    let from = answering.candidates(&self.front.gateway.deliveries.backends, route);
                    let all = self.read(from, text, AnswerUse::Whole, &mut share).await?;
                    results::without_row(all, DATABASE)
                }
                (Route::Each(sets, query), _) => {
                    self.of_each((sets, query), answering, &mut share).await?
                }
                (Route::Fetch(sets, plan, _), _) => {
                    let fetched = (sets.as_slice(), &**plan);
                    self.fetched(text, fetched, answering, &mut share).await?
                }
                (route, kind) if is_read(kind) => {
                    let from = answering.candidates(&self.front.gateway.deliveries.backends, route);
                    self.read(from, &answering.frozen(text), AnswerUse::Whole, &mut share).await?
                }
                (_, Kind::Change(change)) => self.changes().run(text, change).await?,
                _ => self.changes().run_everywhere(text).await,
            };
            if !results.push(result) {
                break;
            }
        }
        Ok((results, share))
    }

    /// What several sets answer together; they are asked at the same time.
    async fn of_each(
        &self,
        (sets, query): (&[SetNumber], &JointQuery),
        answering: &Answering,
        share: &mut MemoryShare,
    ) -> Result<Value, Answer> {
        let gateway = &self.front.gateway;
        let epoch = Epoch::read(self.parameters.get("epoch")).unwrap_or(Epoch::Text);
        let (backends, text) = (&gateway.deliveries.backends, &answering.frozen(&query.text));
        let parts = sets.iter().map(|set| async move {
            let mut share = gateway.memory.answers.none();
            let from = answering.candidates(backends, &Route::Set(*set));
            let part = self.read(from, text, AnswerUse::Counted, &mut share).await?;
            Ok::<_, Answer>((part, share))
        });
        let parts = try_join_all(parts).await?;
        let bytes: usize = parts.iter().map(|(_, share)| share.bytes()).sum();
        let (parts, shares): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        drop(shares);
        if !share.grow(bytes) {
            return Err(gateway.no_answer_memory());
        }
        let query = query.clone();
        Ok(gateway.aside.run_if_long(bytes, move || query.answer(parts, epoch)).await?)
    }

    fn changes(&self) -> Changes<'_> {
        let is_get = self.head.method == Method::GET;
        Changes { front: self.front, parameters: self.parameters, is_get }
    }

    async fn read(
        &self,
        from: Candidates,
        text: &str,
        use_of: AnswerUse,
        share: &mut MemoryShare,
    ) -> Result<Value, Answer> {
        // Weir reads this answer itself: it is to be JSON, and not compressed.
        let answer = self.forward(from, text, use_of, &HeaderMap::new()).await?;
        let mut body = Limited::new(answer.into_body(), JOINED_RESULT_MAX);
        let mut document = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let part = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => {
                    let error = format!("the backend's answer broke off: {error}");
                    return Ok(json!({ "error": error }));
                }
            };
            if !share.grow(part.len().saturating_mul(READ_FACTOR)) {
                return Err(self.front.gateway.no_answer_memory());
            }
            document.extend_from_slice(&part);
        }
        let bytes = document.len();
        let read = move || results::single(&document);
        Ok(self.front.gateway.aside.run_if_long(bytes, read).await?)
    }
}

fn bad_request(message: &str) -> Answer {
    answer::error(StatusCode::BAD_REQUEST, message)
}

/// Whether a statement is for one backend to answer, and changes nothing on it.
fn is_read(kind: &Kind) -> bool {
    matches!(kind, Kind::Read | Kind::ShowDatabases | Kind::ReadAsAdmin | Kind::Local)
}
