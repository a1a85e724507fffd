//! What goes along with a request on a lane: whose it is, and how its reply is to be told.

use std::cell::OnceCell;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use flow::answers::{AnswerPlace as Place, Verdict};
use flow::lane::Fate;
use wire::postgres::backend::{Fields, tag};
use wire::postgres::sqlstate;

use super::group::{Lane, LaneServer};
use super::{Editing, RequestUnderWay};
use crate::client::{AHEAD_MAX, Again, Client, Repeat};
use crate::database::Database;
use crate::pipeline::elsewhere::{CHANGED, is_for_another};
use crate::pipeline::round::{Round, messages};
use crate::pipeline::script::ServerEvent;
use crate::plan::Plan;
use crate::slow::{self, Slow};

/// After these the statement is prepared again: it is not there, or is there already.
const ANEW: [&[u8]; 2] = [b"26000", b"42P05"];
const CANCELLED: &[u8] = b"57014";
/// A reply on a lane on which a cancel is under way is kept up to this size.
const KEPT_MAX: usize = 1024 * 1024;
/// How often one statement is asked again.
const ATTEMPTS_MAX: u8 = 3;

/// What goes along with a request on a lane.
pub struct Ticket {
    /// The client that has asked.
    pub client: Rc<Client>,
    /// Where its answer belongs.
    pub place: Place,
    /// The statement's plan, which learns how long it ran.
    pub plan: Rc<Plan>,
    /// The request, to ask again elsewhere.
    pub round: Round,
    /// How its reply is edited; `None` passes it on as it is.
    pub script: Option<Box<Editing>>,
    /// Counts the request among those under way to the backend until the ticket is dropped.
    #[expect(dead_code, reason = "its drop ends the count")]
    pub loaded: RequestUnderWay,
    /// What became of the reply so far.
    pub told: ReplyProgress,
    /// The statement under Weir's name that the request needs.
    pub needs: Option<Needs>,
    /// What came of a reply that is kept until it is whole: it may end with a cancel that was meant
    /// for somebody else.
    pub kept: Vec<u8>,
    /// Its client is in a transaction of which no server has heard. There is always a script then.
    pub within: bool,
}

/// A prepared statement that a request needs.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// The number of the statement.
    pub number: u64,
    /// The request prepares it itself.
    pub parsed: bool,
}

/// How much of a reply the client has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyProgress {
    /// Nothing of the reply has come.
    Nothing,
    /// The client has heard some of it.
    Some,
    /// It began with an error that is none of the client's: the rest is left out.
    Withheld(Again),
}

/// Hands replies to tickets: the owner of one lane.
pub struct Attendant {
    known: Rc<LaneServer>,
    /// The lane itself, which is made after its owner.
    lane: Rc<OnceCell<Weak<Lane>>>,
}

impl Attendant {
    /// Of the lane that `lane` will be set to.
    pub fn new(known: Rc<LaneServer>, lane: Rc<OnceCell<Weak<Lane>>>) -> Self {
        Self { known, lane }
    }

    fn lane(&self) -> Option<Rc<Lane>> {
        self.lane.get()?.upgrade()
    }

    /// Tells a client a piece of a reply. A lane that says what it was not asked is given up.
    #[inline]
    fn tell(&self, ticket: &mut Ticket, bytes: &[u8], is_last: bool) {
        if !ticket.reply(&self.known, bytes, is_last)
            && let Some(lane) = self.lane()
        {
            lane.handle.close();
        }
    }
}

impl flow::lane::Owner<Ticket> for Attendant {
    #[inline]
    fn reply(&mut self, ticket: &mut Ticket, bytes: &[u8], last: Option<Duration>) {
        self.tell(ticket, bytes, last.is_some());
        if let Some(ran) = last {
            ticket.end(&self.known, ran, Ticket::count);
            if self.known.prepared.borrow().is_crowded()
                && let Some(lane) = self.lane()
            {
                lane.handle.quarantine();
            }
        }
    }

