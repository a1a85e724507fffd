//! A client's session: what it sends is cut into rounds, and each goes out by a lane, by a lease,
//! or is answered here.
//!
//! It never sends a round before those that came earlier are answered, unless all of them ride the
//! same lane, so a client hears its answers in its order.
//!
//! The one path: [`Session::serve`] reads; [`round::cut`] finds a [`Round`], which is handed on as
//! it is from then on; [`Session::way`] says where it goes; `ride` puts it on a lane, `lease` gets
//! a server connection and `relay`s, `begin` answers what needs no server yet.

mod ahead;
mod batch;
mod begin;
mod environment;
mod fly;
mod inbox;
mod lease;
mod listen;
mod options;
mod parts;
mod patience;
mod refuse;
mod relay;
mod ride;
pub mod startup;
mod study;
mod told;
mod way;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::limit::Permit;
use flow::memory::MemoryShare;
use flow::workers::PARSE;
use wire::postgres::backend::Status;
use wire::postgres::frame::{self, FrameError};
use wire::postgres::frontend::tag;
use wire::postgres::{Refusal, sqlstate};

use crate::backends::LastWrite;
use crate::batches::Lines;
use crate::client::Client;
use crate::database::Database;
use crate::lanes::Lane;
use crate::notify::Listener;
use crate::pipeline::round::{self, Round, RoundCut};
use crate::pipeline::settings::SessionSettings;
use crate::pipeline::summary::is_unsure;
use crate::plan::Plan;
use crate::settings::{Mode, Route};
use crate::worker::{SessionTarget, UnconfirmedCommit, WorkerContext};
use ahead::RoundsAhead;
use begin::Begun;
use environment::Environment;
use options::Options;
use patience::{Limit, Patience, idle_in_transaction_timeout, idle_timeout, read_timeout, sooner};
use refuse::LeftOut;
use way::RoundPath;

/// Requests of one client in flight at a time; more wait in its socket.
const IN_FLIGHT_MAX: usize = 64;
/// How often it is looked whether a statement is still under way once a limit has passed.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// What each client takes beside what it points to.
pub const CLIENT_BYTES: usize = size_of::<Client>() + size_of::<Session>();

/// Why a session ends.
#[derive(Debug)]
pub enum End {
    /// The client said goodbye.
    Terminated,
    /// The client went away, or its connection was closed from here.
    Gone,
    /// It is told why, and closed.
    Refused(Refusal),
}

impl End {
    fn too_large(tag: u8, len: usize) -> Self {
        let tag = char::from(tag);
        let what = format!("a message ({tag:?}) of {len} bytes is over postgres.max-message");
        Self::Refused(Refusal::fatal(sqlstate::PROGRAM_LIMIT, what))
    }

    fn unknown_message(tag: u8) -> Self {
        let what = format!("invalid frontend message type {tag}");
        Self::Refused(Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, what))
    }
}

/// What is known of a session.
pub struct Session {
    options: Options,
    front: Rc<WorkerContext>,
    /// Of those that share transactions.
    lines: Rc<Lines>,
    client: Rc<Client>,
    database: Rc<Database>,
    /// The user on the servers.
    user: Arc<str>,
    /// Its read in flight has joined another, whose answer it hears.
    has_joined: bool,
    /// Where its statements go, where the client or the configuration says so.
    route: Option<Route>,
    environment: Environment,
    /// Rounds in front of what is in the inbox.
    ahead: RoundsAhead,
    /// Bytes of the client that are not dealt with.
    inbox: Vec<u8>,
    /// What they take of the memory that all clients have for that, beyond a little that counts for
    /// nothing.
    held: MemoryShare,
    /// A transaction that no server has heard of.
    begun: Option<Begun>,
    /// Where the requests in flight are.
    riding: Option<Rc<Lane>>,
    /// The session has state on its server connection.
    pinned: bool,
    /// What is still to come of a round that was refused.
    left_out: Option<LeftOut>,
    /// The client has ended its sending side, and is still to have its answers.
    has_ended: bool,
    last_write: LastWrite,
    /// A COMMIT that the server has answered, and whose answer waits to be confirmed.
    unconfirmed: Option<UnconfirmedCommit>,
    /// The next round goes to the primary, since a replica could not answer it.
    only_primary: bool,
    /// The channels that Weir listens to for it; `None` until there is one.
    listener: Option<Box<Listener>>,
    /// Its places among the clients of its user and of its database.
    admitted: Vec<Permit>,
}

/// What stands at the start of what a client has sent.
enum Looked {
    /// A round, and where it goes.
    Round(Round, RoundPath),
    /// A round that is to be looked at once all in front of it is answered.
    Unsure,
    /// No round that goes anywhere.
    NoRound(RoundCut),
}

