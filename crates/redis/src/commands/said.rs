//! What a server says of the commands of Weir's list, which may only take away: one that is not
//! there, or is otherwise than the list has it, is as one that Weir does not know.
//!
//! Nothing that a server says lets a command share a connection. What is not understood counts as
//! another command than that of the list.

use std::collections::HashMap;

use wire::resp::{Value, value};

use super::{All, Do, Keys, Spec, Split, all};

/// What is otherwise with a command at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandDifference {
    /// There is no such command.
    Missing,
    /// It does something else, or its keys are elsewhere.
    Differs,
}

/// Commands that are said to be about messages, and share connections for all that.
const PUBLISHING: [&str; 2] = ["PUBLISH", "SPUBLISH"];
/// Servers have it that its keys move: its patterns name some, of which none is looked for.
const WITH_PATTERNS: [&str; 1] = ["SORT_RO"];
/// Those that scripts may not run.
const SCRIPTING: [&str; 4] = ["EVAL", "FCALL", "SCRIPT", "FUNCTION"];

/// What `COMMAND` takes away, by the numbers of commands; `None` where a server does not answer it,
/// or with no command at all, as proxies do.
pub fn taken(answer: &[u8]) -> Option<HashMap<usize, CommandDifference>> {
    let (Value::Array(said), _) = value(answer).ok()? else { return None };
    if said.is_empty() {
        return None;
    }
    let mut by_name = HashMap::new();
    for one in &said {
        let Value::Array(parts) = one else { return None };
        let name = text(parts.first()?)?.to_ascii_uppercase();
        by_name.insert(name, parts.as_slice());
    }
    let numbered = all().iter().enumerate().filter(|(_, spec)| spec.goes_out());
    let taken = |(number, spec): (usize, &Spec)| {
        let taken = match by_name.get(spec.name) {
            None => CommandDifference::Missing,
            Some(parts) => spec.differs(parts).then_some(CommandDifference::Differs)?,
        };
        Some((number, taken))
    };
    Some(numbered.filter_map(taken).collect())
}

