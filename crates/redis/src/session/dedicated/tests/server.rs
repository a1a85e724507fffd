//! A server's side of a connection that one client has for itself: redis.io, "Transactions".

use std::collections::VecDeque;

use flow::answers::Place;

/// A command on its way to a server, and the place of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Message {
    pub place: Place,
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
}

/// What an `EXEC` has run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    pub exec: usize,
    pub steps: Vec<usize>,
    /// Each `WATCH` that held.
    pub watched: Vec<usize>,
}

/// A connection that the client has for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Connection {
    /// What the server has not read.
    pub sent: VecDeque<Message>,
    /// What the client has not heard.
    pub answered: VecDeque<(Place, &'static str)>,
    /// What the server has queued, once `MULTI` was said.
    queued: Option<Vec<usize>>,
    watched: Vec<usize>,
    /// A key that is watched was changed.
    is_dirty: bool,
}

impl Connection {
    /// The server takes what comes next, and refuses it if that is a `WATCH` and `refuses`; what it
    /// has run.
    pub fn serve(&mut self, refuses: &mut bool) -> Option<Run> {
        let Message { place, words } = self.sent.pop_front()?;
        let (answer, run) = match words {
            Words::Watch(_) if std::mem::take(refuses) => ("-no", None),
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
                match std::mem::take(&mut self.is_dirty) {
                    true => ("+none", None),
                    false => ("+run", Some(Run { exec, steps, watched })),
                }
            }
            Words::Discard if self.queued.is_none() => ("-none", None),
            Words::Discard => {
                self.queued = None;
                self.forget();
                ("+ok", None)
            }
            Words::Unwatch => {
                self.forget();
                ("+ok", None)
            }
        };
        self.answered.push_back((place, answer));
        run
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

    /// Whether nothing of its client is left at the server.
    pub fn is_as_new(&self) -> bool {
        self.queued.is_none() && self.watched.is_empty()
    }
}
