//! A write that shares a transaction with others.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use wire::postgres::frontend::tag;
use wire::postgres::{Refusal, sqlstate};

use super::{End, Session};
use crate::backends::Backend;
use crate::batches::{Batches, Member, Outcome};
use crate::client::CalledOff;
use crate::pipeline::round::Round;
use crate::plan::Plan;
use crate::worker::unconfirmed;

/// Whoever has waited in a line for so long goes by itself: what is in front stands still.
const LINE_MAX: Duration = Duration::from_secs(1);

impl Session {
    /// Whether a statement outside a transaction may share one.
    pub(super) fn may_batch(&self, plan: &Plan) -> bool {
        self.options.batches_on
            && self.environment.may_share
            && !self.environment.told.is_in_doubt()
            && !(self.options.keeps_last_values && plan.effects.sequences.may_draw)
            && plan.effects.sequences.asks.is_empty()
            && !plan.effects.reaches_prepared
            && plan.may_batch(Instant::now())
            && self.is_quick(plan, &self.front.write_norm)
    }

    /// Runs a round in a batch; by itself, where that can't be.
    pub(super) async fn batch(
        &mut self,
        mut round: Round,
        plan: Rc<Plan>,
    ) -> Result<Option<Round>, End> {
        let fits = match round.is_query() {
            true => self.lifts(&plan, round.text().unwrap_or_default()),
            // What it has prepared may be something else by now: that a lease finds out.
            false => {
                ends_with_execute(&round) && self.client.names().are_since(self.database.changes())
            }
        };
        let Some(backend) = self.front.backends.primary().ok().filter(|_| fits) else {
            return Box::pin(self.lease(round, false)).await;
        };
        let lifted = round.is_query().then(|| Box::new(self.front.draft.borrow().lifted.clone()));
        let (asked, is_taken) = (round.came, Rc::new(Cell::new(false)));
        let (done, mut outcome) = oneshot::channel();
        let client = self.client.clone();
        let waiting = client.waits(asked);
        client.seen().asked.set(Some(asked));
        self.batches(backend).join(Member {
            client: client.clone(),
            database: self.database.clone(),
            plan,
            round: round.clone(),
            lifted,
            strings: self.environment.scope.strings,
            is_taken: is_taken.clone(),
            done,
        });
        let ended = self.in_line(&mut outcome, &is_taken, asked).await;
        drop((outcome, waiting));
        match ended {
            Err(why) => self.called_off(&round, why)?,
            Ok(Outcome::Told) => self.last_write = self.front.backends.note_write(),
            Ok(Outcome::Alone) => {
                round.came = Instant::now();
                return Box::pin(self.lease(round, false)).await;
            }
            Ok(Outcome::Unknown) => {
                self.last_write = self.front.backends.note_write();
                let what = super::relay::OUTCOME_UNKNOWN;
                self.refuse(&Refusal::error(sqlstate::OUTCOME_UNKNOWN, what));
            }
            Ok(Outcome::Unconfirmed) => {
                self.last_write = self.front.backends.note_write();
                self.refuse(&unconfirmed());
            }
        }
        Ok(None)
    }

    /// Waits for what becomes of a statement that has joined a line.
    async fn in_line(
        &self,
        outcome: &mut oneshot::Receiver<Outcome>,
        is_taken: &Cell<bool>,
        since: Instant,
    ) -> Result<Outcome, CalledOff> {
        let client = &self.client;
        let of = |ended: Result<Outcome, _>| {
            // Nobody is left to say, which is not to be told from a server that is gone.
            ended.unwrap_or(if is_taken.get() { Outcome::Unknown } else { Outcome::Alone })
        };
        tokio::select! {
            biased;
            ended = &mut *outcome => return Ok(of(ended)),
            why = poll_fn(|cx| client.poll_called_off(cx)) => {
                if !is_taken.get() {
                    return Err(why);
                }
            }
            () = tokio::time::sleep_until((since + LINE_MAX).into()) => {
                if !is_taken.get() {
                    return Ok(Outcome::Alone);
                }
            }
        }
        // It is under way with others, and soon over.
        tokio::select! {
            biased;
            ended = outcome => Ok(of(ended)),
            () = poll_fn(|cx| client.poll_killed(cx, false)) => Err(CalledOff::Closed),
        }
    }

    /// Those that it may share a transaction with.
    fn batches(&mut self, backend: Arc<Backend>) -> Rc<Batches> {
        let (lines, key) = (&self.lines, self.key(&backend));
        let shares_commits = self.shares_commits();
        self.environment
            .line(backend, |backend, applied| lines.line(backend, key, applied, shares_commits))
    }
}

/// Whether nothing is asked behind the statement.
fn ends_with_execute(round: &Round) -> bool {
    let asked = round.messages().filter(|message| message.tag != tag::SYNC);
    asked.last().is_some_and(|message| message.tag == tag::EXECUTE)
}
