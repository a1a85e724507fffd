//! Commands that Weir does not know, as those of modules and of newer servers.
//!
//! What one leaves on its connection is not known, so each has a connection of its own, which is
//! closed behind its answer and shared with nobody. It is run only where all servers say the same
//! of it, and `COMMAND INFO` proves where its keys are.
//!
//! Within `MULTI` it is a step on the transaction's connection, which is closed in the end instead
//! of being given back. What servers say of it is asked before it is looked at, and nothing of the
//! client is looked at meanwhile.

use std::rc::Rc;
use std::time::Duration;

use flow::service::Apart;
use tokio::sync::SemaphorePermit;
use wire::resp::{Command, CommandFrame, Commands, Limits};

use super::dispatch::{ClientStanding, Dispatch, StepEffect, TransactionStanding, Who, shortened};
use super::replicas::Wrote;
use super::wait::WrittenServers;
use super::{Asking, CommandResult, Session, join};
use crate::commands::{self, Do, Positions, Spec};
use crate::front::{Front, Home};
use crate::server::ConnectionProfile;
use crate::servers::accounts::Account;
use crate::servers::{Outcome, Servers};
use crate::topology::redirect::{Ran, Redirect};
use crate::unknown::Fact;

const NOT_CLEAR: &str = "ERR weir: which server it is for is not clear";

/// How often it is looked whether a pause has ended.
const PAUSED: Duration = Duration::from_millis(10);

/// What is asked, and by whom.
struct UnlistedRequest {
    bytes: Vec<u8>,
    place: ConnectionProfile,
    account: Rc<Account>,
    is_admin: bool,
}

impl Session {
    /// Has servers asked what has to be known before a command is looked at. Whether that has
    /// begun.
    pub(super) fn asks_first(&mut self, command: &Command<'_>, client: &Asking) -> bool {
        self.asks_unnamed(Some(command), client) || self.asks_what_step_is(command, client)
    }

    /// The same of a step that Weir does not know.
    fn asks_what_step_is(&self, command: &Command<'_>, client: &Asking) -> bool {
        let is_begun = self.dedicated.standing() == TransactionStanding::Begun;
        if !is_begun || self.dispatch(command).2 != Ok(Dispatch::UnlistedStep) {
            return false;
        }
        let name = command.name();
        if self.front.unknown.remembered(name).is_some() || self.untold.is_some() {
            return false;
        }
        let (front, name) = (Rc::clone(&self.front), name.to_vec());
        client.apart(move |apart: Apart<Servers>| {
            tokio::task::spawn_local(async move {
                match fact_in_turn(&front, &name).await {
                    Ok(_) => apart.answer(&[]),
                    Err(words) => apart.done(Outcome::Untold(words), &[]),
                }
            });
        });
        true
    }

    pub(super) fn ask_unknown(
        &mut self,
        command: Command<'_>,
        standing: &ClientStanding,
        client: &Asking,
    ) -> CommandResult {
        let name = command.name();
        if matches!(self.front.unknown.remembered(name), Some(None)) {
            return Err(unknown(name));
        }
        // To which server it goes is seen later, and `WAIT` must not guess.
        match standing.pool.only {
            Some(only) => self.writes(only),
            None => self.written.set(WrittenServers::OnSeveral),
        }
        self.wrote.set(Wrote::Something);
        let (place, account) = (self.place(0), Rc::clone(&self.account));
        let bytes = command.bytes().to_vec();
        let is_admin = standing.who == Who::Admin;
        let asked = UnlistedRequest { bytes, place, account, is_admin };
        let front = Rc::clone(&self.front);
        client.apart(move |apart: Apart<Servers>| {
            tokio::task::spawn_local(async move {
                let answer = asked.run(&front).await;
                apart.answer(&answer.unwrap_or_else(|words| join::error(&words)));
            });
        });
        self.front.metrics.leased.inc();
        Ok(())
    }

    /// Queues a step of a transaction, of which servers were asked before.
    pub(super) fn queue_unknown(
        &mut self,
        command: Command<'_>,
        standing: &ClientStanding,
        client: &Asking,
    ) -> CommandResult {
        let name = command.name();
        if let Some(words) = self.untold.take() {
            return Err(words);
        }
        let fact = self.front.unknown.looked_up(name).flatten().ok_or_else(|| unknown(name))?;
        check(&fact, name, standing.who == Who::Admin)?;
        if fact.is_for_connection {
            let shown = shown(name);
            return Err(format!(
                "ERR weir: {shown} is refused within MULTI: it may change the connection"
            ));
        }
        self.number = commands::find_numbered(name).map_or(usize::MAX, |(_, number)| number);
        self.front.look();
        let positions = positions_of(&self.front, &command, &fact)?;
        self.queue_step(StepEffect::Unknown, command, &positions, client)
    }
}

fn shown(name: &[u8]) -> String {
    shortened(&String::from_utf8_lossy(name))
}

pub(super) fn unknown(name: &[u8]) -> String {
    format!("ERR unknown command '{}'", shown(name))
}

/// Whether a command may be run, for an administrator or another.
fn check(fact: &Fact, name: &[u8], is_admin: bool) -> CommandResult {
    let shown = shown(name);
    if fact.is_refused {
        return Err(format!("ERR weir: {shown} is refused: it may block, or is for one server"));
    }
    if fact.is_dangerous && !is_admin {
        return Err(format!("NOPERM weir: {shown} is for users with admin = true"));
    }
    Ok(())
}

