//! Whether what a client sends may be read in another way than what others send.
//!
//! A transaction may have settings of its own, as `search_path`, by which the server reads names
//! and literals. What was prepared meanwhile says nothing of what it would be outside: see
//! [`Effects::alters_session`](crate::plan::Effects::alters_session). This outlives the
//! transaction for as long as rounds behind its end are under way, since they went out before that
//! was known.

/// Portals of statements that may change how what follows them is read.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct SwayingPortals {
    unnamed: bool,
    named: bool,
}

/// Whether what a client sends may be read in another way than what others send.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Sway {
    is_swayed: bool,
    portals: SwayingPortals,
}

impl Sway {
    /// Whether something that was sent may have changed how what follows is read.
    pub fn is_swayed(&self) -> bool {
        self.is_swayed
    }

    /// What is sent from now on may be read in another way.
    pub fn begin(&mut self) {
        self.is_swayed = true;
    }

    /// A statement that `sways` or does not was bound to a portal of this name, if it has one.
    pub fn bind(&mut self, portal: Option<&[u8]>, sways: bool) {
        match portal {
            Some(b"") => self.portals.unnamed = sways,
            _ => self.portals.named |= sways,
        }
    }

    /// Whether the portal of this name may be of a statement that does.
    pub fn has_portal(&self, portal: Option<&[u8]>) -> bool {
        match portal {
            Some(b"") => self.portals.unnamed,
            _ => self.portals.named,
        }
    }

    /// No transaction is open any more; `is_last`: no round is under way behind it. Whether what
    /// was prepared in it may have been read in another way than what is prepared next.
    pub fn end_transaction(&mut self, is_last: bool) -> bool {
        let was_swayed = self.is_swayed;
        if is_last {
            *self = Self::default();
        }
        was_swayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_sways_by_its_name_and_named_ones_by_any() {
        let mut sway = Sway::default();
        sway.bind(Some(b""), true);
        assert!(sway.has_portal(Some(b"")) && !sway.has_portal(Some(b"a")));
        sway.bind(Some(b""), false);
        assert!(!sway.has_portal(Some(b"")));
        sway.bind(Some(b"a"), true);
        sway.bind(Some(b"b"), false);
        assert!(sway.has_portal(Some(b"a")) && sway.has_portal(Some(b"b")));
        assert!(sway.has_portal(None) && !sway.has_portal(Some(b"")));
        sway.bind(None, false);
        assert!(sway.has_portal(None) && !sway.is_swayed());
    }

    #[test]
    fn it_outlives_the_transaction_while_rounds_behind_that_are_under_way() {
        let mut sway = Sway::default();
        assert!(!sway.end_transaction(true));
        sway.begin();
        sway.bind(Some(b""), true);
        assert!(sway.end_transaction(false), "the next one was sent before this was known");
        assert!(sway.is_swayed() && sway.has_portal(Some(b"")));
        assert!(sway.end_transaction(true));
        assert!(!sway.is_swayed() && !sway.has_portal(Some(b"")) && !sway.end_transaction(true));
    }
}
