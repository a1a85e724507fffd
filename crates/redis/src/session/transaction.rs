//! `WATCH`, `MULTI` and `EXEC`, on a connection of the client's own.
//!
//! A transaction belongs to the server of its first key. Until one comes, what is queued waits
//! here; `MULTI` goes out with it.

use std::cell::Cell;
use std::rc::Rc;

use flow::service::{Affinity, Effect, Request, Route};
use wire::resp::{Command, put_array, put_command, put_simple};

use super::dispatch::{StepEffect, TransactionStanding};
use super::{Asking, ListedCommand, Session, Taken, join};
use crate::commands::{self, Positions, TransactionCommand};
use crate::front::Home;

/// What waits here for the first key of its transaction, in bytes.
const WAITING_BYTES_MAX: usize = 64 << 10;

const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

impl StepEffect {
    fn route(self) -> Route {
        Route::Own(if self == Self::Unknown { Affinity::Taint } else { Affinity::Step })
    }
}

/// How far a client's transaction is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    /// There is none, and nothing is watched.
    None,
    /// Keys are watched.
    Watching {
        /// On the connection to this place.
        place: usize,
        /// What has come of it.
        state: Rc<Cell<Watch>>,
    },
    /// `MULTI` was said.
    Begun {
        /// The place it is on, once that is known.
        place: Option<usize>,
        /// What was queued before.
        waiting: Vec<Vec<u8>>,
        /// A command was refused here, so that it may not be run.
        has_failed: bool,
        /// It may change something.
        writes: bool,
    },
}

/// Whether keys are watched: a server may refuse that, since the user may not read them, or they
/// are with another node of the Cluster by now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Watch {
    /// How many `WATCH` are not answered yet.
    awaited: usize,
    /// One was granted.
    holds: bool,
}

impl Watch {
    fn asked(self) -> Self {
        Self { awaited: self.awaited + 1, ..self }
    }

    fn answered(self, answer: &[u8]) -> Self {
        let holds = self.holds || answer.first() != Some(&b'-');
        Self { awaited: self.awaited.saturating_sub(1), holds }
    }

    /// Whether nothing is watched, for certain.
    fn is_refused(self) -> bool {
        self.awaited == 0 && !self.holds
    }
}

/// Hears the answer to one `WATCH`. Where it is dropped and has heard none, its client was told
/// that there is none.
struct Granting {
    state: Rc<Cell<Watch>>,
    has_heard: Cell<bool>,
}

impl Granting {
    fn asks(state: Rc<Cell<Watch>>) -> Self {
        state.set(state.get().asked());
        Self { state, has_heard: Cell::new(false) }
    }

    fn hear(&self, answer: &[u8]) {
        self.has_heard.set(true);
        self.state.set(self.state.get().answered(answer));
    }
}

impl Drop for Granting {
    fn drop(&mut self) {
        if !self.has_heard.get() {
            self.hear(b"-");
        }
    }
}

impl Transaction {
    pub(super) fn standing(&self) -> TransactionStanding {
        match self {
            Self::None => TransactionStanding::None,
            Self::Watching { place, .. } => TransactionStanding::Watching { place: *place },
            Self::Begun { .. } => TransactionStanding::Begun,
        }
    }

    /// A command was refused.
    pub(super) fn fails(&mut self) {
        if let Self::Begun { has_failed, .. } = self {
            *has_failed = true;
        }
    }

    /// Its connection has ended. What needs it hears so, until the client ends the transaction.
    pub(super) fn lost(&mut self) {
        self.fails();
    }
}

impl Session {
    /// What begins a transaction, ends it, or says which keys it depends on.
    pub(super) fn steps(
        &mut self,
        what: TransactionCommand,
        of: &ListedCommand<'_>,
        client: &Asking,
    ) -> Taken {
        match what {
            TransactionCommand::Multi => self.begin(client),
            TransactionCommand::Exec => self.execute(client),
            TransactionCommand::Discard => self.discard(client),
            TransactionCommand::Watch => return self.watch(of, client),
            TransactionCommand::Unwatch => self.unwatch(client),
        }
        Ok(())
    }

    fn begin(&mut self, client: &Asking) {
        let place = match &self.transaction {
            Transaction::Watching { place, .. } => Some(*place),
            Transaction::Begun { .. } => return,
            Transaction::None => None,
        };
        match place {
            Some(place) => self.ask_own(place, &[b"MULTI"], Effect::Harmless, client),
            None => self.say_ok(client),
        }
        let (waiting, has_failed, writes) = (Vec::new(), false, false);
        self.transaction = Transaction::Begun { place, waiting, has_failed, writes };
    }

