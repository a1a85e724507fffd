use std::time::Duration;

use proptest::prelude::*;

use super::picture::{Noted, Picture, Rules};
use super::{BackendState, Facts, LastWrite, Moment, Position};
use crate::settings::{Role, TwoPrimaries};

fn says(in_recovery: bool, timeline: u32, position: u64) -> Noted {
    Noted::Up(Facts {
        system: Some(1),
        in_recovery,
        timeline: Some(timeline),
        position: Position(position),
        replayed_age: None,
    })
}

fn writes(timeline: u32, position: u64) -> Noted {
    says(false, timeline, position)
}

fn replays(timeline: u32, position: u64) -> Noted {
    says(true, timeline, position)
}

fn picture(backends: usize, rules: Rules) -> Picture {
    let mut picture = Picture::default();
    let members: Vec<_> = (0..backends).map(|id| (id, Role::Auto)).collect();
    picture.replace(rules, &members);
    picture
}

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

#[test]
fn a_replica_is_caught_up_as_of_the_position_that_it_has_replayed() {
    let mut picture = picture(2, Rules::default());
    picture.note(0, writes(1, 100), at(10));
    assert_eq!(picture.primary(), None, "not all were asked");
    picture.note(1, replays(1, 100), at(11));
    assert_eq!(picture.primary(), Some(0));
    picture.note(0, writes(1, 100), at(20));
    assert_eq!(picture.members[1].caught_up, at(20));
    picture.note(0, writes(1, 150), at(30));
    assert_eq!(picture.members[1].caught_up, at(20));
    picture.note(1, replays(1, 150), at(31));
    assert_eq!(picture.members[1].caught_up, at(30));
    assert!(picture.members[1].takes_reads());
}

#[test]
fn after_a_failover_a_replica_counts_once_it_follows_the_new_primary() {
    let mut picture = picture(3, Rules::default());
    picture.note(0, writes(1, 100), at(10));
    picture.note(1, replays(1, 100), at(10));
    picture.note(2, replays(1, 200), at(10));
    picture.note(0, writes(1, 200), at(20));
    assert_eq!(picture.members[2].caught_up, at(20));
    picture.note(0, Noted::Down, at(30));
    assert_eq!(picture.primary(), None);
    assert!(picture.members[2].takes_reads(), "while there is no primary");
    assert_eq!(picture.members[2].caught_up, at(20));

    // The new primary had less than the other replica, whose bytes past it are of no more worth.
    picture.note(1, writes(2, 120), at(40));
    assert_eq!(picture.primary(), Some(1));
    assert_eq!(picture.members[2].caught_up, Moment::NEVER);
    assert!(picture.members[2].is_astray && !picture.members[2].takes_reads());
    picture.note(2, replays(2, 119), at(50));
    assert_eq!(picture.members[2].caught_up, Moment::NEVER);
    picture.note(1, writes(2, 130), at(60));
    picture.note(2, replays(2, 130), at(61));
    assert_eq!(picture.members[2].caught_up, at(60));
    // What its own server said of its last checkpoint does not take it back.
    picture.note(2, replays(1, 130), at(62));
    assert!(picture.members[2].takes_reads());
}

#[test]
fn a_replica_that_was_down_is_new_until_it_shows_what_it_has() {
    let mut picture = picture(2, Rules::default());
    picture.note(0, writes(1, 100), at(10));
    picture.note(1, replays(1, 100), at(10));
    picture.note(0, writes(1, 100), at(20));
    picture.note(1, Noted::Unsure, at(21));
    assert_eq!(picture.members[1].caught_up, Moment::NEVER);
    assert!(picture.members[1].takes_reads(), "of whoever needs nothing new");
    picture.note(1, replays(1, 100), at(22));
    assert_eq!(picture.members[1].caught_up, at(20));
    picture.note(1, Noted::Down, at(22));
    assert_eq!(picture.members[1].caught_up, Moment::NEVER);
    picture.note(1, Noted::Unsure, at(23));
    assert_eq!(picture.members[1].standing, BackendState::Down);
    picture.note(1, replays(1, 50), at(30));
    assert_eq!(picture.members[1].caught_up, Moment::NEVER);
}

#[test]
fn what_a_primary_said_holds_while_it_has_no_time_for_us() {
    let mut picture = picture(2, Rules::default());
    picture.note(0, writes(1, 100), at(10));
    picture.note(1, replays(1, 100), at(10));
    picture.note(0, writes(1, 100), at(20));
    picture.note(0, Noted::Unsure, at(30));
    assert_eq!(picture.primary(), Some(0));
    picture.note(1, replays(1, 100), at(31));
    assert_eq!(picture.members[1].caught_up, at(20));
    picture.note(0, writes(1, 100), at(40));
    assert_eq!(picture.members[1].caught_up, at(40));
}

