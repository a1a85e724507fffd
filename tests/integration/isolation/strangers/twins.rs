//! A client through Weir and its twin, which is asked the same of a server directly.

use std::collections::BTreeMap;
use std::io;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::said::{StepReply, Verdict, compare, hear, is_end};
use super::stage::{Stage, USERS};
use super::step::{Statement, Step};
use rig::postgres::MessageClient;

/// What is reported and has nothing to do with the session.
const NOT_COMPARED: [&str; 1] = ["server_version"];

/// With what a client begins, as `options`.
const OPTIONS: [&str; 8] = [
    "",
    "",
    "",
    "-c datestyle=ISO,DMY",
    "-c TimeZone=Asia/Tokyo -c search_path=tenant_1,public",
    "-c client_encoding=LATIN1 -c app.tenant=two",
    "-c app.tenant=one -c standard_conforming_strings=off",
    "-c search_path=tenant_2,public -c IntervalStyle=iso_8601",
];

/// A client and its twin.
pub struct Twins {
    pub number: usize,
    pub user: &'static str,
    pub through: MessageClient,
    pub beside: MessageClient,
    /// The status byte of the last ReadyForQuery.
    pub status: u8,
    /// Something of it may be left that Weir takes away and a server does not.
    pub stained: bool,
    /// Changes with whatever may have changed how a statement is read.
    epoch: u64,
    /// What it has prepared by name, and when.
    named: BTreeMap<String, (Statement, u64)>,
    options: &'static str,
}

impl Twins {
    pub fn new(stage: &Stage, number: usize, chance: &mut StdRng) -> io::Result<Self> {
        let user = USERS[number % USERS.len()];
        let options = *OPTIONS.choose(chance).expect("there are some");
        let [through, beside] = stage.twins(user, options)?;
        let (stained, epoch, named) = Default::default();
        Ok(Self { number, user, through, beside, status: b'I', stained, epoch, named, options })
    }

    /// How it is told from the others.
    pub fn name(&self) -> String {
        format!("client {} ({} {})", self.number, self.user, self.options)
    }

    /// Sends a step to both, and holds what they say against each other.
    pub fn take(&mut self, step: &Step) -> (Verdict, StepReply) {
        let said = [&mut self.through, &mut self.beside].map(|peer| ask(peer, step));
        let [through, beside] = match said {
            [Ok(through), Ok(beside)] => [through, beside],
            [Err(error), _] => {
                return (Verdict::Wrong(format!("through Weir: {error}")), StepReply::default());
            }
            [_, Err(error)] => {
                return (Verdict::Wrong(format!("directly: {error}")), StepReply::default());
            }
        };
        self.status = beside.status.unwrap_or(self.status);
        self.remember(step, &beside);
        let verdict = match compare(step, &through, &beside) {
            Verdict::Same if !beside.closed => self.reported(),
            verdict => verdict,
        };
        (verdict, through)
    }

    /// What was reported of the session has to be the same as well.
    fn reported(&mut self) -> Verdict {
        let differs = |(name, value): &(&String, &String)| {
            self.through.reported.get(*name) != Some(*value) && !NOT_COMPARED.contains(&&***name)
        };
        let differing = self.beside.reported.iter().find(differs);
        if let Some((name, value)) = differing {
            let through = self.through.reported.insert(name.clone(), value.clone());
            let through = through.unwrap_or_default();
            let wrong = format!("{name} is reported as {through:?}, and directly as {value:?}");
            return Verdict::Reported(wrong);
        }
        Verdict::Same
    }

    fn remember(&mut self, step: &Step, said: &StepReply) {
        for (name, statement) in &step.prepares {
            self.named.remove(name);
            if said.error().is_none() {
                self.named.insert(name.clone(), (statement.clone(), self.epoch));
            }
        }
        if step.marks.sways || step.marks.stains || said.error().is_some() {
            self.epoch += 1;
        }
        self.stained |= step.marks.stains;
    }

    /// A statement that it has prepared, and may use as it was.
    pub fn prepared(&self, chance: &mut StdRng) -> Option<(String, Statement)> {
        // A letter beyond ASCII depends on the encoding under which it is parsed.
        let is_plain = |of: &Statement| !of.marks.depends && !of.marks.blur && of.sql.is_ascii();
        let fit = self.named.iter().filter(|(_, (of, at))| is_plain(of) || *at == self.epoch);
        let fit: Vec<_> = fit.map(|(name, (of, _))| (name.clone(), of.clone())).collect();
        fit.choose(chance).cloned()
    }

    /// Both go away, behind these bytes.
    pub fn leave(&mut self, last: &[u8]) {
        for peer in [&mut self.through, &mut self.beside] {
            let _ = peer.send(last);
            peer.cut();
        }
    }
}

/// Asks one side. Where the connection ends while something is sent, what was said is still read.
fn ask(peer: &mut MessageClient, step: &Step) -> io::Result<StepReply> {
    match peer.send(&step.bytes) {
        Err(error) if !is_end(&error) => Err(error),
        _ => hear(peer, step.rounds.len()),
    }
}

/// Some of a step's bytes: the connection breaks within them.
pub fn piece(step: &Step, chance: &mut StdRng) -> Vec<u8> {
    step.bytes[..chance.random_range(0..=step.bytes.len())].to_vec()
}
