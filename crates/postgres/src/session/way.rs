//! Where a round goes.

use std::rc::Rc;
use std::time::Duration;

use super::Session;
use super::begin::Begun;
use crate::lanes::Norm;
use crate::pipeline::lease::listening::ListenChange;
use crate::pipeline::round::Round;
use crate::pipeline::summary::{self, Summary};
use crate::plan::{
    BeginForm, Deallocate, Directive, Isolation, Kind, Plan, Resting, SettingChange, names_moment,
};
use crate::settings::{Mode, Route};

/// A statement that takes so many times what others take is slow, beyond `lanes.slow`.
const SLOW_NORMS: u32 = 4;

/// However busy the machine is, what takes longer has a server connection of its own.
const NORMS_MAX: Duration = Duration::from_millis(100);

/// Where a round goes.
pub(super) enum RoundPath {
    /// To a lane, with reads of other clients.
    Ride(Rc<Plan>),
    /// To a server connection, with equal reads that wait for one.
    Fly(Rc<Plan>),
    /// Into a transaction with others.
    Batch(Rc<Plan>),
    /// To a server connection of its own; a read may go to a replica.
    Lease {
        /// Whether a replica will do.
        read: bool,
    },
    /// Nowhere: it begins a transaction, which the next statement will tell the server of.
    Begin(BeginForm, Box<str>),
    /// Nowhere: it ends a transaction no server has heard of; the command's tag.
    End(&'static str),
    /// Nowhere: it forgets prepared statements.
    Forget(Deallocate),
    /// Nowhere: it says where this session's statements are to go.
    Route(Option<Route>),
    /// Nowhere: Weir listens for the client, or no longer does.
    Listening(ListenChange),
}

impl Session {
    /// Where a round goes: its judgement is looked up, all else is asked now.
    pub(super) fn way(&self, round: &mut Round) -> RoundPath {
        self.judge(round);
        let Some(summary) = round.summary() else { return RoundPath::Lease { read: false } };
        let sql = || String::from_utf8_lossy(round.text().unwrap_or_default()).into_owned();
        match (summary, &self.begun) {
            (Summary::Query(plan), Some(begun)) => {
                let belongs = || names_moment(round.text().unwrap_or_default());
                self.way_within(begun, plan.clone(), belongs)
            }
            (Summary::Reads(plan, steady), Some(begun)) => {
                let belongs =
                    || !steady || summary::names_moment(round.bytes(), &self.client.names());
                self.way_within(begun, plan.clone(), belongs)
            }
            // What is only prepared has no value yet.
            (Summary::Prepares(plan) | Summary::One(plan, _), Some(begun)) => {
                self.way_within(begun, plan.clone(), || false)
            }
            (Summary::Query(plan) | Summary::One(plan, _), None) => {
                self.way_outside(plan.clone(), sql)
            }
            (Summary::Reads(plan, _), None) => self.way_outside(plan.clone(), String::new),
            (Summary::Prepares(plan), None) if self.may_ride(plan) => RoundPath::Ride(plan.clone()),
            _ => RoundPath::Lease { read: false },
        }
    }

    /// Judges a round by what is known now.
    pub(super) fn judge(&self, round: &mut Round) {
        round.judge(&self.client.names(), &*self.database, self.environment.scope);
    }

