//! What a client has sent and is not dealt with.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use wire::postgres::{Refusal, sqlstate};

use super::{End, Session};

/// So much of what a client has sent counts for nothing.
const INBOX_FREE: usize = 256 * 1024;
/// Of the memory for what a client sent so much is kept while nothing is in it.
pub(super) const INBOX_KEPT: usize = 256;

impl Session {
    /// The first bytes of the inbox, taken out of it.
    pub(super) fn take(&mut self, len: usize) -> Rc<[u8]> {
        let taken = Rc::from(&self.inbox[..len]);
        self.inbox.drain(..len);
        self.inbox.shrink_to(INBOX_KEPT);
        self.release_held();
        taken
    }

    /// Waits for bytes of the client, or for something else to do.
    pub(super) async fn read(&mut self) -> Result<(), End> {
        std::future::poll_fn(|cx| {
            let has_mail = self.client.poll_mail(cx) && self.mail_may_go();
            if self.client.poll_called(cx).is_ready() || has_mail {
                return Poll::Ready(Ok(()));
            }
            match ready!(self.poll_fill(cx)) {
                Ok(came) => {
                    self.has_ended = !came;
                    Poll::Ready(Ok(()))
                }
                Err(_) => Poll::Ready(Err(End::Gone)),
            }
        })
        .await
    }

    /// Reads into the inbox; false when the client has ended its side.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<bool>> {
        let (inbox, database) = (&mut self.inbox, &self.database);
        let mut into = Some(|bytes: Option<&[u8]>| {
            let came = bytes.unwrap_or_default();
            database.count(|totals| totals.received += came.len() as u64);
            inbox.extend_from_slice(came);
            bytes.is_some()
        });
        let read = self.client.outlet.poll_read_with(cx, &mut into);
        if self.inbox.len() > INBOX_FREE && !self.hold() {
            let what = "the memory for messages (postgres.held-messages) is used up";
            self.client.kill(Refusal::fatal(sqlstate::OUT_OF_MEMORY, what));
        }
        read
    }

    /// Takes memory for what is in the inbox by now; whether there is as much.
    #[cold]
    fn hold(&mut self) -> bool {
        let more = self.inbox.len().saturating_sub(INBOX_FREE + self.held.bytes());
        // Not for each piece of a message.
        more == 0 || self.held.grow(more.next_multiple_of(INBOX_FREE))
    }

    /// Gives back what the inbox takes no longer.
    pub(super) fn release_held(&mut self) {
        if self.held.bytes() > 0 {
            self.held.shrink_to(self.inbox.len().saturating_sub(INBOX_FREE));
        }
    }
}