    fn shared(&mut self, ticket: &mut Ticket, bytes: &[u8], ran: Duration) {
        self.tell(ticket, bytes, true);
        ticket.end(&self.known, ran, Ticket::count_shared);
    }

    fn apart(&mut self, ticket: Ticket) {
        ticket.set_apart(&self.known);
    }

    fn aside(&mut self, bytes: &[u8]) {
        // A setting that changed on its own (the configuration was read anew): this lane is no
        // longer what its clients asked for.
        if bytes.first() == Some(&tag::PARAMETER_STATUS)
            && let Some(lane) = self.lane()
        {
            self.known.is_doubtful.set(true);
            lane.handle.quarantine();
        }
    }

    /// Of lanes whose [patience](flow::lane::Limits::patience) is not zero: nobody waits behind
    /// the reply there, as a rule, so that it is read as fast as its client takes it.
    fn poll_taken(&mut self, head: Option<&Ticket>, cx: &mut Context<'_>) -> Poll<()> {
        head.map_or(Poll::Ready(()), |ticket| ticket.client.outlet.poll_drained(cx, AHEAD_MAX))
    }

    fn are_of_one(&self, one: &Ticket, other: &Ticket) -> bool {
        one.is_of(&other.client)
    }
}

impl Ticket {
    /// Tells the client a piece of the reply; false when the server said what it was not asked.
    #[inline]
    fn reply(&mut self, lane: &LaneServer, bytes: &[u8], is_last: bool) -> bool {
        let may_be_hit = lane.cancelled.get() && !self.client.wants_cancel();
        let is_kept = !self.kept.is_empty() || (may_be_hit && self.told == ReplyProgress::Nothing);
        if !is_kept {
            return self.tell(lane, bytes, is_last);
        }
        self.kept.extend_from_slice(bytes);
        if may_be_hit && !is_last && self.kept.len() < KEPT_MAX {
            return true;
        }
        let kept = std::mem::take(&mut self.kept);
        if is_last && self.ends_cancelled(&kept) {
            self.told =
                ReplyProgress::Withheld(if self.within { Again::Elsewhere } else { Again::Same });
        }
        self.tell(lane, &kept, is_last)
    }

    /// Whether a whole reply ends with a cancel.
    fn ends_cancelled(&self, reply: &[u8]) -> bool {
        let is_cancel = |body| Fields::read(body).is_ok_and(|fields| fields.code() == CANCELLED);
        self.round.attempts < ATTEMPTS_MAX
            && messages(reply)
                .any(|message| message.tag == tag::ERROR_RESPONSE && is_cancel(message.body))
    }

    fn tell(&mut self, lane: &LaneServer, bytes: &[u8], is_last: bool) -> bool {
        let is_first = self.told == ReplyProgress::Nothing;
        if is_first {
            if self.script.is_none() && answers_nothing(bytes) {
                // Nothing was answered: it is due to nobody, and the answer may come behind it.
                tracing::error!("a lane is given up: it says that it is ready, unasked");
                self.told = ReplyProgress::Withheld(Again::Elsewhere);
                return false;
            }
            self.told = self.judge(lane, bytes);
        }
        if matches!(self.told, ReplyProgress::Withheld(_)) {
            return true;
        }
        let Some(editing) = &mut self.script else {
            self.client.hears(self.place, &[bytes], is_last);
            return true;
        };
        let (client, within) = (&self.client, self.within && is_last);
        let is_in_step = editing.tell(lane, (client, self.place), bytes, is_last, within);
        match is_in_step {
            true => {}
            false if is_first => self.told = ReplyProgress::Withheld(Again::Elsewhere),
            // What it has heard may be the beginning of its own answer or none of it.
            false => self.client.cut_within_reply(),
        }
        is_in_step
    }

