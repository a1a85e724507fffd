//! A client through Weir and its twin that is directly at a server.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rig::redis::RedisClient;
use wire::resp::{Value, put_command};

use super::excuse::{self, Like};
use super::tracking::{self, Invalid};
use super::words::{Words, is_refused, is_refused_within};

/// How long either may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a server says to nobody's command.
const UNKNOWN: [&str; 1] = ["NOSUCHCOMMAND"];
/// The same of `CLIENT`, behind which `CLIENT CACHING` still holds for what is next.
const UNKNOWN_OF_CLIENT: [&str; 2] = ["CLIENT", "KILL"];
const SUBSCRIBES: [&str; 3] = ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"];
const UNSUBSCRIBES: [&str; 3] = ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"];

/// Where the twins connect to, and how they log in at first.
#[derive(Clone, Copy)]
pub struct TwinTargets {
    /// Weir, and the server of its own.
    pub addresses: [SocketAddr; 2],
    /// What is said first.
    pub login: &'static [&'static str],
    /// The servers know the users, so nobody becomes another amid what it is at.
    pub servers_know_users: bool,
}

/// One of the two.
struct Twin {
    client: RedisClient,
    /// What was published and came meanwhile.
    messages: Vec<Vec<u8>>,
    /// What it keeps of these is out of date.
    invalid: Invalid,
}

/// Both, and what is known of their state from what the direct one heard.
pub struct Pair {
    through: Twin,
    direct: Twin,
    place: TwinTargets,
    connection: usize,
    /// How often keys were said to be out of date.
    pub told: usize,
    /// It is logged in.
    is_in: bool,
    /// In a transaction, and whether chance has a part in what it answers.
    within: Option<Like>,
    pub watches: bool,
    /// It is told of keys.
    tracks: bool,
    /// It was before: a server tells a connection that is told again also of what it read then.
    has_tracked: bool,
    /// The RESP version, 2 or 3.
    version: u8,
    database: String,
    /// Names by the command that subscribes.
    subscriptions: BTreeMap<&'static str, Vec<String>>,
}

/// What the two heard that should be the same.
pub struct Difference {
    pub said: String,
    pub through: String,
    pub direct: String,
}

impl Twin {
    fn connect(address: SocketAddr) -> Self {
        let client = RedisClient::connect(address);
        client.patience(PATIENCE);
        Self { client, messages: Vec::new(), invalid: Invalid::new() }
    }

    /// The next frame that answers something.
    fn hear(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let frame = self.client.try_hear()?;
            match tracking::invalid(&frame) {
                Some(keys) => self.invalid.extend(keys),
                None if is_message(&frame) => self.messages.push(frame),
                None => return Ok(frame),
            }
        }
    }

    /// All frames that answer a command.
    fn answer(&mut self, frames: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut heard = vec![self.hear()?];
        while heard.len() < frames && !heard[0].starts_with(b"-") {
            heard.push(self.hear()?);
        }
        Ok(heard)
    }
}

impl Pair {
    pub fn connect(place: TwinTargets) -> Self {
        let [through, direct] = place.addresses.map(Twin::connect);
        let (within, subscriptions) = (None, BTreeMap::new());
        let (watches, tracks, version, database) = (false, false, 2, "0".to_owned());
        let mut pair = Self {
            through,
            direct,
            place,
            connection: 0,
            told: 0,
            is_in: true,
            within,
            watches,
            tracks,
            has_tracked: false,
            version,
            database,
            subscriptions,
        };
        for line in place.login {
            if line.starts_with("HELLO 3") {
                pair.version = 3;
            }
            for twin in [&mut pair.through, &mut pair.direct] {
                let said = twin.client.line(line);
                assert!(!said.starts_with('-'), "{line}: {said}");
            }
        }
        pair
    }

    /// Both leave, and others come in their place.
    pub fn connect_again(&mut self) {
        let (connection, told) = (self.connection + 1, self.told);
        *self = Self { connection, told, ..Self::connect(self.place) };
    }

