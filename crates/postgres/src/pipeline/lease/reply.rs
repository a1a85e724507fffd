//! How much of the reply under way the client has been told.
//!
//! The first reply of a replica is kept while it is short: should it turn out to be an error that
//! another server would not give, nothing of it is told and the other one is asked. A server sends
//! nothing earlier either: that is its own buffer (`pqcomm.c`).

use crate::pipeline::round::Round;

/// So much of a reply is kept back while its round may still go to another server.
const EARLY_MAX: usize = 8192;

/// How much of the reply under way the client has been told.
#[derive(Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone))]
pub enum Reply {
    /// Nothing of it, though all that came is for the client.
    #[default]
    Untold,
    /// Nothing of it, since its round may still go to another server.
    Kept {
        /// The round, to be asked of the primary.
        request: Round,
        /// What came of the reply.
        early: Vec<u8>,
        /// The server has said in it why it closes the connection.
        is_last: bool,
    },
    /// It is answered, and goes out with what comes next.
    Due(Vec<u8>),
    /// Some of it was told.
    Told,
    /// Nothing of it, since it failed: its round goes to another server.
    Withheld(Round),
    /// Nothing is told any more of a round that was handed over to another server.
    HandedOver,
    /// The client has heard from the server itself why it closes the connection.
    Dismissed,
}

/// What becomes of bytes of a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Telling {
    /// The client does not hear them now.
    Nothing,
    /// The client hears them, behind what was kept.
    After {
        /// What was kept of the reply.
        early: Vec<u8>,
        /// Its round goes nowhere else from now on: what was heard of the client's names holds.
        settles: bool,
    },
}

impl Reply {
    /// Before a round of which nothing is asked yet; `request` where another server could be asked
    /// the same.
    pub fn new(request: Option<Round>) -> Self {
        request.map_or(Self::Untold, |request| Self::Kept {
            request,
            early: Vec::new(),
            is_last: false,
        })
    }

    /// Whether another server may still be asked.
    pub fn may_go_elsewhere(&self) -> bool {
        matches!(self, Self::Kept { .. } | Self::Withheld(_))
    }

    /// Whether the client hears nothing of it, whatever comes.
    pub fn is_withheld(&self) -> bool {
        matches!(self, Self::Withheld(_) | Self::HandedOver)
    }

    /// Bytes of it have come; `goes_on` while a round is not answered.
    pub fn tell(&mut self, bytes: &[u8], goes_on: bool) -> Telling {
        let told = if goes_on { Self::Told } else { Self::Untold };
        match self {
            Self::Withheld(_) | Self::HandedOver => Telling::Nothing,
            Self::Kept { early, .. } if early.len() + bytes.len() <= EARLY_MAX => {
                early.extend_from_slice(bytes);
                Telling::Nothing
            }
            Self::Kept { early, is_last, .. } => {
                let early = std::mem::take(early);
                *self = if *is_last { Self::Dismissed } else { told };
                Telling::After { early, settles: true }
            }
            Self::Due(early) => {
                let early = std::mem::take(early);
                *self = told;
                Telling::After { early, settles: false }
            }
            Self::Untold | Self::Told => {
                *self = told;
                Telling::After { early: Vec::new(), settles: false }
            }
            Self::Dismissed => Telling::After { early: Vec::new(), settles: false },
        }
    }

    /// An error came that is the client's to hear, if no other server can do better, as
    /// `is_for_another` says. Whether it is withheld.
    pub fn fail(&mut self, is_for_another: bool, is_fatal: bool) -> bool {
        match self {
            Self::Kept { request, .. } | Self::Withheld(request) if is_for_another => {
                *self = Self::Withheld(request.clone());
                return true;
            }
            Self::Kept { is_last, .. } => *is_last |= is_fatal,
            Self::Withheld(_) | Self::HandedOver | Self::Due(_) => {}
            _ if is_fatal => *self = Self::Dismissed,
            _ => {}
        }
        false
    }

    /// Its ReadyForQuery has come. The round that goes to another server, where that is so.
    pub fn end(&mut self) -> Option<Round> {
        match std::mem::take(self) {
            Self::Kept { early, .. } if !early.is_empty() => *self = Self::Due(early),
            Self::Kept { .. } | Self::Untold | Self::Told => {}
            Self::Withheld(request) => {
                *self = Self::HandedOver;
                return Some(request);
            }
            stays @ (Self::Due(_) | Self::HandedOver | Self::Dismissed) => *self = stays,
        }
        None
    }

    /// Everything that was asked is answered: what comes next is of another round.
    pub fn is_over(&mut self) {
        match self {
            Self::Withheld(request) => *self = Self::new(Some(request.clone())),
            Self::HandedOver => *self = Self::Untold,
            _ => {}
        }
    }

