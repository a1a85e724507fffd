//! `--stream`: the windows of a run as points, sent to a server while it goes on. A thread of its
//! own sends them; what it can't send in time is dropped and counted, and never slows a request.

use std::sync::mpsc::{Receiver, SendError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use flow::backoff::Backoff;
use meter::engine::{FinishedWindow, Outcome};
use meter::jmeter::JmeterSeries;
use meter::machine;
use meter::stream::{Points, StreamTags};
use meter::url::{Scheme, Url};
use serde::{Deserialize, Deserializer};
use watch::words::count;

use super::ended::EndedPiece;
use super::values;
use crate::exit::Failure;
use crate::remote::{self, Client};

/// Where the windows of a run are sent.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StreamOptions {
    /// Sends each window as points to an InfluxDB, a Weir or what else takes its writes, as
    /// http://user:password@host:8086/write?db=load: it is load for that server, too
    #[arg(long, value_name = "URL", conflicts_with = "find_limit", value_parser = stream_url)]
    #[serde(default, deserialize_with = "target")]
    pub stream: Option<Url>,
    // A run file has its keys beside this one, and it is read by itself.
    #[command(flatten)]
    #[serde(skip)]
    pub schema: SchemaOptions,
}

/// As whose results the windows are written.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SchemaOptions {
    /// Writes the whole run in JMeter's schema, too, for dashboards made for JMeter. A part has no
    /// whole run to write: `weir load merge` writes it
    #[arg(long, value_name = "SCHEMA", value_enum, requires = "stream")]
    #[serde(default, deserialize_with = "values::name_if_any")]
    pub stream_schema: Option<StreamSchema>,
    /// The application that rows in JMeter's schema are of; "weir" if not given
    #[arg(long, value_name = "NAME", requires = "stream_schema")]
    pub stream_application: Option<String>,
}

/// A schema that dashboards know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StreamSchema {
    /// That of JMeter's InfluxDB listener.
    Jmeter,
}

impl SchemaOptions {
    /// The series in that schema of a run by this name, on so many connections of all injectors.
    fn series(&self, run: &str, operations: &[String], connections: u64) -> Option<JmeterSeries> {
        let StreamSchema::Jmeter = self.stream_schema?;
        let application = self.stream_application.as_deref().unwrap_or("weir");
        Some(JmeterSeries::new(application, run, operations, connections))
    }
}

/// Windows that may wait for the server.
const WAITING_MAX: usize = 120;
/// How long what waits may take once the run has ended.
const GRACE: Duration = Duration::from_secs(10);
/// How long the server may take for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

fn target<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Url>, D::Error> {
    values::one(field, stream_url).map(Some)
}

/// Where points are sent, as an operator writes it.
pub fn stream_url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    let path = url.path();
    if url.scheme() != Scheme::Http || !matches!(path.as_deref(), Some("" | "write")) {
        return Err("write it as http://host:8086/write?db=load".to_owned());
    }
    match &*parameter(&url, "db") {
        "" => Err("it names no database: write it as http://host:8086/write?db=load".to_owned()),
        _ => Ok(url),
    }
}

/// A parameter of the URL, decoded; empty where it has none of that name.
fn parameter(url: &Url, name: &str) -> String {
    let (_, query) = url.target().split_once('?').unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let value = pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    value.unwrap_or_default()
}

/// What became of the points.
#[derive(Debug, Default)]
struct Account {
    sent: u64,
    dropped: u64,
    /// Why the last ones were dropped, or are not sent yet.
    why: String,
    /// When nothing is tried any more.
    deadline: Option<Instant>,
}

impl Account {
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

type SharedAccount = Arc<Mutex<Account>>;

fn locked(account: &SharedAccount) -> std::sync::MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose points of their own the windows of a run are written as, beside those of the whole run.
enum OwnPoints {
    /// Nobody's: of a merge each injector has sent them.
    Nobody,
    /// Those of this process alone.
    Here(StreamTags),
    /// Those of each agent, of a run by this name whose operations are called so.
    Agents(String, Vec<String>),
}

/// A stream of points to a server.
pub struct Stream {
    own: OwnPoints,
    /// The whole run in another schema, where that is asked for.
    series: Option<JmeterSeries>,
    queue: SyncSender<Points>,
    thread: JoinHandle<()>,
    account: SharedAccount,
    url: String,
}

impl Stream {
    /// Begins the stream of a run by this name, whose operations are called so, on so many
    /// connections, of this process or of agents; nothing where none is asked for.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn begin(
        options: &StreamOptions,
        is_sent_here: bool,
        run: &str,
        operations: &[String],
        connections: u64,
    ) -> Result<Option<Self>, Failure> {
        let Some(url) = &options.stream else { return Ok(None) };
        let injector = format!("{}:{}", machine::host(), std::process::id());
        let own = match is_sent_here {
            true => OwnPoints::Here(StreamTags::new(run, &injector, operations)),
            false => OwnPoints::Agents(run.to_owned(), operations.to_vec()),
        };
        let series = options.schema.series(run, operations, connections);
        Self::to(url, own, series).map(Some)
    }

