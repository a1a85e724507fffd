//! A client, its connections and two servers, at one moment of what may happen.

use std::collections::VecDeque;
use std::hash::Hash;
use std::rc::Rc;

use flow::answers::{AnswerPlace, Line};
use wire::resp::{CommandFrame, Commands, Limits};

use super::super::options;
use super::super::*;
use super::connections::{Lease, Pending};
use super::script::Input;
use super::server::{Connection, Deed, Message, Words};
use crate::commands::{self, TransactionCommand};
use crate::session::dispatch::{
    self, ClientCommand, ClientStanding, CommandFacts, CommandRoute, Dispatch, OwnAnswer,
    PoolFacts, Refusal, Subscription, Who,
};

#[derive(Clone)]
pub struct World {
    pub(super) said: Vec<Input>,
    pub(super) machine: Dedicated,
    pub(super) line: Line,
    /// The command of each place in the line.
    pub(super) commands: Vec<usize>,
    pub(super) pending: VecDeque<Pending>,
    pub(super) leases: [Lease; 2],
    pub(super) heard: Vec<u8>,
    pub(super) deeds: Vec<Deed>,
    /// All that was sent, and where.
    pub(super) sent: Vec<(usize, Words)>,
    /// `CLIENT CACHING` was said for the next command that is not of `CLIENT`.
    pub(super) caches_next: bool,
    /// Each command that it was said for, which may be a `MULTI`.
    pub(super) cached: Vec<usize>,
    pub(super) marks: u64,
    pub(super) refuses: bool,
    /// Servers have refused to tell of keys.
    pub(super) is_untold: bool,
    /// What `CLIENT CACHING` was told for was not sent behind it: it holds for what is next.
    pub(super) is_astray: bool,
    pub(super) is_disturbed: bool,
    /// The last command has changed nothing: what comes behind it is that of a shorter script.
    pub(super) is_idle: bool,
    pub(super) is_closed: bool,
}

impl World {
    pub fn new(tracks: bool) -> Self {
        let mut machine = Dedicated::default();
        let mut lease = Lease::None;
        if tracks {
            let wanted = wanted("CLIENT TRACKING ON OPTIN").unwrap();
            let mut out = Vec::new();
            machine.track(&wanted, (vec![0, 1], false), u64::MAX, &mut out).unwrap();
            machine.hear(u64::MAX, Some(b"+ok"), &mut out);
            lease = Lease::Held(Connection::tracking());
        }
        Self {
            said: Vec::new(),
            machine,
            line: Line::new(1000),
            commands: Vec::new(),
            pending: VecDeque::new(),
            leases: [lease.clone(), lease],
            heard: Vec::new(),
            deeds: Vec::new(),
            sent: Vec::new(),
            caches_next: false,
            cached: Vec::new(),
            marks: 0,
            refuses: false,
            is_untold: false,
            is_astray: false,
            is_disturbed: false,
            is_idle: false,
            is_closed: false,
        }
    }

    /// What tells it from other worlds.
    pub fn key(&self) -> impl Hash + use<> {
        let machine = format!("{:?} {:?}", self.machine, self.line.requests());
        let flags = (self.refuses, self.is_untold, self.is_disturbed, self.is_idle);
        let client = (self.is_closed, self.is_astray, self.caches_next, self.cached.clone());
        let texts = (machine, self.heard.clone(), self.line.waiting());
        let connections = (self.pending.clone(), self.leases.clone(), self.sent.clone());
        (self.said.clone(), flags, client, texts, connections, self.deeds.clone())
    }

