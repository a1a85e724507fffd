//! A lane's way from its opening to its end.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Group, Lane, ServerRecord};
use crate::lane::{self, Limits, Orphan, Owner, Protocol, Why};
use crate::scratch::Scratch;

/// After a lane could not be opened, how long until the next attempt.
pub const REST: Duration = Duration::from_millis(500);
/// The same where that was said at once, as where nobody listens: commands that are sent in a row
/// do not each have another attempt.
pub const REST_BRIEF: Duration = Duration::from_millis(2);
/// Where the attempt before has failed so, how long this one is waited for: then those who wait
/// hear why that was.
const WAITED_MAX: Duration = Duration::from_millis(50);

/// Opens the lanes of a group and keeps what the protocol knows of their server. Made for one
/// lane, with which it lives and ends.
pub trait Opener: Sized + 'static {
    /// What says where a reply ends.
    type Protocol: Protocol + 'static;
    /// What goes along with a request.
    type Ticket: 'static;
    /// What is known of the server.
    type Server: ServerRecord + 'static;
    /// Why it can not be reached.
    type Error: Clone + 'static;
    /// A connection that is ready for requests.
    type Connection: AsyncRead + AsyncWrite + Unpin + 'static;
    /// What takes replies, each with the ticket of its request.
    type Owner: Owner<Self::Ticket> + 'static;

    /// The group that gets the lane.
    fn group(&self) -> &GroupOf<Self>;

    /// Whether there is room for one more lane.
    fn has_room(&self, now: Instant) -> bool {
        let _ = now;
        true
    }

    /// Opens a connection up to where requests may be sent.
    fn open(&self) -> impl Future<Output = Result<LaneParts<Self>, NotOpened<Self::Error>>>;

    /// How long no lane is opened after one could not be, for this reason.
    fn rest(&self, why: &Self::Error) -> Duration {
        let _ = why;
        REST
    }

    /// The lane takes requests from now on.
    fn opened(&self, lane: &Rc<LaneOf<Self>>) {
        let _ = lane;
    }

    /// The lane has ended, and so many requests are left without a whole reply; its connection is
    /// of use where it was [`Drained`](Why::Drained).
    fn ended(&self, why: &Why, left: usize, connection: Self::Connection);

    /// A request is left of which the reply did not come, or not all of it.
    fn orphaned(&self, orphan: Orphan<Self::Ticket>);
}

/// A lane that an opener opens.
pub type LaneOf<O> = Lane<<O as Opener>::Protocol, <O as Opener>::Ticket, <O as Opener>::Server>;

/// A group of lanes that an opener opens.
pub type GroupOf<O> = Group<
    <O as Opener>::Protocol,
    <O as Opener>::Ticket,
    <O as Opener>::Server,
    <O as Opener>::Error,
>;

/// What a lane is made of.
#[derive(Debug)]
pub struct LaneParts<O: Opener> {
    /// The connection, ready for requests.
    pub connection: O::Connection,
    /// Where its replies end.
    pub protocol: O::Protocol,
    /// What is known of its server.
    pub known: Rc<O::Server>,
    /// Where its replies go.
    pub owner: O::Owner,
    /// How it is run.
    pub limits: Limits,
    /// The buffer into which lanes of this worker read.
    pub scratch: Scratch,
}

/// Why there is no other lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOpened<E> {
    /// The server can not be reached: those who wait for a first lane are told.
    Failed(E),
    /// There is no connection for it now: those who wait go on waiting.
    NoRoom,
}

/// Opens another lane of a group, away from whoever wants it, and sees it to its end. Needs the
/// worker's runtime.
pub fn open<O: Opener>(opener: O) {
    tokio::task::spawn_local(async move {
        let group = opener.group();
        if !opener.has_room(Instant::now()) {
            return group.refused(Instant::now());
        }
        let mut opening = pin!(opener.open());
        let opened = match tokio::time::timeout(WAITED_MAX, &mut opening).await {
            Ok(opened) => opened,
            Err(_) => {
                group.opens_late();
                opening.await
            }
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(NotOpened::Failed(error)) => {
                let rest = opener.rest(&error);
                return group.failed(error, rest);
            }
            Err(NotOpened::NoRoom) => return group.refused(Instant::now()),
        };
        let LaneParts { connection, protocol, known, owner, limits, scratch } = opened;
        let (handle, driver) = lane::start(connection, protocol, limits, scratch, owner);
        let lane = Rc::new(Lane { handle, known, opened: Instant::now() });
        opener.opened(&lane);
        group.opened(Rc::clone(&lane));
        let ended = driver.await;
        group.ended(&lane);
        opener.ended(&ended.why, ended.orphans.len(), ended.io);
        ended.orphans.into_iter().for_each(|orphan| opener.orphaned(orphan));
    });
}
