//! How keys are spread over the servers of a ring, and how that changes with the settings.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Fleet, Node, View};
use crate::placement::{Distribution, Hash, Member, Ring};
use crate::server::Server;
use crate::settings::Settings;

/// How keys are spread over the servers of a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// In the order of the settings, which some distributions go by.
    pub shares: Vec<Share>,
    /// What leads from a key to one of them.
    pub hashing: Hashing,
}

/// A server's part of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The name that places keys.
    pub name: Arc<str>,
    /// Its part beside the others'.
    pub weight: u32,
    /// The number of the server.
    pub server: usize,
}

/// What leads from a key to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashing {
    /// From a hash to a server.
    pub distribution: Distribution,
    /// From a key, or its tag, to a hash.
    pub hash: Hash,
    /// What encloses a tag.
    pub tag: Option<[u8; 2]>,
}

impl Hashing {
    /// As the settings have it.
    pub fn new(settings: &Settings) -> Self {
        Self { distribution: settings.distribution, hash: settings.hash, tag: settings.tag() }
    }
}

/// A server that is to be in a pool.
#[derive(Debug)]
pub struct WantedServer {
    /// How it is reached.
    pub server: Server,
    /// Its part of the keys.
    pub weight: u32,
    /// One of the same name is there already, and is reached and logged in to alike.
    pub is_known: bool,
}

impl WantedServer {
    /// Whether the weights of these leave any of them keys.
    pub fn have_keys(all: &[Self], hashing: Hashing) -> bool {
        let share = |(server, of): (usize, &Self)| Share {
            name: Arc::clone(&of.server.name),
            weight: of.weight,
            server,
        };
        let shares = all.iter().enumerate().map(share).collect();
        Spread { shares, hashing }.ring(&|_| true).is_some()
    }
}

impl Spread {
    /// A ring of those that live, by their places in `shares`; `None` if none of them has keys.
    pub fn ring(&self, is_live: &dyn Fn(usize) -> bool) -> Option<Ring> {
        let shares = self.shares.iter();
        let members: Vec<Member<'_>> =
            shares.map(|of| Member { name: &of.name, weight: of.weight }).collect();
        Ring::new(self.hashing.distribution, &members, is_live)
    }
}

impl View {
    /// The weight of a server that has some.
    pub fn weight(&self, number: usize) -> Option<u32> {
        let shares = self.spread.iter().flat_map(|spread| &spread.shares);
        shares.into_iter().find(|of| of.server == number).map(|of| of.weight)
    }
}

impl View {
    /// The server that has a name in the settings, as these have it.
    pub fn configured_as(&self, name: &str) -> Option<&Server> {
        self.nodes.get(self.number_as(name)?).map(|node| &*node.origin)
    }

    fn number_as(&self, name: &str) -> Option<usize> {
        let is_it =
            |number: &usize| self.nodes.get(*number).is_some_and(|of| *of.origin.name == *name);
        self.configured.iter().copied().find(is_it)
    }
}

impl Fleet {
    /// Puts the servers of a ring in force as other settings have them. Those that are known keep
    /// their numbers; what is not wanted any more leaves, and its replicas with it.
    pub fn respread(&self, wanted: Vec<WantedServer>, hashing: Hashing) {
        let _changing = self.lock();
        let before = self.view.load();
        let mut view = View::clone(&before);
        let mut shares = Vec::new();
        for WantedServer { server, weight, is_known } in wanted {
            let name = Arc::clone(&server.name);
            let known = view.number_as(&name).filter(|_| is_known);
            let server = known.unwrap_or_else(|| self.comes(&mut view, server));
            shares.push(Share { name, weight, server });
        }
        let numbers: Vec<usize> = shares.iter().map(|of| of.server).collect();
        for number in before.configured.iter().filter(|of| !numbers.contains(of)) {
            self.leaves(&mut view, *number);
        }
        let spread = Some(Arc::new(Spread { shares, hashing }));
        if spread == before.spread {
            return;
        }
        view.spread = spread;
        (view.configured, view.holders) = (numbers.clone().into(), numbers);
        self.change(view);
        // Whoever looks for a server that has left looks no more.
        self.missed.notify_waiters();
    }

    /// Puts in force where a Cluster is asked first. What was heard of it stays.
    pub fn begin_at(&self, wanted: Vec<Server>) {
        let _changing = self.lock();
        let before = self.view.load();
        let mut view = View::clone(&before);
        let number = |server: Server| {
            let known = view.nodes.iter().position(|node| node.server.is_where(&server));
            known.unwrap_or_else(|| self.comes(&mut view, server.into_node()))
        };
        let numbers: Vec<usize> = wanted.into_iter().map(number).collect();
        if before.configured[..] == numbers[..] {
            return;
        }
        let first = numbers.first().map_or(0, |number| *number as u64);
        self.first.store(first, Ordering::Relaxed);
        view.configured = numbers.into();
        self.change(view);
        self.call();
    }

    /// A server of the settings has a number from now on: that of one that has left long ago, or
    /// one more.
    fn comes(&self, view: &mut View, server: Server) -> usize {
        let server = Arc::new(server);
        let number = view.forgotten().unwrap_or(view.nodes.len());
        self.health.is_new(number, &server.name, true);
        view.put(number, server);
        number
    }

    /// A server of the settings has keys no more.
    fn leaves(&self, view: &mut View, number: usize) {
        let is_its =
            |(of, node): &(usize, &mut Node)| *of == number || node.replica_of == Some(number);
        for (of, node) in view.nodes.iter_mut().enumerate().filter(is_its) {
            node.leaves();
            node.readers = Arc::default();
            self.health.leaves(of);
        }
    }
}
