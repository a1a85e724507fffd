//! What becomes of a command: a pure function of what it is and how its client stands, with an arm
//! for each way. It asks nobody and changes nothing.
//!
//! Whatever a client sends passes [`admit`], a large value whose end is still coming too. What is
//! refused while a client holds something is the table in [`standing`].

// Layers, from the top down:
//   standing: how a client stands, and what is refused while it holds something
//   routes: by which way a command may go
//   parts: sub-commands, and what a client hears of those that are not served

mod parts;
mod routes;
mod standing;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use wire::resp::Command;

use crate::commands::{
    self, All, Do, Keys, OwnCommand, Positions, Spec, TransactionCommand, Wrong,
};
pub(super) use parts::{
    ClientCommand, LatencyCommand, ManagingCommand, PubsubCommand, SlowlogCommand, refused,
    shortened,
};
pub(super) use routes::{CommandRoute, OwnAnswer, StepEffect};
pub(super) use standing::{
    Change, ClientStanding, PoolFacts, Subscription, TransactionStanding, Who,
};

/// A longer name is that of no command.
const NAME_BYTES_MAX: usize = 64;

/// What a server says to what only nodes of a Cluster serve.
const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";

/// A command, and what others say of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandFacts<'a> {
    /// How Weir's list has it, or the operator; `None`: neither has it.
    pub(super) spec: Option<&'static Spec>,
    pub(super) command: &'a Command<'a>,
    /// The operator keeps it for administrators.
    pub(super) is_for_admins: bool,
    /// A server has it otherwise than the list.
    pub(super) is_taken_away: bool,
}

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// Servers are asked what it is; then it has a connection for itself alone.
    Unlisted,
    /// Servers were asked what it is; it is a step of a transaction.
    UnlistedStep,
    /// It is in the list.
    Listed {
        spec: &'static Spec,
        /// By which way it goes.
        route: CommandRoute,
        /// Where its keys are.
        positions: Positions,
    },
}

/// What becomes of a command, or why it is not run.
pub(super) type Dispatched = Result<Dispatch, Refusal>;

impl Dispatch {
    /// Whether it rides a lane and leaves everything of its client as it is.
    pub(super) fn is_plain(&self) -> bool {
        let plain =
            |route: &CommandRoute| matches!(route, CommandRoute::Read | CommandRoute::Write);
        matches!(self, Self::Listed { route, .. } if plain(route))
    }
}

/// Why a command is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its client has to log in first.
    Stranger,
    /// No server is asked for a command of that name now.
    Unknown,
    /// In these words, by which a transaction fails.
    Words(Cow<'static, str>),
    /// In these words, by which a transaction does not fail.
    WordsAlone(&'static str),
    /// It is an `EXEC` that is none, for this reason: it ends the transaction.
    Abort(String),
}

impl From<&'static str> for Refusal {
    fn from(words: &'static str) -> Self {
        Self::Words(words.into())
    }
}

impl From<String> for Refusal {
    fn from(words: String) -> Self {
        Self::Words(words.into())
    }
}

/// What becomes of a command.
pub(super) fn dispatch(facts: &CommandFacts<'_>, standing: &ClientStanding) -> Dispatched {
    let Some(spec) = admit(facts, standing)? else {
        return unlisted(facts.command, standing);
    };
    let positions = match spec.keys_of(facts.command) {
        Ok(positions) => positions,
        // A single server has its own words for it.
        Err(Wrong::Keys) if standing.pool.only.is_some() => Positions::NONE,
        Err(Wrong::Keys) => return Err("ERR weir: what its keys are is not clear".into()),
        Err(Wrong::Arity(name)) => return Err(reject(spec, wrong_arity(name))),
    };
    check_mode(spec, standing)?;
    let route = route(spec, facts.command, standing)?;
    Ok(Dispatch::Listed { spec, route, positions })
}

/// Whether a command may go to its server while its last argument is still coming, of which so
/// many arguments were announced.
pub(super) fn may_stream(facts: &CommandFacts<'_>, args: usize, standing: &ClientStanding) -> bool {
    let admitted = admit(facts, standing).ok().flatten();
    admitted.is_some_and(|spec| {
        spec.what == Do::Write
            && spec.keys == Keys::At(1)
            && spec.takes(args)
            && check_mode(spec, standing).is_ok()
            && standing.transaction == TransactionStanding::None
    })
}

/// Whether its client may say it; `None`: what it is, servers have to say.
fn admit(
    facts: &CommandFacts<'_>,
    standing: &ClientStanding,
) -> Result<Option<&'static Spec>, Refusal> {
    let Some(spec) = facts.spec else { return Ok(None) };
    if standing.who == Who::Stranger && !is_before_login(spec) {
        return Err(Refusal::Stranger);
    }
    check_rights(spec, facts, standing.who)?;
    Ok((!facts.is_taken_away).then_some(spec))
}

