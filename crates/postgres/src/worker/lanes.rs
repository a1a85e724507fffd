//! Looking after a worker's lanes: how many there may be, and which of them end.

use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::pool::Figures;

use super::servers::{pool_settings, some};
use super::{MAKE_WAY, WorkerContext};
use crate::backends::Backend;
use crate::connection::Key;
use crate::lanes::{self, Group};

/// A lane whose head has run for longer stands still, however busy the machine is.
const HEAD_LIMIT: Duration = Duration::from_millis(100);
/// How long a request on a lane or in a batch may run while its server is not of use, where no
/// limit of statements is set.
pub const HUNG: Duration = Duration::from_secs(60);

impl WorkerContext {
    /// Whether a group may have one more lane: lanes of all settings together leave half of the
    /// pool to leases. Where they do not, one that nobody uses makes room for the next attempt.
    pub(super) fn has_room_for_lane(&self, group: &Rc<Group>, now: Instant) -> bool {
        let key = pool_key(group);
        let workers = self.shared.workers();
        let most = self.settings().lanes.of_a_worker(self.shared.room(&key), workers);
        let alike = self.groups_of(&key);
        let alike: Vec<_> = alike.iter().map(|of| &***of).collect();
        let is_waited_for = self.pool.group(&key).figures().waiting > 0;
        group.has_room(&alike, lanes::Room { most, is_waited_for }, now)
    }

    /// The groups of lanes that take connections of the same pool.
    fn groups_of(&self, key: &Key) -> Vec<Rc<Group>> {
        let groups = self.groups.borrow();
        groups.values().filter(|group| takes_from(group, key)).cloned().collect()
    }

    /// Lanes that are too old, or that nobody has used for long, finish; so do those of a limit
    /// that was lowered. Those to a server that is not what it was end.
    pub(super) fn look_after_lanes(&self, now: Instant) {
        let settings = self.settings();
        let idle = some(settings.pool.idle_timeout);
        let hung = some(settings.timeouts.query).unwrap_or(HUNG);
        self.pool.set_settings(pool_settings(&settings, self.shared.workers()));
        self.slow.limit.set(settings.slow_statement.get());
        self.groups.borrow_mut().retain(|_, group| {
            let own = settings.database_there(&group.key.database).and_then(|of| of.max_age);
            let upkeep = lanes::Upkeep {
                limits: self.lane_limits(&group.backend),
                age: some(own.unwrap_or(settings.pool.max_age)),
                idle,
            };
            group.look_after(now, &upkeep, |lane| group.is_lost(lane, now, hung));
            // A session that still knows it would open lanes nobody else sees.
            Rc::strong_count(group) > 1 || group.figures().0 > 0
        });
        self.flights.close_lost(now, hung);
        self.make_way(now);
    }

    /// How the lanes to a backend are run: the servers that reads are spread over share what a
    /// worker has, since to wake a server process costs more than to wait behind others.
    pub(super) fn lane_limits(&self, backend: &Backend) -> lanes::Limits {
        let settings = self.settings();
        let lanes = &settings.lanes;
        lanes::Limits {
            count: lanes.count.div_ceil(self.backends.view().readers_beside(backend)),
            depth: lanes.depth,
            head_max: lanes.head_of_line.get(),
            head_limit: HEAD_LIMIT,
        }
    }

    /// Where leases wait and nothing is being opened for them, the lane that can best be done
    /// without gives up its connection.
    fn make_way(&self, now: Instant) {
        let pools = self.pool.groups();
        for pool in pools.iter().filter(|pool| pool.figures().is_short()) {
            self.give_up_lane(pool.key(), lanes::Need::More, now);
        }
    }

