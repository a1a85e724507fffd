//! What a server answers to `INFO` and to `CONFIG GET`.

use super::lines::Id;
use crate::info;

/// From where on a server closes the connection of a replica that does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// At once beyond so many bytes; 0 is never.
    pub hard: u64,
    /// After [`Limit::soft_seconds`] beyond so many bytes; 0 is never.
    pub soft: u64,
    /// For how many seconds [`Limit::soft`] may be passed.
    pub soft_seconds: u64,
}

impl Limit {
    /// The same where so many bytes are allowed at least.
    pub fn raised(self, bytes: u64) -> Self {
        let raise = |limit: u64| if limit == 0 { 0 } else { limit.max(bytes) };
        Self { hard: raise(self.hard), soft: raise(self.soft), ..self }
    }
}

/// How many keys `INFO keyspace` counts in all databases.
pub fn keys_of(reply: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(reply).ok()?;
    let mut lines = text.lines();
    lines.find(|line| *line == "# Keyspace")?;
    let of_database = |line: &str| line.split_once(":keys=")?.1.split(',').next()?.parse().ok();
    lines.filter(|line| line.starts_with("db")).try_fold(0, |sum: u64, line| {
        let keys: u64 = of_database(line)?;
        Some(sum.saturating_add(keys))
    })
}

/// Whose history a master has: its own, and the one that its own goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histories {
    pub own: Id,
    /// The id of the master that it took over from.
    pub before: Option<Id>,
    /// How much of that one's history it has: the offset of the first byte, from 1, that is its
    /// own.
    pub since: Option<u64>,
}

/// What a data set that a master sends is to what was confirmed of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lineage {
    /// It has all of that, or nothing was confirmed.
    Continued,
    /// Nobody knows: it is of another history, as that of a master that was started again.
    Unknown,
    /// It went another way before what was confirmed, and lacks what lies between these offsets.
    Lacks {
        /// How much of the history that was confirmed it has.
        has: u64,
        /// How much was confirmed.
        confirmed: u64,
    },
}

impl Histories {
    /// As `INFO replication` has them; `None` where it is not said.
    pub fn read(reply: &[u8]) -> Option<Self> {
        let id = |field| Id::read(info::field(reply, field)?.as_bytes());
        let since = info::field(reply, "second_repl_offset").and_then(|text| text.parse().ok());
        Some(Self { own: id("master_replid")?, before: id("master_replid2"), since })
    }

    /// Whether a stream of one history may go on under another id behind an offset.
    pub fn goes_on(&self, (of, offset): (Id, u64), under: Id) -> bool {
        let has_all = self.since.is_none_or(|since| offset < since);
        self.own == under && (of == under || (self.before == Some(of) && has_all))
    }

    /// What a data set of this history is to a history of which so much was confirmed.
    fn lineage(&self, of: Id, confirmed: u64) -> Lineage {
        match self.since {
            Some(since) if self.before == Some(of) && since <= confirmed => {
                Lineage::Lacks { has: since.saturating_sub(1), confirmed }
            }
            Some(_) if self.before == Some(of) => Lineage::Continued,
            _ => Lineage::Unknown,
        }
    }
}

impl Lineage {
    /// Of a data set under an id, where the master says these of its histories, and `confirmed` is
    /// what the files have.
    pub fn of(under: Id, histories: Option<Histories>, confirmed: Option<(Id, u64)>) -> Self {
        match (confirmed, histories.filter(|known| known.own == under)) {
            (None, _) => Self::Continued,
            (Some((of, _)), _) if of == under => Self::Continued,
            (Some((of, offset)), Some(known)) => known.lineage(of, offset),
            (Some(_), None) => Self::Unknown,
        }
    }
}

/// The value of a setting in what `CONFIG GET` answers in RESP2.
pub fn config<'a>(reply: &'a [u8], key: &str) -> Option<&'a str> {
    let mut lines = std::str::from_utf8(reply).ok()?.split("\r\n");
    lines.find(|line| *line == key)?;
    // The value's length lies before it.
    lines.nth(1)
}

/// The limit of replicas in the value of `client-output-buffer-limit`.
pub fn output_limit(value: &str) -> Option<Limit> {
    let words: Vec<&str> = value.split(' ').collect();
    let of_replicas = words.chunks(4).find(|of| matches!(of.first(), Some(&"slave" | &"replica")));
    let [_, hard, soft, seconds] = of_replicas? else { return None };
    let (hard, soft) = (hard.parse().ok()?, soft.parse().ok()?);
    Some(Limit { hard, soft, soft_seconds: seconds.parse().ok()? })
}

