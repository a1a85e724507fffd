//! What follows where a server does not bring back what a session began with.

use super::machine::Lease;
use crate::pipeline::settings::{Setting, gives_rights};

/// What becomes of the client behind that.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// The lease goes on.
    GoesOn,
    /// The client parts from the server connection, which nobody uses again, and hears this: it is
    /// given the settings on its next one.
    Parts(Vec<u8>),
    /// The client is closed with the server's error.
    Closes,
}

/// What follows where a server does not bring back what a session began with.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedRestore {
    /// The server is asked to undo in the open transaction what came of it.
    pub undoes: bool,
    /// The setting that the session has no longer.
    pub dropped: Option<Setting>,
    /// What becomes of the client.
    pub then: AfterRefusal,
}

impl Lease {
    /// The server has not brought back these, which it was asked for together; `for_good`: it will
    /// not do so another time either. One by one it tells which of them it refuses.
    pub fn refuse_restore(&mut self, begun: Vec<Setting>, for_good: bool) -> RefusedRestore {
        let is_open = self.is_open();
        if !for_good {
            let then = match is_open || self.is_pinned {
                true => AfterRefusal::Closes,
                // An error of the moment.
                false => AfterRefusal::Parts(self.restore.take_held()),
            };
            return RefusedRestore { undoes: false, dropped: None, then };
        }
        if is_open {
            // What the client asks next waits for that, as for what restores.
            self.restore.ask();
        }
        let dropped = self.restore.refuse(begun);
        let is_needed = dropped.as_ref().is_some_and(|setting| gives_rights(&setting.name));
        let then = if is_needed { AfterRefusal::Closes } else { AfterRefusal::GoesOn };
        RefusedRestore { undoes: is_open, dropped, then }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(names: &[&str]) -> Vec<Setting> {
        names.iter().map(|name| Setting { name: (*name).into(), sql: String::new() }).collect()
    }

    /// A lease that has asked for these.
    fn asked(names: &[&str]) -> Lease {
        let mut lease = Lease::default();
        lease.restore.want(settings(names));
        assert!(lease.restore.next().is_some() && lease.restore.hold(b"ready"));
        lease
    }

    #[test]
    fn an_error_of_the_moment_is_not_the_setting_s_and_is_the_end_of_what_cannot_move() {
        let then = |mut lease: Lease| lease.refuse_restore(settings(&["timezone"]), false).then;
        assert_eq!(then(asked(&["timezone"])), AfterRefusal::Parts(b"ready".to_vec()));
        let pinned = Lease { is_pinned: true, ..asked(&["timezone"]) };
        assert_eq!(then(pinned), AfterRefusal::Closes);
        let mut open = asked(&["timezone"]);
        open.transaction.turn(true, None);
        assert_eq!(then(open), AfterRefusal::Closes);
    }

    #[test]
    fn what_was_refused_for_good_is_found_one_by_one_and_the_session_has_it_no_longer() {
        let mut lease = asked(&["timezone", "role"]);
        let refused = lease.refuse_restore(settings(&["timezone", "role"]), true);
        let goes_on = RefusedRestore { undoes: false, dropped: None, then: AfterRefusal::GoesOn };
        assert_eq!(refused, goes_on);
        let dropped = settings(&["timezone"]).pop();
        let refused = lease.refuse_restore(settings(&["timezone"]), true);
        assert_eq!(refused, RefusedRestore { dropped, ..goes_on });
        let refused = lease.refuse_restore(settings(&["role"]), true);
        assert_eq!(refused.then, AfterRefusal::Closes, "it would go on with other rights");
    }

    #[test]
    fn within_a_transaction_the_server_is_asked_to_undo_what_came_of_it() {
        let mut lease = asked(&["timezone"]);
        lease.transaction.turn(true, None);
        let refused = lease.refuse_restore(settings(&["timezone"]), true);
        assert!(refused.undoes && refused.then == AfterRefusal::GoesOn);
        assert!(!lease.takes_more(false), "the next round waits for that");
    }
}
