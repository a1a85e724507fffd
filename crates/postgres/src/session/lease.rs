//! A round that needs a server connection of its own.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use wire::postgres::{Refusal, Severity, sqlstate};

use super::{End, Session};
use crate::backends::{Ask, Backend, BackendState};
use crate::client::{CalledOff, Client, Target};
use crate::connection::{Key, RefusedSetting, ServerState};
use crate::lanes::RequestUnderWay;
use crate::pipeline::round::Round;
use crate::pipeline::settings::Reported;
use crate::pipeline::summary::Summary;
use crate::plan::Leaves;
use crate::settings::Route;
use crate::worker::{Leased, give_back};

/// How often it is looked whether a cancel has arrived.
const CANCEL_TURN: Duration = Duration::from_millis(10);
/// How often it is looked whether a client has gone whose statement waits for a server.
pub(super) const GONE_TURN: Duration = Duration::from_secs(1);

/// A statement got no server connection.
pub(super) enum Unserved {
    /// Its client hears why.
    Refused(Refusal),
    /// It is not to wait any more.
    CalledOff(CalledOff),
}

impl Session {
    /// Serves the client on a server connection of its own, with this round first, until the two
    /// can part. A round comes back that is to be looked at once more: one that a replica could not
    /// answer, or that the server did not get.
    pub(super) async fn lease(
        &mut self,
        mut round: Round,
        read: bool,
    ) -> Result<Option<Round>, End> {
        match self.leased(&mut round, read).await {
            Ok((lease, _loaded)) => self.serve_by(lease, round).await,
            Err(why) => self.not_served(&round, why).map(|()| None),
        }
    }

    /// A round gets no server connection.
    pub(super) fn not_served(&mut self, round: &Round, why: Unserved) -> Result<(), End> {
        match why {
            Unserved::Refused(refusal) => self.refuse_round(round, refusal),
            Unserved::CalledOff(why) => self.called_off(round, why),
        }
    }

    /// Serves the client on this server connection until the two can part.
    pub(super) async fn serve_by(
        &mut self,
        mut lease: Leased,
        round: Round,
    ) -> Result<Option<Round>, End> {
        lease.record.lent(self.client.id);
        self.database.count(|totals| {
            totals.assignments += 1;
            totals.wait_time += lease.waited();
        });
        self.only_primary = false;
        match lease.restore(&mut self.environment.settings, &self.front.scratch).await {
            Ok(refused) => self.tell_refused(refused),
            Err(refusal) if refusal.severity == Severity::Fatal => {
                return Err(End::Refused(refusal));
            }
            Err(refusal) => return self.refuse_round(&round, refusal).map(|()| None),
        }
        self.environment.scope = self.environment.settings.scope(&lease.reported);
        self.tell_what_holds(&lease.reported);
        let record = lease.record.clone();
        let target = lease.key.clone().map(|key| Target { record, key });
        self.client.set_leased(target.clone());
        let relayed = self.relay(&mut lease, round).await;
        self.client.set_leased(None);
        self.client.seen().pinned.set("");
        self.part_from(lease, target, &relayed);
        if !matches!(relayed, Err(End::Gone)) {
            self.confirmed().await?;
        }
        relayed
    }

    /// Gives the connection back, once nothing that was meant for this client can reach the next.
    fn part_from(
        &self,
        mut lease: Leased,
        target: Option<Target>,
        relayed: &Result<Option<Round>, End>,
    ) {
        lease.record.has_prepared(lease.prepared.count());
        let is_clean = lease.leaves == Leaves::Nothing;
        lease.report_imbalance();
        match relayed {
            Ok(_) if lease.is_free() && is_clean && lease.record.cancels() == 0 => {
                return give_back(lease);
            }
            // What runs there goes on for nobody.
            Err(End::Refused(_)) if !lease.script.is_idle() => {
                if let Some(Target { record, key }) = target {
                    self.front.spawn_cancel(&record, key, lease);
                }
                return;
            }
            _ if !lease.is_free() => return,
            _ => {}
        }
        let scratch = self.front.scratch.clone();
        let forgets = relayed.is_err() || !is_clean;
        lease.record.is_now(ServerState::Resetting);
        spawn_local(async move {
            while lease.record.cancels() > 0 {
                tokio::time::sleep(CANCEL_TURN).await;
            }
            // What the session has left there goes, and the connection serves others.
            if !forgets || lease.forget_session(&scratch).await.is_ok() {
                give_back(lease);
            }
        });
    }

    /// Leases a connection to where the round goes. Should that server go down or lose its role
    /// meanwhile, another is chosen.
    async fn leased(
        &mut self,
        round: &mut Round,
        read: bool,
    ) -> Result<(Leased, Option<RequestUnderWay>), Unserved> {
        let wanted = round.came;
        let (client, probe) = (self.client.clone(), self.environment.told.probe());
        waits_for(&client, &probe, wanted, self.lent(round, read)).await
    }

    /// A round is not to wait for a server any more.
    pub(super) fn called_off(&mut self, round: &Round, why: CalledOff) -> Result<(), End> {
        match why {
            CalledOff::Cancelled => self.refuse_round(round, cancelled()),
            CalledOff::Closed => Err(self.client.killed().map_or(End::Gone, End::Refused)),
        }
    }

