//! What the log has of a login that failed: who, from where, and why, and never what was shown as
//! a password.
//!
//! Names come from strangers: they are escaped and cut. So do the lines: an address has a few at
//! once, then one now and then, which says how many there were in between.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The bytes of a name that the log has, and those of a reason, which may quote a name.
const NAME_BYTES_MAX: usize = 64;
const REASON_BYTES_MAX: usize = 256;
/// Lines of one address at once; after so long without a line it has one more.
const LINES_MAX: u32 = 5;
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Addresses that are counted by themselves.
const ADDRESSES_MAX: usize = 4096;

static LINES: Mutex<Option<Lines>> = Mutex::new(None);

/// A login that failed.
#[derive(Debug, Clone, Copy)]
pub struct FailedLogin<'a> {
    /// The gateway, or the part of it, that has refused it.
    pub gateway: &'static str,
    /// The name that was given; `None` where there was none.
    pub user: Option<&'a [u8]>,
    /// The database that was named.
    pub database: Option<&'a str>,
    /// `None` of a Unix socket.
    pub from: Option<IpAddr>,
    /// Why it failed, as the operator is to know it.
    pub reason: &'a str,
}

impl FailedLogin<'_> {
    /// Writes it to the log, or counts it where its address has had its lines.
    pub fn log(&self) {
        let mut lines = LINES.lock();
        let unsaid = lines.get_or_insert_default().admit(self.gateway, self.from, Instant::now());
        drop(lines);
        let Some(unsaid) = unsaid else { return };
        let address = self.from.map_or_else(|| "unix".to_owned(), |from| from.to_string());
        tracing::warn!(
            gateway = self.gateway,
            user = self.user.map(|user| tracing::field::display(Name(user, NAME_BYTES_MAX))),
            database = self
                .database
                .map(|name| tracing::field::display(Name(name.as_bytes(), NAME_BYTES_MAX))),
            address,
            reason = %Name(self.reason.as_bytes(), REASON_BYTES_MAX),
            unsaid = (unsaid > 0).then_some(unsaid),
            "a login failed"
        );
    }
}

/// What somebody else has written, fit for one line: escaped, and cut.
struct Name<'a>(&'a [u8], usize);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes, most) = *self;
        f.write_char('"')?;
        for chunk in bytes.get(..most).unwrap_or(bytes).utf8_chunks() {
            write!(f, "{}{}", chunk.valid().escape_debug(), chunk.invalid().escape_ascii())?;
        }
        f.write_char('"')?;
        if bytes.len() > most {
            write!(f, " and {} bytes more", bytes.len() - most)
        } else {
            Ok(())
        }
    }
}

/// How many lines each address has had at each gateway.
#[derive(Debug, Default)]
struct Lines(HashMap<AddressAtGateway, Had>);

/// The gateway, and the address that clients come from.
type AddressAtGateway = (&'static str, Option<IpAddr>);

#[derive(Debug)]
struct Had {
    lines: u32,
    /// When the last of them was given back.
    since: Instant,
    /// Failures without a line since the last.
    unsaid: u64,
}

impl Lines {
    /// Whether a failure from there has a line now, and how many had none since the last.
    fn admit(&mut self, gateway: &'static str, from: Option<IpAddr>, now: Instant) -> Option<u64> {
        let from = (gateway, from.map(|from| from.to_canonical()));
        if self.0.len() >= ADDRESSES_MAX && !self.0.contains_key(&from) {
            self.0.retain(|_, had| now.saturating_duration_since(had.since) < LINE_EVERY);
            if self.0.len() >= ADDRESSES_MAX {
                // The log itself has a limit of what it writes of one kind.
                self.0.clear();
            }
        }
        let had = self.0.entry(from).or_insert(Had { lines: 0, since: now, unsaid: 0 });
        let passed = now.saturating_duration_since(had.since).as_secs() / LINE_EVERY.as_secs();
        let back = u32::try_from(passed).unwrap_or(u32::MAX).min(had.lines);
        had.lines -= back;
        had.since = if had.lines == 0 { now } else { had.since + LINE_EVERY * back };
        if had.lines >= LINES_MAX {
            had.unsaid += 1;
            return None;
        }
        had.lines += 1;
        Some(std::mem::take(&mut had.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_name_makes_no_line_of_its_own_and_no_long_one() {
        let shown = |name: &[u8]| Name(name, NAME_BYTES_MAX).to_string();
        assert_eq!(shown(b"ann"), "\"ann\"");
        assert_eq!(shown(b"a\"\n\x1b[31m\xff\x00"), r#""a\"\n\u{1b}[31m\xff\0""#);
        assert_eq!(shown("\u{202e}é".as_bytes()), "\"\\u{202e}é\"");
        let long = shown("é".repeat(100).as_bytes());
        assert_eq!(long, format!("\"{}\" and 136 bytes more", "é".repeat(32)));
        assert!(shown(&vec![0xff; 1 << 20]).len() < 300);
    }

    #[test]
    fn an_address_has_a_few_lines_and_then_one_now_and_then() {
        let (mut lines, mut now) = (Lines::default(), Instant::now());
        let [ann, bob] = [Some([10, 0, 0, 1].into()), None];
        for _ in 0..LINES_MAX {
            assert_eq!(lines.admit("redis", ann, now), Some(0));
        }
        for _ in 0..100 {
            assert_eq!(lines.admit("redis", ann, now), None);
        }
        assert_eq!(lines.admit("redis", bob, now), Some(0));
        now += LINE_EVERY;
        assert_eq!(lines.admit("redis", ann, now), Some(100));
        assert_eq!(lines.admit("redis", ann, now), None);
        now += 100 * LINE_EVERY;
        assert_eq!(lines.admit("redis", ann, now), Some(1));
        assert_eq!(lines.0[&("redis", ann)].lines, 1);
    }

    #[test]
    fn so_many_addresses_are_counted_and_no_more() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        for number in 0..3 * ADDRESSES_MAX as u32 {
            assert_eq!(lines.admit("redis", Some(number.to_be_bytes().into()), now), Some(0));
            assert!(lines.0.len() <= ADDRESSES_MAX);
        }
    }
}
