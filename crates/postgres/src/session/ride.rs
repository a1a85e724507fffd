//! A round on a lane.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Instant;

use flow::lane::{Full, Placement};
use wire::postgres::frontend::tag;
use wire::postgres::{Refusal, sqlstate};

use super::lease::{cancelled, serves};
use super::way::RoundPath;
use super::{End, Session};
use crate::client::{Again, CalledOff, Repeat};
use crate::lanes::{Editing, Group, Lane, Needs, Picked, ReplyProgress, Ticket};
use crate::pipeline::compose::{Composer, Holds, StatementUse};
use crate::pipeline::names::{Names, name_in};
use crate::pipeline::round::{Round, messages};
use crate::pipeline::script::{ResponseAction, Script};
use crate::plan::Plan;
use crate::worker::Draft;

impl Session {
    /// Puts a round of proven reads on a lane; where none takes it, it goes by lease, or comes back
    /// where something in front of it is to be asked again first.
    pub(super) async fn ride(
        &mut self,
        mut round: Round,
        plan: Rc<Plan>,
        may_share: bool,
    ) -> Result<Option<Round>, End> {
        if self.client.in_flight() > 0 {
            // Answers come in the order of the questions only from the lane that has those before.
            // Behind one that has joined another nothing goes out: should it be asked again, it
            // would be asked behind that.
            let is_behind = |lane: &Rc<Lane>| !self.has_joined && lane.handle.has_room();
            let lane = self.riding.clone().filter(is_behind);
            if lane.is_some_and(|lane| self.put(&lane, &round, plan, may_share)) {
                return Ok(None);
            }
            // Those that are to be asked again come first.
            self.settled().await;
            return Ok(Some(round));
        }
        // Within a transaction no statement sees less than the one before it.
        let within = self.begun.is_some();
        let on_primary = within || round.attempts > 0 || std::mem::take(&mut self.only_primary);
        let lane = match self.group(on_primary) {
            Some(group) => self.lane(&group, round.came).await,
            None => Ok(None),
        };
        let lane = match lane {
            Ok(lane) => lane,
            Err(why) => return self.called_off(&round, why).map(|()| None),
        };
        if let Some(lane) = lane
            && self.put(&lane, &round, plan.clone(), may_share)
        {
            self.riding = Some(lane);
            return Ok(None);
        }
        round.came = Instant::now();
        if may_share && !on_primary && self.may_fly(&plan) {
            return Box::pin(self.fly(round, plan)).await;
        }
        Box::pin(self.lease(round, !on_primary)).await
    }

    /// Asks again what got no answer: one after the other, each on a lane where its statement is
    /// only to be prepared anew, else on the primary. What the client sent after them waits.
    pub(super) async fn ask_again(&mut self) -> Result<(), End> {
        let repeats = self.client.repeats();
        self.front.shared.metrics.repeated.add(repeats.len() as u64);
        self.ahead.ask_again(repeats.into_iter());
        // In a transaction each is asked of a server: what fails there fails it.
        let within = self.begun.is_some();
        while let Some(Repeat { mut round, again }) = self.ahead.next_repeat() {
            round.came = Instant::now();
            let back = match again {
                Again::Cancelled => {
                    self.refuse(&cancelled());
                    None
                }
                Again::Lost if !within => {
                    let what = "the server connection broke while the statement was running";
                    self.refuse(&Refusal::error(sqlstate::CONNECTION_FAILURE, what));
                    None
                }
                Again::Same | Again::Alone if !within => self.ask_there(round).await?,
                _ => Box::pin(self.lease(round, false)).await?,
            };
            self.settled().await;
            // One that was withheld once more goes by lease, and those behind it after it.
            let withheld = self.client.repeats().into_iter().map(|repeat| repeat.round);
            let back = withheld.chain(back);
            self.ahead.ask_again(back.map(|round| Repeat { round, again: Again::Elsewhere }));
        }
        Ok(())
    }

    async fn ask_there(&mut self, mut round: Round) -> Result<Option<Round>, End> {
        match self.way(&mut round) {
            RoundPath::Ride(plan) => self.ride(round, plan, false).await,
            way => {
                let read = matches!(way, RoundPath::Fly(_));
                Box::pin(self.lease(round, read)).await
            }
        }
    }

    /// The lanes that a read may take now.
    pub(super) fn group(&mut self, on_primary: bool) -> Option<Rc<Group>> {
        let backend = self.reader(on_primary)?;
        let (front, database, user) = (&self.front, &self.database.name_there, &self.user);
        let find = |backend, applied: &_| front.group(backend, database, user, applied);
        Some(self.environment.group(backend, find))
    }