impl Session {
    /// A session that has asked for nothing.
    pub fn new(
        lines: Rc<Lines>,
        client: Rc<Client>,
        place: SessionTarget,
        settings: SessionSettings,
    ) -> Self {
        let front = lines.front.clone();
        let options = Options::new(&front.settings(), &place.database.name, &place.client_user);
        Self {
            has_joined: false,
            route: options.route,
            ahead: RoundsAhead::default(),
            inbox: Vec::new(),
            held: front.shared.held.none(),
            begun: None,
            left_out: None,
            has_ended: false,
            riding: None,
            pinned: options.mode == Mode::Session || settings.pins(),
            options,
            environment: Environment::new(settings),
            last_write: LastWrite::NEVER,
            unconfirmed: None,
            only_primary: false,
            listener: None,
            admitted: Vec::new(),
            database: place.database,
            user: place.user,
            client,
            front: front.clone(),
            lines,
        }
    }

    /// The client that it serves.
    pub fn client(&self) -> &Rc<Client> {
        &self.client
    }

    /// Serves the client until it goes.
    pub async fn run(mut self) {
        let end = match self.serve().await {
            Ok(()) => End::Terminated,
            Err(end) => end,
        };
        self.front.left(self.client.id);
        if let End::Refused(refusal) = end {
            let mut out = Vec::new();
            refusal.encode(&mut out);
            self.client.outlet.send(&out);
        }
        let sent = self.client.outlet.sent_bytes();
        self.database.count(|totals| totals.sent += sent);
        self.client.outlet.finish().await;
    }

    async fn serve(&mut self) -> Result<(), End> {
        loop {
            if self.client.has_repeats() {
                self.settled().await;
                Box::pin(self.ask_again()).await?;
            }
            while (!self.ahead.is_empty() || !self.inbox.is_empty()) && !self.client.has_repeats() {
                self.tell_mail()?;
                if !self.step().await? {
                    break;
                }
            }
            if self.client.in_flight() == 0 {
                if self.client.has_repeats() {
                    continue;
                }
                if let Some(refusal) = self.client.parting() {
                    return Err(End::Refused(refusal));
                }
                self.riding = None;
            }
            self.tell_mail()?;
            if self.has_ended && self.client.in_flight() == 0 {
                return Err(End::Gone);
            }
            if self.has_ended || self.client.in_flight() >= IN_FLIGHT_MAX {
                self.settled().await;
            } else {
                self.read_in_time().await?;
            }
        }
    }

    /// Waits for bytes of the client; one that asks for nothing for too long is closed.
    async fn read_in_time(&mut self) -> Result<(), End> {
        let Patience { idle, idle_in_transaction, read, .. } = self.options.patience;
        let limit: Limit = match &self.begun {
            _ if round::ends_within(&self.inbox) => read.map(|limit| (limit, read_timeout as _)),
            Some(begun) => {
                let idle = sooner(idle_in_transaction, begun.resting);
                let idle = idle.map(|it| (it, idle_in_transaction_timeout as _));
                self.options.patience.in_transaction(begun.since, idle)
            }
            None => sooner(idle, self.environment.own_idle).map(|limit| (limit, idle_timeout as _)),
        };
        let Some((limit, refusal)) = limit else { return self.read().await };
        let mut is_busy = self.client.in_flight() > 0;
        loop {
            // The time of a transaction may be over while a statement is under way.
            let limit = if is_busy { limit.max(BUSY_TURN) } else { limit };
            if let Ok(read) = tokio::time::timeout(limit, self.read()).await {
                return read;
            }
            // The pause begins with the answer, which may have come at any time since.
            match (self.client.in_flight() > 0, is_busy) {
                (true, _) => is_busy = true,
                (false, true) => is_busy = false,
                (false, false) => return Err(End::Refused(refusal())),
            }
        }
    }

    /// Deals with what stands at the start of the inbox; false when more bytes are wanted.
    async fn step(&mut self) -> Result<bool, End> {
        if let Some(left_out) = self.left_out {
            return self.skip(left_out);
        }
        if let Some(begun) = &self.begun
            && let Some((Duration::ZERO, refusal)) =
                self.options.patience.in_transaction(begun.since, None)
            && self.client.in_flight() == 0
        {
            return Err(End::Refused(refusal()));
        }
        let (round, way) = match self.look() {
            Looked::Round(round, way) => (round, way),
            // Its names may stand for something else once what came before it is answered.
            Looked::Unsure => {
                self.settled().await;
                return Ok(true);
            }
            Looked::NoRound(cut) => return self.step_over(cut).await,
        };
        let in_flight = self.client.in_flight();
        // In a transaction an error decides about what follows it.
        let goes_beside = matches!(way, RoundPath::Ride(_)) && self.begun.is_none();
        if in_flight > 0 && !goes_beside {
            // What comes before it is answered first.
            self.ahead.wait(round);
            self.settled().await;
            return Ok(true);
        }
        if in_flight >= IN_FLIGHT_MAX {
            self.ahead.wait(round);
            return Ok(false);
        }
        if let Some(round) = self.go(round, way).await? {
            self.ahead.wait(round);
        }
        Ok(true)
    }

