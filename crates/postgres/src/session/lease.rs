//! A round that needs a server connection of its own.

use std::rc::Rc;
use std::sync::Arc;

use wire::postgres::{Refusal, sqlstate};

use super::client::Target;
use super::{End, Session};
use crate::backends::{Ask, Backend, Standing};
use crate::plan::Kind;
use crate::server::Reported;
use crate::settings::Route;
use crate::worker::{Key, LeaseError, Leased};

impl Session {
    /// Serves the client on a server connection of its own until the two can part.
    pub(super) async fn lease(&mut self, read: bool) -> Result<(), End> {
        let mut lease = match self.leased(read).await {
            Ok(lease) => lease,
            Err(refusal) => return self.refuse_round(refusal),
        };
        let applied = self.applied.clone();
        lease.take_on(&applied);
        let target = lease.key.clone().map(|key| Target { backend: lease.backend.clone(), key });
        self.client.set_leased(target);
        let relayed = self.relay(&mut lease).await;
        self.client.set_leased(None);
        if !lease.is_free() {
            return relayed;
        }
        match &relayed {
            Ok(()) => lease.give_back(),
            // What the session has left there goes, and the connection serves others.
            Err(End::Terminated | End::Gone) => {
                let scratch = self.front.scratch.clone();
                tokio::task::spawn_local(async move {
                    if lease.forget_session(&scratch).await.is_ok() {
                        lease.give_back();
                    }
                });
            }
            Err(End::Refused(_)) => {}
        }
        relayed
    }

    /// Leases a connection to where the round goes. Should that server go down or lose its role
    /// meanwhile, another is chosen.
    async fn leased(&mut self, read: bool) -> Result<Leased, Refusal> {
        let deadline = self.patience.deadline();
        let read = read || self.begins_read_only();
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
                leased = leased => return leased.map_err(LeaseError::refusal),
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
        self.begin = None;
        let len = match super::round::cut(&self.inbox, usize::MAX) {
            super::Cut::Query(len) | super::Cut::Extended(len) => len,
            // The rest of it is still to come: there is no telling where it ends.
            _ => {
                let refusal = Refusal { severity: wire::postgres::Severity::Fatal, ..refusal };
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
        })
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
