//! A read that waits for a server connection together with equal ones.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::Refusal;

use super::lease::{serves, waits_for};
use super::ride::Asking;
use super::{End, Session};
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

    /// Serves the read at the start of the inbox, with equal ones that wait for a connection.
    pub(super) async fn fly(&mut self, len: usize, plan: Rc<Plan>) -> Result<(), End> {
        let wanted = Instant::now();
        let request = Rc::from(&self.inbox[..len]);
        let (client, probe) = (self.client.clone(), self.environment.told.probe());
        match waits_for(&client, &probe, wanted, self.flown(&request, wanted)).await {
            Err(why) => self.not_served(why),
            Ok(Some(Flown::Leased(lease))) => self.serve_by(*lease, wanted).await,
            Ok(Some(Flown::Lane(lane, seat))) => {
                let asking = Asking { plan, attempts: 0, may_share: true, at: wanted };
                let is_put = self.put(&lane, &request, asking);
                drop(seat);
                if !is_put {
                    return self.lease(true).await;
                }
                self.take(len);
                // What the client sends behind it waits until it is answered: that lane takes
                // nothing else, and answers of another one could come before.
                self.riding = None;
                Ok(())
            }
            Ok(None) => self.lease(true).await,
        }
    }

    /// Waits for a connection to where the read goes; `None` where no server takes reads. Should
    /// that server go down or lose its role meanwhile, another is chosen.
    async fn flown(
        &mut self,
        request: &Rc<[u8]>,
        wanted: Instant,
    ) -> Result<Option<Flown>, Refusal> {
        let deadline = self.options.patience.deadline(wanted);
        let front = self.front.clone();
        loop {
            let mut changes = front.backends.changes();
            let Some(group) = self.group(false) else { return Ok(None) };
            let backend = &group.backend;
            let lost = async { while serves(backend, true) && changes.changed().await.is_ok() {} };
            tokio::select! {
                biased;
                flown = front.fly(&group, request, deadline) => match flown {
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
