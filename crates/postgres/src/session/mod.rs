//! A client's session: what it sends is cut into rounds, and each goes out by a lane, by a lease,
//! or is answered here.
//!
//! It never sends a round before those that came earlier are answered, unless all of them ride the
//! same lane, so a client hears its answers in its order.
//!
//! The one path: [`Session::serve`] reads; [`round::cut`] finds a round; [`Session::way`] says
//! where it goes; `ride` puts it on a lane, `lease` gets a server connection and `relay`s,
//! `begin` answers what needs no server yet.

mod batch;
mod begin;
mod fly;
mod inbox;
mod lease;
mod listen;
mod parts;
mod patience;
mod refuse;
mod relay;
mod ride;
pub mod startup;
mod study;
mod summary;
mod told;
mod way;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flow::limit::Permit;
use flow::memory::MemoryShare;
use flow::workers::PARSE;
use wire::postgres::backend::Status;
use wire::postgres::frame::{self, FrameError};
use wire::postgres::frontend::tag;
use wire::postgres::{Refusal, sqlstate};

use crate::backends::LastWrite;
use crate::batches::{Batches, Lines};
use crate::client::Client;
use crate::database::Database;
use crate::lanes::{Group, Lane};
use crate::notify::Listener;
use crate::pipeline::round::{self, Cut};
use crate::pipeline::settings::{Applied, SessionSettings};
use crate::plan::{Plan, Scope};
use crate::settings::{Consistency, LastValues, Mode, Route};
use crate::worker::{Front, Place};
use begin::Begun;
use patience::{
    Limit, Patience, idle_in_transaction_timeout, idle_timeout, read_timeout, setting_duration,
    sooner,
};
use refuse::LeftOut;
use told::Told;
use way::Way;

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
    patience: Patience,
    front: Rc<Front>,
    /// Of those that share transactions.
    lines: Rc<Lines>,
    client: Rc<Client>,
    database: Rc<Database>,
    /// The user on the servers.
    user: Arc<str>,
    mode: Mode,
    lanes_on: bool,
    /// Its reads may be asked together with equal ones.
    shares_reads: bool,
    /// Its read in flight has joined another, whose answer it hears.
    has_joined: bool,
    /// Point statements that come as text are prepared.
    prepares_points: bool,
    consistency: Consistency,
    route: Option<Route>,
    settings: SessionSettings,
    applied: Applied,
    /// How the servers read this session's text.
    scope: Scope,
    /// What it was told of its settings.
    told: Told,
    /// Its writes may share transactions.
    batches_on: bool,
    /// It keeps its server for its next round after it may have drawn from a sequence.
    keeps_last_values: bool,
    /// As far as its settings go.
    may_share: bool,
    /// Those with these settings that it shares them with.
    batches: Option<Rc<Batches>>,
    /// The lanes of these settings, by the backend's number.
    groups: Vec<Option<Rc<Group>>>,
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
    /// The next round goes to the primary, since a replica could not answer it.
    only_primary: bool,
    /// The channels that Weir listens to for it; `None` until there is one.
    listener: Option<Box<Listener>>,
    /// Its places among the clients of its user and of its database.
    admitted: Vec<Permit>,
}

impl Session {
    /// A session that has asked for nothing.
    pub fn new(
        lines: Rc<Lines>,
        client: Rc<Client>,
        place: Place,
        mut settings: SessionSettings,
    ) -> Self {
        let front = lines.front.clone();
        let configured = front.settings();
        let database = configured.database(&place.database.name);
        let user = configured.user(&place.client_user);
        let of = |user: Option<bool>, database: Option<bool>, all| user.or(database).unwrap_or(all);
        let mode = configured.mode(&place.database.name, &place.client_user);
        let mut session = Self {
            patience: Patience::new(&configured, &place.database.name, &place.client_user),
            mode,
            lanes_on: of(
                user.and_then(|user| user.lanes),
                database.and_then(|database| database.lanes),
                configured.lanes.on,
            ),
            shares_reads: of(None, database.and_then(|of| of.share_reads), configured.share_reads),
            has_joined: false,
            prepares_points: configured.prepare_points && mode == Mode::Transaction,
            consistency: database
                .and_then(|database| database.consistency)
                .unwrap_or(configured.consistency),
            route: user
                .and_then(|user| user.route)
                .or_else(|| database.and_then(|database| database.route)),
            applied: settings.applied(),
            scope: Scope::default(),
            told: Told::default(),
            batches_on: false,
            keeps_last_values: user
                .and_then(|user| user.last_values)
                .or_else(|| database.and_then(|database| database.last_values))
                .is_some_and(|last_values| last_values == LastValues::Keep),
            may_share: false,
            batches: None,
            groups: Vec::new(),
            inbox: Vec::new(),
            held: front.shared.held.none(),
            begun: None,
            left_out: None,
            has_ended: false,
            riding: None,
            pinned: mode == Mode::Session || settings.pins(),
            settings,
            last_write: LastWrite::NEVER,
            only_primary: false,
            listener: None,
            admitted: Vec::new(),
            database: place.database,
            user: place.user,
            client,
            front: front.clone(),
            lines,
        };
        session.batches_on = session.lanes_on && mode == Mode::Transaction && configured.batches.on;
        session.share();
        session
    }

