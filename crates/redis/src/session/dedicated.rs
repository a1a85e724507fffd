//! What a client has on connections of its own: keys that it watches, a transaction, keys that it
//! is told of, and what waits there for others. A machine without I/O: a step, an answer, a step
//! that was not sent, the end of a connection or `RESET` goes in, and what is to be done comes out,
//! in its order.
//!
//! A transaction belongs to the server of its first key. Until one comes, what is queued waits
//! here; `MULTI` goes out with it. What is given back is undone before anybody else has it. A
//! client that tracks keys by its connections keeps these, so there a command undoes it.

// Layers, from the top down:
//   tracking: keys that the client is told of
//   options: what is said with `CLIENT TRACKING`
//   action: what is to be done

mod action;
pub(super) mod options;
#[cfg(test)]
mod tests;
mod tracking;

use super::dispatch::{StepEffect, TransactionStanding};
pub(super) use action::{Action, Bond, Closing, OwnQuestion, OwnRequest, Reply, RequestWords};
use options::{Mode, TrackingRequest};
use tracking::{Tracking, TrackingAnswer};

/// What waits here for the first key of its transaction, in bytes.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// What a client hears whose `CLIENT CACHING` would mean nothing.
const NOT_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking \
                            mode with OPTIN or OPTOUT mode enabled";

const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

/// A step of a transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransactionStep<'a> {
    /// Where its keys are; `None`: it has none, and may be anywhere.
    pub(super) place: Option<usize>,
    pub(super) effect: StepEffect,
    /// All of the command.
    pub(super) bytes: &'a [u8],
}

/// What a client has on connections of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dedicated {
    transaction: Transaction,
    /// It is told of keys that others change; its connections for that are kept.
    tracking: Option<Tracking>,
}

/// How far a client's transaction is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Transaction {
    /// There is none, and nothing is watched.
    #[default]
    None,
    /// Keys are watched on the connection to a place.
    Watching { place: usize, watch: Watch },
    /// `MULTI` was said; the place is known once a step has a key.
    Begun { place: Option<usize>, waiting: Vec<Vec<u8>>, fate: TransactionFate, writes: bool },
}

/// Whether a transaction may be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransactionFate {
    /// It may, as far as is known here.
    Open,
    /// A command was refused here, or its connection has ended.
    Failed,
    /// A step was not sent, and maybe not even `MULTI`: nothing more of it is sent.
    NotSent,
}

/// Whether keys are watched: a server may refuse that, since the user may not read them, or they
/// are with another node of the Cluster by now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Watch {
    /// The marks of each `WATCH` that is not answered yet.
    awaited: Vec<u64>,
    /// A server has granted one of them.
    holds: bool,
    /// The connection has ended.
    is_lost: bool,
}

impl Watch {
    /// One has come to its end. Whether nothing is watched, for certain.
    fn is_refused_by(&mut self, mark: u64, begins: Option<&[u8]>) -> bool {
        let Some(at) = self.awaited.iter().position(|of| *of == mark) else { return false };
        self.awaited.swap_remove(at);
        self.holds |= begins.is_some_and(|begins| begins.first() != Some(&b'-'));
        self.awaited.is_empty() && !self.holds
    }
}

impl Dedicated {
    /// How far its transaction is.
    pub(super) fn standing(&self) -> TransactionStanding {
        match &self.transaction {
            Transaction::None => TransactionStanding::None,
            Transaction::Watching { place, .. } => TransactionStanding::Watching { place: *place },
            Transaction::Begun { .. } => TransactionStanding::Begun,
        }
    }

    /// What it has said of keys that it is to be told of.
    pub(super) fn tracking(&self) -> Option<&Tracking> {
        self.tracking.as_ref()
    }

    /// Whether it tracks keys, by connections of its own to all servers.
    pub(super) fn tracks(&self) -> bool {
        self.tracking.is_some()
    }

    /// Whether it has a connection to a place, or is to have one.
    fn holds(&self, at: usize) -> bool {
        let is_of_transaction = match &self.transaction {
            Transaction::None => false,
            Transaction::Watching { place, watch } => *place == at && !watch.is_lost,
            Transaction::Begun { place, .. } => *place == Some(at),
        };
        is_of_transaction || self.keeps(at)
    }

