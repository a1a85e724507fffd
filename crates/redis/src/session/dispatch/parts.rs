//! Sub-commands, and what a client hears of those that are not served.

use wire::resp::Command;

/// What Weir serves of a command, and what it refuses though a server knows it. What it serves of
/// `SCRIPT` and `FUNCTION` is what [`managing`] knows.
struct Parts {
    name: &'static str,
    served: &'static [&'static str],
    refused: &'static [&'static str],
}

const ALL: [Parts; 6] = [
    Parts {
        name: "CLIENT",
        served: &[
            "CACHING",
            "GETNAME",
            "GETREDIR",
            "ID",
            "INFO",
            "KILL",
            "LIST",
            "PAUSE",
            "REPLY",
            "SETINFO",
            "SETNAME",
            "TRACKING",
            "TRACKINGINFO",
            "UNBLOCK",
            "UNPAUSE",
        ],
        refused: &["CAPA", "HELP", "IMPORT-SOURCE", "NO-EVICT", "NO-TOUCH"],
    },
    Parts { name: "CONFIG", served: &["GET"], refused: &["HELP", "RESETSTAT", "REWRITE", "SET"] },
    Parts {
        name: "LATENCY",
        served: &["HELP", "HISTOGRAM", "HISTORY", "LATEST", "RESET"],
        refused: &["DOCTOR", "GRAPH"],
    },
    Parts {
        name: "PUBSUB",
        served: &["CHANNELS", "HELP", "NUMPAT", "NUMSUB", "SHARDCHANNELS", "SHARDNUMSUB"],
        refused: &[],
    },
    Parts { name: "SCRIPT", served: &[], refused: &["DEBUG", "SHOW"] },
    Parts { name: "SLOWLOG", served: &["GET", "HELP", "LEN", "RESET"], refused: &[] },
];

/// A command's second word, in capitals.
pub(in crate::session) fn sub_command(command: &Command<'_>) -> String {
    let word = command.get(1).unwrap_or_default();
    String::from_utf8_lossy(word).to_ascii_uppercase()
}

/// What a client hears whose sub-command, or whose number of words, is none that is served: as a
/// server says it, but where a server would do it.
pub(in crate::session) fn unserved(name: &str, command: &Command<'_>) -> String {
    let sub = sub_command(command);
    let parts = ALL.iter().find(|parts| parts.name == name);
    let is_among =
        |of: fn(&Parts) -> &[&str]| parts.is_some_and(|parts| of(parts).contains(&&*sub));
    match () {
        () if is_among(|parts| parts.refused) => refused(name, &sub),
        () if is_among(|parts| parts.served) || managing(name, &sub).is_some() => {
            arity(&format!("{}|{}", name.to_ascii_lowercase(), sub.to_ascii_lowercase()))
        }
        () => {
            let word = String::from_utf8_lossy(command.get(1).unwrap_or_default());
            format!("ERR unknown subcommand '{}'. Try {name} HELP.", shortened(&word))
        }
    }
}

/// What a client hears of a sub-command that is not for it.
pub(in crate::session) fn refused(name: &str, sub: &str) -> String {
    let sub = shortened(sub);
    format!("ERR weir: {name} {sub} is refused: it is not for a connection that others share")
}

/// What a sub-command of `SCRIPT` or `FUNCTION` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Managing {
    /// All servers get it, and say the same.
    Changes,
    /// What holds is what all servers say.
    AsksAll,
    /// What holds is what the server says on which something runs.
    AsksForRunning,
    /// Any server knows.
    AsksOne,
    /// It ends what runs, past who waits for that.
    Kills,
}

/// What one does; `None` for one that leaves something on its connection, or is not known.
pub(in crate::session) fn managing(name: &str, sub: &str) -> Option<Managing> {
    match (name, sub) {
        ("SCRIPT", "LOAD" | "FLUSH") => Some(Managing::Changes),
        ("SCRIPT", "EXISTS") => Some(Managing::AsksAll),
        ("SCRIPT", "HELP") => Some(Managing::AsksOne),
        ("FUNCTION", "LOAD" | "DELETE" | "FLUSH" | "RESTORE") => Some(Managing::Changes),
        ("FUNCTION", "STATS") => Some(Managing::AsksForRunning),
        ("FUNCTION", "LIST" | "DUMP" | "HELP") => Some(Managing::AsksOne),
        ("SCRIPT" | "FUNCTION", "KILL") => Some(Managing::Kills),
        _ => None,
    }
}

/// A client's own words, as far as they are repeated to it.
pub(in crate::session) fn shortened(text: &str) -> String {
    text.chars().filter(|of| !of.is_control()).take(128).collect()
}

/// What a client hears whose command has another number of words than it must.
pub(in crate::session) fn arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}
