//! Servers that Sentinels know: each is followed where they say that it is.
//!
//! One task of the pool asks for each of them, so that all workers go by the same answer: a worker
//! that went by its own would have clients read from one server what they wrote to another.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Fleet, Node, View};
use crate::server::{Server, ServerError};

/// How long Sentinels are let alone, whatever shows.
const REST: Duration = Duration::from_millis(100);

/// Follows the servers that Sentinels know, for as long as the worker runs.
pub async fn follow(fleet: Arc<Fleet>) {
    let mut following: Vec<Arc<Server>> = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        let changed = fleet.changed.notified();
        let view = fleet.view();
        for (number, node) in view.nodes.iter().enumerate() {
            let origin = &node.origin;
            let is_new = !following.iter().any(|of| Arc::ptr_eq(of, origin));
            if origin.sentinels().is_some() && node.gone.is_none() && is_new {
                following.push(Arc::clone(origin));
                tasks.spawn_local(follow_one(Arc::clone(&fleet), number, Arc::clone(origin)));
            }
        }
        let is_there = |of: &Node| of.gone.is_none();
        let there = |of: &Arc<Server>| {
            view.nodes.iter().any(|node| is_there(node) && Arc::ptr_eq(&node.origin, of))
        };
        following.retain(there);
        drop(view);
        tokio::select! {
            () = changed => {}
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Follows one, for as long as it has this number.
async fn follow_one(fleet: Arc<Fleet>, number: usize, origin: Arc<Server>) {
    let Some(sentinels) = origin.sentinels() else { return };
    let (mut announcements, mut was_told) = (sentinels.listen(), false);
    while fleet.view().is_origin(number, &origin) {
        match origin.located().await {
            Ok(found) => {
                was_told = false;
                fleet.is_located(number, &origin, found);
            }
            Err(words) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::warn!(
                        server = &*origin.name,
                        "no Sentinel says where the master is: {words}"
                    );
                }
            }
        }
        sleep(REST).await;
        tokio::select! {
            () = announcements.next() => {}
            () = fleet.missed.notified() => {}
        }
    }
}

impl View {
    /// Whether a server is as its settings have it.
    fn is_origin(&self, number: usize, origin: &Arc<Server>) -> bool {
        let node = self.nodes.get(number);
        node.is_some_and(|node| node.gone.is_none() && Arc::ptr_eq(&node.origin, origin))
    }
}

impl Fleet {
    /// Sentinels say where a server is.
    fn is_located(&self, number: usize, origin: &Arc<Server>, found: Server) {
        let _changing = self.lock();
        let mut view = View::clone(&self.view.load());
        if !view.is_origin(number, origin) {
            return;
        }
        let Some(node) = view.nodes.get_mut(number) else { return };
        let host = found.host().unwrap_or_default();
        if found.is_where(&node.server) {
            return;
        }
        if found.tells_password(host) && !self.allows_cleartext() {
            tracing::warn!(
                server = &*found.name,
                url = found.url(),
                "where Sentinel says that it is, the password would travel in the clear; write \
                 rediss:// in sentinel.urls, or allow-cleartext"
            );
            return;
        }
        tracing::info!(server = &*found.name, url = found.url(), "Sentinel says where it is");
        if node.server.sentinels().is_none() {
            node.incarnation += 1;
        }
        node.server = Arc::new(found);
        node.readers = Arc::default();
        self.change(view);
    }

    /// A server once it is known where it is, which is waited for until then.
    ///
    /// # Errors
    /// There is no such server, or nobody says where it is.
    pub async fn reached(&self, number: usize, until: Instant) -> Result<Node, ServerError> {
        let why = |words: &str| ServerError::silent(words);
        loop {
            let changed = self.changed.notified();
            let node = self.view.load().nodes.get(number).cloned();
            let node = node.ok_or_else(|| why("there is no such server"))?;
            if node.server.sentinels().is_none() {
                return Ok(node);
            }
            self.missed.notify_waiters();
            if timeout_at(until, changed).await.is_err() {
                return Err(why("no Sentinel says where it is"));
            }
        }
    }
}
