//! What a round of the extended protocol is, as a whole.

use std::rc::Rc;

use super::compose::Names;
use super::round::{messages, string};
use crate::plan::{Kind, Plan, Scope};
use crate::worker::Database;

/// What the messages of a round come to.
#[derive(Debug)]
pub enum Summary {
    /// Proven reads, each bound to the unnamed portal and run to its end; the slowest one's plan.
    Reads(Rc<Plan>),
    /// A proven read is prepared or described, nothing is run.
    Prepares(Rc<Plan>),
    /// One statement, which is no proven read, is bound and run once, and perhaps described: with
    /// what it says.
    One(Rc<Plan>, Box<[u8]>),
    /// Anything else.
    Other,
}

/// Goes through a round of a session whose text is read in `scope`.
pub fn summarise(round: &[u8], names: &Names, database: &Database, scope: Scope) -> Summary {
    let mut seen =
        Seen { names, database, scope, parsed: None, bound: None, reads: None, one: None, runs: 0 };
    for (tag, body, _) in messages(round) {
        if seen.message(tag, body).is_none() {
            return Summary::Other;
        }
    }
    match (seen.runs, seen.one, seen.reads) {
        (1, Some((plan, sql)), None) => Summary::One(plan, sql.into()),
        (_, None, Some(plan)) if seen.runs > 0 => Summary::Reads(plan),
        (0, None, Some(plan)) => Summary::Prepares(plan),
        _ => Summary::Other,
    }
}

struct Seen<'a> {
    names: &'a Names,
    database: &'a Database,
    scope: Scope,
    /// The statement that this round prepared last.
    parsed: Option<(&'a [u8], &'a [u8], &'a [u8])>,
    /// The plan in the unnamed portal, and what it says.
    bound: Option<Rc<Plan>>,
    /// The read that takes longest, as far as is known.
    reads: Option<Rc<Plan>>,
    /// A statement that is no read.
    one: Option<(Rc<Plan>, &'a [u8])>,
    runs: u32,
}

impl<'a> Seen<'a> {
    /// `None`: the round is not to be understood here.
    fn message(&mut self, tag: u8, body: &'a [u8]) -> Option<()> {
        match tag {
            b'P' => {
                let (name, rest) = string(body)?;
                let (sql, types) = string(rest)?;
                self.parsed = Some((name, sql, types));
                self.statement(name).map(|_| ())
            }
            b'B' => {
                let (portal, rest) = string(body)?;
                let (name, _) = string(rest)?;
                portal.is_empty().then_some(())?;
                self.bound = Some(self.statement(name)?);
                Some(())
            }
            b'D' => match body.split_first()? {
                (b'S', name) => self.statement(string(name)?.0).map(|_| ()),
                (_, portal) => (*portal == [0]).then_some(()),
            },
            b'E' => {
                let (portal, rows) = string(body)?;
                (portal.is_empty() && rows == [0; 4] && self.bound.is_some()).then_some(())?;
                self.runs += 1;
                Some(())
            }
            b'C' | b'S' => Some(()),
            _ => None,
        }
    }

    fn statement(&mut self, name: &[u8]) -> Option<Rc<Plan>> {
        let (plan, sql, types) = match self.parsed {
            Some((parsed, sql, types)) if parsed == name => {
                (self.database.plan(sql, self.scope), sql, types)
            }
            _ => {
                let statement = &self.names.get(name)?.statement;
                (statement.plan(self.database, self.scope), &*statement.sql, &*statement.types)
            }
        };
        self.database.are_harmless(types).then_some(())?;
        if matches!(plan.kind, Kind::Read) {
            let slower = |known: &Rc<Plan>| known.run_time() >= plan.run_time();
            // One that was not run yet is taken for the slowest.
            let known_is_slower = self.reads.as_ref().is_some_and(|known| {
                plan.run_time().is_some() && (known.run_time().is_none() || slower(known))
            });
            if !known_is_slower {
                self.reads = Some(plan.clone());
            }
        } else if self.one.as_ref().is_some_and(|(one, _)| !Rc::ptr_eq(one, &plan)) {
            return None;
        } else {
            self.one = Some((plan.clone(), sql));
        }
        Some(plan)
    }
}