    /// The server is gone; the round that another can be asked instead, where there is one.
    pub fn hand_over(&mut self) -> Option<Round> {
        if !self.may_go_elsewhere() {
            return None;
        }
        match std::mem::replace(self, Self::HandedOver) {
            Self::Kept { request, .. } | Self::Withheld(request) => Some(request),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn round() -> Round {
        Round::query(b"round".as_slice().into(), Instant::now())
    }

    fn kept(early: &[u8]) -> Reply {
        Reply::Kept { request: round(), early: early.to_vec(), is_last: false }
    }

    fn withheld() -> Reply {
        Reply::Withheld(round())
    }

    fn after(early: &[u8], settles: bool) -> Telling {
        Telling::After { early: early.to_vec(), settles }
    }

    #[test]
    fn the_reply_of_a_round_that_goes_nowhere_else_is_told_as_it_comes() {
        let mut reply = Reply::new(None);
        assert!(!reply.may_go_elsewhere() && !reply.is_withheld());
        assert_eq!(reply.tell(b"row", true), after(b"", false));
        assert_eq!(reply, Reply::Told);
        assert_eq!(reply.end(), None);
        assert_eq!(reply, Reply::Untold);
        assert_eq!(reply.tell(b"ready", false), after(b"", false));
        assert_eq!(reply.hand_over(), None);
        assert_eq!(reply, Reply::Untold);
    }

    #[test]
    fn a_short_reply_is_kept_until_it_is_whole_and_told_with_its_end() {
        let mut reply = Reply::new(Some(round()));
        assert!(reply.may_go_elsewhere() && !reply.is_withheld());
        assert_eq!(reply.tell(b"row", true), Telling::Nothing);
        assert_eq!(reply, kept(b"row"));
        assert_eq!(reply.end(), None);
        assert_eq!(reply, Reply::Due(b"row".to_vec()));
        assert!(!reply.may_go_elsewhere());
        assert_eq!(reply.tell(b"ready", false), after(b"row", false));
        assert_eq!(reply, Reply::Untold);
        let mut silent = kept(b"");
        assert_eq!((silent.end(), silent), (None, Reply::Untold));
    }

    #[test]
    fn a_long_reply_is_told_as_soon_as_it_is_long() {
        let mut reply = kept(b"");
        let most = vec![0; EARLY_MAX];
        assert_eq!(reply.tell(&most, true), Telling::Nothing);
        assert_eq!(reply.tell(b"x", true), after(&most, true));
        assert_eq!(reply, Reply::Told);
        assert!(!reply.fail(true, true), "it was told in part");
        assert_eq!(reply.hand_over(), None);
        assert_eq!(reply, Reply::Dismissed);
    }

    #[test]
    fn an_error_for_another_server_is_withheld_and_its_round_handed_over_once() {
        let mut reply = kept(b"row");
        assert!(reply.fail(true, true) && reply.is_withheld() && reply.may_go_elsewhere());
        assert_eq!(reply.tell(b"error", true), Telling::Nothing);
        assert!(reply.fail(true, false) && !reply.fail(false, true));
        assert_eq!(reply, withheld());
        assert_eq!(reply.end(), Some(round()));
        assert_eq!(reply, Reply::HandedOver);
        assert_eq!(reply.tell(b"ready", false), Telling::Nothing);
        assert_eq!((reply.end(), reply.hand_over()), (None, None));
        reply.is_over();
        assert_eq!(reply, Reply::Untold);
    }

    #[test]
    fn an_error_before_anything_was_asked_leaves_the_round_to_be_asked() {
        let mut reply = kept(b"");
        assert!(reply.fail(true, true));
        reply.is_over();
        assert_eq!(reply, kept(b""));
        let mut told = Reply::Told;
        told.is_over();
        assert_eq!(told, Reply::Told);
    }

    #[test]
    fn any_other_error_is_the_client_s_and_a_fatal_one_is_the_last_word() {
        let mut reply = Reply::Told;
        assert!(!reply.fail(false, false));
        assert_eq!(reply, Reply::Told);
        assert!(!reply.fail(false, true));
        assert_eq!(reply, Reply::Dismissed);
        assert_eq!(reply.tell(b"why", true), after(b"", false));
        assert_eq!((reply.end(), &reply), (None, &Reply::Dismissed));
        // Kept, it is not told: the round may be asked of another server.
        let mut reply = kept(b"");
        assert!(!reply.fail(false, true) && reply.may_go_elsewhere());
        let mut long = kept(b"");
        assert!(!long.fail(false, true));
        assert_eq!(long.tell(&[0; EARLY_MAX + 1], true), after(b"", true));
        assert_eq!(long, Reply::Dismissed);
    }

    #[test]
    fn a_server_that_is_gone_leaves_the_round_to_another_where_nothing_was_told() {
        assert_eq!(kept(b"row").hand_over(), Some(round()));
        assert_eq!(withheld().hand_over(), Some(round()));
        for mut told in [Reply::Untold, Reply::Told, Reply::Due(vec![1]), Reply::Dismissed] {
            assert_eq!(told.hand_over(), None);
        }
    }
}
