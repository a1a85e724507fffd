//! The points that were written of late, in a bounded memory: what a new one is compared with.

use std::collections::VecDeque;

use super::keys::{FieldDigest, PointDigest};
use super::source::{Between, Source};

/// Points in the order in which they were written, the oldest of which are forgotten: entries of
/// words of 32 bits in segments, found by their keys through chains from the newest to the oldest.
/// An entry's place is its segment's number and its first word there.
#[derive(Debug)]
pub struct Window {
    limits: WindowLimits,
    segments: VecDeque<Segment>,
    /// The number of the first segment.
    first: u32,
    chains: Vec<Chain>,
    /// Entries in all segments.
    entries: usize,
    /// A segment that is empty, to be used again.
    spare: Option<Box<[u32]>>,
    /// The latest time that was told.
    now_ms: u64,
    /// The fields of the point at hand that no older one has had yet, by their numbers.
    open: Vec<usize>,
}

/// What bounds a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// Words of memory that it may take.
    pub words: usize,
    /// How long a point is remembered, in milliseconds.
    pub window_ms: u32,
}

/// Where a chain begins, and what need not be looked for in it.
#[derive(Clone, Copy, Debug)]
struct Chain {
    newest: u32,
    /// A bit for the key of each entry, and of some that are there no more: most points are of no
    /// entry's key, and an entry that nobody has read lately takes longer to reach than all else.
    keys: u32,
}

impl Chain {
    const EMPTY: Self = Self { newest: NONE, keys: 0 };
    const WORDS: usize = size_of::<Self>() / size_of::<u32>();

    /// The bit of a key, by others of its bits than those that choose the chain.
    fn bit(key: u64) -> u32 {
        1 << ((key >> 32) % u64::from(u32::BITS))
    }
}

#[derive(Debug)]
struct Segment {
    words: Box<[u32]>,
    used: usize,
    entries: usize,
    /// When its last entry came.
    newest_ms: u64,
}

/// What became of fields that two points have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// One of them has another value now.
    Overwritten,
    /// All of them have the same value.
    Equal,
}

impl Outcome {
    /// Both of them, in the order that they are shown in.
    pub const ALL: [Self; 2] = [Self::Overwritten, Self::Equal];

    /// What metrics and the status call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overwritten => "overwritten",
            Self::Equal => "equal",
        }
    }
}

/// A point that has fields in common with one that was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collision {
    /// What became of the fields.
    pub outcome: Outcome,
    /// Who wrote the two.
    pub between: Between,
    /// The field that was overwritten, or the first one in common, as the older point had it.
    pub older: FieldDigest,
    /// The connection of the older point.
    pub older_connection: u32,
}

/// Words of a segment.
pub const SEGMENT_WORDS: usize = 1 << OFFSET_BITS;
const OFFSET_BITS: u32 = 12;
/// Numbers of segments, after which a window begins anew.
const SEGMENTS_MAX: u32 = 1 << (32 - OFFSET_BITS);

/// Where the words of an entry are: the key in two, the next older entry of its chain, when it came
/// in milliseconds, its source in two, the number of fields, then the fields.
const NEXT: usize = 2;
const CAME: usize = 3;
const CONNECTION: usize = 4;
const ADDRESS: usize = 5;
const FIELDS: usize = 6;
const HEADER: usize = 7;
/// Set in the number of fields of an entry that is in no chain any more.
const UNCHAINED: u32 = 1 << 31;

/// No entry: a place within the last segment that no entry has, as it would have no fields there.
const NONE: u32 = u32::MAX;

/// Fields of a point that are looked at; those beyond are not.
const FIELDS_MAX: usize = (SEGMENT_WORDS - HEADER) / FieldDigest::WORDS;

/// Entries of a chain that are looked at for one point.
const CHAIN_MAX: usize = 128;

const CHAINS_MIN: usize = 256;

impl Window {
    /// An empty window, which takes no memory.
    pub fn new(limits: WindowLimits) -> Self {
        Self {
            limits,
            segments: VecDeque::new(),
            first: 0,
            chains: Vec::new(),
            entries: 0,
            spare: None,
            now_ms: 0,
            open: Vec::new(),
        }
    }

    /// Bytes of memory taken.
    pub fn bytes(&self) -> usize {
        let segments = self.segments.len() + usize::from(self.spare.is_some());
        (segments * SEGMENT_WORDS + self.chain_words()) * size_of::<u32>()
    }

    fn chain_words(&self) -> usize {
        self.chains.len() * Chain::WORDS
    }

    /// Words that a point with so many fields takes.
    pub fn words_for(fields: usize) -> usize {
        HEADER + fields.min(FIELDS_MAX) * FieldDigest::WORDS
    }

    /// Begins to read from memory what a point of this key will be compared with.
    pub fn fetch(&self, key: u64) {
        std::hint::black_box(self.chains.get(self.chain(key)).copied());
    }