    /// Where a statement goes outside a transaction.
    fn way_outside(&self, plan: Rc<Plan>, sql: impl FnOnce() -> String) -> RoundPath {
        // Before its next answer the client hears which settings hold on a server connection.
        if self.pinned || self.environment.told.is_in_doubt() {
            return RoundPath::Lease { read: false };
        }
        if let Some(listening) = self.listening(&plan) {
            return RoundPath::Listening(listening);
        }
        match plan.directive {
            Some(Directive::Primary) => return RoundPath::Lease { read: false },
            Some(Directive::Replica) => return RoundPath::Lease { read: true },
            _ => {}
        }
        if self.route == Some(Route::Replica) && !matches!(plan.kind, Kind::Read | Kind::Set(_)) {
            return RoundPath::Lease { read: true };
        }
        match &plan.kind {
            Kind::Read if self.may_ride(&plan) && self.is_quick(&plan, &self.front.norm) => {
                RoundPath::Ride(plan)
            }
            Kind::Read if self.may_fly(&plan) => RoundPath::Fly(plan),
            Kind::Read => RoundPath::Lease { read: true },
            Kind::Write if self.may_batch(&plan) => RoundPath::Batch(plan),
            // A form that a server could refuse is sent at once.
            Kind::Begin(form)
                // Nothing follows it in what the client has sent.
                if self.inbox.is_empty()
                    && form.isolation != Some(Isolation::Serializable)
                    && form.deferrable.is_none()
                    && self.front.settings().merge_begin
                    && self.options.mode == Mode::Transaction
                    && self.database.resting() != Resting::ByLogin =>
            {
                RoundPath::Begin(*form, sql().into())
            }
            Kind::Set(SettingChange::Session { name, value }) if &**name == ROUTE => {
                match route(value.as_deref()) {
                    Ok(route) => RoundPath::Route(route),
                    // The server says that there is no such setting, or takes it for one of the
                    // client's own.
                    Err(()) => RoundPath::Lease { read: false },
                }
            }
            Kind::Set(SettingChange::Reset { name }) if &**name == ROUTE => RoundPath::Route(None),
            Kind::Deallocate(what) if !self.pinned => RoundPath::Forget(what.clone()),
            _ => RoundPath::Lease { read: false },
        }
    }

    /// Where a statement goes whose transaction no server has heard of. `belongs`: something in it
    /// beside its plan depends on that, as a value that stands for the time at which it began.
    fn way_within(
        &self,
        begun: &Begun,
        plan: Rc<Plan>,
        belongs: impl FnOnce() -> bool,
    ) -> RoundPath {
        match plan.kind {
            Kind::Commit { chain: false } if self.client.has_failed() => RoundPath::End("ROLLBACK"),
            Kind::Commit { chain: false } => RoundPath::End("COMMIT"),
            Kind::Rollback { chain: false } => RoundPath::End("ROLLBACK"),
            Kind::Read
                if begun.is_loose
                    && !self.client.has_failed()
                    && plan.steady
                    && plan.directive.is_none()
                    && self.route != Some(Route::Replica)
                    && self.may_ride(&plan)
                    && self.is_quick(&plan, &self.front.norm)
                    && !belongs() =>
            {
                RoundPath::Ride(plan)
            }
            _ => RoundPath::Lease { read: false },
        }
    }

    pub(super) fn may_ride(&self, plan: &Plan) -> bool {
        self.options.lanes_on
            && self.options.mode == Mode::Transaction
            && !self.pinned
            && !self.environment.told.is_in_doubt()
            && matches!(plan.kind, Kind::Read)
    }

    /// Whether statements like this one were seen to be quick, beside what others take. One that
    /// was not seen yet goes by lease: nobody waits behind it.
    pub(super) fn is_quick(&self, plan: &Plan, norm: &Norm) -> bool {
        let slow = self.front.settings().lanes.slow.get();
        let norm = (norm.get() * SLOW_NORMS).min(NORMS_MAX);
        let ran = |ran| ran <= slow || ran <= norm;
        plan.run_time().is_some_and(ran)
    }
}

/// The setting by which a client says where its statements go.
pub(super) const ROUTE: &str = "weir.route";

pub(super) fn route(value: Option<&str>) -> Result<Option<Route>, ()> {
    match value.map(|value| value.trim_matches('\'').to_ascii_lowercase()).as_deref() {
        None => Ok(None),
        Some("auto") => Ok(Some(Route::Auto)),
        Some("primary") => Ok(Some(Route::Primary)),
        Some("replica") => Ok(Some(Route::Replica)),
        Some(_) => Err(()),
    }
}
