//! Up to four commands of one client before two servers: every order in which they are taken, sent
//! and answered, with one disturbance at each step, beside a model of a server (redis.io,
//! "Transactions"). Both for a client that gives its connections back and for one that keeps them.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use flow::answers::{Line, Place, Verdict};
use flow::lane::Fate;

use super::*;
use script::{ALL, Input, expected};
use server::{Connection, Message, Run, Words};

mod script;
mod server;
mod steps;

/// What waits for a connection, as a client of `flow` has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pending {
    Take(usize),
    Release(usize),
    Ask(usize, Message),
}

/// What the client has of a connection to one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Lease {
    None,
    Opening,
    /// There is none, of which nobody has heard.
    Failed,
    Refused,
    Held(Connection),
    Lost,
}

/// What disturbs, once.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// A connection ends.
    End(usize),
    /// There is no connection for the client.
    Refuse(usize),
    /// A command takes too long, or is cancelled.
    GiveUp(usize),
    /// The server refuses the `WATCH` that comes next.
    RefuseWatch,
    /// Another client changes the key that is watched.
    Change,
}

#[derive(Clone)]
struct World<'a> {
    said: &'a [Input],
    machine: Dedicated,
    line: Line,
    /// The command of each place in the line.
    commands: Vec<usize>,
    taken: usize,
    pending: VecDeque<Pending>,
    leases: [Lease; 2],
    heard: Vec<u8>,
    ran: Vec<Run>,
    refuses_watch: bool,
    is_disturbed: bool,
    keeps: bool,
}

impl<'a> World<'a> {
    fn new(said: &'a [Input], keeps: bool) -> Self {
        let mut machine = Dedicated::default();
        machine.set_keeps(keeps);
        let lease = if keeps { Lease::Held(Connection::default()) } else { Lease::None };
        Self {
            said,
            machine,
            line: Line::new(1000),
            commands: Vec::new(),
            taken: 0,
            pending: VecDeque::new(),
            leases: [lease.clone(), lease],
            heard: Vec::new(),
            ran: Vec::new(),
            refuses_watch: false,
            is_disturbed: false,
            keeps,
        }
    }

    /// What tells it from other worlds of the same commands.
    fn key(&self) -> impl std::hash::Hash + Eq + use<> {
        let machine = format!("{:?} {:?}", self.machine, self.line.requests());
        let at = (self.taken, self.refuses_watch, self.is_disturbed, self.line.waiting());
        let (pending, leases) = (self.pending.clone(), self.leases.clone());
        (machine, at, pending, leases, self.heard.clone(), self.ran.clone())
    }

