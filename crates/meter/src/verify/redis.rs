//! Values at keys of their own, and at the ends of lists.

use std::collections::BTreeSet;

use wire::resp::{Piece, Replies, Value, put_command, value};

use super::{Fault, Findings, StoredWrite, VerifyError};
use crate::engine::Conversation;
use crate::ledger::{Book, Fate};
use crate::recorder::Kind;
use crate::redis::{LedgerKind, Redis};
use crate::workload::{Answer, Malformed, Reader, Workload as _};

/// Keys, or elements of a list, that are asked for at once, and their bytes.
const AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 4 << 20;
/// The most bytes of an answer.
const ANSWER_MAX: usize = 1 << 30;

/// Holds what a server has against a ledger.
///
/// # Errors
/// It can't be read.
pub fn verify(
    redis: &Redis,
    book: &Book,
    server: &mut Conversation<'_>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let mut asked = Server { redis, server };
    let (mut sets, mut bytes, mut lists) = (Vec::new(), 0, BTreeSet::new());
    for number in 0..book.end() {
        let fate = book.fate(number);
        if fate == Fate::Unsent {
            continue;
        }
        redis.each_kept(number, |kept, _, key, value| match kept {
            LedgerKind::Set => {
                bytes += value.len();
                sets.push(Set { fate, number, key: key.to_vec(), value: value.to_vec() });
            }
            LedgerKind::Pushed => {
                lists.insert(key.to_vec());
            }
        });
        if sets.len() >= AT_ONCE || bytes >= BYTES_AT_ONCE {
            asked.sets(&sets, findings)?;
            sets.clear();
            bytes = 0;
        }
    }
    asked.sets(&sets, findings)?;
    if !lists.is_empty() {
        asked.lists(&lists, book, findings)?;
    }
    Ok(())
}

/// A value that must be at a key.
struct Set {
    fate: Fate,
    number: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

struct Server<'a, 'b> {
    redis: &'a Redis,
    server: &'a mut Conversation<'b>,
}

impl Server<'_, '_> {
    /// The replies to these commands, as they came.
    fn ask<'w>(
        &mut self,
        commands: impl Iterator<Item = [&'w [u8]; 4]>,
    ) -> Result<Vec<u8>, VerifyError> {
        let (mut out, mut count) = (Vec::new(), 0);
        for command in commands {
            let words = command.iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
            put_command(&mut out, words.iter());
            count += 1;
        }
        let mut reader =
            Gathered { left: count, replies: Replies::default(), bytes: Vec::new(), scanned: 0 };
        if count > 0 {
            self.server.ask(|| self.redis.greeting(), &mut out, &mut reader)?;
        }
        Ok(reader.bytes)
    }

    fn sets(&mut self, sets: &[Set], findings: &mut Findings) -> Result<(), VerifyError> {
        let commands = sets.iter().map(|set| [b"GET", &*set.key, b"", b""]);
        let came = self.ask(commands)?;
        let mut rest = &came[..];
        for set in sets {
            let seen = match next(&mut rest)? {
                Value::Null => StoredWrite::default(),
                Value::Bulk(found) => StoredWrite::once(found == set.value),
                // Somebody has put another type there.
                Value::Error(words) if words.starts_with(b"WRONGTYPE") => StoredWrite::once(false),
                Value::Error(words) => return Err(refused(words)),
                _ => return Err(STRANGE),
            };
            findings
                .note(set.fate, seen, || format!("{} of request {}", text(&set.key), set.number));
        }
        Ok(())
    }

    fn lists(
        &mut self,
        lists: &BTreeSet<Vec<u8>>,
        book: &Book,
        findings: &mut Findings,
    ) -> Result<(), VerifyError> {
        // How often each command's value was seen, and whether it was altered.
        let mut seen = std::collections::BTreeMap::<u64, StoredWrite>::new();
        for list in lists {
            let mut first = 0_usize;
            loop {
                let (from, to) = (first.to_string(), (first + AT_ONCE - 1).to_string());
                let command = [&b"LRANGE"[..], list, from.as_bytes(), to.as_bytes()];
                let came = self.ask(std::iter::once(command))?;
                let elements = match next(&mut &came[..])? {
                    Value::Array(elements) => elements,
                    Value::Error(words) if words.starts_with(b"WRONGTYPE") => Vec::new(),
                    Value::Error(words) => return Err(refused(words)),
                    _ => return Err(STRANGE),
                };
                for element in &elements {
                    let Value::Bulk(element) = element else { return Err(STRANGE) };
                    match self.whose(element, list, book) {
                        Some((command, is_right)) => {
                            let seen = seen.entry(command).or_default();
                            seen.count += 1;
                            seen.is_altered |= !is_right;
                        }
                        None => findings.fault(Fault::Strange, || {
                            format!("{} in {}", text(element), text(list))
                        }),
                    }
                }
                if elements.len() < AT_ONCE {
                    break;
                }
                first += elements.len();
            }
        }
        for number in 0..book.end() {
            let fate = book.fate(number);
            if fate != Fate::Unsent {
                self.redis.each_kept(number, |kept, command, list, _| {
                    if kept == LedgerKind::Pushed {
                        let seen = seen.get(&command).copied().unwrap_or_default();
                        findings.note(fate, seen, || {
                            format!("{command} in {} of request {number}", text(list))
                        });
                    }
                });
            }
        }
        Ok(())
    }

    /// Which command has written an element of a list, and whether it is as it was written;
    /// nothing where none has.
    fn whose(&self, element: &[u8], list: &[u8], book: &Book) -> Option<(u64, bool)> {
        let (command, request) = self.redis.of_value(element)?;
        if book.fate(request) == Fate::Unsent {
            return None;
        }
        let mut found = None;
        self.redis.each_kept(request, |kept, of, key, value| {
            if kept == LedgerKind::Pushed && of == command && key == list {
                found = Some((command, value == element));
            }
        });
        found
    }
}

fn next<'a>(rest: &mut &'a [u8]) -> Result<Value<'a>, VerifyError> {
    let (found, len) = value(rest).map_err(|_| STRANGE)?;
    *rest = rest.get(len..).unwrap_or_default();
    Ok(found)
}

const STRANGE: VerifyError = VerifyError::Strange("it is not a reply of Redis's");

fn refused(words: &[u8]) -> VerifyError {
    VerifyError::Refused(text(words))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..bytes.len().min(80)).unwrap_or_default()).into_owned()
}

/// Keeps replies as they come.
pub(super) struct Gathered {
    /// Replies that are to come.
    pub left: u32,
    pub replies: Replies,
    pub bytes: Vec<u8>,
    pub scanned: usize,
}

impl Reader for Gathered {
    fn begin(&mut self, _: usize) {}

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        if self.bytes.len() + bytes.len() > ANSWER_MAX {
            return Err(Malformed("an answer is over 1 GiB"));
        }
        self.bytes.extend_from_slice(bytes);
        while self.left > 0 {
            let rest = self.bytes.get(self.scanned..).unwrap_or_default();
            let step = self.replies.scan(rest).map_err(Malformed)?;
            if step.len == 0 {
                return Ok(None);
            }
            self.scanned += step.len;
            self.left -= u32::from(step.what == Piece::End);
        }
        Ok(Some(Answer { kind: Kind::Succeeded, code: 0, commands: 1, reusable: true }))
    }

    fn ended(&mut self) -> Option<Answer> {
        None
    }
}
