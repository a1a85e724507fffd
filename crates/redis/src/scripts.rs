//! The scripts that servers are known to have: those that passed here.
//!
//! A server that was started again has none of them, so `EVALSHA` hears `NOSCRIPT`. It is then
//! asked as `EVAL`, in its place, which must not run a script twice: the answer has to be the
//! server's own words to the letter, and the script one that cannot have said them itself.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use wire::resp::{Command, CommandFrame, Commands, Limits, put_command};

use crate::commands::{ScriptConcern, script_concern};

/// A longer script is not kept.
const SCRIPT_BYTES_MAX: usize = 64 << 10;
/// What is kept of all scripts, in bytes; beyond it, the oldest are forgotten.
const BYTES_MAX: usize = 16 << 20;
/// What keeping a script costs beyond its own bytes, about.
const SCRIPT_COST: usize = 256;
/// How a server says that it has no such script.
const NOSCRIPT: &[u8] = b"-NOSCRIPT No matching script. Please use EVAL.\r\n";

/// A script's number: its SHA-1 in small hexadecimal digits.
type Sha = [u8; 40];

/// The scripts of all workers.
#[derive(Debug, Default)]
pub struct Scripts {
    kept: Mutex<ScriptCache>,
    /// How often some of them were forgotten.
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct ScriptCache {
    by_sha: HashMap<Sha, Arc<[u8]>>,
    /// From the oldest to the newest.
    order: VecDeque<Sha>,
    bytes: usize,
}

/// What one worker knows to be kept, so that a script that comes often costs no lock.
#[derive(Debug)]
pub struct KnownScripts {
    scripts: Arc<Scripts>,
    /// As of this number of times that some were forgotten.
    seen: RefCell<(u64, HashSet<Arc<[u8]>>)>,
}

impl Scripts {
    /// The script of this number.
    fn find(&self, sha: &[u8]) -> Option<Arc<[u8]>> {
        let mut small: Sha = sha.try_into().ok()?;
        small.make_ascii_lowercase();
        self.kept().by_sha.get(&small).cloned()
    }

    fn keep(&self, script: &Arc<[u8]>) {
        let sha = sha_of(script);
        let mut kept = self.kept();
        if kept.by_sha.contains_key(&sha) {
            return;
        }
        kept.bytes += cost(script);
        kept.by_sha.insert(sha, script.clone());
        kept.order.push_back(sha);
        while kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.order.pop_front() else { break };
            let gone = kept.by_sha.remove(&oldest);
            kept.bytes -= gone.map_or(0, |script| cost(&script));
            self.forgotten.fetch_add(1, Ordering::Release);
        }
    }

    /// A client has the servers forget theirs.
    fn forget_all(&self) {
        *self.kept() = ScriptCache::default();
        self.forgotten.fetch_add(1, Ordering::Release);
    }

    fn kept(&self) -> MutexGuard<'_, ScriptCache> {
        self.kept.lock()
    }
}

fn cost(script: &[u8]) -> usize {
    script.len() + SCRIPT_COST
}

fn sha_of(script: &[u8]) -> Sha {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, script);
    let mut sha = [b'0'; 40];
    for (pair, byte) in sha.chunks_exact_mut(2).zip(digest.as_ref()) {
        let digit = |of: u8| b"0123456789abcdef"[usize::from(of & 15)];
        pair.copy_from_slice(&[digit(byte >> 4), digit(*byte)]);
    }
    sha
}

/// What a script needs one of to make an error of its own: the name of its field, or a way to come
/// to a name, or a function, that is not written in the script.
const MAKES_ERRORS: [&[u8]; 10] = [
    b"err",
    b"decode",
    b"unpack",
    b"rawset",
    b"load",
    b"metatable",
    b"pairs",
    b"next",
    b"foreach",
    // In RESP3 a server's answer may have names of its own.
    b"setresp",
];

