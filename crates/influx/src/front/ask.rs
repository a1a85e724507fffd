//! `/query` answered by the store within this process: what reads runs on threads of queries and
//! streams, what changes something goes through the journal first.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use store::QueryError;
use store::notices::Notices;
use store::overreach;
use store::query::context::{Context, Target};
use store::query::encode::{self, Epoch, Format};
use store::query::registry::QueryRegistration;
use store::query::{self, ddl};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::influxql::ast::Statement;
use wire::influxql::{self, Params};

use super::answer::{self, Answer, Content};
use super::auth::User;
use super::execution::{Execution, Gate};
use super::gateway::Gateway;
use super::gzip;
use super::parameters::Parameters;
use super::query::Request;
use super::refusals::words_of;
use super::streamed::{Client, Made, Streamed};
use super::unsent::{self, Unsent};
use crate::admission::{self, NameError, Points, Refusal};
use crate::embedded::{Arrival, Embedded, Network, Queries, Turn, Turns};
use crate::record;

/// What every answer may take of memory before a query is begun.
const ANSWER_BYTES: usize = 256 << 10;
/// How long a query waits for its turn.
const TURN_WAIT: Duration = Duration::from_secs(30);
/// How long a statement may take on the store, and then on the other backends.
const STORE_WAIT: Duration = Duration::from_secs(60);
const OTHERS_WAIT: Duration = Duration::from_secs(5);

impl Request<'_> {
    /// How the answer is to look, as the request says.
    pub(super) fn format(&self) -> Format {
        let parameter = |name| self.parameters.get(name);
        let chunk_size = parameter("chunk_size").parse().ok().filter(|size| *size > 0);
        let chunked = parameter("chunked") == "true";
        let accept = self.head.headers.get_all(ACCEPT).into_iter();
        Format {
            csv: Format::accepts_csv(accept.filter_map(|accept| accept.to_str().ok())),
            pretty: self.is_pretty(),
            epoch: Epoch::of(parameter("epoch")),
            chunk_size: chunked.then(|| chunk_size.unwrap_or(encode::CHUNK_SIZE_DEFAULT)),
        }
    }

    /// Whether the answer is to be indented. Like InfluxDB, off the URL alone: what a form says of
    /// it is not heard.
    pub(super) fn is_pretty(&self) -> bool {
        let mut url = Parameters::default();
        url.extend(self.head.uri.query().unwrap_or_default().as_bytes());
        url.get("pretty") == "true"
    }

    /// How its statements are run.
    fn context(&self, embedded: &Embedded, user: Option<Arc<User>>) -> Context {
        let (db, rp) = (self.parameters.get("db"), self.parameters.get("rp"));
        let mut context = embedded.queries().context(db, rp, super::now_ns());
        context.chunk_size = self.format().chunk_size;
        context.get = self.head.method == Method::GET;
        context.visible = user.map(|user| -> store::query::context::Visible {
            Arc::new(move |db: &str| user.may_read(db) || user.may_write(db))
        });
        context.into = Some(Arc::new(Into { gateway: Arc::clone(&self.front.gateway) }));
        context
    }

    /// Has the store answer; each statement has been allowed.
    pub(super) async fn ask(
        &self,
        embedded: &Arc<Embedded>,
        user: Option<Arc<User>>,
        q: &str,
        (texts, statements): (Vec<String>, Vec<Statement>),
    ) -> Result<Answer, Answer> {
        let gateway = &self.front.gateway;
        // What was acknowledged before the query came is in its answer.
        let readable = gateway.admission.readable().await;
        readable.map_err(|refusal| answer::unavailable(&refusal.to_string(), 1))?;

        let context = self.context(embedded, user);
        let Some(begun) = self.begin(embedded.queries(), context, q).await? else {
            return Ok(answer::empty(StatusCode::NO_CONTENT));
        };
        let (gateway, control) = (Arc::clone(gateway), gateway.control.clone());
        let (store, params) = (Arc::clone(embedded.store()), self.parameters.get("params"));
        let params = params.to_owned();
        let query = move |context, format, out| -> QueryFuture {
            let asked = StoreQuery { gateway, store, texts, statements, params, context, control };
            Box::pin(asked.run(format, out))
        };
        self.execute(begun, query).await
    }

    /// Waits for a query's turn; `None` where its client has gone meanwhile.
    pub(super) async fn begin(
        &self,
        queries: &Queries,
        context: Context,
        q: &str,
    ) -> Result<Option<BegunQuery>, Answer> {
        let (gateway, db) = (&self.front.gateway, self.parameters.get("db"));
        let entered = context.registry.as_ref().map(|registry| {
            registry.enter(q, db, &context.cancel, context.limits.max_concurrent_queries)
        });
        let place = entered
            .transpose()
            .map_err(|e| answer::error(StatusCode::SERVICE_UNAVAILABLE, &e.to_string()))?;
        let mut client = Client::new(self.connection.progress.clone(), context.cancel.clone());
        let turns = Arc::clone(&queries.turns);
        let arrival = turns.arrive(Network::of(self.connection.peer));
        let turn = tokio::select! {
            turn = timeout(TURN_WAIT, turns.take(arrival)) => turn.ok(),
            () = client.left() => return Ok(None),
        };
        let turn = turn.ok_or_else(|| gateway.no_turn())?;
        Ok(Some(BegunQuery { context, place, client, turns, arrival, turn }))
    }

    /// Has a query make its answer, on a thread of its own.
    pub(super) async fn execute(
        &self,
        begun: BegunQuery,
        query: impl FnOnce(Context, Format, encode::Out) -> QueryFuture,
    ) -> Result<Answer, Answer> {
        let BegunQuery { mut context, place, client, turns, arrival, turn } = begun;
        let (gateway, format) = (&self.front.gateway, self.format());
        let unsent =
            Unsent::new(gateway.answer_share(ANSWER_BYTES)?, gateway.memory.answers.clone());

        // What is in it is bounded by the gate, at which a query waits behind each piece.
        let (pieces, made) = mpsc::unbounded_channel();
        let gate = Gate::new(Arc::clone(&unsent), turns, arrival);
        context.flow = Some(Arc::clone(&gate) as _);
        let (cancel, notices) = (context.cancel.clone(), context.notices.clone());
        let query_bytes = context.limits.memory.len();
        let gzip = gzip::GzipNegotiation::by(&self.head.headers);
        let mut out = unsent::out(pieces.clone(), Arc::clone(&unsent));
        if let Some(gzip) = &gzip {
            out = gzip.compress(out, format.chunk_size.is_some());
        }
        let execution = Execution {
            query: query(context, format, out),
            gate,
            cancel,
            reader: self.reader(Arc::clone(&unsent), query_bytes),
            place,
            pieces,
            control: gateway.control.clone(),
        };
        gateway.control.spawn_blocking(move || execution.run(Some(turn)));
        if self.parameters.get("async") == "true" {
            client.forget();
            gateway.control.spawn(discard(made));
            return Ok(answer::empty(StatusCode::NO_CONTENT));
        }
        let made = Streamed::begin(made, unsent, client, format.chunk_size.is_none()).await;
        let is_compressed = gzip.is_some_and(|gzip| gzip.is_used());
        begun_answer(made, format, is_compressed, &notices)
    }
}

