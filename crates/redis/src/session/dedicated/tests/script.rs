//! What a client says, and what is to come of it.

/// What a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Watch,
    Multi,
    /// A step with a key at the first place.
    Set,
    /// A step with a key at the second place.
    SetElsewhere,
    /// A step without a key.
    Ping,
    /// A command that is refused before it is a step.
    Refused,
    /// A step for which there is no memory.
    TooLarge,
    Exec,
    Discard,
    Unwatch,
    Reset,
}

pub const ALL: [Input; 11] = [
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
];

/// What an `EXEC` is to run, and which `WATCH` are to hold for it, as they were said.
pub fn expected(said: &[Input], exec: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut steps, mut watches): (Option<Vec<usize>>, Vec<usize>) = (None, Vec::new());
    for (at, of) in said.iter().enumerate().take(exec) {
        match (of, &mut steps) {
            (Input::Multi, None) => steps = Some(Vec::new()),
            (Input::Exec | Input::Discard, Some(_)) | (Input::Reset, _) => {
                (steps, watches) = (None, Vec::new());
            }
            (Input::Multi, Some(_)) => {}
            (_, Some(steps)) => steps.push(at),
            (Input::Watch, None) => watches.push(at),
            (Input::Unwatch, None) => watches.clear(),
            (_, None) => {}
        }
    }
    (steps.unwrap_or_default(), watches)
}
