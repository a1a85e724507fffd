//! Sub-commands: what each one is, and what a client hears of those that are not served.

use wire::resp::Command;

use crate::commands::{Do, OwnCommand};

/// What Weir answers of `CLIENT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum ClientCommand {
    Caching,
    GetName,
    GetRedir,
    Id,
    Info,
    Kill,
    List,
    /// `NO-EVICT` and `NO-TOUCH`, which stay off.
    StaysOff,
    Pause,
    Reply,
    SetInfo,
    SetName,
    Tracking,
    TrackingInfo,
    Unblock,
    Unpause,
}

/// What Weir answers of `SLOWLOG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum SlowlogCommand {
    Get,
    Help,
    Len,
    Reset,
}

/// What Weir answers of `LATENCY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum LatencyCommand {
    Help,
    Histogram,
    History,
    Latest,
    Reset,
}

/// What is served of `PUBSUB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum PubsubCommand {
    /// The channels that anybody is subscribed to, of all servers.
    Channels,
    Help,
    NumPat,
    NumSub,
    ShardNumSub,
}

/// What a sub-command of `SCRIPT` or `FUNCTION` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum ManagingCommand {
    /// All servers get it, and say the same.
    Changes,
    /// What holds is what all servers say.
    AsksAll,
    /// What holds is what the server says on which something runs.
    AsksForRunning,
    /// Any server knows the answer.
    AsksOne,
    /// It ends the script that runs, past who waits for that.
    KillsScript,
    /// It ends the function that runs, past who waits for that.
    KillsFunction,
}

impl ManagingCommand {
    fn kills(self) -> bool {
        matches!(self, Self::KillsScript | Self::KillsFunction)
    }
}

/// A sub-command that is served.
struct SubCommand<T> {
    name: &'static str,
    /// The least and the most words that it has, those of the command included.
    words: (usize, usize),
    is_for_admins: bool,
    what: T,
}

/// The sub-commands of one command.
struct SubCommands<T: 'static> {
    served: &'static [SubCommand<T>],
    /// Those that are refused though a server knows them.
    refused: &'static [&'static str],
}

/// As many as a client likes.
const ANY: usize = usize::MAX;

const fn one<T: Copy>(name: &'static str, words: (usize, usize), what: T) -> SubCommand<T> {
    SubCommand { name, words, is_for_admins: false, what }
}

const fn for_admins<T: Copy>(name: &'static str, words: (usize, usize), what: T) -> SubCommand<T> {
    SubCommand { name, words, is_for_admins: true, what }
}

const CLIENT: SubCommands<ClientCommand> = SubCommands {
    served: &[
        one("CACHING", (3, 3), ClientCommand::Caching),
        one("GETNAME", (2, 2), ClientCommand::GetName),
        one("GETREDIR", (2, 2), ClientCommand::GetRedir),
        one("ID", (2, 2), ClientCommand::Id),
        one("INFO", (2, 2), ClientCommand::Info),
        for_admins("KILL", (3, ANY), ClientCommand::Kill),
        for_admins("LIST", (2, ANY), ClientCommand::List),
        one("NO-EVICT", (3, 3), ClientCommand::StaysOff),
        one("NO-TOUCH", (3, 3), ClientCommand::StaysOff),
        for_admins("PAUSE", (3, 4), ClientCommand::Pause),
        one("REPLY", (3, 3), ClientCommand::Reply),
        one("SETINFO", (4, 4), ClientCommand::SetInfo),
        one("SETNAME", (3, 3), ClientCommand::SetName),
        one("TRACKING", (3, ANY), ClientCommand::Tracking),
        one("TRACKINGINFO", (2, 2), ClientCommand::TrackingInfo),
        for_admins("UNBLOCK", (3, 4), ClientCommand::Unblock),
        for_admins("UNPAUSE", (2, 2), ClientCommand::Unpause),
    ],
    refused: &["CAPA", "HELP", "IMPORT-SOURCE", "NO-EVICT", "NO-TOUCH"],
};

const CONFIG: SubCommands<()> = SubCommands {
    served: &[one("GET", (3, ANY), ())],
    refused: &["HELP", "RESETSTAT", "REWRITE", "SET"],
};

const LATENCY: SubCommands<LatencyCommand> = SubCommands {
    served: &[
        one("HELP", (2, 2), LatencyCommand::Help),
        one("HISTOGRAM", (2, ANY), LatencyCommand::Histogram),
        one("HISTORY", (3, 3), LatencyCommand::History),
        one("LATEST", (2, 2), LatencyCommand::Latest),
        one("RESET", (2, ANY), LatencyCommand::Reset),
    ],
    refused: &["DOCTOR", "GRAPH"],
};

const SLOWLOG: SubCommands<SlowlogCommand> = SubCommands {
    served: &[
        one("GET", (2, 3), SlowlogCommand::Get),
        one("HELP", (2, 2), SlowlogCommand::Help),
        one("LEN", (2, 2), SlowlogCommand::Len),
        one("RESET", (2, 2), SlowlogCommand::Reset),
    ],
    refused: &[],
};

const PUBSUB: SubCommands<PubsubCommand> = SubCommands {
    served: &[
        one("CHANNELS", (2, ANY), PubsubCommand::Channels),
        one("HELP", (2, ANY), PubsubCommand::Help),
        one("NUMPAT", (2, 2), PubsubCommand::NumPat),
        one("NUMSUB", (2, ANY), PubsubCommand::NumSub),
        one("SHARDCHANNELS", (2, ANY), PubsubCommand::Channels),
        one("SHARDNUMSUB", (2, ANY), PubsubCommand::ShardNumSub),
    ],
    refused: &[],
};