/// Makes an answer; pending where the context's flow control holds it up.
pub(super) type QueryFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A query that has its turn, and whose client is there.
pub(super) struct BegunQuery {
    /// What it runs with.
    pub context: Context,
    place: Option<QueryRegistration>,
    /// Who asked; the query ends with the client.
    pub client: Client,
    turns: Arc<Turns>,
    arrival: Arrival,
    turn: Turn,
}

/// The answer that a query has begun, with what is missing of it as far as that is known.
fn begun_answer(
    made: Made,
    format: Format,
    is_compressed: bool,
    notices: &Notices,
) -> Result<Answer, Answer> {
    let content = match made {
        Made::Whole(bytes) => Content::Full(bytes),
        Made::Streamed(streamed) => Content::Streamed(Box::new(streamed)),
        Made::Abandoned => Content::Empty,
        Made::Broken => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Err(answer::error(status, "the query broke off; see the log"));
        }
    };
    let mut answer = answered(content, format, is_compressed);
    for text in notices.seal() {
        answer.headers_mut().append(answer::MISSING, answer::missing_value(&text));
    }
    Ok(answer)
}

/// The statements of a text as the store takes them.
pub(super) fn parse(q: &str, params: &str) -> Result<Vec<Statement>, Answer> {
    let params = if params.is_empty() { Params::default() } else { read_params(params)? };
    let statements =
        influxql::parse(q, &params).map_err(|error| bad_request(&error.to_string()))?;
    // InfluxDB's parser looks for the zone.
    let zones = statements.iter().filter_map(|statement| match statement {
        Statement::Select(select) => select.timezone.as_deref(),
        _ => None,
    });
    for zone in zones {
        let unknown = store::query::timezone::Zone::named(zone).err();
        if let Some(error) = unknown {
            return Err(bad_request(&format!("error parsing query: {error}")));
        }
    }
    // Before any statement of the request runs.
    let now_ns = super::now_ns();
    for statement in &statements {
        overreach::refuse(statement, now_ns).map_err(|error| bad_request(&error.to_string()))?;
    }
    Ok(statements)
}

