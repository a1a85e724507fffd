//! Reads from replicas, for clients that want that.
//!
//! A client reads its own writes: from when it has written it reads from the primary, until a
//! replica has all that the primary had when Weir asked it after the last write was answered. What
//! of it is unanswered may be written at any time, so nothing is read from replicas meanwhile.

use std::rc::Rc;
use std::time::Instant;

use flow::service::{Effect, Request};
use wire::resp::Command;

use super::{Asking, Session};
use crate::commands::{self, Spec};
use crate::front::Home;
use crate::server::Place;

/// What a client has written, for its reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Wrote {
    /// Nothing.
    #[default]
    Nothing,
    /// Something; whether it was answered was not looked at.
    Something,
    /// All was answered by then.
    AnsweredBy(Instant),
}

/// What holds for a read, and for its client, as it is asked.
#[derive(Debug, Clone, Copy)]
struct ReadStanding {
    /// It is one of those that may be shared.
    is_shared: bool,
    /// More commands of its client have come behind it: they would wait for it.
    has_more: bool,
    /// Its client is told of keys that change, and its server is to know what it has read.
    tracks: bool,
    /// Its client is in `MULTI`, or watches keys.
    is_within: bool,
}

impl ReadStanding {
    fn may_share(self) -> bool {
        self.is_shared && !self.has_more && !self.tracks && !self.is_within
    }
}

impl Session {
    /// Asks a server, or a replica of it, for what changes nothing.
    pub(super) fn ask_read(&self, spec: &Spec, home: Home, command: Command<'_>, client: &Asking) {
        let request = self.read(spec, home, command.bytes(), client);
        let judge = self.judge(&request, &command);
        let is_large = self.is_too_large(&command);
        self.send(Request { judge, ..request }, is_large, client);
    }

    /// What is asked for what changes nothing.
    pub(super) fn read(
        &self,
        spec: &Spec,
        home: Home,
        bytes: impl Into<Rc<[u8]>>,
        client: &Asking,
    ) -> Request {
        let effect = if self.shares_reads() { Effect::Shares } else { Effect::Repeats };
        let request = Request { effect, ..self.request(home, bytes) };
        let Some(replica) = self.replica(spec, home, client) else { return request };
        let place = Place { reads: true, ..self.place(replica) };
        let server = self.front.fabric.service().number(&self.account, place);
        // A replica may say that it can not be read.
        Request { server, judge: request.judge.by_service(), ..request }
    }

    /// Whether the read that is under way may be asked once for this client and others.
    fn shares_reads(&self) -> bool {
        let standing = ReadStanding {
            is_shared: commands::is_shared(self.number),
            has_more: self.has_more,
            tracks: self.is_tracking(),
            is_within: !self.transaction.is_none(),
        };
        standing.may_share() && self.front.in_force.load().share_reads
    }

    /// The replica that answers a read; each client keeps to one for as long as it is there.
    fn replica(&self, spec: &Spec, home: Home, client: &Asking) -> Option<usize> {
        let wants = self.identity.is_some_and(|of| of.reads_replicas) && spec.may_read_replicas();
        if !wants || self.is_tracking() {
            return None;
        }
        let view = self.front.fabric.service().view();
        let readers = view.readers(home.server);
        let at = usize::try_from(client.id()).ok()?.checked_rem(readers.len())?;
        let replica = *readers.get(at)?;
        let answered = match self.wrote.get() {
            Wrote::Nothing => return Some(replica),
            Wrote::Something if client.standing().unanswered > 0 => return None,
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

#[cfg(test)]
mod tests {
    use super::ReadStanding;

    #[test]
    fn only_a_plain_read_by_itself_is_shared() {
        let plain =
            ReadStanding { is_shared: true, has_more: false, tracks: false, is_within: false };
        assert!(plain.may_share());
        for not in [
            ReadStanding { is_shared: false, ..plain },
            ReadStanding { has_more: true, ..plain },
            ReadStanding { tracks: true, ..plain },
            ReadStanding { is_within: true, ..plain },
        ] {
            assert!(!not.may_share(), "{not:?}");
        }
    }
}
