//! The one place where what came of all polls and what the settings say is decided upon, and the
//! workers are told.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::picture::{Member, Picture, Rules};
use super::poll::Report;
use super::{Backend, BackendState, NoPrimary, View};
use crate::settings::{Role, Settings};

/// What the settings say about all backends together.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) backends: Vec<(Arc<Backend>, Role)>,
    pub(super) rules: Rules,
    pub(super) reads_on_primary: bool,
    pub(super) spread: crate::settings::Spread,
}

impl Plan {
    pub(super) fn new(settings: &Settings, backends: Vec<Arc<Backend>>) -> Self {
        let roles = settings.backend.iter().map(|backend| backend.role);
        Self {
            backends: backends.into_iter().zip(roles).collect(),
            rules: Rules {
                two_primaries: settings.two_primaries,
                lag_max: settings.max_lag.get(),
                lag_bytes_max: settings.max_lag_bytes.bytes(),
            },
            reads_on_primary: settings.reads_on_primary,
            spread: settings.spread,
        }
    }

    /// As long as nobody was asked.
    pub(super) fn first_view(&self) -> View {
        View {
            backends: self.backends.iter().map(|(backend, _)| Arc::clone(backend)).collect(),
            primary: Err(NoPrimary::Starting),
            readers: Vec::new(),
            reads_on_primary: self.reads_on_primary,
            spread: self.spread,
        }
    }
}

/// Who takes what at the moment, and how often that has changed.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) view: ArcSwap<View>,
    pub(super) changed: watch::Sender<u64>,
}

impl Published {
    /// Nobody is known yet.
    pub(super) fn of(plan: &Plan) -> Self {
        Self { view: ArcSwap::from_pointee(plan.first_view()), changed: watch::Sender::new(0) }
    }
}

/// What is known of all backends. Each change of it is published before it returns.
#[derive(Debug)]
pub(super) struct Overseer {
    plan: Plan,
    picture: Picture,
}

impl Overseer {
    pub(super) fn new(plan: Plan) -> Self {
        let picture = picture_of(&plan, Picture::default());
        Self { plan, picture }
    }

    /// Takes in what came of a poll.
    pub(super) fn hear(&mut self, report: Report, published: &Published) {
        let Report { number, at, noted, failure } = report;
        self.picture.note(number, noted, at);
        self.announce(Some(number), failure.as_deref(), published);
    }

    /// Follows other settings; what is known of backends that stay is kept.
    pub(super) fn follow(&mut self, plan: Plan, published: &Published) {
        retire(&self.plan, &plan);
        self.plan = plan;
        self.picture = picture_of(&self.plan, std::mem::take(&mut self.picture));
        self.announce(None, None, published);
    }

    /// Tells the backends and the workers. Orders matter: what a replica has is taken back before
    /// another primary can be seen.
    fn announce(&self, polled: Option<usize>, failure: Option<&str>, published: &Published) {
        tell(&self.plan, &self.picture, polled, failure);
        publish(published, view_of(&self.plan, &self.picture));
    }
}

fn picture_of(plan: &Plan, former: Picture) -> Picture {
    let mut picture = former;
    let members: Vec<_> = plan.backends.iter().map(|(one, role)| (one.number(), *role)).collect();
    picture.replace(plan.rules, &members);
    picture
}

/// Connections to backends that are no longer in the file are to be closed.
fn retire(former: &Plan, latest: &Plan) {
    for (backend, _) in &former.backends {
        if !latest.backends.iter().any(|(other, _)| other.number() == backend.number()) {
            backend.set_standing(BackendState::Down);
        }
    }
}

/// Writes what was decided into the backends.
fn tell(plan: &Plan, picture: &Picture, polled: Option<usize>, failure: Option<&str>) {
    let ours = picture.timeline();
    for ((backend, _), member) in plan.backends.iter().zip(&picture.members) {
        backend.set_caught_up(member.caught_up);
        let former = backend.set_standing(member.standing);
        let last = backend.told.load();
        let asked = polled == Some(member.id);
        let failure = if asked { failure } else { None };
        // What went wrong with a poll stays told until the next one.
        let kept =
            last.trouble.as_deref().filter(|_| !asked && member.standing == BackendState::Down);
        let mut told = last.next(member, failure.or(kept), ours);
        told.polls += u64::from(asked);
        told.polls_failed += u64::from(failure.is_some());
        if former != member.standing || last.takes_reads != told.takes_reads {
            log(backend, member, former, told.trouble.as_deref());
        }
        backend.told.store(Arc::new(told));
    }
}

fn log(backend: &Backend, member: &Member, former: BackendState, trouble: Option<&str>) {
    let (name, now) = (backend.name(), member.standing);
    let trouble = trouble.unwrap_or_default();
    let reads = member.takes_reads();
    match now {
        BackendState::Down => {
            tracing::warn!(backend = name, was = %former, trouble, "backend is down")
        }
        BackendState::Rival | BackendState::Misplaced | BackendState::Foreign => {
            let was = former.name();
            tracing::error!(backend = name, was, is = %now, trouble, "backend gets no statements");
        }
        BackendState::Replica if !reads => {
            tracing::warn!(backend = name, was = %former, trouble, "replica takes no reads");
        }
        _ => tracing::info!(backend = name, was = %former, is = %now, "backend"),
    }
}

fn view_of(plan: &Plan, picture: &Picture) -> View {
    let all = || plan.backends.iter().map(|(backend, _)| backend).zip(&picture.members);
    let first = plan.first_view();
    let decision = picture.decision.as_ref();
    let primary = match (picture.primary(), decision) {
        (Some(place), _) => Ok(Arc::clone(&first.backends[place])),
        (None, Some(decision)) if decision.is_starting => Err(NoPrimary::Starting),
        (None, Some(decision)) if decision.primaries.len() > 1 => {
            let name = |place: &usize| first.backends[*place].name().to_owned();
            Err(NoPrimary::Several(decision.primaries.iter().map(name).collect()))
        }
        (None, _) => Err(NoPrimary::None),
    };
    let readers = all().filter(|(_, member)| member.takes_reads()).map(|(one, _)| one.clone());
    View { primary, readers: readers.collect(), ..first }
}

/// Gives the workers another view where it says something else.
fn publish(published: &Published, view: View) {
    let numbers = |all: &[Arc<Backend>]| all.iter().map(|one| one.number()).collect::<Vec<_>>();
    let last = published.view.load();
    let primary = |view: &View| view.primary.as_ref().map(|one| one.number()).map_err(Clone::clone);
    let same = primary(&last) == primary(&view)
        && numbers(&last.readers) == numbers(&view.readers)
        && numbers(&last.backends) == numbers(&view.backends)
        && (last.reads_on_primary, last.spread) == (view.reads_on_primary, view.spread);
    if same {
        return;
    }
    if let Err(why @ (NoPrimary::None | NoPrimary::Several(_))) = &view.primary
        && primary(&last) != primary(&view)
    {
        tracing::error!(%why, "nothing can be written");
    }
    published.view.store(Arc::new(view));
    published.changed.send_modify(|generation| *generation += 1);
}
