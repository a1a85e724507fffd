//! A round that needs a server connection of its own.

use std::rc::Rc;
use std::sync::Arc;

use tokio::task::spawn_local;
use wire::postgres::{Refusal, Severity, sqlstate};

use super::client::Target;
use super::round::{Cut, cut};
use super::summary::{Summary, summarise};
use super::{End, Session};
use crate::backends::{Ask, Backend, Standing};
use crate::plan::{Kind, Plan};
use crate::server::{self, Reported};
use crate::settings::Route;
use crate::worker::{Key, LeaseError, Leased};

/// How often it is looked whether a cancel has arrived.
const CANCEL_TURN: std::time::Duration = std::time::Duration::from_millis(10);

impl Session {
    /// Serves the client on a server connection of its own until the two can part.
    pub(super) async fn lease(&mut self, read: bool) -> Result<(), End> {
        let applied = self.applied.clone();
        let mut lease = match self.leased(read).await {
            Ok(lease) => lease,
            Err(refusal) => return self.refuse_round(refusal),
        };
        self.only_primary = false;
        lease.take_on(&applied);
        if lease.unsent() > 0
            && let Err(refusal) = lease.settle_in_time(&self.front.scratch).await
        {
            return self.refuse_round(refusal);
        }
        let target = lease.key.clone().map(|key| Target {
            backend: lease.backend.clone(),
            key,
            cancels: Rc::default(),
        });
        self.client.set_leased(target.clone());
        let relayed = self.relay(&mut lease).await;
        self.client.set_leased(None);
        self.part_from(lease, target, &relayed);
        relayed
    }

    /// Gives the connection back, once nothing that was meant for this client can reach the next.
    fn part_from(&self, mut lease: Leased, target: Option<Target>, relayed: &Result<(), End>) {
        let cancels = target.as_ref().map_or(0, |target| target.cancels.get());
        match relayed {
            Ok(()) if lease.is_free() && cancels == 0 => return lease.give_back(),
            // What runs there goes on for nobody.
            Err(End::Refused(_)) if !lease.script.is_idle() => {
                if let Some(target) = target {
                    spawn_local(async move {
                        let _ = server::cancel(target.backend.server(), &target.key).await;
                        drop(lease);
                    });
                }
                return;
            }
            _ if !lease.is_free() => return,
            _ => {}
        }
        let scratch = self.front.scratch.clone();
        let forgets = relayed.is_err();
        spawn_local(async move {
            while target.as_ref().is_some_and(|target| target.cancels.get() > 0) {
                tokio::time::sleep(CANCEL_TURN).await;
            }
            // What the session has left there goes, and the connection serves others.
            if !forgets || lease.forget_session(&scratch).await.is_ok() {
                lease.give_back();
            }
        });
    }

    /// Leases a connection to where the round goes. Should that server go down or lose its role
    /// meanwhile, another is chosen.
    async fn leased(&mut self, read: bool) -> Result<Leased, Refusal> {
        let deadline = self.patience.deadline();
        let read = !self.only_primary && (read || self.begins_read_only());
        loop {
            let mut changes = self.front.backends.changes();
            let backend = match read.then(|| self.reader(false)).flatten() {
                Some(backend) => backend,
                None => self.primary().await?,
            };
            let leased = self.front.lease(self.key(&backend), &self.applied, deadline);
            let lost = async { while serves(&backend, read) && changes.changed().await.is_ok() {} };
            tokio::select! {
                biased;
                leased = leased => match leased {
                    // It may have been handed over from before the server changed.
                    Ok(lease) if lease.epoch != backend.epoch() => {}
                    leased => return leased.map_err(LeaseError::refusal),
                },
                () = lost => {}
            }
        }
    }

    fn key(&self, backend: &Backend) -> Key {
        Key {
            backend: backend.number(),
            database: self.database.name_there.clone(),
            user: self.user.clone(),
        }
    }

    /// The settings that servers report to this session.
    pub(super) async fn reported(&mut self) -> Result<Rc<Reported>, Refusal> {
        let backend = match self.primary().await {
            Ok(backend) => backend,
            // Without a primary there may still be reads.
            Err(refusal) => self.reader(false).ok_or(refusal)?,
        };
        self.reported = self.front.reported(self.key(&backend), &self.applied).await?;
        self.scope = self.settings.scope(&self.reported);
        Ok(self.reported.clone())
    }

    /// The backend that reads go to now; `None` when there is none.
    pub(super) fn reader(&self, on_primary: bool) -> Option<Arc<Backend>> {
        let route = if on_primary { Route::Primary } else { self.route.unwrap_or_default() };
        let ask = Ask { after: self.last_write, consistency: self.consistency, route };
        self.front.backends.reader(ask, |backend| self.front.in_flight(backend.number()))
    }

    async fn primary(&self) -> Result<Arc<Backend>, Refusal> {
        let limit = self.front.settings().failover_wait.get();
        let found = self.front.backends.primary_within(limit).await;
        found.map_err(|why| Refusal::error(sqlstate::CANNOT_CONNECT, why.to_string()))
    }

    /// No server connection could be had: the round at the start of the inbox is answered with an
    /// error. What was begun here was never heard of by a server.
    pub(super) fn refuse_round(&mut self, refusal: Refusal) -> Result<(), End> {
        if self.begin.take().is_some() {
            // It was told that its transaction has begun: what it sends next must not run outside.
            return Err(End::Refused(Refusal { severity: Severity::Fatal, ..refusal }));
        }
        let len = match cut(&self.inbox, usize::MAX) {
            Cut::Query(len) | Cut::Extended(len) => len,
            // The rest of it is still to come: there is no telling where it ends.
            _ => {
                let refusal = Refusal { severity: Severity::Fatal, ..refusal };
                return Err(End::Refused(refusal));
            }
        };
        self.inbox.drain(..len);
        self.client.refuse(&refusal);
        Ok(())
    }

    /// Whether the round at the start may be sent to a server while a transaction is only begun
    /// here.
    pub(super) fn begins_read_only(&self) -> bool {
        self.begin.as_deref().is_some_and(|sql| {
            let plan = self.plan(sql.as_bytes());
            matches!(plan.kind, Kind::Begin(form) if form.read_only == Some(true))
        }) && self.begins_with_read()
    }

    /// Whether the round at the start of the inbox is a proven read.
    pub(super) fn begins_with_read(&self) -> bool {
        let is_read = |plan: &Plan| matches!(plan.kind, Kind::Read);
        match cut(&self.inbox, usize::MAX) {
            Cut::Query(len) => is_read(&self.plan(&self.inbox[5..len - 1])),
            Cut::Extended(len) => matches!(
                summarise(&self.inbox[..len], &self.names, &self.database, self.scope),
                Summary::Reads(_) | Summary::Prepares(_)
            ),
            _ => false,
        }
    }
}

/// Whether statements may go to a backend.
pub(super) fn serves(backend: &Backend, read: bool) -> bool {
    match backend.standing() {
        Standing::Primary => true,
        Standing::Replica => read,
        _ => false,
    }
}