#[test]
fn a_replica_over_the_limit_is_out_until_it_is_under_half_of_it() {
    let rules = Rules {
        two_primaries: TwoPrimaries::Refuse,
        lag_max: Duration::from_nanos(100),
        lag_bytes_max: 1000,
    };
    let mut picture = picture(2, rules);
    picture.note(0, writes(1, 1000), at(10));
    picture.note(1, replays(1, 1000), at(10));
    let mut now = 10;
    let mut lags = |picture: &mut Picture, position| {
        now += 10;
        picture.note(0, writes(1, position + 1000), at(now));
        picture.note(1, replays(1, position), at(now));
        !picture.members[1].takes_reads()
    };
    assert!(!lags(&mut picture, 1000));
    picture.note(0, writes(1, 2001), at(30));
    assert!(!picture.members[1].takes_reads(), "by bytes");
    picture.note(1, replays(1, 1501), at(31));
    assert!(picture.members[1].takes_reads());
    for nanos in [40, 80, 120] {
        assert!(picture.members[1].takes_reads());
        picture.note(0, writes(1, 2001 + nanos), at(nanos));
    }
    picture.note(0, writes(1, 2200), at(140));
    assert!(!picture.members[1].takes_reads(), "by time: 2001 was written at 30");
    // A primary that is gone leaves nobody further behind.
    let lag = picture.members[1].lag;
    picture.note(0, Noted::Down, at(1000));
    assert_eq!(picture.members[1].lag, lag);
}

/// What happens to a cluster of one writer, with a session that writes and then reads.
#[derive(Debug, Clone)]
enum Event {
    Write,
    PollPrimary,
    Replay {
        replica: usize,
        bytes: u64,
    },
    PollReplica(usize),
    /// Noticed by the poller, whose connection ends, before the replica is back.
    Restart {
        replica: usize,
        back: u64,
        down: bool,
    },
    Promote(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Write),
        3 => Just(Event::PollPrimary),
        4 => (0usize..3, 0u64..30).prop_map(|(replica, bytes)| Event::Replay { replica, bytes }),
        4 => (0usize..3).prop_map(Event::PollReplica),
        1 => (0usize..3, 0u64..40, any::<bool>())
            .prop_map(|(replica, back, down)| Event::Restart { replica, back, down }),
        1 => (0usize..3).prop_map(Event::Promote),
    ]
}

/// The servers as they truly are.
struct Servers {
    timeline: u32,
    primary: usize,
    positions: [u64; 3],
    timelines: [u32; 3],
}

impl Servers {
    fn poll(&self, picture: &mut Picture, server: usize, now: u64) {
        let (timeline, position) = (self.timelines[server], self.positions[server]);
        let noted = says(server != self.primary, timeline, position);
        picture.note(server, noted, at(now));
    }
}

proptest! {
    /// A session's read that is let go to a replica finds the session's last write there, whatever
    /// the replicas do in between.
    #[test]
    fn no_session_reads_what_is_older_than_its_own_write(
        events in prop::collection::vec(event(), 1..120)
    ) {
        let mut picture = picture(3, Rules::default());
        let mut servers =
            Servers { timeline: 1, primary: 0, positions: [100; 3], timelines: [1; 3] };
        let mut now = 0;
        // The position of the session's last write on the present timeline, and when it ended.
        let mut write = (0, LastWrite::NEVER);
        for event in events {
            now += 1;
            match event {
                Event::Write => {
                    servers.positions[servers.primary] += 10;
                    write = (servers.positions[servers.primary], LastWrite(at(now)));
                }
                Event::PollPrimary => servers.poll(&mut picture, servers.primary, now),
                Event::PollReplica(server) => servers.poll(&mut picture, server, now),
                Event::Replay { replica, bytes } if replica != servers.primary => {
                    let end = servers.positions[servers.primary];
                    servers.timelines[replica] = servers.timeline;
                    let position = &mut servers.positions[replica];
                    *position = (*position + bytes).min(end);
                }
                Event::Restart { replica, back, down } if replica != servers.primary => {
                    let noted = if down { Noted::Down } else { Noted::Unsure };
                    picture.note(replica, noted, at(now));
                    let position = &mut servers.positions[replica];
                    *position = position.saturating_sub(back);
                }
                Event::Promote(server) if server != servers.primary => {
                    picture.note(servers.primary, Noted::Down, at(now));
                    servers.timeline += 1;
                    servers.primary = server;
                    servers.timelines[server] = servers.timeline;
                    // A write that the new primary never had is lost, and not by us.
                    write = (0, LastWrite::NEVER);
                }
                Event::Replay { .. } | Event::Restart { .. } | Event::Promote(_) => {}
            }
            for (replica, member) in picture.members.iter().enumerate() {
                if member.takes_reads() && write.1.is_seen_as_of(member.caught_up) {
                    prop_assert!(
                        write.1 == LastWrite::NEVER || servers.positions[replica] >= write.0,
                        "replica {replica} at {:?}: {write:?}", servers.positions
                    );
                }
            }
        }
    }
}
