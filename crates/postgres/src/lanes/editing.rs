//! A reply that says something else to its client than the server has said.

use flow::answers::AnswerPlace as Place;

use super::group::LaneServer;
use crate::client::Client;
use crate::pipeline::script::{Script, ServerEvent};

/// A reply that is edited, and what of it is not whole yet.
#[derive(Default)]
pub struct Editing {
    pub script: Script,
    rest: Vec<u8>,
}

impl Editing {
    pub fn new(script: Script) -> Self {
        Self { script, rest: Vec::new() }
    }

    /// Tells the client its part, in its place; false when the server said what it was not asked.
    /// `within`: this is the end of it, and says that the client is in a transaction.
    pub(super) fn tell(
        &mut self,
        lane: &LaneServer,
        (client, place): (&Client, Place),
        bytes: &[u8],
        is_last: bool,
        within: bool,
    ) -> bool {
        let joined;
        let bytes = if self.rest.is_empty() {
            bytes
        } else {
            self.rest.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.rest);
            &joined
        };
        let mut pieces = Vec::new();
        let failed = || {
            if let Some(database) = client.database() {
                database.count(|totals| totals.errors += 1);
            }
        };
        let heard = self.script.hear(bytes, &mut |heard| match heard {
            ServerEvent::Bytes(piece) => pieces.push(piece),
            ServerEvent::Name(outcome) => client.named(outcome),
            ServerEvent::Refused(why) => {
                failed();
                client.hears(place, &pieces, false);
                pieces.clear();
                client.hears(place, &[&client.refused(why)], false);
            }
            ServerEvent::Prepared(number) => lane.prepared.borrow_mut().confirmed(number),
            ServerEvent::NotPrepared(number) => lane.prepared.borrow_mut().not_prepared(number),
            ServerEvent::Forgotten { number, left_out } => {
                lane.prepared.borrow_mut().closed(number, left_out);
            }
            ServerEvent::Shape(number, shape) => {
                lane.prepared.borrow_mut().described(number, shape)
            }
            ServerEvent::Failed { swallowed, .. } => {
                if !swallowed {
                    failed();
                }
                client.set_failed(true);
            }
            _ => {}
        });
        let taken = match heard {
            Ok(taken) => taken,
            Err(unasked) => {
                tracing::error!(%unasked, "a lane is given up");
                return false;
            }
        };
        // The last byte of the last message is the transaction's status.
        if within && let Some((_, before)) = pieces.last_mut().and_then(|last| last.split_last()) {
            pieces.pop();
            pieces.extend([before, if client.has_failed() { b"E" } else { b"T" }]);
        }
        client.hears(place, &pieces, is_last);
        self.rest = bytes[taken..].to_vec();
        true
    }
}