fn text(of: &Value<'_>) -> Option<String> {
    match of {
        Value::Simple(text) | Value::Bulk(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// One command, or a sub-command, as a server has it.
struct CommandInfo {
    flags: Vec<String>,
    keys: [i64; 3],
}

impl CommandInfo {
    fn read(parts: &[Value<'_>]) -> Option<Self> {
        let (Value::Array(flags) | Value::Set(flags)) = parts.get(2)? else { return None };
        let number = |at: usize| match parts.get(at)? {
            Value::Integer(number) => Some(*number),
            _ => None,
        };
        let flags: Option<Vec<String>> = flags.iter().map(text).collect();
        Some(Self { flags: flags?, keys: [number(3)?, number(4)?, number(5)?] })
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|of| of.eq_ignore_ascii_case(flag))
    }
}

impl Spec {
    /// Whether a server is asked for it as a client has said it.
    fn goes_out(&self) -> bool {
        match self.what {
            Do::Read
            | Do::Write
            | Do::StreamRead
            | Do::StreamWrite
            | Do::Block
            | Do::Any
            | Do::Split(_)
            | Do::All(_)
            | Do::Scan
            | Do::Script
            | Do::Function => true,
            Do::Transaction(_)
            | Do::Wait
            | Do::Subscribe(_)
            | Do::Unsubscribe(_)
            | Do::Pubsub
            | Do::Own(_)
            | Do::Refused(_) => false,
        }
    }

    /// Whether it is otherwise than a server has it.
    fn differs(&self, parts: &[Value<'_>]) -> bool {
        let subs = match parts.get(9) {
            None => &[][..],
            Some(Value::Array(subs) | Value::Set(subs)) => subs,
            Some(_) => return true,
        };
        if subs.is_empty() {
            return CommandInfo::read(parts).is_none_or(|said| !self.is_as(&said));
        }
        subs.iter().any(|sub| {
            let Value::Array(parts) = sub else { return true };
            let name = parts.first().and_then(text).unwrap_or_default();
            // What only tells how the others are written has neither keys nor flags.
            let is_help = name.to_ascii_lowercase().ends_with("|help");
            !is_help && CommandInfo::read(parts).is_none_or(|said| !self.is_as(&said))
        })
    }

    fn is_as(&self, said: &CommandInfo) -> bool {
        let is_publishing = PUBLISHING.contains(&self.name);
        let waits = matches!(self.what, Do::Block | Do::StreamRead | Do::StreamWrite);
        let scripts = SCRIPTING.iter().any(|of| self.name.starts_with(of));
        let is_such = |flag: &str, may: bool| may || !said.has(flag);
        is_such("blocking", waits)
            && is_such("pubsub", is_publishing)
            && is_such("noscript", scripts || self.what == Do::Block)
            && is_such("admin", false)
            && (is_publishing || self.has_keys_as(said))
            && self.reads_as(said)
    }

    fn has_keys_as(&self, said: &CommandInfo) -> bool {
        let moves = said.has("movablekeys");
        let is =
            |keys: [i64; 3]| said.keys == keys && (!moves || WITH_PATTERNS.contains(&self.name));
        match self.keys {
            Keys::Count(_) | Keys::Store(_) | Keys::StoreCount | Keys::Streams => moves,
            Keys::None => is([0; 3]),
            Keys::At(at) => is([i64::from(at), i64::from(at), 1]),
            Keys::From(first) => is([i64::from(first), -1, 1]),
            Keys::UntilLast => is([1, -2, 1]),
            Keys::Two => is([1, 2, 1]),
            Keys::Pairs => is([1, -1, 2]),
            // None of the list has it.
            Keys::Range { .. } => false,
        }
    }

    /// What is asked again as a read must be one.
    fn reads_as(&self, said: &CommandInfo) -> bool {
        let reads = match self.what {
            Do::Read
            | Do::StreamRead
            | Do::Any
            | Do::Scan
            | Do::Split(Split::Mget | Split::SumRead)
            | Do::All(All::Sum | All::Concat | All::Key) => true,
            Do::All(All::Ok)
            | Do::Write
            | Do::StreamWrite
            | Do::Block
            | Do::Split(Split::Mset | Split::Sum)
            | Do::Script
            | Do::Function => false,
            _ => return true,
        };
        let has_keys = self.keys != Keys::None;
        !reads || (!said.has("write") && (!has_keys || said.has("readonly")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::commands::find_numbered;
    use crate::unknown::Fact;

    /// What a server says of one command.
    fn one(name: &str, flags: &[&str], keys: [i64; 3], subs: &[Vec<u8>]) -> Vec<u8> {
        let mut out = format!("*10\r\n${}\r\n{name}\r\n:-2\r\n*{}\r\n", name.len(), flags.len());
        flags.iter().for_each(|flag| out += &format!("+{flag}\r\n"));
        keys.iter().for_each(|key| out += &format!(":{key}\r\n"));
        out += &format!("*0\r\n*0\r\n*0\r\n*{}\r\n", subs.len());
        let mut out = out.into_bytes();
        subs.iter().for_each(|sub| out.extend_from_slice(sub));
        out
    }

    fn said_of(name: &str, one: &[u8]) -> Option<CommandDifference> {
        let answer = [b"*1\r\n", one].concat();
        let (_, number) = find_numbered(name.as_bytes()).unwrap();
        taken(&answer).unwrap().get(&number).copied()
    }

    #[test]
    fn what_is_as_the_list_has_it_stays() {
        for (name, flags, keys) in [
            ("GET", &["readonly", "fast"][..], [1, 1, 1]),
            ("SET", &["write", "denyoom"], [1, 1, 1]),
            ("MSET", &["write"], [1, -1, 2]),
            ("DEL", &["write"], [1, -1, 1]),
            ("TIME", &["loading"], [0, 0, 0]),
            ("EVAL", &["noscript", "movablekeys"], [0, 0, 0]),
            ("SORT_RO", &["readonly", "movablekeys"], [1, 1, 1]),
            ("XREAD", &["readonly", "blocking", "movablekeys"], [0, 0, 0]),
            ("BLPOP", &["write", "noscript", "blocking"], [1, -2, 1]),
            ("PUBLISH", &["pubsub"], [0, 0, 0]),
            ("FLUSHALL", &["write"], [0, 0, 0]),
        ] {
            let name_said = name.to_ascii_lowercase();
            assert_eq!(said_of(name, &one(&name_said, flags, keys, &[])), None, "{name}");
        }
        let subs = [
            one("object|freq", &["readonly"], [2, 2, 1], &[]),
            one("object|help", &[], [0, 0, 0], &[]),
        ];
        assert_eq!(said_of("OBJECT", &one("object", &[], [0, 0, 0], &subs)), None);
    }

    #[test]
    fn what_is_otherwise_is_taken_away() {
        for (name, flags, keys) in [
            ("GET", &["readonly", "blocking"][..], [1, 1, 1]),
            ("GET", &["readonly", "pubsub"], [1, 1, 1]),
            ("GET", &["readonly", "noscript"], [1, 1, 1]),
            ("GET", &["readonly", "admin"], [1, 1, 1]),
            ("GET", &["readonly", "movablekeys"], [1, 1, 1]),
            ("GET", &["fast"], [1, 1, 1]),
            ("GET", &["write", "readonly"], [1, 1, 1]),
            ("GET", &["readonly"], [2, 2, 1]),
            ("GET", &["readonly"], [1, -1, 1]),
            ("GET", &["readonly"], [0, 0, 0]),
            ("MSET", &["write"], [1, -1, 1]),
            ("EVAL", &["noscript"], [0, 0, 0]),
            ("ZINTER", &["readonly"], [0, 0, 0]),
            ("TIME", &["write"], [0, 0, 0]),
            ("INCR", &["write", "BLOCKING"], [1, 1, 1]),
        ] {
            let name_said = name.to_ascii_lowercase();
            let said = said_of(name, &one(&name_said, flags, keys, &[]));
            assert_eq!(said, Some(CommandDifference::Differs), "{name} {flags:?} {keys:?}");
        }
        let subs = [
            one("xinfo|stream", &["readonly"], [2, 2, 1], &[]),
            one("xinfo|new", &["readonly", "blocking"], [2, 2, 1], &[]),
        ];
        let said = said_of("XINFO", &one("xinfo", &[], [0, 0, 0], &subs));
        assert_eq!(said, Some(CommandDifference::Differs));
        assert_eq!(
            said_of("SET", &one("get", &["readonly"], [1, 1, 1], &[])),
            Some(CommandDifference::Missing)
        );
        // What Weir answers itself is not asked of servers.
        let (_, own) = find_numbered(b"PING").unwrap();
        let few = [b"*1\r\n", &*one("get", &["readonly"], [1, 1, 1], &[])].concat();
        assert!(!taken(&few).unwrap().contains_key(&own));
        let odd = b"*4\r\n$3\r\nget\r\n:2\r\n*0\r\n:1\r\n";
        assert_eq!(said_of("GET", odd), Some(CommandDifference::Differs), "it is cut short");
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_is_read_or_not(
            others in proptest::collection::vec((0..40usize, "[*:+$_~%>-][0-9a-z|-]{0,4}"), 0..4),
        ) {
            let sub = one("get|sub", &["readonly"], [1, 1, 1], &[]);
            let get = one("get", &["readonly", "fast"], [1, -1, 2], &[sub]);
            let said = [b"*1\r\n", &*get].concat();
            let said = String::from_utf8(said).unwrap();
            let mut lines: Vec<&str> = said.split_terminator("\r\n").collect();
            let count = lines.len();
            others.iter().for_each(|(at, other)| lines[at % count] = other);
            let said = lines.join("\r\n") + "\r\n";
            let taken = taken(said.as_bytes()).unwrap_or_default();
            prop_assert!(taken.keys().all(|number| *number < all().len()), "{said}");
            let keys = Fact::read(said.as_bytes()).and_then(|fact| fact.keys);
            prop_assert!(!matches!(keys, Some(Keys::Range { step: 0, .. })), "{said}");
        }
    }

    #[test]
    fn a_server_that_does_not_answer_takes_nothing_away() {
        for odd in
            ["-NOPERM\r\n", "+OK\r\n", "*0\r\n", "", "*1\r\n:1\r\n", "*1\r\n*0\r\n", "*-1\r\n"]
        {
            assert_eq!(taken(odd.as_bytes()), None, "{odd}");
        }
    }
}
