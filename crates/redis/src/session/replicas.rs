//! Reads from replicas, for clients that want that.
//!
//! A client reads its own writes: from when it has written it reads from the primary, until a
//! replica has all that the primary had when Weir asked it after the last write was answered. What
//! of it is unanswered may be written at any time, so nothing is read from replicas meanwhile.

use std::rc::Rc;
use std::time::Instant;

use flow::service::{Effect, Request};

use super::dispatch::ClientStanding;
use super::{Asking, ListedCommand, Session};
use crate::commands;
use crate::front::Home;
use crate::server::ConnectionProfile;

/// What a client has written, for its reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Wrote {
    /// Nothing that a replica may lack.
    #[default]
    Nothing,
    /// Something; whether it was answered was not looked at.
    Something,
    /// All was answered by then.
    AnsweredBy(Instant),
}

impl Session {
    /// Asks a server, or a replica of it, for what changes nothing.
    pub(super) fn ask_read(&mut self, home: Home, of: &ListedCommand<'_>, client: &Asking) {
        let request = self.read(home, of, of.command.bytes(), client);
        let judge = self.judge(&request, &of.command);
        let is_large = self.is_too_large(&of.command);
        self.send(Request { judge, ..request }, is_large, client);
    }

    /// What is asked for what changes nothing.
    pub(super) fn read(
        &self,
        home: Home,
        of: &ListedCommand<'_>,
        bytes: impl Into<Rc<[u8]>>,
        client: &Asking,
    ) -> Request {
        let effect = if self.shares_read(&of.standing) { Effect::Shares } else { Effect::Repeats };
        let request = Request { effect, ..self.request(home, bytes) };
        let Some(replica) = self.replica(home, of, client) else { return request };
        let place = ConnectionProfile { reads: true, ..self.place(replica) };
        let server = self.front.fabric.service().number(&self.account, place);
        // A replica may say that it can not be read.
        Request { server, judge: request.judge.by_service(), ..request }
    }

    /// Whether the read that is under way may be asked once for this client and others.
    fn shares_read(&self, standing: &ClientStanding) -> bool {
        commands::is_shared(self.number)
            && standing.may_share_read(self.has_more)
            && self.front.in_force.load().share_reads
    }

    /// The replica that answers a read; each client keeps to one for as long as it is there.
    fn replica(&self, home: Home, of: &ListedCommand<'_>, client: &Asking) -> Option<usize> {
        let wants = self.identity.is_some_and(|identity| identity.reads_replicas);
        if !wants || !of.spec.may_read_replicas() || !of.standing.may_read_replicas() {
            return None;
        }
        let view = self.front.fabric.service().view();
        let readers = view.readers(home.server);
        let at = usize::try_from(client.id()).ok()?.checked_rem(readers.len())?;
        let replica = *readers.get(at)?;
        let answered = match self.wrote.get() {
            Wrote::Nothing => return Some(replica),
            Wrote::Something if client.figures().unanswered > 0 => return None,
            Wrote::Something => {
                let now = Instant::now();
                self.wrote.set(Wrote::AnsweredBy(now));
                now
            }
            Wrote::AnsweredBy(at) => at,
        };
        view.covers(replica)?.has(&self.front.shared.fleet, answered).then_some(replica)
    }
}