    /// Sends a round its way, or answers it; the round comes back where it is to be looked at once
    /// more.
    async fn go(&mut self, round: Round, way: RoundPath) -> Result<Option<Round>, End> {
        match way {
            RoundPath::Ride(plan) => {
                let may_share = self.may_share_read(&plan);
                return self.ride(round, plan, may_share).await;
            }
            RoundPath::Lease { read } => return Box::pin(self.lease(round, read)).await,
            RoundPath::Fly(plan) => return Box::pin(self.fly(round, plan)).await,
            RoundPath::Batch(plan) => return Box::pin(self.batch(round, plan)).await,
            RoundPath::Listening(what) => {
                return Box::pin(self.change_listening(what, round)).await;
            }
            RoundPath::Begin(form, sql) => self.begin(form, sql, &round),
            RoundPath::End(command) => self.end(command, &round),
            RoundPath::Route(route) => self.change_route(route, &round),
            RoundPath::Forget(what) => self.deallocate(&what, &round),
        }
        Ok(None)
    }

    /// The round that is next, and where it goes.
    fn look(&mut self) -> Looked {
        let front = self.front.clone();
        let _stage = front.worker.pulse.enter_sized(&PARSE, self.inbox.len());
        let mut round = match self.next_round() {
            Ok(round) => round,
            Err(cut) => return Looked::NoRound(cut),
        };
        if self.client.in_flight() > 0 && is_unsure(round.bytes(), &self.client.names()) {
            self.ahead.wait(round);
            return Looked::Unsure;
        }
        let way = self.way(&mut round);
        Looked::Round(round, way)
    }

    /// The round that waits for its turn, or else what is cut from the start of the inbox; what is
    /// no round stays there, and so does one that goes out as it comes.
    fn next_round(&mut self) -> Result<Round, RoundCut> {
        if let Some(mut round) = self.ahead.next() {
            round.came = Instant::now();
            return Ok(round);
        }
        match round::cut(&self.inbox, self.front.settings().max_message.len()) {
            RoundCut::Query(len) => Ok(Round::query(self.take(len), Instant::now())),
            RoundCut::Extended(len) => Ok(Round::extended(self.take(len), Instant::now())),
            RoundCut::Stream => Ok(Round::streamed(Instant::now())),
            cut => Err(cut),
        }
    }

    /// Deals with what is no round that goes anywhere; false when more bytes are wanted.
    async fn step_over(&mut self, cut: RoundCut) -> Result<bool, End> {
        match cut {
            // A round does not come here.
            RoundCut::More | RoundCut::Query(_) | RoundCut::Extended(_) | RoundCut::Stream => {
                return Ok(false);
            }
            RoundCut::Sync(len) => {
                self.settled().await;
                if !self.client.has_repeats() {
                    self.answer_sync(len);
                }
            }
            RoundCut::Nothing(len) => drop(self.inbox.drain(..len)),
            // What came before it is answered first.
            RoundCut::Terminate | RoundCut::Garbage if self.client.in_flight() > 0 => {
                self.settled().await
            }
            RoundCut::Terminate => return Err(End::Terminated),
            RoundCut::Garbage => return Err(self.garbage()),
        }
        Ok(true)
    }

    fn garbage(&self) -> End {
        let max = self.front.settings().max_message.len();
        match (frame::header(&self.inbox, max), self.inbox.first()) {
            (Err(FrameError::TooLong { len, .. }), Some(&tag)) if tag::is_known(tag) => {
                End::too_large(tag, len)
            }
            (_, Some(&tag)) => End::unknown_message(tag),
            (_, None) => End::Gone,
        }
    }

    /// Where the session is, as far as no server has to be asked.
    fn status(&self) -> Status {
        match &self.begun {
            None => Status::Idle,
            Some(_) if self.client.has_failed() => Status::Failed,
            Some(_) => Status::InTransaction,
        }
    }

    /// Whether the answers to its commits wait for what many commits have in common.
    fn shares_commits(&self) -> bool {
        self.options.shares_commits && !self.environment.says_of_commits
    }

    /// Waits until nothing is in flight.
    async fn settled(&self) {
        std::future::poll_fn(|cx| self.client.poll_settled(cx)).await;
    }

    /// What is known of a statement.
    fn plan(&self, sql: &[u8]) -> Rc<Plan> {
        self.database.plan(sql, self.environment.scope)
    }
}

#[cfg(test)]
mod tests;
