//! Errors, by the server and by their kind.

use std::cell::OnceCell;

use watch::metrics::{Counter, Registry};

/// The first words of servers' errors that are counted by themselves; what is none of them is
/// `other`, so that no script's words become a label.
const WORDS: [&str; 29] = [
    "ERR",
    "ASK",
    "BUSY",
    "BUSYGROUP",
    "BUSYKEY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "DENIED",
    "EXECABORT",
    "INPROG",
    "IOERR",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOGOODSLAVE",
    "NOGROUP",
    "NOPERM",
    "NOPROTO",
    "NOREPLICAS",
    "NOSCRIPT",
    "NOTBUSY",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
];
/// What Weir says in a server's place.
const OWN: [&str; 4] = ["unreachable", "not_sent", "may_have_run", "late"];
/// All kinds, and one for what is none of them.
const COUNT: usize = WORDS.len() + OWN.len() + 1;

/// A kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(usize);

impl Kind {
    /// The server cannot be reached.
    pub const UNREACHABLE: Self = Self(WORDS.len());
    /// Weir failed the command before any of it was sent.
    pub const NOT_SENT: Self = Self(WORDS.len() + 1);
    /// The connection broke, and the server may have run it.
    pub const MAY_HAVE_RUN: Self = Self(WORDS.len() + 2);
    /// The answer is late.
    pub const LATE: Self = Self(WORDS.len() + 3);
    const OTHER: Self = Self(COUNT - 1);

    /// Of an error of a server's, by what came first of it.
    pub fn of(line: &[u8]) -> Self {
        let word = line.get(1..).unwrap_or_default();
        let end = word.iter().position(|byte| !byte.is_ascii_uppercase());
        let word = end.and_then(|end| word.get(..end));
        let at = WORDS.iter().position(|known| word == Some(known.as_bytes()));
        at.map_or(Self::OTHER, Self)
    }

    fn label(self) -> &'static str {
        WORDS.iter().chain(&OWN).nth(self.0).copied().unwrap_or("other")
    }
}

/// Errors of one server, as one worker counts them.
#[derive(Debug)]
pub struct Errors {
    pool: String,
    server: String,
    registry: Registry,
    /// Those that there were.
    counts: [OnceCell<Counter>; COUNT],
}

impl Errors {
    pub(super) fn new(pool: &str, server: &str, registry: &Registry) -> Self {
        Self {
            pool: pool.to_owned(),
            server: server.to_owned(),
            registry: registry.clone(),
            counts: [const { OnceCell::new() }; COUNT],
        }
    }

    /// Shows what Weir says in the server's place before it has been said.
    pub(super) fn show(&self) {
        for kind in [Kind::UNREACHABLE, Kind::NOT_SENT, Kind::MAY_HAVE_RUN, Kind::LATE] {
            self.counter(kind);
        }
    }

    /// Counts one more error of a kind.
    pub(super) fn count(&self, kind: Kind) {
        self.counts[kind.0].get_or_init(|| self.counter(kind)).inc();
    }

    fn counter(&self, kind: Kind) -> Counter {
        self.registry.counter(
            "weir_redis_errors_total",
            "Errors that clients heard of a Redis server, by their first word; in small letters \
             what Weir says where the server gives no answer.",
            &[("pool", &self.pool), ("server", &self.server), ("kind", kind.label())],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_the_first_word_where_that_is_known() {
        let label = |line: &str| Kind::of(line.as_bytes()).label();
        assert_eq!(label("-WRONGTYPE Operation against\r\n"), "WRONGTYPE");
        assert_eq!(label("-ERR weir\r\n"), "ERR");
        for other in ["-MYERROR of a script\r\n", "-err x\r\n", "-", "", "-OOM", "-BUSYX \r\n"] {
            assert_eq!(label(other), "other", "{other}");
        }
        let own = [Kind::UNREACHABLE, Kind::NOT_SENT, Kind::MAY_HAVE_RUN, Kind::LATE];
        assert_eq!(own.map(Kind::label), OWN);
    }
}