/// Whether a client may say this before it has logged in.
pub(super) fn is_before_login(spec: &Spec) -> bool {
    use OwnCommand::{Auth, Hello, Quit, Reset};
    matches!(spec.what, Do::Own(Auth | Hello | Quit | Reset))
}

/// Whether a client may use a command, which the operator may have kept for administrators.
fn check_rights(spec: &Spec, facts: &CommandFacts<'_>, who: Who) -> Result<(), Refusal> {
    // Most commands are none of these by what is done with them.
    let is_plain = matches!(spec.what, Do::Read | Do::Write | Do::Split(_)) && !facts.is_for_admins;
    if is_plain || who == Who::Admin {
        return Ok(());
    }
    let whole = facts.is_for_admins || is_dangerous(spec.what);
    match whole.then(|| spec.name.to_owned()).or_else(|| part_for_admins(spec, facts.command)) {
        Some(name) => Err(format!("NOPERM weir: {name} is for users with admin = true").into()),
        None => Ok(()),
    }
}

/// Whether it shows or touches what is everybody's, of what is served at all.
fn is_dangerous(what: Do) -> bool {
    use OwnCommand::{Latency, Monitor, Slowlog, Weir};
    matches!(what, Do::All(All::Ok | All::Concat) | Do::Own(Latency | Monitor | Slowlog | Weir))
}

/// The sub-command that does.
fn part_for_admins(spec: &Spec, command: &Command<'_>) -> Option<String> {
    parts::for_admins_of(spec.what, command).map(|part| format!("{} {part}", spec.name))
}

/// Refuses a command in a server's own words. `EXEC` ends what it cannot run.
fn reject(spec: &Spec, what: String) -> Refusal {
    match spec.what {
        Do::Transaction(TransactionCommand::Exec) => Refusal::Abort(what),
        _ => format!("ERR {what}").into(),
    }
}

fn wrong_arity(name: &str) -> String {
    format!("wrong number of arguments for '{}' command", name.to_ascii_lowercase())
}

/// That it can be said in the mode of RESP2 in which little else than messages can be understood.
fn check_mode(spec: &Spec, standing: &ClientStanding) -> Result<(), Refusal> {
    use OwnCommand::{Ping, Quit, Reset};
    let is_allowed = standing.subscription != Subscription::Mode
        || matches!(
            spec.what,
            Do::Subscribe(_) | Do::Unsubscribe(_) | Do::Own(Ping | Quit | Reset)
        );
    if is_allowed {
        return Ok(());
    }
    let name = spec.name.to_ascii_lowercase();
    let what = format!(
        "Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
         allowed in this context"
    );
    Err(reject(spec, what))
}

/// The way of a command of which servers have to say what it is.
fn unlisted(command: &Command<'_>, standing: &ClientStanding) -> Dispatched {
    let name = command.name();
    // By `config|get` a server's `COMMAND INFO` knows a sub-command, which is not a command.
    let is_of_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'|';
    let is_name = name.len() <= NAME_BYTES_MAX && name.iter().all(is_of_name);
    let is_free = standing.allows(Change::Unlisted).is_ok();
    match standing.transaction {
        _ if !is_name || !is_free || standing.who == Who::Stranger => Err(Refusal::Unknown),
        TransactionStanding::Begun => Ok(Dispatch::UnlistedStep),
        TransactionStanding::None | TransactionStanding::Watching { .. } => Ok(Dispatch::Unlisted),
    }
}

/// The way of a command of the list that its client may say now.
fn route(
    spec: &Spec,
    command: &Command<'_>,
    standing: &ClientStanding,
) -> Result<CommandRoute, Refusal> {
    let is_begun = standing.transaction == TransactionStanding::Begun;
    Ok(match spec.what {
        Do::Transaction(what) => return transaction(what, standing),
        Do::Refused(why) => {
            return Err(format!("ERR weir: {} is refused: {why}", spec.name).into());
        }
        // These are run at once, as a server has it.
        Do::Own(OwnCommand::Quit) => CommandRoute::Own(OwnAnswer::Quit),
        Do::Own(OwnCommand::Reset) => CommandRoute::Own(OwnAnswer::Reset),
        _ if is_begun => return step(spec, command, standing).map(CommandRoute::Step),
        Do::Read => CommandRoute::Read,
        Do::Write => CommandRoute::Write,
        Do::StreamRead if !commands::blocks(command) => CommandRoute::Read,
        Do::StreamWrite if !commands::blocks(command) => CommandRoute::Write,
        Do::Block | Do::StreamRead | Do::StreamWrite => CommandRoute::Block,
        Do::Any => CommandRoute::Any,
        Do::Split(how) => CommandRoute::Split(how),
        Do::All(how) => CommandRoute::All(how),
        Do::Scan => CommandRoute::Scan,
        Do::Script | Do::Function => CommandRoute::Manage(parts::manage(spec.what, command)?),
        Do::Wait => CommandRoute::Wait,
        Do::Subscribe(kind) => CommandRoute::Subscribe(kind),
        Do::Unsubscribe(kind) => CommandRoute::Unsubscribe(kind),
        Do::Pubsub => CommandRoute::Pubsub(parts::pubsub(command)?),
        Do::Own(own) => return answer(own, command, standing),
    })
}

