//! What servers say of commands that Weir does not know.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use wire::resp::{Value, value};

use crate::commands::Keys;

/// Names of which it is remembered what servers say, and for how long.
const KNOWN_MAX: usize = 256;
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// Such commands under way at once on one worker, each with a connection.
const AT_ONCE: usize = 16;
/// Flags of what is not run: it may not end, says more than once, or is for one server.
const REFUSED: [&str; 3] = ["admin", "blocking", "pubsub"];
/// Categories of what a server runs for the commands behind it: as another user, in another
/// database, or no longer as one transaction.
const FOR_CONNECTION: [&str; 2] = ["@connection", "@transaction"];

/// What servers say of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// Where its keys are; `None` where that is not said.
    pub keys: Option<Keys>,
    /// It is not run.
    pub is_refused: bool,
    /// It is for administrators.
    pub is_dangerous: bool,
    /// It changes what the commands behind it on its connection are: no step of a transaction.
    pub is_for_connection: bool,
}

/// What was said of a command, and when; `None`: that there is none.
type RememberedFact = (Instant, Option<Fact>);

/// What one worker remembers, and how many it may run at once.
#[derive(Debug)]
pub struct Unknown {
    facts: RefCell<HashMap<Box<[u8]>, RememberedFact>>,
    /// Permits to run one.
    pub running: Semaphore,
}

impl Default for Unknown {
    fn default() -> Self {
        Self { facts: RefCell::default(), running: Semaphore::new(AT_ONCE) }
    }
}

impl Unknown {
    /// What the servers said of a command a short while ago: `Some(None)` that they have none.
    pub fn remembered(&self, name: &[u8]) -> Option<Option<Fact>> {
        self.said_within(KNOWN_FOR, name)
    }

    /// As [`remembered`](Self::remembered), of a name that was remembered, or looked up, just
    /// before: it is not forgotten between the two.
    pub fn looked_up(&self, name: &[u8]) -> Option<Option<Fact>> {
        self.said_within(KNOWN_FOR * 2, name)
    }

    fn said_within(&self, age: Duration, name: &[u8]) -> Option<Option<Fact>> {
        let facts = self.facts.borrow();
        let (at, fact) = facts.get(name)?;
        (at.elapsed() < age).then_some(*fact)
    }

    /// Remembers what they say.
    pub fn remember(&self, name: &[u8], fact: Option<Fact>) {
        let mut facts = self.facts.borrow_mut();
        if facts.len() >= KNOWN_MAX {
            facts.clear();
        }
        facts.insert(name.into(), (Instant::now(), fact));
    }
}

impl Fact {
    /// What `COMMAND INFO` of one command says; `None` where there is no such command, or what is
    /// said is not understood.
    pub fn read(answer: &[u8]) -> Option<Self> {
        let (Value::Array(all), _) = value(answer).ok()? else { return None };
        let [Value::Array(parts)] = &*all else { return None };
        let mut fact = Self::of_one(parts)?;
        // What a command with sub-commands says of itself holds for none of them, and which one a
        // client names is not looked at: the strictest counts for all.
        let subs = match parts.get(9) {
            None => &[][..],
            Some(Value::Array(subs) | Value::Set(subs)) => subs,
            Some(_) => return None,
        };
        for sub in subs {
            let Value::Array(parts) = sub else { return None };
            let sub = Self::of_one(parts)?;
            fact.is_refused |= sub.is_refused;
            fact.is_dangerous |= sub.is_dangerous;
            fact.is_for_connection |= sub.is_for_connection;
            fact.keys = fact.keys.filter(|keys| sub.keys == Some(*keys));
        }
        Some(fact)
    }