fn answered(content: Content, format: Format, gzip: bool) -> Answer {
    let mut answer = answer::empty(StatusCode::OK);
    let kind = HeaderValue::from_static(format.content_type());
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    if gzip {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *answer.body_mut() = content;
    answer
}

/// Reads an answer that nobody waits for, so that its query goes on.
async fn discard(mut made: mpsc::UnboundedReceiver<bytes::Bytes>) {
    while made.recv().await.is_some() {}
}

fn read_params(text: &str) -> Result<Params, Answer> {
    Params::from_json(text)
        .map_err(|error| bad_request(&format!("error parsing query parameters: {error}")))
}

/// A query on its way to its thread.
struct StoreQuery {
    gateway: Arc<Gateway>,
    store: Arc<store::Store>,
    statements: Vec<Statement>,
    /// As the client wrote them, for the journal; as many as `statements`, or none.
    texts: Vec<String>,
    params: String,
    context: Context,
    control: Handle,
}

impl StoreQuery {
    async fn run(self, format: Format, out: encode::Out) {
        let mut encoder = encode::new(format, out);
        let mut change = |statement: &Statement| self.change(statement);
        let (statements, context) = (&self.statements, &self.context);
        if format.csv {
            query::foresee_missing(&self.store, statements, context);
        }
        query::answer(&self.store, statements, context, encoder.as_mut(), &mut change).await;
    }

    /// Puts a statement into the journal, unless the store would refuse it, and waits until it can
    /// be seen.
    fn change(&self, statement: &Statement) -> Result<(), QueryError> {
        ddl::check(&self.store.catalogue(), statement, &self.context.db)?;
        // By its place: looking for each of a million statements would take hours.
        let before = (std::ptr::from_ref(statement).addr())
            .checked_sub(self.statements.as_ptr().addr())
            .map(|bytes| bytes / size_of::<Statement>());
        let at = before.filter(|&at| {
            self.statements.get(at).is_some_and(|found| std::ptr::eq(found, statement))
        });
        let written = at.filter(|_| self.texts.len() == self.statements.len());
        let text = written.and_then(|at| self.texts.get(at)).cloned();
        let text = text.unwrap_or_else(|| statement.to_string());
        self.control.block_on(self.journal(&text)).map_err(QueryError)
    }

    async fn journal(&self, text: &str) -> Result<(), String> {
        let gateway = &self.gateway;
        let Context { db, rp, now_ns, .. } = &self.context;
        let change = admission::change_in(text);
        let frozen = influxql::freeze_now(text, *now_ns);
        let ticket = gateway.deliveries.backends.statement();
        let params = self.params.as_str();
        let record = record::Statement { id: ticket.id(), text: &frozen, db, rp, params };
        let appended = gateway.admission.append_statement(&record, &change).await;
        appended.map_err(|refusal| gateway.refused_words(&refusal))?;
        let embedded = gateway.deliveries.embedded.as_ref().map(|embedded| embedded.name());
        let report = ticket.wait_for(embedded, STORE_WAIT, OTHERS_WAIT).await;
        if embedded.is_some_and(|name| report.following.iter().any(|following| following == name)) {
            return Err("the statement is acknowledged and will run later".to_owned());
        }
        match report.document().as_deref().and_then(crate::client::answer::error_in) {
            Some(refused) => Err(refused),
            None => Ok(()),
        }
    }
}

/// Where the points of `SELECT ... INTO` go: through the journal, as any others.
struct Into {
    gateway: Arc<Gateway>,
}

impl Target for Into {
    fn write(&self, db: &str, rp: &str, lines: Vec<u8>) -> Result<(), String> {
        self.gateway.control.block_on(self.journal(db, rp, lines))
    }
}

impl Into {
    async fn journal(&self, db: &str, rp: &str, lines: Vec<u8>) -> Result<(), String> {
        let gateway = &self.gateway;
        let to = gateway.resolve(db, rp).await.map_err(|error| match error {
            NameError::NoDatabase => format!("database not found: {db}"),
            NameError::NoPolicy => format!("retention policy not found: {rp}"),
            NameError::Refused(refusal) => gateway.refused_words(&refusal),
        })?;
        let admitted = gateway.admission.admit(&to, Points::of_lines(lines)).await;
        let outcome = admitted.map_err(|refusal| match refusal {
            // Only what the journal does not take counts as a write that was refused.
            Refusal::Append(_) => gateway.refused_words(&refusal),
            _ => words_of(&refusal),
        })?;
        if outcome.points > 0 {
            gateway.metrics.accepted.add(u64::from(outcome.points));
            // The statement behind this one may read it.
            gateway.admission.readable().await.map_err(|refusal| words_of(&refusal))?;
        }
        outcome.refusal().map_or(Ok(()), Err)
    }
}

fn bad_request(message: &str) -> Answer {
    answer::error(StatusCode::BAD_REQUEST, message)
}
