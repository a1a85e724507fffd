//! Replicas that may be read: found by asking their primary, which lists them in `INFO`.
//!
//! A replica is read while its primary, or else Weir, has heard from it a short while ago, and
//! while it follows the very stream of its primary. [`Covers`] says up to when it has all writes: a
//! client that wrote is sent there once that is after the answer to its last write.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Fleet, Node, View};
use crate::server::{ControlConnection, Server};
use crate::topology::At;
use crate::topology::replication::{Primary, Readable};

/// How often servers are asked.
const EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// How many positions of a primary are remembered.
const POSITIONS_MAX: usize = 64;
/// Replicas of one primary that are looked at.
const REPLICAS_MAX: usize = 64;

/// Up to when a replica has all writes. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Covers(Arc<AtomicU64>);

impl Covers {
    /// Whether it has all that was answered by then.
    pub fn has(&self, fleet: &Fleet, answered: Instant) -> bool {
        self.0.load(Ordering::Acquire) > fleet.nanos(answered)
    }

    fn set(&self, nanos: u64) {
        self.0.store(nanos, Ordering::Release);
    }
}

/// A replica that may be read now.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    at: At,
    /// In nanoseconds of the fleet's; 0 is never.
    covers: u64,
}

/// Looks for replicas for as long as the worker runs, while `wanted` says how long ago their
/// primary may have heard from them.
pub async fn read(fleet: Arc<Fleet>, wanted: impl Fn() -> Option<Duration> + Clone + 'static) {
    let (mut asked, mut tasks): (Vec<Arc<Server>>, _) = (Vec::new(), JoinSet::new());
    loop {
        let view = fleet.view();
        for number in view.holders.iter().copied() {
            let Some(server) = view.server(number).filter(|of| of.sentinels().is_none()) else {
                continue;
            };
            if wanted().is_some() && !asked.iter().any(|of| Arc::ptr_eq(of, server)) {
                asked.push(Arc::clone(server));
                let asking = Asking::new(Arc::clone(&fleet), number, Arc::clone(server));
                tasks.spawn_local(asking.run(wanted.clone()));
            }
        }
        let is_asked = |of: &Arc<Server>| {
            wanted().is_some() && view.holders.iter().any(|number| view.is_server(*number, of))
        };
        asked.retain(is_asked);
        drop(view);
        while tasks.try_join_next().is_some() {}
        sleep(EVERY).await;
    }
}

/// What is known of one primary and its replicas.
struct Asking {
    fleet: Arc<Fleet>,
    number: usize,
    server: Arc<Server>,
    primary: ControlConnection,
    /// When it was heard of last, and what it said.
    heard: Option<(Instant, Primary)>,
    positions: Positions,
    replicas: HashMap<At, ControlConnection>,
    /// Those that can not be reached as their primary is.
    left_out: Vec<At>,
}

impl Asking {
    fn new(fleet: Arc<Fleet>, number: usize, server: Arc<Server>) -> Self {
        let primary = ControlConnection::new(Server::clone(&server), ANSWER);
        let (positions, replicas) = (Positions::default(), HashMap::new());
        let left_out = Vec::new();
        Self { fleet, number, server, primary, heard: None, positions, replicas, left_out }
    }

    async fn run(mut self, wanted: impl Fn() -> Option<Duration>) {
        loop {
            let view = self.fleet.view();
            let is_there = view.is_server(self.number, &self.server);
            let Some(lag_max) = wanted().filter(|_| is_there) else {
                return self.fleet.are_read(self.number, &self.server, &[], Some(&[]));
            };
            drop(view);
            let readers = self.look(lag_max).await;
            let listed = self.heard.as_ref().filter(|_| self.is_heard(EVERY * 4));
            let listed = listed.map(|(_, primary)| primary.listed());
            self.fleet.are_read(self.number, &self.server, &readers, listed.as_deref());
            sleep(EVERY).await;
        }
    }

    fn is_heard(&self, within: Duration) -> bool {
        self.heard.as_ref().is_some_and(|(at, _)| at.elapsed() <= within)
    }

