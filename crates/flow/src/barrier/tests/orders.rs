//! Up to three requests beside a model of a server that forgets what it has not flushed: every
//! order in which they are sent, run and answered, in which the mark's connection is opened and
//! marks are sent and answered, with disturbances at each step.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Instant;

use crate::barrier::{Admission, Barrier, Limits, Request, Unproven};

static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum By {
    /// A commit that keeps others waiting for its connection.
    Commit,
    /// A commit while there are connections for all.
    CommitWithRoom,
    /// A read of all that was committed.
    Read,
}

/// A connection of Weir's to the server, seen from both ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wire<Q, A> {
    /// The server's process at the other end runs.
    lives: bool,
    /// What the server has not taken yet.
    question: Option<Q>,
    /// What Weir has not read yet: it is there though the server has gone.
    answer: Option<A>,
}

impl<Q, A> Wire<Q, A> {
    fn new() -> Self {
        Self { lives: true, question: None, answer: None }
    }

    fn has_ended(&self) -> bool {
        !self.lives && self.answer.is_none()
    }
}

/// How a commit was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Sent {
    /// Its answer may have to wait for a mark.
    Shared(Request),
    /// The server flushes before it answers.
    Own,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Unsent,
    UnderWay(Sent),
    Held,
    /// The client was told; `false`: that the outcome is unknown.
    Answered(bool),
}

#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// A process of the server's crashes, and all of them start anew.
    Crash,
    /// The mark's connection ends, and the server goes on.
    MarkEnds,
    /// A request's connection ends, and the server goes on.
    ConnectionEnds(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World<'a> {
    requests: &'a [By],
    barrier: Barrier<usize>,
    stages: Vec<Stage>,
    /// Of each request; what it reads is the answer.
    wires: Vec<Wire<(), Vec<usize>>>,
    mark: Option<Wire<(), ()>>,
    /// Requests whose commits can be read, in their order in the server's log.
    log: Vec<usize>,
    flushed: usize,
    /// What the barrier holds, in order.
    line: Vec<usize>,
    disturbances: usize,
}

impl<'a> World<'a> {
    fn new(requests: &'a [By], disturbances: usize) -> Self {
        Self {
            requests,
            barrier: Barrier::new(Limits::default()),
            stages: vec![Stage::Unsent; requests.len()],
            wires: vec![Wire::new(); requests.len()],
            mark: None,
            log: Vec::new(),
            flushed: 0,
            line: Vec::new(),
            disturbances,
        }
    }

