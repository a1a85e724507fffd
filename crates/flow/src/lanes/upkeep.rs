//! Which lanes end although nothing is wrong with them, and which because something is.

use std::time::{Duration, Instant};

use super::{Group, Lane, Limits, ServerRecord};
use crate::lane::Protocol;

/// A group that wants a lane may have that of another which was not used for so long.
const UNUSED: Duration = Duration::from_secs(5);
/// Where others wait for connections a group that was not used for so long does without lanes.
const UNUSED_UNDER_PRESSURE: Duration = Duration::from_secs(1);
/// The only lane of a group without a request is given up for others where the group was not used
/// for so long: a client that asks one thing after the other has its next request here by then.
const UNUSED_WHILE_WAITED_FOR: Duration = Duration::from_millis(1);

/// How the lanes of a group are kept.
#[derive(Debug, Clone, Copy)]
pub struct Upkeep {
    /// How they are run.
    pub limits: Limits,
    /// Lanes that are older finish, one at a time.
    pub age: Option<Duration>,
    /// Once no request was put on any of them for longer, all finish.
    pub idle: Option<Duration>,
}

/// What those wait for to whom a lane is to give its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// One more: they have some, which come free by themselves.
    More,
    /// Any: lanes have all there are.
    Any,
}

/// How many connections are there for the lanes of groups that take them from one pool.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Lanes of all these groups.
    pub most: usize,
    /// Somebody waits for a connection of the pool: before a second lane.
    pub is_waited_for: bool,
}

impl<P: Protocol, T, K: ServerRecord, E: Clone> Group<P, T, K, E> {
    /// Lanes that are too old or too many, that nobody has used for long, or that are not what
    /// would be opened now finish; those of which no answer is to be expected end.
    pub fn look_after(
        &self,
        now: Instant,
        upkeep: &Upkeep,
        is_lost: impl Fn(&Lane<P, T, K>) -> bool,
    ) {
        self.set_limits(upkeep.limits);
        self.retire_beyond_limit();
        self.close_lost(is_lost);
        self.retire_outdated();
        if let Some(age) = upkeep.age {
            self.retire_old(now, age);
        }
        let unused = now.saturating_duration_since(self.used());
        if upkeep.idle.is_some_and(|idle| unused > idle) {
            self.retire();
        }
        self.look_again(now);
    }

    /// Whether it may have the lane that it is opening, where `alike` (itself among them) are all
    /// that take connections of the same pool. If not, one that nobody uses makes room for its
    /// next attempt.
    pub fn has_room(&self, alike: &[&Self], room: Room, now: Instant) -> bool {
        // Its own attempt is one of them.
        let all: usize = alike.iter().map(|of| of.count() + usize::from(of.is_opening())).sum();
        if all <= room.most {
            return self.count() == 0 || !room.is_waited_for;
        }
        let unused = alike.iter().filter(|of| {
            !std::ptr::eq(**of, self) && now.saturating_duration_since(of.used()) > UNUSED
        });
        if let Some(of) = unused.filter(|of| of.count() > 0).min_by_key(|of| of.used()) {
            of.retire_one();
        }
        false
    }

    /// So many wait for connections of the pool that these groups take theirs from: as many lanes
    /// without a request give up theirs. How many lanes that are.
    pub fn give_up_empty(alike: &[&Self], wanted: usize, now: Instant) -> usize {
        let mut given = 0;
        for of in alike {
            let unused = now.saturating_duration_since(of.used());
            while given < wanted {
                let spared = usize::from(unused < UNUSED_WHILE_WAITED_FOR);
                if !of.retire_empty(spared) {
                    break;
                }
                of.rest(now);
                given += 1;
            }
        }
        given
    }

    /// Somebody waits for a connection that counts where those of these groups do: a lane without a
    /// request gives up its own, of the group that was not used for longest, if that is `unused`.
    /// Whether one does, or has begun to.
    pub fn give_up_unused(alike: &[&Self], unused: Duration, now: Instant) -> bool {
        if alike.iter().any(|of| of.is_finishing()) {
            return true;
        }
        let mut unused: Vec<_> =
            alike.iter().filter(|of| now.saturating_duration_since(of.used()) >= unused).collect();
        unused.sort_by_key(|of| of.used());
        let gives = unused.into_iter().find(|of| of.retire_empty(0));
        gives.inspect(|of| of.rest(now)).is_some()
    }

    /// Others wait for connections of the pool that these groups take theirs from: the lane that
    /// can best be done without gives up its own. `need`: whether they have any connection.
    pub fn make_way(alike: &[&Self], need: Need, now: Instant) {
        // The only lane of those who use it spares the pool more than it takes.
        let spare = alike.iter().filter(|of| {
            let (lanes, unused) = (of.count(), now.saturating_duration_since(of.used()));
            lanes > 1 || (lanes > 0 && (need == Need::Any || unused > UNUSED_UNDER_PRESSURE))
        });
        // The connection of one that is finishing is as good as free.
        if need == Need::Any && alike.iter().any(|of| of.is_finishing()) {
            return;
        }
        if let Some(of) = spare.min_by_key(|of| of.used()) {
            of.retire_one();
            of.rest(now);
        }
    }
}
