//! Opening lanes.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::postgres::Refusal;

use super::{Front, LeaseError, Leased};
use crate::backends::Standing;
use crate::connection::ServerState;
use crate::lanes::{Attendant, Group, Known, Lane, Replies, Ticket};
use crate::pipeline::names::Limits;
use crate::pipeline::prepared::Prepared;
use crate::pipeline::settings::strings_of;

/// What drives a lane; it keeps the lease, so a lane counts as one connection of the pool.
type LaneDriver = flow::lane::Driver<Replies, Ticket, LaneSocket, Attendant>;

impl Front {
    /// Opens another lane of a group, away from whoever wants it.
    pub fn open_lane(&self, group: &Rc<Group>) {
        let (Some(front), group) = (self.me.upgrade(), group.clone()) else { return };
        tokio::task::spawn_local(async move {
            if !front.has_room_for_lane(&group, Instant::now()) {
                return group.refused(Instant::now());
            }
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
        let key = super::lanes::pool_key(group);
        let deadline = Instant::now() + self.settings().timeouts.query_wait.get();
        let leased = self.lease(key, &group.key.settings, deadline).await;
        let mut leased = leased.map_err(LeaseError::refusal)?;
        leased.take_on(&group.key.settings);
        leased.settle_in_time(&self.scratch).await?;
        let settings = self.settings();
        let limits = flow::lane::Limits {
            depth: group.depth(),
            unread: settings.max_message.len(),
            ..flow::lane::Limits::default()
        };
        // What the connection has prepared for those who leased it is there under the same names.
        let none = Prepared::new(Limits::of_connection(&settings));
        let prepared = std::mem::replace(&mut leased.prepared, none);
        let known = Rc::new(Known {
            prepared: RefCell::new(prepared),
            cancel: leased.key.clone(),
            load: group.load.clone(),
            record: leased.record.clone(),
            latencies: self.latencies(&group.backend).lane.clone(),
            answered: Cell::new(0),
            heard: Cell::new(Instant::now()),
            norm: self.norm.clone(),
            slow: self.slow.clone(),
            is_replica: group.backend.standing() != Standing::Primary,
            strings: strings_of(&leased.reported),
            cancelled: Cell::new(false),
            epoch: leased.epoch,
            // It may have changed since; the first look tells.
            logins_generation: Cell::new(u64::MAX),
            login: leased.login(),
        });
        let replies = Replies::new(settings.max_message.len());
        let place = Rc::new(OnceCell::new());
        let attendant = Attendant::new(known.clone(), place.clone());
        let scratch = self.scratch.clone();
        leased.record.is_now(ServerState::Lane);
        let socket = LaneSocket { leased, known: known.clone() };
        let (handle, driver) = flow::lane::start(socket, replies, limits, scratch, attendant);
        let lane = Rc::new(Lane { handle, known, opened: Instant::now() });
        let _ = place.set(Rc::downgrade(&lane));
        Ok((lane, driver))
    }
}

/// A leased connection as a lane's.
pub struct LaneSocket {
    leased: Leased,
    known: Rc<Known>,
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
