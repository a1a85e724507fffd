//! Equal reads that wait together for a server connection.
//!
//! A read that finds no room on a lane, or is too slow for one, waits in a flight with those that
//! are equal to it. One connection is leased for all of them, and is a lane while it has their
//! requests: what is equal there is sent once.
//!
//! The one path: [`WorkerContext::fly`] waits for what `depart` gets; whoever comes after that
//! begins another flight.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::lane::{self, Limits, Why};
use flow::lanes::Opener;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use super::lanes::pool_key;
use super::opening::{LaneKind, LaneOpener};
use super::{LeaseError, Leased, WorkerContext, give_back};
use crate::client::Client;
use crate::lanes::{Group, Key, Lane, is_to_cancel};
use crate::pipeline::round::Round;

/// How long the few that are not equal after all wait behind a reply that its client takes slowly.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the pool says of why no connection came is heard before a read gives up waiting itself.
const GRACE: Duration = Duration::from_millis(10);

/// What reads are equal in that wait together: whose lanes they would ride, and their bytes.
#[derive(Clone)]
struct FlightKey {
    group: Key,
    round: Round,
}

impl PartialEq for FlightKey {
    fn eq(&self, other: &Self) -> bool {
        self.group == other.group && self.round.bytes() == other.round.bytes()
    }
}

impl Eq for FlightKey {}

impl Hash for FlightKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.group.hash(state);
        self.round.bytes().hash(state);
    }
}

/// Equal reads that wait for one connection.
#[derive(Default)]
struct Flight {
    waiting: Cell<usize>,
    /// The task that has a connection leased for them.
    task: OnceCell<AbortHandle>,
    outcome: RefCell<Option<Outcome>>,
    landed: Notify,
}

enum Outcome {
    /// Of one that waits alone, which takes it from here.
    Leased(Box<Leased>),
    /// Of those that have waited together.
    Lane(Rc<Lane>),
    Failed(LeaseError),
}

/// What a read has got that waited in a flight.
pub enum Flown {
    /// A connection for itself.
    Leased(Box<Leased>),
    /// A lane with those that it has waited with. It takes requests until the last seat is gone.
    Lane(Rc<Lane>, Seat),
}

/// The flights of one worker.
#[derive(Default)]
pub(super) struct Flights {
    waiting: RefCell<HashMap<FlightKey, Rc<Flight>>>,
    /// The lanes of those that have landed and are not answered yet.
    lanes: RefCell<Vec<(Rc<Group>, Rc<Lane>)>>,
}

/// A place in a flight.
pub struct Seat {
    front: Rc<WorkerContext>,
    key: FlightKey,
    flight: Rc<Flight>,
}

impl WorkerContext {
    /// Waits with equal reads for a server connection that these lanes could have.
    ///
    /// # Errors
    /// There was none until the deadline, or there can be none.
    pub async fn fly(
        self: &Rc<Self>,
        group: &Rc<Group>,
        round: &Round,
        deadline: Instant,
    ) -> Result<Flown, LeaseError> {
        let seat = self.board(group, round, deadline);
        let flight = seat.flight.clone();
        let until = tokio::time::Instant::from_std(deadline + GRACE);
        loop {
            let landed = flight.landed.notified();
            let outcome = flight.outcome.take();
            match outcome {
                None => {}
                Some(Outcome::Leased(leased)) => return Ok(Flown::Leased(leased)),
                Some(Outcome::Lane(lane)) => {
                    flight.outcome.replace(Some(Outcome::Lane(lane.clone())));
                    return Ok(Flown::Lane(lane, seat));
                }
                Some(Outcome::Failed(why)) => {
                    flight.outcome.replace(Some(Outcome::Failed(why.clone())));
                    return Err(why);
                }
            }
            tokio::select! {
                () = landed => {}
                () = tokio::time::sleep_until(until) => return Err(LeaseError::Waited),
            }
        }
    }

    /// Takes a seat among equal reads, or begins a flight.
    fn board(self: &Rc<Self>, group: &Rc<Group>, round: &Round, deadline: Instant) -> Seat {
        let key = FlightKey { group: group.key.clone(), round: round.clone() };
        let mut waiting = self.flights.waiting.borrow_mut();
        let flight = waiting.entry(key.clone()).or_default().clone();
        flight.task.get_or_init(|| {
            let departs = self.clone().depart(group.clone(), key.clone(), flight.clone(), deadline);
            spawn_local(departs).abort_handle()
        });
        flight.waiting.set(flight.waiting.get() + 1);
        Seat { front: self.clone(), key, flight }
    }

