//! What is asked of servers for a command, and which of them it is for.

use std::rc::Rc;

use flow::answers::Join;
use flow::service::{Effect, Judge, Request};
use wire::resp::Command;

use super::dispatch::CommandRoute;
use super::large::LARGE;
use super::transaction::AtHand;
use super::{Asking, CommandResult, ListedCommand, Session};
use crate::commands::{self, Positions};
use crate::front::Home;
use crate::server::ConnectionProfile;

/// What servers are asked for one command.
pub(super) enum Question {
    /// One server, by a lane or by the connection that its request names.
    Whole(Request),
    /// Some servers, or one several times; the client hears what comes of all answers.
    Parts(Vec<Request>, Join),
    /// A request whose other bytes, so many, come behind these.
    Streamed(Request, u64),
}

impl Question {
    /// The places where something is asked.
    fn places(&self) -> Vec<usize> {
        match self {
            Self::Whole(of) | Self::Streamed(of, _) => vec![of.server],
            Self::Parts(all, _) => all.iter().map(|of| of.server).collect(),
        }
    }

    /// The same, each request of it made another one.
    pub(super) fn map(mut self, change: impl Fn(&mut Request)) -> Self {
        match &mut self {
            Self::Whole(of) | Self::Streamed(of, _) => change(of),
            Self::Parts(all, _) => all.iter_mut().for_each(change),
        }
        self
    }
}

impl Session {
    /// Asks servers: all that is asked for a client goes out here, so that what has to be said at
    /// a place before it is. With a mark the machine of [`dedicated`](super::dedicated) is told
    /// what comes of it.
    #[inline]
    pub(super) fn ask(&mut self, what: Question, mark: Option<u64>, client: &Asking) {
        if self.dedicated.caches() {
            what.places().into_iter().for_each(|place| self.tell_caching(place, client));
        }
        match (what, mark) {
            (Question::Whole(request), None) => client.ask(request),
            (Question::Whole(request), Some(mark)) => client.ask_noted(request, mark),
            (Question::Parts(all, join), None) => client.ask_parts(all, join),
            (Question::Parts(all, join), Some(mark)) => client.ask_parts_noted(all, join, mark),
            (Question::Streamed(request, rest), _) => client.stream(request, rest),
        }
    }

    /// The number of a server's place for this client.
    pub(super) fn at(&self, server: usize) -> usize {
        self.front.fabric.service().number(&self.account, self.place(server))
    }

    pub(super) fn place(&self, server: usize) -> ConnectionProfile {
        let (database, version, tracks) = (self.database, self.version, self.dedicated.tracks());
        ConnectionProfile { server, database, version, reads: false, tracks }
    }

    /// What is asked of a server by its place, for the command that is under way: by the client's
    /// own connection where keys are tracked by it.
    pub(super) fn request_at(&self, place: usize, bytes: impl Into<Rc<[u8]>>) -> Request {
        let request = Request { tag: self.tag(), ..Request::new(place, bytes) };
        let is_own = self.dedicated.tracks();
        Request { route: if is_own { request.route.own() } else { request.route }, ..request }
    }

    /// What the command that is under way is counted by.
    pub(super) fn tag(&self) -> u32 {
        u32::try_from(self.number).unwrap_or(u32::MAX)
    }

    /// Where all keys of a command belong.
    pub(super) fn home_of(
        &self,
        command: &Command<'_>,
        positions: &Positions,
    ) -> Result<Option<Home>, String> {
        let key = |at: usize| command.get(at).unwrap_or_default();
        let mut homes = positions.iter().map(|at| self.front.home(key(at)));
        let Some(first) = homes.next() else { return Ok(None) };
        if homes.all(|home| home == first) {
            return Ok(Some(first));
        }
        Err(match first.slot {
            Some(_) => "CROSSSLOT Keys in request don't hash to the same slot".to_owned(),
            None => "CROSSSLOT weir: its keys are on several servers".to_owned(),
        })
    }

    /// As [`home_of`](Self::home_of); without a key the only server, if there is but one.
    pub(super) fn only_home(&self, of: &ListedCommand<'_>) -> Result<Home, String> {
        match (self.home_of(&of.command, &of.positions)?, of.standing.pool.only) {
            (Some(home), _) => Ok(home),
            (None, Some(only)) => Ok(Home::at(only)),
            // Without a key any node of a Cluster will do.
            (None, None) if self.front.is_cluster() => Ok(Home::at(self.front.any_server())),
            (None, None) => {
                Err("ERR weir: without a key it is not clear which server it is for".into())
            }
        }
    }

    /// A request for where a key belongs.
    pub(super) fn request(&self, home: Home, bytes: impl Into<Rc<[u8]>>) -> Request {
        let request = self.request_at(self.at(home.server), bytes);
        Request { judge: Judge::of(home.slot.map(u32::from)), ..request }
    }

    pub(super) fn ride(
        &mut self,
        route: CommandRoute,
        of: &ListedCommand<'_>,
        client: &Asking,
    ) -> CommandResult {
        let home = self.only_home(of)?;
        match route {
            CommandRoute::Read => self.ask_read(home, of, client),
            _ => self.ask_one(home, false, of.command, client),
        }
        Ok(())
    }

    pub(super) fn ask_one(
        &mut self,
        home: Home,
        reads: bool,
        command: Command<'_>,
        client: &Asking,
    ) {
        if !reads {
            self.writes(home.server);
        }
        let request = self.request(home, command.bytes());
        let judge = self.judge(&request, &command);
        let request = Request { effect: Effect::of_read(reads), judge, ..request };
        // It would keep others waiting for as long as it takes to be sent.
        let is_large = request.bytes.len() as u64 >= LARGE || self.is_too_large(&command);
        self.send(request, is_large, client);
    }

    /// Who looks at the answer to a command that is asked so.
    #[inline]
    pub(super) fn judge(&self, request: &Request, command: &Command<'_>) -> Judge {
        if self.is_judged(command) { request.judge.by_service() } else { request.judge }
    }

    /// Whether an answer is to be looked at.
    #[inline]
    pub(super) fn is_judged(&self, command: &Command<'_>) -> bool {
        let may = commands::may_concern_scripts(command.name());
        may && !self.dedicated.caches() && self.front.fabric.service().is_judged(command)
    }

    /// Waits for others on a connection of the client's own.
    pub(super) fn block(&mut self, of: &ListedCommand<'_>, client: &Asking) -> CommandResult {
        let home = self.only_home(of)?;
        self.writes(home.server);
        let mut request = self.request(home, of.command.bytes());
        let place = request.server;
        of.standing.allows_waiting(place)?;
        if !client.has_room_for(&mut request) {
            return Ok(());
        }
        self.drive(AtHand::Question(Question::Whole(request)), client, |machine, out| {
            machine.wait(place, out);
            Ok::<(), &str>(())
        })
    }
}
