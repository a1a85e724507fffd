//! What a client's messages write and change of the server connection that it has.

use std::collections::VecDeque;

use wire::postgres::backend::Status;

use super::{Connection, Own, Record};
use crate::pipeline::prepared::PreparedStatements;
use crate::pipeline::script::Script;
use crate::plan::Leaves;

/// What is written for a server.
pub struct ServerOutput<'a> {
    /// The answers that are under way.
    pub script: &'a mut Script,
    /// What is to be sent.
    pub out: &'a mut Vec<u8>,
    /// So many bytes at the start of `out` were sent.
    pub sent: usize,
    /// The statements that are prepared there.
    pub prepared: &'a mut PreparedStatements,
    /// What ReadyForQuery said last.
    pub status: Status,
}

/// What a client's messages change of its connection, beside what is written.
pub struct LeasedState<'a> {
    /// What its clients may have left on it.
    pub leaves: &'a mut Leaves,
    /// A client may have used temporary tables.
    pub has_local_buffers: &'a mut bool,
    /// They may have drawn from sequences.
    pub drew: &'a mut bool,
    /// It must not be used again.
    pub broken: &'a mut bool,
    /// What the console shows of it.
    pub record: &'a Record,
    own: &'a mut VecDeque<Own>,
}

impl LeasedState<'_> {
    /// A statement of Weir's own was written for the server.
    pub fn asks(&mut self) {
        self.own.push_back(Own::Statement);
    }
}

impl Connection {
    /// What is written for the server, and what a client's messages change beside.
    pub fn output(&mut self) -> (ServerOutput<'_>, LeasedState<'_>) {
        let output = ServerOutput {
            script: &mut self.script,
            out: &mut self.out,
            sent: self.sent,
            prepared: &mut self.prepared,
            status: self.status,
        };
        let state = LeasedState {
            leaves: &mut self.leaves,
            has_local_buffers: &mut self.has_local_buffers,
            drew: &mut self.drew,
            broken: &mut self.broken,
            record: &self.record,
            own: &mut self.own,
        };
        (output, state)
    }
}
