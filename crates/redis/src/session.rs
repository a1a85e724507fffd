//! One client: its commands one by one, and what holds for it from one to the next.

mod all;
mod clients;
mod console;
mod dedicated;
mod dispatch;
mod info;
mod join;
mod large;
mod login;
mod own;
mod passed;
mod replicas;
mod replies;
mod requests;
mod slow;
mod split;
mod subscribe;
mod tracking;
mod transaction;
mod unblock;
mod unknown;
mod wait;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use flow::service::{Client, ClientEvent, Dialogue};
use wire::resp::{Command, CommandFrame, Commands, Limits, Version, put_simple};

use crate::commands::{Numbered, Positions, Spec};
use crate::desk::{Card, Desk};
use crate::front::{Front, Home, InForce};
use crate::servers::accounts::Account;
use crate::servers::{Outcome, Servers};
use crate::users::Identity;
use console::Monitoring;
use dedicated::{Action, Dedicated};
use dispatch::{
    ClientStanding, CommandFacts, CommandRoute, Dispatch, Dispatched, PoolFacts, Refusal,
    TransactionStanding, Who,
};
use login::Login;
use own::is_shown;
use passed::Unnamed;
use replicas::Wrote;
use replies::Replies;
use subscribe::Subscribed;
use wait::WrittenServers;

/// A client of the fabric.
type Asking = Rc<Client<Servers>>;

/// A client: who it is, what it has said, and what holds for what it says next.
#[derive(Debug)]
pub struct Session {
    front: Rc<Front>,
    commands: Commands,
    /// Who it is; `None` until it has logged in.
    identity: Option<Identity>,
    /// As whom it asks servers.
    account: Rc<Account>,
    /// Whether it may be somebody without a login, by what servers say.
    unnamed: Unnamed,
    database: u32,
    version: Version,
    /// What operators see of it.
    card: Rc<Card>,
    /// Until it is dropped, operators see it.
    desk_entry: Option<DeskEntry>,
    /// It watches all commands.
    monitoring: Option<Monitoring>,
    /// Its login that is under way.
    login: Option<Rc<Login>>,
    /// What it has on connections of its own.
    dedicated: Dedicated,
    /// Room for what that wants done; empty but meanwhile.
    actions: Vec<Action>,
    /// Why servers have not said what the step at hand of it is: an error for its client.
    untold: Option<String>,
    /// What it is subscribed to, once it has been to anything.
    subscribed: Option<Subscribed>,
    /// The number of the command that is under way.
    number: usize,
    /// More has come of the client behind that.
    has_more: bool,
    /// Where it has written, for `WAIT`.
    written: Cell<WrittenServers>,
    /// What it has written is answered, for its reads from replicas.
    wrote: Cell<Wrote>,
    /// How many requests were marked, to hear what becomes of them.
    marks: Cell<u64>,
    /// Which answers it hears.
    replies: Replies,
    /// It has said `QUIT`.
    is_over: bool,
}

/// What became of a command: `Err` is an error for its client, who stays.
type CommandResult = Result<(), String>;

/// A command of the list on its way, and how its client stood as it came.
#[derive(Debug, Clone, Copy)]
struct ListedCommand<'a> {
    spec: &'static Spec,
    command: Command<'a>,
    positions: Positions,
    standing: ClientStanding,
}

impl Session {
    /// A client that has said nothing yet, by the address it comes from and the one it has come to.
    pub fn new(front: Rc<Front>, addresses: [Option<SocketAddr>; 2]) -> Self {
        let in_force = front.in_force.load();
        let (identity, database) = (in_force.users.anonymous(), in_force.database);
        let (account, unnamed) = passed::unnamed(&front, &in_force.users);
        drop(in_force);
        let card = Card::new(addresses, front.clock.now());
        card.database.set(database);
        Self {
            front,
            card,
            desk_entry: None,
            monitoring: None,
            login: None,
            commands: Commands::default(),
            identity,
            account,
            unnamed,
            database,
            version: Version::Two,
            dedicated: Dedicated::default(),
            actions: Vec::new(),
            untold: None,
            subscribed: None,
            number: 0,
            has_more: false,
            written: Cell::default(),
            wrote: Cell::default(),
            marks: Cell::default(),
            replies: Replies::On,
            is_over: false,
        }
    }

    /// As a client that has just come, but for what it has written.
    fn begin_anew(&mut self, client: &Asking) {
        self.hears_again(client);
        let in_force = self.front.in_force.load();
        (self.identity, self.database) = (in_force.users.anonymous(), in_force.database);
        let (account, unnamed) = passed::unnamed(&self.front, &in_force.users);
        self.unnamed = unnamed;
        self.version = Version::Two;
        (self.subscribed, self.monitoring) = (None, None);
        drop(in_force);
        self.asks_as(account);
        *self.card.name.borrow_mut() = Vec::new();
        *self.card.user.borrow_mut() = None;
        client.set_user(None);
    }

