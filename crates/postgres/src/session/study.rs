//! Long statements, looked into away from the worker while their client waits.

use std::ops::Range;
use std::rc::Rc;

use wire::postgres::frame::{Frame, HEADER_BYTES};
use wire::postgres::frontend::{Parse, tag};

use super::parts::spans;
use super::{End, Session};
use crate::pipeline::round::HELD_MAX;
use crate::pipeline::statements::{Statement, Text};
use crate::plan::{Facts, Plan, Scope, Studied};

/// The message at the start of the inbox, where it is too long to be looked into by a worker.
#[derive(Debug, Default)]
pub(super) enum Study {
    /// It was not looked into.
    #[default]
    Nothing,
    /// It is to be; it has so many bytes.
    Wanted(usize),
    /// It was.
    Done(Rc<Known>),
    /// It can't be, and the server is to say what is wrong with it.
    Unreadable,
}

impl Study {
    /// What is known of the message, where that takes a study.
    ///
    /// # Errors
    /// It is to be looked into first.
    pub fn of(&mut self, message: Frame<'_>) -> Result<Option<Rc<Known>>, Later> {
        let len = message.whole.len();
        match self {
            _ if len <= HELD_MAX || !matches!(message.tag, tag::QUERY | tag::PARSE) => Ok(None),
            Self::Done(known) => Ok(Some(known.clone())),
            Self::Unreadable => Ok(None),
            Self::Nothing | Self::Wanted(_) => {
                *self = Self::Wanted(len);
                Err(Later)
            }
        }
    }
}

/// The message waits for its study.
#[derive(Debug)]
pub(super) struct Later;

/// What a long statement is.
#[derive(Debug)]
pub(super) struct Known {
    generation: u64,
    scope: Scope,
    plan: Rc<Plan>,
    /// Where those of its statements are that are about the session: see [`spans`].
    pub spans: Option<Vec<Range<usize>>>,
    /// What a Parse prepares, which the worker finds by its text for as long as it is here.
    _statement: Option<Rc<Statement>>,
}

/// The same as it comes from the other thread.
struct Looked {
    studied: Studied,
    spans: Option<Vec<Range<usize>>>,
    text: Option<Text>,
}

/// What the message is; `None` where it has no such fields.
fn look(message: &[u8], scope: Scope, facts: &Facts) -> Option<Looked> {
    let body = message.get(HEADER_BYTES..)?;
    let text = match message.first() {
        Some(&tag::PARSE) => {
            let parse = Parse::read(body).ok()?;
            Some(Text::new(parse.query, parse.parameters()))
        }
        _ => None,
    };
    let sql = text.as_ref().map_or(body.strip_suffix(&[0]).unwrap_or(body), |text| text.sql());
    let studied = Studied::of(sql, scope, facts);
    let spans = if text.is_none() { spans(sql, scope.strings) } else { None };
    Some(Looked { studied, spans, text })
}

impl Session {
    /// Looks into the message of `len` bytes at the start of the inbox.
    pub(super) async fn study(&mut self, len: usize) -> Result<Study, End> {
        let (generation, facts) = self.database.facts();
        let scope = self.environment.scope;
        // Nobody else has it meanwhile, and it is too long to be copied.
        let inbox = std::mem::take(&mut self.inbox);
        let looked = self.front.shared.study(move || {
            let looked = look(inbox.get(..len).unwrap_or_default(), scope, &facts);
            (inbox, looked)
        });
        let Some((inbox, looked)) = looked.await else { return Err(End::Gone) };
        self.inbox = inbox;
        let Some(Looked { studied, spans, text }) = looked else { return Ok(Study::Unreadable) };
        let plan = Rc::new(studied.plan());
        let statement = text.map(|text| self.front.statements.studied(text));
        if let Some(statement) = &statement {
            statement.learn(generation, scope, plan.clone());
        }
        Ok(Study::Done(Rc::new(Known { generation, scope, plan, spans, _statement: statement })))
    }

    /// What is known of a long statement by now: what has changed meanwhile leaves nothing proven.
    pub(super) fn plan_of(&self, known: &Known) -> Rc<Plan> {
        if known.generation == self.database.generation() && known.scope == self.environment.scope {
            return known.plan.clone();
        }
        let (_, facts) = self.database.facts();
        Rc::new(known.plan.outdated(&facts, known.scope != self.environment.scope))
    }
}
