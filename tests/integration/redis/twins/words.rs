//! What clients say: the server's own commands and sub-commands, with words that have a meaning in
//! many places.

use std::collections::BTreeSet;

use rand::Rng as _;
use rand::rngs::StdRng;
use rig::redis::{Redis, RedisClient};
use wire::resp::Value;

use super::tracking;

pub type Words = Vec<String>;

/// What touches all clients, or the server itself, and has tests of its own.
const LEFT_OUT: [&str; 25] = [
    // They are answered from Weir's own list of commands, of which there are more.
    "COMMAND",
    "COMMAND|COUNT",
    "COMMAND|DOCS",
    "COMMAND|LIST",
    "COMMAND|GETKEYSANDFLAGS",
    "CLIENT|KILL",
    "CLIENT|PAUSE",
    "CLIENT|UNBLOCK",
    "CLIENT|UNPAUSE",
    // Weir has four settings of its own.
    "CONFIG|GET",
    "CONFIG|HELP",
    "FUNCTION|KILL",
    "FUNCTION|RESTORE",
    "LATENCY|DOCTOR",
    "LATENCY|GRAPH",
    "LATENCY|HELP",
    "LATENCY|HISTOGRAM",
    "LATENCY|HISTORY",
    "MONITOR",
    // A script that is gone is brought back by Weir.
    "SCRIPT|FLUSH",
    "SCRIPT|KILL",
    "SLOWLOG|HELP",
    // They answer as often as there are names.
    "PSUBSCRIBE",
    "SUBSCRIBE",
    "SSUBSCRIBE",
];

/// What docs/redis/commands.md says is refused, whenever it is said.
const REFUSED: [&str; 29] = [
    "ACL",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT|HELP",
    "CLIENT|NO-EVICT",
    "CLIENT|NO-TOUCH",
    "CLUSTER",
    "CONFIG|RESETSTAT",
    "CONFIG|REWRITE",
    "CONFIG|SET",
    "DEBUG",
    "FAILOVER",
    "LASTSAVE",
    "MEMORY",
    "MIGRATE",
    "MODULE",
    "PFDEBUG",
    "PFSELFTEST",
    "PSYNC",
    "REPLCONF",
    "REPLICAOF",
    "RESTORE-ASKING",
    "ROLE",
    "SAVE",
    "SCRIPT|DEBUG",
    "SHUTDOWN",
    "SLAVEOF",
    "SWAPDB",
    "SYNC",
];

/// What docs/redis/commands.md says is refused within a transaction.
const NOT_WITHIN: [&str; 18] = [
    "AUTH",
    "CLIENT",
    "COMMAND",
    "CONFIG",
    "HELLO",
    "INFO",
    "LATENCY",
    "PSUBSCRIBE",
    "PUBSUB",
    "PUNSUBSCRIBE",
    "SELECT",
    "SLOWLOG",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "UNSUBSCRIBE",
    "WAIT",
    "WAITAOF",
];

/// What waits, with the place of its time.
const WAITS: [(&str, KeyPosition); 10] = [
    ("BLMOVE", KeyPosition::Last),
    ("BLMPOP", KeyPosition::First),
    ("BLPOP", KeyPosition::Last),
    ("BRPOP", KeyPosition::Last),
    ("BRPOPLPUSH", KeyPosition::Last),
    ("BZMPOP", KeyPosition::First),
    ("BZPOPMAX", KeyPosition::Last),
    ("BZPOPMIN", KeyPosition::Last),
    ("WAIT", KeyPosition::Last),
    ("WAITAOF", KeyPosition::Last),
];

#[derive(Clone, Copy)]
enum KeyPosition {
    First,
    Last,
}

/// What stands alone, each as likely as the others.
const LINES: [&str; 49] = [
    "AUTH p",
    "AUTH default p",
    "AUTH app q",
    "CLIENT GETNAME",
    "CLIENT REPLY ON",
    "CLIENT SETNAME somebody",
    "CLIENT TRACKINGINFO",
    "DISCARD",
    "ECHO something",
    "EXEC",
    "EXEC",
    "EXEC",
    "EXEC",
    "FCALL f 1 a",
    "FUNCTION LIST",
    "HELLO",
    "HELLO 2",
    "HELLO 3",
    "HELLO 3 AUTH app q",
    "HELLO 4",
    "MULTI",
    "MULTI",
    "MULTI",
    "PING",
    "PING something",
    "PSUBSCRIBE new* n?ws",
    "PUBLISH news something",
    "PUBLISH other something",
    "PUBLISH none something",
    "PUBSUB NUMPAT",
    "PUBSUB NUMSUB news other",
    "PUNSUBSCRIBE",
    "PUNSUBSCRIBE new*",
    "QUIT",
    "RESET",
    "SELECT 0",
    "SELECT 1",
    "SELECT 9",
    "SELECT 17",
    "SPUBLISH shard something",
    "SSUBSCRIBE shard",
    "SUBSCRIBE news",
    "SUBSCRIBE other news",
    "SUNSUBSCRIBE",
    "UNSUBSCRIBE",
    "UNSUBSCRIBE news",
    "UNWATCH",
    "WATCH a b",
    "XREAD BLOCK 5 STREAMS e $",
];