    /// A lease has waited: looks until no lease waits for connections of this pool whether a lane
    /// is to give up its own. One task for each pool, however many wait.
    pub(super) fn watch_lanes(&self, key: &Key) {
        let (key, front) = (key.clone(), self.me.clone());
        if !self.short.borrow_mut().insert(key.clone()) {
            return;
        }
        tokio::task::spawn_local(async move {
            while let Some(front) = front.upgrade() {
                let figures = front.pool.group(&key).figures();
                if figures.waiting == 0 {
                    front.short.borrow_mut().remove(&key);
                    return;
                }
                front.make_way_at_once(&key, figures);
                drop(front);
                tokio::time::sleep(MAKE_WAY).await;
            }
        });
    }

    /// Lanes without a request give up their connections to leases that wait. Where lanes have all
    /// connections of the pool one ends once it has answered what it has, since none would come
    /// free otherwise.
    fn make_way_at_once(&self, key: &Key, figures: Figures) {
        let alike = self.groups_of(key);
        let alike: Vec<_> = alike.iter().map(|of| &***of).collect();
        let lanes = alike.iter().map(|of| of.count()).sum();
        let Some(gives) = Gives::of(figures, lanes) else { return };
        let now = Instant::now();
        let given = flow::lanes::Group::give_up_empty(&alike, figures.waiting, now);
        if given == 0 && gives == Gives::Any {
            flow::lanes::Group::make_way(&alike, lanes::Need::Any, now);
        }
    }

    /// A lane to these servers that has no request, and had none for so long, ends. Whether there
    /// is one, or one that ends already.
    pub(super) fn give_up_unused_lane(&self, key: &Key, unused: Duration, now: Instant) -> bool {
        let alike = self.groups_of(key);
        let alike: Vec<_> = alike.iter().map(|of| &***of).collect();
        flow::lanes::Group::give_up_unused(&alike, unused, now)
    }

    /// A lane to these servers ends once it has answered what it has. Whether there is one, or one
    /// that ends already.
    pub(super) fn give_up_lane(&self, key: &Key, need: lanes::Need, now: Instant) -> bool {
        let alike = self.groups_of(key);
        let alike: Vec<_> = alike.iter().map(|of| &***of).collect();
        let has_one = alike.iter().any(|of| of.count() > 0);
        flow::lanes::Group::make_way(&alike, need, now);
        has_one
    }
}

/// Which lanes give up their connections to leases that have waited for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// Lanes without a request: leases come and go beside them.
    Empty,
    /// If there are none without a request, one that is in use: lanes have all connections.
    Any,
}

impl Gives {
    /// `None` where nobody waits, or a connection is free or on its way.
    fn of(figures: Figures, lanes: usize) -> Option<Self> {
        let all = if figures.active <= lanes { Self::Any } else { Self::Empty };
        figures.is_short().then_some(all)
    }
}

/// Whether a group's lanes take their connections from this pool.
fn takes_from(group: &Group, key: &Key) -> bool {
    let of = &group.key;
    of.backend == key.backend && of.database == key.database && of.user == key.user
}

/// The pool that a group's lanes take their connections from.
pub(super) fn pool_key(group: &Group) -> Key {
    Key {
        backend: group.key.backend,
        database: group.key.database.clone(),
        user: group.key.user.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_in_use_are_given_up_only_where_they_have_all_connections() {
        let figures = |active, waiting| Figures { active, waiting, ..Figures::default() };
        assert_eq!(Gives::of(figures(2, 0), 2), None, "nobody waits");
        assert_eq!(Gives::of(figures(2, 1), 2), Some(Gives::Any));
        assert_eq!(Gives::of(figures(2, 1), 1), Some(Gives::Empty), "a lease comes back");
        assert_eq!(Gives::of(figures(1, 1), 0), Some(Gives::Empty));
        let coming = Figures { opening: 1, ..figures(2, 1) };
        assert_eq!(Gives::of(coming, 2), None, "one is being opened");
        let idle = Figures { idle: 1, ..figures(2, 1) };
        assert_eq!(Gives::of(idle, 2), None, "one is free");
    }
}
