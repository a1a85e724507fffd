//! Clients with their twins, one step after another, and what befalls all of them meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use pg::Client;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::chance;
use rig::postgres::{MessageClient, rows};
use rig::wait;

use super::invent::Footing;
use super::said::Verdict;
use super::stage::{Stage, holders};
use super::step::{Statement, Step};
use super::trail::Trail;
use super::turn;
use super::twins::{Twins, piece};

/// What is wrong and begins alike is told once.
const KIND: usize = 60;
/// Clients that have left something to be taken away, and stay without another word.
const GHOSTS_MAX: usize = 6;

pub type WorldResult<T = ()> = Result<T, String>;

pub struct World<'s> {
    stage: &'s Stage,
    clients: Vec<Twins>,
    /// Those whose twins are gone.
    ghosts: VecDeque<MessageClient>,
    pub chance: StdRng,
    console: Client,
    admins: [Client; 2],
    trail: Trail,
    current: usize,
    pub steps: u64,
    /// How often which difference was let pass.
    pub excused: BTreeMap<&'static str, u64>,
    /// What was wrong so far, where more than one is looked for.
    pub wrongs: Vec<String>,
    wrongs_max: usize,
    /// How often what begins alike was wrong.
    pub kinds: BTreeMap<String, u64>,
}

impl<'s> World<'s> {
    pub fn new(stage: &'s Stage, clients: usize, seed: u64) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        let make = |number| Twins::new(stage, number, &mut chance).expect("it is let in");
        let made = (0..clients).map(make).collect();
        let (ghosts, trail, current, steps, excused, wrongs, kinds) = Default::default();
        let wrongs_max = chance::number("WEIR_TEST_WRONGS").unwrap_or(1);
        let (console, admins) = (stage.console(), stage.admins());
        Self {
            stage,
            clients: made,
            ghosts,
            chance,
            console,
            admins,
            trail,
            current,
            steps,
            excused,
            wrongs,
            wrongs_max,
            kinds,
        }
    }

    /// One step of one client, or something that befalls it.
    pub fn step(&mut self) -> WorldResult {
        self.steps += 1;
        if self.chance.random_range(0..4) == 0 {
            self.current = self.chance.random_range(0..self.clients.len());
            self.give_way()?;
        }
        let at = self.current;
        match self.chance.random_range(0..1000) {
            0..15 => self.leave(at),
            15..20 => self.late_cancel(at),
            20..23 => self.cancelled(at),
            23..26 => self.terminated(),
            26 if self.chance.random_bool(0.5) => self.restarted(),
            26..60 => self.ask_again(at),
            _ => self.ask(at),
        }?;
        if self.clients[at].stained && self.clients[at].status == b'I' {
            self.settle(at)?;
        }
        Ok(())
    }

    /// All go, and both servers have the same rows.
    pub fn close(&mut self) -> WorldResult {
        self.ghosts.clear();
        self.clients.iter_mut().for_each(|of| of.leave(&[]));
        self.even(0)?;
        self.stage.same_rows(&mut self.admins)
    }

    /// One that would have to wait for a connection lets somebody else go on who has one.
    fn give_way(&mut self) -> WorldResult {
        let others = self.holding(self.current)?;
        if others.is_empty() {
            return Ok(());
        }
        self.current = others[self.chance.random_range(0..others.len())];
        if self.chance.random_range(0..3) == 0 {
            self.let_go(self.current)?;
        }
        Ok(())
    }

    /// A login may need a server connection, too.
    fn make_room(&mut self, at: usize) -> WorldResult {
        for _ in 0..1000 {
            let others = self.holding(at)?;
            let Some(other) = others.into_iter().find(|other| *other != at) else { return Ok(()) };
            self.let_go(other)?;
        }
        self.fault(at, "server connections are not given back")
    }

    /// Those who have the connections that this one would have to wait for.
    fn holding(&mut self, at: usize) -> WorldResult<Vec<usize>> {
        let holding = holders(&mut self.console)?;
        let holds = |of: &&Twins| holding.contains_key(&of.through.port());
        let user = self.clients[at].user;
        let alike = || self.clients.iter().filter(|of| of.user == user);
        let others: Vec<usize> = alike().filter(holds).map(|of| of.number).collect();
        let is_free = others.len() < self.stage.room(user, alike().count());
        Ok(if is_free || others.contains(&at) { Vec::new() } else { others })
    }

    fn let_go(&mut self, at: usize) -> WorldResult {
        self.take(at, &turn::settling(&["ROLLBACK", "DISCARD ALL"]))?;
        self.clients[at].stained = false;
        Ok(())
    }

    fn made(&mut self, at: usize) -> Step {
        let (number, status) = (at, self.clients[at].status);
        let alone = !self.clients.iter().any(|of| of.status != b'I' && of.number != at);
        let footing = Footing { number, status, alone, own: false };
        let (found, stained) = (&self.stage.found, self.clients[at].stained);
        turn::step(found, &mut self.chance, footing, stained)
    }

