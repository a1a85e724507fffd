//! When a shared connection says that it is alive, and when it is given up, as Dubbo's
//! `HeartbeatTimerTask` and `ReconnectTimerTask` have it.

use std::time::Duration;

/// How often it is looked whether something has happened.
pub const LOOK: Duration = Duration::from_secs(20);
/// A connection on which nothing was said, or nothing was heard, for so long says that it is alive.
const HEARTBEAT_LOOKS: u32 = 3;
/// One on which nothing was heard for so long is given up.
const SILENT_LOOKS: u32 = 9;

/// What a connection does that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleStep {
    Nothing,
    Heartbeat,
    GiveUp,
}

/// Looks since something was said, and since something was heard.
#[derive(Debug, Default)]
pub struct Idle {
    unsaid: u32,
    unheard: u32,
}

impl Idle {
    pub fn note_said(&mut self) {
        self.unsaid = 0;
    }

    pub fn note_heard(&mut self) {
        self.unheard = 0;
    }

    /// Decides what to do; called once each [`LOOK`].
    pub fn look(&mut self) -> IdleStep {
        self.unsaid += 1;
        self.unheard += 1;
        if self.unheard >= SILENT_LOOKS {
            IdleStep::GiveUp
        } else if self.unsaid >= HEARTBEAT_LOOKS || self.unheard >= HEARTBEAT_LOOKS {
            IdleStep::Heartbeat
        } else {
            IdleStep::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Idle, IdleStep};

    #[test]
    fn a_connection_says_after_a_minute_that_it_is_alive_and_is_given_up_after_three() {
        let mut idle = Idle::default();
        let mut heartbeats = 0;
        for look in 1..=9 {
            match idle.look() {
                IdleStep::Nothing => assert!(look < 3),
                IdleStep::Heartbeat => {
                    assert!((3..9).contains(&look));
                    idle.note_said();
                    heartbeats += 1;
                }
                IdleStep::GiveUp => assert_eq!((look, heartbeats), (9, 6)),
            }
        }
        idle.note_heard();
        idle.note_said();
        assert_eq!(idle.look(), IdleStep::Nothing);
    }
}