    /// Whether the reply begins with an error that is not an answer to what the client asked. What
    /// comes before it are messages without rows.
    fn judge(&self, lane: &LaneServer, bytes: &[u8]) -> ReplyProgress {
        if self.client.wants_cancel() || self.client.is_held(self.place) {
            return ReplyProgress::Withheld(Again::Same);
        }
        for message in messages(bytes) {
            match message.tag {
                tag::ERROR_RESPONSE => {
                    let Some(again) = self.again(lane, message.body) else { break };
                    return ReplyProgress::Withheld(again);
                }
                tag::PARSE_COMPLETE
                | tag::BIND_COMPLETE
                | tag::CLOSE_COMPLETE
                | tag::PARAMETER_DESCRIPTION
                | tag::ROW_DESCRIPTION
                | tag::NO_DATA
                | tag::NOTICE_RESPONSE => {}
                _ => break,
            }
        }
        ReplyProgress::Some
    }

    fn again(&self, lane: &LaneServer, body: &[u8]) -> Option<Again> {
        if self.within {
            return Some(Again::Elsewhere);
        }
        let fields = Fields::read(body).ok()?;
        let code = fields.code();
        if self.round.attempts >= ATTEMPTS_MAX {
            return None;
        }
        // A connection that ends says why, whatever was asked last: that is not an answer.
        if is_for_another(code, lane.is_replica) || fields.is_fatal() {
            if lane.is_replica && code == sqlstate::READ_ONLY_TRANSACTION.as_bytes() {
                self.plan.refute();
            }
            return Some(Again::Elsewhere);
        }
        if code == CANCELLED && lane.cancelled.get() && !self.client.wants_cancel() {
            return Some(Again::Same);
        }
        let needs = self.needs?;
        // Of a read that came as text the position counts in what Weir has made of it; a lease
        // sends the text.
        if self.round.is_query() && fields.get(b'P').is_some() {
            return Some(Again::Elsewhere);
        }
        let anew = ANEW.contains(&code) || (needs.parsed && code == CHANGED);
        anew.then_some(Again::Same)
    }

    /// Nothing of the reply was told: what the request has changed of the client's names it has
    /// not.
    fn undo(&mut self, lane: Option<&LaneServer>) {
        if let Some(editing) = &mut self.script {
            editing.script.abandon(&mut |heard| match (heard, lane) {
                (ServerEvent::Name(outcome), _) => self.client.named(outcome),
                (ServerEvent::NotPrepared(number), Some(lane)) => {
                    lane.prepared.borrow_mut().not_prepared(number);
                }
                (ServerEvent::Forgotten { number, left_out }, Some(lane)) => {
                    lane.prepared.borrow_mut().closed(number, left_out);
                }
                _ => {}
            });
        }
    }

    /// The reply is whole. `ran`: for how long the server had the request to itself; `count` notes
    /// it where the client has its answer.
    #[inline]
    fn end(
        &mut self,
        lane: &LaneServer,
        ran: Duration,
        count: impl FnOnce(&Self, &LaneServer, Duration),
    ) {
        match self.told {
            ReplyProgress::Withheld(again) => {
                self.undo(Some(lane));
                if let Some(needs) = self.needs {
                    lane.prepared.borrow_mut().doubted(needs.number);
                }
                self.is_asked_again(again);
            }
            _ => {
                count(self, lane, ran);
                self.client.answered(self.within);
            }
        }
    }

    #[inline]
    fn count(&self, lane: &LaneServer, ran: Duration) {
        self.plan.note(ran);
        lane.norm.note(ran);
        let took = lane.heard.get().saturating_duration_since(self.round.came);
        // What the lane has read was there a little before the clock was.
        let queued = took.saturating_sub(ran);
        lane.answered.set(lane.answered.get() + 1);
        lane.latencies.observe(queued, ran);
        let Some(database) = self.client.database() else { return };
        self.count_query(lane, database);
        database.count(|totals| {
            totals.assignments += 1;
            totals.transaction_time += if self.within { Duration::ZERO } else { ran };
            totals.query_time += ran;
            totals.wait_time += queued;
        });
        slow::note(&lane.slow, ran, || Slow {
            database,
            user: &lane.record.key.user,
            backend: lane.record.backend.name(),
            way: "lane",
            plans: std::slice::from_ref(&self.plan),
        });
    }

