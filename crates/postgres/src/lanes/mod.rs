//! The lanes of one worker: server connections on which proven reads of many clients are in flight
//! at once.
//!
//! Nothing rides here that could leave a trace: no transaction, no setting, no statement that was
//! not proven to be a read. A lane that shows one is given up at once.
//!
//! The one path: [`Group::pick`](flow::lanes::Group::pick) finds a lane with a short line, and
//! opens another while all are busy; a [`Ticket`] goes along with the request, and hands each piece
//! of the reply to its client.

mod editing;
mod group;
mod ticket;

pub use editing::Editing;
pub use flow::lanes::{Limits, Load, Need, Norm, RequestUnderWay, Room, Upkeep};
pub use group::{Group, Key, Lane, LaneServer, Picked, is_to_cancel};
pub use ticket::{Attendant, Needs, ReplyProgress, Ticket};
use wire::postgres::reply::{Run, Scanner};

/// Where replies end, for [`flow::lane`].
#[derive(Debug)]
pub struct Replies(Scanner);

impl Replies {
    /// Of a connection that is ready for requests.
    pub fn new(message_max: usize) -> Self {
        Self(Scanner::new(message_max))
    }
}

impl flow::lane::Protocol for Replies {
    #[inline]
    fn scan(&mut self, bytes: &[u8]) -> flow::lane::Step {
        use flow::lane::{Step, What};
        use wire::postgres::backend::Status;
        let scan = self.0.scan(bytes);
        let what = match scan.run {
            Run::Wanted => return Step { len: 0, what: What::Part },
            Run::Part | Run::Notice => What::Part,
            Run::End(Status::Idle) => What::End,
            Run::End(_) => What::Broken("a transaction was left open on a lane"),
            Run::Aside => What::Aside,
            Run::Broken(reason) => What::Broken(reason),
        };
        Step { len: scan.len, what }
    }
}