/// What tells of a client, so is said of one alone and not behind something else of it.
const ALONE: [&str; 14] = [
    "AUTH",
    "CLIENT",
    "HELLO",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "QUIT",
    "RESET",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "UNSUBSCRIBE",
    "WAIT",
    "WATCH",
];

const WORDS: [&str; 43] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "1",
    "2",
    "3",
    "-1",
    "10",
    "0",
    "x",
    "abc",
    "+",
    "-",
    "(1",
    "[a",
    "LEFT",
    "RIGHT",
    "STORE",
    "LIMIT",
    "WITHSCORES",
    "COUNT",
    "GET",
    "NX",
    "XX",
    "AND",
    "BEFORE",
    "1-1",
    "MAXLEN",
    "ENCODING",
    "LOAD",
    "return 1",
    "BY",
    "KEEPTTL",
    "REPLACE",
    "m",
    "ADD",
    "MKSTREAM",
    "STREAMS",
    "FIELDS",
    "",
    "é\r\n",
];
/// Names of keys and of channels.
const OWN: [&str; 15] = [
    "a", "b", "c", "d", "e", "x", "m", "abc", "news", "other", "none", "shard", "somebody", "new*",
    "n?ws",
];
/// What is about the keys, scripts or channels of all.
const OF_ALL: [&str; 13] = [
    "DBSIZE",
    "FCALL",
    "FCALL_RO",
    "FLUSHALL",
    "FLUSHDB",
    "FUNCTION",
    "INFO",
    "KEYS",
    "PUBSUB",
    "RANDOMKEY",
    "SCAN",
    "SCRIPT",
    "SLOWLOG",
];
/// More than a test takes.
const LONG_FROM_NOW: &str = "100000000";
const LIBRARY: &str =
    "#!lua name=m\nredis.register_function('f', function(k) return redis.call('GET', k[1]) end)";

/// The server's commands and sub-commands, with how many words each has at least.
pub struct Vocabulary(Vec<(Words, usize)>);

