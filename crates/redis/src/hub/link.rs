//! The connection to one server that hears for all.
//!
//! What the server is asked for it answers in the order in which it was asked, with messages
//! between. It is opened for the first subscription, asked for a sign of life, and closed when
//! nobody is subscribed any more.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use wire::resp::{Piece, Replies, Value, Version, put_command, value};

use super::topics::Topics;
use super::{KINDS, Limits, Member, Name, kind_of, words};
use crate::commands::Kind;
use crate::server::{Connection, Server, ServerError};

/// How often a server is asked for a sign of life.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Hears what a server has said to what it was asked for.
type Confirmation = Box<dyn FnOnce(Result<(), String>)>;

/// What a server is to answer next.
struct PendingReply {
    /// The word and the name that its answer has; without any it is `PONG`.
    confirms: Option<(&'static str, Name)>,
    at: Instant,
    done: Option<Confirmation>,
}

/// The way to one server.
pub(super) struct Link {
    server: Server,
    limits: Cell<Limits>,
    topics: RefCell<Topics<Member>>,
    asked: RefCell<VecDeque<PendingReply>>,
    /// What is to be sent.
    out: RefCell<Vec<u8>>,
    is_running: Cell<bool>,
    /// The number of the connection.
    epoch: Cell<u64>,
    called: Notify,
}

impl Link {
    pub(super) fn new(server: Server, limits: Limits) -> Self {
        Self {
            server,
            limits: Cell::new(limits),
            topics: RefCell::default(),
            asked: RefCell::default(),
            out: RefCell::default(),
            is_running: Cell::new(false),
            epoch: Cell::new(0),
            called: Notify::new(),
        }
    }

    pub(super) fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// What is said of a subscription that went with its connection.
    pub(super) fn lost_words(&self) -> String {
        format!("ERR weir: not subscribed: the connection to {} broke", self.server.name)
    }

    /// Has the server confirm a subscription; gives the number of the connection.
    pub(super) fn join(
        self: &Rc<Self>,
        kind: Kind,
        name: &Name,
        done: impl FnOnce(Result<(), String>) + 'static,
    ) -> u64 {
        self.topics.borrow_mut().begin(kind, name);
        self.tell(words(kind)[0], name, Some(Box::new(done)));
        self.start();
        self.epoch()
    }

    /// A server has confirmed a subscription, and so have all others: it is this client's; or
    /// nobody's.
    pub(super) fn joined(&self, kind: Kind, name: &Name, member: Option<&Rc<Member>>, epoch: u64) {
        if epoch != self.epoch() {
            return;
        }
        let member = member.map(|member| (member.id(), Rc::clone(member)));
        if self.topics.borrow_mut().end(kind, name, member) {
            self.tell(words(kind)[1], name, None);
        }
    }

    /// Calls `done` when all is heard that the server has sent before it answers.
    pub(super) fn ping(&self, done: impl FnOnce(Result<(), String>) + 'static) {
        if !self.is_running.get() {
            return done(Ok(()));
        }
        self.ask(&["PING"], None, Some(Box::new(done)));
    }

    pub(super) fn remove(&self, kind: Kind, name: &Name, member: &Member) {
        if self.topics.borrow_mut().remove(kind, name, member.id()) {
            self.tell(words(kind)[1], name, None);
        }
    }

    /// Whether a client is subscribed to this here.
    pub(super) fn has(&self, kind: Kind, name: &Name, member: &Member) -> bool {
        self.topics.borrow().has(kind, name, member.id())
    }

    /// Whether a client is subscribed to anything here.
    pub(super) fn is_heard_by(&self, member: &Member) -> bool {
        let has = |kind: Kind| member.names(kind).iter().any(|name| self.has(kind, name, member));
        KINDS.into_iter().any(has)
    }

    pub(super) fn remove_all(&self, member: &Member) {
        for kind in KINDS {
            member.names(kind).iter().for_each(|name| self.remove(kind, name, member));
        }
    }

