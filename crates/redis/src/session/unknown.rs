//! Commands that Weir does not know, as those of modules and of newer servers.
//!
//! What one leaves on its connection is not known, so each has a connection of its own, which is
//! closed behind its answer and shared with nobody. It is run only where all servers say the same
//! of it, and `COMMAND INFO` proves where its keys are.

use std::rc::Rc;
use std::time::Duration;

use flow::service::Apart;
use wire::resp::{Command, CommandFrame, Commands, Limits};

use super::replicas::Wrote;
use super::wait::Written;
use super::{Asking, Session, Taken, join, shortened};
use crate::commands::{Do, Spec};
use crate::front::{Front, Home};
use crate::server::Place;
use crate::servers::Servers;
use crate::servers::accounts::Account;
use crate::topology::redirect::{Ran, Redirect};
use crate::unknown::Fact;

/// A longer name is that of no command.
const NAME_BYTES_MAX: usize = 64;

/// How often it is looked whether a pause has ended.
const PAUSED: Duration = Duration::from_millis(10);

/// What is asked, and by whom.
struct Asked {
    bytes: Vec<u8>,
    place: Place,
    account: Rc<Account>,
    is_admin: bool,
}

impl Session {
    pub(super) fn ask_unknown(&mut self, command: Command<'_>, client: &Asking) -> Taken {
        let name = command.name();
        // By `config|get` a server's `COMMAND INFO` knows a sub-command, which is not a command.
        let is_of_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'|';
        let is_name = name.len() <= NAME_BYTES_MAX && name.iter().all(is_of_name);
        let is_known = !matches!(self.front.unknown.remembered(name), Some(None));
        let is_free =
            self.transaction.is_none() && !self.is_in_subscribed_mode() && !self.is_tracking();
        let Some(identity) = self.identity.filter(|_| is_name && is_known && is_free) else {
            return Err(unknown(name));
        };
        // To which server it goes is seen later, and `WAIT` must not guess.
        match self.front.only() {
            Some(only) => self.writes(only),
            None => self.written.set(Written::OnSeveral),
        }
        self.wrote.set(Wrote::Something);
        let (place, account) = (self.place(0), Rc::clone(&self.account));
        let bytes = command.bytes().to_vec();
        let asked = Asked { bytes, place, account, is_admin: identity.admin };
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
}

fn unknown(name: &[u8]) -> String {
    format!("ERR unknown command '{}'", shortened(&String::from_utf8_lossy(name)))
}

impl Asked {
    /// Its answer, or an error for its client.
    async fn run(&self, front: &Front) -> Result<Vec<u8>, String> {
        let mut commands = Commands::default();
        let all = Limits { bulk: u64::MAX, args: usize::MAX, ..Limits::default() };
        let Ok(CommandFrame::Command(_)) = commands.cut(&self.bytes, &all) else {
            return Err("ERR weir: the command is not clear".to_owned());
        };
        let command = commands.command(&self.bytes);
        let name = command.name();
        while front.fabric.paused().is_some() {
            tokio::time::sleep(PAUSED).await;
        }
        let limit = front.fabric.settings().timeout;
        let permit = tokio::time::timeout(limit, front.unknown.running.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err("ERR weir: not sent: too many commands that Weir does not know".to_owned());
        };
        let fact = self.fact(front, name).await?.ok_or_else(|| unknown(name))?;
        let shown = shortened(&String::from_utf8_lossy(name));
        if fact.is_refused {
            return Err(format!(
                "ERR weir: {shown} is refused: it may block, or is for one server"
            ));
        }
        if fact.is_dangerous && !self.is_admin {
            return Err(format!("NOPERM weir: {shown} is for users with admin = true"));
        }
        front.look();
        let home = home_of(front, &command, &fact)?;
        let view = front.fabric.service().view();
        let server = view.server(home.server).ok_or("ERR weir: there is no such server")?;
        let place = Place { server: home.server, ..self.place };
        let most = front.fabric.settings().waiting;
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

    /// What all servers say of a command.
    async fn fact(&self, front: &Front, name: &[u8]) -> Result<Option<Fact>, String> {
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
}

/// Where all its keys are.
fn home_of(front: &Front, command: &Command<'_>, fact: &Fact) -> Result<Home, String> {
    if let Some(only) = front.only() {
        return Ok(Home::at(only));
    }
    let not_clear = || "ERR weir: which server it is for is not clear".to_owned();
    let spec = Spec {
        name: "unknown",
        arity: -1,
        keys: fact.keys.ok_or_else(not_clear)?,
        what: Do::Write,
    };
    let positions = spec.keys_of(command).map_err(|_| not_clear())?;
    let keys = positions.iter().filter_map(|at| command.get(at));
    let mut homes = keys.map(|key| front.home(key));
    let first = homes.next().ok_or_else(not_clear)?;
    match homes.all(|home| home == first) {
        true => Ok(first),
        false => Err("CROSSSLOT weir: its keys are on several servers".to_owned()),
    }
}