/// What all servers say of a command, once there is room to ask them; the permit has the room for
/// running it.
async fn fact_in_turn<'a>(
    front: &'a Front,
    name: &[u8],
) -> Result<(Option<Fact>, SemaphorePermit<'a>), String> {
    while front.fabric.paused().is_some() {
        tokio::time::sleep(PAUSED).await;
    }
    let limit = front.fabric.settings().timeout;
    let permit = tokio::time::timeout(limit, front.unknown.running.acquire()).await;
    let Ok(Ok(permit)) = permit else {
        return Err("ERR weir: not sent: too many commands that Weir does not know".to_owned());
    };
    Ok((fact_of(front, name).await?, permit))
}

/// What all servers say of a command.
async fn fact_of(front: &Front, name: &[u8]) -> Result<Option<Fact>, String> {
    if let Some(fact) = front.unknown.remembered(name) {
        return Ok(fact);
    }
    let text = String::from_utf8_lossy(name);
    let mut all: Option<Option<Fact>> = None;
    for server in front.fabric.service().view().with_keys() {
        let answer = server.ask_apart(&["COMMAND", "INFO", &text]).await;
        let answer = match answer {
            // As where Weir itself has not logged in: that says nothing of the command.
            Ok(answer) if answer.starts_with(b"-") => {
                Err(String::from_utf8_lossy(&answer).trim_end().to_owned())
            }
            answer => answer.map_err(|error| error.to_string()),
        };
        let answer = answer.map_err(|error| {
            format!("ERR weir: not sent: {} does not say what {text} is: {error}", server.name)
        })?;
        let fact = Fact::read(&answer);
        // What they do not agree on is known of none.
        all = Some(all.map_or(fact, |before| before.filter(|_| before == fact)));
    }
    let fact = all.flatten();
    front.unknown.remember(name, fact);
    Ok(fact)
}

impl UnlistedRequest {
    /// Its answer, or an error for its client.
    async fn run(&self, front: &Front) -> Result<Vec<u8>, String> {
        let mut commands = Commands::default();
        let all = Limits { bulk: u64::MAX, args: usize::MAX, ..Limits::default() };
        let Ok(CommandFrame::Command(_)) = commands.cut(&self.bytes, &all) else {
            return Err("ERR weir: the command is not clear".to_owned());
        };
        let command = commands.command(&self.bytes);
        let name = command.name();
        let (fact, _permit) = fact_in_turn(front, name).await?;
        let fact = fact.ok_or_else(|| unknown(name))?;
        check(&fact, name, self.is_admin)?;
        front.look();
        let home = home_of(front, &command, &fact)?;
        let view = front.fabric.service().view();
        let server = view.server(home.server).ok_or("ERR weir: there is no such server")?;
        let place = ConnectionProfile { server: home.server, ..self.place };
        let (limit, most) = {
            let settings = front.fabric.settings();
            (settings.timeout, settings.waiting)
        };
        let sent = server.logged_in(self.account.login()).open_for(place).await;
        let mut connection = sent.map_err(|error| match &error.said {
            Some(said) => said.as_ref().to_owned(),
            None => format!("ERR weir: not sent: {error}"),
        })?;
        let answered = connection.ask_up_to(command.bytes(), 1, most);
        let name = &server.name;
        match tokio::time::timeout(limit, answered).await {
            Ok(Ok(mut answers)) => {
                let answer = answers.pop().unwrap_or_default();
                if !Redirect::is_followed(&answer) {
                    return Ok(answer);
                }
                // A module may have said it itself, so this is not asked again.
                if let (Some(slot), Some(Redirect::Moved { slot: moved, at })) =
                    (home.slot, Redirect::read(&answer))
                    && slot == moved
                {
                    front.shared.fleet.is_said_to_have_moved(slot, &at, home.server);
                    front.look();
                }
                Err(Ran::Unknown.words(front.is_cluster()).to_owned())
            }
            Ok(Err(error)) => Err(format!("ERR weir: may have run: {name}: {error}")),
            Err(_) => Err(format!("ERR weir: may have run: {name} did not answer in time")),
        }
    }
}

/// Where all its keys are.
fn home_of(front: &Front, command: &Command<'_>, fact: &Fact) -> Result<Home, String> {
    if let Some(only) = front.only() {
        return Ok(Home::at(only));
    }
    let positions = positions_of(front, command, fact)?;
    let mut homes = positions.iter().filter_map(|at| command.get(at)).map(|key| front.home(key));
    let first = homes.next().ok_or(NOT_CLEAR)?;
    match homes.all(|home| home == first) {
        true => Ok(first),
        false => Err("CROSSSLOT weir: its keys are on several servers".to_owned()),
    }
}

/// Where its keys are among its arguments. Of several servers only a key says which it is for.
fn positions_of(
    front: &Front,
    command: &Command<'_>,
    fact: &Fact,
) -> Result<Positions, &'static str> {
    let spec = fact.keys.map(|keys| Spec { name: "unknown", arity: -1, keys, what: Do::Write });
    let positions = spec.and_then(|spec| spec.keys_of(command).ok());
    match positions.filter(|positions| positions.iter().next().is_some()) {
        Some(positions) => Ok(positions),
        None if front.only().is_some() => Ok(Positions::NONE),
        None => Err(NOT_CLEAR),
    }
}
