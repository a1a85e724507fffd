//! What a client of `flow` has of its connections, and what may come to them.

use flow::answers::{AnswerPlace, Verdict};
use flow::lane::Fate;

use super::server::{Connection, Message, Words};
use super::world::World;

/// What waits for a connection, as a client of `flow` has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Pending {
    Take(usize),
    Release(usize),
    Ask { at: usize, is_step: bool, message: Message },
}

/// What the client has of a connection to one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Lease {
    None,
    Opening,
    /// There is none, of which nobody has heard.
    Failed,
    Refused,
    Held(Connection),
    Lost,
}

/// What disturbs, once in a world.
#[derive(Debug, Clone, Copy)]
pub(super) enum Disturbance {
    /// A connection comes to its end.
    End(usize),
    /// There is no connection for the client.
    Refuse(usize),
    /// A command takes too long, or is cancelled.
    GiveUp(u64),
    /// The server refuses the next of what it may refuse.
    RefuseNext,
    /// Another client changes the key that is watched.
    Change,
}

impl World {
    pub(super) fn send(&mut self, what: Pending) -> Option<Pending> {
        match what {
            Pending::Take(at) => match self.leases[at] {
                Lease::Held(_) => None,
                // Whatever needs one hears of it.
                Lease::Failed => {
                    self.leases[at] = Lease::Refused;
                    None
                }
                Lease::None | Lease::Refused | Lease::Lost => {
                    self.leases[at] = Lease::Opening;
                    Some(Pending::Take(at))
                }
                Lease::Opening => Some(Pending::Take(at)),
            },
            Pending::Release(at) => match &self.leases[at] {
                Lease::Held(of) if !of.is_idle() => Some(Pending::Release(at)),
                Lease::Opening => Some(Pending::Release(at)),
                _ => {
                    // What a server has of it is undone before anybody else has it.
                    self.leases[at] = Lease::None;
                    None
                }
            },
            Pending::Ask { at, is_step, message } => {
                if !self.line.is_open(message.place) {
                    self.is_not_sent(is_step);
                    return None;
                }
                match &mut self.leases[at] {
                    Lease::Held(of) => {
                        let words = message.words;
                        let is_once =
                            matches!(words, Words::Step(_) | Words::Exec(_) | Words::Plain(_));
                        let is_again = is_once && self.sent.contains(&(at, words));
                        assert!(!is_again, "{self:?} asks {words:?} again");
                        self.sent.push((at, words));
                        of.sent.push_back(message);
                    }
                    _ => {
                        self.is_not_sent(is_step);
                        self.give_up(message.place, "lost");
                    }
                }
                None
            }
        }
    }

    pub(super) fn serve(&mut self, at: usize) {
        if let Lease::Held(of) = &mut self.leases[at] {
            let refuses = self.refuses;
            self.deeds.extend(of.serve(&mut self.refuses));
            self.is_untold |= refuses && !self.refuses;
        }
    }

    pub(super) fn receive(&mut self, at: usize) {
        let Lease::Held(of) = &mut self.leases[at] else { return };
        if let Some((place, answer)) = of.answered.pop_front() {
            self.fill(place, answer);
        }
    }

    pub(super) fn disturbances(&self) -> Vec<Disturbance> {
        let mut all = vec![Disturbance::RefuseNext, Disturbance::Change];
        for (at, lease) in self.leases.iter().enumerate() {
            match lease {
                Lease::Held(_) => all.push(Disturbance::End(at)),
                Lease::Opening => all.push(Disturbance::Refuse(at)),
                _ => {}
            }
        }
        all.extend(self.line.requests().map(Disturbance::GiveUp));
        all
    }

    pub(super) fn disturb(&mut self, what: Disturbance) {
        self.is_disturbed = true;
        match what {
            Disturbance::RefuseNext => self.refuses = true,
            Disturbance::Change => {
                if let Lease::Held(of) = &mut self.leases[0] {
                    of.change();
                }
            }
            Disturbance::Refuse(at) => self.leases[at] = Lease::Failed,
            Disturbance::GiveUp(request) => self.give_up(AnswerPlace { request, part: 0 }, "late"),
            Disturbance::End(at) => {
                let Lease::Held(of) = std::mem::replace(&mut self.leases[at], Lease::Lost) else {
                    return;
                };
                let answered = of.answered.into_iter().map(|(place, _)| (place, Fate::Sent));
                let unsent = of.sent.into_iter().map(|of| (of.place, Fate::Unsent));
                for (place, fate) in answered.chain(unsent) {
                    match self.line.orphaned(place, fate, false) {
                        Verdict::Again | Verdict::NotSent => self.give_up(place, "unsent"),
                        Verdict::MayHaveRun => self.give_up(place, "unknown"),
                        Verdict::Close | Verdict::Late => {}
                    }
                }
                let mut out = Vec::new();
                self.machine.lose_connection(at, &mut out);
                out.into_iter().for_each(|action| self.carry_out(action));
            }
        }
    }
}