    /// Asks the primary and then its replicas; gives those that may be read.
    async fn look(&mut self, lag_max: Duration) -> Vec<Reader> {
        let now = Instant::now();
        let answer = self.primary.ask(&[&["INFO", "replication"]]).await;
        let primary = answer.ok().and_then(|answers| Primary::read(answers.first()?));
        if let Some(primary) = primary {
            self.positions.note(&primary, now);
            self.heard = Some((now, primary));
        }
        // One that is away for a moment takes nobody's reads along: its replicas have them still.
        if !self.is_heard(lag_max) {
            self.replicas.clear();
            return Vec::new();
        }
        let Some((_, primary)) = &self.heard else { return Vec::new() };
        let is_near = |lag: u64| Duration::from_secs(lag) <= lag_max;
        let is_left_out = |of: &At| self.left_out.contains(of);
        let near = primary.replicas.iter().filter(|of| is_near(of.lag) && !is_left_out(&of.at));
        let near: Vec<At> = near.take(REPLICAS_MAX).map(|of| of.at.clone()).collect();
        self.replicas.retain(|at, _| near.contains(at));
        let mut all = JoinSet::new();
        for at in near {
            let known = self.replicas.remove(&at);
            match known.or_else(|| self.at(&at)) {
                Some(asked) => drop(all.spawn_local(ask(at, asked))),
                None => self.left_out.push(at),
            }
        }
        let mut readers = Vec::new();
        while let Some(Ok((at, asked, readable))) = all.join_next().await {
            self.replicas.insert(at.clone(), asked);
            let Some(readable) = readable else { continue };
            if let Some(covers) = self.positions.covered(&readable) {
                let covers = covers.map_or(0, |at| self.fleet.nanos(at));
                readers.push(Reader { at, covers });
            }
        }
        readers.sort_by(|one, other| {
            (&one.at.host, one.at.port).cmp(&(&other.at.host, other.at.port))
        });
        readers
    }

    fn at(&self, at: &At) -> Option<ControlConnection> {
        let server = self.fleet.like(&self.server, at.host.as_deref()?, at.port)?;
        Some(ControlConnection::new(server, ANSWER))
    }
}

async fn ask(at: At, mut asked: ControlConnection) -> (At, ControlConnection, Option<Readable>) {
    let answer = asked.ask(&[&["INFO"]]).await;
    let readable = answer.ok().and_then(|answers| Readable::read(answers.first()?).ok());
    (at, asked, readable)
}

impl Primary {
    fn listed(&self) -> Vec<At> {
        self.replicas.iter().map(|of| of.at.clone()).collect()
    }
}

/// Where a primary's stream was, and when it was asked for that.
#[derive(Debug, Default)]
struct Positions {
    id: String,
    all: VecDeque<(Instant, u64)>,
}

impl Positions {
    fn note(&mut self, primary: &Primary, asked: Instant) {
        if self.id != primary.id {
            self.id.clone_from(&primary.id);
            self.all.clear();
        }
        self.all.push_back((asked, primary.offset));
        if self.all.len() > POSITIONS_MAX {
            self.all.pop_front();
        }
    }

    /// When the last position was asked for that a replica has reached: `Some(None)` where it has
    /// reached none of those that are remembered, `None` where it follows another stream.
    fn covered(&self, readable: &Readable) -> Option<Option<Instant>> {
        let reached = self.all.iter().rev().find(|(_, offset)| *offset <= readable.offset);
        (readable.id == self.id).then_some(reached.map(|(at, _)| *at))
    }
}

impl View {
    /// Whether this very server has the number.
    fn is_server(&self, number: usize, server: &Arc<Server>) -> bool {
        let is_it = |node: &Node| node.gone.is_none() && Arc::ptr_eq(&node.server, server);
        self.nodes.get(number).is_some_and(is_it)
    }

    /// The replicas of a server that may be read.
    #[inline]
    pub fn readers(&self, primary: usize) -> &[usize] {
        self.nodes.get(primary).map_or(&[], |node| &node.readers)
    }

