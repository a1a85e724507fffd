//! What a command is: where its keys are, and by which way it may go.
//!
//! Whatever decides that a connection may be shared says no where it does not know: only what is
//! in Weir's own list rides a lane, and only in the form in which it gives one reply, does not
//! block and leaves nothing on the connection.

mod said;
mod scripting;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use wire::resp::Command;

pub use said::{CommandDifference, taken};
pub use scripting::{
    ScriptConcern, may_concern_scripts, may_concern_scripts_as_sent, script_concern,
};

/// The longest name there is in the list.
const NAME_BYTES_MAX: usize = 24;

/// A command of the list.
#[derive(Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name, in capitals.
    pub name: &'static str,
    /// How many arguments it has, its name included; negative: at least so many.
    pub arity: i8,
    /// Where its keys are.
    pub keys: Keys,
    /// What is done with it.
    pub what: Do,
}

/// Where a command's keys are among its arguments, of which the name is number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The command takes no key.
    None,
    /// One key, the argument of this number.
    At(u8),
    /// Two keys, the first two arguments.
    Two,
    /// From this one on, all.
    From(u8),
    /// Each other one, from the first on.
    Pairs,
    /// All but the last.
    UntilLast,
    /// This one says how many follow it.
    Count(u8),
    /// The first, and as many as the second says.
    StoreCount,
    /// The first half of those behind `STREAMS`.
    Streams,
    /// As `COMMAND` of a server has it: from this one on, to that one, which counts from the end
    /// where it is negative, each so far behind the one before.
    Range {
        /// The number of the first key.
        first: u8,
        /// The number of the last key; -1 is the last argument.
        last: i8,
        /// From one to the next, at least 1.
        step: u8,
    },
    /// The first, and what follows `STORE` or `STOREDIST` from this one on.
    Store(u8),
}

/// What is done with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Do {
    /// It rides a lane, and changes nothing.
    Read,
    /// It rides a lane.
    Write,
    /// It rides a lane of any server.
    Any,
    /// It waits for what others do, on a connection of the client's own.
    Block,
    /// `XREAD`: as `Read`, but with `BLOCK` as [`Do::Block`].
    StreamRead,
    /// `XREADGROUP`: as `Write`, but with `BLOCK` as [`Do::Block`].
    StreamWrite,
    /// Its keys may be on several servers.
    Split(Split),
    /// It is for all servers.
    All(All),
    /// `SCAN`.
    Scan,
    /// `SCRIPT`, by its sub-command.
    Script,
    /// `FUNCTION`, by its sub-command.
    Function,
    /// Weir answers it and asks no server.
    Own(OwnCommand),
    /// It is about a transaction, and no step of one.
    Transaction(TransactionCommand),
    /// `WAIT` or `WAITAOF`, on the client's own connection.
    Wait,
    /// `SUBSCRIBE` and its like.
    Subscribe(Kind),
    /// `UNSUBSCRIBE` and its like.
    Unsubscribe(Kind),
    /// `PUBSUB`, by its sub-command.
    Pubsub,
    /// It cannot work through a gateway, with the reason.
    Refused(&'static str),
}

/// What begins a transaction, ends it, or says which keys it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionCommand {
    /// `MULTI`.
    Multi,
    /// `EXEC`.
    Exec,
    /// `DISCARD`.
    Discard,
    /// `WATCH`.
    Watch,
    /// `UNWATCH`.
    Unwatch,
}

/// What Weir answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnCommand {
    /// `AUTH`.
    Auth,
    /// `CLIENT`, by its sub-command.
    Client,
    /// What only nodes of a Cluster serve, as `READONLY`.
    ClusterMode,
    /// `COMMAND`, with the help of any server.
    Command,
    /// `CONFIG GET` of what drivers look at.
    Config,
    /// `ECHO`.
    Echo,
    /// `HELLO`.
    Hello,
    /// `INFO`.
    Info,
    /// `LATENCY`.
    Latency,
    /// `MONITOR`.
    Monitor,
    /// `PING`.
    Ping,
    /// `QUIT`.
    Quit,
    /// `RESET`.
    Reset,
    /// `SELECT`.
    Select,
    /// `SLOWLOG`.
    Slowlog,
    /// `WEIR`, the commands of Weir's console.
    Weir,
}

/// What a client may be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A channel, by `SUBSCRIBE`.
    Channel,
    /// All channels that a pattern matches, by `PSUBSCRIBE`.
    Pattern,
    /// A channel of a shard, by `SSUBSCRIBE`.
    Shard,
}