    /// Queues a command that may be a step of a transaction.
    pub(super) fn queue_step(
        &mut self,
        step: StepEffect,
        command: Command<'_>,
        positions: &Positions,
        client: &Asking,
    ) -> Taken {
        let home = self.home_of(&command, positions)?;
        let home = home.or_else(|| self.front.only().map(Home::at));
        if let Some(home) = home {
            self.writes(home.server);
        }
        let wanted = home.map(|home| (self.at(home.server), home));
        let Transaction::Begun { place, waiting, writes, .. } = &mut self.transaction else {
            return Ok(());
        };
        let changes = step != StepEffect::Reads;
        *writes |= changes;
        let (route, effect, of_all) =
            (step.route(), Effect::of_step(changes), Effect::of_step(*writes));
        match (*place, wanted) {
            (Some(place), wanted) if wanted.is_none_or(|(wanted, _)| wanted == place) => {
                let request = match home {
                    Some(home) => self.request(home, command.bytes()),
                    None => self.request_at(place, command.bytes()),
                };
                client.ask(Request { route, effect, ..request });
                self.front.metrics.leased.inc();
            }
            (Some(_), _) => {
                return Err(
                    "CROSSSLOT weir: the keys of a transaction are on several servers".to_owned()
                );
            }
            (None, Some((wanted, home))) => {
                *place = Some(wanted);
                let mut all = std::mem::take(waiting);
                all.push(command.bytes().to_vec());
                client.take(wanted);
                let like = Request { effect: of_all, route, ..self.request(home, Vec::new()) };
                self.ask_from_multi(&like, all, client);
            }
            (None, None) => {
                let waits: usize = waiting.iter().map(Vec::len).sum();
                if waits + command.bytes().len() > WAITING_BYTES_MAX {
                    return Err("ERR weir: too much is queued before the first key".to_owned());
                }
                waiting.push(command.bytes().to_vec());
                let mut out = Vec::new();
                put_simple(&mut out, b"QUEUED");
                self.say(&out, client);
            }
        }
        Ok(())
    }

    /// Sends `MULTI` and what was queued, as this request; the answer is that to the last.
    fn ask_from_multi(&self, like: &Request, queued: Vec<Vec<u8>>, client: &Asking) {
        let own = |bytes: Vec<u8>| Request { bytes: bytes.into(), ..like.clone() };
        let mut multi = Vec::new();
        put_command(&mut multi, [b"MULTI"].iter());
        let mut parts: Vec<_> = std::iter::once(multi).chain(queued).map(own).collect();
        if let (Some(first), Some(number)) = (parts.first_mut(), number_of(b"MULTI")) {
            first.tag = number;
        }
        let last = |parts: &[Vec<u8>]| {
            // Without MULTI the others would have been run one by one.
            let begun = parts.first().filter(|first| first.first() == Some(&b'-'));
            begun.or_else(|| parts.last()).cloned().unwrap_or_default()
        };
        client.ask_parts(parts, Rc::new(last));
        self.front.metrics.leased.inc();
    }

