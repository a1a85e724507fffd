//! What a client says, and what is to come of it.

/// What a client says, each as one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    Watch,
    Multi,
    /// A write of a key at the first place.
    Set,
    /// A write of a key at the second place.
    SetElsewhere,
    /// A command without a key.
    Ping,
    /// A command that is refused before it is a step.
    Refused,
    /// A write for which there is no memory.
    TooLarge,
    Exec,
    Discard,
    Unwatch,
    Reset,
    Track,
    Untrack,
    Cache,
    /// A command that waits for what others do, at the first place.
    Block,
    /// A write with a large value that is still coming.
    Large,
}

/// Each kind of command once.
pub const ALL: [Input; 16] = [
    Input::Watch,
    Input::Multi,
    Input::Set,
    Input::SetElsewhere,
    Input::Ping,
    Input::Refused,
    Input::TooLarge,
    Input::Exec,
    Input::Discard,
    Input::Unwatch,
    Input::Reset,
    Input::Track,
    Input::Untrack,
    Input::Cache,
    Input::Block,
    Input::Large,
];

impl Input {
    /// The command as a client writes it.
    pub fn line(self) -> &'static str {
        match self {
            Self::Watch => "WATCH a",
            Self::Multi => "MULTI",
            Self::Set | Self::TooLarge | Self::Large => "SET a 1",
            Self::SetElsewhere => "SET b 1",
            Self::Ping => "PING",
            Self::Refused => "GET",
            Self::Exec => "EXEC",
            Self::Discard => "DISCARD",
            Self::Unwatch => "UNWATCH",
            Self::Reset => "RESET",
            Self::Track => "CLIENT TRACKING ON OPTIN",
            Self::Untrack => "CLIENT TRACKING OFF",
            Self::Cache => "CLIENT CACHING YES",
            Self::Block => "BLPOP a 0",
        }
    }

    /// Whether it is never a step of a transaction that is run.
    fn ends_transaction(self) -> bool {
        use Input::{Cache, Refused, TooLarge, Track, Untrack};
        matches!(self, Refused | TooLarge | Track | Untrack | Cache)
    }
}

/// What an `EXEC` is to run, as it was said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The number of each step.
    pub steps: Vec<usize>,
    /// The number of each `WATCH` that is to hold.
    pub watches: Vec<usize>,
    /// The number of its `MULTI`.
    pub multi: usize,
    /// Whether a step is one that no transaction may be run with.
    pub is_aborted: bool,
}

/// What is to hold behind so many of the commands; for the number of an `EXEC`, what it is to run.
pub fn expected(said: &[Input], count: usize) -> Expected {
    let (mut now, mut is_begun) = (Expected::default(), false);
    for (at, of) in said.iter().enumerate().take(count) {
        match (of, is_begun) {
            (Input::Multi, false) => (is_begun, now.multi) = (true, at),
            (Input::Multi, true) => {}
            (Input::Exec | Input::Discard, true) | (Input::Reset, _) => {
                (is_begun, now) = (false, Expected::default());
            }
            (of, true) => {
                now.is_aborted |= of.ends_transaction();
                now.steps.push(at);
            }
            (Input::Watch, false) => now.watches.push(at),
            (Input::Unwatch, false) => now.watches.clear(),
            (_, false) => {}
        }
    }
    now
}