    /// Compares a point with those before it and remembers it. `now_ms` counts from any moment.
    pub fn observe(
        &mut self,
        point: &PointDigest,
        source: Source,
        now_ms: u64,
    ) -> Option<Collision> {
        self.advance(now_ms);
        let fields = &point.fields[..point.fields.len().min(FIELDS_MAX)];
        let collision = self.compare(point.key, fields, source);
        self.remember(point.key, fields, source);
        collision
    }

    /// Forgets what has become too old, as of `now_ms`; all memory is given back with the last.
    pub fn expire(&mut self, now_ms: u64) {
        self.advance(now_ms);
        let oldest_ms = self.now_ms.saturating_sub(self.limits.window_ms.into());
        while self.segments.front().is_some_and(|segment| segment.newest_ms < oldest_ms) {
            self.drop_oldest();
        }
        if self.segments.is_empty() {
            self.clear();
        }
    }

    /// Times of several threads come a little out of order. After a pause of more than a window
    /// nothing is left, so that 32 bits of an entry's time are enough.
    fn advance(&mut self, now_ms: u64) {
        let pause = now_ms.saturating_sub(self.now_ms);
        self.now_ms += pause;
        if pause > u64::from(self.limits.window_ms) {
            self.clear();
        }
    }

    /// Whether an entry came before the window, by the lower bits of when it did.
    fn is_old(&self, came_ms: u32) -> bool {
        (self.now_ms as u32).wrapping_sub(came_ms) > self.limits.window_ms
    }

    fn clear(&mut self) {
        let (limits, now_ms) = (self.limits, self.now_ms);
        *self = Self { now_ms, ..Self::new(limits) };
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.segments.pop_front() {
            self.first += 1;
            self.entries -= oldest.entries;
            self.spare = Some(oldest.words);
        }
    }

    fn chain(&self, key: u64) -> usize {
        // A power of two, or 0 of an empty window.
        key as usize & self.chains.len().wrapping_sub(1)
    }

    /// The words from an entry's first on; none where it is forgotten.
    fn entry(&self, place: u32) -> Option<&[u32]> {
        let number = (place >> OFFSET_BITS).checked_sub(self.first)?;
        let segment = self.segments.get(number as usize)?;
        segment.words[..segment.used].get(place as usize % SEGMENT_WORDS..)
    }

    fn word_mut(&mut self, place: u32, word: usize) -> Option<&mut u32> {
        let number = (place >> OFFSET_BITS).checked_sub(self.first)?;
        let segment = self.segments.get_mut(number as usize)?;
        segment.words.get_mut(place as usize % SEGMENT_WORDS + word)
    }

    /// Looks for the newest value of each field, and takes an entry that says nothing any more
    /// once the point is remembered out of its chain.
    fn compare(&mut self, key: u64, fields: &[FieldDigest], source: Source) -> Option<Collision> {
        let chain = self.chain(key);
        let Chain { newest: mut place, keys } = *self.chains.get(chain)?;
        if keys & Chain::bit(key) == 0 {
            return None;
        }
        let mut newer = None;
        let mut found: Option<Collision> = None;
        let mut open = std::mem::take(&mut self.open);
        open.clear();
        let mut is_first = true;
        for _ in 0..CHAIN_MAX {
            let Some(entry) = self.entry(place).filter(|entry| entry.len() >= HEADER) else {
                break;
            };
            if self.is_old(entry[CAME]) {
                break;
            }
            let next = entry[NEXT];
            if entry[..NEXT] == [key as u32, (key >> 32) as u32] {
                if std::mem::take(&mut is_first) {
                    open.extend(0..fields.len());
                }
                let older = Source { connection: entry[CONNECTION], address: entry[ADDRESS] };
                let older_fields = fields_of(entry);
                let count = older_fields.len();
                let common = match_fields(fields, older_fields, &mut open, |older_field, same| {
                    let outcome = if same { Outcome::Equal } else { Outcome::Overwritten };
                    if found.is_none_or(|found| outcome < found.outcome) {
                        found = Some(Collision {
                            outcome,
                            between: Between::of(older, source),
                            older: older_field,
                            older_connection: older.connection,
                        });
                    }
                });
                if common == count {
                    self.unchain(place, newer, chain, next);
                } else {
                    newer = Some(place);
                }
                if open.is_empty() {
                    break;
                }
            } else {
                newer = Some(place);
            }
            place = next;
        }
        self.open = open;
        found
    }

    fn unchain(&mut self, place: u32, newer: Option<u32>, chain: usize, next: u32) {
        match newer {
            None => self.chains[chain].newest = next,
            Some(newer) => {
                if let Some(link) = self.word_mut(newer, NEXT) {
                    *link = next;
                }
            }
        }
        if let Some(fields) = self.word_mut(place, FIELDS) {
            *fields |= UNCHAINED;
        }
    }