    /// Every world that may come of it, of a client that says up to so many of these.
    pub fn next(&self, kinds: &[Input], steps: usize) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut with = |act: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            act(&mut world);
            world.go_on();
            world.check();
            worlds.push(world);
        };
        // As a client's task does: nothing is taken while something waits.
        let may_take = !self.is_closed && !self.is_idle && self.pending.is_empty();
        if may_take && self.said.len() < steps {
            kinds.iter().for_each(|of| with(&|world| world.take(*of)));
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
        if !self.is_disturbed && !self.is_closed {
            for what in self.disturbances() {
                with(&|world| world.disturb(what));
            }
        }
        worlds
    }

    fn number(&self) -> usize {
        self.said.len().saturating_sub(1)
    }

    pub(super) fn answer(&mut self, words: &str) {
        self.commands.push(self.number());
        let place = self.line.open();
        self.fill(place, words);
    }

    /// The answer to a command begins with its number, and ends with a dot.
    pub(super) fn fill(&mut self, place: AnswerPlace, words: &str) {
        let number = self.commands[place.request as usize];
        let (heard, bytes) = (&mut self.heard, format!("{words}{number}."));
        self.line.fill(place, bytes.as_bytes(), true, |sent| heard.extend_from_slice(sent));
    }

    pub(super) fn give_up(&mut self, place: AnswerPlace, words: &str) {
        let number = self.commands[place.request as usize];
        let (heard, bytes) = (&mut self.heard, format!("-{words}{number}."));
        let given =
            self.line.give_up(place, bytes.as_bytes(), |sent| heard.extend_from_slice(sent));
        given.unwrap();
    }

    /// The next command is looked at, as a session does.
    fn take(&mut self, what: Input) {
        self.said.push(what);
        let before = (self.machine.clone(), self.sent.len(), self.pending.len());
        let (mut cutter, bytes) = (Commands::default(), format!("{}\r\n", what.line()));
        let cut = cutter.cut(bytes.as_bytes(), &Limits::default()).unwrap();
        assert!(matches!(cut, CommandFrame::Command(_)));
        let command = &cutter.command(bytes.as_bytes());
        let spec = commands::find(command.name());
        let facts = CommandFacts { spec, command, is_for_admins: false, is_taken_away: false };
        let standing = self.standing();
        self.machine.begin_command(spec.is_some_and(|spec| spec.is_client()));
        let is_client = matches!(what, Input::Track | Input::Untrack | Input::Cache);
        let is_begun = standing.transaction == TransactionStanding::Begun;
        if !is_client && !is_begun && std::mem::take(&mut self.caches_next) {
            self.cached.push(self.number());
        }
        let decided = dispatch::dispatch(&facts, &standing);
        let is_streamed = what == Input::Large && dispatch::may_stream(&facts, 3, &standing);
        let mut out = Vec::new();
        let taken = match decided {
            Ok(Dispatch::Listed { .. }) if is_streamed => {
                self.machine.ask_alone(0, &mut out);
                Ok(())
            }
            Ok(Dispatch::Listed { route, .. }) => self.go(what, route, &standing, &mut out),
            Err(Refusal::WordsAlone(_)) => {
                out.push(Action::Say(Reply::NothingRun));
                Ok(())
            }
            Err(Refusal::Words(words)) => Err(words.into_owned()),
            other => panic!("{what:?}: {other:?}"),
        };
        out.into_iter().for_each(|action| self.carry_out(action));
        if taken.is_err() {
            self.machine.fail();
            self.answer("-refused");
        }
        self.caches_next &= self.machine.tracks();
        let is_same =
            (&before.0, before.1, before.2) == (&self.machine, self.sent.len(), self.pending.len());
        self.is_idle = is_same && what != Input::TooLarge;
    }

    fn standing(&self) -> ClientStanding {
        ClientStanding {
            who: Who::User,
            pool: PoolFacts { only: None, is_cluster: false },
            subscription: Subscription::None,
            transaction: self.machine.standing(),
            tracks: self.machine.tracks(),
        }
    }

    /// A command goes its way.
    fn go(
        &mut self,
        what: Input,
        route: CommandRoute,
        standing: &ClientStanding,
        out: &mut Vec<Action>,
    ) -> Result<(), String> {
        let (machine, number, bytes) = (&mut self.machine, self.said.len() - 1, [0; 1]);
        let at = usize::from(what == Input::SetElsewhere);
        let mark = self.marks;
        self.marks += 1;
        match route {
            CommandRoute::Transaction(TransactionCommand::Watch) => machine.watch(0, mark, out)?,
            CommandRoute::Transaction(TransactionCommand::Multi) => machine.begin(out),
            CommandRoute::Transaction(TransactionCommand::Exec) => machine.execute(|| 0, out)?,
            CommandRoute::Transaction(TransactionCommand::Discard) => machine.discard(out),
            CommandRoute::Transaction(TransactionCommand::Unwatch) => machine.unwatch(out),
            CommandRoute::Step(effect) => {
                let bytes = bytes.map(|_| number as u8);
                let has_key = !matches!(what, Input::Ping | Input::Unwatch);
                let place = has_key.then_some(at);
                machine.step(TransactionStep { place, effect, bytes: &bytes }, out)?;
            }
            CommandRoute::Block => {
                standing.allows_waiting(0)?;
                machine.wait(0, out);
            }
            CommandRoute::Read | CommandRoute::Write if standing.tracks => {
                let (place, bond) = (at, Bond::None);
                let words = RequestWords::Command;
                out.push(Action::Ask(OwnRequest {
                    place,
                    words,
                    bond,
                    mark: None,
                    is_heard: true,
                }));
            }
            CommandRoute::AskTracked => machine.ask_all(out),
            CommandRoute::Own(OwnAnswer::Client(ClientCommand::Tracking)) => {
                standing.allows(dispatch::Change::Tracking)?;
                match wanted(what.line()) {
                    Some(wanted) => machine.track(&wanted, (vec![0, 1], false), mark, out)?,
                    None => machine.untrack(out),
                }
            }
            CommandRoute::Own(OwnAnswer::Client(ClientCommand::Caching)) => {
                machine.cache(b"YES", out)?;
                self.caches_next = true;
            }
            CommandRoute::Own(OwnAnswer::Reset) => {
                machine.reset(out);
                out.push(Action::Say(Reply::Ok));
            }
            // By a lane, or by Weir itself.
            _ => out.push(Action::Say(Reply::Ok)),
        }
        Ok(())
    }

    pub(super) fn carry_out(&mut self, action: Action) {
        match action {
            Action::Take(at) => self.pending.push_back(Pending::Take(at)),
            Action::Release(at) => self.pending.push_back(Pending::Release(at)),
            Action::Say(_) => self.answer("+"),
            Action::Ask(of) => {
                let words = self.words(&of);
                let is_step = matches!(of.bond, Bond::Step(_) | Bond::WaitsAmidWatch);
                let parts = words.into_iter().map(|words| (of.place, is_step, words)).collect();
                self.ask(parts, of.mark, of.is_heard);
            }
            Action::AskAll(of) => {
                let words = match &of.words {
                    RequestWords::Command => Words::Plain(self.number()),
                    RequestWords::Whole(bytes) if is_off(bytes) => Words::Untrack,
                    _ => Words::Track,
                };
                let parts = of.places.iter().map(|at| (*at, false, words)).collect();
                self.ask(parts, of.mark, of.is_heard);
            }
            Action::Close(_) => self.is_closed = true,
        }
        self.go_on();
    }

    fn words(&self, of: &OwnRequest) -> Vec<Words> {
        let number = self.number();
        match &of.words {
            RequestWords::Command if of.mark.is_some() => vec![Words::Watch(number)],
            RequestWords::Command if matches!(of.bond, Bond::Step(_)) => vec![Words::Step(number)],
            RequestWords::Command => vec![Words::Plain(number)],
            RequestWords::Name("MULTI") => vec![Words::Multi],
            RequestWords::Name("EXEC") => vec![Words::Exec(number)],
            RequestWords::Name("DISCARD") => vec![Words::Discard],
            RequestWords::Name(_) => vec![Words::Unwatch],
            RequestWords::Whole(_) => vec![Words::Caching],
            RequestWords::FromMulti(queued) => {
                let steps = queued.iter().map(|bytes| match bytes[..] {
                    [step] => Words::Step(step.into()),
                    _ => Words::Exec(number),
                });
                std::iter::once(Words::Multi).chain(steps).collect()
            }
        }
    }

    /// Asks each at its place, behind what is to be said there first.
    fn ask(&mut self, parts: Vec<(usize, bool, Words)>, mark: Option<u64>, is_heard: bool) {
        for (at, ..) in &parts {
            let caching = self.marks;
            if let Some(of) = self.machine.tell_caching(*at, caching) {
                self.marks += 1;
                self.put(vec![(*at, true, Words::Caching)], of.mark, of.is_heard);
            }
        }
        self.put(parts, mark, is_heard);
    }

    fn put(&mut self, parts: Vec<(usize, bool, Words)>, mark: Option<u64>, is_heard: bool) {
        self.line.hears_answers(is_heard);
        self.commands.push(self.number());
        let place = match parts.len() {
            1 => self.line.open(),
            count => {
                let joined = |parts: &[Vec<u8>]| {
                    let error = parts.iter().find(|part| part.first() == Some(&b'-'));
                    error.or(parts.last()).cloned().unwrap()
                };
                self.line.open_parts(count as u32, Rc::new(joined))
            }
        };
        if let Some(mark) = mark {
            self.line.note(place, mark);
        }
        self.line.hears_answers(true);
        let is_large = self.said.last() == Some(&Input::TooLarge);
        let number = self.number();
        for (part, (at, is_step, words)) in (0..).zip(parts) {
            if is_large && [Words::Step(number), Words::Plain(number)].contains(&words) {
                self.is_not_sent(is_step);
                self.is_astray |= self.machine.caches();
                self.give_up(place, "large");
                continue;
            }
            let message = Message { place: AnswerPlace { part, ..place }, words };
            self.pending.push_back(Pending::Ask { at, is_step, message });
            self.go_on();
        }
    }

    pub(super) fn is_not_sent(&mut self, is_step: bool) {
        if is_step {
            self.machine.lose_step();
        }
    }

    /// Sends what waits, and tells the machine what has come of what it has asked.
    fn go_on(&mut self) {
        while let Some(what) = self.pending.pop_front() {
            if let Some(what) = self.send(what) {
                self.pending.push_front(what);
                break;
            }
        }
        while let Some(noted) = self.line.take_noted() {
            let (mut out, tracked) = (Vec::new(), self.machine.tracks());
            self.machine.hear(noted.mark, noted.begins.as_deref(), &mut out);
            self.is_untold |= tracked && !self.machine.tracks();
            out.into_iter().for_each(|action| self.carry_out(action));
        }
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.heard).unwrap()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (said, text) = (&self.said, self.text());
        write!(f, "{said:?} heard {text} of {:?}, sent {:?}", self.deeds, self.sent)
    }
}

/// What a `CLIENT TRACKING` wants; `None`: nothing more.
fn wanted(line: &str) -> Option<TrackingRequest> {
    let (mut cutter, bytes) = (Commands::default(), format!("{line}\r\n"));
    cutter.cut(bytes.as_bytes(), &Limits::default()).unwrap();
    options::read(&cutter.command(bytes.as_bytes())).unwrap()
}

fn is_off(bytes: &[u8]) -> bool {
    bytes.ends_with(b"OFF\r\n")
}