    fn execute(&mut self, client: &Asking) {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Begun { place: Some(place), has_failed, writes, .. } => {
                if has_failed {
                    self.ask_own_for(place, &[b"DISCARD"], join::error(ABORTED), client);
                } else {
                    self.ask_own(place, &[b"EXEC"], Effect::of_step(writes), client);
                }
                self.release(place, client);
            }
            Transaction::Begun { has_failed: true, .. } => self.refuse(ABORTED, client),
            Transaction::Begun { waiting, .. } if waiting.is_empty() => {
                let mut out = Vec::new();
                put_array(&mut out, 0);
                self.say(&out, client);
            }
            Transaction::Begun { mut waiting, writes, .. } => {
                let home = Home::at(self.front.any_server());
                let mut exec = Vec::new();
                put_command(&mut exec, [b"EXEC"].iter());
                waiting.push(exec);
                let place = self.at(home.server);
                client.take(place);
                let (effect, route) = (Effect::of_step(writes), StepEffect::Reads.route());
                let like = Request { effect, route, ..self.request(home, Vec::new()) };
                self.ask_from_multi(&like, waiting, client);
                self.release(place, client);
            }
            before => self.transaction = before,
        }
    }

    /// An `EXEC` that is none ends the transaction, as a server has it.
    pub(super) fn abort(&mut self, what: &str, client: &Asking) {
        self.leave_transaction(client);
        self.refuse(&format!("EXECABORT Transaction discarded because of: {what}"), client);
    }

    fn discard(&mut self, client: &Asking) {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Begun { place: Some(place), .. } => {
                self.ask_own(place, &[b"DISCARD"], Effect::Harmless, client);
                self.release(place, client);
            }
            Transaction::Begun { .. } => self.say_ok(client),
            before => self.transaction = before,
        }
    }

    fn watch(&mut self, of: &ListedCommand<'_>, client: &Asking) -> Taken {
        let home = self.only_home(of)?;
        let request = self.request(home, of.command.bytes());
        let place = request.server;
        let state = match &self.transaction {
            Transaction::Watching { place: watched, .. } if *watched != place => {
                return Err("CROSSSLOT weir: a key of another server is watched".to_owned());
            }
            Transaction::Watching { state, .. } => Rc::clone(state),
            _ => {
                let state: Rc<Cell<Watch>> = Rc::default();
                self.transaction = Transaction::Watching { place, state: Rc::clone(&state) };
                client.take(place);
                state
            }
        };
        let granting = Granting::asks(state);
        let joined = move |answers: &[Vec<u8>]| {
            let answer = answers.first().cloned().unwrap_or_default();
            granting.hear(&answer);
            answer
        };
        let route = StepEffect::Reads.route();
        let request = Request { route, effect: Effect::Harmless, ..request };
        client.ask_parts(vec![request], Rc::new(joined));
        self.front.metrics.leased.inc();
        Ok(())
    }

    /// Where servers have refused all that was to be watched, nothing is.
    #[inline]
    pub(super) fn look_at_watch(&mut self, client: &Asking) {
        if let Transaction::Watching { state, .. } = &self.transaction
            && state.get().is_refused()
        {
            self.leave_transaction(client);
        }
    }

    fn unwatch(&mut self, client: &Asking) {
        match self.transaction.standing() {
            TransactionStanding::Watching { place } => {
                self.transaction = Transaction::None;
                self.ask_own(place, &[b"UNWATCH"], Effect::Harmless, client);
                self.release(place, client);
            }
            TransactionStanding::None | TransactionStanding::Begun => self.say_ok(client),
        }
    }

    /// Ends a transaction without a word.
    pub(super) fn leave_transaction(&mut self, client: &Asking) {
        let (place, undo) = match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Watching { place, .. } => (place, "UNWATCH"),
            Transaction::Begun { place: Some(place), .. } => (place, "DISCARD"),
            Transaction::None | Transaction::Begun { place: None, .. } => return,
        };
        if self.tracking.is_some() {
            // The client keeps the connection.
            let undo = [undo.as_bytes()];
            self.unheard(client, |session| session.ask_own(place, &undo, Effect::Harmless, client));
        }
        // It is undone before anybody else has the connection.
        self.release(place, client);
    }

    /// Asks by the connection of the transaction.
    fn ask_own(&self, place: usize, words: &[&[u8]], effect: Effect, client: &Asking) {
        let mut bytes = Vec::new();
        put_command(&mut bytes, words.iter());
        client.ask(self.own(place, bytes, effect));
        self.front.metrics.leased.inc();
    }

    fn own(&self, place: usize, bytes: Vec<u8>, effect: Effect) -> Request {
        let request = self.request_at(place, bytes);
        Request { route: request.route.own(), effect, ..request }
    }

    /// As [`ask_own`](Self::ask_own), with these words in the place of the answer.
    fn ask_own_for(&self, place: usize, words: &[&[u8]], answer: Vec<u8>, client: &Asking) {
        let mut bytes = Vec::new();
        put_command(&mut bytes, words.iter());
        let request = self.own(place, bytes, Effect::Harmless);
        client.ask_parts(vec![request], Rc::new(move |_| answer.clone()));
        self.front.metrics.leased.inc();
    }
}

/// What a command is counted by.
fn number_of(name: &[u8]) -> Option<u32> {
    u32::try_from(commands::find_numbered(name)?.1).ok()
}

#[cfg(test)]
mod tests {
    use super::Watch;

    #[test]
    fn nothing_is_watched_only_once_each_was_refused() {
        let refused = |watch: Watch| watch.answered(b"-NOPERM\r\n");
        let one = Watch::default().asked();
        assert!(!one.is_refused() && refused(one).is_refused());
        let two = one.asked();
        assert!(!refused(two).is_refused(), "the other one may hold");
        assert!(refused(refused(two)).is_refused());
        assert!(!refused(two.answered(b"+OK\r\n")).is_refused());
        assert!(!refused(two).answered(b"+OK\r\n").is_refused());
    }
}
