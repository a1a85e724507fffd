//! A server's side of a connection that one client has for itself: redis.io, "Transactions" and
//! "Client-side caching".

use std::collections::VecDeque;

use flow::answers::AnswerPlace;

/// A command on its way to a server, and the place of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Message {
    pub place: AnswerPlace,
    pub words: Words,
}

/// What a server reads, with the number of the client's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Words {
    Watch(usize),
    Multi,
    Step(usize),
    Exec(usize),
    Discard,
    Unwatch,
    /// Anything outside of a transaction, that waits for others or not.
    Plain(usize),
    Track,
    Untrack,
    Caching,
}

/// What a server has done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Deed {
    /// It has run a transaction.
    Run {
        exec: usize,
        steps: Vec<usize>,
        /// Each `WATCH` that held.
        watched: Vec<usize>,
        /// `CLIENT CACHING` held for it.
        caches: bool,
    },
    /// It has run a command outside of one.
    Plain { number: usize, caches: bool },
}

/// A connection that the client has for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Connection {
    /// What the server has not read.
    pub sent: VecDeque<Message>,
    /// What the client has not heard.
    pub answered: VecDeque<(AnswerPlace, &'static str)>,
    /// What the server has queued, once `MULTI` was said.
    queued: Option<Vec<usize>>,
    watched: Vec<usize>,
    /// A key that is watched was changed.
    is_dirty: bool,
    tracks: bool,
    /// `CLIENT CACHING` holds for what is next.
    caches: bool,
}

impl Connection {
    /// One by which keys are tracked.
    pub fn tracking() -> Self {
        Self { tracks: true, ..Self::default() }
    }

    /// The server takes what comes next, and refuses it if that is one that it may refuse and
    /// `refuses`; what it has done.
    pub fn serve(&mut self, refuses: &mut bool) -> Option<Deed> {
        let Message { place, words } = self.sent.pop_front()?;
        let may_refuse = matches!(words, Words::Watch(_) | Words::Track | Words::Caching);
        let is_refused = may_refuse && std::mem::take(refuses);
        let is_within = self.queued.is_some();
        // Behind a command of CLIENT, and within a transaction, it holds still.
        let is_client = matches!(words, Words::Track | Words::Untrack | Words::Caching);
        let caches = self.caches;
        self.caches &= is_client || is_within || words == Words::Multi;
        let (answer, deed) = match words {
            _ if is_refused => ("-no", None),
            Words::Watch(number) => {
                self.watched.push(number);
                ("+ok", None)
            }
            Words::Multi => {
                assert_eq!(self.queued, None, "MULTI within MULTI");
                self.queued = Some(Vec::new());
                ("+ok", None)
            }
            Words::Step(number) => {
                self.queued.as_mut().expect("a step without MULTI").push(number);
                ("+queued", None)
            }
            Words::Exec(exec) => {
                let steps = self.queued.take().expect("EXEC without MULTI");
                let watched = std::mem::take(&mut self.watched);
                self.caches = false;
                match std::mem::take(&mut self.is_dirty) {
                    true => ("+none", None),
                    false => ("+run", Some(Deed::Run { exec, steps, watched, caches })),
                }
            }
            Words::Discard if self.queued.is_none() => ("-none", None),
            Words::Discard => {
                (self.queued, self.caches) = (None, false);
                self.forget();
                ("+ok", None)
            }
            Words::Unwatch => {
                self.forget();
                ("+ok", None)
            }
            Words::Plain(number) => {
                assert_eq!(self.queued, None, "it is queued");
                ("+plain", Some(Deed::Plain { number, caches }))
            }
            Words::Track => {
                self.tracks = true;
                ("+ok", None)
            }
            Words::Untrack => {
                (self.tracks, self.caches) = (false, false);
                ("+ok", None)
            }
            Words::Caching if !self.tracks => ("-no", None),
            Words::Caching => {
                self.caches = true;
                ("+ok", None)
            }
        };
        self.answered.push_back((place, answer));
        deed
    }

    fn forget(&mut self) {
        (self.is_dirty, self.watched) = (false, Vec::new());
    }

    /// Another client changes the key that is watched.
    pub fn change(&mut self) {
        self.is_dirty |= !self.watched.is_empty();
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.answered.is_empty()
    }

    /// Whether nothing of a transaction of its client is left at the server.
    pub fn is_without_transaction(&self) -> bool {
        self.queued.is_none() && self.watched.is_empty()
    }
}
