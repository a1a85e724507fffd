//! `CLIENT TRACKING` of the twins: what is said of it, and what servers say by themselves.
//!
//! When that comes is certain in one place only: before the answer to what is asked of the server
//! behind it. How many keys are in one push is not.

use std::collections::BTreeSet;

use rand::Rng as _;
use rand::rngs::StdRng;
use wire::resp::Value;

use super::words::Words;

/// What is said of tracking, each as likely as the others.
const LINES: [&str; 18] = [
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON NOLOOP",
    "CLIENT TRACKING ON OPTIN",
    "CLIENT TRACKING ON OPTIN NOLOOP",
    "CLIENT TRACKING ON OPTOUT",
    "CLIENT TRACKING ON OPTIN OPTOUT",
    "CLIENT TRACKING ON BCAST",
    "CLIENT TRACKING ON BCAST NOLOOP",
    "CLIENT TRACKING ON BCAST PREFIX a PREFIX b",
    "CLIENT TRACKING ON BCAST PREFIX d",
    "CLIENT TRACKING ON PREFIX a",
    "CLIENT TRACKING ON REDIRECT 999999999",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKING OFF",
];
/// Those behind which a server goes by the next command.
const CACHING: [&str; 4] =
    ["CLIENT CACHING YES", "CLIENT CACHING YES", "CLIENT CACHING NO", "CLIENT CACHING MAYBE"];

/// Keys of which nothing is certain: whether what is brought is awaited before it comes, and how
/// much is run of what a client says that leaves amid it.
const UNCERTAIN: [&[u8]; 2] = [b"queue:", b"cut:"];

/// Keys of which a server has said that they are out of date; without a name all of them.
pub type Invalid = BTreeSet<Option<Vec<u8>>>;

pub fn line(chance: &mut StdRng) -> Words {
    let among: &[&str] = if chance.random_bool(0.3) { &CACHING } else { &LINES };
    let line = among[chance.random_range(0..among.len())];
    line.split(' ').map(str::to_owned).collect()
}

/// Whether it is `CLIENT TRACKING` with this word behind it.
pub fn turns(words: &Words, to: &str) -> bool {
    let is = |at: usize, wanted: &str| words.get(at).is_some_and(|word| word == wanted);
    is(0, "CLIENT") && is(1, "TRACKING") && is(2, to)
}

/// Whether it hears of the keys of all clients.
pub fn is_about_all(words: &Words) -> bool {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    turns(words, "ON") && has("BCAST") && !has("PREFIX")
}

/// The keys that a frame says are out of date; `None`: it says something else.
pub fn invalid(frame: &[u8]) -> Option<Invalid> {
    let (Value::Push(of), _) = wire::resp::value(frame).ok()? else { return None };
    match &*of {
        [Value::Bulk(b"invalidate"), Value::Null] => Some(Invalid::from([None])),
        [Value::Bulk(b"invalidate"), Value::Array(keys)] => {
            let key = |key: &Value<'_>| match key {
                Value::Bulk(key) => Some(key.to_vec()),
                _ => None,
            };
            let is_certain = |key: &Option<Vec<u8>>| {
                !UNCERTAIN.iter().any(|of| key.as_ref().is_some_and(|key| key.starts_with(of)))
            };
            Some(keys.iter().map(key).filter(is_certain).collect())
        }
        _ => None,
    }
}