    fn next(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut with = |act: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            act(&mut world);
            world.go_on();
            world.check();
            worlds.push(world);
        };
        // As a client's task does: nothing is taken while something waits.
        if self.taken < self.said.len() && self.pending.is_empty() {
            with(&|world| world.take());
        }
        for (at, lease) in self.leases.iter().enumerate() {
            match lease {
                Lease::Opening => with(&|world| {
                    world.leases[at] = Lease::Held(Connection::default());
                }),
                Lease::Held(of) => {
                    if !of.sent.is_empty() {
                        with(&|world| world.serve(at));
                    }
                    if !of.answered.is_empty() {
                        with(&|world| world.receive(at));
                    }
                }
                Lease::None | Lease::Failed | Lease::Refused | Lease::Lost => {}
            }
        }
        if !self.is_disturbed {
            for what in self.disturbances() {
                with(&|world| world.disturb(what));
            }
        }
        worlds
    }

    fn open(&mut self) -> Place {
        self.commands.push(self.taken);
        self.line.open()
    }

    fn answer(&mut self, words: &str) {
        let place = self.open();
        self.fill(place, words);
    }

    /// The answer to a command begins with its number, and ends with a dot.
    fn fill(&mut self, place: Place, words: &str) {
        let number = self.commands[place.request as usize];
        let (heard, bytes) = (&mut self.heard, format!("{words}{number}."));
        self.line.fill(place, bytes.as_bytes(), true, |sent| heard.extend_from_slice(sent));
    }

    fn give_up(&mut self, place: Place, words: &str) {
        let number = self.commands[place.request as usize];
        let (heard, bytes) = (&mut self.heard, format!("-{words}{number}."));
        let given =
            self.line.give_up(place, bytes.as_bytes(), |sent| heard.extend_from_slice(sent));
        given.unwrap();
    }

    /// The next command is looked at, as a session does.
    fn take(&mut self) {
        let (said, number) = (self.said[self.taken], self.taken);
        let is_begun = self.machine.standing() == TransactionStanding::Begun;
        let mut out = Vec::new();
        let bytes = [number as u8];
        let step = |place, effect| TransactionStep { place, effect, bytes: &bytes };
        let taken = match said {
            Input::Multi if is_begun => return self.close_command("-nested"),
            Input::Set | Input::SetElsewhere | Input::Ping | Input::TooLarge if !is_begun => {
                return self.close_command("+alone");
            }
            Input::Refused => Err("it is refused"),
            Input::Discard if !is_begun => Err("there is no MULTI"),
            Input::Watch if !is_begun => self.machine.watch(0, number as u64, &mut out),
            Input::Exec => self.machine.execute(|| 0, &mut out),
            Input::Ping => self.machine.step(step(None, StepEffect::Reads), &mut out),
            Input::SetElsewhere => self.machine.step(step(Some(1), StepEffect::Writes), &mut out),
            Input::Set | Input::TooLarge | Input::Watch => {
                self.machine.step(step(Some(0), StepEffect::Writes), &mut out)
            }
            Input::Unwatch if is_begun => {
                self.machine.step(step(Some(0), StepEffect::Writes), &mut out)
            }
            Input::Multi | Input::Discard | Input::Unwatch | Input::Reset => {
                match said {
                    Input::Multi => self.machine.begin(&mut out),
                    Input::Discard => self.machine.discard(&mut out),
                    Input::Unwatch => self.machine.unwatch(&mut out),
                    _ => {
                        self.machine.leave(&mut out);
                        out.push(Action::Say(Reply::Ok));
                    }
                }
                Ok(())
            }
        };
        for action in out {
            self.carry_out(action);
        }
        if taken.is_err() {
            self.machine.fail();
            self.answer("-refused");
        }
        self.taken += 1;
    }

    fn close_command(&mut self, words: &str) {
        self.answer(words);
        self.taken += 1;
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Take(place) => self.pending.push_back(Pending::Take(place)),
            Action::Release(place) => {
                assert!(!self.keeps);
                self.pending.push_back(Pending::Release(place));
            }
            Action::Say(_) => self.answer("+"),
            Action::Ask(of) => self.ask(of),
        }
        self.go_on();
    }

    fn ask(&mut self, of: OwnRequest) {
        let number = self.taken;
        self.line.hears_answers(of.is_heard);
        let words: Vec<Words> = match &of.words {
            RequestWords::Command if of.mark.is_some() => {
                vec![Words::Watch(number)]
            }
            RequestWords::Command => vec![Words::Step(number)],
            RequestWords::Name("MULTI") => vec![Words::Multi],
            RequestWords::Name("EXEC") => vec![Words::Exec(number)],
            RequestWords::Name("DISCARD") => vec![Words::Discard],
            RequestWords::Name(_) => vec![Words::Unwatch],
            RequestWords::FromMulti(queued) => {
                let steps = queued.iter().map(|bytes| match bytes[..] {
                    [step] => Words::Step(step.into()),
                    _ => Words::Exec(number),
                });
                std::iter::once(Words::Multi).chain(steps).collect()
            }
        };
        self.commands.push(number);
        let place = match words.len() {
            1 => self.line.open(),
            count => {
                let last = |parts: &[Vec<u8>]| parts.last().cloned().unwrap();
                self.line.open_parts(count as u32, Rc::new(last))
            }
        };
        if let Some(mark) = of.mark {
            self.line.note(place, mark);
        }
        let is_large = self.said.get(number) == Some(&Input::TooLarge);
        for (part, words) in (0..).zip(words) {
            if is_large && words == Words::Step(number) {
                self.give_up(place, "large");
                self.machine.lose_step();
                continue;
            }
            let message = Message { place: Place { part, ..place }, words };
            self.pending.push_back(Pending::Ask(of.place, message));
            self.go_on();
        }
        self.line.hears_answers(true);
    }

    /// Sends what waits, and tells the machine what has come of what it has asked.
    fn go_on(&mut self) {
        while let Some(what) = self.pending.pop_front() {
            if let Some(what) = self.go(what) {
                self.pending.push_front(what);
                break;
            }
        }
        while let Some(noted) = self.line.take_noted() {
            let mut out = Vec::new();
            self.machine.hear(noted.mark, noted.begins.as_deref(), &mut out);
            out.into_iter().for_each(|action| self.carry_out(action));
        }
    }

    fn go(&mut self, what: Pending) -> Option<Pending> {
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
            Pending::Ask(at, message) => {
                if !self.line.is_open(message.place) {
                    self.machine.lose_step();
                    return None;
                }
                match &mut self.leases[at] {
                    Lease::Held(of) => of.sent.push_back(message),
                    _ => {
                        self.machine.lose_step();
                        self.give_up(message.place, "lost");
                    }
                }
                None
            }
        }
    }

    fn serve(&mut self, at: usize) {
        if let Lease::Held(of) = &mut self.leases[at] {
            self.ran.extend(of.serve(&mut self.refuses_watch));
        }
    }

    fn receive(&mut self, at: usize) {
        let Lease::Held(of) = &mut self.leases[at] else { return };
        if let Some((place, answer)) = of.answered.pop_front() {
            self.fill(place, answer);
        }
    }

    fn disturbances(&self) -> Vec<Disturbance> {
        let mut all = vec![Disturbance::RefuseWatch, Disturbance::Change];
        for (at, lease) in self.leases.iter().enumerate() {
            match lease {
                // A client that keeps its connections is closed where one of them ends.
                Lease::Held(_) if !self.keeps => all.push(Disturbance::End(at)),
                Lease::Opening => all.push(Disturbance::Refuse(at)),
                _ => {}
            }
        }
        all.extend(self.line.requests().map(|of| Disturbance::GiveUp(of as usize)));
        all
    }

    fn disturb(&mut self, what: Disturbance) {
        self.is_disturbed = true;
        match what {
            Disturbance::RefuseWatch => self.refuses_watch = true,
            Disturbance::Change => {
                if let Lease::Held(of) = &mut self.leases[0] {
                    of.change();
                }
            }
            Disturbance::Refuse(at) => self.leases[at] = Lease::Failed,
            Disturbance::GiveUp(of) => self.give_up(Place { request: of as u64, part: 0 }, "late"),
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
                self.machine.fail();
            }
        }
    }

    /// Its own answers, in order, once; and what was run was run as a whole, and as it was said.
    fn check(&self) {
        let text = std::str::from_utf8(&self.heard).unwrap();
        let numbers = text.split_terminator('.').map(|of| of[of.len() - 1..].parse().unwrap());
        let numbers: Vec<usize> = numbers.collect();
        let wanted: Vec<usize> = (0..numbers.len()).collect();
        assert_eq!(numbers, wanted, "{:?} heard {text}", self.said);
        for run in &self.ran {
            let name = || format!("{:?} ran {run:?} and heard {text}", self.said);
            let (steps, watches) = expected(self.said, run.exec);
            let may = |at: &usize| !matches!(self.said[*at], Input::Refused | Input::TooLarge);
            assert!(steps.iter().all(may), "{}", name());
            assert_eq!(run.steps, steps, "{}", name());
            let granted = |of: &&usize| text.contains(&format!("+ok{of}."));
            let is_lost = |of: &usize| !run.watched.contains(of);
            assert!(!watches.iter().filter(granted).any(is_lost), "{}", name());
        }
        assert!(!text.contains("-none"), "{:?} heard {text}", self.said);
        let execs: HashSet<usize> = self.ran.iter().map(|run| run.exec).collect();
        assert_eq!(execs.len(), self.ran.len(), "{:?} ran twice", self.said);
    }

    /// Nothing is left to happen.
    fn is_over(&self) {
        assert!(self.line.is_empty(), "{:?}: {:?}", self.said, self.line);
        let standing = self.machine.standing();
        let text = std::str::from_utf8(&self.heard).unwrap();
        let (_, watches) = expected(self.said, self.said.len());
        let is_granted = watches.iter().any(|of| text.contains(&format!("+ok{of}.")));
        let is_watching = matches!(standing, TransactionStanding::Watching { .. });
        let is_at_rest = standing == TransactionStanding::None;
        assert!(!is_watching || is_granted, "{:?} watches nothing: {text}", self.said);
        assert!(!is_at_rest || !is_granted, "{:?} watches no more: {text}", self.said);
        for lease in &self.leases {
            match lease {
                Lease::Held(of) if is_at_rest => {
                    assert!(self.keeps, "{:?}: a connection is held for nothing", self.said);
                    assert!(of.is_as_new(), "{:?} leaves {of:?}", self.said);
                }
                Lease::Opening => panic!("{:?}: it waits for ever", self.said),
                _ => {}
            }
        }
    }
}

