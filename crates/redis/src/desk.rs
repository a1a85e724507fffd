//! What one worker keeps for operators: who its clients are, which keys are hot or big, and who
//! watches. What is slow is kept for all workers of a pool.
//!
//! Nothing here decides anything, and all of it is bounded: what does not fit is left out.

mod cards;
mod monitors;
mod samples;
mod slow;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::service::Took;
use watch::slow::SlowLimit;
use wire::resp::{Command, CommandFrame, Commands, Limits};

pub use cards::{Card, Library};
pub use monitors::{Monitors, Watcher};
pub use samples::{BigKey, HotKey, Samples, WINDOW};
pub use slow::{Slow, SlowLog, shown};

use crate::commands::{self, Keys};

/// What the workers of a pool share for operators.
#[derive(Debug, Default)]
pub struct PoolDesk {
    /// Commands that were slow.
    pub slow: SlowLog,
    /// Who watches all commands.
    pub monitors: Monitors,
}

/// What one worker keeps for operators.
#[derive(Debug, Default)]
pub struct Desk {
    /// What is shared with the other workers.
    pub shared: Arc<PoolDesk>,
    /// What takes longer is kept.
    pub slow_limit: SlowLimit,
    /// Keys that were sampled.
    pub samples: Samples,
    /// The clients of this worker, by their numbers in its fabric.
    cards: RefCell<HashMap<u64, Rc<Card>>>,
}

impl Desk {
    /// A worker's, of nothing yet.
    pub fn new(shared: Arc<PoolDesk>, slow: Duration) -> Self {
        let desk = Self { shared, ..Self::default() };
        desk.slow_limit.set(slow);
        desk
    }

    /// A client is there, by its number in the fabric.
    pub fn enters(&self, client: u64, card: Rc<Card>) {
        self.cards.borrow_mut().insert(client, card);
    }

    /// A client is gone.
    pub fn leaves(&self, client: u64) {
        self.cards.borrow_mut().remove(&client);
    }

    /// A client, by its number in the fabric.
    pub fn card(&self, client: u64) -> Option<Rc<Card>> {
        self.cards.borrow().get(&client).cloned()
    }

    /// All clients, each with its number in the fabric.
    pub fn clients(&self) -> Vec<(u64, Rc<Card>)> {
        self.cards.borrow().iter().map(|(id, card)| (*id, Rc::clone(card))).collect()
    }

    /// A server has answered a command, of which so many bytes more went as they came.
    #[inline]
    pub fn answered(&self, command: &[u8], rest: u64, took: &Took, server: impl Fn() -> String) {
        let bytes = took.bytes.max(command.len() as u64 + rest);
        if self.samples.is_big(bytes) {
            self.note_big(command, bytes, &server());
        }
        if took.queued.is_some() && self.slow_limit.is_slow(took.ran) {
            self.note_slow(command, took, &server());
        }
    }

    /// A server has begun an answer that will have so many bytes.
    pub fn announced(&self, command: &[u8], bytes: u64, server: impl Fn() -> String) {
        if self.samples.is_big(bytes) {
            self.note_big(command, bytes, &server());
        }
    }

    #[cold]
    fn note_big(&self, command: &[u8], bytes: u64, server: &str) {
        with_command(command, |command| {
            // An answer for several keys says nothing of each.
            let (name, keys) = keys_of(command);
            if let [key] = &*keys {
                self.samples.note_big(key, bytes, name, server, Instant::now());
            }
        });
    }

    #[cold]
    fn note_slow(&self, command: &[u8], took: &Took, server: &str) {
        let card = self.card(took.client);
        with_command(command, |command| {
            self.shared.slow.note(command, took.ran, server, card.as_deref());
        });
    }
}

/// Reads a command that was on its way to a server. Of one that went as it came only the beginning
/// is here: its last argument is not.
fn with_command(bytes: &[u8], then: impl FnOnce(&Command<'_>)) {
    let mut commands = Commands::default();
    let all = Limits { bulk: u64::MAX, args: usize::MAX, ..Limits::default() };
    match commands.cut(bytes, &all) {
        Ok(CommandFrame::Command(_)) => then(&commands.command(bytes)),
        Ok(CommandFrame::More) => {
            if let Some(coming) = commands.coming(bytes) {
                then(&coming.command);
            }
        }
        _ => {}
    }
}

/// A command's name in the list, and its keys.
fn keys_of<'a>(command: &Command<'a>) -> (&'static str, Vec<&'a [u8]>) {
    let Some(spec) = commands::find(command.name()) else { return ("other", Vec::new()) };
    let keys = spec
        .keys_of(command)
        .map(|positions| positions.iter().filter_map(|at| command.get(at)).collect::<Vec<&[u8]>>());
    // Of one whose last argument is not here the key is, where it comes first.
    let first = || command.get(1).filter(|_| spec.keys == Keys::At(1)).into_iter().collect();
    (spec.name, keys.unwrap_or_else(|_| first()))
}