impl Vocabulary {
    pub fn of(server: &Redis) -> Self {
        let reply = server.client().try_ask(&["COMMAND"]).expect("it is answered");
        let (Value::Array(all), _) = wire::resp::value(&reply).expect("a reply") else {
            panic!("COMMAND gives an array")
        };
        let left_out: BTreeSet<&str> = LEFT_OUT.into_iter().collect();
        let mut found = Vec::new();
        for command in all {
            let Value::Array(of) = command else { continue };
            let subs = of.get(9).map(|subs| match subs {
                Value::Array(subs) => subs.as_slice(),
                _ => &[],
            });
            let subs = subs.unwrap_or_default();
            let each = subs.iter().filter_map(|sub| match sub {
                Value::Array(sub) => one(sub),
                _ => None,
            });
            found.extend(one(&of).filter(|_| subs.is_empty()).into_iter().chain(each));
        }
        // The server's order is by chance.
        found.sort();
        found.retain(|(name, _)| !left_out.contains(name.as_str()));
        let words = |name: String| name.split('|').map(str::to_owned).collect();
        Self(found.into_iter().map(|(name, least)| (words(name), least)).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn line(&self, chance: &mut StdRng) -> Words {
        if chance.random_bool(0.25) {
            let line = LINES[chance.random_range(0..LINES.len())];
            return line.split(' ').map(str::to_owned).collect();
        }
        if chance.random_bool(0.05) {
            return tracking::line(chance);
        }
        if chance.random_bool(0.01) {
            return ["FUNCTION", "LOAD", "REPLACE", LIBRARY].map(str::to_owned).to_vec();
        }
        let words = self.command(chance);
        let may_be_in_script = !is_alone(&words) && !is_refused(&words) && !is_dangerous(&words);
        if chance.random_bool(0.1) && may_be_in_script {
            let script = ["EVAL", "return redis.pcall(unpack(ARGV))", "0"].map(str::to_owned);
            return script.into_iter().chain(words).collect();
        }
        words
    }

    /// A command with so many words as it takes, mostly.
    pub fn command(&self, chance: &mut StdRng) -> Words {
        let (name, least) = &self.0[chance.random_range(0..self.0.len())];
        let more = if chance.random_bool(0.3) { chance.random_range(0..4) } else { 0 };
        let less = usize::from(chance.random_bool(0.03));
        let mut words = name.clone();
        let len = (least + more).saturating_sub(less);
        for at in name.len()..len {
            // Keys come first in most, so that what is written is read.
            let among = if at == name.len() { 5 } else { WORDS.len() };
            words.push(WORDS[chance.random_range(0..among)].to_owned());
        }
        tamed(words)
    }
}

/// With times in which nothing happens by the clock, and without what chance decides.
fn tamed(mut words: Words) -> Words {
    let (name, last) = (words[0].clone(), words.len() - 1);
    if let Some((_, place)) = WAITS.iter().find(|(waits, _)| *waits == name) {
        let at = if matches!(place, KeyPosition::Last) { last } else { 1.min(last) };
        // Those who wait for replicas count in milliseconds.
        let time = if name.starts_with("WAIT") { "10" } else { "0.01" };
        if at > 0 {
            words[at] = time.to_owned();
        }
        return words;
    }
    let has_time = ["EXPIRE", "PEXPIRE", "SETEX", "PSETEX"].contains(&name.as_str());
    if has_time && last >= 2 {
        words[2] = LONG_FROM_NOW.to_owned();
    }
    if name == "SPOP" {
        words.truncate(2);
        // All of them, so that chance has no part in what stays.
        words.push("1000".to_owned());
    }
    words
}

fn one(of: &[Value<'_>]) -> Option<(String, usize)> {
    let (Some(Value::Bulk(name)), Some(Value::Integer(arity))) = (of.first(), of.get(1)) else {
        return None;
    };
    let least = usize::try_from(arity.unsigned_abs()).ok()?;
    Some((String::from_utf8_lossy(name).to_ascii_uppercase(), least))
}

fn is_among(words: &[String], among: &[&str]) -> bool {
    let with_sub = words.get(1).map(|sub| format!("{}|{}", words[0], sub.to_ascii_uppercase()));
    among.contains(&words[0].as_str())
        || with_sub.is_some_and(|with_sub| among.contains(&with_sub.as_str()))
}

/// What a script may do at the server, whose user is Weir's, and its client may not.
fn is_dangerous(words: &[String]) -> bool {
    is_among(words, &["FLUSHALL", "FLUSHDB", "KEYS", "LATENCY", "SLOWLOG"])
}

/// Whether it is said with nothing of the client under way.
pub fn is_alone(words: &[String]) -> bool {
    is_among(words, &ALONE)
}

/// Whether Weir says that it refuses it.
pub fn is_refused(words: &[String]) -> bool {
    is_among(words, &REFUSED)
}

/// Whether Weir says that it refuses it within a transaction.
pub fn is_refused_within(words: &[String]) -> bool {
    is_among(words, &NOT_WITHIN)
}

/// With keys and channels that only one of many clients has; `None`: it is about all of them. Any
/// word may stand where a key does, which `root` is told by its server.
pub fn of_its_own(mut words: Words, number: usize, root: &mut RedisClient) -> Option<Words> {
    if OF_ALL.contains(&words[0].as_str()) || tracking::is_about_all(&words) {
        return None;
    }
    let from = if words[0] == "EVAL" { 4 } else { 1 };
    if words.get(3).is_some_and(|inner| words[0] == "EVAL" && OF_ALL.contains(&inner.as_str())) {
        return None;
    }
    let keys = keys(words.get(from - 1..).unwrap_or_default(), root);
    for word in words.iter_mut().skip(from) {
        if OWN.contains(&word.as_str()) || keys.contains(word) {
            *word = format!("{word}:{number}");
        }
    }
    Some(words)
}

/// The keys of a command.
fn keys(words: &[String], root: &mut RedisClient) -> Vec<String> {
    let asked: Vec<&str> =
        ["COMMAND", "GETKEYS"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let reply = root.try_ask(&asked).expect("it is answered");
    let Ok((Value::Array(keys), _)) = wire::resp::value(&reply) else { return Vec::new() };
    let key = |key: &Value<'_>| match key {
        Value::Bulk(key) => Some(String::from_utf8_lossy(key).into_owned()),
        _ => None,
    };
    keys.iter().filter_map(key).collect()
}
