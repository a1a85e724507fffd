//! What is asked of servers for a command, and which of them it is for.

use std::rc::Rc;

use flow::service::{Affinity, Effect, Judge, Request, Route};
use wire::resp::Command;

use super::dispatch::CommandRoute;
use super::large::LARGE;
use super::{Asking, ListedCommand, Session, Taken};
use crate::commands::Positions;
use crate::front::Home;
use crate::server::Place;

impl Session {
    /// The number of a server's place for this client.
    pub(super) fn at(&self, server: usize) -> usize {
        self.front.fabric.service().number(&self.account, self.place(server))
    }

    pub(super) fn place(&self, server: usize) -> Place {
        let (database, version, tracks) = (self.database, self.version, self.tracking.is_some());
        Place { server, database, version, reads: false, tracks }
    }

    /// What is asked of a server by its place, for the command that is under way.
    pub(super) fn request_at(&self, place: usize, bytes: impl Into<Rc<[u8]>>) -> Request {
        self.as_tracked(Request { tag: self.tag(), ..Request::new(place, bytes) })
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
        &self,
        route: CommandRoute,
        of: &ListedCommand<'_>,
        client: &Asking,
    ) -> Taken {
        let home = self.only_home(of)?;
        match route {
            CommandRoute::Read => self.ask_read(home, of, client),
            _ => self.ask_one(home, false, of.command, client),
        }
        Ok(())
    }

    pub(super) fn ask_one(&self, home: Home, reads: bool, command: Command<'_>, client: &Asking) {
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

    /// Whether an answer is to be looked at; of most commands the first letter says that it is not.
    #[inline]
    pub(super) fn is_judged(&self, command: &Command<'_>) -> bool {
        let may = matches!(command.name().first(), Some(b'E' | b'e' | b'S' | b's'));
        may && !self.caches() && self.front.fabric.service().is_judged(command)
    }

    /// Waits for others on a connection of the client's own.
    pub(super) fn block(&self, of: &ListedCommand<'_>, client: &Asking) -> Taken {
        let home = self.only_home(of)?;
        self.writes(home.server);
        let request = self.request(home, of.command.bytes());
        // With keys that are watched the connection is where these are.
        let is_amid_watch = of.standing.is_amid_watch(request.server)?;
        let affinity = if is_amid_watch { Affinity::Step } else { Affinity::Free };
        client.ask_alone(Request { route: Route::OwnWaiting(affinity), ..request });
        self.front.metrics.leased.inc();
        Ok(())
    }
}
