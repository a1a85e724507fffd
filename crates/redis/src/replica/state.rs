//! What one master's threads tell each other and the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};

use ::watch::metrics::{Encoder, Histogram, Registry};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::joins::Joins;
use super::keys::Keys;
use super::lines::Id;

/// Up to where the stream is on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durable {
    /// How many bases there were before: what was durable of another is not of this one.
    pub bases: u64,
    /// The stream's offset up to which all is synced.
    pub offset: u64,
}

/// What goes on with one master.
#[derive(Debug)]
pub struct State {
    /// What is on the disk; the link waits for it to change.
    pub durable: watch::Sender<Durable>,
    /// The offset up to which the stream was received.
    received: AtomicU64,
    /// Bytes received and not durable yet, and since when.
    waiting: Mutex<UnsyncedBytes>,
    words: Mutex<Words>,
    /// For how long the master's buffers last, and the highest rate that was seen.
    lasts: Mutex<(Option<Lasts>, f64)>,
    /// How many keys the master of this history has, as it said last.
    counted: Mutex<Option<(Id, u64)>>,
    /// How many it had as the files have it.
    keys: Mutex<Option<Keys>>,
    /// Whose history the files are of.
    id: Mutex<Option<Id>>,
    /// How long syncs took.
    pub syncs: Histogram,
    /// The connections that the master counts among its replicas.
    pub joins: Joins,
    figures: [AtomicU64; 10],
}

#[derive(Debug, Default)]
struct UnsyncedBytes {
    bytes: u64,
    since: Option<Instant>,
}

#[derive(Debug, Default)]
struct Words {
    link: &'static str,
    trouble: Option<String>,
    advice: Vec<String>,
    rewrite: Option<String>,
}

/// For how long a master keeps what Weir does not take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Lasts {
    /// Bytes of its stream a second.
    pub rate: f64,
    /// While Weir does not read: until its `client-output-buffer-limit` closes the link. Absent
    /// where it has none, or nothing is written.
    pub output_seconds: Option<f64>,
    /// While there is no link: until its `repl-backlog-size` is used up, and a full resync comes.
    pub backlog_seconds: Option<f64>,
}

/// A number that metrics and the status show of a master.
#[derive(Debug, Clone, Copy)]
pub enum Figure {
    /// Bytes that wait for the disk's thread.
    Buffer,
    /// Generations kept, with the current one.
    Generations,
    /// Bytes of the base.
    Base,
    /// Bytes of its increments.
    Increments,
    /// Bases that came with the stream since the start.
    Bases,
    /// When the current base was whole, in seconds since 1970.
    BaseTime,
    /// Bases taken beside the stream since the start.
    Rewrites,
    /// Bases that were begun beside the stream and failed.
    RewritesFailed,
    /// Generations that are pinned.
    Pinned,
    /// Bytes of the current generation that this process found and has not read yet.
    Unverified,
}

/// A master, as the status shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MasterStatus {
    pub name: String,
    /// Where the master is, as a person is told.
    pub url: String,
    /// Where its files are.
    pub dir: String,
    /// `connecting`, `base` while its data set comes, `following`, or `stopped` for good.
    pub link: String,
    /// What is wrong, until it is well again.
    pub trouble: Option<String>,
    /// What should be set otherwise at the master.
    #[serde(default)]
    pub advice: Vec<String>,
    /// For how long the master keeps what is not taken, once it could be asked.
    #[serde(default)]
    pub lasts: Option<Lasts>,
    /// How many keys it had when it was asked last, or before it came back without them.
    #[serde(default)]
    pub keys: Option<u64>,
    /// Whether it has come back without them, so that nothing is acknowledged.
    #[serde(default)]
    pub awaits_keys: bool,
    /// Whether it has come back without what was confirmed, so that nothing is acknowledged before
    /// `weir redis accept`.
    #[serde(default)]
    pub lacks_confirmed: bool,
    /// The offset up to which its stream was received.
    pub received: u64,
    /// The offset up to which its stream is on the disk.
    pub durable: u64,
    /// Bytes received and not durable yet.
    pub not_durable_bytes: u64,
    /// For how long the oldest of them has waited.
    pub not_durable_seconds: f64,
    /// Bytes that wait for the disk's thread.
    pub buffer_bytes: u64,
    /// Generations kept, with the current one.
    pub generations: u64,
    /// Those of them that are pinned: nothing of them is removed by itself.
    #[serde(default)]
    pub pinned: u64,
    /// Bytes of the current generation that were there at the start and have not been read since.
    #[serde(default)]
    pub unverified_bytes: u64,
    /// Bytes of the current base.
    pub base_bytes: u64,
    /// Bytes of its increments.
    pub increment_bytes: u64,
    /// For how long the current base has been whole.
    #[serde(default)]
    pub base_seconds: f64,
    /// The new base that is being taken, or why the last one was not.
    #[serde(default)]
    pub rewrite: Option<String>,
    /// How long a sync took: the half, and 99 in 100, took no longer.
    pub sync_seconds: [f64; 2],
}