/// How the answers of several servers become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// `MGET`: values in the order of the keys.
    Mget,
    /// `MSET`: keys and values; `OK`.
    Mset,
    /// A number, of what was changed.
    Sum,
    /// A number, of what was read.
    SumRead,
}

/// How the answers of all servers become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum All {
    /// The sum of numbers.
    Sum,
    /// One array of all elements.
    Concat,
    /// `OK` where all say so.
    Ok,
    /// One of the keys that they name, if there are any.
    Key,
}

/// What is wrong with a command before any server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It has too few or too many arguments.
    Arity(&'static str),
    /// What says how many keys there are is not a number, or there are not so many.
    Keys,
}

static BY_NAME: LazyLock<HashMap<&'static [u8], Numbered>> = LazyLock::new(|| {
    let numbered = |(number, spec): (usize, &'static Spec)| (spec.name.as_bytes(), (spec, number));
    table::TABLE.iter().enumerate().map(numbered).collect()
});

/// A command, and its number.
pub type Numbered = (&'static Spec, usize);

/// A command by its name, in capitals or not.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    find_numbered(name).map(|(spec, _)| spec)
}

/// The same, with its number in the list.
#[inline]
pub fn find_numbered(name: &[u8]) -> Option<Numbered> {
    BY_NAME.get(capitals::<NAME_BYTES_MAX>(name)?.get(..name.len())?).copied()
}

/// A name in capitals, with zeros behind it; `None` where it is longer.
#[inline]
pub fn capitals<const N: usize>(name: &[u8]) -> Option<[u8; N]> {
    let mut capitals = [0; N];
    let written = capitals.get_mut(..name.len())?;
    written.copy_from_slice(name);
    written.make_ascii_uppercase();
    Some(capitals)
}

/// All commands of the list.
pub fn all() -> &'static [Spec] {
    table::TABLE
}

/// Reads whose answer is not the same on all servers that have the same keys: cursors, scripts that
/// a server has or has not, and what a server notes for itself.
const OF_ONE_SERVER: [&str; 8] =
    ["EVALSHA_RO", "EVAL_RO", "FCALL_RO", "HSCAN", "OBJECT", "SSCAN", "TOUCH", "ZSCAN"];

/// Reads that are asked once where several clients wait with the same: of the keys that they name
/// alone, and with the same answer for whoever asks.
const SHARED: [&str; 23] = [
    "EXISTS",
    "GET",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HLEN",
    "HMGET",
    "LINDEX",
    "LLEN",
    "LRANGE",
    "MGET",
    "SCARD",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "STRLEN",
    "TYPE",
    "ZCARD",
    "ZMSCORE",
    "ZRANGE",
    "ZRANK",
    "ZSCORE",
];

/// By the commands' numbers.
static IS_SHARED: LazyLock<Vec<bool>> =
    LazyLock::new(|| all().iter().map(|spec| SHARED.contains(&spec.name)).collect());

/// Whether a command of this number is a read that may be asked once for several clients.
#[inline]
pub fn is_shared(number: usize) -> bool {
    IS_SHARED.get(number).copied().unwrap_or(false)
}

impl Spec {
    /// Whether a replica may answer it.
    pub fn may_read_replicas(&self) -> bool {
        let reads = [Do::Read, Do::StreamRead, Do::Split(Split::Mget), Do::Split(Split::SumRead)];
        reads.contains(&self.what) && !OF_ONE_SERVER.contains(&self.name)
    }

    /// Whether it is `CLIENT`, whatever its sub-command is.
    #[inline]
    pub fn is_client(&self) -> bool {
        self.what == Do::Own(OwnCommand::Client)
    }

    /// Whether it is `EXEC`, which runs what was queued before it.
    pub fn is_exec(&self) -> bool {
        self.what == Do::Transaction(TransactionCommand::Exec)
    }

    /// Whether a command of this kind is the same whoever says it: what logs in, and what needs no
    /// login.
    pub fn is_for_strangers(&self, command: &Command<'_>) -> bool {
        match self.what {
            Do::Own(OwnCommand::Auth | OwnCommand::Quit | OwnCommand::Reset) => true,
            Do::Own(OwnCommand::Hello) => {
                command.iter().any(|word| word.eq_ignore_ascii_case(b"AUTH"))
            }
            _ => false,
        }
    }

    /// Whether it may have so many arguments, its name included.
    #[inline]
    pub fn takes(&self, count: usize) -> bool {
        let least = usize::from(self.arity.unsigned_abs());
        count == least || (self.arity < 0 && count > least)
    }

