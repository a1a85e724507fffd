//! The state of the store, for readers and its one writer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::data::State;

/// The state behind a lock that is taken in turns.
#[derive(Debug)]
pub(super) struct SharedState {
    /// Held before `state` is waited for, so that the applier, which takes it again at once, does
    /// not starve readers.
    turn: Mutex<()>,
    state: Mutex<State>,
}

impl SharedState {
    pub(super) fn new(state: State) -> Self {
        Self { turn: Mutex::default(), state: Mutex::new(state) }
    }

    /// The state, to be read or changed.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(turn);
        state
    }
}
