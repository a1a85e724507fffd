//! What is asked again, in its place: because its server says so, or its connection has ended.
//!
//! It goes before all that its client asks later, and behind all that it asked before. What was
//! sent behind it about the same, and has had an effect meanwhile, overtakes it: then it is given
//! up.

use std::rc::Rc;
use std::time::Instant;

use super::asking::{Detour, Pending};
use super::{Again, Client, Request, Route, Service, Unanswered};
use crate::answers::{AnswerPlace, Verdict};
use crate::lane::Fate;

/// So often a request is asked again by what a server answers; then that answer is the client's.
pub(super) const TURNS_MAX: u8 = 16;
/// So often a request is asked again that may have broken its connection: its answer may be one
/// that no connection survives, and each takes others' requests along.
const BREAKS_MAX: u8 = 1;

impl<S: Service> Client<S> {
    /// Whether a request may be asked in the place of another, by what its service says.
    pub(super) fn takes(&self, place: AnswerPlace, again: &Again) -> bool {
        let is_last = self.sent.get() <= place.request + 1;
        again.request.turns < TURNS_MAX
            && !again.request.route.is_step()
            && (is_last || !again.alone)
    }

    /// Asks a request in the place of another that had no effect at server `from`, before all that
    /// comes later, which waits until it is answered. What is to go by the client's own connection
    /// goes by the one that it has to the server where it belongs now, or else by another one in
    /// the place of that.
    pub(super) fn ask_instead(
        self: &Rc<Self>,
        place: AnswerPlace,
        again: Again,
        (from, is_leased): (usize, bool),
    ) {
        let turns = again.request.turns + 1;
        let effect = again.request.effect.alone();
        let request = Request { turns, effect, ..again.request };
        self.fence.set(self.line.borrow().requests().end);
        let not_before = (!again.after.is_zero()).then(|| Instant::now() + again.after);
        if let Some(at) = not_before {
            let client = Rc::downgrade(self);
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(at.into()).await;
                if let Some(client) = client.upgrade() {
                    client.wake();
                }
            });
        }
        let (server, asks_own) = (request.server, request.route != Route::Lane);
        let detour = Some(Detour { from, not_before, is_overtaken: false });
        self.detours.set(self.detours.get() + 1);
        let asked = Pending::Ask { place, request, detour };
        let has_one = self.is_holding_where(|of| of == server);
        if is_leased && asks_own && server != from && !has_one {
            let free = Pending::Free { place: None, server: from, words: Vec::new() };
            let hold = Pending::Hold { place: None, server, words: Vec::new() };
            self.ask_again(place, [free, hold, asked]);
        } else {
            self.ask_again(place, [asked]);
        }
    }

    /// A request may have had an effect: what was asked about the same before it, and is to be
    /// asked again, comes too late.
    pub(super) fn overtakes(&self, place: AnswerPlace, about: Option<u32>) {
        if self.detours.get() == 0 || about.is_none() {
            return;
        }
        for what in self.pending.borrow_mut().iter_mut() {
            if let Pending::Ask { place: earlier, request, detour: Some(detour) } = what {
                detour.is_overtaken |= *earlier < place && request.about() == about;
            }
        }
    }

    /// Takes note of where requests are placed now: where that has changed, what is asked from this
    /// place on waits for all before it.
    #[inline]
    pub(super) fn note_placement(&self, place: Option<AnswerPlace>) {
        let placement = self.fabric.service().placement();
        if self.placement.replace(placement) != placement {
            let next = || self.line.borrow().requests().end;
            self.fence.set(place.map_or_else(next, |place| place.request));
        }
    }

    /// Whether a request has to wait for the answers to those before it.
    pub(super) fn is_fenced(&self, what: &Pending) -> bool {
        if self.is_behind_joined(what.place()) {
            return true;
        }
        let Some(place) = what.place() else { return false };
        let head = self.line.borrow().requests().start;
        let fence = self.fence.get();
        let Pending::Ask { detour: Some(detour), .. } = what else {
            return head < fence && fence <= place.request;
        };
        head < place.request
            || self.is_busy_at(detour.from)
            || detour.not_before.is_some_and(|at| Instant::now() < at)
    }

    /// What became of a request of which the connection has ended, and what is to be told.
    pub(super) fn orphaned(
        self: &Rc<Self>,
        place: AnswerPlace,
        fate: Fate,
        asked: Option<Request>,
        (server, about): (usize, Option<u32>),
    ) {
        let may_again = |request: &Request| request.effect.repeats() && request.breaks < BREAKS_MAX;
        let repeats = asked.as_ref().is_some_and(may_again);
        if fate != Fate::Unsent && !repeats {
            self.overtakes(place, about);
        }
        let verdict = self.line.borrow_mut().orphaned(place, fate, repeats);
        match (verdict, asked) {
            (Verdict::Again, Some(request)) => {
                let breaks = request.breaks + u8::from(fate != Fate::Unsent);
                let request = Request { breaks, effect: request.effect.alone(), ..request };
                self.ask_again(place, [Pending::ask(place, request)]);
            }
            (Verdict::Again | Verdict::NotSent, _) => {
                self.give_up(place, &Unanswered::NotSent { server });
            }
            (Verdict::MayHaveRun, _) => self.give_up(place, &Unanswered::MayHaveRun { server }),
            (Verdict::Close, _) => self.close(),
            (Verdict::Late, _) => {}
        }
    }
}
