//! The lanes that are alike, and which of them a request takes.
//!
//! A group never opens a lane on the way of a request that another lane could take. What a
//! protocol keeps of the server at a lane's end, and whether the lane is still what would be
//! opened now, is the protocol's to know ([`ServerRecord`]).
//!
//! The one path: [`Group::pick`] finds a lane with a short line, and has another opened while all
//! are busy, for which [`open`] is there; whoever finds none waits in a [`Turn`] and is called in
//! the order of coming. [`Group::look_after`] ends what is not to stay.

mod group;
mod load;
mod opening;
#[cfg(test)]
mod tests;
mod turns;
mod upkeep;

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::lane::Handle;

pub use group::Group;
pub use load::{Load, Norm, RequestUnderWay};
pub use opening::{GroupOf, LaneOf, LaneParts, NotOpened, Opener, REST, REST_BRIEF, open};
pub use turns::Turn;
pub use upkeep::{Need, Room, Upkeep};

/// What a protocol keeps of the server at a lane's end.
pub trait ServerRecord {
    /// Whether a lane that is opened now would be the same: asked before each request.
    fn is_current(&self) -> bool;
}

/// A lane of a group.
pub struct Lane<P, T, K> {
    /// To put requests on it.
    pub handle: Handle<P, T>,
    /// What is known of the server at its end.
    pub known: Rc<K>,
    /// When it was opened.
    pub opened: Instant,
}

/// How the lanes of a group are run.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Lanes, beside those that a large reply keeps from taking requests.
    pub count: usize,
    /// Requests in flight on one lane.
    pub depth: usize,
    /// A lane whose head has been running for longer is passed by while another is free.
    pub head_max: Duration,
    /// A lane whose head has been running for longer is passed by in any case.
    pub head_limit: Duration,
}

/// The lane that [`Group::pick`] found for a request, or why there is none.
pub enum Picked<P, T, K, E> {
    /// A lane with room.
    Lane(Rc<Lane<P, T, K>>),
    /// The first lane is being opened.
    Opening,
    /// Lanes are there and none has room, or none that does not stand still.
    Busy,
    /// No lane could be opened.
    Failed(E),
}
