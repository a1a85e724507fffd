//! How a lane is opened, and what becomes of it.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use flow::lane::{Orphan, Why};
use flow::lanes::{self, LaneParts, NotOpened};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::postgres::Refusal;

use super::{Leased, WorkerContext, limits};
use crate::backends::BackendState;
use crate::connection::ServerState;
use crate::lanes::{Attendant, Group, Lane, LaneServer, Norm, Replies, Ticket};
use crate::pipeline::prepared::PreparedStatements;
use crate::pipeline::settings::strings_of;

impl WorkerContext {
    /// Opens another lane of a group, away from whoever wants it.
    pub fn open_lane(&self, group: &Rc<Group>) {
        let (Some(front), group) = (self.me.upgrade(), group.clone()) else { return };
        lanes::open(LaneOpener::new(front, group, LaneKind::Kept));
    }
}

/// What a lane is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// Quick reads, for as long as there are some.
    Kept,
    /// The reads of one flight, whose times say nothing of those on other lanes.
    Flight,
}

/// Opens one lane of a group. It keeps the lease, so a lane counts as one connection of the pool.
pub(super) struct LaneOpener {
    front: Rc<WorkerContext>,
    group: Rc<Group>,
    kind: LaneKind,
    /// The lane, once it is there.
    lane: Rc<OnceCell<Weak<Lane>>>,
}

impl lanes::Opener for LaneOpener {
    type Protocol = Replies;
    type Ticket = Ticket;
    type Server = LaneServer;
    type Error = Refusal;
    type Connection = LaneSocket;
    type Owner = Attendant;

    fn group(&self) -> &lanes::GroupOf<Self> {
        &self.group
    }

    fn has_room(&self, now: Instant) -> bool {
        self.front.has_room_for_lane(&self.group, now)
    }

    async fn open(&self) -> Result<LaneParts<Self>, NotOpened<Refusal>> {
        let (front, group) = (&self.front, &self.group);
        let key = super::lanes::pool_key(group);
        let deadline = Instant::now() + front.settings().timeouts.query_wait.get();
        let leased = front.lease(key, &group.key.settings, deadline).await;
        let leased = leased.map_err(|error| NotOpened::Failed(error.refusal()))?;
        self.lane_of(leased).await.map_err(NotOpened::Failed)
    }

    fn opened(&self, lane: &Rc<Lane>) {
        let _ = self.lane.set(Rc::downgrade(lane));
    }

    fn ended(&self, why: &Why, _left: usize, _connection: LaneSocket) {
        self.note_end(why);
    }

    fn orphaned(&self, orphan: Orphan<Ticket>) {
        orphan.ticket.orphaned(orphan.fate);
    }
}

impl LaneOpener {
    pub(super) fn new(front: Rc<WorkerContext>, group: Rc<Group>, kind: LaneKind) -> Self {
        Self { front, group, kind, lane: Rc::default() }
    }

    /// Makes a lane of a connection, with the settings of its group.
    pub(super) async fn lane_of(&self, mut leased: Leased) -> Result<LaneParts<Self>, Refusal> {
        let (front, group) = (&self.front, &self.group);
        leased.take_on(&group.key.settings);
        leased.settle_in_time(&front.scratch).await?;
        let settings = front.settings();
        let limits = flow::lane::Limits {
            depth: group.depth(),
            unread: settings.max_message.len(),
            ..flow::lane::Limits::default()
        };
        // What the connection has prepared for those who leased it is there under the same names.
        let none = PreparedStatements::new(limits::of_connection(&settings));
        let prepared = std::mem::replace(&mut leased.prepared, none);
        let known = Rc::new(self.known(&leased, prepared));
        leased.record.is_now(ServerState::Lane);
        Ok(LaneParts {
            connection: LaneSocket { leased, known: known.clone() },
            protocol: Replies::new(settings.max_message.len()),
            owner: Attendant::new(known.clone(), self.lane.clone()),
            known,
            limits,
            scratch: front.scratch.clone(),
        })
    }

    /// A lane has ended, which may say something of its server.
    pub(super) fn note_end(&self, why: &Why) {
        let backend = self.group.backend.name();
        if !matches!(why, Why::Drained) {
            tracing::warn!(backend, ?why, "a lane has ended");
        }
        if !matches!(why, Why::Drained | Why::Closed) {
            self.group.backend.suspect();
        }
    }

    /// What is known of the server at the end of a connection.
    fn known(&self, leased: &Leased, prepared: PreparedStatements) -> LaneServer {
        let (front, group) = (&self.front, &self.group);
        let times = front.latencies(&group.backend);
        let (latencies, norm) = match self.kind {
            LaneKind::Kept => (&times.lane, front.norm.clone()),
            LaneKind::Flight => (&times.lease, Norm::default()),
        };
        LaneServer {
            prepared: RefCell::new(prepared),
            cancel: leased.key.clone(),
            load: group.load.clone(),
            record: leased.record.clone(),
            shared: front.shared.metrics.shared.clone(),
            latencies: latencies.clone(),
            answered: Cell::new(0),
            heard: Cell::new(Instant::now()),
            norm,
            slow: front.slow.clone(),
            is_replica: group.backend.standing() != BackendState::Primary,
            strings: strings_of(&leased.reported),
            cancelled: Cell::new(false),
            is_doubtful: Cell::new(false),
            epoch: leased.epoch,
            // It may have changed since; the first look tells.
            logins_generation: Cell::new(u64::MAX),
            login: leased.login(),
        }
    }
}

/// A leased connection as a lane's.
pub struct LaneSocket {
    leased: Leased,
    known: Rc<LaneServer>,
}

impl LaneSocket {
    /// The connection as it was before it was a lane's; `None` where it may be another by now.
    pub(super) fn into_leased(self) -> Option<Leased> {
        let Self { mut leased, known } = self;
        let is_doubtful = known.cancelled.get() || known.is_doubtful.get();
        std::mem::swap(&mut leased.prepared, &mut *known.prepared.borrow_mut());
        (!is_doubtful).then_some(leased)
    }
}

impl AsyncRead for LaneSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.leased.socket().poll_read(cx, buf);
        if buf.filled().len() > before {
            // A clock read for each chunk, which holds the answers of many.
            let now = Instant::now();
            self.leased.backend.heard(now);
            self.known.heard.set(now);
        }
        read
    }
}

impl AsyncWrite for LaneSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.leased.socket().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.leased.socket().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.leased.socket().poll_shutdown(cx)
    }
}
