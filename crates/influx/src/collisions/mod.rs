//! Writers that overwrite each other: points whose series, time and a field were written before,
//! within a window. The last one wins, as InfluxDB has it, and nobody is told; so Weir counts them,
//! by database and measurement, and shows the last one with who wrote it.
//!
//! [`Collisions`] looks at each point once the journal has taken it, as far as its memory goes: at
//! all of them, or a share that is the same for both sides of a pair. What was written is kept in
//! buckets by a hash of series and time; a worker that finds a bucket held by another one puts the
//! point aside ([`WorkerCollisions`]) and waits for nobody.

mod counts;
mod keys;
mod share;
mod source;
mod status;
#[cfg(test)]
mod tests;
mod window;
mod worker;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use watch::metrics::{Counter, Registry};
use wire::line::{self, Field, Sampler, Value};

use self::counts::{Counts, KnownCounts, Overwriting};
use self::keys::{Keys, PointDigest};
use self::share::{SLOTS, Share, ShareControl, SharedShare, TimesCount};
pub use self::source::Source;
use self::source::Sources;
pub use self::status::CollisionsStatus;
use self::window::{Collision, Outcome, Window, WindowLimits};
pub use self::worker::WorkerCollisions;
use crate::settings::CollisionSettings;

/// What all who take points look for collisions with.
pub struct Collisions {
    keys: Keys,
    buckets: Box<[Bucket]>,
    window_ms: u32,
    begun: Instant,
    share: SharedShare,
    /// Hashes times as samplers of all shares do.
    all_times: Sampler,
    times: TimesCount,
    turns: Mutex<Turns>,
    /// When the share is to be looked at again, in milliseconds since the beginning.
    next_turn_ms: AtomicU64,
    sources: Sources,
    counts: Counts,
    /// Points that nobody has looked at for want of a turn.
    unseen: Counter,
}

/// A part of all points, by the hash of series and time. On cache lines of its own.
#[repr(align(128))]
struct Bucket {
    window: Mutex<Window>,
    /// Words of all points that were ever looked at.
    words: AtomicU64,
}

/// The turns at which the share is changed.
struct Turns {
    control: ShareControl,
    last_ms: u64,
    /// Words of all buckets then.
    words: u64,
}

/// Where points were written to.
#[derive(Clone, Copy, Debug)]
pub struct WrittenTo<'a> {
    /// The name of the database.
    pub db: &'a str,
    /// A hash of the names of database and policy.
    destination: u64,
}

/// A point that the journal has taken.
#[derive(Clone, Copy, Debug)]
pub struct WrittenPoint<'a> {
    /// Who has written it.
    pub source: Source,
    /// The record as normalised, with its newline.
    pub record: &'a [u8],
    /// Nanoseconds since 1970, in UTC.
    pub time_ns: i64,
}

/// Somebody else is looking into the bucket of this number.
#[derive(Debug)]
struct BucketBusy(usize);

/// Buckets where there is memory for so many, and the least that one has.
const BUCKETS_MAX: usize = 16;
const BUCKET_BYTES_MIN: usize = CollisionSettings::MEMORY_MIN;

/// Of a bucket's memory, what entries have: some is for the chains, some is not quite full.
const ENTRIES_PART: f64 = 0.75;

/// How often it may be said that points overwrite each other.
pub const WARN_EVERY: Duration = Duration::from_secs(60);

impl Collisions {
    /// Detection by these settings; `None` where it is off.
    pub fn new(settings: &CollisionSettings, registry: &Registry) -> Option<Arc<Self>> {
        let memory = settings.memory.len();
        if memory == 0 {
            return None;
        }
        // A power of two.
        let count = 1 << (memory / BUCKET_BYTES_MIN).clamp(1, BUCKETS_MAX).ilog2();
        let words = memory / size_of::<u32>();
        let window_ms = u32::try_from(settings.window.get().as_millis()).unwrap_or(u32::MAX / 4);
        let limits = WindowLimits { words: words / count, window_ms };
        let bucket =
            |_| Bucket { window: Mutex::new(Window::new(limits)), words: AtomicU64::new(0) };
        let capacity = (words as f64 * ENTRIES_PART) as usize;
        let turns = Turns { control: ShareControl::new(capacity), last_ms: 0, words: 0 };
        let keys = Keys::new();
        let collisions = Arc::new(Self {
            all_times: Sampler::new(keys.times, 1.0),
            keys,
            buckets: (0..count).map(bucket).collect(),
            window_ms,
            begun: Instant::now(),
            share: SharedShare::new(Share::ALL),
            times: TimesCount::default(),
            turns: Mutex::new(turns),
            next_turn_ms: AtomicU64::new(0),
            sources: Sources::new(),
            counts: Counts::new(),
            unseen: Counter::new(),
        });
        let shown = Arc::clone(&collisions);
        registry.collect(move |encoder| shown.encode(encoder));
        Some(collisions)
    }

    /// Chooses the points that are looked at.
    pub fn sampler(&self) -> Sampler {
        Sampler::new(self.keys.times, self.share.get().times)
    }

    /// All connections that write.
    pub fn add_source(&self, peer: std::net::SocketAddr, user: Option<&str>) -> Source {
        self.sources.add(&self.keys, peer, user)
    }

    /// Another user writes on the connection from now on.
    pub fn set_user(&self, source: Source, user: Option<&str>) {
        self.sources.set_user(source, user);
    }