    /// Whether what it publishes comes back as pushes, which Redis 7.0 puts amid its answer to
    /// `EXEC`.
    pub fn hears_itself(&self) -> bool {
        self.version == 3 && self.is_subscribed()
    }

    fn is_subscribed(&self) -> bool {
        self.subscriptions.values().any(|names| !names.is_empty())
    }

    /// Whether a transaction is open.
    pub fn is_within(&self) -> bool {
        self.within.is_some()
    }

    /// Both leave amid these bytes.
    pub fn leave_amid(&mut self, lines: &[Words], len: usize) {
        let mut bytes = Vec::new();
        lines.iter().for_each(|words| put_command(&mut bytes, words.iter()));
        bytes.truncate(len % bytes.len().max(1));
        self.through.client.send(&bytes);
        self.direct.client.send(&bytes);
        self.connect_again();
    }

    /// Says commands in one piece, and gives what was heard otherwise through Weir.
    pub fn ask(&mut self, lines: &[Words]) -> Vec<Difference> {
        let like = self.say(lines);
        self.hear(lines, like)
    }

    /// Whether what it does not hear changes nothing that is known of it, if that is no login, no
    /// transaction and no subscription.
    pub fn may_be_unheard(&self) -> bool {
        let is_in_subscribed_mode = self.version == 2 && self.is_subscribed();
        self.is_in && !self.is_within() && !self.watches && !is_in_subscribed_mode
    }

    /// Says commands whose answers it does not want, and what it hears again, in one piece.
    pub fn ask_unheard(&mut self, lines: &[Words], end: Words) -> Vec<Difference> {
        self.say(&[lines, std::slice::from_ref(&end)].concat());
        self.hear(&[end], vec![Like::Same])
    }

    /// Says commands in one piece; how alike the answers have to be.
    pub fn say(&mut self, lines: &[Words]) -> Vec<Like> {
        let mut like = Vec::new();
        let [mut through, mut direct] = [Vec::new(), Vec::new()];
        let mut is_within = self.is_within();
        for words in lines {
            is_within |= words.len() == 1 && words[0] == "MULTI";
            let is_refused = is_refused(words)
                || is_within && is_refused_within(words)
                || self.is_refused_now(words);
            put_command(&mut through, words.iter());
            // The other one's transaction fails, too.
            match is_refused {
                true if words[0] == "CLIENT" => {
                    put_command(&mut direct, UNKNOWN_OF_CLIENT.iter());
                }
                true => put_command(&mut direct, UNKNOWN.iter()),
                false => put_command(&mut direct, words.iter()),
            }
            like.push(if is_refused { Like::Refused } else { excuse::like(words) });
            is_within &= !["EXEC", "DISCARD", "RESET"].contains(&words[0].as_str());
        }
        self.through.client.send(&through);
        self.direct.client.send(&direct);
        like
    }

    /// What was heard otherwise through Weir, of commands that were said.
    pub fn hear(&mut self, lines: &[Words], like: Vec<Like>) -> Vec<Difference> {
        let (mut found, connection) = (Vec::new(), self.connection);
        for (words, like) in lines.iter().zip(like) {
            found.extend(self.hear_one(words, like));
            if self.connection != connection {
                break;
            }
        }
        found.extend(self.messages());
        // Up to the answer it was told, and is not any more.
        found.extend(if self.tracks { None } else { self.invalid() });
        found
    }

    /// Hears what the servers have said of keys so far, if it tracks them and may ask.
    pub fn settle(&mut self) -> Vec<Difference> {
        if !self.tracks || self.is_within() || self.version == 2 && self.is_subscribed() {
            return Vec::new();
        }
        let (ping, connection) = ([vec!["PING".to_owned()]], self.connection);
        let mut found = self.ask(&ping);
        if self.connection == connection {
            found.extend(self.invalid());
        }
        found
    }

