//! `REDIRECT`: another client is told of keys in the place of the one that tracks them.
//!
//! A server tells another connection by the number that it has there, and knows none of Weir's
//! clients. So beside the client's own connection to each server there is one on which the server
//! says which keys are invalid, and what it says is handed to the other client on whichever worker
//! that is: the next only once that one has it, so that nothing piles up here. Where one of these
//! connections ends, both clients are closed.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::service::{Apart, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::AbortHandle;
use wire::resp::{Piece, Replies, Version, put_bulk, put_integer, put_push};

use super::options::{Options, Wanted};
use super::{State, Terms, tell_all};
use crate::desk::{Card, Target};
use crate::front::Front;
use crate::server::{Connection, Place};
use crate::servers::Servers;
use crate::servers::accounts::Account;
use crate::session::unblock::says_no_id;
use crate::session::{Asking, join};

/// How often a server is asked for a sign of life, where there is none to come.
const PING_EVERY: Duration = Duration::from_secs(1);

/// What a server says of one key, or of several.
const INVALIDATE: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";

/// A connection to one server on which that says which keys are invalid, until this is dropped.
#[derive(Debug)]
struct Listening {
    /// Its number at the server.
    id: i64,
    task: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Those of one client, in the order of the places that it tracks by.
#[derive(Debug, Default)]
pub(super) struct Redirection(RefCell<Vec<Listening>>);

/// One `CLIENT TRACKING ON` with `REDIRECT`.
pub(super) struct Redirecting {
    pub(super) front: Rc<Front>,
    pub(super) client: Asking,
    pub(super) card: Rc<Card>,
    pub(super) account: Rc<Account>,
    pub(super) terms: Rc<Terms>,
    pub(super) redirection: Rc<Redirection>,
    pub(super) wanted: Wanted,
    pub(super) options: Options,
    /// What the servers are asked, but for the number of the connection that is to be told.
    pub(super) requests: Vec<Request>,
}

impl Redirecting {
    /// Has the servers tell the other client, or the client hear why they do not.
    pub(super) async fn run(self, apart: Apart<Servers>) {
        let target = match self.prepare().await {
            Ok(target) => target,
            Err(words) => {
                // What held before holds still.
                if self.terms.state.get() == State::Awaited {
                    self.terms.state.set(State::Refused);
                }
                return apart.answer(&join::error(&words));
            }
        };
        self.card.tells.set(Some(target));
        let Self { front, client, terms, redirection, wanted, options, requests, .. } = self;
        let listening = redirection.0.borrow();
        let command = |(request, of): (Request, &Listening)| Request {
            bytes: wanted.command(Some(of.id)).into(),
            ..request
        };
        let requests = requests.into_iter().zip(listening.iter()).map(command).collect();
        // The servers' answer is the one to the command.
        apart.answer(&[]);
        tell_all(&front, &client, &terms, options, requests);
    }

    /// Finds the other client, and has all servers listened to.
    async fn prepare(&self) -> Result<Target, String> {
        let missing = || "ERR The client ID you want redirect to does not exist".to_owned();
        let id = self.options.redirect.and_then(|id| u64::try_from(id).ok()).ok_or_else(missing)?;
        let found = self.front.shared.asked(move |front| front.target(id)).await;
        let target = found.into_iter().flatten().next().ok_or_else(missing)?;
        if self.redirection.0.borrow().is_empty() {
            let mut all = Vec::new();
            for request in &self.requests {
                all.push(self.listen(request.server).await?);
            }
            *self.redirection.0.borrow_mut() = all;
        }
        Ok(target)
    }