    /// Operators see what holds for it now.
    fn show(&self) {
        let card = &self.card;
        card.database.set(self.database);
        card.version.set(self.version);
        let transaction = self.dedicated.standing();
        card.in_multi.set(transaction == TransactionStanding::Begun);
        card.watches.set(matches!(transaction, TransactionStanding::Watching { .. }));
        card.tracks.set(self.dedicated.tracks());
    }

    fn limits(&self, in_force: &InForce) -> Limits {
        if self.identity.is_some() { in_force.limits } else { Limits::UNAUTHENTICATED }
    }

    fn take(&mut self, command: Command<'_>, client: &Asking) -> CommandResult {
        if is_of_http(command.name()) {
            tracing::warn!(from = self.card.address(), "a client speaks HTTP: it is closed");
            self.is_over = true;
            return Ok(());
        }
        let (found, standing, decided) = self.dispatch(&command);
        self.dedicated.begin_command(found.is_some_and(|(spec, _)| spec.is_client()));
        if let Some((spec, number)) = found {
            self.number = number;
            if decided != Err(Refusal::Stranger) {
                self.is_seen(spec, &command);
            }
        }
        let is_plain = decided.as_ref().is_ok_and(Dispatch::is_plain);
        let taken = match decided {
            Ok(Dispatch::Unlisted) => self.ask_unknown(command, &standing, client),
            Ok(Dispatch::UnlistedStep) => self.queue_unknown(command, &standing, client),
            Ok(Dispatch::Listed { spec, route, positions }) => {
                self.front.desk.samples.pass(|| command.get(positions.iter().next()?));
                let listed = ListedCommand { spec, command, positions, standing };
                self.go(route, &listed, client)
            }
            Err(refusal) => self.refuses(&refusal, &command, client),
        };
        if taken.is_err() {
            self.dedicated.fail();
        }
        // What rides a lane changes nothing of these.
        if !is_plain {
            self.show();
        }
        taken
    }

    /// What becomes of a command, and how its client stands.
    fn dispatch(&self, command: &Command<'_>) -> (Option<Numbered>, ClientStanding, Dispatched) {
        self.front.look();
        let in_force = self.front.in_force.load();
        let found = in_force.commands.find(command.name());
        let is_for_admins = found.is_some_and(|(spec, _)| in_force.commands.is_for_admins(spec));
        drop(in_force);
        let is_taken_away =
            found.is_some_and(|(spec, number)| self.is_taken_away(spec, number, command));
        let spec = found.map(|(spec, _)| spec);
        let facts = CommandFacts { spec, command, is_for_admins, is_taken_away };
        let standing = self.standing();
        (found, standing, dispatch::dispatch(&facts, &standing))
    }

    /// A mark that no other request of the client has.
    fn mark(&self) -> u64 {
        self.marks.replace(self.marks.get() + 1)
    }

    /// How the client stands now.
    fn standing(&self) -> ClientStanding {
        let who = match self.identity {
            None => Who::Stranger,
            Some(Identity { admin: true, .. }) => Who::Admin,
            Some(_) => Who::User,
        };
        ClientStanding {
            who,
            pool: PoolFacts { only: self.front.only(), is_cluster: self.front.is_cluster() },
            subscription: self.subscription(),
            transaction: self.dedicated.standing(),
            tracks: self.dedicated.tracks(),
        }
    }

    /// Tells a client why its command is not run.
    fn refuses(&mut self, why: &Refusal, command: &Command<'_>, client: &Asking) -> CommandResult {
        match why {
            Refusal::Stranger => {
                self.unnamed.fails()?;
                Err("NOAUTH Authentication required.".to_owned())
            }
            Refusal::Unknown => Err(unknown::unknown(command.name())),
            Refusal::Words(words) => Err(words.clone().into_owned()),
            Refusal::WordsAlone(words) => {
                self.refuse(words, client);
                Ok(())
            }
            Refusal::Abort(what) => {
                self.abort(what, client);
                Ok(())
            }
        }
    }

    /// Operators see that a command came.
    fn is_seen(&self, spec: &'static Spec, command: &Command<'_>) {
        self.card.says(spec.name, self.front.clock.now());
        let monitors = &self.front.desk.shared.monitors;
        if monitors.is_any() && is_shown(spec) {
            monitors.show(command, self.database, &self.card);
        }
    }

    /// Whether a server has the command otherwise than Weir's list.
    fn is_taken_away(&self, spec: &Spec, number: usize, command: &Command<'_>) -> bool {
        self.front.shared.fleet.is_taken(number, || self.front.homes_of(spec, command))
    }

