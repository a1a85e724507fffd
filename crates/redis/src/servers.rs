//! The servers of a worker, as its fabric asks for them: what their replies are, and what is asked
//! again by what they answer.

pub mod accounts;
mod checks;
mod counts;
mod ends;
mod outcome;
mod places;
mod redirects;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flow::lanes::ServerRecord;
use flow::pool::Budget;
use flow::service::{Again, Fabric, Judge, Request, Service, Took, Unanswered};
use wire::resp::{Command, announced, put_error};

use crate::commands::may_concern_scripts_as_sent;
use crate::desk::Desk;
use crate::fleet::{Fleet, Node, View};
use crate::metrics::times::{ServerTimes, Times};
use crate::scripts::{KnownScripts, Scripts};
use crate::server::{Connection, ConnectionProfile, Identity, ServerError};
use crate::topology::redirect::Redirect;
use accounts::{Account, Accounts};
use checks::Budgets;
pub use checks::NotIn;
use counts::{Counts, kind_of};
use ends::Ends;
pub use outcome::{Hello, LoggedIn, Outcome};
use places::Places;

/// How long is waited for somebody to say where a server is.
const LOCATED_WITHIN: Duration = Duration::from_secs(1);

/// The servers, as a worker's fabric asks for them. Places have numbers, each of one account.
#[derive(Debug)]
pub struct Servers {
    fleet: Arc<Fleet>,
    /// What this worker goes by.
    view: Rc<RefCell<Arc<View>>>,
    worker: usize,
    accounts: Accounts,
    places: Places,
    /// What connections of clients' users count towards.
    budgets: Budgets,
    scripts: KnownScripts,
    /// Places from which commands were sent on since that was heeded.
    left: RefCell<Vec<usize>>,
    counts: Counts,
    desk: Rc<Desk>,
}

impl Servers {
    /// The servers of a fleet.
    pub fn new(
        fleet: Arc<Fleet>,
        worker: usize,
        scripts: Arc<Scripts>,
        times: Times,
        desk: Rc<Desk>,
        user_connections: usize,
    ) -> Self {
        let view = Rc::new(RefCell::new(fleet.view()));
        let (accounts, places, budgets) =
            (Accounts::default(), Places::default(), Budgets::new(user_connections));
        let (scripts, left) = (KnownScripts::new(scripts), RefCell::default());
        let counts = Counts::new(times);
        Self { fleet, view, worker, accounts, places, budgets, scripts, left, counts, desk }
    }

    /// As whom lanes are logged in.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// What is kept for operators.
    pub fn desk(&self) -> &Rc<Desk> {
        &self.desk
    }

    /// Goes by the servers as they are now.
    #[inline]
    pub fn look(&self) {
        if self.fleet.version() != self.view.borrow().version {
            let now = self.fleet.view();
            self.counts.are_others(&now);
            *self.view.borrow_mut() = now;
        }
    }

    /// What this worker goes by.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// The version of that.
    #[inline]
    pub fn version(&self) -> u64 {
        self.view.borrow().version
    }

    /// Servers are others than before, by the same numbers, or have left: what clients have written
    /// to them may be lost, or keys are with others.
    pub fn are_others(&self, before: &View, now: &View) {
        let has_left = |place: &ConnectionProfile| {
            !place.reads && before.left(place.server).is_none() && now.left(place.server).is_some()
        };
        let is_other = |place: &ConnectionProfile| {
            let of = before.incarnation(place.server);
            of.is_some_and(|of| now.incarnation(place.server) != Some(of)) || has_left(place)
        };
        self.left.borrow_mut().extend(self.places.those(is_other));
    }

    /// Takes note of the servers from which commands were sent on: what a client wrote is not all
    /// with one of them any more.
    #[inline]
    pub fn heed_left(fabric: &Fabric<Self>) {
        let servers = fabric.service();
        if !servers.left.borrow().is_empty() {
            servers.left.take().into_iter().for_each(|place| fabric.broke(place));
        }
    }

