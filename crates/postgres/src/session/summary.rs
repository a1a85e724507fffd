//! What a round of the extended protocol is, as a whole.

use std::rc::Rc;

use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, Execute, Parse, Target, tag};

use crate::database::Database;
use crate::pipeline::names::{Names, name_in};
use crate::pipeline::round::messages;
use crate::plan::{self, Kind, Plan, Scope};

/// Statements that a round closes and is still looked through.
const CLOSED_MAX: usize = 64;

/// What the messages of a round come to.
#[derive(Debug)]
pub enum Summary {
    /// Proven reads, each bound to the unnamed portal and run to its end; the slowest one's plan,
    /// and whether all are steady.
    Reads(Rc<Plan>, bool),
    /// A proven read is prepared or described, nothing is run.
    Prepares(Rc<Plan>),
    /// One statement, which is no proven read, is bound and run once, and perhaps described: with
    /// what it says.
    One(Rc<Plan>, Box<[u8]>),
    /// Anything else; what leaves a portal that is bound and was not run, too: in a transaction a
    /// later round may run it.
    Other,
}

/// Goes through a round of a session whose text is read in `scope`.
pub fn summarise(round: &[u8], names: &Names, database: &Database, scope: Scope) -> Summary {
    let mut seen = Seen {
        names,
        database,
        scope,
        parsed: None,
        closed: Vec::new(),
        bound: None,
        is_unrun: false,
        reads: None,
        one: None,
        steady: true,
        runs: 0,
    };
    for message in messages(round) {
        if seen.message(message.tag, message.body).is_none() {
            return Summary::Other;
        }
    }
    if seen.is_unrun {
        return Summary::Other;
    }
    match (seen.runs, seen.one, seen.reads) {
        (1, Some((plan, sql)), None) => Summary::One(plan, sql.into()),
        (_, None, Some(plan)) if seen.runs > 0 => Summary::Reads(plan, seen.steady),
        (0, None, Some(plan)) => Summary::Prepares(plan),
        _ => Summary::Other,
    }
}

struct Seen<'a> {
    names: &'a Names,
    database: &'a Database,
    scope: Scope,
    /// The statement that this round prepared last.
    parsed: Option<Parse<'a>>,
    /// Those that it has closed.
    closed: Vec<&'a [u8]>,
    /// The plan in the unnamed portal, and what it says.
    bound: Option<Rc<Plan>>,
    /// It was not run.
    is_unrun: bool,
    /// The read that takes longest, as far as is known.
    reads: Option<Rc<Plan>>,
    /// A statement that is not a read.
    one: Option<(Rc<Plan>, &'a [u8])>,
    /// All reads are steady.
    steady: bool,
    runs: u32,
}

impl<'a> Seen<'a> {
    /// `None`: the round is not to be understood here.
    fn message(&mut self, tag: u8, body: &'a [u8]) -> Option<()> {
        match tag {
            tag::PARSE => {
                let parse = Parse::read(body).ok()?;
                // What is refused rides nowhere and is not answered here.
                self.names.refuses(parse.name, parse.rest.len()).is_none().then_some(())?;
                self.parsed = Some(parse);
                self.statement(parse.name).map(|_| ())
            }
            tag::BIND => {
                let bind = Bind::read(body).ok()?;
                bind.portal.is_empty().then_some(())?;
                self.bound = Some(self.statement(bind.statement)?);
                self.is_unrun = true;
                Some(())
            }
            tag::DESCRIBE => match Target::of_describe(body).ok()? {
                Target::Statement(name) => self.statement(name).map(|_| ()),
                Target::Portal(portal) => portal.is_empty().then_some(()),
            },
            tag::EXECUTE => {
                let execute = Execute::read(body).ok()?;
                let all = execute.portal.is_empty() && execute.rows_max == 0;
                (all && self.bound.is_some()).then_some(())?;
                self.runs += 1;
                self.is_unrun = false;
                Some(())
            }
            tag::CLOSE => {
                if let Target::Statement(name) = Target::of_close(body).ok()? {
                    (self.closed.len() < CLOSED_MAX).then_some(())?;
                    self.parsed = self.parsed.filter(|parse| parse.name != name);
                    self.closed.push(name);
                }
                Some(())
            }
            tag::SYNC => Some(()),
            _ => None,
        }
    }

    fn statement(&mut self, name: &[u8]) -> Option<Rc<Plan>> {
        let (plan, sql, types) = match self.parsed {
            Some(parse) if parse.name == name => {
                (self.database.plan(parse.query, self.scope), parse.query, parse.parameters())
            }
            _ if self.closed.contains(&name) => return None,
            _ => {
                let statement = &self.names.get(name)?.statement;
                (self.database.plan_of(statement, self.scope), &*statement.sql, &*statement.types)
            }
        };
        self.database.are_harmless(types).then_some(())?;
        if matches!(plan.kind, Kind::Read) {
            self.steady &= plan.steady;
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

/// Whether a value in a round, or in the text of a statement that it binds, may stand for the time
/// at which its transaction began.
pub fn names_moment(round: &[u8], names: &Names) -> bool {
    let bound = |message: Frame<'_>| {
        let known = name_in(message).and_then(|name| names.get(name));
        known.is_some_and(|named| named.statement.names_moment)
    };
    plan::names_moment(round) || messages(round).any(bound)
}

/// Whether a round is about a name of which an earlier one is still to tell what it stands for.
pub fn is_unsure(round: &[u8], names: &Names) -> bool {
    // The unnamed one is overwritten, whatever it was.
    let mut is_given = false;
    !names.is_settled()
        && messages(round).any(|message| {
            let Some(name) = name_in(message) else { return false };
            is_given |= message.tag == tag::PARSE && name.is_empty();
            !(is_given && name.is_empty()) && names.is_unsure(name)
        })
}
