//! One InfluxDB that has everything, and a gateway before sets that share it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rig::http::Message;
use rig::influxd::Influxd;
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use super::meant::is_meant;
use super::plays::{Block, Play};
use super::same::{is_same, sorted};
use crate::cluster::{sets, start_applied};
use crate::influxql::script::{self, Expected, Step};
use crate::influxql::sides;

/// What runs as a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    Influxd,
    /// A Weir with a store.
    Store,
}

enum Member {
    Influxd(Box<Influxd>),
    Store(Box<Weir>),
}

impl Member {
    fn start(kind: MemberKind) -> Self {
        match kind {
            MemberKind::Influxd => Self::Influxd(Box::new(Influxd::start_with(&SETTINGS))),
            MemberKind::Store => Self::Store(Box::new(Setup::new().embedded().start())),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Influxd(server) => server.url(),
            Self::Store(weir) => format!("http://{}", weir.http),
        }
    }

    fn kill(&mut self) {
        match self {
            Self::Influxd(server) => server.kill(),
            Self::Store(weir) => weir.kill(),
        }
    }

    fn start_again(&mut self) {
        match self {
            Self::Influxd(server) => server.start_again(),
            Self::Store(weir) => weir.start_again(),
        }
    }
}

/// A disk that many tests share takes its time for the shards of five years.
const SETTINGS: [(&str, &str); 2] =
    [("INFLUXDB_DATA_INDEX_VERSION", script::INDEX), ("INFLUXDB_COORDINATOR_WRITE_TIMEOUT", "2m")];

/// A query that the cluster answers otherwise than one server.
#[derive(Debug)]
pub struct Difference {
    /// The name of the play that has the query.
    pub play: String,
    pub step: Step,
    /// The lines that a world has; none of a file.
    pub lines: Vec<String>,
    theirs: Value,
    ours: Value,
}

impl Difference {
    pub fn text(&self) -> String {
        let Self { play, step, theirs, ours, .. } = self;
        let text = sides::described(step);
        format!("{play}:{}: {text}\n  InfluxDB: {theirs}\n  cluster:  {ours}", step.line)
    }
}

pub struct Cluster {
    whole: Influxd,
    members: Vec<(String, Member)>,
    weir: Weir,
    /// The member that does not run, which nobody waits for.
    away: Mutex<Option<String>>,
    /// Whether a member is being killed: an answer may be an error now.
    is_dying: AtomicBool,
    asked: AtomicUsize,
    failed: AtomicUsize,
    meant: AtomicUsize,
}

impl Cluster {
    /// Sets as `name: member member`, and the tables that say where points lie.
    pub fn start(of: &[&str], kind: MemberKind, placement: &str) -> Self {
        let names = of.iter().flat_map(|set| set.split_once(": ").unwrap().1.split(' '));
        let members: Vec<(String, Member)> =
            names.map(|name| (name.to_owned(), Member::start(kind))).collect();
        let mut setup = Setup::new();
        for (name, member) in &members {
            setup = setup.backend(name, &member.url());
        }
        Self {
            whole: Influxd::start_with(&SETTINGS),
            weir: start_applied(setup.table(&(sets(of) + placement))),
            members,
            away: Mutex::default(),
            is_dying: AtomicBool::default(),
            asked: AtomicUsize::default(),
            failed: AtomicUsize::default(),
            meant: AtomicUsize::default(),
        }
    }

    /// Makes the databases; all members have to be there.
    pub fn create(&self, plays: &[Play]) {
        for create in plays.iter().flat_map(|play| &play.creates) {
            self.whole.ask(create, &[]);
            let created = self.weir.query(create, &[]).json();
            assert!(created["results"][0]["error"].is_null(), "{create}: {created}");
        }
        for play in plays {
            let is_known = || self.weir.write(&play.db, "").status() != 404;
            wait::until("the gateway to know the database", wait::LONG, is_known);
        }
    }

    /// Plays each in turn with the others, so that all of one turn's writes are waited for once.
    pub fn play(&self, plays: &[&Play]) -> Vec<Difference> {
        let mut found = Vec::new();
        let turns = plays.iter().map(|play| play.blocks.len()).max().unwrap_or(0);
        for turn in 0..turns {
            let blocks: Vec<(&Play, &Block)> =
                plays.iter().filter_map(|play| Some((*play, play.blocks.get(turn)?))).collect();
            blocks.iter().flat_map(|(_, block)| &block.writes).for_each(|step| self.write(step));
            self.wait_delivered();
            for (play, block) in blocks {
                found.extend(block.queries.iter().filter_map(|step| self.compare(play, step)));
            }
        }
        found
    }