    /// Whether the answer to a command is to be judged by its first line, wherever its keys are.
    pub fn is_judged(&self, command: &Command<'_>) -> bool {
        self.scripts.is_concerned(command)
    }

    /// Who has a slot of a Cluster; where that is not known, one that knows.
    #[inline]
    pub fn holder(&self, slot: u16) -> usize {
        let view = self.view.borrow();
        let holder = view.slots.as_ref().and_then(|slots| slots.holder(slot));
        holder.or_else(|| view.holders.first().copied()).unwrap_or(0)
    }

    /// Whether keys lie by the slots of a Cluster.
    fn is_cluster(&self) -> bool {
        self.view.borrow().slots.is_some()
    }

    /// Those that have keys.
    pub fn holders(&self) -> Vec<usize> {
        self.view.borrow().holders.clone()
    }

    /// The number of a place of an account.
    #[inline]
    pub fn number(&self, account: &Rc<Account>, place: ConnectionProfile) -> usize {
        self.places.number(account, place)
    }

    /// Whose a place is, by its number.
    pub fn account(&self, number: usize) -> Option<Rc<Account>> {
        self.places.account(number)
    }

    /// Gives up the accounts that no client has any more, once nothing is left of them.
    pub fn give_up(fabric: &Fabric<Self>, now: Instant, mut gone: impl FnMut(&Account)) {
        let servers = fabric.service();
        for account in servers.accounts.outworn(now) {
            gone(&account);
            let numbers = account.numbers.borrow().clone();
            if numbers.iter().filter(|(_, number)| !fabric.forget(*number)).count() == 0 {
                servers.places.give_up(&account);
                servers.accounts.is_over(&account);
            }
        }
    }

    /// The name of the server of a place.
    pub fn name(&self, number: usize) -> String {
        let place = self.place(number);
        let server = place.and_then(|place| self.server_name(place.server));
        server.unwrap_or_else(|| "?".to_owned())
    }

    /// The name of a server.
    pub fn server_name(&self, server: usize) -> Option<String> {
        Some(self.view.borrow().server(server)?.name.as_ref().to_owned())
    }

    /// What a place is, by its number.
    #[inline]
    pub fn place(&self, number: usize) -> Option<ConnectionProfile> {
        self.places.place(number)
    }

    fn reached(&self, number: usize) -> Option<(ConnectionProfile, Node, Rc<Account>)> {
        let (place, account) = (self.place(number)?, self.account(number)?);
        Some((place, self.view.borrow().nodes.get(place.server)?.clone(), account))
    }

    /// Counts something of the server of a place.
    #[inline]
    fn count(&self, number: usize, what: impl FnOnce(&ServerTimes)) {
        if let Some(place) = self.place(number) {
            self.counts.of(place.server, &self.view.borrow(), what);
        }
    }

    /// Whether a replica says that it can not be read now.
    fn is_away(&self, request: &Request, line: &[u8]) -> bool {
        let is_such = |word: &&[u8]| line.starts_with(word);
        self.place(request.server).is_some_and(|place| place.reads)
            && [&b"-LOADING "[..], b"-MASTERDOWN "].iter().any(is_such)
    }

    /// The place at another server that is otherwise as this one.
    fn at_other(&self, number: usize, server: usize) -> Option<usize> {
        let place = ConnectionProfile { server, reads: false, ..self.place(number)? };
        Some(self.number(&self.account(number)?, place))
    }
}

/// Which server a connection leads to.
#[derive(Debug)]
pub struct LeadsTo {
    server: usize,
    incarnation: u64,
    view: Rc<RefCell<Arc<View>>>,
    identity: Arc<Identity>,
}

/// Where a client waits for what others do.
#[derive(Debug, Clone, Copy)]
pub struct BlockedConnection {
    /// The number of the server.
    pub server: usize,
    /// Which of those that have had it.
    pub incarnation: u64,
    /// What the server knows the connection by, if it tells that.
    pub id: Option<i64>,
}

