//! Each client has a twin that is directly at a second server: step by step they hear the same,
//! whatever they say.
//!
//! What is said is made of the server's own list of commands, with words that have a meaning in
//! many places. `WEIR_TEST_STEPS` and `WEIR_TEST_SEED` are for longer runs by hand.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rig::redis::{Redis, RedisClient};

use super::scene::{ADMIN, admin, weir};

/// What Weir refuses, as docs/redis.md has it, and what touches all clients or the server itself.
const LEFT_OUT: [&str; 44] = [
    "ACL",
    "ASKING",
    "AUTH",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "DEBUG",
    "FAILOVER",
    "HELLO",
    "INFO",
    "LASTSAVE",
    "LATENCY",
    "LOLWUT",
    "MEMORY",
    "MIGRATE",
    "MODULE",
    "MONITOR",
    "PFDEBUG",
    "PFSELFTEST",
    "PSUBSCRIBE",
    "PSYNC",
    "PUBSUB",
    "PUNSUBSCRIBE",
    "QUIT",
    "READONLY",
    "READWRITE",
    "REPLCONF",
    "REPLICAOF",
    "RESET",
    "RESTORE-ASKING",
    "ROLE",
    "SAVE",
    "SHUTDOWN",
    "SLAVEOF",
    "SLOWLOG",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SWAPDB",
    "SYNC",
    "WAIT",
];
/// What is different each time, depends on the clock, or takes its time.
const BY_CHANCE: [&str; 28] = [
    "UNSUBSCRIBE",
    "HRANDFIELD",
    "RANDOMKEY",
    "SPOP",
    "SRANDMEMBER",
    "TIME",
    "ZRANDMEMBER",
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "XREAD",
    "XREADGROUP",
    "EXPIRE",
    "PEXPIRE",
    "SETEX",
    "PSETEX",
    "GETEX",
    "RESTORE",
    "DUMP",
    "SCAN",
    "SSCAN",
    "HSCAN",
    "ZSCAN",
];
const WORDS: [&str; 37] = [
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
];

/// The server's commands by name, with how many words each has at least.
fn commands(server: &Redis) -> Vec<(String, usize)> {
    let reply = server.client().try_ask(&["COMMAND"]).expect("it is answered");
    let (value, _) = wire::resp::value(&reply).expect("a reply");
    let wire::resp::Value::Array(all) = value else { panic!("COMMAND gives an array") };
    let left_out: BTreeSet<&str> = LEFT_OUT.into_iter().chain(BY_CHANCE).collect();
    let one = |of: wire::resp::Value<'_>| {
        let wire::resp::Value::Array(of) = of else { return None };
        let (wire::resp::Value::Bulk(name), wire::resp::Value::Integer(arity)) = (&of[0], &of[1])
        else {
            return None;
        };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        let is_left_out = left_out.contains(name.as_str());
        (!is_left_out).then_some((name, arity.unsigned_abs() as usize))
    };
    all.into_iter().filter_map(one).collect()
}

fn chosen(chance: &mut StdRng, commands: &[(String, usize)]) -> Vec<String> {
    let fixed = ["MULTI", "EXEC", "DISCARD", "WATCH a", "UNWATCH", "SELECT 1", "SELECT 0", "EXEC"];
    if chance.random_bool(0.15) {
        let line = fixed[chance.random_range(0..fixed.len())];
        return line.split(' ').map(str::to_owned).collect();
    }
    let (name, least) = &commands[chance.random_range(0..commands.len())];
    let more = if chance.random_bool(0.3) { chance.random_range(0..4) } else { 0 };
    let less = usize::from(chance.random_bool(0.03));
    let mut words = vec![name.clone()];
    for at in 1..(least + more).saturating_sub(less).max(1) {
        // Keys come first in most, so that what is written is read.
        let among = if at == 1 { 5 } else { WORDS.len() };
        words.push(WORDS[chance.random_range(0..among)].to_owned());
    }
    words
}

/// Sets and hashes come in the order of the server's own chance.
fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = reply.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.sort();
    lines
}

/// Whether two replies to the same may differ.
fn is_excused(words: &[String], through: &[u8], direct: &[u8]) -> bool {
    let says = |reply: &[u8], what: &str| reply.starts_with(what.as_bytes());
    // SELECT cannot be part of a transaction, nor change while keys are watched.
    let is_select = words[0] == "SELECT" && says(through, "-ERR weir: SELECT is refused");
    let is_sub = ["SCRIPT", "FUNCTION"].contains(&words[0].as_str())
        && says(through, "-ERR weir: ")
        && says(direct, "-");
    let is_arity = says(through, "-ERR wrong number") && says(direct, "-ERR");
    is_select || is_sub || is_arity
}

#[test]
fn a_client_hears_what_it_would_hear_without() {
    let number = |name: &str, or: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let [behind, beside] = [Redis::start(), Redis::start()];
    let weir = weir(&[&behind], "", ADMIN);
    let commands = commands(&behind);
    assert!(commands.len() > 150, "{}", commands.len());
    let mut chance = StdRng::seed_from_u64(number("WEIR_TEST_SEED", 1));
    let mut pairs: Vec<(RedisClient, RedisClient, bool)> =
        (0..4).map(|_| (admin(&weir), beside.client(), false)).collect();
    for pair in &mut pairs[2..] {
        pair.0.line("HELLO 3");
        pair.1.line("HELLO 3");
    }
    let mut wrong = Vec::new();
    let steps = number("WEIR_TEST_STEPS", 15_000);
    for step in 0..steps {
        let at = chance.random_range(0..pairs.len());
        if chance.random_bool(0.002) {
            // It leaves, amid whatever it was at.
            pairs[at] = (admin(&weir), beside.client(), false);
        }
        let mut said = Vec::new();
        for _ in 0..chance.random_range(1..4) {
            said.push(chosen(&mut chance, &commands));
        }
        let (through, direct, holds_back) = &mut pairs[at];
        // A SELECT that Weir refuses would have the two go apart.
        let begins = |words: &[String]| ["MULTI", "WATCH"].contains(&words[0].as_str());
        let stays = *holds_back || said.iter().any(|words| begins(words));
        said.retain(|words| words[0] != "SELECT" || !stays);
        for words in &said {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            through.say(&words);
            direct.say(&words);
        }
        for words in &said {
            let heard = through.try_hear().unwrap_or_else(|e| panic!("{step} {words:?}: {e}"));
            let wanted = direct.try_hear().unwrap_or_else(|e| panic!("{step} {words:?}: {e}"));
            *holds_back |= begins(words);
            if ["EXEC", "DISCARD"].contains(&words[0].as_str()) && !heard.starts_with(b"-") {
                *holds_back = false;
            }
            if sorted(&heard) != sorted(&wanted) && !is_excused(words, &heard, &wanted) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                wrong.push(format!("{step} {words:?}: {:?}, {:?}", text(&heard), text(&wanted)));
            }
        }
        assert!(wrong.len() < 20, "{}", wrong.join("\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{steps} steps");
}
