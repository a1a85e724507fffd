//! Sub-commands, and what a client hears of those that are not served.

use wire::resp::Command;

use super::own::arity;

/// What Weir serves of a command, by itself or by its servers, and what it refuses though a server
/// knows it.
struct Parts {
    name: &'static str,
    served: &'static [&'static str],
    refused: &'static [&'static str],
}

const ALL: [Parts; 7] = [
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
            "UNPAUSE",
        ],
        refused: &["CAPA", "HELP", "IMPORT-SOURCE", "NO-EVICT", "NO-TOUCH", "UNBLOCK"],
    },
    Parts { name: "CONFIG", served: &["GET"], refused: &["HELP", "RESETSTAT", "REWRITE", "SET"] },
    Parts {
        name: "FUNCTION",
        served: &["DELETE", "DUMP", "FLUSH", "HELP", "KILL", "LIST", "LOAD", "RESTORE", "STATS"],
        refused: &[],
    },
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
    Parts {
        name: "SCRIPT",
        served: &["EXISTS", "FLUSH", "HELP", "KILL", "LOAD"],
        refused: &["DEBUG", "SHOW"],
    },
    Parts { name: "SLOWLOG", served: &["GET", "HELP", "LEN", "RESET"], refused: &[] },
];

/// A command's second word, in capitals.
pub(super) fn sub_command(command: &Command<'_>) -> String {
    let word = command.get(1).unwrap_or_default();
    String::from_utf8_lossy(word).to_ascii_uppercase()
}

/// What a client hears whose sub-command, or whose number of words, is none that is served: as a
/// server says it, but where a server would do it.
pub(super) fn unserved(name: &str, command: &Command<'_>) -> String {
    let sub = sub_command(command);
    let parts = ALL.iter().find(|parts| parts.name == name);
    let is_among =
        |of: fn(&Parts) -> &[&str]| parts.is_some_and(|parts| of(parts).contains(&&*sub));
    match () {
        () if is_among(|parts| parts.refused) => refused(name, &sub),
        () if is_among(|parts| parts.served) => {
            arity(&format!("{}|{}", name.to_ascii_lowercase(), sub.to_ascii_lowercase()))
        }
        () => {
            let word = String::from_utf8_lossy(command.get(1).unwrap_or_default());
            format!("ERR unknown subcommand '{}'. Try {name} HELP.", super::shortened(&word))
        }
    }
}

/// What a client hears of a sub-command that is not for it.
pub(super) fn refused(name: &str, sub: &str) -> String {
    let sub = super::shortened(sub);
    format!("ERR weir: {name} {sub} is refused: it is not for a connection that others share")
}
