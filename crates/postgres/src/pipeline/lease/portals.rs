//! What stands in a client's portals.
//!
//! What was bound last counts for the Execute that follows it at once. A LISTEN, an UNLISTEN and a
//! DEALLOCATE that the server does not get stand in the unnamed portal, until something else is
//! bound to it or the round ends.

use std::rc::Rc;

use super::listening::DivertedChange;
use crate::pipeline::effect;
use crate::plan::Plan;

/// The name of the unnamed portal.
pub const UNNAMED: &[u8] = b"";

/// What the Bind that went out last has bound.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
enum LastBind {
    /// Nothing, or what is not known.
    #[default]
    Nothing,
    /// A statement, which no Execute has followed.
    Statement(Rc<Plan>, Box<[u8]>),
    /// A statement, which some portal's Execute has followed.
    Followed(Rc<Plan>),
}

/// What was bound to the unnamed portal and the server did not get.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
enum DivertedBind {
    /// A LISTEN or UNLISTEN; `None` once it was executed.
    Listen(Option<DivertedChange>),
    /// The DEALLOCATE of a statement that has another name there.
    Deallocate(Box<str>),
}

/// The Execute of what the server did not get.
#[derive(Debug, PartialEq, Eq)]
pub enum DivertedExecute<'a> {
    /// It changes what the client listens to, if its round holds.
    Listen(DivertedChange),
    /// The portal was executed before, which a server refuses to do again.
    HasRun,
    /// The statement of this name is forgotten.
    Deallocate(&'a str),
}

/// What stands in a client's portals.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Portals {
    last: LastBind,
    diverted: Option<DivertedBind>,
}

impl Portals {
    /// A statement with this plan, where that is known, is bound to a portal on the server.
    pub fn bind(&mut self, plan: Option<Rc<Plan>>, portal: Option<&[u8]>) {
        self.last = match plan.zip(portal) {
            Some((plan, portal)) => LastBind::Statement(plan, portal.into()),
            None => LastBind::Nothing,
        };
    }

    /// The server executes a portal; what it is sure to run as a whole, as it was just bound.
    pub fn execute(&mut self, portal: Option<&[u8]>) -> Option<Rc<Plan>> {
        let LastBind::Statement(plan, bound) = &self.last else { return None };
        let (plan, is_its) = (plan.clone(), portal == Some(&**bound));
        self.last = LastBind::Followed(plan.clone());
        is_its.then_some(plan)
    }

    /// Whether what was bound last forgets all prepared statements.
    pub fn forgets(&self) -> bool {
        match &self.last {
            LastBind::Nothing => false,
            LastBind::Statement(plan, _) | LastBind::Followed(plan) => effect::forgets(plan),
        }
    }

    /// The round has ended.
    pub fn end_round(&mut self) {
        self.last = LastBind::Nothing;
    }

    /// Whether this portal is one whose Bind the server did not get.
    pub fn is_diverted(&self, portal: &[u8]) -> bool {
        portal == UNNAMED && self.diverted.is_some()
    }

    /// A LISTEN or UNLISTEN that the server does not get is bound to the unnamed portal.
    pub fn divert_listen(&mut self, change: DivertedChange) {
        self.diverted = Some(DivertedBind::Listen(Some(change)));
    }

    /// So is the DEALLOCATE of the statement of this name.
    pub fn divert_deallocate(&mut self, name: &str) {
        self.diverted = Some(DivertedBind::Deallocate(name.into()));
    }