/// Tries every order of the events of these commands; gives how many worlds there were.
fn every_order(said: &[Input], keeps: bool) -> usize {
    let (mut seen, mut open) = (HashSet::new(), vec![World::new(said, keeps)]);
    while let Some(world) = open.pop() {
        if !seen.insert(world.key()) {
            continue;
        }
        let next = world.next();
        let idle = |lease: &Lease| match lease {
            Lease::Held(of) => of.is_idle(),
            lease => *lease != Lease::Opening,
        };
        if world.taken == said.len() && world.leases.iter().all(idle) {
            world.is_over();
        }
        open.extend(next);
    }
    seen.len()
}

#[test]
fn every_order_of_events_of_three_commands_is_right() {
    let mut worlds = 0;
    for first in ALL {
        for second in ALL {
            for third in ALL {
                for keeps in [false, true] {
                    worlds += every_order(&[first, second, third], keeps);
                }
            }
        }
    }
    assert!(worlds > 30_000, "{worlds}");
}

#[test]
fn every_order_of_events_of_four_commands_of_a_few_kinds_is_right() {
    const FEW: [Input; 5] = [Input::Watch, Input::Multi, Input::Set, Input::TooLarge, Input::Exec];
    let mut worlds = 0;
    for number in 0..FEW.len().pow(4) {
        let kind = |at: u32| FEW[number / FEW.len().pow(at) % FEW.len()];
        for keeps in [false, true] {
            worlds += every_order(&[kind(0), kind(1), kind(2), kind(3)], keeps);
        }
    }
    assert!(worlds > 10_000, "{worlds}");
}

#[test]
fn every_order_of_events_of_four_and_five_commands_is_right() {
    use Input::{Discard, Exec, Multi, Ping, Refused, Reset, Set, SetElsewhere, TooLarge, Watch};
    let mut worlds = 0;
    for steps in [
        &[Watch, Multi, Set, Exec][..],
        &[Watch, Watch, Multi, Exec],
        &[Multi, Ping, Set, Exec],
        &[Multi, Set, TooLarge, Exec],
        &[Multi, TooLarge, Set, Exec],
        &[Multi, Set, Refused, Exec],
        &[Multi, Set, SetElsewhere, Exec],
        &[Multi, Set, Discard, Multi],
        &[Watch, Multi, Reset, Watch],
        &[Multi, Set, Exec, Multi, Set],
        &[Watch, Multi, TooLarge, Exec, Multi],
    ] {
        for keeps in [false, true] {
            worlds += every_order(steps, keeps);
        }
    }
    assert!(worlds > 3_000, "{worlds}");
}