impl State {
    /// Nothing is known yet; figures are shown by this name.
    pub fn new(name: &str, registry: &Registry) -> Arc<Self> {
        let syncs = registry.histogram(
            "weir_redis_aof_sync_seconds",
            "How long an fdatasync of an append-only file took.",
            &[("master", name)],
        );
        let state = Arc::new(Self {
            durable: watch::Sender::default(),
            received: AtomicU64::new(0),
            waiting: Mutex::default(),
            words: Mutex::new(Words { link: "connecting", ..Words::default() }),
            lasts: Mutex::default(),
            counted: Mutex::default(),
            keys: Mutex::default(),
            id: Mutex::default(),
            syncs,
            joins: Joins::default(),
            figures: Default::default(),
        });
        let (shown, name) = (Arc::clone(&state), name.to_owned());
        registry.collect(move |encoder| shown.encode(&name, encoder));
        state
    }

    fn encode(&self, name: &str, encoder: &mut Encoder) {
        let of = [("master", name)];
        let followed = self.followed();
        let mut gauge = |what: &str, help: &str, value: f64| {
            encoder.gauge(&format!("weir_redis_aof_{what}"), help, &of, value);
        };
        gauge(
            "not_durable_bytes",
            "Bytes of a master's stream received and not on the disk yet.",
            followed.not_durable_bytes as f64,
        );
        gauge(
            "not_durable_seconds",
            "For how long the oldest byte received and not on the disk yet has waited.",
            followed.not_durable_seconds,
        );
        let buffer = followed.buffer_bytes as f64;
        gauge("buffer_bytes", "Bytes received that wait for the disk's thread.", buffer);
        let generations = followed.generations as f64;
        gauge("generations", "Bases kept with what came after each.", generations);
        gauge(
            "pinned_generations",
            "Those of them that are never removed by themselves.",
            followed.pinned as f64,
        );
        gauge(
            "unverified_bytes",
            "Bytes of the current generation that were there at the start and have not been read \
             since.",
            followed.unverified_bytes as f64,
        );
        gauge("base_bytes", "Bytes of the current base.", followed.base_bytes as f64);
        gauge(
            "increment_bytes",
            "Bytes of the increments since the current base.",
            followed.increment_bytes as f64,
        );
        gauge(
            "base_seconds",
            "For how long the current base has been whole.",
            followed.base_seconds,
        );
        let is_following = f64::from(u8::from(followed.link == "following"));
        gauge("following", "1 while a master's stream is followed.", is_following);
        let is_troubled = f64::from(u8::from(followed.trouble.is_some()));
        gauge("trouble", "1 while something is wrong; `weir status` says what.", is_troubled);
        encoder.counter(
            "weir_redis_aof_bases_total",
            "Bases that came with a master's stream, each a fork of its process.",
            &of,
            self.figure(Figure::Bases),
        );
        encoder.counter(
            "weir_redis_aof_rewrites_total",
            "Bases taken beside a master's stream.",
            &of,
            self.figure(Figure::Rewrites),
        );
        encoder.counter(
            "weir_redis_aof_rewrites_failed_total",
            "Bases that were to be taken beside a master's stream and were not.",
            &of,
            self.figure(Figure::RewritesFailed),
        );
    }

