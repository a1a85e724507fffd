//! What a client has on connections of its own: keys that it watches, a transaction, and what waits
//! there for others. A machine without I/O: a step, an answer, a step that was not sent, the end of
//! a connection or `RESET` goes in, and what is to be done comes out, in its order.
//!
//! A transaction belongs to the server of its first key. Until one comes, what is queued waits
//! here; `MULTI` goes out with it. What is given back is undone before anybody else has it. A
//! client that tracks keys by its connections keeps these, so there a command undoes it.

pub(super) mod options;
#[cfg(test)]
mod tests;

use super::dispatch::{StepEffect, TransactionStanding};

/// What waits here for the first key of its transaction, in bytes.
const WAITING_BYTES_MAX: usize = 64 << 10;

const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The client takes a connection to this place for itself.
    Take(usize),
    /// The client gives the connection to this place back.
    Release(usize),
    /// Something is asked by the client's own connection.
    Ask(OwnRequest),
    /// The client hears this.
    Say(Reply),
}

/// What is asked by a client's own connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnRequest {
    /// The number of the place.
    pub(super) place: usize,
    pub(super) words: RequestWords,
    /// What it does at its server, and to its connection.
    pub(super) effect: StepEffect,
    /// By which the machine is told what becomes of it, if it is to be.
    pub(super) mark: Option<u64>,
    /// The client hears the answer.
    pub(super) is_heard: bool,
}

/// The words of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestWords {
    /// The command at hand, as it came.
    Command,
    /// The name of a command alone.
    Name(&'static str),
    /// `MULTI` and these commands behind it, in one piece; the answer is that to the last.
    FromMulti(Vec<Vec<u8>>),
}

/// What a client hears of its own gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Ok,
    Queued,
    /// The answer to an `EXEC` of nothing.
    NothingRun,
}

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
    /// The client tracks keys by its connections, and keeps these.
    keeps: bool,
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
    /// One was granted.
    holds: bool,
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

    /// Says whether the client tracks keys by its connections, and keeps these.
    pub(super) fn set_keeps(&mut self, keeps: bool) {
        self.keeps = keeps;
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
                let watch = Watch { awaited: vec![mark], holds: false };
                self.transaction = Transaction::Watching { place: at, watch };
                out.push(Action::Take(at));
            }
        }
        let (words, effect) = (RequestWords::Command, StepEffect::Reads);
        let ask = OwnRequest { place: at, words, effect, mark: Some(mark), is_heard: true };
        out.push(Action::Ask(ask));
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
        let own = |place, words, effect| {
            Action::Ask(OwnRequest { place, words, effect, mark: None, is_heard: true })
        };
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
            self.leave(out);
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
                let asked = OwnRequest { place, words, effect, mark: None, is_heard: true };
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
                self.leave(out);
                out.push(Action::Say(Reply::Ok));
            }
        }
    }

    /// Ends what is watched, and the transaction, without a word, as `RESET` does.
    pub(super) fn leave(&mut self, out: &mut Vec<Action>) {
        let (place, undo) = match std::mem::take(&mut self.transaction) {
            Transaction::Watching { place, .. } => (place, "UNWATCH"),
            Transaction::Begun { place: Some(place), .. } => (place, "DISCARD"),
            Transaction::None | Transaction::Begun { place: None, .. } => return,
        };
        if self.keeps {
            let (words, effect) = (RequestWords::Name(undo), StepEffect::Reads);
            out.push(Action::Ask(OwnRequest { place, words, effect, mark: None, is_heard: false }));
        }
        self.release(place, out);
    }

    /// What waits for others at a place, on a connection that is taken for that alone; `is_amid`:
    /// it is where keys are watched. Between the two comes what is asked.
    pub(super) fn wait(&self, at: usize, is_amid: bool) -> [Option<Action>; 2] {
        let takes = (!is_amid).then_some(Action::Take(at));
        let releases = (!is_amid && !self.keeps).then_some(Action::Release(at));
        [takes, releases]
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
            self.leave(out);
        }
    }

    fn release(&self, place: usize, out: &mut Vec<Action>) {
        if !self.keeps {
            out.push(Action::Release(place));
        }
    }
}

fn ask(place: usize, name: &'static str, effect: StepEffect) -> Action {
    let words = RequestWords::Name(name);
    Action::Ask(OwnRequest { place, words, effect, mark: None, is_heard: true })
}