    /// The numbers of the clients that are subscribed to this.
    pub(super) fn hearers(&self, kind: Kind, name: &[u8]) -> Vec<u64> {
        self.topics.borrow().hearers(kind, name).map(|member| member.id()).collect()
    }

    /// All to which somebody is subscribed.
    pub(super) fn names(&self, kind: Kind) -> Vec<Name> {
        self.topics.borrow().names(kind).cloned().collect()
    }

    /// Closes those whose subscriptions are such.
    pub(super) fn close_where(&self, is_such: impl Fn(Kind, &[u8]) -> bool) {
        let those = self.topics.borrow().those(is_such);
        those.iter().for_each(|member| member.close());
    }

    /// Closes all that are subscribed here, and forgets them: then its connection ends.
    pub(super) fn close_all(&self) {
        let topics = self.topics.take();
        topics.those(|_, _| true).iter().for_each(|member| member.close());
    }

    fn tell(&self, word: &'static str, name: &Name, done: Option<Confirmation>) {
        self.ask(&[word.as_bytes(), name], Some((word, Rc::clone(name))), done);
    }

    fn ask<W: AsRef<[u8]>>(
        &self,
        words: &[W],
        confirms: Option<(&'static str, Name)>,
        done: Option<Confirmation>,
    ) {
        put_command(&mut self.out.borrow_mut(), words.iter());
        self.asked.borrow_mut().push_back(PendingReply { confirms, at: Instant::now(), done });
        self.called.notify_one();
    }

    fn start(self: &Rc<Self>) {
        if !self.is_running.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).run());
        }
    }

    async fn run(self: Rc<Self>) {
        let name = &self.server.name;
        let words = match self.server.dial().await {
            Ok(connection) => match self.drive(connection).await {
                Ok(()) => self.lost_words(),
                Err(error) => {
                    tracing::warn!(server = %name, %error, "the connection of subscribers is lost");
                    self.lost_words()
                }
            },
            Err(ServerError { said: Some(said), .. }) => said.as_ref().to_owned(),
            Err(error) => format!("ERR weir: not sent: {name} cannot be reached: {error}"),
        };
        self.end(&words);
    }

    /// The connection has ended: who was subscribed by it is closed.
    fn end(&self, words: &str) {
        self.epoch.set(self.epoch.get() + 1);
        self.is_running.set(false);
        self.out.take();
        let asked = self.asked.take();
        self.close_all();
        for done in asked.into_iter().filter_map(|asked| asked.done) {
            done(Err(words.to_owned()));
        }
    }

    /// Runs the connection until nobody needs it.
    async fn drive(&self, mut connection: Connection) -> io::Result<()> {
        let (mut hearing, mut piece) = (Hearing::default(), vec![0; 16 << 10]);
        let mut ticks = tokio::time::interval(PING_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut heard = Instant::now();
        loop {
            let out = self.out.take();
            if !out.is_empty() {
                let sent = async {
                    connection.write_all(&out).await?;
                    connection.flush().await
                };
                let limit = self.limits.get().timeout;
                tokio::time::timeout(limit, sent).await.map_err(|_| late("takes nothing"))??;
            }
            tokio::select! {
                read = connection.read(&mut piece) => {
                    let bytes = piece.get(..read?).filter(|bytes| !bytes.is_empty());
                    heard = Instant::now();
                    hearing.rest.extend_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                    while let Some(reply) = hearing.next(self.limits.get().message)? {
                        self.hear(reply)?;
                    }
                }
                () = self.called.notified() => {}
                _ = ticks.tick() => {
                    if self.is_over() {
                        return Ok(());
                    }
                    self.check(heard)?;
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.topics.borrow().is_empty() && self.asked.borrow().is_empty()
    }

    /// Asks for a sign of life, if there is none to come.
    fn check(&self, heard: Instant) -> io::Result<()> {
        let first = self.asked.borrow().front().map(|asked| asked.at);
        match first {
            Some(at) if at.max(heard).elapsed() > self.limits.get().timeout => {
                Err(late("answers nothing"))
            }
            Some(_) => Ok(()),
            None => {
                self.ask(&["PING"], None, None);
                Ok(())
            }
        }
    }

    /// Takes in what the server said.
    fn hear(&self, mut reply: Vec<u8>) -> io::Result<()> {
        let unexpected = || io::Error::other("it says what was not asked for");
        let (said, _) = value(&reply).map_err(io::Error::other)?;
        let words = match &said {
            Value::Array(words) => words.as_slice(),
            Value::Simple(b"PONG") => return self.is_done(None),
            Value::Error(words) => {
                let words = String::from_utf8_lossy(words).into_owned();
                let asked = self.asked.borrow_mut().pop_front().ok_or_else(unexpected)?;
                if let Some(done) = asked.done {
                    done(Err(words));
                }
                return Ok(());
            }
            _ => return Err(unexpected()),
        };
        let (Some(Value::Bulk(word)), Some(Value::Bulk(name))) = (words.first(), words.get(1))
        else {
            return Err(unexpected());
        };
        if *word == b"pong" {
            return self.is_done(None);
        }
        // A node of a Cluster ends what belongs to a slot that another one has from now on.
        if *word == b"sunsubscribe" && !self.is_awaited(word, name) {
            let those = self.topics.borrow().those(|kind, of| kind == Kind::Shard && of == *name);
            those.iter().for_each(|member| member.close());
            return Ok(());
        }
        let Some(kind) = kind_of(word) else {
            return self.is_done(Some((*word, *name)));
        };
        let topics = self.topics.borrow();
        let (mut two, mut three) = (Vec::new(), Vec::new());
        for member in topics.hearers(kind, name) {
            let of = if member.version() == Version::Two { &mut two } else { &mut three };
            of.push(Rc::clone(member));
        }
        drop(topics);
        two.iter().for_each(|member| member.hear(&reply));
        if let Some(first) = reply.first_mut() {
            *first = b'>';
        }
        three.iter().for_each(|member| member.hear(&reply));
        Ok(())
    }

    /// Whether the server is to confirm this next.
    fn is_awaited(&self, word: &[u8], name: &[u8]) -> bool {
        let asked = self.asked.borrow();
        let confirms = asked.front().and_then(|asked| asked.confirms.as_ref());
        confirms.is_some_and(|(asked, of)| asked.as_bytes() == word && &**of == name)
    }

    /// The server has answered what it was asked for first.
    fn is_done(&self, confirms: Option<(&[u8], &[u8])>) -> io::Result<()> {
        let asked = self.asked.borrow_mut().pop_front();
        let asked = asked.ok_or_else(|| io::Error::other("it answers what was not asked"))?;
        let expected = asked.confirms.as_ref().map(|(word, name)| (word.as_bytes(), &**name));
        if expected != confirms {
            let words = self.lost_words();
            if let Some(told) = asked.done {
                told(Err(words));
            }
            return Err(io::Error::other("it confirms what was not asked for"));
        }
        if let Some(told) = asked.done {
            told(Ok(()));
        }
        Ok(())
    }
}

fn late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("the server {what} within redis.timeout"))
}

/// What has come and is not whole yet.
#[derive(Default)]
struct Hearing {
    replies: Replies,
    reply: Vec<u8>,
    rest: Vec<u8>,
}

impl Hearing {
    /// The next whole reply, of at most so many bytes.
    fn next(&mut self, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let mut at = 0;
        let mut whole = None;
        while let Some(bytes) = self.rest.get(at..).filter(|bytes| !bytes.is_empty()) {
            let step = self.replies.scan(bytes).map_err(io::Error::other)?;
            if step.len == 0 {
                break;
            }
            self.reply.extend_from_slice(bytes.get(..step.len).unwrap_or_default());
            at += step.len;
            if step.what == Piece::End {
                whole = Some(std::mem::take(&mut self.reply));
                break;
            }
            if step.what == Piece::Push {
                return Err(io::Error::other("a push that nobody asked for"));
            }
        }
        self.rest.drain(..at);
        if self.reply.len() > limit {
            return Err(io::Error::other("a message is larger than redis.max-unread"));
        }
        Ok(whole)
    }
}