    /// Whether transactions with these settings may be shared.
    fn share(&mut self) {
        let own_idle = self.settings.value("idle_session_timeout");
        self.patience.own_idle = own_idle.and_then(setting_duration);
        self.may_share = !self.settings.says_of_transactions() && Batches::go_with(&self.applied);
        self.batches = None;
    }

    /// Its connection.
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
                let repeats = self.client.repeats();
                self.ask_again(repeats).await?;
            }
            while !self.inbox.is_empty() && !self.client.has_repeats() {
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
        let Patience { idle, own_idle, idle_in_transaction, read, .. } = self.patience;
        let limit: Limit = match &self.begun {
            _ if round::ends_within(&self.inbox) => read.map(|limit| (limit, read_timeout as _)),
            Some(begun) => {
                let idle = sooner(idle_in_transaction, begun.resting);
                let idle = idle.map(|it| (it, idle_in_transaction_timeout as _));
                self.patience.in_transaction(begun.since, idle)
            }
            None => sooner(idle, own_idle).map(|limit| (limit, idle_timeout as _)),
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
            && let Some((Duration::ZERO, refusal)) = self.patience.in_transaction(begun.since, None)
            && self.client.in_flight() == 0
        {
            return Err(End::Refused(refusal()));
        }
        let (len, way) = match self.look() {
            (Cut::Query(len) | Cut::Extended(len), Some(way)) => (len, way),
            // Its names may stand for something else once what came before it is answered.
            (Cut::Query(_) | Cut::Extended(_), None) => {
                self.settled().await;
                return Ok(true);
            }
            (cut, _) => match self.step_over(cut).await? {
                Some(more) => return Ok(more),
                None => (0, Way::Lease { read: false }),
            },
        };
        // In a transaction an error decides about what follows it.
        if let Way::Ride(plan) = &way
            && (self.begun.is_none() || self.client.in_flight() == 0)
        {
            if self.client.in_flight() >= IN_FLIGHT_MAX {
                return Ok(false);
            }
            let (request, plan) = (self.take(len), plan.clone());
            let sharing = self.may_share_read(&plan);
            return self.ride(request, plan, 0, sharing).await.map(|()| true);
        }
        // What comes before it is answered first.
        if self.client.in_flight() > 0 {
            self.settled().await;
            return Ok(true);
        }
        match way {
            Way::Ride(_) => {}
            Way::Lease { read } => Box::pin(self.lease(read)).await?,
            Way::Fly(plan) => Box::pin(self.fly(len, plan)).await?,
            Way::Batch(plan) => Box::pin(self.batch(plan, len)).await?,
            Way::Begin(form, sql) => self.begin(form, sql, len),
            Way::End(command) => self.end(command, len),
            Way::Route(route) => self.change_route(route, len),
            Way::Forget(what) => self.deallocate(&what, len),
            Way::Listening(what) => Box::pin(self.change_listening(what, len)).await?,
        }
        Ok(true)
    }

    /// Cuts what stands at the start of the inbox, and says where it goes; `None` for what is no
    /// round, and for one that is to be looked at again once all is answered.
    fn look(&self) -> (Cut, Option<Way>) {
        let _stage = self.front.worker.pulse.enter_sized(&PARSE, self.inbox.len());
        let cut = round::cut(&self.inbox, self.front.settings().max_message.len());
        let way = match cut {
            Cut::Query(len) => Some(self.way_of_query(len)),
            Cut::Extended(len) if self.client.in_flight() > 0 && self.is_unsure(len) => None,
            Cut::Extended(len) => Some(self.way_of_extended(len)),
            _ => None,
        };
        (cut, way)
    }

    /// Deals with what is no round: whether to go on at once; `None` where a server has to have it.
    async fn step_over(&mut self, cut: Cut) -> Result<Option<bool>, End> {
        match cut {
            Cut::More => return Ok(Some(false)),
            Cut::Query(_) | Cut::Extended(_) | Cut::Stream => return Ok(None),
            Cut::Sync(len) => {
                self.settled().await;
                if !self.client.has_repeats() {
                    self.answer_sync(len);
                }
            }
            Cut::Nothing(len) => drop(self.inbox.drain(..len)),
            // What came before it is answered first.
            Cut::Terminate | Cut::Garbage if self.client.in_flight() > 0 => self.settled().await,
            Cut::Terminate => return Err(End::Terminated),
            Cut::Garbage => return Err(self.garbage()),
        }
        Ok(Some(true))
    }

    fn is_unsure(&self, len: usize) -> bool {
        summary::is_unsure(&self.inbox[..len], &self.client.names())
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

    /// Waits until nothing is in flight.
    async fn settled(&self) {
        std::future::poll_fn(|cx| self.client.poll_settled(cx)).await;
    }

    /// What is known of a statement.
    fn plan(&self, sql: &[u8]) -> Rc<Plan> {
        self.database.plan(sql, self.scope)
    }

    /// The settings have changed: other lanes from now on.
    fn settings_changed(&mut self) {
        let applied = self.settings.applied();
        if applied != self.applied {
            self.applied = applied;
            self.scope = self.settings.scope(&self.told.begun);
            self.groups.clear();
            self.share();
        }
    }
}
