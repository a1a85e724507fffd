//! Asks servers about their memory that nobody else asks, as where the guard is off: those that
//! clients have had Weir connect to, each on a connection of its own.
//!
//! A server that refuses `INFO` to Weir's user keeps a line of each refusal, so it is let alone for
//! a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Fleet, Node};
use crate::server::{ControlConnection, Server};
use crate::server_memory::{ServerMemories, ServerMemory};

/// How often each server is asked.
const EVERY: Duration = Duration::from_secs(10);
/// How long a server that has refused is let alone.
const AFTER_REFUSAL: Duration = Duration::from_secs(600);
/// How often it is looked whether one is to be asked.
const TURN: Duration = Duration::from_secs(1);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);

/// A server, by its number and which of those it is that have had the number.
type Which = (usize, u64);

/// Asks the servers of a pool for as long as the worker runs.
pub async fn ask_memory(fleet: Arc<Fleet>, memories: ServerMemories) {
    let mut connected: HashMap<Which, ControlConnection> = HashMap::new();
    loop {
        sleep(TURN).await;
        let view = fleet.view();
        let there = |(number, node): (usize, &Node)| {
            let which = (number, node.incarnation);
            let is_used = view.is_there(number) && fleet.was_reached(number, node.incarnation);
            is_used.then(|| (which, Arc::clone(&node.server), node.known_as()))
        };
        let there: Vec<_> = view.nodes.iter().enumerate().filter_map(there).collect();
        drop(view);
        connected.retain(|which, _| there.iter().any(|(of, ..)| of == which));
        let mut asking = JoinSet::new();
        for (which, server, name) in there {
            if memories.is_due(&name) {
                let known = connected.remove(&which);
                let asked =
                    known.unwrap_or_else(|| ControlConnection::new(Server::clone(&server), ANSWER));
                let memories = memories.clone();
                asking.spawn_local(async move { (which, ask(asked, &name, &memories).await) });
            }
        }
        while let Some(asked) = asking.join_next().await {
            connected.extend(asked.ok());
        }
    }
}

async fn ask(
    mut asked: ControlConnection,
    name: &str,
    memories: &ServerMemories,
) -> ControlConnection {
    let (said, holds) = match asked.ask(&[&["INFO", "stats"], &["INFO", "memory"]]).await {
        Ok(replies) => {
            let said = ServerMemory::read(&replies.concat());
            // One that is busy, or loads its keys, says so with another word.
            let is_refused = replies.iter().any(|reply| reply.starts_with(b"-NO"));
            (said, if is_refused { AFTER_REFUSAL } else { EVERY })
        }
        Err(why) => {
            tracing::debug!(server = name, why, "it does not say what memory it has");
            (None, EVERY)
        }
    };
    memories.note(name, said, holds);
    asked
}
