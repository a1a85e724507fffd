//! Looking after a worker's lanes: how many there may be, and which of them end.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Front;
use super::servers::{pool_settings, some};
use crate::backends::Backend;
use crate::connection::Key;
use crate::lanes::{self, Group};

/// A lane whose head has run for longer stands still, however busy the machine is.
const HEAD_LIMIT: Duration = Duration::from_millis(100);
/// How long a request on a lane or in a batch may run while its server is not of use, where no
/// limit of statements is set.
pub const HUNG: Duration = Duration::from_secs(60);

impl Front {
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

    /// A lease waits: where lanes have all connections of its pool none will come free, unless one
    /// of them gives up its own.
    pub(super) fn make_way_at_once(&self, key: &Key) {
        let figures = self.pool.group(key).figures();
        if !figures.is_short() {
            return;
        }
        let groups = self.groups.borrow();
        let alike = groups.values().filter(|group| takes_from(group, key));
        let lanes: usize = alike.map(|group| group.count()).sum();
        drop(groups);
        if figures.active <= lanes {
            self.give_up_lane(key, lanes::Need::Any, Instant::now());
        }
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