    fn of_one(parts: &[Value<'_>]) -> Option<Self> {
        let words = |of: Option<&Value<'_>>| -> Option<Vec<String>> {
            let (Value::Array(words) | Value::Set(words)) = of? else { return None };
            let word = |of: &Value<'_>| match of {
                Value::Simple(text) | Value::Bulk(text) => {
                    Some(String::from_utf8_lossy(text).to_ascii_lowercase())
                }
                _ => None,
            };
            words.iter().map(word).collect()
        };
        let number = |at: usize| match parts.get(at)? {
            Value::Integer(number) => i8::try_from(*number).ok(),
            _ => None,
        };
        let (flags, categories) = (words(parts.get(2))?, words(parts.get(6))?);
        let has = |flag: &&str| flags.iter().any(|of| of == flag);
        let range = match (number(3)?, number(4)?, number(5)?) {
            (0, ..) => Keys::None,
            (first, last, step) => Keys::Range {
                first: u8::try_from(first).ok()?,
                last,
                step: u8::try_from(step).ok().filter(|step| *step > 0)?,
            },
        };
        Some(Self {
            keys: (!has(&"movablekeys")).then_some(range),
            is_refused: REFUSED.iter().any(has),
            is_dangerous: categories.iter().any(|of| of == "@dangerous"),
            is_for_connection: categories.iter().any(|of| FOR_CONNECTION.contains(&&**of)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(flags: &str, keys: [i64; 3], category: &str) -> Vec<u8> {
        let [first, last, step] = keys;
        format!(
            "*1\r\n*7\r\n$1\r\nx\r\n:-2\r\n*1\r\n+{flags}\r\n:{first}\r\n:{last}\r\n:{step}\r\n\
             *1\r\n+{category}\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn what_a_server_says_is_read_and_what_is_not_clear_proves_nothing() {
        let fact = Fact::read(&info("write", [1, -1, 2], "@slow")).unwrap();
        assert_eq!(fact.keys, Some(Keys::Range { first: 1, last: -1, step: 2 }));
        assert!(!fact.is_refused && !fact.is_dangerous && !fact.is_for_connection);
        assert_eq!(Fact::read(&info("movablekeys", [0, 0, 0], "@x")).unwrap().keys, None);
        assert_eq!(Fact::read(&info("fast", [0, 0, 0], "@x")).unwrap().keys, Some(Keys::None));
        assert!(Fact::read(&info("blocking", [1, 1, 1], "@x")).unwrap().is_refused);
        assert!(Fact::read(&info("fast", [1, 1, 1], "@dangerous")).unwrap().is_dangerous);
        for category in ["@connection", "@Transaction"] {
            assert!(Fact::read(&info("fast", [0, 0, 0], category)).unwrap().is_for_connection);
        }
        for odd in [[1, 1, 0], [-1, 1, 1], [999, 1, 1], [1, 999, 1]] {
            assert_eq!(Fact::read(&info("fast", odd, "@x")), None, "{odd:?}");
        }
        for odd in ["*1\r\n*-1\r\n", "*1\r\n_\r\n", "*0\r\n", "-ERR\r\n", "", "*1\r\n*1\r\n:1\r\n"]
        {
            assert_eq!(Fact::read(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn a_command_is_as_strict_as_its_strictest_sub_command() {
        let with = |subs: &[(&str, i64, &str)]| {
            let one = |flag: &str, first: i64, category: &str, subs: &str| {
                format!(
                    "*10\r\n$1\r\nx\r\n:-2\r\n*1\r\n+{flag}\r\n:{first}\r\n:{first}\r\n:{first}\r\n\
                     *1\r\n+{category}\r\n*0\r\n*0\r\n{subs}"
                )
            };
            let each =
                |(flag, first, category): &(&str, i64, &str)| one(flag, *first, category, "*0\r\n");
            let all: String = subs.iter().map(each).collect();
            let all = one("sentinel", 0, "@slow", &format!("*{}\r\n{all}", subs.len()));
            Fact::read(format!("*1\r\n{all}").as_bytes())
        };
        let plain = with(&[("fast", 0, "@slow"), ("fast", 0, "@slow")]).unwrap();
        assert!(!plain.is_refused && !plain.is_dangerous && plain.keys == Some(Keys::None));
        assert!(with(&[("fast", 0, "@slow"), ("admin", 0, "@slow")]).unwrap().is_refused);
        assert!(with(&[("fast", 0, "@dangerous"), ("fast", 0, "@x")]).unwrap().is_dangerous);
        assert!(with(&[("fast", 0, "@x"), ("fast", 0, "@connection")]).unwrap().is_for_connection);
        assert_eq!(with(&[("fast", 0, "@slow"), ("fast", 1, "@slow")]).unwrap().keys, None);
        let odd = format!(
            "{}*1\r\n:1\r\n",
            "*1\r\n*10\r\n$1\r\nx\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n"
        );
        assert_eq!(Fact::read(odd.as_bytes()), None);
    }

    #[test]
    fn only_so_many_names_are_remembered() {
        let unknown = Unknown::default();
        for n in 0..2 * KNOWN_MAX {
            unknown.remember(n.to_string().as_bytes(), None);
        }
        assert!(unknown.facts.borrow().len() <= KNOWN_MAX);
        assert_eq!(unknown.remembered(b"511"), Some(None));
        assert_eq!(unknown.remembered(b"x"), None);
    }

    #[test]
    fn what_was_remembered_a_moment_ago_is_there_still() {
        let unknown = Unknown::default();
        let said = |age: u32| {
            unknown.remember(b"x", None);
            if let Some((at, _)) = unknown.facts.borrow_mut().get_mut(&b"x"[..]) {
                *at = at.checked_sub(KNOWN_FOR * age).unwrap();
            }
            (unknown.remembered(b"x"), unknown.looked_up(b"x"))
        };
        assert_eq!(said(0), (Some(None), Some(None)));
        assert_eq!(said(1), (None, Some(None)));
        assert_eq!(said(2), (None, None));
    }
}
