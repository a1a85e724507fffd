//! A client as the hub knows it: what it is subscribed to, and what it hears.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use flow::service::Client;
use wire::resp::{Version, put_array, put_bulk, put_error, put_integer, put_null, put_push};

use super::{KINDS, Name, words};
use crate::commands::Kind;
use crate::desk::Card;
use crate::metrics::Metrics;
use crate::servers::Servers;

/// A client that is subscribed, or has been.
#[derive(Debug)]
pub struct Member {
    client: Rc<Client<Servers>>,
    version: Cell<Version>,
    topics: RefCell<[HashSet<Name>; 3]>,
    /// Bytes of their names.
    bytes: Cell<usize>,
    has_left: Cell<bool>,
    metrics: Metrics,
    /// What operators see of it.
    card: Rc<Card>,
}

impl Member {
    /// A client that is subscribed to nothing.
    pub fn new(
        client: &Rc<Client<Servers>>,
        version: Version,
        metrics: &Metrics,
        card: &Rc<Card>,
    ) -> Self {
        Self {
            client: Rc::clone(client),
            version: Cell::new(version),
            topics: RefCell::default(),
            bytes: Cell::new(0),
            has_left: Cell::new(false),
            metrics: metrics.clone(),
            card: Rc::clone(card),
        }
    }

    /// Its number on this worker.
    pub(super) fn id(&self) -> u64 {
        self.client.id()
    }

    /// In what it is told from now on.
    pub fn speaks(&self, version: Version) {
        self.version.set(version);
    }

    pub(super) fn version(&self) -> Version {
        self.version.get()
    }

    /// Bytes of the names of what it is subscribed to.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// How many subscriptions it has.
    pub fn count(&self) -> usize {
        self.topics.borrow().iter().map(HashSet::len).sum()
    }

    /// What it is subscribed to.
    pub fn names(&self, kind: Kind) -> Vec<Name> {
        self.topics.borrow()[kind as usize].iter().cloned().collect()
    }

    /// How many of these it is not subscribed to.
    pub fn new_among(&self, kind: Kind, names: &[Name]) -> usize {
        let topics = self.topics.borrow();
        let new: HashSet<&Name> =
            names.iter().filter(|name| !topics[kind as usize].contains(*name)).collect();
        new.len()
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left.get()
    }

    pub(super) fn leaves(&self) {
        if self.has_left.replace(true) {
            return;
        }
        for kind in KINDS {
            let count = self.topics.borrow()[kind as usize].len();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.metrics.subscriptions(kind).add(-count);
        }
        self.card.subscriptions.set([0; 3]);
        self.client.listens(self.card.listens());
    }

    /// Operators see what it is subscribed to.
    fn show(&self) {
        self.card.subscriptions.set(self.topics.borrow().each_ref().map(HashSet::len));
        self.client.listens(self.card.listens());
    }

    /// It hears this now, or behind the answer that is under way.
    pub(super) fn hear(&self, message: &[u8]) {
        self.metrics.messages.inc();
        self.client.push(message);
    }

    /// It is closed behind its answers.
    pub(super) fn close(&self) {
        self.client.part(Vec::new());
    }

    /// It is subscribed to these: what it hears.
    pub(super) fn joined(&self, kind: Kind, names: &[Name]) -> Vec<u8> {
        let mut out = Vec::new();
        for name in names {
            let is_new = self.topics.borrow_mut()[kind as usize].insert(Rc::clone(name));
            if is_new {
                self.bytes.set(self.bytes() + name.len());
            }
            if is_new && !self.has_left() {
                self.metrics.subscriptions(kind).inc();
            }
            self.put(&mut out, words(kind)[0], Some(name), kind);
        }
        self.show();
        out
    }

    /// It is not subscribed to these any more: what it hears.
    pub fn left(&self, kind: Kind, names: &[Name]) -> Vec<u8> {
        let mut out = Vec::new();
        for name in names {
            let was_there = self.topics.borrow_mut()[kind as usize].remove(name);
            if was_there {
                self.bytes.set(self.bytes().saturating_sub(name.len()));
            }
            if was_there && !self.has_left() {
                self.metrics.subscriptions(kind).dec();
            }
            self.put(&mut out, words(kind)[1], Some(name), kind);
        }
        if names.is_empty() {
            self.put(&mut out, words(kind)[1], None, kind);
        }
        self.show();
        out
    }

    fn put(&self, out: &mut Vec<u8>, word: &str, name: Option<&Name>, kind: Kind) {
        match self.version() {
            Version::Two => put_array(out, 3),
            Version::Three => put_push(out, 3),
        }
        put_bulk(out, word.as_bytes());
        match name {
            Some(name) => put_bulk(out, name),
            None => put_null(out, self.version()),
        }
        let topics = self.topics.borrow();
        let count = |kind: Kind| topics[kind as usize].len();
        let count = match kind {
            Kind::Shard => count(kind),
            Kind::Channel | Kind::Pattern => count(Kind::Channel) + count(Kind::Pattern),
        };
        put_integer(out, i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// An error as a client hears it.
pub(super) fn refusal(words: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_error(&mut out, words);
    out
}
