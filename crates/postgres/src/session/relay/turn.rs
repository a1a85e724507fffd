//! One turn of a client beside its server: whatever can be done is, until something has happened or
//! took too long.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite as _;
use wire::postgres::{Refusal, sqlstate};

use super::Relay;
use super::last_values::kept;
use crate::client::AHEAD_MAX;
use crate::connection::Connection;
use crate::pipeline::lease::client::{
    ClientStep, CloseOrder, EndStep, Progress, StreamEnd, WaitingInput,
};
use crate::pipeline::lease::expectation::Expectation;
use crate::pipeline::round::ends_within;
use crate::session::patience::{Limit, idle_in_transaction_timeout, idle_timeout, read_timeout};
use crate::session::{End, Session};

/// What came of a turn.
pub(super) enum Turn {
    /// The server said something, or takes more.
    Heard,
    /// The client did, or something else is to be looked at.
    Read,
    /// Nothing is left to do for the client.
    ClientGone,
    /// The server is gone, or said what it was not asked.
    ServerGone(Option<io::Error>),
}

impl Session {
    /// Waits until something has happened, for as long as that may take.
    pub(super) async fn turn(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        in_a_row: &mut u32,
    ) -> Result<Turn, End> {
        let is_sent = server.unsent() == 0;
        let limit = self.limit(relay, is_sent);
        let rests = relay.lease.rounds.is_empty() && is_sent;
        let is_bound = relay.lease.is_pinned || relay.lease.is_open();
        let kept_for = kept(relay).filter(|_| rests && !is_bound);
        let turn = poll_fn(|cx| {
            let turn = self.poll_turn(relay, server, cx);
            *in_a_row = if turn.is_pending() { 0 } else { *in_a_row + 1 };
            turn
        });
        match limit {
            _ if let Some(kept_for) = kept_for => {
                Ok(tokio::time::timeout(kept_for, turn).await.unwrap_or(Turn::Read))
            }
            None => Ok(turn.await),
            Some((limit, refusal)) => {
                tokio::time::timeout(limit, turn).await.map_err(|_| End::Refused(refusal()))
            }
        }
    }

    /// How long the next thing may take to happen.
    fn limit(&self, relay: &mut Relay, is_sent: bool) -> Limit {
        let patience = &self.options.patience;
        let next: Limit = match relay.lease.expects(is_sent, || ends_within(&self.inbox)) {
            Expectation::Rest => patience.read.map(|limit| (limit, read_timeout as _)),
            Expectation::Answer(asked) => patience.query.map(|limit| {
                let ran = asked.map_or(Duration::ZERO, |asked| asked.elapsed());
                (limit.saturating_sub(ran), query_timeout as fn() -> Refusal)
            }),
            Expectation::Round { in_transaction: true } => {
                patience.idle_in_transaction.map(|limit| (limit, idle_in_transaction_timeout as _))
            }
            Expectation::Round { in_transaction: false } => {
                patience.idle.map(|limit| (limit, idle_timeout as _))
            }
        };
        match relay.lease.transaction.since(Instant::now) {
            Some(since) => patience.in_transaction(since, next),
            None => next,
        }
    }

    /// What is known of the two where it is asked what is to become of the client.
    pub(super) fn progress(&self, relay: &Relay, server: &Connection) -> Progress {
        Progress {
            unsent: server.unsent(),
            ahead_max: AHEAD_MAX,
            takes_data: server.script.takes_data(),
            is_answered: server.script.is_answered(),
            is_broken: server.broken,
            waiting: WaitingInput {
                has_rounds: relay.in_front.outgoing().is_some() || !self.ahead.is_empty(),
                bytes: self.inbox.len(),
            },
        }
    }

    /// Sends, hears the server, reads the client: whatever can be done.
    fn poll_turn(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Turn> {
        let sent = server.poll_send(cx);
        if self.client.outlet.spilled() < AHEAD_MAX {
            let (scratch, client) = (self.front.scratch.clone(), self.client.clone());
            let heard = client.outlet.gathered(|| {
                server.poll_hear(cx, &scratch, &mut |known, heard| self.hear(relay, known, heard))
            });
            match heard {
                Poll::Ready(Ok(true)) => return Poll::Ready(Turn::Heard),
                Poll::Ready(Ok(false)) => return Poll::Ready(Turn::ServerGone(None)),
                Poll::Ready(Err(error)) => return Poll::Ready(Turn::ServerGone(Some(error))),
                Poll::Pending => {}
            }
        } else if self.client.outlet.poll_drained(cx, AHEAD_MAX / 2).is_ready() {
            cx.waker().wake_by_ref();
        }
        match sent {
            Poll::Ready(Err(error)) => return Poll::Ready(Turn::ServerGone(Some(error))),
            // There is room again for what had to wait.
            Poll::Ready(Ok(())) if relay.lease.pause.has_room() => {
                return Poll::Ready(Turn::Heard);
            }
            _ => {}
        }
        let is_between = server.script.is_between();
        let has_mail = self.client.poll_mail(cx)
            && relay.lease.tells_mail(is_between, self.client.is_overrun());
        let may_part = relay.lease.closes(CloseOrder::OnceIdle);
        if self.client.poll_killed(cx, may_part).is_ready() || has_mail {
            return Poll::Ready(Turn::Read);
        }
        let confirming = relay.confirming.as_mut().map(|confirming| confirming.poll_ended(cx));
        if let Some(Poll::Ready((confirmed, joined))) = confirming {
            relay.confirming = None;
            relay.lease.joined(confirmed, joined);
            return Poll::Ready(Turn::Read);
        }
        self.poll_client(relay, server, cx)
    }

    /// Reads the client, or sees whether it has had all that it will have.
    fn poll_client(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Turn> {
        let progress = self.progress(relay, server);
        let end = match relay.lease.client_step(&progress) {
            ClientStep::Read => match self.poll_fill(cx) {
                Poll::Ready(Ok(true)) => return Poll::Ready(Turn::Read),
                Poll::Ready(Ok(false)) => StreamEnd::Closed,
                Poll::Ready(Err(_)) => StreamEnd::Broken,
                Poll::Pending => return Poll::Pending,
            },
            ClientStep::Gone => return Poll::Ready(Turn::ClientGone),
            ClientStep::CloseServer => {
                // Where it fails the server is gone, which is heard next.
                let _ = server.socket().poll_shutdown(cx);
                return Poll::Pending;
            }
            ClientStep::Wait => {
                let is_gone =
                    relay.lease.hears_nothing(&progress, || self.client.outlet.is_closed());
                return if is_gone { Poll::Ready(Turn::ClientGone) } else { Poll::Pending };
            }
        };
        match relay.lease.client_ends(end, &progress) {
            EndStep::GoesOn => Poll::Ready(Turn::Read),
            EndStep::Leaves => Poll::Pending,
            EndStep::Gone => Poll::Ready(Turn::ClientGone),
        }
    }
}

fn query_timeout() -> Refusal {
    Refusal::fatal(sqlstate::QUERY_CANCELED, "terminating connection due to query timeout")
}
