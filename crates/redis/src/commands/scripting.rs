//! What a command has to do with scripts, which servers keep by their numbers.

use wire::resp::Command;

/// What of a command concerns scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptConcern {
    /// It brings this argument as a script.
    Brings(usize),
    /// It names one that is there, and this command brings it.
    Names(&'static str),
    /// It has all of them forgotten.
    Flushes,
    /// It runs a function, which is kept otherwise.
    RunsFunction,
}

/// What of a command concerns scripts; `None`: nothing.
pub fn script_concern(command: &Command<'_>) -> Option<ScriptConcern> {
    let is = |at: usize, word: &[u8]| {
        command.get(at).is_some_and(|given| given.eq_ignore_ascii_case(word))
    };
    match () {
        () if is(0, b"EVAL") || is(0, b"EVAL_RO") => Some(ScriptConcern::Brings(1)),
        () if is(0, b"EVALSHA") => Some(ScriptConcern::Names("EVAL")),
        () if is(0, b"EVALSHA_RO") => Some(ScriptConcern::Names("EVAL_RO")),
        () if is(0, b"SCRIPT") && is(1, b"LOAD") => Some(ScriptConcern::Brings(2)),
        () if is(0, b"SCRIPT") && is(1, b"FLUSH") => Some(ScriptConcern::Flushes),
        () if is(0, b"FCALL") || is(0, b"FCALL_RO") => Some(ScriptConcern::RunsFunction),
        () => None,
    }
}

/// Whether a command of this name could bring, name or flush scripts: of most the first letter says
/// that it could not.
#[inline]
pub fn may_concern_scripts(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'E' | b'e' | b'S' | b's'))
}

/// The same of a command as it is sent, by the beginning of its name.
#[inline]
pub fn may_concern_scripts_as_sent(bytes: &[u8]) -> bool {
    let name = bytes.splitn(3, |byte| *byte == b'\n').nth(2).unwrap_or_default();
    let is = |word: &[u8]| name.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(word));
    is(b"EVAL") || is(b"SCRI")
}