    fn remember(&mut self, key: u64, fields: &[FieldDigest], source: Source) {
        let words = Self::words_for(fields.len());
        if self.segments.back().is_none_or(|last| last.words.len() - last.used < words) {
            self.begin_segment();
        }
        if self.entries >= self.chains.len() {
            self.add_chains();
        }
        let chain = self.chain(key);
        let number = self.first + self.segments.len() as u32 - 1;
        let (now_ms, older) = (self.now_ms, self.chains[chain]);
        let is_empty = older.newest == NONE || older.newest >> OFFSET_BITS < self.first;
        let (next, keys) = if is_empty { (NONE, 0) } else { (older.newest, older.keys) };
        let Some(segment) = self.segments.back_mut() else { return };
        let place = number << OFFSET_BITS | segment.used as u32;
        let entry = &mut segment.words[segment.used..segment.used + words];
        let count = fields.len() as u32;
        let Source { connection, address } = source;
        let came = now_ms as u32;
        let header = [key as u32, (key >> 32) as u32, next, came, connection, address, count];
        entry[..HEADER].copy_from_slice(&header);
        let places = entry[HEADER..].as_chunks_mut().0;
        for (place, field) in places.iter_mut().zip(fields) {
            *place = field.to_words();
        }
        segment.used += words;
        segment.entries += 1;
        segment.newest_ms = now_ms;
        self.entries += 1;
        self.chains[chain] = Chain { newest: place, keys: keys | Chain::bit(key) };
    }

    /// Makes room for entries, where there is none by forgetting the oldest.
    fn begin_segment(&mut self) {
        self.expire(self.now_ms);
        let is_full = |window: &Self| {
            (window.segments.len() + 1) * SEGMENT_WORDS + window.chain_words() > window.limits.words
        };
        while !self.segments.is_empty() && is_full(self) {
            self.drop_oldest();
        }
        if self.first + self.segments.len() as u32 >= SEGMENTS_MAX {
            self.clear();
        }
        let words = self.spare.take().unwrap_or_else(|| vec![0; SEGMENT_WORDS].into());
        let newest_ms = self.now_ms;
        self.segments.push_back(Segment { words, used: 0, entries: 0, newest_ms });
    }

    /// Doubles the number of chains, unless there is no memory left for them, and makes them anew.
    fn add_chains(&mut self) {
        let wanted = (self.chains.len() * 2).max(CHAINS_MIN);
        let words = self.segments.len() * SEGMENT_WORDS + wanted * Chain::WORDS;
        if words > self.limits.words && wanted > CHAINS_MIN {
            return;
        }
        self.chains = vec![Chain::EMPTY; wanted];
        let mask = wanted - 1;
        for (number, segment) in (self.first..).zip(&mut self.segments) {
            let mut at = 0;
            while at < segment.used {
                let entry = &mut segment.words[at..];
                let fields = entry[FIELDS];
                if fields & UNCHAINED == 0 {
                    let key = u64::from(entry[1]) << 32 | u64::from(entry[0]);
                    let chain = &mut self.chains[key as usize & mask];
                    entry[NEXT] = chain.newest;
                    chain.newest = number << OFFSET_BITS | at as u32;
                    chain.keys |= Chain::bit(key);
                }
                at += Self::words_for((fields & !UNCHAINED) as usize);
            }
        }
    }
}

fn fields_of(entry: &[u32]) -> &[[u32; FieldDigest::WORDS]] {
    let fields = entry[HEADER..].as_chunks().0;
    fields.get(..(entry[FIELDS] & !UNCHAINED) as usize).unwrap_or_default()
}

/// Tells of each open field that an older point has, and whether the values are equal; it is open
/// no more. Gives how many of the older point's fields the new one has. Both are in one order.
fn match_fields(
    fields: &[FieldDigest],
    older: &[[u32; FieldDigest::WORDS]],
    open: &mut Vec<usize>,
    mut tell: impl FnMut(FieldDigest, bool),
) -> usize {
    let mut older = older.iter().map(|words| FieldDigest::of_words(*words)).peekable();
    let mut common = 0;
    let mut still_open = 0;
    let mut at = 0;
    for (number, field) in fields.iter().enumerate() {
        while older.next_if(|older| older.name() < field.name()).is_some() {}
        let same_name = older.next_if(|older| older.name() == field.name());
        common += usize::from(same_name.is_some());
        if open.get(at) != Some(&number) {
            continue;
        }
        at += 1;
        match same_name {
            Some(older) => tell(older, field.has_value_of(older)),
            None => {
                open[still_open] = number;
                still_open += 1;
            }
        }
    }
    open.truncate(still_open);
    common
}

#[cfg(test)]
mod tests;