    /// Has a command go its way.
    fn go(
        &mut self,
        route: CommandRoute,
        of: &ListedCommand<'_>,
        client: &Asking,
    ) -> CommandResult {
        let command = of.command;
        match route {
            CommandRoute::Transaction(what) => self.steps(what, of, client),
            CommandRoute::Step(step) => self.queue_step(step, command, &of.positions, client),
            CommandRoute::Read | CommandRoute::Write => self.ride(route, of, client),
            CommandRoute::Any => {
                self.ask_one(Home::at(self.front.any_server()), true, command, client);
                Ok(())
            }
            CommandRoute::Block => self.block(of, client),
            CommandRoute::Split(how) => self.split(how, of, client),
            CommandRoute::All(how) => {
                self.ask_all(how, command, client);
                Ok(())
            }
            CommandRoute::Scan => self.scan(command, client),
            CommandRoute::Manage(what) => {
                self.manage(what, command, client);
                Ok(())
            }
            CommandRoute::Wait => self.wait(of, client),
            CommandRoute::Subscribe(kind) => self.subscribe(kind, command, client),
            CommandRoute::Unsubscribe(kind) => self.unsubscribe(kind, command, client),
            CommandRoute::Pubsub(what) => {
                self.pubsub(what, command, client);
                Ok(())
            }
            CommandRoute::AskTracked => self.ask_all_tracked(command, client),
            CommandRoute::Own(own) => self.answer(own, command, client),
        }
    }

    fn say_ok(&self, client: &Asking) {
        let mut out = Vec::new();
        put_simple(&mut out, b"OK");
        self.say(&out, client);
    }

    fn say(&self, bytes: &[u8], client: &Asking) {
        client.answer(bytes);
        self.front.metrics.answered.inc();
    }

    fn refuse(&self, words: &str, client: &Asking) {
        client.answer(&join::error(words));
        self.front.metrics.refused.inc();
    }
}

/// Whether a line is of a request of HTTP, as a page may have a browser send: what follows may look
/// like commands. A server closes such a client, too.
fn is_of_http(name: &[u8]) -> bool {
    [&b"POST"[..], b"Host:"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// A client that operators see, until this is dropped.
#[derive(Debug)]
struct DeskEntry {
    desk: Rc<Desk>,
    client: u64,
}

impl Drop for DeskEntry {
    fn drop(&mut self) {
        self.desk.leaves(self.client);
    }
}

impl Dialogue<Servers> for Session {
    fn begins(&mut self, client: &Asking) {
        let (desk, client) = (Rc::clone(&self.front.desk), client.id());
        desk.enters(client, Rc::clone(&self.card));
        self.desk_entry = Some(DeskEntry { desk, client });
    }

    fn next(&mut self, bytes: &[u8], client: &Asking) -> Result<usize, Vec<u8>> {
        let in_force = self.front.in_force.load();
        let limits = self.limits(&in_force);
        let mut cutter = std::mem::take(&mut self.commands);
        let taken = match cutter.cut(bytes, &limits) {
            Ok(CommandFrame::Nothing(len)) => Ok(len),
            Ok(CommandFrame::More) => {
                let len = self.begin_large(&cutter, bytes, client);
                if len > 0 {
                    cutter = Commands::default();
                }
                Ok(len)
            }
            Ok(CommandFrame::Command(_)) if self.asks_first(&cutter.command(bytes), client) => {
                cutter = Commands::default();
                Ok(0)
            }
            Ok(CommandFrame::Command(len)) => {
                self.has_more = bytes.len() > len;
                if let Err(words) = self.take(cutter.command(bytes), client) {
                    self.refuse(&words, client);
                }
                Ok(len)
            }
            // It may be within the limits of those who need no login.
            Err(_) if self.asks_unnamed(None, client) => {
                cutter = Commands::default();
                Ok(0)
            }
            Err(malformed) => {
                Err(self.unnamed.fails().err().unwrap_or_else(|| format!("ERR {malformed}")))
            }
        };
        drop(in_force);
        self.commands = cutter;
        if matches!(taken, Ok(1..)) {
            self.is_behind_command(client);
        }
        match taken {
            Ok(_) if self.is_over => Err(Vec::new()),
            Ok(len) => Ok(len),
            Err(words) => Err(join::error(&words)),
        }
    }

    fn is_stranger(&self) -> bool {
        // Where servers check passwords, one may need none: it is asked at the first command.
        self.identity.is_none() && self.unnamed == Unnamed::Refused
    }

    fn hears(&mut self, event: ClientEvent<Servers>, client: &Asking) -> Result<(), Vec<u8>> {
        match event {
            ClientEvent::StepNotSent => self.dedicated.lose_step(),
            ClientEvent::Answered(answer) => {
                let (mark, begins) = (answer.mark, answer.begins.as_deref());
                self.drive_alone(client, |machine, out| machine.hear(mark, begins, out));
            }
            ClientEvent::Done(Outcome::LoggedIn(done)) => self.is_let_in(done),
            ClientEvent::Done(Outcome::NotLetIn(why)) => self.unnamed = why.into(),
            ClientEvent::Done(Outcome::Untold(words)) => self.untold = Some(words),
        }
        self.show();
        Ok(())
    }

    fn lease_lost(&mut self, place: usize, client: &Asking) -> Result<(), Vec<u8>> {
        self.drive_alone(client, |machine, out| machine.lose_connection(place, out));
        Ok(())
    }
}