/// A limit of replicas as `CONFIG SET client-output-buffer-limit` takes it.
pub fn limit_of_replicas(limit: Limit) -> String {
    let Limit { hard, soft, soft_seconds } = limit;
    format!("replica {hard} {soft} {soft_seconds}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_servers_answers_are_read() {
        let reply = b"$60\r\n# Replication\r\nrole:master\r\nmaster_repl_offset:14\r\n";
        assert_eq!(info::field(reply, "master_repl_offset"), Some("14"));
        assert_eq!(info::field(reply, "master_repl"), None);
        let reply =
            b"$9\r\n# Keyspace\r\ndb0:keys=4,expires=1,avg_ttl=0\r\ndb3:keys=2,expires=0\r\n";
        assert_eq!((keys_of(reply), keys_of(b"$12\r\n# Keyspace\r\n\r\n")), (Some(6), Some(0)));
        assert_eq!((keys_of(b"+PONG\r\n"), keys_of(b"-NOPERM\r\n")), (None, None));
        let reply = b"*2\r\n$17\r\nrepl-backlog-size\r\n$7\r\n1048576\r\n";
        assert_eq!(config(reply, "repl-backlog-size"), Some("1048576"));
        assert_eq!(config(b"*0\r\n", "repl-backlog-size"), None);
        let limit = Limit { hard: 268_435_456, soft: 67_108_864, soft_seconds: 60 };
        let all = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(output_limit(all), Some(limit));
        assert_eq!(output_limit(&limit_of_replicas(limit)), Some(limit));
        assert_eq!(output_limit("normal 0 0 0"), None);
    }

    #[test]
    fn a_stream_goes_on_in_a_history_that_the_master_has() {
        let of = |letter: &str| letter.repeat(40);
        let id = |letter: &str| Id::read(of(letter).as_bytes()).unwrap();
        let reply = format!("$1\r\nmaster_replid:{}\r\nmaster_replid2:{}\r\n", of("b"), of("a"));
        let known = Histories::read(reply.as_bytes()).unwrap();
        let goes_on = |known: Histories, of, under| known.goes_on((id(of), 5), id(under));
        assert!(goes_on(known, "a", "b") && goes_on(known, "b", "b"));
        for (asked, said) in [("a", "a"), ("c", "b"), ("b", "a"), ("a", "c")] {
            assert!(!goes_on(known, asked, said), "{asked} as {said}");
        }
        // Of the history before it has no more than its own begins behind.
        let since = |since| Histories { since: Some(since), ..known };
        assert!(goes_on(since(6), "a", "b") && !goes_on(since(5), "a", "b"));
        assert!(goes_on(since(5), "b", "b"));
        assert_eq!(Histories::read(b"+PONG\r\n"), None);
        assert_eq!(Histories::read(b"$1\r\nmaster_replid:short\r\n"), None);
    }

    #[test]
    fn a_data_set_that_lacks_what_was_confirmed_is_told_from_one_that_has_it() {
        let id = |letter: &str| Id::read(letter.repeat(40).as_bytes()).unwrap();
        let known = Histories { own: id("b"), before: Some(id("a")), since: Some(101) };
        let of = |under, confirmed| Lineage::of(id(under), Some(known), confirmed);
        assert_eq!(of("b", None), Lineage::Continued);
        assert_eq!(of("b", Some((id("b"), 999))), Lineage::Continued);
        assert_eq!(of("b", Some((id("a"), 100))), Lineage::Continued);
        let lacks = Lineage::Lacks { has: 100, confirmed: 101 };
        assert_eq!(of("b", Some((id("a"), 101))), lacks);
        // Of another history nobody knows, nor where INFO is of another than what is sent.
        assert_eq!(of("b", Some((id("c"), 5))), Lineage::Unknown);
        assert_eq!(of("d", Some((id("a"), 5))), Lineage::Unknown);
        assert_eq!(Lineage::of(id("b"), None, Some((id("a"), 5))), Lineage::Unknown);
        let silent = Histories { since: None, ..known };
        let unknown = Lineage::of(id("b"), Some(silent), Some((id("a"), 5)));
        assert_eq!(unknown, Lineage::Unknown);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(bytes: Vec<u8>, text: String) {
            let _ = (info::field(&bytes, "a"), keys_of(&bytes));
            let _ = (config(&bytes, "a"), output_limit(&text));
            let _ = Histories::read(&bytes);
        }
    }
}
