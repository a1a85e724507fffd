//! A warning or error that repeats is written once and then counted.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::Context;

/// How often counted repeats are summed up in a line.
pub(super) const SUMMARY_EVERY: Duration = Duration::from_secs(10);
/// After this long without a repeat an event is written in full again.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// Events remembered; beyond, the one seen longest ago is forgotten.
const REMEMBERED_MAX: usize = 256;
/// Different texts that one place in the program may write in [`SUMMARY_EVERY`]: a line with a
/// client's address in it would otherwise be new each time.
const TEXTS_MAX: u32 = 20;
/// Summaries quote this much of what repeated, in bytes.
const QUOTE_MAX: usize = 256;
/// Where summaries come from; they are themselves never counted.
const TARGET: &str = "weir::repeated";

/// What was written recently, and how often it came again.
#[derive(Default)]
pub(super) struct Repeats {
    recent: Mutex<HashMap<u64, RecentEvent>>,
    suppressed: AtomicU64,
}

/// An event that was written, and what came of the same kind since.
struct RecentEvent {
    level: Level,
    source: &'static str,
    quote: String,
    last: Instant,
    /// Repeats since the last summary.
    count: u64,
    /// Different texts since the last summary; only counted where the key is a place.
    texts: u32,
}

impl Repeats {
    pub(super) fn suppressed(&self) -> u64 {
        self.suppressed.load(Ordering::Relaxed)
    }

    /// Whether `event` is to be written; counts it otherwise.
    fn admits(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || metadata.target() == TARGET {
            return true;
        }
        let mut hasher = Hashed(DefaultHasher::new());
        metadata.callsite().hash(&mut hasher.0);
        let place = hasher.0.finish();
        hasher.0.write_u8(0);
        event.record(&mut hasher);
        let text = hasher.0.finish();

        let mut recent = self.recent.lock();
        let admitted = !came_again(&mut recent, text, now) && !too_many(&mut recent, place);
        if admitted {
            remember(&mut recent, text, RecentEvent::new(event, quote(event), now));
            match recent.get_mut(&place) {
                Some(place) => {
                    place.texts += 1;
                    place.last = now;
                }
                None => {
                    let quote = "lines that differ, from one place".to_owned();
                    remember(&mut recent, place, RecentEvent::new(event, quote, now));
                }
            }
        } else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Writes a line for each event that came again since the last call, and forgets old ones.
    pub(super) fn summarise(&self) {
        let now = Instant::now();
        let mut repeated = Vec::new();
        {
            let mut recent = self.recent.lock();
            recent.retain(|_, event| now.duration_since(event.last) < FORGET_AFTER);
            for event in recent.values_mut() {
                event.texts = 0;
                let count = std::mem::take(&mut event.count);
                if count > 0 {
                    repeated.push((event.level, event.source, event.quote.clone(), count));
                }
            }
        }
        // Written without the lock, since each line comes through `admits`.
        for (level, source, quote, repeated) in repeated {
            if level == Level::ERROR {
                tracing::error!(target: TARGET, source, repeated, "again: {quote}");
            } else {
                tracing::warn!(target: TARGET, source, repeated, "again: {quote}");
            }
        }
    }
}

impl RecentEvent {
    fn new(event: &Event<'_>, quote: String, now: Instant) -> Self {
        Self {
            level: *event.metadata().level(),
            source: event.metadata().target(),
            quote,
            last: now,
            count: 0,
            texts: 1,
        }
    }
}

fn came_again(recent: &mut HashMap<u64, RecentEvent>, text: u64, now: Instant) -> bool {
    let Some(event) = recent.get_mut(&text) else {
        return false;
    };
    let fresh = now.duration_since(event.last) < FORGET_AFTER;
    event.last = now;
    event.count += u64::from(fresh);
    fresh
}

fn too_many(recent: &mut HashMap<u64, RecentEvent>, place: u64) -> bool {
    let Some(place) = recent.get_mut(&place) else {
        return false;
    };
    let over = place.texts >= TEXTS_MAX;
    place.count += u64::from(over);
    over
}

fn remember(recent: &mut HashMap<u64, RecentEvent>, key: u64, new: RecentEvent) {
    if recent.len() >= REMEMBERED_MAX {
        let oldest = recent.iter().min_by_key(|(_, event)| event.last);
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            recent.remove(&oldest);
        }
    }
    recent.insert(key, new);
}

/// The event's message and fields as in a line, cut to [`QUOTE_MAX`].
fn quote(event: &Event<'_>) -> String {
    let mut quote = Quoted(String::new());
    event.record(&mut quote);
    quote.0
}

/// Hashes fields as they would be written, without writing them anywhere.
struct Hashed(DefaultHasher);

impl fmt::Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Visit for Hashed {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.write(field.name().as_bytes());
        // Hashing can not fail.
        let _ = write!(self, "={value:?};");
    }
}

struct Quoted(String);

impl fmt::Write for Quoted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = QUOTE_MAX.saturating_sub(self.0.len());
        let cut = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        self.0.push_str(&text[..cut.unwrap_or(0)]);
        Ok(())
    }
}

impl Visit for Quoted {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let blank = if self.0.is_empty() { "" } else { " " };
        // Writing to memory can not fail.
        let _ = match field.name() {
            "message" => write!(self, "{blank}{value:?}"),
            name => write!(self, "{blank}{name}={value:?}"),
        };
    }
}

/// Lets only events through that [`Repeats`] admits.
pub(super) struct Layer(pub(super) std::sync::Arc<Repeats>);

impl<S: Subscriber> tracing_subscriber::Layer<S> for Layer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.0.admits(event, Instant::now())
    }
}
