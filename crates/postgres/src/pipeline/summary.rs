//! What a round of the extended protocol is, as a whole.

use std::rc::Rc;

use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, Execute, Parse, Target, tag};

use super::judgement::Plans;
use super::names::{Names, name_in};
use super::round::messages;
use super::statements::Statement;
use crate::plan::{self, Kind, Plan, Scope};

/// Statements that a round closes and is still looked through.
const CLOSED_MAX: usize = 64;

/// What the messages of a round come to.
#[derive(Debug, Clone)]
pub enum Summary {
    /// A text that came as a Query.
    Query(Rc<Plan>),
    /// Proven reads, each bound to the unnamed portal and run to its end; the slowest one's plan,
    /// and whether all are steady.
    Reads(Rc<Plan>, bool),
    /// A proven read is prepared or described, nothing is run.
    Prepares(Rc<Plan>),
    /// One statement, which is no proven read, is bound and run once, and perhaps described. It is
    /// the one that the round prepares, unless it was prepared before.
    One(Rc<Plan>, Option<Rc<Statement>>),
    /// Anything else; what leaves a portal that is bound and was not run, too: in a transaction a
    /// later round may run it.
    Other,
}

/// A summary, and what it was made of.
#[derive(Debug, Clone)]
pub struct Summarised {
    /// What the messages come to.
    pub summary: Summary,
    /// The plan of the only text in the round.
    pub text_plan: Option<Rc<Plan>>,
    /// What the client's names stood for was asked.
    pub rests_on_names: bool,
    /// The plans of what the round runs are more than the summary has.
    has_more_plans: bool,
}

impl Summarised {
    /// Of a Query whose text has this plan.
    pub fn of_query(plan: Rc<Plan>) -> Self {
        let (rests_on_names, has_more_plans) = Default::default();
        let text_plan = Some(plan.clone());
        Self { summary: Summary::Query(plan), text_plan, rests_on_names, has_more_plans }
    }

    /// Whether a server may have refuted one of the plans since.
    pub fn is_refuted(&self) -> bool {
        self.has_more_plans || self.summary.plan().is_some_and(|plan| plan.is_refuted())
    }
}

impl Summary {
    /// The plan of what is run, or prepared; of several reads that of the slowest.
    pub fn plan(&self) -> Option<&Rc<Plan>> {
        match self {
            Self::Query(plan)
            | Self::Reads(plan, _)
            | Self::Prepares(plan)
            | Self::One(plan, _) => Some(plan),
            Self::Other => None,
        }
    }
}

/// Goes through a round of a session whose text is read in `scope`.
pub fn summarise(round: &[u8], names: &Names, plans: &impl Plans, scope: Scope) -> Summarised {
    let mut summariser = Summariser {
        names,
        plans,
        scope,
        parsed: None,
        parsed_plan: None,
        parses: 0,
        closed: Vec::new(),
        bound: None,
        is_unrun: false,
        reads: None,
        has_more_plans: false,
        one: None,
        steady: true,
        runs: 0,
        rests_on_names: false,
    };
    let understood =
        messages(round).all(|message| summariser.message(message.tag, message.body).is_some());
    summariser.end(understood)
}

struct Summariser<'a, P> {
    names: &'a Names,
    plans: &'a P,
    scope: Scope,
    /// The statement that this round prepared last.
    parsed: Option<Parse<'a>>,
    /// Its plan, once that was looked up.
    parsed_plan: Option<Rc<Plan>>,
    /// Statements that the round prepares.
    parses: u32,
    /// Those that it has closed.
    closed: Vec<&'a [u8]>,
    /// The plan in the unnamed portal, and what it says.
    bound: Option<Rc<Plan>>,
    /// It was not run.
    is_unrun: bool,
    /// The read that takes longest, as far as is known.
    reads: Option<Rc<Plan>>,
    /// There was another read beside that.
    has_more_plans: bool,
    /// A statement that is not a read; itself, where it was prepared before.
    one: Option<(Rc<Plan>, Option<Rc<Statement>>)>,
    /// All reads are steady.
    steady: bool,
    runs: u32,
    rests_on_names: bool,
}

impl<'a, P: Plans> Summariser<'a, P> {
    fn end(self, understood: bool) -> Summarised {
        let summary = match (self.runs, self.one, self.reads) {
            _ if !understood || self.is_unrun => Summary::Other,
            (1, Some((plan, statement)), None) => Summary::One(plan, statement),
            (runs, None, Some(plan)) if runs > 0 => Summary::Reads(plan, self.steady),
            (0, None, Some(plan)) => Summary::Prepares(plan),
            _ => Summary::Other,
        };
        Summarised {
            summary,
            text_plan: self.parsed_plan.filter(|_| self.parses == 1),
            rests_on_names: self.rests_on_names,
            has_more_plans: self.has_more_plans,
        }
    }

    /// `None`: the round is not to be understood here.
    fn message(&mut self, tag: u8, body: &'a [u8]) -> Option<()> {
        match tag {
            tag::PARSE => {
                let parse = Parse::read(body).ok()?;
                self.rests_on_names |= !parse.name.is_empty();
                // What is refused rides nowhere and is not answered here.
                self.names.refuses(parse.name, parse.rest.len()).is_none().then_some(())?;
                self.parsed = Some(parse);
                self.parsed_plan = None;
                self.parses += 1;
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
        let (plan, prepared, types) = match self.parsed {
            Some(parse) if parse.name == name => {
                let look_up = || self.plans.plan(parse.query, self.scope);
                let plan = self.parsed_plan.get_or_insert_with(look_up).clone();
                (plan, None, parse.parameters())
            }
            _ if self.closed.contains(&name) => return None,
            _ => {
                self.rests_on_names = true;
                let statement = &self.names.get(name)?.statement;
                let plan = self.plans.plan_of(statement, self.scope);
                (plan, Some(statement), &*statement.types)
            }
        };
        self.plans.are_harmless(types).then_some(())?;
        if matches!(plan.kind, Kind::Read) {
            self.steady &= plan.steady;
            self.has_more_plans |= self.reads.as_ref().is_some_and(|of| !Rc::ptr_eq(of, &plan));
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
            self.one = Some((plan.clone(), prepared.cloned()));
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

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