    /// A portal is executed; what that does where the server did not get its Bind.
    pub fn execute_diverted(&mut self, portal: &[u8]) -> Option<DivertedExecute<'_>> {
        match self.diverted.as_mut().filter(|_| portal == UNNAMED)? {
            DivertedBind::Listen(change) => {
                Some(change.take().map_or(DivertedExecute::HasRun, DivertedExecute::Listen))
            }
            DivertedBind::Deallocate(name) => Some(DivertedExecute::Deallocate(name)),
        }
    }

    /// The unnamed portal is gone; what was to be listened to, or not, and was not executed.
    pub fn close_unnamed(&mut self) -> Option<DivertedChange> {
        match self.diverted.take() {
            Some(DivertedBind::Listen(change)) => change,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::lease::listening::ListenChange;
    use crate::plan::tests::plan;

    fn listen() -> DivertedChange {
        DivertedChange { what: ListenChange::To("a".into()), joined: true }
    }

    #[test]
    fn what_was_bound_last_is_run_as_it_is_by_the_execute_behind_it_alone() {
        let mut portals = Portals::default();
        let draws = plan("SELECT 1");
        assert!(portals.execute(Some(b"")).is_none());
        portals.bind(Some(draws.clone()), Some(b""));
        assert!(portals.execute(Some(b"")).is_some_and(|plan| Rc::ptr_eq(&plan, &draws)));
        assert!(portals.execute(Some(b"")).is_none());
        // Another portal's, or one that can't be read, is not its.
        for other in [Some(&b"p"[..]), None] {
            portals.bind(Some(draws.clone()), Some(b""));
            assert!(portals.execute(other).is_none() && portals.execute(Some(b"")).is_none());
        }
        // Of what is not known nothing is.
        portals.bind(Some(draws.clone()), Some(b"p"));
        portals.bind(None, Some(b"p"));
        assert!(portals.execute(Some(b"p")).is_none());
        portals.bind(Some(draws), Some(b"p"));
        portals.end_round();
        assert!(portals.execute(Some(b"p")).is_none());
    }

    #[test]
    fn what_forgets_all_statements_counts_until_something_else_is_bound_or_the_round_ends() {
        let mut portals = Portals::default();
        assert!(!portals.forgets());
        portals.bind(Some(plan("DISCARD ALL")), Some(b"p"));
        assert!(portals.forgets());
        portals.execute(Some(b""));
        portals.execute(Some(b"p"));
        assert!(portals.forgets(), "it may be executed again");
        portals.bind(Some(plan("SELECT 1")), Some(b"q"));
        assert!(!portals.forgets());
        portals.bind(Some(plan("DEALLOCATE ALL")), Some(b""));
        portals.end_round();
        assert!(!portals.forgets());
    }

    #[test]
    fn what_the_server_did_not_get_is_executed_in_its_own_portal_once() {
        let mut portals = Portals::default();
        assert!(!portals.is_diverted(b"") && portals.execute_diverted(b"").is_none());
        portals.divert_listen(listen());
        assert!(portals.is_diverted(b"") && !portals.is_diverted(b"p"));
        assert_eq!(portals.execute_diverted(b"p"), None);
        assert_eq!(portals.execute_diverted(b""), Some(DivertedExecute::Listen(listen())));
        assert_eq!(portals.execute_diverted(b""), Some(DivertedExecute::HasRun));
        assert!(portals.is_diverted(b""));
        assert_eq!(portals.close_unnamed(), None, "it holds or not with its round");
        assert!(!portals.is_diverted(b"") && portals.execute_diverted(b"").is_none());
        portals.divert_listen(listen());
        assert_eq!(portals.close_unnamed(), Some(listen()), "it was not executed");
    }

    #[test]
    fn a_deallocate_that_the_server_did_not_get_is_done_as_often_as_it_is_executed() {
        let mut portals = Portals::default();
        portals.divert_deallocate("s");
        assert_eq!(portals.execute_diverted(b"p"), None);
        for _ in 0..2 {
            assert_eq!(portals.execute_diverted(b""), Some(DivertedExecute::Deallocate("s")));
        }
        assert_eq!(portals.close_unnamed(), None);
        assert!(!portals.is_diverted(b""));
    }

    #[test]
    fn another_portal_s_statement_counts_beside_what_the_server_did_not_get() {
        let mut portals = Portals::default();
        portals.divert_listen(listen());
        portals.bind(Some(plan("DISCARD ALL")), Some(b"p"));
        assert!(portals.is_diverted(b"") && portals.forgets());
        assert!(portals.execute(Some(b"p")).is_some());
        assert_eq!(portals.execute_diverted(b""), Some(DivertedExecute::Listen(listen())));
    }
}