    fn ask(&mut self, at: usize) -> WorldResult {
        let step = self.made(at);
        self.take(at, &step)?;
        // What is left where Weir does not know is gone by the time somebody can look for it.
        if self.chance.random_range(0..3) == 0 && !self.clients[at].stained {
            self.look(at)?;
        }
        Ok(())
    }

    fn look(&mut self, at: usize) -> WorldResult {
        let step = turn::look(&mut self.chance);
        self.take(at, &step)
    }

    fn ask_again(&mut self, at: usize) -> WorldResult {
        let Some((name, statement)) = self.clients[at].prepared(&mut self.chance) else {
            return Ok(());
        };
        let mut step = Step::default();
        step.again(&name, &statement, self.chance.random_range(1..4));
        self.take(at, &step)
    }

    /// Has both sides do it. After a difference that is written down both begin anew.
    fn take(&mut self, at: usize, step: &Step) -> WorldResult {
        for what in &step.what {
            self.note(at, what.clone());
        }
        let (verdict, said) = self.clients[at].take(step);
        self.note(at, format!("    -> {}", said.brief()));
        match verdict {
            Verdict::Same if said.closed => self.again(at, &[]),
            Verdict::Same => Ok(()),
            Verdict::Excused(what) => {
                *self.excused.entry(what).or_default() += 1;
                self.note(at, format!("    let pass: {what}"));
                self.all_again()
            }
            Verdict::Reported(what) => self.fault(at, &what),
            Verdict::Wrong(what) => {
                self.fault(at, &what)?;
                self.all_again()
            }
        }
    }

    /// Something is wrong, which ends the run unless more is looked for.
    fn fault(&mut self, at: usize, what: &str) -> WorldResult {
        let kind: String = what.chars().filter(|c| !c.is_ascii_digit()).take(KIND).collect();
        let times = self.kinds.entry(kind).or_default();
        *times += 1;
        if *times == 1 {
            let wrong = self.wrong(at, what);
            self.wrongs.push(wrong);
        }
        if self.wrongs.len() < self.wrongs_max { Ok(()) } else { Err("enough is wrong".to_owned()) }
    }

    /// What somebody has left is gone from both servers.
    fn even(&mut self, at: usize) -> WorldResult {
        match self.stage.even(&mut self.admins) {
            Ok(()) => Ok(()),
            Err(what) => self.fault(at, &what),
        }
    }

    fn note(&mut self, at: usize, what: String) {
        self.trail.note(at, &what);
    }

    fn wrong(&self, at: usize, what: &str) -> String {
        let (steps, name) = (self.steps, self.clients[at].name());
        format!("step {steps}, {name}: {what}\n{}", self.trail.shown(at))
    }

    /// Both begin anew, and what they have left is gone.
    fn again(&mut self, at: usize, last: &[u8]) -> WorldResult {
        self.note(at, format!("    leaves behind {} bytes and comes back", last.len()));
        self.clients[at].leave(last);
        self.come_back(at)?;
        self.even(at)
    }

    fn some_again(&mut self, is: impl Fn(&Twins) -> bool) -> WorldResult {
        let mut bereft = Vec::new();
        for of in self.clients.iter_mut().filter(|of| is(of)) {
            of.leave(&[]);
            bereft.push(of.number);
        }
        bereft.into_iter().try_for_each(|at| self.come_back(at))
    }

    /// Behind a difference rows and sequences may differ, too: all begin anew with the same.
    fn all_again(&mut self) -> WorldResult {
        self.some_again(|_| true)?;
        self.even(self.current)?;
        self.stage.level(&mut self.admins)
    }

    fn come_back(&mut self, at: usize) -> WorldResult {
        self.make_room(at)?;
        let new = Twins::new(self.stage, at, &mut self.chance);
        self.clients[at] = new.map_err(|error| self.wrong(at, &error.to_string()))?;
        Ok(())
    }

    /// Goes away: with a goodbye, without one, or in the midst of something that changes no rows.
    fn leave(&mut self, at: usize) -> WorldResult {
        let mut last = Vec::new();
        match self.chance.random_range(0..3) {
            0 => wire::postgres::frontend::put_terminate(&mut last),
            1 => {}
            _ => {
                let step = self.made(at);
                if step.marks.writes || step.marks.stains || self.clients[at].status != b'I' {
                    return Ok(());
                }
                last = piece(&step, &mut self.chance);
                self.note(at, format!("in the midst of {:?}", step.what));
            }
        }
        self.again(at, &last)
    }

    /// A cancel while nothing is under way hits nobody.
    fn late_cancel(&mut self, at: usize) -> WorldResult {
        self.note(at, "a cancel of nothing".to_owned());
        self.clients[at].through.cancel().map_err(|error| self.wrong(at, &error.to_string()))
    }

