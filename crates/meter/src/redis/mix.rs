//! Commands by their shares.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use wire::resp::{put_array, put_bulk};

use super::{DIGITS, RedisError};
use crate::chance::Chance;

/// The largest share of a command.
const SHARE_MAX: u64 = 1_000_000;

/// A word of a command.
#[derive(Debug, Clone, Copy)]
enum Word<'a> {
    Plain(&'a str),
    /// A name with a number from the space of keys behind it.
    Key(&'a str),
    /// A value of the sizes that options give.
    Value,
    /// A name with the number of the command behind it.
    Own(&'a str),
    /// A name with the number of a list behind it, in which commands take turns.
    List(&'a str),
    /// A value that begins with the number of the command.
    OwnValue,
}

use Word::{Key, List, Own, OwnValue, Plain, Value};

/// What can be in a mix. Each type of value has keys of its own, so that no command meets another
/// one's type.
const COMMANDS: [(&str, &[Word<'static>]); 24] = [
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

/// What changes nothing, and may be beside what a ledger is kept of.
const READS: [&str; 9] =
    ["exists", "get", "getrange", "hget", "lrange", "mget", "ping", "sismember", "zrange"];

/// What a ledger can be kept of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerKind {
    /// A value at a key of its own.
    Set,
    /// A value at the end of a list.
    Pushed,
}

impl LedgerKind {
    fn of(name: &str) -> Option<Self> {
        match name {
            "set" => Some(Self::Set),
            "rpush" => Some(Self::Pushed),
            _ => None,
        }
    }
}

/// What can be in a mix.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _)| *name)
}

/// A piece of a command's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandPiece {
    /// The same each time.
    Text(Vec<u8>),
    /// The digits of a key.
    Number,
    /// A value, with its length in front.
    Value,
    /// The digits of the command's own number.
    Own,
    /// The digits of a list that is this command's turn.
    List,
    /// A value that begins with the command's own number, with its length in front.
    OwnValue,
}

/// Commands by their shares, as `get=9,set=1`.
#[derive(Debug, Clone)]
pub struct Mix {
    entries: Arc<[Entry]>,
    /// The sum of all shares.
    sum: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    name: &'static str,
    share: u64,
    parts: Vec<CommandPiece>,
    values: usize,
}

impl Mix {
    /// Draws a command by its share; gives its number in the mix.
    pub(super) fn draw(&self, chance: &mut Chance) -> usize {
        chance.one_of(self.sum, self.entries.iter().map(|entry| entry.share))
    }

    pub(super) fn parts(&self, command: usize) -> &[CommandPiece] {
        self.entries.get(command).map_or(&[], |entry| &*entry.parts)
    }

    pub(super) fn operations(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.name)
    }

    /// Has each command of which a ledger is kept write what nobody else does.
    pub(super) fn keep(&mut self, run: u64) -> Result<(), RedisError> {
        let mut entries = self.entries.to_vec();
        let (keys, lists) = (format!("ledger:{run:016x}:"), format!("ledger:{run:016x}:list:"));
        for entry in &mut entries {
            entry.parts = match LedgerKind::of(entry.name) {
                Some(LedgerKind::Set) => parts(&[Plain("SET"), Own(&keys), OwnValue]),
                Some(LedgerKind::Pushed) => parts(&[Plain("RPUSH"), List(&lists), OwnValue]),
                None if READS.contains(&entry.name) => continue,
                None => return Err(RedisError::Unkept(entry.name)),
            };
        }
        if entries.iter().all(|entry| LedgerKind::of(entry.name).is_none()) {
            return Err(RedisError::NothingKept);
        }
        self.entries = entries.into();
        Ok(())
    }

    /// What a ledger is kept of a command.
    pub(super) fn kept(&self, command: usize) -> Option<LedgerKind> {
        LedgerKind::of(self.entries.get(command)?.name)
    }

    /// The most values of a command.
    pub(super) fn values(&self) -> usize {
        self.entries.iter().map(|entry| entry.values).max().unwrap_or_default()
    }
}

impl Display for Mix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, entry) in self.entries.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{}={}", entry.name, entry.share)?;
        }
        Ok(())
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
            let share = share.ok_or_else(wrong)?;
            sum += share;
            let values = words.iter().filter(|word| matches!(word, Value)).count();
            entries.push(Entry { name, share, parts: parts(words), values });
        }
        Ok(Self { entries: entries.into(), sum })
    }
}

/// The bytes of a command, cut where something is drawn.
fn parts(words: &[Word<'_>]) -> Vec<CommandPiece> {
    let (mut parts, mut text) = (Vec::new(), Vec::new());
    put_array(&mut text, words.len());
    for word in words {
        match word {
            Plain(word) => put_bulk(&mut text, word.as_bytes()),
            Key(name) | Own(name) | List(name) => {
                put_bulk(&mut text, format!("{name}{:0DIGITS$}", 0).as_bytes());
                let behind = text.split_off(text.len() - 2);
                text.truncate(text.len() - DIGITS);
                let number = match word {
                    Own(_) => CommandPiece::Own,
                    List(_) => CommandPiece::List,
                    _ => CommandPiece::Number,
                };
                parts.extend([CommandPiece::Text(std::mem::replace(&mut text, behind)), number]);
            }
            Value => {
                parts.extend([CommandPiece::Text(std::mem::take(&mut text)), CommandPiece::Value])
            }
            OwnValue => parts
                .extend([CommandPiece::Text(std::mem::take(&mut text)), CommandPiece::OwnValue]),
        }
    }
    parts.push(CommandPiece::Text(text));
    parts.retain(|part| !matches!(part, CommandPiece::Text(text) if text.is_empty()));
    parts
}
