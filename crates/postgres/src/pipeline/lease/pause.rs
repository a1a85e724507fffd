//! Why what a client sends goes no further for now.

/// Why what a client sends goes no further for now.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It goes on as soon as more of it comes.
    #[default]
    Nothing,
    /// The server is to take more first.
    Room,
    /// So many answers are under way that no more are asked for.
    Many,
    /// A COPY before it is to be answered, which decides what becomes of it.
    Copy,
    /// The next message depends on an answer that has not come.
    Message,
}

impl Pause {
    /// Whether it waits for answers.
    pub fn is_for_answers(self) -> bool {
        matches!(self, Self::Many | Self::Copy | Self::Message)
    }

    /// Whether the server is asked for its answers when this begins, since it would keep them: amid
    /// a round (`is_within`), and those to a COPY by an Execute that no Sync follows.
    pub fn asks_for_answers(self, is_within: bool) -> bool {
        match self {
            Self::Many => is_within,
            Self::Copy => true,
            Self::Nothing | Self::Room | Self::Message => false,
        }
    }

    /// It waits for that from now on; whether it did not before.
    pub fn becomes(&mut self, why: Self) -> bool {
        std::mem::replace(self, why) != why
    }

    /// Whether it waited for the server to take more, which it has.
    pub fn has_room(&mut self) -> bool {
        let waited = *self == Self::Room;
        if waited {
            *self = Self::Nothing;
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_for_answers_that_it_would_keep() {
        let asks = |is_within: bool| {
            let all = [Pause::Nothing, Pause::Room, Pause::Many, Pause::Copy, Pause::Message];
            all.map(|pause| pause.asks_for_answers(is_within))
        };
        assert_eq!(asks(false), [false, false, false, true, false]);
        assert_eq!(asks(true), [false, false, true, true, false]);
    }

    #[test]
    fn a_pause_begins_once_and_room_ends_only_that_for_room() {
        let mut pause = Pause::default();
        assert!(!pause.is_for_answers() && !pause.has_room());
        for why in [Pause::Many, Pause::Copy, Pause::Message] {
            assert!(pause.becomes(why) && !pause.becomes(why) && pause.is_for_answers());
            assert!(!pause.has_room());
            assert_eq!(pause, why);
        }
        assert!(pause.becomes(Pause::Room) && !pause.is_for_answers());
        assert!(pause.has_room() && !pause.has_room());
        assert_eq!(pause, Pause::Nothing);
    }
}