    /// A cancel of what is under way.
    fn cancelled(&mut self, at: usize) -> WorldResult {
        if self.clients[at].status == b'E' {
            return Ok(());
        }
        let mut step = Step::default();
        step.query(&Statement::new("SELECT pg_sleep(20)").with(|marks| marks.blur = true));
        self.note(at, "a sleep, cancelled".to_owned());
        let of = &mut self.clients[at];
        let mut codes = Vec::new();
        for peer in [&mut of.through, &mut of.beside] {
            let said = cancelled(peer, &step).map_err(|error| error.to_string());
            codes.push(said);
        }
        let of = &mut self.clients[at];
        if of.status == b'T' {
            of.status = b'E';
        }
        match &codes[..] {
            [Ok(a), Ok(b)] if a == b => Ok(()),
            other => self.fault(at, &format!("a cancel: {other:?}")),
        }
    }

    /// Some server connections end. Who had none of its own does not notice.
    fn terminated(&mut self) -> WorldResult {
        let holding = holders(&mut self.console)?;
        let killed = pg_terminated(&mut self.admins[0])?;
        self.note(self.current, format!("{} server connections are ended", killed.len()));
        self.wait_gone(&killed)?;
        self.some_again(|of| holding.contains_key(&of.through.port()))?;
        self.even(self.current)
    }

    /// The server behind Weir stops at once and starts again: whoever had a connection has lost it.
    fn restarted(&mut self) -> WorldResult {
        let holding = holders(&mut self.console)?;
        self.note(self.current, "the server stops at once, and starts again".to_owned());
        self.stage.restart();
        self.admins = self.stage.admins();
        let begun = Instant::now();
        while self.stage.twins(self.clients[0].user, "").is_err() {
            if begun.elapsed() > wait::LONG {
                return self.fault(self.current, "Weir does not find its server again");
            }
        }
        self.some_again(|of| holding.contains_key(&of.through.port()))?;
        self.even(self.current)?;
        // A sequence goes on some numbers later after a crash.
        self.stage.level_sequences(&mut self.admins)
    }

    /// Waits until the server has none of these processes.
    fn wait_gone(&mut self, killed: &[String]) -> WorldResult {
        let pids = killed.join(", ");
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE pid = ANY ('{{{pids}}}')");
        let begun = Instant::now();
        while !rows(&mut self.admins[0], &sql).map_err(|error| error.to_string())?.is_empty() {
            if begun.elapsed() > wait::LONG {
                return Err(format!("not all of {pids} have ended"));
            }
        }
        Ok(())
    }

    /// What was left where Weir does not know is gone at the next rest. So it has to be for the
    /// twin, which therefore begins anew; or the client stays as a ghost that says nothing more.
    fn settle(&mut self, at: usize) -> WorldResult {
        let holds = holders(&mut self.console)?.contains_key(&self.clients[at].through.port());
        match self.chance.random_range(0..4) {
            0 => {
                self.take(at, &turn::settling(&["DISCARD ALL"]))?;
                self.clients[at].stained = false;
                self.even(at)
            }
            1 => {
                let mut last = Vec::new();
                wire::postgres::frontend::put_terminate(&mut last);
                self.again(at, &last)
            }
            2 if !holds => {
                self.make_room(at)?;
                let new = Twins::new(self.stage, at, &mut self.chance);
                let new = new.map_err(|error| self.wrong(at, &error.to_string()))?;
                let old = std::mem::replace(&mut self.clients[at], new);
                let Twins { through, beside, .. } = old;
                drop(beside);
                self.ghosts.push_back(through);
                if self.ghosts.len() > GHOSTS_MAX {
                    self.ghosts.pop_front();
                }
                self.note(at, "    stays as a ghost, and another comes".to_owned());
                self.even(at)
            }
            _ => self.again(at, &[]),
        }
    }
}

/// What a sleep ends with that is cancelled until it ends.
fn cancelled(peer: &mut MessageClient, step: &Step) -> std::io::Result<Option<String>> {
    peer.send(&step.bytes)?;
    loop {
        peer.cancel()?;
        if peer.hears_within(std::time::Duration::from_millis(30))? {
            let said = super::said::hear(peer, step.rounds.len())?;
            return Ok(said.error().map(|line| line.code.clone()));
        }
    }
}

/// Ends some of the users' server processes; their numbers.
fn pg_terminated(admin: &mut Client) -> WorldResult<Vec<String>> {
    let sql = "WITH theirs AS MATERIALIZED (SELECT pid FROM pg_stat_activity \
               WHERE usename IN ('ann', 'bob', 'sue') AND random() < 0.7) \
               SELECT pid FROM theirs WHERE pg_terminate_backend(pid)";
    let rows = rows(admin, sql).map_err(|error| error.to_string())?;
    Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}
