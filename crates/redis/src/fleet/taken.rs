//! What servers say of themselves: their release, and of the commands of Weir's list what they have
//! otherwise, which may only take away.
//!
//! A server is asked when it is connected to, by a connection of its own. Until it has answered the
//! list holds, and what it has said holds until it says otherwise.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Fleet, Release, View};
use crate::commands::{self, CommandDifference};
use crate::server::Server;

/// How long a server is let alone once it was asked, however often it is connected to.
const REST: Duration = Duration::from_secs(1);
/// Bytes of what a server says: its own commands take some 100 KiB, and modules have more.
const BYTES_MAX: usize = 16 << 20;
/// Names that the log has at once.
const NAMES_MAX: usize = 16;

/// What the servers of a pool have said.
#[derive(Debug, Default)]
pub(super) struct AllTaken {
    /// There is one that takes something away.
    is_any: AtomicBool,
    /// By the servers' numbers.
    said: Mutex<HashMap<usize, CommandAnswers>>,
}

#[derive(Debug)]
struct CommandAnswers {
    /// Of which of the servers that have had the number.
    incarnation: u64,
    /// When it was asked last.
    asked: Option<Instant>,
    /// It is asked again soon.
    is_to_be_asked: bool,
    /// By the commands' numbers.
    taken: HashMap<usize, CommandDifference>,
    release: Option<Release>,
}

impl CommandAnswers {
    /// A record of a server that has told nothing yet.
    fn of(incarnation: u64) -> Self {
        let (asked, is_to_be_asked, taken, release) = (None, false, HashMap::new(), None);
        Self { incarnation, asked, is_to_be_asked, taken, release }
    }
}

/// What those servers have said that are there now.
fn those_there<'a>(
    view: &'a View,
    said: &'a HashMap<usize, CommandAnswers>,
) -> impl Iterator<Item = (&'a usize, &'a CommandAnswers)> + Clone {
    said.iter().filter(|(number, said)| {
        view.is_there(**number) && view.incarnation(**number) == Some(said.incarnation)
    })
}

impl Fleet {
    /// Whether a command is as one that Weir does not know: because of any server where it is
    /// otherwise than the list has it, or because it is not there at one of `homes`.
    #[inline]
    pub fn is_taken(&self, command: usize, homes: impl FnOnce() -> Vec<usize>) -> bool {
        self.taken.is_any.load(Ordering::Relaxed) && self.is_taken_by_one(command, &homes())
    }

    #[cold]
    fn is_taken_by_one(&self, command: usize, homes: &[usize]) -> bool {
        let said = self.taken.said.lock();
        those_there(&self.view(), &said).any(|(number, said)| match said.taken.get(&command) {
            None => false,
            Some(CommandDifference::Differs) => true,
            Some(CommandDifference::Missing) => homes.contains(number),
        })
    }

    /// What all servers that are there, and have said it, are at least.
    pub fn release(&self) -> Release {
        let said = self.taken.said.lock();
        Release::least(
            those_there(&self.view(), &said).filter_map(|(_, said)| said.release.as_ref()),
        )
    }

    /// Asks a server that was connected to what its release and its commands are, now or a moment
    /// later: whatever it was asked before may have been another one. Needs the worker's runtime.
    pub fn ask_commands(self: &Arc<Self>, number: usize, incarnation: u64, server: &Arc<Server>) {
        let mut said = self.taken.said.lock();
        let of = said.entry(number).or_insert_with(|| CommandAnswers::of(incarnation));
        if of.incarnation != incarnation {
            *of = CommandAnswers::of(incarnation);
        }
        if std::mem::replace(&mut of.is_to_be_asked, true) {
            return;
        }
        let at = of.asked.map_or_else(Instant::now, |asked| asked + REST);
        drop(said);
        let (fleet, server) = (Arc::clone(self), Arc::clone(server));
        tokio::task::spawn_local(async move {
            tokio::time::sleep_until(at.into()).await;
            fleet.is_asked(number, incarnation);
            match server.ask_apart_up_to(&["COMMAND"], BYTES_MAX).await {
                Ok(answer) => match commands::taken(&answer) {
                    Some(taken) => fleet.says(number, incarnation, &server, taken),
                    None => tracing::debug!(server = &*server.name, "it has no COMMAND for Weir"),
                },
                Err(error) => tracing::debug!(server = &*server.name, %error, "COMMAND"),
            }
            match server.ask_apart(&["INFO", "server"]).await {
                Ok(answer) => fleet.says_release(number, incarnation, Release::read(&answer)),
                Err(error) => tracing::debug!(server = &*server.name, %error, "INFO server"),
            }
        });
    }

    /// Whether anybody has connected to this very server.
    pub(super) fn was_reached(&self, number: usize, incarnation: u64) -> bool {
        let said = self.taken.said.lock();
        said.get(&number).is_some_and(|of| of.incarnation == incarnation)
    }

    fn is_asked(&self, number: usize, incarnation: u64) {
        let mut said = self.taken.said.lock();
        if let Some(of) = said.get_mut(&number).filter(|of| of.incarnation == incarnation) {
            (of.is_to_be_asked, of.asked) = (false, Some(Instant::now()));
        }
    }

    fn says_release(&self, number: usize, incarnation: u64, release: Option<Release>) {
        let mut said = self.taken.said.lock();
        if let Some(of) = said.get_mut(&number).filter(|of| of.incarnation == incarnation) {
            of.release = release;
        }
    }

    fn says(
        &self,
        number: usize,
        incarnation: u64,
        server: &Server,
        taken: HashMap<usize, CommandDifference>,
    ) {
        let mut said = self.taken.said.lock();
        let Some(of) = said.get_mut(&number).filter(|of| of.incarnation == incarnation) else {
            return;
        };
        if of.taken != taken && taken.is_empty() {
            tracing::info!(server = &*server.name, "its COMMAND is as Weir's list has it again");
            of.taken = taken;
        } else if of.taken != taken {
            let mut names: Vec<&str> =
                taken.keys().filter_map(|at| Some(commands::all().get(*at)?.name)).collect();
            names.sort_unstable();
            let (count, shown) = (names.len(), names.len().min(NAMES_MAX));
            tracing::warn!(
                server = &*server.name,
                count,
                commands = names[..shown].join(" "),
                "its COMMAND has commands otherwise than Weir's list: each goes by a connection of \
                 its own, as one that Weir does not know"
            );
            of.taken = taken;
        }
        let is_any = said.values().any(|of| !of.taken.is_empty());
        self.taken.is_any.store(is_any, Ordering::Relaxed);
    }
}
