//! Subscriptions: one connection to each server hears for all clients of a worker.
//!
//! A client hears that it is subscribed once its servers have confirmed that to the hub: each
//! subscription is told to them again, so that nothing is heard that was published before it. It is
//! let go behind a `PING`, so that what was published before is heard. Where a connection ends,
//! messages may be lost: then those who were subscribed there are closed, so that they know.
//!
//! There is one hub for each account, as channels have permissions: no clients of several users
//! share a connection.

mod hubs;
mod link;
mod member;
mod topics;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flow::service::Apart;

use crate::commands::Kind;
use crate::fleet::{Fleet, View};
use crate::server::Login;
use crate::servers::Servers;
use crate::topology::redirect::{Ran, Redirect};
pub use hubs::Hubs;
use link::Link;
pub use member::Member;

/// All kinds of subscriptions, in the order of their numbers.
const KINDS: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

/// The word that begins a subscription, and the one that ends it.
fn words(kind: Kind) -> [&'static str; 2] {
    match kind {
        Kind::Channel => ["subscribe", "unsubscribe"],
        Kind::Pattern => ["psubscribe", "punsubscribe"],
        Kind::Shard => ["ssubscribe", "sunsubscribe"],
    }
}

/// The kind of a message by its first word.
fn kind_of(word: &[u8]) -> Option<Kind> {
    match word {
        b"message" => Some(Kind::Channel),
        b"pmessage" => Some(Kind::Pattern),
        b"smessage" => Some(Kind::Shard),
        _ => None,
    }
}

/// The name of a channel, or a pattern.
pub type Name = Rc<[u8]>;

/// What a command is for: names, each with the servers that it concerns.
pub type Places = Vec<(Name, Vec<usize>)>;

/// How a hub's connections are run.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a server may be silent when it is asked for something.
    pub timeout: Duration,
    /// How long a message may be.
    pub message: usize,
}

/// The subscriptions of a worker's clients.
pub struct Hub {
    fleet: Arc<Fleet>,
    /// As whom its connections are logged in.
    login: Login,
    limits: Cell<Limits>,
    /// By the servers' numbers, each with the server that has it.
    links: RefCell<HashMap<usize, (u64, Rc<Link>)>>,
    /// How often channels went to other servers.
    moves: Cell<u64>,
}

impl Hub {
    /// A hub for these servers, of which none is connected to yet.
    pub fn new(fleet: Arc<Fleet>, login: Login, limits: Limits) -> Rc<Self> {
        let (limits, links) = (Cell::new(limits), RefCell::default());
        Rc::new(Self { fleet, login, limits, links, moves: Cell::new(0) })
    }

    /// Has other limits hold from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
        self.links.borrow().values().for_each(|(_, link)| link.set_limits(limits));
    }

    /// The way to a server.
    fn link(&self, number: usize) -> Option<Rc<Link>> {
        let view = self.fleet.view();
        let incarnation = view.incarnation(number)?;
        let mut links = self.links.borrow_mut();
        if let Some((of, link)) = links.get(&number)
            && *of == incarnation
        {
            return Some(Rc::clone(link));
        }
        let server = view.server(number)?.logged_in(&self.login);
        let link = Rc::new(Link::new(server, self.limits.get()));
        links.insert(number, (incarnation, Rc::clone(&link)));
        Some(link)
    }

    fn links(&self) -> Vec<(usize, Rc<Link>)> {
        let links = self.links.borrow();
        links.iter().map(|(number, (_, link))| (*number, Rc::clone(link))).collect()
    }

    /// The servers are others now: whoever is subscribed at one that is not what it was is closed.
    pub fn are_others(&self, view: &View) {
        let is_as_it_was = |number: usize, incarnation: u64| {
            view.incarnation(number) == Some(incarnation) && view.is_there(number)
        };
        let mut links = self.links.borrow_mut();
        let gone = links.extract_if(|number, (of, _)| !is_as_it_was(*number, *of));
        let gone: Vec<Rc<Link>> = gone.map(|(_, (_, link))| link).collect();
        drop(links);
        if !gone.is_empty() {
            self.moves.set(self.moves.get() + 1);
        }
        gone.iter().for_each(|link| link.close_all());
    }

    /// How often channels went to other servers. Places are good as long as this is the same.
    pub fn moves(&self) -> u64 {
        self.moves.get()
    }

    /// Subscribes a client, which hears of it in the answer. The places are those after so many
    /// [`moves`](Self::moves).
    pub fn join(
        self: &Rc<Self>,
        kind: Kind,
        (places, moves): (Places, u64),
        member: &Rc<Member>,
        apart: Apart<Servers>,
    ) {
        let joining = Joining {
            hub: Rc::clone(self),
            moves,
            kind,
            member: Rc::clone(member),
            steps: RefCell::default(),
            failed: RefCell::default(),
            names: places.iter().map(|(name, _)| Rc::clone(name)).collect(),
            apart: RefCell::new(Some(apart)),
        };
        let joining = Rc::new(joining);
        let mut told = HashSet::new();
        for (name, servers) in places {
            // A name that is there several times is confirmed once, and answered each time.
            if !told.insert(Rc::clone(&name)) {
                continue;
            }
            for server in servers {
                let Some(link) = self.link(server) else { continue };
                let (told, name) = (Rc::clone(&joining), Rc::clone(&name));
                let epoch = link.join(kind, &name, move |done| told.is_told(done, server));
                joining.steps.borrow_mut().push(Step { link, name, epoch });
            }
        }
    }

    /// Ends subscriptions of a client, which hears of it in the answer.
    pub fn leave(
        self: &Rc<Self>,
        kind: Kind,
        names: Vec<Name>,
        member: &Rc<Member>,
        apart: Apart<Servers>,
    ) {
        let links: Vec<_> = self.links().into_iter().map(|(_, link)| link).collect();
        let has_some = |link: &Rc<Link>| names.iter().any(|name| link.has(kind, name, member));
        let links: Vec<_> = links.into_iter().filter(has_some).collect();
        let (of, member) = (links.clone(), Rc::clone(member));
        settle(&links, move || {
            for link in &of {
                names.iter().for_each(|name| link.remove(kind, name, &member));
            }
            apart.push(&member.left(kind, &names));
        });
    }

    /// Calls `done` once a client has heard all that was published before.
    pub fn settle(&self, member: &Member, done: impl FnOnce() + 'static) {
        let mut links: Vec<_> = self.links().into_iter().map(|(_, link)| link).collect();
        links.retain(|link| link.is_heard_by(member));
        settle(&links, done);
    }

    /// A client is subscribed to nothing any more.
    pub fn remove(&self, member: &Member) {
        member.leaves();
        self.links().iter().for_each(|(_, link)| link.remove_all(member));
    }

    /// How many clients of this worker are subscribed to this, at whatever servers.
    fn count(&self, kind: Kind, name: &[u8]) -> usize {
        let mut clients = HashSet::new();
        self.links().iter().for_each(|(_, link)| clients.extend(link.hearers(kind, name)));
        clients.len()
    }

    /// The patterns that clients of this worker are subscribed to.
    fn patterns(&self) -> HashSet<Name> {
        self.links().iter().flat_map(|(_, link)| link.names(Kind::Pattern)).collect()
    }

    /// Channels may be with other servers now: whoever is subscribed to one where it is not any
    /// more is closed.
    pub fn is_placed_anew(&self, is_at: impl Fn(Kind, &[u8], usize) -> bool) {
        self.moves.set(self.moves.get() + 1);
        for (server, link) in self.links() {
            link.close_where(|kind, name| !is_at(kind, name, server));
        }
    }
}

