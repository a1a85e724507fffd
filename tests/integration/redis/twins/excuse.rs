//! Where the two may hear different things.

use super::words::Words;

/// How alike two answers have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Like {
    /// The same, but for the order of a set's members, which is the server's own chance.
    Same,
    /// Of one type: what they say is of the clock, of chance, or of the connection.
    Shape,
    Refused,
}

/// By chance, by the clock, or of the connection itself.
const SHAPES: [&str; 37] = [
    "CLIENT|HELP",
    "CLIENT|ID",
    "CLIENT|INFO",
    "CLIENT|LIST",
    "DUMP",
    "EXPIRETIME",
    "FUNCTION|DUMP",
    "FUNCTION|STATS",
    "HELLO",
    "HRANDFIELD",
    "HSCAN",
    "INFO",
    "LATENCY|LATEST",
    "LATENCY|RESET",
    "LOLWUT",
    "OBJECT|FREQ",
    "OBJECT|IDLETIME",
    "PEXPIRETIME",
    "PTTL",
    // A server counts connections, of which one of Weir's is for many clients.
    "PUBLISH",
    "RANDOMKEY",
    "SCAN",
    "SLOWLOG|GET",
    "SLOWLOG|LEN",
    "SPUBLISH",
    "SRANDMEMBER",
    "SSCAN",
    "TIME",
    "TTL",
    "ZRANDMEMBER",
    "XAUTOCLAIM",
    "XINFO|CONSUMERS",
    "XINFO|GROUPS",
    "XINFO|STREAM",
    "XPENDING",
    "ZSCAN",
    "XCLAIM",
];

/// How alike the answers to a command have to be.
pub fn like(words: &Words) -> Like {
    let inner = if words[0] == "EVAL" && words.len() > 3 { &words[3..] } else { words };
    let name = inner[0].to_ascii_uppercase();
    let with_sub = inner.get(1).map(|sub| format!("{name}|{}", sub.to_ascii_uppercase()));
    let is = |one: &&str| **one == *name || with_sub.as_deref() == Some(*one);
    let is_shape = SHAPES.iter().any(is);
    if is_shape { Like::Shape } else { Like::Same }
}

/// Whether what was heard through Weir will do in place of what was heard directly.
pub fn is_same(words: &Words, like: Like, through: &[u8], direct: &[u8]) -> bool {
    let says = |reply: &[u8], what: &str| reply.starts_with(what.as_bytes());
    match like {
        // Of what has the wrong number of words, or comes at the wrong time, that is said.
        Like::Refused => says(through, "-"),
        Like::Shape => shape(through) == shape(direct) || is_excused(words, through, direct),
        Like::Same => {
            through == direct
                || sorted(through) == sorted(direct)
                || is_excused(words, through, direct)
        }
    }
}

fn is_excused(words: &Words, through: &[u8], direct: &[u8]) -> bool {
    let says = |reply: &[u8], what: &str| reply.starts_with(what.as_bytes());
    // Who may do what is said in Weir's words.
    let both_deny = says(through, "-NOPERM weir: ") && says(direct, "-");
    let is_sub = ["CLIENT", "FUNCTION", "SCRIPT", "SLOWLOG"].contains(&words[0].as_str())
        && says(through, "-ERR weir: ")
        && says(direct, "-");
    let is_arity =
        says(through, "-ERR wrong number") && (says(direct, "-ERR") || says(direct, "-NOPERM"));
    // Where that is written is known of the user's connections only.
    let is_another = says(through, "-ERR weir: WAIT: this client has written as another user");
    // A lane ends where nobody has used it for a minute, which a server knows nothing of.
    let is_late = words[0].starts_with("WAIT") && says(through, "-ERR weir: a connection to ");
    // A server names the sub-command, too.
    let is_subscribed = says(through, "-ERR Can't execute") && says(direct, "-");
    // Which of two things is wrong.
    let redirects = words.iter().any(|word| word == "REDIRECT");
    let is_redirect = redirects && says(through, "-ERR") && says(direct, "-ERR");
    // Weir looks first whether a client may ask anything.
    let is_login = says(through, "-NOAUTH") && says(direct, "-");
    both_deny
        || is_sub
        || is_arity
        || is_another
        || is_late
        || is_subscribed
        || is_login
        || is_redirect
}

fn shape(reply: &[u8]) -> u8 {
    reply.first().copied().unwrap_or_default()
}

/// Sets and hashes come in the order of the server's own chance.
fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = reply.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.sort();
    lines
}