    /// A read counts as under way at a server from when it waits for it.
    async fn lent(
        &mut self,
        round: &mut Round,
        read: bool,
    ) -> Result<(Leased, Option<RequestUnderWay>), Refusal> {
        let deadline = self.options.patience.deadline(round.came);
        let read = !self.only_primary && (read || self.reads_only(round));
        loop {
            let mut changes = self.front.backends.changes();
            let backend = match read.then(|| self.reader(false)).flatten() {
                Some(backend) => backend,
                None => self.primary().await?,
            };
            let loaded = read.then(|| self.front.load(&backend).one());
            let leased = self.front.lease(self.key(&backend), &self.environment.applied, deadline);
            let lost = async { while serves(&backend, read) && changes.changed().await.is_ok() {} };
            tokio::select! {
                biased;
                leased = leased => match leased {
                    // It may have been handed over from before the server changed.
                    Ok(lease) if lease.epoch != backend.epoch() => {}
                    // It is closed, and another one is found.
                    Ok(lease) if lease.has_local_buffers && self.wants_local_buffers(round) => {}
                    Ok(lease) => return Ok((lease, loaded)),
                    Err(error) => return Err(error.refusal()),
                },
                () = lost => {}
            }
        }
    }

    /// Whether the session has, or the client is about to set, what a server takes only in front of
    /// its first temporary table.
    fn wants_local_buffers(&self, round: &Round) -> bool {
        let came = [round.bytes(), &self.inbox];
        let says = |word: &str| {
            let mut words = came.iter().flat_map(|bytes| bytes.windows(word.len()));
            words.any(|of| of.eq_ignore_ascii_case(word.as_bytes()))
        };
        let name = "temp_buffers";
        self.environment.settings.value(name).is_some() || (says(name) && says("set"))
    }

    /// The client hears which of its settings hold no longer, since no server accepts them.
    pub(super) fn tell_refused(&mut self, refused: Vec<RefusedSetting>) {
        if refused.is_empty() {
            return;
        }
        let mut out = Vec::new();
        for (name, refusal) in refused {
            let what = format!("the value of \"{name}\" holds no longer: {}", refusal.message);
            let mut warning = Refusal::error(sqlstate::WARNING, what);
            (warning.detail, warning.hint) = (refusal.detail, refusal.hint);
            warning.encode_as_warning(&mut out);
        }
        self.client.outlet.send(&out);
        self.environment.told.doubt();
        self.environment.follow();
    }

    pub(super) fn key(&self, backend: &Backend) -> Key {
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
        let _waiting = self.client.waits(Instant::now());
        let reported = self.front.reported(self.key(&backend), &self.environment.applied).await?;
        self.environment.begins_with(reported.clone());
        Ok(reported)
    }

    /// The backend that reads go to now; `None` when there is none.
    pub(super) fn reader(&self, on_primary: bool) -> Option<Arc<Backend>> {
        let route = if on_primary { Route::Primary } else { self.route.unwrap_or_default() };
        let ask = Ask { after: self.last_write, consistency: self.options.consistency, route };
        self.front.backends.reader(ask, |backend| self.front.in_flight(backend.number()))
    }

    async fn primary(&self) -> Result<Arc<Backend>, Refusal> {
        let limit = self.front.settings().failover_wait.get();
        let found = self.front.backends.primary_within(limit).await;
        found.map_err(|why| Refusal::error(sqlstate::CANNOT_CONNECT, why.to_string()))
    }

    /// Whether a round reads, as all that follows in the transaction that is begun with it.
    fn reads_only(&self, round: &mut Round) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.is_read_only) && self.is_read(round)
    }

    /// Whether a round is a proven read by now.
    pub(super) fn is_read(&self, round: &mut Round) -> bool {
        self.judge(round);
        round.is_read()
    }

    /// Whether a round is sure by now to take a snapshot for the transaction that it begins.
    pub(super) fn takes_snapshot(&self, round: &mut Round) -> bool {
        self.judge(round);
        round.takes_snapshot()
    }

    /// Whether a round is by now one change of data that goes out with a Sync behind it, so that
    /// what is put in front of it has its answer with it.
    pub(super) fn is_change(&self, round: &mut Round) -> bool {
        self.judge(round);
        let plan = round.summary().and_then(Summary::plan).filter(|_| round.is_change());
        let lifts = |sql| plan.is_some_and(|plan| self.lifts(plan, sql));
        plan.is_some() && (!round.is_query() || round.text().is_some_and(lifts))
    }
}

/// Waits for a server connection, unless the statement is cancelled or its client goes meanwhile.
pub(super) async fn waits_for<T>(
    client: &Rc<Client>,
    probe: &[u8],
    wanted: Instant,
    served: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Unserved> {
    let _waiting = client.waits(wanted);
    let called_off = std::future::poll_fn(|cx| client.poll_called_off(cx));
    tokio::select! {
        biased;
        served = served => served.map_err(Unserved::Refused),
        why = called_off => Err(Unserved::CalledOff(why)),
        () = client.outlet.broken(GONE_TURN, probe) => {
            Err(Unserved::CalledOff(CalledOff::Closed))
        }
    }
}

/// Whether statements may go to a backend.
pub(super) fn serves(backend: &Backend, read: bool) -> bool {
    match backend.standing() {
        BackendState::Primary => true,
        BackendState::Replica => read,
        _ => false,
    }
}

/// What a client hears whose statement it has had cancelled before a server had it.
pub(super) fn cancelled() -> Refusal {
    Refusal::error(sqlstate::QUERY_CANCELED, "canceling statement due to user request")
}