/// What Weir answers, unless the answer is to come behind what servers say of keys.
fn answer(
    own: OwnCommand,
    command: &Command<'_>,
    standing: &ClientStanding,
) -> Result<CommandRoute, Refusal> {
    let is_in_mode = standing.subscription == Subscription::Mode;
    Ok(CommandRoute::Own(match own {
        OwnCommand::Ping | OwnCommand::Echo if standing.tracks && !is_in_mode => {
            return Ok(CommandRoute::AskTracked);
        }
        OwnCommand::Ping if command.len() > 2 => return Err(parts::arity("ping").into()),
        OwnCommand::Ping if is_in_mode => OwnAnswer::PongAsMessage,
        OwnCommand::Ping if command.len() == 1 => OwnAnswer::Pong,
        OwnCommand::Ping | OwnCommand::Echo => OwnAnswer::Echo,
        OwnCommand::Auth => OwnAnswer::Auth,
        OwnCommand::Client => OwnAnswer::Client(parts::client(command)?),
        OwnCommand::ClusterMode => return Err(NO_CLUSTER.into()),
        OwnCommand::Command => return Ok(CommandRoute::Any),
        OwnCommand::Config => parts::config(command).map(|()| OwnAnswer::ConfigGet)?,
        OwnCommand::Hello => OwnAnswer::Hello,
        OwnCommand::Info => OwnAnswer::Info,
        OwnCommand::Latency => OwnAnswer::Latency(parts::latency(command)?),
        OwnCommand::Monitor => OwnAnswer::Monitor,
        OwnCommand::Quit => OwnAnswer::Quit,
        OwnCommand::Reset => OwnAnswer::Reset,
        OwnCommand::Select => OwnAnswer::Select,
        OwnCommand::Slowlog => OwnAnswer::Slowlog(parts::slowlog(command)?),
        OwnCommand::Weir => OwnAnswer::Console,
    }))
}

fn transaction(
    what: TransactionCommand,
    standing: &ClientStanding,
) -> Result<CommandRoute, Refusal> {
    use TransactionCommand as Command;
    let is_begun = standing.transaction == TransactionStanding::Begun;
    match what {
        // A server refuses a nested one in its own words; with Valkey it ends the transaction.
        Command::Multi if is_begun && standing.pool.only.is_some() => {
            Ok(CommandRoute::Step(StepEffect::Reads))
        }
        Command::Multi if is_begun => Err(Refusal::WordsAlone("ERR MULTI calls can not be nested")),
        Command::Exec if !is_begun => Err("ERR EXEC without MULTI".into()),
        Command::Discard if !is_begun => Err("ERR DISCARD without MULTI".into()),
        // Within a transaction a server refuses it, in its own words.
        Command::Watch if is_begun => Ok(CommandRoute::Step(StepEffect::Reads)),
        Command::Unwatch if is_begun => Ok(CommandRoute::Step(StepEffect::Writes)),
        what => Ok(CommandRoute::Transaction(what)),
    }
}

/// What a command does that is a step of a transaction, if it may be one.
fn step(
    spec: &Spec,
    command: &Command<'_>,
    standing: &ClientStanding,
) -> Result<StepEffect, Refusal> {
    let has_one_server = standing.pool.only.is_some();
    let may = match spec.what {
        // To its clients a Cluster is one server, which queues them and refuses them later.
        Do::Own(OwnCommand::ClusterMode) if standing.pool.is_cluster => {
            return Err(NO_CLUSTER.into());
        }
        Do::Own(own) => {
            matches!(own, OwnCommand::ClusterMode | OwnCommand::Ping | OwnCommand::Echo)
        }
        Do::Wait | Do::Subscribe(_) | Do::Unsubscribe(_) | Do::Pubsub => false,
        Do::All(_) | Do::Scan => has_one_server,
        Do::Script | Do::Function => {
            parts::check_step(spec.what, command)?;
            has_one_server
        }
        _ => true,
    };
    match spec.what {
        _ if !may => Err(format!("ERR weir: {} is refused within MULTI", spec.name).into()),
        Do::Read | Do::StreamRead | Do::Own(_) => Ok(StepEffect::Reads),
        _ => Ok(StepEffect::Writes),
    }
}