    /// Looks at points that the journal has taken, on a thread that may wait for the workers.
    pub fn observe<'a>(
        &self,
        db: &str,
        policy: &str,
        points: impl Iterator<Item = WrittenPoint<'a>>,
    ) {
        let to = self.written_to(db, policy);
        let now_ms = self.now_ms();
        let mut digest = PointDigest::default();
        for point in points {
            let wait = |bucket| Ok(self.window(bucket));
            let _ = self.look(to, &point, now_ms, &mut digest, wait);
        }
        self.turn(now_ms);
    }

    fn written_to<'a>(&self, db: &'a str, policy: &str) -> WrittenTo<'a> {
        WrittenTo { db, destination: self.keys.destination(db, policy) }
    }

    /// Milliseconds since the beginning.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn window(&self, bucket: usize) -> MutexGuard<'_, Window> {
        self.buckets[bucket].window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window_now(&self, bucket: usize) -> Result<MutexGuard<'_, Window>, BucketBusy> {
        match self.buckets[bucket].window.try_lock() {
            Ok(window) => Ok(window),
            Err(TryLockError::Poisoned(window)) => Ok(window.into_inner()),
            Err(TryLockError::WouldBlock) => Err(BucketBusy(bucket)),
        }
    }

    /// Looks at a point, with the window of its bucket as `lock` gives it.
    fn look<'w>(
        &self,
        to: WrittenTo<'_>,
        point: &WrittenPoint<'_>,
        now_ms: u64,
        digest: &mut PointDigest,
        lock: impl FnOnce(usize) -> Result<MutexGuard<'w, Window>, BucketBusy>,
    ) -> Result<(), BucketBusy> {
        // None of the normaliser's records cannot be read.
        let Some(read) = line::read(point.record) else { return Ok(()) };
        digest.key = self.keys.point(to.destination, &read);
        if !self.share.get().has_series(digest.key) {
            return Ok(());
        }
        // Bits that neither the share of series nor the chains of a window go by.
        let number = (digest.key >> 24) as usize % self.buckets.len();
        let bucket = &self.buckets[number];
        let mut window = lock(number)?;
        // Reaching it takes as long as the fields do.
        window.fetch(digest.key);
        self.keys.fields(read.fields, &mut digest.fields);
        let found = window.observe(digest, point.source, now_ms);
        let words = Window::words_for(digest.fields.len()) as u64;
        // No others write while the window is held.
        bucket.words.store(bucket.words.load(Ordering::Relaxed) + words, Ordering::Relaxed);
        drop(window);
        self.times.note(self.all_times.hash(point.time_ns));
        if let Some(found) = found {
            self.count(to, point, &found);
        }
        Ok(())
    }

    fn count(&self, to: WrittenTo<'_>, point: &WrittenPoint<'_>, found: &Collision) {
        let series = line::series(point.record);
        let measurement = line::unescape_name(line::measurement(series));
        let hash = self.keys.measurement(to.db, &measurement);
        let counts = self.counts.of(hash, to.db, &measurement);
        counts.count(found);
        // Each time, since nobody knows which is the last one.
        if found.outcome == Outcome::Overwritten {
            counts.note(|last| self.describe(point, series, found, last));
        }
    }

    fn describe(
        &self,
        point: &WrittenPoint<'_>,
        series: &[u8],
        found: &Collision,
        last: &mut Overwriting,
    ) {
        let fields = line::read(point.record).into_iter().flat_map(|point| point.fields);
        let Some(field) = fields.filter(|field| self.keys.is_of(found.older, field.name)).last()
        else {
            return;
        };
        *last = Overwriting {
            series: counts::name_of(series),
            time_ns: point.time_ns,
            field: counts::name_of(field.name),
            older_value: found.older.value(),
            newer_value: self.keys.field(&field).value().unwrap_or_else(|| text_of(&field)),
            older_connection: found.older_connection,
            newer_connection: point.source.connection,
        };
    }

    /// Looks whether the share is to be another one; one of those who come at the time does so.
    fn turn(&self, now_ms: u64) {
        let is_due = || now_ms >= self.next_turn_ms.load(Ordering::Relaxed);
        if !is_due() {
            return;
        }
        let Ok(mut turns) = self.turns.try_lock() else { return };
        // Another thread may have had this turn meanwhile.
        if !is_due() {
            return;
        }
        let slot_ms = (u64::from(self.window_ms) / SLOTS as u64).max(1);
        let passed = now_ms.saturating_sub(turns.last_ms) / slot_ms;
        let words: u64 = self.buckets.iter().map(|b| b.words.load(Ordering::Relaxed)).sum();
        let came = words - turns.words;
        let share = turns.control.turn(passed as usize, came, self.times.take());
        self.share.set(share);
        turns.last_ms = now_ms;
        turns.words = words;
        self.next_turn_ms.store(now_ms + slot_ms, Ordering::Relaxed);
    }

    /// Bytes of memory taken, after what is too old has been given back.
    fn bytes(&self) -> usize {
        let now_ms = self.now_ms();
        let bytes = |bucket| {
            let mut window = self.window(bucket);
            window.expire(now_ms);
            window.bytes()
        };
        (0..self.buckets.len()).map(bytes).sum()
    }

    /// Says in the log that points overwrite each other, once in this time at most, for as long as
    /// it is polled.
    pub async fn warn(self: Arc<Self>, every: Duration) {
        let mut known = KnownCounts::default();
        loop {
            tokio::time::sleep(every).await;
            if let Some((points, most)) = known.news(&self.counts.all()) {
                let (database, measurement) = (&most.database, &most.measurement);
                tracing::warn!(
                    points,
                    database,
                    measurement,
                    "points overwrite others of the same series and time; `weir status` shows \
                     whose, and a stamp in [influx] keeps writers apart"
                );
            }
        }
    }
}

/// The text of a field that is a string, cut short.
fn text_of(field: &Field<'_>) -> String {
    match field.value {
        Value::String(text) => counts::string_of(&line::unescape_string(text)),
        _ => String::new(),
    }
}