const SCRIPT: SubCommands<ManagingCommand> = SubCommands {
    served: &[
        one("EXISTS", (2, ANY), ManagingCommand::AsksAll),
        one("FLUSH", (2, ANY), ManagingCommand::Changes),
        one("HELP", (2, ANY), ManagingCommand::AsksOne),
        for_admins("KILL", (2, 2), ManagingCommand::KillsScript),
        one("LOAD", (2, ANY), ManagingCommand::Changes),
    ],
    refused: &["DEBUG", "SHOW"],
};

const FUNCTION: SubCommands<ManagingCommand> = SubCommands {
    served: &[
        one("DELETE", (2, ANY), ManagingCommand::Changes),
        one("DUMP", (2, ANY), ManagingCommand::AsksOne),
        one("FLUSH", (2, ANY), ManagingCommand::Changes),
        one("HELP", (2, ANY), ManagingCommand::AsksOne),
        for_admins("KILL", (2, 2), ManagingCommand::KillsFunction),
        one("LIST", (2, ANY), ManagingCommand::AsksOne),
        one("LOAD", (2, ANY), ManagingCommand::Changes),
        one("RESTORE", (2, ANY), ManagingCommand::Changes),
        one("STATS", (2, ANY), ManagingCommand::AsksForRunning),
    ],
    refused: &[],
};

/// A command's second word, in capitals.
fn sub_command(command: &Command<'_>) -> String {
    let word = command.get(1).unwrap_or_default();
    String::from_utf8_lossy(word).to_ascii_uppercase()
}

impl<T: Copy> SubCommands<T> {
    fn named(&self, sub: &str) -> Option<&SubCommand<T>> {
        self.served.iter().find(|of| of.name == sub)
    }

    /// What one is with as many words as it may have; else what its client hears.
    fn read(&self, name: &str, command: &Command<'_>) -> Result<T, String> {
        let sub = sub_command(command);
        match self.named(&sub) {
            Some(SubCommand { words: (least, most), what, .. })
                if (*least..=*most).contains(&command.len()) =>
            {
                Ok(*what)
            }
            served => Err(self.unserved(name, &sub, served.is_some(), command)),
        }
    }

    /// What a client hears whose sub-command, or whose number of words, is none that is served: as
    /// a server says it, but where a server would do it.
    fn unserved(&self, name: &str, sub: &str, is_served: bool, command: &Command<'_>) -> String {
        if self.refused.contains(&sub) {
            return refused(name, sub);
        }
        if is_served {
            return arity(&format!("{}|{}", name.to_ascii_lowercase(), sub.to_ascii_lowercase()));
        }
        let word = String::from_utf8_lossy(command.get(1).unwrap_or_default());
        format!("ERR unknown subcommand '{}'. Try {name} HELP.", shortened(&word))
    }
}

/// Which sub-command of `CLIENT` it is.
pub(super) fn client(command: &Command<'_>) -> Result<ClientCommand, String> {
    CLIENT.read("CLIENT", command)
}

/// That it is the `CONFIG GET` that Weir answers.
pub(super) fn config(command: &Command<'_>) -> Result<(), String> {
    CONFIG.read("CONFIG", command)
}

/// Which sub-command of `LATENCY` it is.
pub(super) fn latency(command: &Command<'_>) -> Result<LatencyCommand, String> {
    LATENCY.read("LATENCY", command)
}

/// Which sub-command of `SLOWLOG` it is.
pub(super) fn slowlog(command: &Command<'_>) -> Result<SlowlogCommand, String> {
    SLOWLOG.read("SLOWLOG", command)
}

/// Which sub-command of `PUBSUB` it is.
pub(super) fn pubsub(command: &Command<'_>) -> Result<PubsubCommand, String> {
    PUBSUB.read("PUBSUB", command)
}

fn managing(what: Do) -> (&'static str, &'static SubCommands<ManagingCommand>) {
    match what {
        Do::Function => ("FUNCTION", &FUNCTION),
        _ => ("SCRIPT", &SCRIPT),
    }
}

/// Which sub-command of `SCRIPT` or `FUNCTION` it is.
pub(super) fn manage(what: Do, command: &Command<'_>) -> Result<ManagingCommand, String> {
    let (name, all) = managing(what);
    all.read(name, command)
}

/// That a sub-command of `SCRIPT` or `FUNCTION` may be a step of a transaction.
pub(super) fn check_step(what: Do, command: &Command<'_>) -> Result<(), String> {
    let (name, all) = managing(what);
    let sub = sub_command(command);
    match all.named(&sub) {
        None => Err(all.unserved(name, &sub, false, command)),
        Some(of) if of.what.kills() => Err(refused(name, &sub)),
        Some(_) => Ok(()),
    }
}

/// The name of a sub-command that shows or touches what is everybody's.
pub(super) fn for_admins_of(what: Do, command: &Command<'_>) -> Option<String> {
    let is_for_admins = |sub: &str| match what {
        Do::Own(OwnCommand::Client) => CLIENT.named(sub).is_some_and(|of| of.is_for_admins),
        Do::Script | Do::Function => managing(what).1.named(sub).is_some_and(|of| of.is_for_admins),
        _ => false,
    };
    Some(sub_command(command)).filter(|sub| is_for_admins(sub))
}

/// What a client hears of a sub-command that is not for it.
pub(in crate::session) fn refused(name: &str, sub: &str) -> String {
    let sub = shortened(sub);
    format!("ERR weir: {name} {sub} is refused: it is not for a connection that others share")
}

/// A client's own words, as far as they are repeated to it.
pub(in crate::session) fn shortened(text: &str) -> String {
    text.chars().filter(|of| !of.is_control()).take(128).collect()
}

/// What a client hears whose command has another number of words than it must.
pub(super) fn arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}