    /// Has a connection leased for a flight, and sees to its lane until all is answered.
    async fn depart(
        self: Rc<Self>,
        group: Rc<Group>,
        key: FlightKey,
        flight: Rc<Flight>,
        deadline: Instant,
    ) {
        let leased = loop {
            let leased = self.lease(pool_key(&group), &group.key.settings, deadline).await;
            // It may have been handed over from before the server changed.
            if leased.as_ref().is_ok_and(|lease| lease.epoch != group.backend.epoch()) {
                continue;
            }
            break leased;
        };
        self.flights.waiting.borrow_mut().remove(&key);
        match leased {
            Err(why) => flight.land(Outcome::Failed(why)),
            Ok(leased) if flight.waiting.get() < 2 => {
                flight.land(Outcome::Leased(Box::new(leased)));
            }
            Ok(leased) => self.carry(group, leased, flight).await,
        }
    }

    /// Makes a lane of a connection until the flight's requests are answered.
    async fn carry(self: Rc<Self>, group: Rc<Group>, leased: Leased, flight: Rc<Flight>) {
        let opener = LaneOpener::new(self.clone(), group.clone(), LaneKind::Flight);
        let opened = match opener.lane_of(leased).await {
            Ok(opened) => opened,
            Err(refusal) => return flight.land(Outcome::Failed(LeaseError::Failed(refusal))),
        };
        // As many as have waited, whatever they have to do with each other.
        let limits = Limits { patience: PATIENCE, depth: usize::MAX, ..opened.limits };
        let (connection, protocol) = (opened.connection, opened.protocol);
        let (handle, driver) =
            lane::start(connection, protocol, limits, opened.scratch, opened.owner);
        let lane = Rc::new(Lane { handle, known: opened.known, opened: Instant::now() });
        opener.opened(&lane);
        self.flights.lanes.borrow_mut().push((group, lane.clone()));
        flight.land(Outcome::Lane(lane.clone()));
        drop(flight);
        let ended = driver.await;
        self.flights.lanes.borrow_mut().retain(|(_, of)| !Rc::ptr_eq(of, &lane));
        opener.note_end(&ended.why);
        if let (Why::Drained, Some(leased)) = (&ended.why, ended.io.into_leased()) {
            give_back(leased);
        }
        ended.orphans.into_iter().for_each(|orphan| opener.orphaned(orphan));
    }
}

impl Flights {
    /// As [`Group::lane_to_cancel`], of the lanes of flights.
    pub(super) fn lane_to_cancel(&self, client: &Rc<Client>) -> Option<Rc<Lane>> {
        let lanes = self.lanes.borrow();
        lanes.iter().map(|(_, lane)| lane).find(|lane| is_to_cancel(lane, client)).cloned()
    }

    /// Ends the lanes of which no answer is to be expected.
    pub(super) fn close_lost(&self, now: Instant, hung: Duration) {
        let lanes = self.lanes.borrow();
        let lost = lanes.iter().filter(|(group, lane)| group.is_lost(lane, now, hung));
        lost.for_each(|(_, lane)| lane.handle.close());
    }
}

impl Flight {
    fn land(&self, outcome: Outcome) {
        self.outcome.replace(Some(outcome));
        self.landed.notify_waiters();
    }
}

impl Drop for Flight {
    /// All who wanted it have put their requests on the lane, or have left.
    fn drop(&mut self) {
        match self.outcome.take() {
            Some(Outcome::Leased(leased)) => give_back(*leased),
            Some(Outcome::Lane(lane)) => lane.handle.quarantine(),
            Some(Outcome::Failed(_)) | None => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let waiting = self.flight.waiting.get() - 1;
        self.flight.waiting.set(waiting);
        if waiting > 0 {
            return;
        }
        // Nobody waits for the connection any more, if it has not come.
        let mut flights = self.front.flights.waiting.borrow_mut();
        if flights.get(&self.key).is_some_and(|of| Rc::ptr_eq(of, &self.flight)) {
            flights.remove(&self.key);
            self.flight.task.get().inspect(|task| task.abort());
        }
    }
}
