//! The operator's page: what flows, what waits and why, and what has happened.
//!
//! It only reads. Once a second a thread of its own asks for the status and reads the registry;
//! what has happened between two seconds becomes events, what is wrong becomes findings, worst
//! first, and numbers become lines of charts. Viewers hear each second as it comes, and the
//! history when they open the page. It never waits for a viewer or for the disk.

// Layers, from the top down; `self` is what this file defines.
//   self
//   assets, file, live, measure
//   events, history

pub mod assets;
mod events;
mod file;
mod history;
mod live;
mod measure;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use tokio::runtime::Handle;
use watch::metrics::Registry;

use crate::diagnosis::changes::{changes, expiries};
use crate::diagnosis::event::{Change, Event, Level};
use crate::diagnosis::findings::findings;
use crate::diagnosis::frame::Frame;
use crate::diagnosis::installation::Installation;
use crate::diagnosis::observation::{Expiry, Observation};
use crate::diagnosis::status::Status;
use events::EventList;
use file::{Restored, Writer};
use history::History;
use live::Live;
pub use live::{VIEWERS_MAX, Viewer};
use measure::Counted;

/// How long what waits for the disk may take at a stop.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the thread may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is looked whether a certificate ends soon, in ticks of a second.
const EXPIRY_TICKS: u64 = 600;
/// Events of the last seconds go with each frame, so many at most.
const FRAME_EVENTS_SECONDS: f64 = 10.0;
const FRAME_EVENTS_MAX: usize = 20;

/// Whom the page asks. Each is called once a second and must not wait.
pub struct Sources {
    /// All metrics of the process.
    pub registry: Registry,
    /// What `/status` shows at this moment.
    pub status: Box<dyn Fn() -> Value + Send>,
    /// What ends some day: certificates.
    pub expiries: Box<dyn Fn() -> Vec<Expiry> + Send>,
    /// What commands have to name.
    pub installation: Arc<Installation>,
}

/// The page of one process.
pub struct Page {
    live: Live,
    book: Mutex<Book>,
    stop: Mutex<Option<Stop>>,
}

/// How the thread is told to end, and says that it has: by channels that are closed.
struct Stop {
    stop: Sender<()>,
    ended: Receiver<()>,
}

/// What is kept of the past.
#[derive(Debug, Default)]
struct Book {
    history: History,
    events: EventList,
}

impl Page {
    /// Reads what a former run has left in `dir`, and begins to look.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(dir: Option<PathBuf>, sources: Sources) -> io::Result<Arc<Self>> {
        let minute = now() as u64 / 60;
        let restored = dir.as_ref().map(|dir| file::read(dir, minute)).unwrap_or_default();
        let Restored { history, events, unreadable } = restored;
        if unreadable > 0 {
            tracing::warn!(lines = unreadable, "some of the page's history can't be read");
        }
        let carried: Vec<Event> = events.iter().cloned().collect();
        let writer = dir.map(|dir| Writer::start(dir, carried)).transpose()?;
        let (stop, stopped) = channel();
        let book = Mutex::new(Book { history, events });
        let page = Arc::new(Self { live: Live::default(), book, stop: Mutex::default() });
        let watcher = Watcher::new(Arc::clone(&page), sources, writer);
        // What is asked may look for the runtime.
        let control = Handle::current();
        let (ends, ended) = channel::<()>();
        std::thread::Builder::new().name("page".to_owned()).spawn(move || {
            let _control = control.enter();
            watcher.run(&stopped);
            drop(ends);
        })?;
        *lock(&page.stop) = Some(Stop { stop, ended });
        Ok(page)
    }

    /// Writes down that Weir was stopped in good order, and looks no more.
    pub fn stop(&self) {
        let Some(Stop { stop, ended }) = lock(&self.stop).take() else { return };
        drop(stop);
        // It says nothing, and is closed at the end.
        let _ = ended.recv_timeout(STOP_TIMEOUT);
    }

    /// A seat for one more viewer of the stream; `None` where all are taken.
    pub fn join(&self, gzip: bool) -> Option<Viewer> {
        self.live.join(gzip)
    }

    /// Everything that is kept, as JSON, and as gzip where that is wanted; with the lines of the
    /// server that is named. As gzip it is never whole in memory.
    ///
    /// # Errors
    /// Only those of memory, which has none.
    pub fn history(&self, named: Option<&str>, gzip: bool) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        if !gzip {
            self.write_history(named, &mut plain)?;
            return Ok(plain);
        }
        let packed = GzEncoder::new(plain, Compression::default());
        let mut out = BufWriter::new(packed);
        self.write_history(named, &mut out)?;
        out.into_inner()?.finish()
    }

    fn write_history(&self, named: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
        let book = lock(&self.book);
        book.history.write(named, out)?;
        out.write_all(b",\"events\":")?;
        serde_json::to_writer(&mut *out, &book.events.iter().collect::<Vec<_>>())?;
        out.write_all(b"}")
    }
}