    /// Whether the connection to a place is kept whatever ends there, since keys are tracked by it.
    fn keeps(&self, place: usize) -> bool {
        self.tracking.as_ref().is_some_and(|of| of.places().contains(&place))
    }

    /// `WATCH` of keys at a place.
    pub(super) fn watch(
        &mut self,
        at: usize,
        mark: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), &'static str> {
        match &mut self.transaction {
            Transaction::Watching { place, .. } if *place != at => {
                return Err("CROSSSLOT weir: a key of another server is watched");
            }
            Transaction::Watching { watch, .. } => watch.awaited.push(mark),
            Transaction::Begun { .. } => return Err("ERR WATCH inside MULTI is not allowed"),
            Transaction::None => {
                let watch = Watch { awaited: vec![mark], ..Watch::default() };
                self.transaction = Transaction::Watching { place: at, watch };
                out.push(Action::Take(at));
            }
        }
        let watch = OwnRequest::step(at, RequestWords::Command, StepEffect::Reads);
        out.push(Action::Ask(OwnRequest { mark: Some(mark), ..watch }));
        Ok(())
    }

    /// `UNWATCH` outside of a transaction.
    pub(super) fn unwatch(&mut self, out: &mut Vec<Action>) {
        match self.transaction {
            Transaction::Watching { place, .. } => {
                self.transaction = Transaction::None;
                out.push(ask(place, "UNWATCH", StepEffect::Reads));
                self.release(place, out);
            }
            Transaction::None | Transaction::Begun { .. } => out.push(Action::Say(Reply::Ok)),
        }
    }

    /// `MULTI`, which is not nested.
    pub(super) fn begin(&mut self, out: &mut Vec<Action>) {
        let place = match self.transaction {
            Transaction::Watching { place, .. } => Some(place),
            Transaction::None => None,
            Transaction::Begun { .. } => return,
        };
        out.push(match place {
            Some(place) => ask(place, "MULTI", StepEffect::Reads),
            None => Action::Say(Reply::Ok),
        });
        let (waiting, fate, writes) = (Vec::new(), TransactionFate::Open, false);
        self.transaction = Transaction::Begun { place, waiting, fate, writes };
    }

    /// A step of the transaction; nothing is done outside of one.
    pub(super) fn step(
        &mut self,
        step: TransactionStep<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), &'static str> {
        let Transaction::Begun { place, waiting, fate, writes } = &mut self.transaction else {
            return Ok(());
        };
        if *fate == TransactionFate::NotSent {
            return Err("ERR weir: not sent: nor was what came before it within MULTI");
        }
        let own = |place, words, effect| Action::Ask(OwnRequest::step(place, words, effect));
        match (*place, step.place) {
            (Some(place), wanted) if wanted.is_none_or(|wanted| wanted == place) => {
                *writes |= step.effect != StepEffect::Reads;
                out.push(own(place, RequestWords::Command, step.effect));
            }
            (Some(_), _) => {
                return Err("CROSSSLOT weir: the keys of a transaction are on several servers");
            }
            (None, Some(wanted)) => {
                *writes |= step.effect != StepEffect::Reads;
                let effect = match step.effect {
                    StepEffect::Reads if *writes => StepEffect::Writes,
                    effect => effect,
                };
                *place = Some(wanted);
                let mut all = std::mem::take(waiting);
                all.push(step.bytes.to_vec());
                out.push(Action::Take(wanted));
                out.push(own(wanted, RequestWords::FromMulti(all), effect));
            }
            (None, None) => {
                let waits: usize = waiting.iter().map(Vec::len).sum();
                if waits + step.bytes.len() > WAITING_BYTES_MAX {
                    return Err("ERR weir: too much is queued before the first key");
                }
                *writes |= step.effect != StepEffect::Reads;
                waiting.push(step.bytes.to_vec());
                out.push(Action::Say(Reply::Queued));
            }
        }
        Ok(())
    }

    /// `EXEC`; without a key it goes to `any` place.
    pub(super) fn execute(
        &mut self,
        any: impl FnOnce() -> usize,
        out: &mut Vec<Action>,
    ) -> Result<(), &'static str> {
        let Transaction::Begun { place, waiting, fate, writes } = &mut self.transaction else {
            return Err("ERR EXEC without MULTI");
        };
        if *fate != TransactionFate::Open {
            self.leave_transaction(out);
            return Err(ABORTED);
        }
        let effect = if *writes { StepEffect::Writes } else { StepEffect::Reads };
        let (place, mut queued) = (*place, std::mem::take(waiting));
        self.transaction = Transaction::None;
        match place {
            Some(place) => {
                out.push(ask(place, "EXEC", effect));
                self.release(place, out);
            }
            None if queued.is_empty() => out.push(Action::Say(Reply::NothingRun)),
            None => {
                let place = any();
                queued.push(b"*1\r\n$4\r\nEXEC\r\n".to_vec());
                let words = RequestWords::FromMulti(queued);
                let asked = OwnRequest::step(place, words, effect);
                out.extend([Action::Take(place), Action::Ask(asked)]);
                self.release(place, out);
            }
        }
        Ok(())
    }

    /// `DISCARD` of a transaction.
    pub(super) fn discard(&mut self, out: &mut Vec<Action>) {
        match self.transaction {
            Transaction::Begun { place: Some(place), fate, .. }
                if fate != TransactionFate::NotSent =>
            {
                self.transaction = Transaction::None;
                out.push(ask(place, "DISCARD", StepEffect::Reads));
                self.release(place, out);
            }
            _ => {
                self.leave_transaction(out);
                out.push(Action::Say(Reply::Ok));
            }
        }
    }

    /// Ends what is watched, and the transaction, without a word.
    pub(super) fn leave_transaction(&mut self, out: &mut Vec<Action>) {
        let (place, undo) = match std::mem::take(&mut self.transaction) {
            Transaction::Watching { place, .. } => (place, "UNWATCH"),
            Transaction::Begun { place: Some(place), .. } => (place, "DISCARD"),
            Transaction::None | Transaction::Begun { place: None, .. } => return,
        };
        if self.keeps(place) {
            let undo = OwnRequest::step(place, RequestWords::Name(undo), StepEffect::Reads);
            out.push(Action::Ask(OwnRequest { is_heard: false, ..undo }));
        }
        self.release(place, out);
    }

    /// `RESET`: all that servers have said of keys by then comes before what the client hears next,
    /// whatever becomes of that.
    pub(super) fn reset(&mut self, out: &mut Vec<Action>) {
        self.leave_transaction(out);
        if let Some(of) = self.tracking.take() {
            out.push(Action::AskAll(OwnQuestion { is_heard: false, ..of.ask_off() }));
            give_back(&of, out);
        }
    }

    /// `CLIENT TRACKING ON`, before servers at these places; in a Cluster keys move.
    pub(super) fn track(
        &mut self,
        wanted: &TrackingRequest,
        (places, is_cluster): (Vec<usize>, bool),
        mark: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), String> {
        let options = wanted.after(self.tracking.as_ref().map(Tracking::options))?;
        // Of a key that there is not no node says that it is with another one now.
        if is_cluster && options.mode != Mode::Broadcast {
            return Err(
                "ERR weir: before a Cluster, whose keys move, CLIENT TRACKING takes BCAST".into()
            );
        }
        let of = self.tracking.get_or_insert_with(|| {
            out.extend(places.iter().map(|place| Action::Take(*place)));
            Tracking::new(places)
        });
        out.push(Action::AskAll(of.ask_on(options, wanted.command(), mark)));
        Ok(())
    }

    /// `CLIENT TRACKING OFF`.
    pub(super) fn untrack(&mut self, out: &mut Vec<Action>) {
        match self.tracking.take() {
            None => out.push(Action::Say(Reply::Ok)),
            Some(of) => {
                out.push(Action::AskAll(of.ask_off()));
                give_back(&of, out);
            }
        }
    }

    /// `CLIENT CACHING`, with this word behind it.
    pub(super) fn cache(&mut self, word: &[u8], out: &mut Vec<Action>) -> Result<(), String> {
        self.tracking.as_mut().ok_or(NOT_TRACKING)?.cache(word)?;
        out.push(Action::Say(Reply::Ok));
        Ok(())
    }

    /// A command begins: `CLIENT CACHING` holds for the one that it is for, which may be a whole
    /// transaction.
    #[inline]
    pub(super) fn begin_command(&mut self, is_client: bool) {
        if let Some(of) = &mut self.tracking
            && !matches!(self.transaction, Transaction::Begun { .. })
        {
            of.begin_command(is_client);
        }
    }

    /// Whether `CLIENT CACHING` is for the command that is under way: that is asked once only, as
    /// it would not hold for what is asked in its place.
    #[inline]
    pub(super) fn caches(&self) -> bool {
        self.tracking.as_ref().is_some_and(Tracking::caches)
    }

    /// What is asked before what the command under way asks at a place.
    pub(super) fn tell_caching(&mut self, place: usize, mark: u64) -> Option<OwnRequest> {
        self.tracking.as_mut()?.tell_caching(place, mark)
    }

    /// The command at hand is for all servers that keys are tracked at.
    pub(super) fn ask_all(&self, out: &mut Vec<Action>) {
        let question = |of: &Tracking| Action::AskAll(of.question(RequestWords::Command));
        out.extend(self.tracking.as_ref().map(question));
    }

    /// The command at hand waits for what others do, at a place.
    pub(super) fn wait(&self, at: usize, out: &mut Vec<Action>) {
        let is_amid =
            |of: &Transaction| matches!(of, Transaction::Watching { place, .. } if *place == at);
        let bond = if is_amid(&self.transaction) { Bond::WaitsAmidWatch } else { Bond::Waits };
        self.ask_at_hand(OwnRequest::at_hand(at, bond), out);
    }

    /// The command at hand would keep others waiting at a place, for as long as its value comes or
    /// its answer goes.
    pub(super) fn ask_alone(&self, at: usize, out: &mut Vec<Action>) {
        self.ask_at_hand(OwnRequest::at_hand(at, Bond::None), out);
    }

    /// Asks by the connection that the client has there, or else by one that it has for this alone.
    fn ask_at_hand(&self, of: OwnRequest, out: &mut Vec<Action>) {
        let (at, holds) = (of.place, self.holds(of.place));
        out.extend((!holds).then_some(Action::Take(at)));
        out.push(Action::Ask(of));
        out.extend((!holds).then_some(Action::Release(at)));
    }

    /// The client's connection to a place has ended.
    pub(super) fn lose_connection(&mut self, at: usize, out: &mut Vec<Action>) {
        match &mut self.transaction {
            Transaction::Watching { place, watch } => watch.is_lost |= *place == at,
            Transaction::Begun { .. } | Transaction::None => self.fail(),
        }
        if self.tracks() {
            out.push(Action::Close(Closing::TrackingLost));
        }
    }

    /// A command was refused.
    pub(super) fn fail(&mut self) {
        if let Transaction::Begun { fate: fate @ TransactionFate::Open, .. } = &mut self.transaction
        {
            *fate = TransactionFate::Failed;
        }
    }

    /// A step was not sent, nor will be.
    pub(super) fn lose_step(&mut self) {
        if let Transaction::Begun { place: Some(_), fate, .. } = &mut self.transaction {
            *fate = TransactionFate::NotSent;
        }
    }

    /// What was asked with a mark has come to its end, with an answer that begins so or with none:
    /// where servers have refused all that was to be watched, nothing is.
    pub(super) fn hear(&mut self, mark: u64, begins: Option<&[u8]>, out: &mut Vec<Action>) {
        if let Transaction::Watching { watch, .. } = &mut self.transaction
            && watch.is_refused_by(mark, begins)
        {
            self.leave_transaction(out);
        }
        let Some(of) = &mut self.tracking else { return };
        match of.hear(mark, begins) {
            TrackingAnswer::GoesOn => {}
            TrackingAnswer::Refused => {
                give_back(of, out);
                self.tracking = None;
            }
            TrackingAnswer::Torn => out.push(Action::Close(Closing::TrackingLost)),
            TrackingAnswer::CachingRefused(words) => {
                out.push(Action::Close(Closing::Refused(words)));
            }
        }
    }

    fn release(&self, place: usize, out: &mut Vec<Action>) {
        if !self.keeps(place) {
            out.push(Action::Release(place));
        }
    }
}

/// Gives back what keys were tracked by.
fn give_back(of: &Tracking, out: &mut Vec<Action>) {
    out.extend(of.places().iter().map(|place| Action::Release(*place)));
}

fn ask(place: usize, name: &'static str, effect: StepEffect) -> Action {
    Action::Ask(OwnRequest::step(place, RequestWords::Name(name), effect))
}
