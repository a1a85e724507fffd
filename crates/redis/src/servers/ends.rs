//! Where each reply of a server ends.

use flow::lane::{Protocol, Step, What};
use wire::resp::{Piece, Replies};

/// Finds where each reply of a server ends.
#[derive(Debug, Default)]
pub struct Ends {
    replies: Replies,
    /// The server may say something by itself: the connection's client has asked for that.
    hears: bool,
}

impl Ends {
    /// `hears`: the connection's client has asked for what a server says by itself.
    pub fn new(hears: bool) -> Self {
        Self { replies: Replies::default(), hears }
    }
}

impl Protocol for Ends {
    #[inline]
    fn scan(&mut self, bytes: &[u8]) -> Step {
        match self.replies.scan(bytes) {
            Ok(step) => {
                let what = match step.what {
                    Piece::Part => What::Part,
                    Piece::End => What::End,
                    Piece::Push if self.hears => What::Aside,
                    // Nothing else that a server says by itself was asked for.
                    Piece::Push => What::Broken("a push that nobody asked for"),
                };
                Step { len: step.len, what }
            }
            Err(why) => Step { len: 0, what: What::Broken(why) },
        }
    }
}