    async fn listen(&self, place: usize) -> Result<Listening, String> {
        let servers = self.front.fabric.service();
        let number = servers.place(place).map_or(usize::MAX, |place| place.server);
        let view = servers.view();
        let server = view.server(number).ok_or("ERR weir: there is no such server")?;
        let at = Place { version: Version::Three, ..Place::FIRST };
        let server = server.logged_in(self.account.login());
        let opened = async {
            let mut connection = server.open_for(at).await?;
            server.identify(&mut connection).await.map(|()| connection)
        };
        let connection = opened.await.map_err(|error| match &error.said {
            Some(said) => said.as_ref().to_owned(),
            None => format!("ERR weir: not sent: {} cannot be reached: {error}", server.name),
        })?;
        let id = connection.identity.id.ok_or_else(|| says_no_id(&server.name))?;
        let listener = Listener {
            front: Rc::clone(&self.front),
            client: self.client.id(),
            card: Rc::clone(&self.card),
            terms: Rc::clone(&self.terms),
            limit: self.front.fabric.settings().timeout,
            replies: Replies::default(),
            rest: Vec::new(),
            asked: None,
        };
        let task = tokio::task::spawn_local(listener.run(connection)).abort_handle();
        Ok(Listening { id, task })
    }
}

/// Hears what one server says.
struct Listener {
    front: Rc<Front>,
    /// The number of the client that tracks on this worker.
    client: u64,
    card: Rc<Card>,
    terms: Rc<Terms>,
    limit: Duration,
    replies: Replies,
    /// What has come and is not whole yet.
    rest: Vec<u8>,
    /// When it was asked for a sign of life that has not come.
    asked: Option<Instant>,
}

impl Listener {
    async fn run(mut self, mut connection: Connection) {
        if let Err(error) = self.listen(&mut connection).await {
            tracing::debug!(%error, client = self.card.id, "invalidations of keys are lost");
        }
        self.front.lose_tracking(self.client);
    }

    async fn listen(&mut self, connection: &mut Connection) -> io::Result<()> {
        let mut piece = vec![0; 16 << 10];
        let mut ticks = tokio::time::interval(PING_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Whoever was kept waiting here for the other client has answered meanwhile.
                biased;
                read = connection.read(&mut piece) => {
                    let bytes = piece.get(..read?).filter(|bytes| !bytes.is_empty());
                    self.rest.extend_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                    let all = self.heard().map_err(io::Error::other)?;
                    self.tell(all).await?;
                }
                _ = ticks.tick() => match self.asked {
                    Some(at) if at.elapsed() > self.limit => {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    Some(_) => {}
                    None => {
                        self.asked = Some(Instant::now());
                        connection.write_all(b"*1\r\n$4\r\nPING\r\n").await?;
                        connection.flush().await?;
                    }
                }
            }
        }
    }

    /// Which keys are invalid by what has come, each time as the server says it.
    fn heard(&mut self) -> Result<Vec<Vec<u8>>, &'static str> {
        let (mut all, mut at) = (Vec::new(), 0);
        while let Some(bytes) = self.rest.get(at..).filter(|bytes| !bytes.is_empty()) {
            let step = self.replies.scan(bytes)?;
            let said = bytes.get(..step.len).unwrap_or_default();
            at += step.len;
            match step.what {
                Piece::Part if step.len == 0 => break,
                Piece::Part => {}
                Piece::End => self.asked = None,
                Piece::Push => {
                    let keys = said.strip_prefix(INVALIDATE).ok_or("a push of another kind")?;
                    all.push(keys.to_vec());
                }
            }
        }
        self.rest.drain(..at);
        Ok(all)
    }

    /// Hands this to the other client, and waits until that has it. Where it is gone, the client
    /// that tracks hears so each time.
    async fn tell(&self, all: Vec<Vec<u8>>) -> io::Result<()> {
        let Some(Target { worker, client }) = self.card.tells.get().filter(|_| !all.is_empty())
        else {
            return Ok(());
        };
        let count = all.len();
        let all = Arc::new(all);
        let tell = move |front: &Front| front.tell_invalid(client, &all);
        let told = self.front.shared.asked_of(worker, tell).await;
        if told.ok_or(io::ErrorKind::NotConnected)? {
            return Ok(());
        }
        self.terms.is_broken.set(true);
        let redirect = self.terms.options.borrow().redirect.unwrap_or_default();
        if let Some(tracks) = self.front.fabric.client(self.client)
            && self.card.version.get() == Version::Three
        {
            let mut out = Vec::new();
            put_push(&mut out, 2);
            put_bulk(&mut out, b"tracking-redir-broken");
            put_integer(&mut out, redirect);
            tracks.push(&out.repeat(count));
        }
        Ok(())
    }
}