/// One subscription that a server is to confirm.
struct Step {
    link: Rc<Link>,
    name: Name,
    /// The number of the connection that it was asked on.
    epoch: u64,
}

/// A command that subscribes, until all servers have confirmed it.
struct Joining {
    hub: Rc<Hub>,
    /// The hub's when it was seen where the names are.
    moves: u64,
    kind: Kind,
    member: Rc<Member>,
    names: Vec<Name>,
    steps: RefCell<Vec<Step>>,
    /// What the first server said that refused.
    failed: RefCell<Option<String>>,
    apart: RefCell<Option<Apart<Servers>>>,
}

impl Joining {
    /// What a server has said, by its number.
    fn is_told(&self, done: Result<(), String>, by: usize) {
        let Err(words) = done else { return };
        let words = match format!("-{words}\r\n").as_bytes() {
            line if Redirect::is_followed(line) => {
                if let Some(Redirect::Moved { slot, at }) = Redirect::read(line) {
                    self.hub.fleet.moved(slot, &at, by);
                }
                Ran::Not.words(self.hub.fleet.view().slots.is_some()).to_owned()
            }
            _ => words,
        };
        self.failed.borrow_mut().get_or_insert(words);
    }
}

/// The last server has answered.
impl Drop for Joining {
    fn drop(&mut self) {
        let steps = self.steps.take();
        let Some(apart) = self.apart.take() else { return };
        let lost = steps.iter().find(|step| step.link.epoch() != step.epoch);
        let failed = self.failed.take().or_else(|| Some(lost?.link.lost_words()));
        if failed.is_some() {
            // A node of a Cluster may have refused what is with another one now.
            self.hub.fleet.call();
        }
        let joins = failed.is_none() && !self.member.has_left();
        match failed {
            Some(words) => apart.answer(&member::refusal(&words)),
            None => apart.push(&self.member.joined(self.kind, &self.names)),
        }
        for step in &steps {
            let member = joins.then_some(&self.member);
            step.link.joined(self.kind, &step.name, member, step.epoch);
        }
        // What it is subscribed to may be with another server by now.
        if joins && self.moves != self.hub.moves() {
            self.member.close();
        }
    }
}

/// Calls `done` when nothing is on its way from these servers that was published before.
fn settle(links: &[Rc<Link>], done: impl FnOnce() + 'static) {
    let settling = Rc::new(Settling(Some(Box::new(done))));
    for link in links {
        let settling = Rc::clone(&settling);
        // What keeps the rest from ending is dropped when the last server has answered.
        link.ping(move |_| drop(settling));
    }
}

/// What is done when the last server has answered.
struct Settling(Option<Box<dyn FnOnce()>>);

impl Drop for Settling {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done();
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("links", &self.links.borrow().len()).finish()
    }
}