impl LeadsTo {
    /// Where whoever waits there does so, to have the server let it go: nobody else is to have the
    /// connection after it.
    pub fn spend(&self) -> BlockedConnection {
        self.identity.is_spent.store(true, Ordering::Relaxed);
        BlockedConnection {
            server: self.server,
            incarnation: self.incarnation,
            id: self.identity.id,
        }
    }
}

impl ServerRecord for LeadsTo {
    #[inline]
    fn is_current(&self) -> bool {
        self.view.borrow().incarnation(self.server) == Some(self.incarnation)
    }
}

impl Service for Servers {
    type Connection = Connection;
    type Protocol = Ends;
    type Record = LeadsTo;
    type Error = ServerError;
    type Outcome = Outcome;

    async fn connect(self: Rc<Self>, number: usize) -> Result<Connection, ServerError> {
        let (Some(place), Some(account)) = (self.place(number), self.account(number)) else {
            return Err(ServerError::silent("there is no such server"));
        };
        let opened = self.dial_for_clients(account.login(), place, number).await;
        if opened.as_ref().is_err_and(|error| error.said.is_some()) {
            self.accounts.is_refused(&account);
        }
        opened
    }

    fn is_told_at_once(&self, error: &ServerError) -> bool {
        error.takes_none
    }

    fn known(&self, connection: &Connection) -> (Ends, LeadsTo) {
        let place = self.place(connection.number);
        let server = place.map_or(usize::MAX, |place| place.server);
        let hears = place.is_some_and(|place| place.tracks);
        let (incarnation, view) = (connection.incarnation, Rc::clone(&self.view));
        let identity = Arc::clone(&connection.identity);
        (Ends::new(hears), LeadsTo { server, incarnation, view, identity })
    }

    fn is_good(&self, connection: &Connection) -> bool {
        self.known(connection).1.is_current()
    }

    fn left(&self, number: usize) -> Option<Instant> {
        self.view.borrow().left(self.place(number)?.server)
    }

    fn lost(&self, number: usize) {
        if let Some(place) = self.place(number) {
            let words = "it ended a connection while commands waited on it";
            self.fleet.health().failed(place.server, self.worker, words);
            self.fleet.call();
        }
    }

    /// Replicas are one with their primary, so that a read there is answered before its client
    /// writes, and the other way round.
    fn are_one(&self, number: usize, other: usize) -> bool {
        let view = self.view.borrow();
        let primary = |of: usize| self.place(of).map(|place| view.primary_of(place.server));
        number == other || primary(number) == primary(other)
    }

    fn are_of_one(&self, number: usize, other: usize) -> bool {
        self.are_one(number, other) && self.places.are_of_one(number, other)
    }

    fn budget(&self, number: usize) -> Option<Budget> {
        let account = self.account(number)?;
        let place = self.place(number).filter(|_| account.is_of_client())?;
        Some(self.budgets.of(place.server))
    }

    fn is_wanted(&self, number: usize) -> bool {
        self.places.is_used(number)
    }

    fn again(&self, request: &Request, line: &[u8]) -> Option<Again> {
        if let (Some(slot), Some(b'-')) = (request.about(), line.first())
            && let Some(said) = Redirect::read(line)
        {
            return self.sent_on(request, slot, &said);
        }
        if self.is_away(request, line) {
            let server = self.elsewhere(request)?;
            let judge = Judge::of(request.about());
            return Some(Again::at_once(Request { server, judge, ..request.clone() }));
        }
        if !may_concern_scripts_as_sent(redirects::plain(request)) {
            return None;
        }
        let bytes = self.scripts.heard(redirects::plain(request), line)?;
        let asked = Request { bytes: bytes.into(), replies: 1, unheard: 0, ..request.clone() };
        // Of what was sent behind it, some may have been run before.
        Some(Again { alone: true, ..Again::at_once(asked) })
    }

    fn instead(&self, request: &Request, line: &[u8]) -> Option<Vec<u8>> {
        self.said_instead(request, line)
    }

