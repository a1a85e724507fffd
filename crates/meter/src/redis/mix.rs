//! Commands by their shares.

use std::str::FromStr;
use std::sync::Arc;

use wire::resp::{put_array, put_bulk};

use super::{DIGITS, RedisError};
use crate::chance::Chance;

/// The largest share of a command.
const SHARE_MAX: u64 = 1_000_000;

/// A word of a command.
#[derive(Debug, Clone, Copy)]
enum Word {
    /// As it is.
    Plain(&'static str),
    /// A name with a number from the space of keys behind it.
    Key(&'static str),
    /// A value.
    Value,
}

use Word::{Key, Plain, Value};

/// What can be in a mix. Each type of value has keys of its own, so that no command meets another
/// one's type.
const COMMANDS: [(&str, &[Word]); 24] = [
    ("append", &[Plain("APPEND"), Key("key:"), Value]),
    ("del", &[Plain("DEL"), Key("key:")]),
    ("exists", &[Plain("EXISTS"), Key("key:")]),
    ("get", &[Plain("GET"), Key("key:")]),
    ("getrange", &[Plain("GETRANGE"), Key("key:"), Plain("0"), Plain("9")]),
    ("hget", &[Plain("HGET"), Key("hash:"), Key("field:")]),
    ("hset", &[Plain("HSET"), Key("hash:"), Key("field:"), Value]),
    ("incr", &[Plain("INCR"), Key("counter:")]),
    ("lpop", &[Plain("LPOP"), Key("list:")]),
    ("lpush", &[Plain("LPUSH"), Key("list:"), Value]),
    ("lrange", &[Plain("LRANGE"), Key("list:"), Plain("0"), Plain("99")]),
    ("mget", &[Plain("MGET"), Key("key:"), Key("key:"), Key("key:"), Key("key:"), Key("key:")]),
    ("mset", &[Plain("MSET"), Key("key:"), Value, Key("key:"), Value, Key("key:"), Value]),
    ("ping", &[Plain("PING")]),
    ("rpop", &[Plain("RPOP"), Key("list:")]),
    ("rpush", &[Plain("RPUSH"), Key("list:"), Value]),
    ("sadd", &[Plain("SADD"), Key("set:"), Key("member:")]),
    ("set", &[Plain("SET"), Key("key:"), Value]),
    ("setex", &[Plain("SET"), Key("key:"), Value, Plain("EX"), Plain("60")]),
    ("sismember", &[Plain("SISMEMBER"), Key("set:"), Key("member:")]),
    ("spop", &[Plain("SPOP"), Key("set:")]),
    ("zadd", &[Plain("ZADD"), Key("zset:"), Key(""), Key("member:")]),
    ("zpopmin", &[Plain("ZPOPMIN"), Key("zset:")]),
    ("zrange", &[Plain("ZRANGE"), Key("zset:"), Plain("0"), Plain("9")]),
];

/// What can be in a mix.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _)| *name)
}

/// A piece of a command's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The same each time.
    Text(Vec<u8>),
    /// The digits of a key.
    Number,
    /// A value, with its length in front.
    Value,
}

/// Commands by their shares, as `get=9,set=1`.
#[derive(Debug, Clone)]
pub struct Mix {
    entries: Arc<[Entry]>,
    /// Of all shares.
    sum: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    name: &'static str,
    /// Its share, with those of all before it.
    up_to: u64,
    parts: Vec<Part>,
    values: usize,
}

impl Mix {
    /// Draws a command.
    pub(super) fn draw(&self, chance: &mut Chance) -> usize {
        if self.entries.len() == 1 {
            return 0;
        }
        let at = chance.below(self.sum);
        self.entries.iter().position(|entry| at < entry.up_to).unwrap_or_default()
    }

    pub(super) fn parts(&self, command: usize) -> &[Part] {
        self.entries.get(command).map_or(&[], |entry| &*entry.parts)
    }

    pub(super) fn operations(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.name)
    }

    /// The most values of a command.
    pub(super) fn values(&self) -> usize {
        self.entries.iter().map(|entry| entry.values).max().unwrap_or_default()
    }
}

impl FromStr for Mix {
    type Err = RedisError;

    fn from_str(text: &str) -> Result<Self, RedisError> {
        let (mut entries, mut sum) = (Vec::<Entry>::new(), 0);
        for entry in text.split(',') {
            let wrong = || RedisError::Mix(entry.to_owned());
            let (name, share) = entry.trim().split_once('=').unwrap_or((entry.trim(), "1"));
            let share = share.trim().parse().ok().filter(|share| (1..=SHARE_MAX).contains(share));
            let found = COMMANDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
            let (name, words) = *found.ok_or_else(wrong)?;
            if entries.iter().any(|entry| entry.name == name) {
                return Err(RedisError::Twice(name));
            }
            sum += share.ok_or_else(wrong)?;
            let values = words.iter().filter(|word| matches!(word, Value)).count();
            entries.push(Entry { name, up_to: sum, parts: parts(words), values });
        }
        Ok(Self { entries: entries.into(), sum })
    }
}

/// The bytes of a command, cut where something is drawn.
fn parts(words: &[Word]) -> Vec<Part> {
    let (mut parts, mut text) = (Vec::new(), Vec::new());
    put_array(&mut text, words.len());
    for word in words {
        match word {
            Plain(word) => put_bulk(&mut text, word.as_bytes()),
            Key(name) => {
                put_bulk(&mut text, format!("{name}{:0DIGITS$}", 0).as_bytes());
                let behind = text.split_off(text.len() - 2);
                text.truncate(text.len() - DIGITS);
                parts.extend([Part::Text(std::mem::replace(&mut text, behind)), Part::Number]);
            }
            Value => parts.extend([Part::Text(std::mem::take(&mut text)), Part::Value]),
        }
    }
    parts.push(Part::Text(text));
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    parts
}