    /// Plays a quarter with all members, one in which a member is killed amid the queries, one
    /// without it, and one after its return.
    pub fn play_over_a_death(&mut self, plays: &[Play]) -> Vec<Difference> {
        let quarter = |n: usize| plays.iter().skip(n).step_by(4).collect::<Vec<_>>();
        let mut found = self.play(&quarter(0));
        let (name, mut member) = self.members.pop().expect("a cluster has members");
        let this = &*self;
        let second = quarter(1);
        let half = second.iter().map(|play| play.queries()).sum::<usize>() / 2;
        let half = half + this.asked.load(Ordering::SeqCst);
        let amid = thread::scope(|scope| {
            scope.spawn(|| {
                let is_amid = || this.asked.load(Ordering::SeqCst) >= half;
                wait::until("queries are amid", wait::LONG, is_amid);
                this.is_dying.store(true, Ordering::SeqCst);
                this.set_away(Some(name.clone()));
                member.kill();
                this.is_dying.store(false, Ordering::SeqCst);
            });
            this.play(&second)
        });
        found.extend(amid);
        found.extend(self.play(&quarter(2)));
        member.start_again();
        self.set_away(None);
        self.members.push((name, member));
        found.extend(self.play(&quarter(3)));
        found
    }

    fn set_away(&self, name: Option<String>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    fn write(&self, step: &Step) {
        let request = sides::request(step);
        let (theirs, ours) = (self.whole.send(&request), self.weir.send(&request));
        let text = sides::described(step);
        assert_eq!(theirs.status(), ours.status(), "{text}: {} {}", theirs.text(), ours.text());
    }

    /// Waits until every member that runs has everything.
    fn wait_delivered(&self) {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner).clone();
        wait::until("every member has everything", wait::LONG, || {
            let accounts = self.weir.accounts();
            accounts.iter().all(|of| of.waiting == 0 || away.as_ref() == Some(&of.name))
        });
    }

    /// Sends one query to both; gives what differs and should not.
    fn compare(&self, play: &Play, step: &Step) -> Option<Difference> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let request = sides::request(step);
        let theirs = self.whole.send(&request);
        let may_fail = self.is_dying.load(Ordering::SeqCst);
        let ours = self.weir.send(&request);
        let may_fail = may_fail || self.is_dying.load(Ordering::SeqCst);
        let document = |answer: &Message| match step.expected {
            Expected::Unordered => sorted(answer.json()),
            _ => answer.json(),
        };
        let has_status = theirs.status() == ours.status();
        let (theirs, ours) = (document(&theirs), document(&ours));
        if has_status && is_same(&theirs, &ours) {
            return None;
        }
        if is_meant(step, (&theirs, &ours), play.is_by_chance) {
            self.meant.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        if may_fail && is_error(&ours) {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        let (play, lines) = (play.name.clone(), play.lines.clone());
        Some(Difference { play, step: step.clone(), lines, theirs, ours })
    }

    /// What differs where these are all lines that there are.
    pub fn compare_over(&self, db: &str, lines: &[String], step: &Step) -> Option<Difference> {
        let action = script::Action::Write { lines: lines.concat(), parameters: String::new() };
        let write = Step { db: db.to_owned(), action, ..step.clone() };
        let mut play = Play::of(db, db, [write, Step { db: db.to_owned(), ..step.clone() }]);
        play.is_by_chance = true;
        self.create(std::slice::from_ref(&play));
        self.play(&[&play]).pop()
    }

    /// Queries that were asked; of them, those that failed as a member was killed, and those whose
    /// answers are meant to differ.
    pub fn asked(&self) -> (usize, usize, usize) {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (of(&self.asked), of(&self.failed), of(&self.meant))
    }

    /// How many queries went which way.
    pub fn ways(&self) -> BTreeMap<&'static str, f64> {
        let metrics = self.weir.metrics();
        let of = |way| metrics.sum("weir_influx_cluster_queries_total", &[("way", way)]);
        ["passed", "joined", "merged", "fetched"].into_iter().map(|way| (way, of(way))).collect()
    }
}

fn is_error(document: &Value) -> bool {
    let results = document["results"].as_array().into_iter().flatten();
    !document["error"].is_null() || results.into_iter().any(|result| !result["error"].is_null())
}
