//! Long statements, looked into away from the worker while their client waits.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use wire::postgres::frame::{Frame, HEADER_BYTES};
use wire::postgres::frontend::{Parse, tag};

use super::round::HELD_MAX;
use super::spans::spans;
use super::statements::{Statement, Statements, Text};
use crate::plan::{Facts, Plan, Scope, Studied};

/// The message at the start of the inbox, where it is too long to be looked into by a worker.
#[derive(Debug, Default)]
pub enum Study {
    /// It was not looked into.
    #[default]
    Nothing,
    /// It is to be; it has so many bytes.
    Wanted(usize),
    /// It was looked into.
    Done(Rc<LongText>),
    /// It can't be, and the server is to say what is wrong with it.
    Unreadable,
}

impl Study {
    /// What is known of the message, where that takes a study.
    ///
    /// # Errors
    /// It is to be looked into first.
    pub fn of(&mut self, message: Frame<'_>) -> Result<Option<Rc<LongText>>, Later> {
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
pub struct Later;

/// A long statement that was looked into.
#[derive(Debug)]
pub struct LongText {
    generation: u64,
    scope: Scope,
    plan: Rc<Plan>,
    /// Where those of its statements are that are about the session: see [`spans`].
    pub spans: Option<Vec<Range<usize>>>,
    /// What a Parse prepares, which the worker finds by its text for as long as it is here.
    _statement: Option<Rc<Statement>>,
}

/// A long statement as it comes from the other thread.
pub struct StudiedText {
    studied: Studied,
    spans: Option<Vec<Range<usize>>>,
    text: Option<Text>,
}

/// What a message of a long statement is; `None` where it has no such fields.
pub fn look(message: &[u8], scope: Scope, facts: &Facts) -> Option<StudiedText> {
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
    Some(StudiedText { studied, spans, text })
}

impl StudiedText {
    /// What the worker keeps of it, by facts of this generation and for text that is read in this
    /// scope.
    pub fn keep(self, generation: u64, scope: Scope, statements: &Statements) -> LongText {
        let Self { studied, spans, text } = self;
        let plan = Rc::new(studied.plan());
        let statement = text.map(|text| statements.studied(text));
        if let Some(statement) = &statement {
            statement.learn(generation, scope, plan.clone());
        }
        LongText { generation, scope, plan, spans, _statement: statement }
    }
}

impl LongText {
    /// Its plan by now: what has changed since it was looked into leaves nothing proven.
    pub fn plan(
        &self,
        generation: u64,
        scope: Scope,
        facts: impl FnOnce() -> Arc<Facts>,
    ) -> Rc<Plan> {
        if self.generation == generation && self.scope == scope {
            return self.plan.clone();
        }
        Rc::new(self.plan.outdated(&facts(), self.scope != scope))
    }
}

#[cfg(test)]
#[path = "study_tests.rs"]
mod tests;