    /// The worlds that may follow, those by a disturbance apart.
    fn next(&self) -> (Vec<Self>, Vec<Self>) {
        let with = |act: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            act(&mut world);
            world
        };
        let mut worlds = Vec::new();
        for at in 0..self.requests.len() {
            let (stage, wire) = (&self.stages[at], &self.wires[at]);
            if *stage == Stage::Unsent {
                worlds.push(with(&|world| world.send(at)));
                if !wire.lives {
                    worlds.push(with(&|world| world.wires[at] = Wire::new()));
                }
            }
            if wire.lives && wire.question.is_some() {
                worlds.push(with(&|world| world.run(at)));
            }
            if wire.answer.is_some() {
                worlds.push(with(&|world| world.hear(at)));
            } else if matches!(stage, Stage::UnderWay(_)) && wire.has_ended() {
                worlds.push(with(&|world| world.lose(at)));
            }
        }
        worlds.extend(self.next_of_mark().into_iter().map(|act| with(&act)));
        let mut disturbed = Vec::new();
        if self.disturbances > 0 {
            disturbed.extend(self.causes().map(|cause| with(&|world| world.disturb(cause))));
        }
        (worlds, disturbed)
    }

    fn next_of_mark(&self) -> Vec<fn(&mut Self)> {
        let mut acts: Vec<fn(&mut Self)> = Vec::new();
        match &self.mark {
            None => acts.push(Self::log_in),
            Some(mark) => {
                if mark.lives && mark.question.is_some() {
                    acts.push(Self::run_mark);
                }
                if mark.answer.is_some() {
                    acts.push(Self::confirm);
                }
                if mark.has_ended() {
                    acts.push(Self::break_mark);
                }
                if self.barrier.clone().mark(*NOW) {
                    acts.push(Self::send_mark);
                }
            }
        }
        acts
    }

    fn send(&mut self, at: usize) {
        let sent = match self.requests[at] {
            By::Read => Sent::Shared(self.barrier.read().unwrap()),
            by => match self.barrier.commit(by == By::CommitWithRoom, *NOW) {
                Admission::Shared(request) => Sent::Shared(request),
                Admission::Own => Sent::Own,
                Admission::Wait => panic!("no mark is late"),
            },
        };
        self.stages[at] = Stage::UnderWay(sent);
        self.wires[at].question = Some(());
    }

    /// The server runs a request, and answers.
    fn run(&mut self, at: usize) {
        let wire = &mut self.wires[at];
        wire.question = None;
        if self.requests[at] == By::Read {
            wire.answer = Some(self.log.clone());
            return;
        }
        self.log.push(at);
        wire.answer = Some(vec![at]);
        if self.stages[at] == Stage::UnderWay(Sent::Own) {
            self.flushed = self.log.len();
        }
    }

    /// Weir reads the answer of a request.
    fn hear(&mut self, at: usize) {
        let seen = self.wires[at].answer.take().unwrap();
        let Stage::UnderWay(sent) = std::mem::replace(&mut self.stages[at], Stage::Held) else {
            panic!("nothing was asked")
        };
        let bytes: Vec<u8> = seen.iter().map(|of| *of as u8).collect();
        match sent {
            Sent::Own => self.tell(at, &bytes),
            Sent::Shared(read) if self.requests[at] == By::Read && self.barrier.tells(&read) => {
                assert!(self.barrier.settle(read).is_empty());
                self.tell(at, &bytes);
            }
            Sent::Shared(request) => match self.barrier.hold(request, at, &bytes) {
                Ok(()) => self.line.push(at),
                Err(Unproven(ticket)) => self.stages[ticket] = Stage::Answered(false),
            },
        }
    }

    /// A client is told its answer: everything that it tells of must be there for good.
    fn tell(&mut self, at: usize, bytes: &[u8]) {
        for of in bytes {
            let durable = &self.log[..self.flushed];
            assert!(durable.contains(&usize::from(*of)), "{at} was told of {of}: {self:?}");
        }
        self.stages[at] = Stage::Answered(true);
    }

    /// Weir hears that a request's connection has ended.
    fn lose(&mut self, at: usize) {
        if let Stage::UnderWay(Sent::Shared(request)) = self.stages[at].clone() {
            self.barrier.lose(request);
        }
        self.stages[at] = Stage::Answered(false);
    }

    fn log_in(&mut self) {
        self.mark = Some(Wire::new());
        self.barrier.logged_in();
    }

    fn send_mark(&mut self) {
        assert!(self.barrier.mark(*NOW));
        self.mark.as_mut().unwrap().question = Some(());
    }

    fn run_mark(&mut self) {
        let mark = self.mark.as_mut().unwrap();
        mark.answer = mark.question.take();
        self.flushed = self.log.len();
    }

    fn confirm(&mut self) {
        self.mark.as_mut().unwrap().answer = None;
        let mut answers = Vec::new();
        self.barrier.confirmed(|answer| answers.push(answer)).unwrap();
        for answer in answers {
            assert_eq!(answer.ticket, self.line.remove(0));
            self.tell(answer.ticket, &answer.bytes);
        }
    }

    fn break_mark(&mut self) {
        self.mark = None;
        let mut tickets = Vec::new();
        self.barrier.broken(|Unproven(ticket)| tickets.push(ticket));
        assert_eq!(tickets, self.line);
        self.line.clear();
        tickets.into_iter().for_each(|ticket| self.stages[ticket] = Stage::Answered(false));
    }

    fn causes(&self) -> impl Iterator<Item = Disturbance> + use<> {
        let ends = (0..self.requests.len()).map(Disturbance::ConnectionEnds);
        ends.chain([Disturbance::Crash, Disturbance::MarkEnds])
    }

    fn disturb(&mut self, cause: Disturbance) {
        self.disturbances -= 1;
        match cause {
            Disturbance::Crash => {
                self.log.truncate(self.flushed);
                self.wires.iter_mut().for_each(|wire| wire.lives = false);
                self.mark.iter_mut().for_each(|mark| mark.lives = false);
            }
            Disturbance::MarkEnds => self.mark.iter_mut().for_each(|mark| mark.lives = false),
            Disturbance::ConnectionEnds(at) => self.wires[at].lives = false,
        }
    }

    /// Nothing more happens by itself: everybody was answered, and nothing is left to cover.
    fn is_over(&self) {
        let answered = |stage: &Stage| matches!(stage, Stage::Answered(_));
        assert!(self.stages.iter().all(answered), "{self:?}");
        let barrier = &self.barrier;
        assert!(barrier.is_empty() && barrier.is_clear() && barrier.bytes() == 0, "{self:?}");
    }
}

/// Tries every order of the events of these requests; gives how many worlds there were.
fn every_order(requests: &[By], disturbances: usize) -> usize {
    let (mut seen, mut open) = (HashSet::new(), vec![World::new(requests, disturbances)]);
    while let Some(world) = open.pop() {
        if seen.contains(&world) {
            continue;
        }
        let (next, disturbed) = world.next();
        if next.is_empty() {
            world.is_over();
        }
        seen.insert(world);
        open.extend(next.into_iter().chain(disturbed));
    }
    seen.len()
}

const ALL: [By; 3] = [By::Commit, By::CommitWithRoom, By::Read];

#[test]
fn every_order_of_events_of_three_requests_tells_only_what_lasts() {
    use By::{Commit, CommitWithRoom, Read};
    // Which of them comes first is among what is tried.
    let worlds: usize =
        [[Commit, Commit, Read], [Commit, CommitWithRoom, Read], [Commit, Read, Read]]
            .iter()
            .map(|requests| every_order(requests, 1))
            .sum();
    assert!(worlds > 100_000, "{worlds}");
}

#[test]
fn every_order_of_events_with_two_disturbances_tells_only_what_lasts() {
    let mut worlds = 0;
    for (at, first) in ALL.into_iter().enumerate() {
        for second in ALL.into_iter().skip(at) {
            worlds += every_order(&[first, second], 2);
        }
    }
    assert!(worlds > 30_000, "{worlds}");
}