    /// As [`count`](Self::count), where it was asked for another client: the server's time counts
    /// there.
    fn count_shared(&self, lane: &LaneServer, ran: Duration) {
        lane.shared.inc();
        let took = lane.heard.get().saturating_duration_since(self.round.came);
        let queued = took.saturating_sub(ran);
        lane.latencies.queue.observe(queued);
        lane.latencies.total.observe(took);
        let Some(database) = self.client.database() else { return };
        self.count_query(lane, database);
        database.count(|totals| {
            totals.shared_queries += 1;
            totals.wait_time += queued;
        });
    }

    #[inline]
    fn count_query(&self, lane: &LaneServer, database: &Database) {
        database.count(|totals| {
            totals.transactions += u64::from(!self.within);
            totals.queries += 1;
            totals.lane_queries += 1;
            totals.replica_queries += u64::from(lane.is_replica);
        });
    }

    pub(super) fn is_of(&self, client: &Rc<Client>) -> bool {
        Rc::ptr_eq(&self.client, client)
    }

    /// Whether its client hears no answer: it has had it cancelled, or has left.
    pub(super) fn is_for_nobody(&self) -> bool {
        self.client.wants_cancel() || self.client.outlet.is_closed()
    }

    /// It had joined a request whose reply is too long to be kept for it. It was not sent itself.
    fn set_apart(mut self, lane: &LaneServer) {
        self.undo(Some(lane));
        self.client.again(self.place, Repeat { round: self.round, again: Again::Alone });
    }

    /// The lane has ended before the reply did. What may have run is asked again, though not for
    /// ever.
    pub fn orphaned(mut self, fate: Fate) {
        match self.client.orphaned(self.place, fate) {
            Verdict::Late => {}
            Verdict::Close => self.client.cut_within_reply(),
            Verdict::Again | Verdict::NotSent | Verdict::MayHaveRun => {
                self.undo(None);
                let repeats = self.round.attempts < ATTEMPTS_MAX;
                self.is_asked_again(if repeats { Again::Elsewhere } else { Again::Lost });
            }
        }
    }

    /// Nothing of the reply was told, or ever will be.
    fn is_asked_again(&self, again: Again) {
        let mut round = self.round.clone();
        round.attempts += 1;
        self.client.again(self.place, Repeat { round, again });
    }
}

/// Whether a reply is a ReadyForQuery and nothing else. Every request that is passed on as it is
/// has an answer in front of that.
#[inline]
fn answers_nothing(reply: &[u8]) -> bool {
    let others = || messages(reply).skip_while(|message| message.tag == tag::NOTICE_RESPONSE);
    match reply.first() {
        Some(&tag::READY_FOR_QUERY) => true,
        Some(&tag::NOTICE_RESPONSE) => {
            others().next().is_some_and(|message| message.tag == tag::READY_FOR_QUERY)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_a_ready_alone_is_nobodys() {
        let (ready, notice) = (b"Z\0\0\0\x05I", b"N\0\0\0\x05\0");
        assert!(answers_nothing(ready));
        assert!(answers_nothing(&[&notice[..], notice, ready].concat()));
        for reply in [&b"I\0\0\0\x04"[..], b"E\0\0\0\x05\0", b"C\0\0\0\x05\0"] {
            assert!(!answers_nothing(&[reply, ready].concat()));
            assert!(!answers_nothing(&[notice, reply, ready].concat()));
        }
        assert!(!answers_nothing(notice));
    }
}
