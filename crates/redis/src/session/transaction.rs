//! `WATCH`, `MULTI` and `EXEC`, on a connection of the client's own.
//!
//! A transaction belongs to the server of its first key. Until one comes, what is queued waits
//! here; `MULTI` goes out with it.

use std::rc::Rc;

use flow::answers::NotedAnswer;
use flow::service::{Affinity, Effect, Request, Route};
use wire::resp::{Command, put_array, put_command, put_simple};

use super::dispatch::{StepEffect, TransactionStanding};
use super::{Asking, ListedCommand, Session, Taken};
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
        watch: Watch,
    },
    /// `MULTI` was said.
    Begun {
        /// The place it is on, once that is known.
        place: Option<usize>,
        /// What was queued before.
        waiting: Vec<Vec<u8>>,
        /// Whether it may be run.
        fate: TransactionFate,
        /// It may change something.
        writes: bool,
    },
}

/// Whether a transaction may be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionFate {
    /// It may, as far as is known here.
    Open,
    /// A command was refused here, so that it may not.
    Failed,
    /// A step was not sent, and maybe not even `MULTI`: nothing more of it is sent.
    NotSent,
}

/// Whether keys are watched: a server may refuse that, since the user may not read them, or they
/// are with another node of the Cluster by now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Watch {
    /// The marks of each `WATCH` that is not answered yet.
    awaited: Vec<u64>,
    /// One was granted.
    holds: bool,
}

impl Watch {
    /// One has come to its end. Whether nothing is watched, for certain.
    fn is_refused_by(&mut self, answer: &NotedAnswer) -> bool {
        let Some(at) = self.awaited.iter().position(|of| *of == answer.mark) else {
            return false;
        };
        self.awaited.swap_remove(at);
        let is_granted = |begins: &Vec<u8>| begins.first() != Some(&b'-');
        self.holds |= answer.begins.as_ref().is_some_and(is_granted);
        self.awaited.is_empty() && !self.holds
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

    /// A command was refused, or its connection has ended: what needs that hears so, until the
    /// client ends the transaction.
    pub(super) fn fails(&mut self) {
        if let Self::Begun { fate: fate @ TransactionFate::Open, .. } = self {
            *fate = TransactionFate::Failed;
        }
    }

    /// A step was not sent.
    pub(super) fn loses_step(&mut self) {
        if let Self::Begun { fate, .. } = self {
            *fate = TransactionFate::NotSent;
        }
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
        let (waiting, fate, writes) = (Vec::new(), TransactionFate::Open, false);
        self.transaction = Transaction::Begun { place, waiting, fate, writes };
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
        let Transaction::Begun { place, waiting, writes, fate } = &mut self.transaction else {
            return Ok(());
        };
        if *fate == TransactionFate::NotSent {
            return Err("ERR weir: not sent: nor was what came before it within MULTI".to_owned());
        }
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
        let may_run = |fate: TransactionFate| fate == TransactionFate::Open;
        if matches!(self.transaction, Transaction::Begun { fate, .. } if !may_run(fate)) {
            self.leave_transaction(client);
            return self.refuse(ABORTED, client);
        }
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Begun { place: Some(place), writes, .. } => {
                self.ask_own(place, &[b"EXEC"], Effect::of_step(writes), client);
                self.release(place, client);
            }
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
        match &self.transaction {
            Transaction::Watching { place: watched, .. } if *watched != place => {
                return Err("CROSSSLOT weir: a key of another server is watched".to_owned());
            }
            Transaction::Watching { .. } => {}
            Transaction::None | Transaction::Begun { .. } => {
                self.transaction = Transaction::Watching { place, watch: Watch::default() };
                client.take(place);
            }
        }
        let route = StepEffect::Reads.route();
        let mark = self.mark();
        client.ask_noted(Request { route, effect: Effect::Harmless, ..request }, mark);
        if let Transaction::Watching { watch, .. } = &mut self.transaction {
            watch.awaited.push(mark);
        }
        self.front.metrics.leased.inc();
        Ok(())
    }

    /// Where servers have refused all that was to be watched, nothing is.
    pub(super) fn hears_of_watch(&mut self, answer: &NotedAnswer, client: &Asking) {
        if let Transaction::Watching { watch, .. } = &mut self.transaction
            && watch.is_refused_by(answer)
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
        Request { route: StepEffect::Reads.route(), effect, ..self.request_at(place, bytes) }
    }
}

/// What a command is counted by.
fn number_of(name: &[u8]) -> Option<u32> {
    u32::try_from(commands::find_numbered(name)?.1).ok()
}

#[cfg(test)]
mod tests {
    use flow::answers::NotedAnswer;

    use super::Watch;

    #[test]
    fn nothing_is_watched_only_once_each_was_refused() {
        let said = |watch: &mut Watch, mark, words: Option<&[u8]>| {
            let begins = words.map(<[u8]>::to_vec);
            watch.is_refused_by(&NotedAnswer { mark, begins })
        };
        let asked = |awaited: &[u64]| Watch { awaited: awaited.to_vec(), holds: false };
        let refused: Option<&[u8]> = Some(b"-NOPERM\r\n");
        assert!(said(&mut asked(&[3]), 3, refused));
        assert!(said(&mut asked(&[3]), 3, None), "it never came");
        assert!(!said(&mut asked(&[3]), 2, refused), "it is another one's");
        let mut two = asked(&[3, 5]);
        assert!(!said(&mut two, 3, refused), "the other one may hold");
        assert!(said(&mut two, 5, None));
        let mut two = asked(&[3, 5]);
        assert!(!said(&mut two, 3, Some(b"+OK\r\n")) && !said(&mut two, 5, refused));
        let mut two = asked(&[3, 5]);
        assert!(!said(&mut two, 3, refused) && !said(&mut two, 5, Some(b"+OK\r\n")));
    }
}