    fn hear_one(&mut self, words: &Words, like: Like) -> Option<Difference> {
        let frames = self.frames(words);
        let direct = self.direct.answer(frames);
        let through = self.through.answer(frames);
        let (Ok(direct), Ok(through)) = (&direct, &through) else {
            let both_close = is_end(&direct) && is_end(&through);
            let shown = |heard: &io::Result<Vec<Vec<u8>>>| format!("{heard:?}");
            let (through, direct) = (shown(&through), shown(&direct));
            self.connect_again();
            return (!both_close).then(|| Difference {
                said: format!("{words:?}"),
                through,
                direct,
            });
        };
        let like = match (words[0].as_str(), self.within) {
            ("EXEC", Some(Like::Shape)) => Like::Shape,
            _ => like,
        };
        let is_same = excuse::is_same(words, like, &through.concat(), &direct.concat());
        self.learn(words, like, direct);
        let shown = |heard: &[Vec<u8>]| String::from_utf8_lossy(&heard.concat()).into_owned();
        (!is_same).then(|| Difference {
            said: format!("{words:?}"),
            through: shown(through),
            direct: shown(direct),
        })
    }

    /// Whether Weir refuses it since its connection would have to change, or would have to stay.
    fn is_refused_now(&self, words: &Words) -> bool {
        let is_tied = self.watches || self.tracks;
        let could_be_another = !is_tied && !self.is_subscribed();
        let name = words[0].as_str();
        name == "SELECT" && is_tied && words.get(1) != Some(&self.database)
            || name == "HELLO" && is_tied && self.changes_version(words)
            || tracking::turns(words, "ON") && self.watches
            || tracking::turns(words, "OFF") && self.watches && self.tracks
            || self.place.servers_know_users && !could_be_another && logs_in(words)
    }

    fn changes_version(&self, hello: &Words) -> bool {
        let wanted = hello.get(1).and_then(|version| version.parse::<u8>().ok());
        wanted.is_some_and(|wanted| [2, 3].contains(&wanted) && wanted != self.version)
    }

    /// How many frames answer a command, but for an error.
    fn frames(&self, words: &Words) -> usize {
        if self.is_within() {
            return 1;
        }
        let name = words[0].as_str();
        let more = words.len() - 1;
        if SUBSCRIBES.contains(&name) {
            return more.max(1);
        }
        if !UNSUBSCRIBES.contains(&name) {
            return 1;
        }
        let of = name.replacen("UNSUB", "SUB", 1);
        let all = self.subscriptions.get(of.as_str()).map_or(0, Vec::len);
        if more > 0 { more } else { all.max(1) }
    }

    /// Takes on what the direct one's answer says of its state.
    fn learn(&mut self, words: &Words, like: Like, direct: &[Vec<u8>]) {
        let first = direct.first().map(Vec::as_slice).unwrap_or_default();
        let is_error = first.starts_with(b"-");
        match words[0].as_str() {
            "MULTI" if !is_error => self.within = Some(Like::Same),
            "EXEC" | "DISCARD" | "RESET" if !is_error || first.starts_with(b"-EXECABORT") => {
                self.within = None;
                self.watches = false;
                if words[0] == "RESET" {
                    self.subscriptions.clear();
                    // What was on its way is not said any more.
                    self.ends_tracking();
                    for twin in [&mut self.through, &mut self.direct] {
                        twin.invalid.clear();
                    }
                    (self.version, self.database) = (2, "0".to_owned());
                    self.is_in = false;
                }
            }
            "AUTH" if !is_error => self.is_in = true,
            "CLIENT" if !is_error && tracking::turns(words, "ON") => self.tracks = true,
            "CLIENT" if !is_error && tracking::turns(words, "OFF") => self.ends_tracking(),
            "WATCH" if !is_error && !self.is_within() => self.watches = true,
            "UNWATCH" if !is_error && !self.is_within() => self.watches = false,
            "HELLO" if !is_error => {
                self.version = if first.starts_with(b"%") { 3 } else { 2 };
                self.is_in = true;
            }
            "SELECT" if !is_error && !self.is_within() => self.database.clone_from(&words[1]),
            // The goodbye was heard.
            "QUIT" if !is_error && like != Like::Refused => self.connect_again(),
            name => self.learn_subscriptions(name, &words[1..], is_error),
        }
        if self.within.is_some() && like == Like::Shape {
            self.within = Some(Like::Shape);
        }
    }