/// The thread that looks.
struct Watcher {
    page: Arc<Page>,
    sources: Sources,
    writer: Option<Writer>,
    before: Option<(Observation, Counted)>,
    expiries: Vec<Expiry>,
    ticks: u64,
}

impl Watcher {
    fn new(page: Arc<Page>, sources: Sources, writer: Option<Writer>) -> Self {
        Self { page, sources, writer, before: None, expiries: Vec::new(), ticks: 0 }
    }

    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            self.tick(now());
            let into_second = now().fract();
            let rest = Duration::from_secs_f64((1.0 - into_second).clamp(0.001, 1.0));
            match stopped.recv_timeout(rest) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let change = Change::new(Level::Info, SUBJECT, "Weir was stopped");
        self.note(now(), change);
        let minute = lock(&self.page.book).history.so_far();
        if let Some(writer) = self.writer.take() {
            writer.minute(minute);
            writer.finish(FINISH_TIMEOUT);
        }
    }

    /// Looks once, and tells what is new.
    fn tick(&mut self, at: f64) {
        if self.ticks.is_multiple_of(EXPIRY_TICKS) {
            self.expiries = (self.sources.expiries)();
        }
        self.ticks += 1;
        let mut shown = (self.sources.status)();
        without_points(&mut shown);
        let status: Status = serde_json::from_value(shown.clone()).unwrap_or_default();
        let counted = Counted::read(at, &self.sources.registry, &status);
        let former = self.before.take();
        let values = former.as_ref().map(|(_, before)| counted.since(before)).unwrap_or_default();
        let mut seen = self.observed(at, status);
        match &former {
            Some((before, _)) => {
                seen.follow(before);
                changes(before, &seen).into_iter().for_each(|change| self.note(at, change));
            }
            None => {
                seen.follow(&Observation { at, ..Observation::default() });
                self.begin(at, &seen.status);
                let near = expiries(&Observation::default(), &seen);
                near.into_iter().for_each(|change| self.note(at, change));
            }
        }
        let whole = lock(&self.page.book).history.put(at as u64, &values);
        if let (Some(writer), Some(whole)) = (&self.writer, whole) {
            writer.minute(whole);
        }
        if self.page.live.has_viewers()
            && let Err(error) = self.send(at, shown, values, &seen)
        {
            tracing::debug!(%error, "a frame of the page was not made");
        }
        self.before = Some((seen, counted));
    }

    fn observed(&self, at: f64, status: Status) -> Observation {
        let roles = status.postgres.iter().flat_map(|postgres| &postgres.expiring);
        let roles = roles.map(|of| Expiry {
            what: format!("password of PostgreSQL role {}", of.role),
            at: of.ends_at,
        });
        let expiries = self.expiries.iter().cloned().chain(roles).collect();
        let (stalls, stalled) = measure::stalls(&self.sources.registry);
        let installation = Arc::clone(&self.sources.installation);
        Observation {
            at,
            status,
            installation,
            stalls,
            stalled,
            expiries,
            ..Observation::default()
        }
    }

    /// The first second of this process.
    fn begin(&mut self, at: f64, status: &Status) {
        let last = lock(&self.page.book).events.iter().next_back().cloned();
        let in_order = last.is_none_or(|last| last.change.text == "Weir was stopped");
        let process = &status.process;
        let text = format!("Weir {} started, pid {}", process.version, process.pid);
        let change = match in_order {
            true => Change::new(Level::Info, SUBJECT, text),
            false => {
                let text = format!("{text}; the run before it did not end in good order");
                Change::new(Level::Warn, SUBJECT, text).remedy("journalctl -u weir -n 100")
            }
        };
        self.note(at, change);
    }

    fn note(&self, at: f64, change: Change) {
        let event = lock(&self.page.book).events.push(at, change);
        if let (Some(writer), Some(event)) = (&self.writer, event) {
            writer.event(event);
        }
    }

    fn send(
        &self,
        at: f64,
        status: Value,
        series: BTreeMap<String, f64>,
        seen: &Observation,
    ) -> io::Result<()> {
        let book = lock(&self.page.book);
        let newest = book.events.iter().rev().take(FRAME_EVENTS_MAX);
        let newest = newest.take_while(|event| at - event.at <= FRAME_EVENTS_SECONDS);
        let mut events: Vec<Event> = newest.cloned().collect();
        events.reverse();
        let last_event = book.events.last();
        drop(book);
        let (findings, caught_up) = (findings(seen), seen.catching_up());
        let number = self.ticks;
        let frame = Frame { number, at, status, series, caught_up, findings, last_event, events };
        self.page.live.send(&frame)
    }
}

/// What events of the process itself are about.
const SUBJECT: &str = "process";

/// Takes out what clients have written: viewers see names of databases and measurements, and no
/// point.
fn without_points(status: &mut Value) {
    let measurements = status.pointer_mut("/influx/collisions/measurements");
    for measurement in measurements.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(measurement) = measurement.as_object_mut() {
            measurement.remove("last_overwritten");
        }
    }
}

/// The time in seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Locks what is whole whoever panicked with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