    /// Where the keys of a command of this kind are: numbers of arguments.
    ///
    /// # Errors
    /// It has another number of arguments than it must, or is not clear about its keys.
    pub fn keys_of(&self, command: &Command<'_>) -> Result<Positions, Wrong> {
        let count = command.len();
        if !self.takes(count) {
            return Err(Wrong::Arity(self.name));
        }
        let positions = |first: usize, end: usize, step| Positions { first, end, step, also: None };
        let at = |at: u8| usize::from(at);
        let found = match self.keys {
            Keys::None => Positions::NONE,
            Keys::At(n) => positions(at(n), (at(n) + 1).min(count), 1),
            Keys::Two => positions(1, 3.min(count), 1),
            Keys::From(n) => positions(at(n), count, 1),
            Keys::Pairs => positions(1, count, 2),
            Keys::UntilLast => positions(1, count - 1, 1),
            Keys::Count(n) => counted(command, at(n))?,
            Keys::StoreCount => Positions { also: Some(1), ..counted(command, 2)? },
            Keys::Streams => streams(command)?,
            Keys::Range { first, last, step } => {
                let end = match usize::try_from(last) {
                    Ok(last) => last + 1,
                    Err(_) => (count + 1).saturating_sub(usize::from(last.unsigned_abs())),
                };
                if count <= at(first) {
                    return Err(Wrong::Arity(self.name));
                }
                positions(at(first), end.min(count), at(step.max(1)))
            }
            Keys::Store(n) => {
                Positions { also: stored(command, at(n)), ..positions(1, 2.min(count), 1) }
            }
        };
        Ok(found)
    }
}

/// Numbers of arguments that are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    first: usize,
    end: usize,
    step: usize,
    /// One more key, behind `STORE` or `STOREDIST`.
    also: Option<usize>,
}

impl Positions {
    pub const NONE: Self = Self { first: 1, end: 1, step: 1, also: None };

    /// The numbers in their order, that of `STORE` last.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        (self.first..self.end).step_by(self.step).chain(self.also)
    }
}

fn counted(command: &Command<'_>, at: usize) -> Result<Positions, Wrong> {
    let number = command.get(at).and_then(number).ok_or(Wrong::Keys)?;
    let first = at + 1;
    let end = usize::try_from(number).ok().and_then(|number| first.checked_add(number));
    let end = end.filter(|end| *end <= command.len()).ok_or(Wrong::Keys)?;
    Ok(Positions { first, end, step: 1, also: None })
}

/// Where the keys of `XREAD` and `XREADGROUP` are.
fn streams(command: &Command<'_>) -> Result<Positions, Wrong> {
    let (at, _) = options(command).ok_or(Wrong::Keys)?;
    let behind = command.len() - at - 1;
    if behind == 0 || behind % 2 == 1 {
        return Err(Wrong::Keys);
    }
    Ok(Positions { first: at + 1, end: at + 1 + behind / 2, step: 1, also: None })
}

/// Where `STREAMS` is, and whether `BLOCK` is before it.
fn options(command: &Command<'_>) -> Option<(usize, bool)> {
    let (mut at, mut blocks) = (1, false);
    loop {
        let option = command.get(at)?;
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        if is(b"STREAMS") {
            return Some((at, blocks));
        }
        blocks |= is(b"BLOCK");
        at += match () {
            () if is(b"BLOCK") || is(b"COUNT") => 2,
            () if is(b"GROUP") => 3,
            () if is(b"NOACK") => 1,
            () => return None,
        };
    }
}

/// The last key behind `STORE` or `STOREDIST`: the one that the server takes. What belongs to
/// another option is none, whatever its name.
fn stored(command: &Command<'_>, from: usize) -> Option<usize> {
    let (mut at, mut last) = (from, None);
    while let Some(option) = command.get(at) {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        at += match () {
            () if (is(b"STORE") || is(b"STOREDIST")) && at + 1 < command.len() => {
                last = Some(at + 1);
                2
            }
            () if is(b"LIMIT") => 3,
            () if is(b"BY") || is(b"GET") => 2,
            () => 1,
        };
    }
    last
}

/// A number as Redis reads it: digits alone, with a minus or not.
pub fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let is_short = digits.len() == 1 || digits.first() != Some(&b'0');
    if is_plain && is_short { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// Whether `XREAD` or `XREADGROUP` may block.
pub fn blocks(command: &Command<'_>) -> bool {
    options(command).is_none_or(|(_, blocks)| blocks)
}