/// Whether a script may answer with an error of its own making, which could be any.
fn may_say_anything(script: &[u8]) -> bool {
    let has =
        |word: &[u8]| script.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word));
    MAKES_ERRORS.iter().any(|word| has(word)) || !are_all_numbers(script)
}

/// Whether what is in brackets is written as a number: what is put together could be any name.
fn are_all_numbers(script: &[u8]) -> bool {
    let mut behind_brackets = script.split(|byte| *byte == b'[').skip(1);
    behind_brackets.all(|behind| {
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && behind.get(digits) == Some(&b']')
    })
}

impl KnownScripts {
    /// Nothing is known to be kept yet.
    pub fn new(scripts: Arc<Scripts>) -> Self {
        Self { scripts, seen: RefCell::default() }
    }

    /// Whether the answer to a command is to be [`heard`](Self::heard).
    pub fn is_concerned(&self, command: &Command<'_>) -> bool {
        match script_concern(command) {
            None | Some(ScriptConcern::RunsFunction) => false,
            Some(ScriptConcern::Names(_) | ScriptConcern::Flushes) => true,
            Some(ScriptConcern::Brings(at)) => {
                let script = command.get(at).unwrap_or_default();
                script.len() <= SCRIPT_BYTES_MAX && !self.has(script)
            }
        }
    }

    fn has(&self, script: &[u8]) -> bool {
        let (at, seen) = &mut *self.seen.borrow_mut();
        let forgotten = self.scripts.forgotten.load(Ordering::Acquire);
        if *at != forgotten {
            (*at, *seen) = (forgotten, HashSet::new());
        }
        seen.contains(script)
    }

    /// A server has answered a command, with this line. What is to be asked in its place, if it
    /// was a script that the server does not have.
    pub fn heard(&self, bytes: &[u8], line: &[u8]) -> Option<Vec<u8>> {
        let mut commands = Commands::default();
        let all = Limits { bulk: u64::MAX, ..Limits::default() };
        let Ok(CommandFrame::Command(_)) = commands.cut(bytes, &all) else { return None };
        let command = commands.command(bytes);
        match script_concern(&command)? {
            // Whether a server has what it refuses to run is not known.
            _ if line.starts_with(b"-") && line != NOSCRIPT => None,
            ScriptConcern::Names(brings) if line == NOSCRIPT => self.heal(&command, brings),
            ScriptConcern::Names(_) | ScriptConcern::RunsFunction => None,
            ScriptConcern::Brings(at) => {
                let script: Arc<[u8]> = command.get(at)?.into();
                self.scripts.keep(&script);
                if !self.has(&script) {
                    self.seen.borrow_mut().1.insert(script);
                }
                None
            }
            ScriptConcern::Flushes => {
                self.scripts.forget_all();
                None
            }
        }
    }

    /// Whether a client could have had a server answer a command with any words.
    pub fn may_have_said(&self, command: &Command<'_>) -> bool {
        match script_concern(command) {
            Some(ScriptConcern::Brings(at)) => command.get(at).is_none_or(may_say_anything),
            Some(ScriptConcern::Names(_)) => {
                let script = command.get(1).and_then(|sha| self.scripts.find(sha));
                script.is_none_or(|script| may_say_anything(&script))
            }
            Some(ScriptConcern::Flushes) => false,
            Some(ScriptConcern::RunsFunction) => true,
            None => false,
        }
    }

    fn heal(&self, command: &Command<'_>, brings: &'static str) -> Option<Vec<u8>> {
        let script = self.scripts.find(command.get(1)?)?;
        if may_say_anything(&script) {
            return None;
        }
        let words = command.iter().enumerate().map(|(at, word)| match at {
            0 => brings.as_bytes(),
            1 => &*script,
            _ => word,
        });
        let words: Vec<&[u8]> = words.collect();
        let mut out = Vec::new();
        put_command(&mut out, words.iter());
        Some(out)
    }
}