    async fn lane(&self, group: &Rc<Group>, now: Instant) -> Result<Option<Rc<Lane>>, CalledOff> {
        let deadline = self.options.patience.deadline(now);
        let mut waiting = None;
        loop {
            let open = || self.front.open_lane(group);
            match group.pick(now, self.front.norm.get(), open) {
                Picked::Lane(lane) => return Ok(Some(lane)),
                Picked::Busy | Picked::Failed(_) => return Ok(None),
                Picked::Opening => {
                    waiting.get_or_insert_with(|| self.client.waits(now));
                    // No client has room for that which does not wait.
                    if !Box::pin(self.lanes_change(group, deadline)).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Waits until the lanes of a group are not what they were; false where a lease is to find
    /// another server.
    async fn lanes_change(&self, group: &Group, deadline: Instant) -> Result<bool, CalledOff> {
        let called_off = poll_fn(|cx| self.client.poll_called_off(cx));
        let mut changes = self.front.backends.changes();
        let backend = &group.backend;
        let lost = async { while serves(backend, true) && changes.changed().await.is_ok() {} };
        tokio::select! {
            () = group.changed() => Ok(true),
            () = lost => Ok(false),
            why = called_off => Err(why),
            () = tokio::time::sleep_until(deadline.into()) => Ok(false),
        }
    }

    /// Puts a round on a lane; false where the lane does not take it. `may_share`: it may be asked
    /// together with equal ones.
    pub(super) fn put(
        &mut self,
        lane: &Rc<Lane>,
        round: &Round,
        plan: Rc<Plan>,
        may_share: bool,
    ) -> bool {
        // What is written must be sent: the server would not have what it is taken to have.
        if !lane.handle.has_room() || lane.known.strings != self.environment.scope.strings {
            return false;
        }
        let is_point = round.is_query() && self.lifts(&plan, round.text().unwrap_or_default());
        let within = self.begun.is_some();
        let joining = match may_share {
            // What it has not taken yet is no concern of those it would join.
            true if self.client.in_flight() == 0 && self.client.outlet.spilled() == 0 => {
                Joining::Joins
            }
            true => Joining::IsJoined,
            false => Joining::Never,
        };
        let ticket = |script, needs| Ticket {
            client: self.client.clone(),
            place: self.client.asks(),
            plan,
            round: round.clone(),
            script,
            loaded: lane.known.load.one(),
            told: ReplyProgress::Nothing,
            needs,
            kept: Vec::new(),
            within,
        };
        let mut names = self.client.names();
        let placement = if round.is_query() && !is_point {
            names.query();
            let editing = within.then(|| Box::new(Editing::new(Script::of_query())));
            push(lane, ticket(editing, None), joining, round.bytes())
        } else {
            self.put_composed(lane, round, is_point, &mut names, joining, ticket)
        };
        drop(names);
        if let Some(placement) = placement {
            self.has_joined = placement == Placement::Joined;
            if let Some(begun) = &mut self.begun {
                begun.has_read = true;
            }
            self.client.seen().asked.set(Some(round.came));
            lane.known.record.asked(round.came);
            self.front.shared.metrics.ridden.inc();
            self.front.shared.metrics.points.add(is_point.into());
        }
        placement.is_some()
    }

    /// Whether a read may be asked together with equal ones of other clients: all of them see the
    /// same, at whatever moment it runs.
    pub(super) fn may_share_read(&self, plan: &Plan) -> bool {
        self.options.shares_reads && plan.steady
    }

    /// Whether a text is a point statement; what was lifted out of it is then in the draft.
    pub(super) fn lifts(&self, plan: &Plan, sql: &[u8]) -> bool {
        plan.is_point
            && self.options.prepares_points
            && !self.pinned
            && !self.environment.scope.unsure_encoding
            // Whoever is asked for but once is not worth it.
            && plan.run_time().is_some()
            && self.front.draft.borrow_mut().lifted.lift(sql, self.environment.scope.strings)
    }

    fn put_composed(
        &self,
        lane: &Lane,
        round: &Round,
        is_point: bool,
        names: &mut Names,
        joining: Joining,
        ticket: impl FnOnce(Option<Box<Editing>>, Option<Needs>) -> Ticket,
    ) -> Option<Placement> {
        let mut draft = self.front.draft.borrow_mut();
        let Draft { out, script, fresh, lifted } = &mut *draft;
        out.clear();
        script.clear();
        fresh.clear();
        let mark = names.mark();
        let mut composer = Composer {
            names,
            statements: &self.front.statements,
            prepared: &mut lane.known.prepared.borrow_mut(),
            fresh,
            changes: self.database.changes(),
            has_failed: false,
            may_have_failed: false,
            found: StatementUse::default(),
        };
        if !is_point
            && !composer.names.are_since(composer.changes)
            && round.messages().filter_map(name_in).any(|name| composer.holds(name) != Holds::Yes)
        {
            // It waits for what a server says.
            return None;
        }
        let composed = if is_point {
            composer.point(lifted, true, ResponseAction::Pass, out, script);
            composer.sync(out, script);
            Ok(())
        } else {
            composer.extended(round.bytes(), out, script)
        };
        let StatementUse { needed, parsed, is_refused, .. } = composer.found;
        self.database.count_found(&composer.found);
        let needs = needed.filter(|_| !is_refused).map(|number| Needs { number, parsed });
        let edits = self.begun.is_some() || !script.is_plain();
        let editing = edits.then(|| Box::new(Editing::new(script.take())));
        let joining = if only_runs(out) { joining } else { Joining::Never };
        let placed = composed.ok().and_then(|()| push(lane, ticket(editing, needs), joining, out));
        if placed.is_none() {
            names.undo_since(mark);
        }
        placed
    }
}

/// What a request on a lane may have to do with equal ones that wait there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joining {
    /// It has nothing to do with them.
    Never,
    /// They may join it.
    IsJoined,
    /// The same, and it joins one of them.
    Joins,
}

/// Whether messages to a server do no more than run what is prepared there: what one of them
/// prepares or closes is kept in mind once for each that was sent.
fn only_runs(messages_out: &[u8]) -> bool {
    messages(messages_out)
        .all(|of| matches!(of.tag, tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::SYNC))
}

/// Puts a request on a lane; `None` where the lane does not take it.
fn push(lane: &Lane, ticket: Ticket, joining: Joining, request: &[u8]) -> Option<Placement> {
    let asked = ticket.round.came;
    let placed = match joining {
        Joining::Never => lane
            .handle
            .push(ticket, 1, asked, |out| out.extend_from_slice(request))
            .map(|()| Placement::Pushed),
        Joining::IsJoined => lane.handle.push_or_join(ticket, false, asked, request),
        Joining::Joins => lane.handle.push_or_join(ticket, true, asked, request),
    };
    placed.map_err(|Full(ticket)| ticket.client.asks_not(ticket.place)).ok()
}