    fn learn_subscriptions(&mut self, name: &str, names: &[String], is_error: bool) {
        let of = name.replacen("UNSUB", "SUB", 1);
        let Some(kind) = SUBSCRIBES.into_iter().find(|kind| *kind == of) else { return };
        if is_error || self.is_within() {
            return;
        }
        let has = self.subscriptions.entry(kind).or_default();
        if name == kind {
            has.extend(names.iter().cloned());
            has.sort();
            has.dedup();
        } else {
            has.retain(|one| !(names.is_empty() || names.contains(one)));
        }
    }

    /// What was published since: all that the direct one has heard comes to the other, and no more.
    fn messages(&mut self) -> Option<Difference> {
        let mut wanted = std::mem::take(&mut self.direct.messages);
        let mut late = None;
        while self.through.messages.len() < wanted.len() {
            match self.through.client.try_hear() {
                Ok(frame) => match tracking::invalid(&frame) {
                    Some(keys) => self.through.invalid.extend(keys),
                    None => self.through.messages.push(frame),
                },
                Err(error) => {
                    late = Some(error);
                    break;
                }
            }
        }
        let mut came = std::mem::take(&mut self.through.messages);
        came.sort();
        wanted.sort();
        let shown = |all: &[Vec<u8>]| String::from_utf8_lossy(&all.concat()).into_owned();
        (came != wanted).then(|| Difference {
            said: format!("messages ({late:?})"),
            through: shown(&came),
            direct: shown(&wanted),
        })
    }
}

impl Pair {
    fn ends_tracking(&mut self) {
        self.has_tracked |= self.tracks;
        self.tracks = false;
    }

    /// What the two were told of keys since it was looked at last.
    fn invalid(&mut self) -> Option<Difference> {
        let [through, direct] =
            [&mut self.through, &mut self.direct].map(|twin| std::mem::take(&mut twin.invalid));
        self.told += direct.len();
        let is_same = through == direct || self.has_tracked && through.is_subset(&direct);
        let shown = |keys: &Invalid| {
            let key = |key: &Option<Vec<u8>>| {
                key.as_deref().map(String::from_utf8_lossy).map(|key| key.into_owned())
            };
            format!("{:?}", keys.iter().map(key).collect::<Vec<_>>())
        };
        (!is_same).then(|| Difference {
            said: "keys that are out of date".to_owned(),
            through: shown(&through),
            direct: shown(&direct),
        })
    }
}

fn logs_in(words: &Words) -> bool {
    words[0] == "AUTH" || words[0] == "HELLO" && words.iter().any(|word| word == "AUTH")
}

/// Whether the connection was closed in place of an answer.
fn is_end(heard: &io::Result<Vec<Vec<u8>>>) -> bool {
    // What nobody has read makes a reset of it.
    let ends = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
    heard.as_ref().is_err_and(|error| ends.contains(&error.kind()))
}

/// Whether a frame is something published, in either version of the protocol.
fn is_message(frame: &[u8]) -> bool {
    let Ok((Value::Array(of) | Value::Push(of), _)) = wire::resp::value(frame) else {
        return false;
    };
    let is_kind =
        |kind: &[u8]| [&b"message"[..], b"pmessage", b"smessage"].contains(&kind) && of.len() >= 3;
    matches!(of.first(), Some(Value::Bulk(kind)) if is_kind(kind))
}
