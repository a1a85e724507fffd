//! Opening lanes, and looking after those that are open.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::postgres::Refusal;

use super::servers::pool_settings;
use super::{Front, Key, LeaseError, Leased};
use crate::backends::Standing;
use crate::lanes::{self, Attendant, Group, Known, Lane, Replies, Ticket};
use crate::session::prepared::Prepared;
use crate::settings::Settings;

/// What drives a lane; it keeps the lease, so a lane counts as one connection of the pool.
type LaneDriver = flow::lane::Driver<Replies, Ticket, LaneSocket, Attendant>;

impl Front {
    /// Opens another lane of a group, away from whoever wants it.
    pub fn open_lane(&self, group: &Rc<Group>) {
        let (Some(front), group) = (self.me.upgrade(), group.clone()) else { return };
        tokio::task::spawn_local(async move {
            match front.clone().lane(&group).await {
                Ok((lane, driver)) => {
                    group.opened(lane.clone());
                    let ended = driver.await;
                    group.ended(&lane);
                    let backend = group.backend.name();
                    match ended.why {
                        flow::lane::Why::Drained => {}
                        ref why => tracing::warn!(backend, ?why, "a lane has ended"),
                    }
                    if !matches!(ended.why, flow::lane::Why::Drained | flow::lane::Why::Closed) {
                        group.backend.suspect();
                    }
                    for orphan in ended.orphans {
                        orphan.ticket.orphaned();
                    }
                }
                Err(refusal) => group.failed(refusal),
            }
        });
    }

    async fn lane(self: Rc<Self>, group: &Rc<Group>) -> Result<(Rc<Lane>, LaneDriver), Refusal> {
        let key = Key {
            backend: group.key.backend,
            database: group.key.database.clone(),
            user: group.key.user.clone(),
        };
        let deadline = Instant::now() + self.settings().timeouts.query_wait.get();
        let leased = self.lease(key, &group.key.settings, deadline).await;
        let mut leased = leased.map_err(LeaseError::refusal)?;
        leased.take_on(&group.key.settings);
        leased.settle(&self.scratch).await?;
        let settings = self.settings();
        let limits = flow::lane::Limits {
            depth: group.depth(),
            unread: settings.max_message.len(),
            ..flow::lane::Limits::default()
        };
        let known = Rc::new(Known {
            prepared: RefCell::new(Prepared::new(settings.prepared_statements)),
            cancel: leased.key.clone(),
            load: group.load.clone(),
            seconds: self.gateway.metrics.lane_seconds.clone(),
            norm: self.norm.clone(),
            is_replica: group.backend.standing() != Standing::Primary,
            cancelled: Cell::new(false),
        });
        let replies = Replies::new(settings.max_message.len());
        let place = Rc::new(OnceCell::new());
        let attendant = Attendant::new(known.clone(), place.clone());
        let scratch = self.scratch.clone();
        let epoch = leased.epoch;
        let socket = LaneSocket(leased);
        let (handle, driver) = flow::lane::start(socket, replies, limits, scratch, attendant);
        let lane = Rc::new(Lane { handle, known, epoch, opened: Instant::now() });
        let _ = place.set(Rc::downgrade(&lane));
        Ok((lane, driver))
    }

    /// Lanes that are too old, or that nobody has used for long, finish; so do those of a limit
    /// that was lowered.
    pub(super) fn look_after_lanes(&self, now: Instant) {
        let settings = self.settings();
        let some = |limit: watch::units::Duration| Some(limit.get()).filter(|t| !t.is_zero());
        let (idle, age) = (some(settings.pool.idle_timeout), some(settings.pool.max_age));
        let limits = lane_limits(&settings);
        self.pool.set_settings(pool_settings(&settings));
        self.groups.borrow_mut().retain(|_, group| {
            group.set_limits(limits);
            if let Some(age) = age {
                group.retire_old(now, age);
            }
            if idle.is_some_and(|idle| now.saturating_duration_since(group.used()) > idle) {
                group.retire();
            }
            // A session that still knows it would open lanes nobody else sees.
            Rc::strong_count(group) > 1 || group.figures().0 > 0
        });
    }
}

pub(super) fn lane_limits(settings: &Settings) -> lanes::Limits {
    lanes::Limits {
        count: settings.lanes.count,
        depth: settings.lanes.depth,
        head_max: settings.lanes.head_of_line.get(),
    }
}

/// A leased connection as a lane's.
pub struct LaneSocket(Leased);

impl AsyncRead for LaneSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.socket().poll_read(cx, buf)
    }
}

impl AsyncWrite for LaneSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.socket().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket().poll_shutdown(cx)
    }
}
