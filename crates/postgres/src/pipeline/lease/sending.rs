//! The session and its server connection, as a lease sees them when the client's messages go out.

use std::ops::DerefMut;
use std::rc::Rc;

use wire::postgres::backend::Status;
use wire::postgres::frame::Frame;

use super::listening::{DivertedChange, ListenChange};
use super::note::Departing;
use crate::pipeline::compose::Composer;
use crate::pipeline::names::Names;
use crate::pipeline::script::Script;
use crate::pipeline::statements::Statement;
use crate::plan::Plan;

/// What came of joining a channel for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// It is not confirmed that a server listens there.
    Waits,
    /// A server listens there.
    Confirmed {
        /// The client did not listen to it before.
        joined: bool,
    },
    /// No server does so for Weir, and the client has left it.
    Refused,
}

/// What messages are written with, beside what the session knows.
#[derive(Debug)]
pub struct Composing<'a> {
    /// Statements whose Parse went out in this round.
    pub fresh: &'a mut Vec<u64>,
    /// A transaction is open that may have failed by what is under way.
    pub may_have_failed: bool,
}

/// The session whose messages go out, with its server connection.
pub trait Sending: Departing {
    /// The longest message that the client may send.
    fn message_max(&self) -> usize;
    /// Whether the client keeps its connection beyond a transaction.
    fn is_pinned(&self) -> bool;
    /// Whether it keeps its connection whatever it has done there.
    fn is_pinned_by_mode(&self) -> bool;
    /// Whether the text of a message is known: one that is too long to be looked into at once has
    /// to be studied first.
    fn is_studied(&mut self, message: Frame<'_>) -> bool;
    /// A message is dealt with, and what is known of it is of no use any more.
    fn forget_study(&mut self);
    /// The plan of a Query that is studied.
    fn plan(&self, query: Frame<'_>) -> Rc<Plan>;
    /// Those of its statements that change settings or what is listened to, where it has several
    /// and they are known.
    fn parts(&self, plan: &Plan, query: Frame<'_>) -> Option<Vec<Rc<Plan>>>;
    /// The plan of a prepared statement.
    fn plan_of(&self, statement: &Statement) -> Rc<Plan>;
    /// Whether a Query may be prepared as a point statement; its values are lifted out of it.
    fn lifts(&self, plan: &Plan, query: Frame<'_>) -> bool;

    /// What a statement changes of what the client listens to that Weir can change itself.
    fn listening(&mut self, plan: &Plan) -> Option<ListenChange>;
    /// Joins a channel for the client, or looks what came of that.
    fn join(&mut self, channel: &str) -> Joining;
    /// Whether a channel is joined and it is not confirmed that a server listens there.
    fn is_joining(&self) -> bool;
    /// What was to be listened to, or not, and was not executed.
    fn undo_listen(&mut self, change: DivertedChange);

    /// The client's names for statements, which nothing else uses meanwhile.
    fn names(&self) -> impl DerefMut<Target = Names> + '_;
    /// The client hears this at once.
    fn tell(&self, said: &[u8]);

    /// What the last ReadyForQuery said.
    fn status(&self) -> Status;
    /// Whether the server is to take more before anything is added.
    fn is_full(&self) -> bool;
    /// Whether it has not taken all that was written for it.
    fn has_unsent(&self) -> bool;
    /// The answers that are under way.
    fn script(&mut self) -> &mut Script;
    /// What is to be sent.
    fn out(&mut self) -> &mut Vec<u8>;
    /// Has messages written for the server.
    fn compose<T>(
        &mut self,
        with: Composing<'_>,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T;
    /// A Parse was written for the server: what is known of its text holds for its statement.
    fn learn(&mut self, parse: Frame<'_>);
    /// Has the values that were lifted last written as a point statement, up to its Sync.
    fn compose_point(&mut self, with: Composing<'_>);
}