    /// Begins a stream of what the parts of a run are together, in its schema alone: each injector
    /// has sent its own points.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn of_merge(
        url: &Url,
        schema: &SchemaOptions,
        run: &str,
        operations: &[String],
        connections: u64,
    ) -> Result<Self, Failure> {
        Self::to(url, OwnPoints::Nobody, schema.series(run, operations, connections))
    }

    fn to(url: &Url, own: OwnPoints, series: Option<JmeterSeries>) -> Result<Self, Failure> {
        let login = url.user().map(|user| (user, url.password().unwrap_or_default()));
        let scheme = if url.tls().is_some() { "https" } else { "http" };
        let client = Client::of(format!("{scheme}://{}", url.authority()), None, login)?;
        let names = ["db", "rp"].map(|name| (name, parameter(url, name)));
        let (queue, waiting) = sync_channel(WAITING_MAX);
        let account = SharedAccount::default();
        let shared = Arc::clone(&account);
        let send = move || send_all(&client, &names, &waiting, &shared);
        let thread = std::thread::Builder::new().name("load-stream".to_owned()).spawn(send);
        let thread = thread.map_err(Failure::other)?;
        Ok(Self { own, series, queue, thread, account, url: url.without_secrets() })
    }

    /// Puts what has ended of a run on its way.
    pub fn piece(&mut self, piece: &EndedPiece<'_>) {
        let tags = |agent: &str| match &self.own {
            OwnPoints::Agents(run, operations) => Some(StreamTags::new(run, agent, operations)),
            OwnPoints::Here(_) | OwnPoints::Nobody => None,
        };
        let points = match *piece {
            EndedPiece::Window(ended) => return self.window(ended),
            EndedPiece::OfAgent(agent, ended) => tags(agent).map(|tags| tags.window(ended)),
            EndedPiece::RestOfAgent(agent, wall, windows, rest) => {
                tags(agent).map(|tags| tags.rest(wall, windows, rest))
            }
        };
        points.into_iter().for_each(|points| self.put(points));
    }

    /// The tags of this process, where it has points of its own.
    fn tags(&self) -> Option<&StreamTags> {
        match &self.own {
            OwnPoints::Here(tags) => Some(tags),
            OwnPoints::Agents(..) | OwnPoints::Nobody => None,
        }
    }

    /// Puts a window of the whole run on its way.
    pub fn window(&mut self, ended: &FinishedWindow) {
        let own = self.tags().map(|tags| tags.window(ended));
        let whole = self.series.as_mut().map(|series| series.window(ended));
        own.into_iter().chain(whole).for_each(|points| self.put(points));
    }

    fn put(&self, points: Points) {
        if points.count == 0 {
            return;
        }
        // No request waits for a merge: it may wait for the server, as long as that takes points.
        if matches!(self.own, OwnPoints::Nobody) {
            let mut account = locked(&self.account);
            if account.dropped == 0 {
                account.deadline = Some(Instant::now() + GRACE);
            }
            drop(account);
            if let Err(SendError(points)) = self.queue.send(points) {
                locked(&self.account).dropped += points.count;
            }
            return;
        }
        match self.queue.try_send(points) {
            Ok(()) => {}
            Err(TrySendError::Full(points) | TrySendError::Disconnected(points)) => {
                locked(&self.account).dropped += points.count;
            }
        }
    }

    /// Sends what ended behind the last window, and waits a while for what is on its way; what
    /// became of it.
    pub fn finish(mut self, outcome: &Outcome) -> String {
        let windows = outcome.rows.last().map_or(0, |row| row.number + 1);
        let Outcome { wall, rest, .. } = outcome;
        let own = self.tags().map(|tags| tags.rest(*wall, windows, rest));
        let whole = self.series.as_mut().map(|series| series.finish(*wall, windows, rest));
        own.into_iter().chain(whole).for_each(|points| self.put(points));
        let Self { queue, thread, account, url, .. } = self;
        locked(&account).deadline = Some(Instant::now() + GRACE);
        drop(queue);
        let ended = thread.join();
        let Account { sent, dropped, why, .. } = &*locked(&account);
        let broke = if ended.is_err() { ", and the stream broke" } else { "" };
        match dropped {
            0 => format!("stream   {} points to {url}{broke}", count(*sent)),
            _ => format!(
                "stream   {} points to {url}, {} DROPPED{broke}: {why}",
                count(*sent),
                count(*dropped)
            ),
        }
    }
}

/// Sends all that comes until nobody sends more.
fn send_all(
    client: &Client,
    names: &[(&str, String)],
    waiting: &Receiver<Points>,
    account: &SharedAccount,
) {
    // What fails is in the account.
    let _ = remote::run(async {
        while let Ok(points) = waiting.recv() {
            send(client, names, points, account).await;
        }
        Ok(())
    });
}

/// Sends points until they are taken, refused, or too late.
async fn send(
    client: &Client,
    names: &[(&str, String)],
    Points { lines, count }: Points,
    account: &SharedAccount,
) {
    if count == 0 {
        return;
    }
    let pairs: Vec<_> = names.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let body = Bytes::from(lines);
    let mut backoff = Backoff::new(WAIT_MIN, WAIT_MAX);
    while !locked(account).is_late() {
        let written = tokio::time::timeout(ANSWER_MAX, client.write(&pairs, body.clone())).await;
        let why = match written {
            Ok(Ok(written)) if written.status.is_success() => {
                locked(account).sent += count;
                return;
            }
            Ok(Ok(written)) if !written.may_be_taken_later() => {
                locked(account).why = written.error;
                break;
            }
            Ok(Ok(written)) => written.error,
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => format!("no answer in {} s", ANSWER_MAX.as_secs()),
        };
        locked(account).why = why;
        backoff.wait().await;
    }
    locked(account).dropped += count;
}

#[cfg(test)]
mod tests {
    use super::stream_url;

    #[test]
    fn a_stream_goes_to_a_database_of_a_server_that_takes_writes() {
        for good in
            ["http://h:8086/write?db=load", "https://a:b@h/?db=load&rp=week", "http://h?db=x"]
        {
            assert!(stream_url(good).is_ok(), "{good}");
        }
        for bad in ["http://h", "http://h/write?db=", "redis://h?db=x", "http://h/query?db=x", "h"]
        {
            assert!(stream_url(bad).is_err(), "{bad}");
        }
    }
}
