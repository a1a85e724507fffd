//! Which Weirs a request has come through: so that one that leads back to where it came from is
//! refused, whatever lies between, in place of going round for ever.
//!
//! Each process has an id, drawn at its start. What it sends to a backend names, in `X-Weir-Via`,
//! its own id and those of the Weirs that have lately sent to it: a point in the journal does not
//! know any more who brought it. Whoever finds its own id in a request answers 508 (RFC 5842,
//! section 7.2), and the backend's delivery rests, with the points kept.

use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that names the Weirs a request has come through.
pub const VIA: HeaderName = HeaderName::from_static("x-weir-via");
/// How long a Weir that has sent something counts as one that sends here.
const REMEMBERED: Duration = Duration::from_secs(600);
/// How many of those are known; the one heard of longest ago is forgotten.
const SENDERS_MAX: usize = 15;

static OWN: LazyLock<Via> = LazyLock::new(Via::new);

/// The way back: this process, and who sends to it.
#[derive(Debug)]
struct Via {
    own: u64,
    senders: Mutex<Vec<(u64, Instant)>>,
}

/// What a request to a backend says of its way.
pub fn header() -> Option<HeaderValue> {
    OWN.header(Instant::now())
}

/// Notes the way of a request that came in; whether it has been through this process before.
pub fn has_been_here(headers: &HeaderMap) -> bool {
    headers.contains_key(VIA) && OWN.note(headers, Instant::now())
}

impl Via {
    fn new() -> Self {
        Self { own: rand::random(), senders: Mutex::default() }
    }

    fn senders(&self) -> MutexGuard<'_, Vec<(u64, Instant)>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn header(&self, now: Instant) -> Option<HeaderValue> {
        let mut text = format!("{:016x}", self.own);
        for (id, heard) in self.senders().iter() {
            if now.saturating_duration_since(*heard) < REMEMBERED {
                let _ = write!(text, ", {id:016x}");
            }
        }
        HeaderValue::from_maybe_shared(text).ok()
    }

    fn note(&self, headers: &HeaderMap, now: Instant) -> bool {
        let texts = headers.get_all(VIA).iter().filter_map(|value| value.to_str().ok());
        let ids = texts.flat_map(|text| text.split(','));
        let ids = ids.filter_map(|id| u64::from_str_radix(id.trim(), 16).ok());
        let ids: Vec<u64> = ids.collect();
        // Nobody is known by what is refused: that would outlast what has led back here.
        if ids.contains(&self.own) {
            return true;
        }
        let mut senders = self.senders();
        for id in ids {
            senders.retain(|(known, _)| *known != id);
            if senders.len() >= SENDERS_MAX {
                senders.remove(0);
            }
            senders.push((id, now));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one sends, another hears.
    fn sends(from: &Via, to: &Via, now: Instant) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(VIA, from.header(now).unwrap());
        to.note(&headers, now)
    }

    #[test]
    fn what_comes_back_through_any_number_of_weirs_is_known() {
        let now = Instant::now();
        let all: Vec<Via> = (0..6).map(|_| Via::new()).collect();
        for pair in all.windows(2) {
            assert!(!sends(&pair[0], &pair[1], now));
        }
        assert!(sends(&all[5], &all[0], now));
        // Two ways to the same place are no way back.
        assert!(!sends(&all[0], &all[5], now));
    }

    #[test]
    fn who_sends_no_more_is_forgotten() {
        let (now, [a, b]) = (Instant::now(), [Via::new(), Via::new()]);
        sends(&a, &b, now);
        assert!(sends(&b, &a, now + REMEMBERED / 2));
        assert!(!sends(&b, &a, now + REMEMBERED));
    }

    #[test]
    fn strangers_words_are_no_more_than_so_many() {
        let (now, own) = (Instant::now(), Via::new());
        let mut headers = HeaderMap::new();
        let ids: Vec<String> = (1..1000).map(|id| format!("{id:x}")).collect();
        headers.insert(VIA, ids.join(",").parse().unwrap());
        headers.append(VIA, "nonsense,,\t,-1".parse().unwrap());
        assert!(!own.note(&headers, now));
        assert_eq!(own.senders().len(), SENDERS_MAX);
        assert_eq!(own.header(now).unwrap().len(), 16 * 18 - 2);
    }
}