    fn elsewhere(&self, request: &Request) -> Option<usize> {
        let place = self.place(request.server)?;
        self.look();
        if place.reads && request.about().is_none() {
            return self.at_other(request.server, self.view.borrow().primary_of(place.server));
        }
        let slot = request.about().filter(|_| request.unheard == 0)?;
        self.at_other(request.server, self.holder(u16::try_from(slot).ok()?))
    }

    #[inline]
    fn begins(&self, request: &Request, bytes: &[u8]) {
        if bytes.first() == Some(&b'-') {
            self.count(request.server, |times| times.refused(request.tag as usize, bytes));
        }
    }

    fn announces(&self, request: &Request, bytes: &[u8], most: u64) -> Option<u64> {
        let len = announced(bytes)?;
        // What is kept until it is whole is noted then.
        if len > most {
            self.desk.announced(redirects::plain(request), len, || self.name(request.server));
        }
        Some(len)
    }

    #[inline]
    fn answered(&self, request: &Request, took: Took) {
        self.count(request.server, |times| times.answered(request.tag as usize, &took));
        if took.is_shared {
            return;
        }
        let command = redirects::plain(request);
        self.desk.answered(command, request.rest, &took, || self.name(request.server));
    }

    fn placement(&self) -> u64 {
        self.version()
    }

    async fn restore(self: Rc<Self>, connection: &mut Connection) -> bool {
        match self.reached(connection.number) {
            Some((place, node, account))
                if node.incarnation == connection.incarnation
                    && !connection.identity.is_spent.load(Ordering::Relaxed) =>
            {
                node.server.logged_in(account.login()).restore(place, connection).await
            }
            _ => false,
        }
    }

    fn words(&self, why: &Unanswered<ServerError>) -> Vec<u8> {
        if let Unanswered::Unreachable { server, error: ServerError { said: Some(said), .. } } = why
        {
            return self.is_refused(*server, said);
        }
        if let Some((server, kind)) = kind_of(why) {
            self.count(server, |times| times.failed(kind));
        }
        let of = |number: &usize| self.name(*number);
        let text = match why {
            Unanswered::Unreachable { server, error } => {
                format!("ERR weir: not sent: {} cannot be reached: {error}", of(server))
            }
            Unanswered::NotSent { server } => {
                format!(
                    "ERR weir: not sent: the connection to {} broke, and what was before this may \
                     have run",
                    of(server)
                )
            }
            Unanswered::Overtaken { server } => {
                format!(
                    "ERR weir: not sent: {} had given up its slot, and what this client sent \
                     behind it was run first",
                    of(server)
                )
            }
            Unanswered::MayHaveRun { server } => {
                format!("ERR weir: may have run: the connection to {} broke", of(server))
            }
            Unanswered::Late { server, may_have_run: false } => {
                format!("ERR weir: not sent: {} took no command in time", of(server))
            }
            Unanswered::Late { server, may_have_run: true } => {
                format!("ERR weir: may have run: {} did not answer in time", of(server))
            }
            Unanswered::NoLease { server } => {
                format!(
                    "ERR weir: not sent: other clients have all connections to {} that they may \
                     have for themselves",
                    of(server)
                )
            }
            Unanswered::Cancelled => "ERR weir: cancelled".to_owned(),
            Unanswered::Killed => "ERR weir: closed by an operator".to_owned(),
            Unanswered::Draining => "ERR weir: it stops".to_owned(),
            Unanswered::TooMuchWaits => {
                "ERR weir: more answers wait behind a slow one than max-waiting".to_owned()
            }
            Unanswered::TooLarge => "ERR weir: the command is larger than max-command".to_owned(),
            Unanswered::PartsTooLarge => {
                "ERR weir: what several servers have answered is together larger than max-waiting"
                    .to_owned()
            }
            Unanswered::OutOfMemory => {
                "OOM weir: commands and answers of all clients together are at max-memory"
                    .to_owned()
            }
            Unanswered::LeaseLost { server } => {
                format!(
                    "ERR weir: not sent: the connection to {} that this client had for itself has \
                     ended",
                    of(server)
                )
            }
        };
        let mut out = Vec::with_capacity(text.len() + 3);
        put_error(&mut out, &text);
        out
    }
}