    fn waiting(&self) -> MutexGuard<'_, UnsyncedBytes> {
        self.waiting.lock()
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock()
    }

    pub fn set(&self, figure: Figure, value: u64) {
        self.figures[figure as usize].store(value, Ordering::Relaxed);
    }

    /// Adds one to a figure.
    pub fn count(&self, figure: Figure) {
        self.figures[figure as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn figure(&self, figure: Figure) -> u64 {
        self.figures[figure as usize].load(Ordering::Relaxed)
    }

    /// The stream was received up to this offset.
    pub fn received(&self, offset: u64) {
        self.received.store(offset, Ordering::Relaxed);
    }

    /// So many more bytes wait for the disk.
    pub fn waits(&self, bytes: u64) {
        let mut waiting = self.waiting();
        waiting.bytes += bytes;
        waiting.since.get_or_insert_with(Instant::now);
    }

    /// The disk has so many bytes; those behind them came after `since`.
    pub fn has(&self, bytes: u64, since: Instant) {
        let mut waiting = self.waiting();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        waiting.since = (waiting.bytes > 0).then_some(since);
    }

    /// Nothing waits: what did is given up.
    pub fn gave_up(&self) {
        *self.waiting() = UnsyncedBytes::default();
    }

    /// What the link does.
    pub fn link(&self, link: &'static str) {
        self.words().link = link;
    }

    /// The link has ended, and is opened again unless all has stopped.
    pub fn link_lost(&self) {
        let mut words = self.words();
        if words.link != "stopped" {
            words.link = "connecting";
        }
    }

    /// Something is wrong, or nothing is any more; says whether that is new.
    pub fn trouble(&self, trouble: Option<String>) -> bool {
        let mut words = self.words();
        let is_new = words.trouble != trouble;
        words.trouble = trouble;
        is_new
    }

    /// Whether the stream is followed.
    pub fn is_following(&self) -> bool {
        self.words().link == "following"
    }

    /// What there is to say of a new base that is taken beside the stream.
    pub fn rewrite(&self, words: Option<String>) {
        self.words().rewrite = words;
    }

    /// What an operator should set otherwise; gives what of it is new.
    pub fn advise(&self, advice: Vec<String>) -> Vec<String> {
        let mut words = self.words();
        let before = std::mem::replace(&mut words.advice, advice);
        words.advice.iter().filter(|words| !before.contains(words)).cloned().collect()
    }

    /// For how long the master's buffers last; gives the highest rate that was seen.
    pub fn lasts(&self, now: Option<Lasts>) -> Option<f64> {
        let mut lasts = self.lasts.lock();
        let peak = lasts.1.max(now?.rate);
        *lasts = (now, peak);
        Some(peak)
    }

    /// The master has so many keys, where that is known.
    pub fn counted(&self, keys: Option<(Id, u64)>) {
        *self.counted.lock() = keys;
    }

    /// How many keys the master of this history has, where that is known.
    pub fn count_of(&self, of: Id) -> Option<u64> {
        let counted = *self.counted.lock();
        counted.filter(|(id, _)| *id == of).map(|(_, keys)| keys)
    }

    /// Whose history the files are of.
    pub fn is_of(&self, id: Id) {
        *self.id.lock() = Some(id);
    }

    /// The same, where there are files.
    pub fn id(&self) -> Option<Id> {
        *self.id.lock()
    }

    /// How many keys the master had as the files have it.
    pub fn has_keys(&self, keys: Option<Keys>) {
        *self.keys.lock() = keys;
    }

    fn keys(&self) -> Option<Keys> {
        *self.keys.lock()
    }

    /// Why nothing is acknowledged, where the master has lost what was confirmed.
    pub fn doubt(&self) -> Option<Keys> {
        self.keys().filter(|keys| keys.is_doubted())
    }

    fn base_age(&self) -> f64 {
        let whole = UNIX_EPOCH + Duration::from_secs(self.figure(Figure::BaseTime));
        let is_known = self.figure(Figure::BaseTime) > 0;
        let age = SystemTime::now().duration_since(whole).unwrap_or_default();
        if is_known { age.as_secs_f64() } else { 0.0 }
    }

    /// For the status; who it is comes from elsewhere.
    pub fn followed(&self) -> MasterStatus {
        let (bytes, since) = {
            let waiting = self.waiting();
            (waiting.bytes, waiting.since)
        };
        let words = self.words();
        let quantile = |q| self.syncs.quantile(q).unwrap_or_default().as_secs_f64();
        MasterStatus {
            link: words.link.to_owned(),
            trouble: words.trouble.clone(),
            advice: words.advice.clone(),
            lasts: self.lasts.lock().0,
            keys: self.keys().map(Keys::count),
            awaits_keys: matches!(self.keys(), Some(Keys::Awaited(_))),
            lacks_confirmed: matches!(self.keys(), Some(Keys::Lost(_))),
            received: self.received.load(Ordering::Relaxed),
            durable: self.durable.borrow().offset,
            not_durable_bytes: bytes,
            not_durable_seconds: since.map_or(Duration::ZERO, |at| at.elapsed()).as_secs_f64(),
            buffer_bytes: self.figure(Figure::Buffer),
            generations: self.figure(Figure::Generations),
            pinned: self.figure(Figure::Pinned),
            unverified_bytes: self.figure(Figure::Unverified),
            base_bytes: self.figure(Figure::Base),
            increment_bytes: self.figure(Figure::Increments),
            base_seconds: self.base_age(),
            rewrite: words.rewrite.clone(),
            sync_seconds: [quantile(0.5), quantile(0.99)],
            ..MasterStatus::default()
        }
    }
}
