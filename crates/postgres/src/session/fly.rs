//! A read that waits for a server connection together with equal ones.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::Refusal;

use super::lease::{serves, waits_for};
use super::{End, Session};
use crate::pipeline::round::Round;
use crate::plan::Plan;
use crate::worker::{Flown, LeaseError};

impl Session {
    /// Whether a read that needs a server connection may be asked together with equal ones. One
    /// that ends after `timeouts.query` ends for its client alone.
    pub(super) fn may_fly(&self, plan: &Plan) -> bool {
        self.may_share_read(plan)
            && self.may_ride(plan)
            && self.begun.is_none()
            && !self.only_primary
            && self.options.patience.query.is_none()
    }

    /// Serves a read, with equal ones that wait for a connection.
    pub(super) async fn fly(
        &mut self,
        mut round: Round,
        plan: Rc<Plan>,
    ) -> Result<Option<Round>, End> {
        let (client, probe) = (self.client.clone(), self.environment.told.probe());
        match waits_for(&client, &probe, round.came, self.flown(&round)).await {
            Err(why) => return self.not_served(&round, why).map(|()| None),
            Ok(Some(Flown::Leased(lease))) => return self.serve_by(*lease, round).await,
            Ok(Some(Flown::Lane(lane, seat))) => {
                let is_put = self.put(&lane, &round, plan, true);
                drop(seat);
                if is_put {
                    // What the client sends behind it waits until it is answered: that lane takes
                    // nothing else, and answers of another one could come before.
                    self.riding = None;
                    return Ok(None);
                }
            }
            Ok(None) => {}
        }
        round.came = Instant::now();
        self.lease(round, true).await
    }

    /// Waits for a connection to where the read goes; `None` where no server takes reads. Should
    /// that server go down or lose its role meanwhile, another is chosen.
    async fn flown(&mut self, round: &Round) -> Result<Option<Flown>, Refusal> {
        let deadline = self.options.patience.deadline(round.came);
        let front = self.front.clone();
        loop {
            let mut changes = front.backends.changes();
            let Some(group) = self.group(false) else { return Ok(None) };
            let backend = &group.backend;
            let lost = async { while serves(backend, true) && changes.changed().await.is_ok() {} };
            tokio::select! {
                biased;
                flown = front.fly(&group, round, deadline) => match flown {
                    Ok(flown) => return Ok(Some(flown)),
                    // Those that it has waited with came before it.
                    Err(LeaseError::Waited) if Instant::now() < deadline => {}
                    Err(why) => return Err(why.refusal()),
                },
                () = lost => {}
            }
        }
    }
}