    /// Whose replica a server is; itself, where it is nobody's.
    #[inline]
    pub fn primary_of(&self, number: usize) -> usize {
        self.nodes.get(number).and_then(|node| node.replica_of).unwrap_or(number)
    }

    /// The name of the server whose replica it is, where it is read as such.
    pub fn replica_of(&self, number: usize) -> Option<&str> {
        let primary = self.nodes.get(number)?.replica_of?;
        self.server(primary).map(|server| &*server.name)
    }

    /// Up to when a replica has all writes.
    pub fn covers(&self, number: usize) -> Option<&Covers> {
        self.nodes.get(number).map(|node| &node.covers)
    }
}

impl Fleet {
    /// A moment as [`Covers`] has it: never 0.
    fn nanos(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.begun).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// These replicas of a server may be read; of those that it lists, none is gone.
    fn are_read(&self, number: usize, server: &Arc<Server>, all: &[Reader], listed: Option<&[At]>) {
        let _changing = self.lock();
        let before = self.view.load();
        let mut view = View::clone(&before);
        let mut readers = Vec::new();
        let is_there = view.is_server(number, server);
        for reader in all.iter().filter(|_| is_there) {
            // A server that has keys itself is nobody's replica here.
            let host = reader.at.host.as_deref().unwrap_or("");
            if view.with_keys().any(|holder| holder.is_at(host, reader.at.port)) {
                continue;
            }
            let Some((reads, _)) = self.number(&mut view, &reader.at, number) else { continue };
            let Some(node) = view.nodes.get_mut(reads) else { continue };
            node.covers.set(reader.covers);
            (node.replica_of, node.gone) = (Some(number), None);
            readers.push(reads);
        }
        if is_there && let (Some(listed), None) = (listed, &view.slots) {
            let is_listed = |node: &Node| {
                let is_at = |at: &At| node.server.is_at(at.host.as_deref().unwrap_or(""), at.port);
                listed.iter().any(is_at)
            };
            let own = view.nodes.iter_mut().filter(|node| node.replica_of == Some(number));
            own.filter(|node| !is_listed(node)).for_each(Node::leaves);
        }
        if is_there && let Some(node) = view.nodes.get_mut(number) {
            node.readers = readers.into();
        }
        let is_same = |(now, before): (&Node, &Node)| {
            now.readers == before.readers
                && now.replica_of == before.replica_of
                && now.gone.is_none() == before.gone.is_none()
                && now.incarnation == before.incarnation
        };
        let are_same = view.nodes.len() == before.nodes.len()
            && view.nodes.iter().zip(&before.nodes).all(is_same);
        if !are_same {
            self.change(view);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_covers_what_its_primary_had_when_it_was_asked() {
        let (mut positions, begun) = (Positions::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let primary =
            |id: &str, offset| Primary { id: id.to_owned(), offset, replicas: Vec::new() };
        let covered = |positions: &Positions, id: &str, offset| {
            positions.covered(&Readable { id: id.to_owned(), offset })
        };
        for (seconds, offset) in [(1, 10), (2, 20), (3, 20), (4, 30)] {
            positions.note(&primary("a", offset), at(seconds));
        }
        assert_eq!(covered(&positions, "a", 9), Some(None));
        assert_eq!(covered(&positions, "a", 10), Some(Some(at(1))));
        assert_eq!(covered(&positions, "a", 29), Some(Some(at(3))));
        assert_eq!(covered(&positions, "a", 99), Some(Some(at(4))));
        assert_eq!(covered(&positions, "b", 99), None);
        // Another stream's positions say nothing of this one's.
        positions.note(&primary("b", 5), at(5));
        assert_eq!(covered(&positions, "a", 99), None);
        assert_eq!(covered(&positions, "b", 4), Some(None));
        (0..1000).for_each(|n| positions.note(&primary("b", n), at(n)));
        assert_eq!(positions.all.len(), POSITIONS_MAX);
    }
}
