//! How the bytes are taken that come from a client.

use std::num::NonZeroUsize;

/// What is still to come of a client.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ClientStream {
    /// The client may send more.
    #[default]
    Open,
    /// The client sends nothing more, and reads what it has asked for.
    Ended,
    /// The client has said goodbye or is gone: what it has sent is still answered by the server.
    Leaving,
}

/// How the bytes are taken that come from a client next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// They are messages, taken whole.
    #[default]
    Messages,
    /// So many of them belong to a message that goes out as it comes.
    Through(NonZeroUsize),
    /// So many belong to one that goes nowhere: the server would leave it out.
    Dropped(NonZeroUsize),
}

/// Bytes at hand that belong to a message which has begun earlier.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// How many of them there are.
    pub len: usize,
    /// Whether the server gets them.
    pub goes_out: bool,
}

impl Incoming {
    /// A message has begun of which so many bytes are still to come, and goes out or nowhere.
    pub fn of_long(to_come: usize, goes_out: bool) -> Self {
        match NonZeroUsize::new(to_come) {
            None => Self::Messages,
            Some(to_come) if goes_out => Self::Through(to_come),
            Some(to_come) => Self::Dropped(to_come),
        }
    }

    /// Whether a message that has begun is still to come.
    pub fn is_within(self) -> bool {
        self != Self::Messages
    }

    /// Takes what there is, of so many bytes at hand, of a message that has begun.
    pub fn take(&mut self, at_hand: usize) -> Rest {
        let (to_come, goes_out) = match *self {
            Self::Messages => return Rest::default(),
            Self::Through(to_come) => (to_come.get(), true),
            Self::Dropped(to_come) => (to_come.get(), false),
        };
        let len = to_come.min(at_hand);
        *self = Self::of_long(to_come - len, goes_out);
        Rest { len, goes_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_taken_as_it_comes_and_no_further() {
        for goes_out in [true, false] {
            let mut incoming = Incoming::of_long(5, goes_out);
            assert!(incoming.is_within());
            for (at_hand, len) in [(2, 2), (0, 0), (9, 3)] {
                assert!(incoming.is_within());
                assert_eq!(incoming.take(at_hand), Rest { len, goes_out });
            }
            assert_eq!(incoming, Incoming::Messages);
            assert_eq!(incoming.take(9), Rest::default());
            assert!(!incoming.is_within() && !Incoming::of_long(0, goes_out).is_within());
        }
    }
}
