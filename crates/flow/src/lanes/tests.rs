//! Groups of lanes to a server that hears and says nothing.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::{
    GroupOf, LaneOf, LaneParts, Limits, Need, NotOpened, Opener, Picked, REST, REST_BRIEF, Room,
    Upkeep, open,
};
use crate::lane::{self, Fate, Orphan, Owner, Protocol, Step, What, Why};
use crate::scratch::Scratch;

/// Each byte is a reply.
#[derive(Debug)]
struct Bytes;

impl Protocol for Bytes {
    fn scan(&mut self, _: &[u8]) -> Step {
        Step { len: 1, what: What::End }
    }
}

struct Nobody;

impl Owner<u32> for Nobody {
    fn reply(&mut self, _: &mut u32, _: &[u8], _: Option<Duration>) {}

    fn aside(&mut self, _: &[u8]) {}
}

/// Whether its server is what it was.
struct Server(Rc<Cell<bool>>);

impl super::ServerRecord for Server {
    fn is_current(&self) -> bool {
        self.0.get()
    }
}

type Group = GroupOf<Toy>;

/// What is seen of the lanes that are opened.
#[derive(Default)]
struct LaneLog {
    /// The servers' ends of the connections.
    servers: RefCell<Vec<DuplexStream>>,
    opened: RefCell<Vec<Weak<LaneOf<Toy>>>>,
    ended: RefCell<Vec<String>>,
    orphans: RefCell<Vec<(u32, Fate)>>,
}

struct Toy {
    group: Rc<Group>,
    seen: Rc<LaneLog>,
    is_current: Rc<Cell<bool>>,
    /// What there is instead of a connection.
    instead: Option<NotOpened<&'static str>>,
    has_room: bool,
}

impl Toy {
    fn new(group: &Rc<Group>, seen: &Rc<LaneLog>) -> Self {
        let (group, seen) = (Rc::clone(group), Rc::clone(seen));
        Self { group, seen, is_current: Rc::new(Cell::new(true)), instead: None, has_room: true }
    }
}

impl Opener for Toy {
    type Protocol = Bytes;
    type Ticket = u32;
    type Server = Server;
    type Error = &'static str;
    type Connection = DuplexStream;
    type Owner = Nobody;

    fn group(&self) -> &Group {
        &self.group
    }

    fn has_room(&self, _: Instant) -> bool {
        self.has_room
    }

    async fn open(&self) -> Result<LaneParts<Self>, NotOpened<&'static str>> {
        if let Some(instead) = self.instead {
            return Err(instead);
        }
        let (connection, server) = tokio::io::duplex(100);
        self.seen.servers.borrow_mut().push(server);
        let known = Rc::new(Server(Rc::clone(&self.is_current)));
        let (limits, scratch) = (lane::Limits::default(), Scratch::new());
        Ok(LaneParts { connection, protocol: Bytes, known, owner: Nobody, limits, scratch })
    }

    fn opened(&self, lane: &Rc<LaneOf<Self>>) {
        assert_eq!(self.group.count(), self.seen.opened.borrow().len(), "nobody has it yet");
        self.seen.opened.borrow_mut().push(Rc::downgrade(lane));
    }

    fn ended(&self, why: &Why, _left: usize, _: DuplexStream) {
        self.seen.ended.borrow_mut().push(format!("{why:?}"));
    }

    fn orphaned(&self, orphan: Orphan<u32>) {
        self.seen.orphans.borrow_mut().push((orphan.ticket, orphan.fate));
    }
}

const LIMITS: Limits =
    Limits { count: 4, depth: 8, head_max: Duration::MAX, head_limit: Duration::MAX };
const KEPT: Upkeep = Upkeep { limits: LIMITS, age: None, idle: None };

fn new() -> (Rc<Group>, Rc<LaneLog>) {
    (Rc::new(Group::new(LIMITS)), Rc::default())
}

/// A group with so many lanes, which are all busy.
async fn busy(lanes: usize) -> (Rc<Group>, Rc<LaneLog>) {
    let (group, seen) = new();
    for _ in 0..lanes {
        open(Toy::new(&group, &seen));
    }
    settle().await;
    for (ticket, lane) in (0..).zip(group.lanes()) {
        lane.handle.push(ticket, 1, Instant::now(), |out| out.push(b'?')).unwrap();
    }
    (group, seen)
}

/// Has all tasks do what they can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(test);
}

fn finishing(group: &Group) -> usize {
    group.lanes().iter().filter(|lane| lane.handle.is_quarantined()).count()
}

#[test]
fn a_lane_is_opened_once_and_seen_to_its_end() {
    run(async {
        let (group, seen) = new();
        let (now, opens) = (Instant::now(), Cell::new(0));
        let pick = || {
            group.pick(now, Duration::ZERO, || {
                opens.set(opens.get() + 1);
                open(Toy::new(&group, &seen));
            })
        };
        assert!(matches!(pick(), Picked::Opening));
        assert!(matches!(pick(), Picked::Opening));
        settle().await;
        assert_eq!(opens.get(), 1, "one at a time");
        let Picked::Lane(lane) = pick() else { panic!("it is open") };
        lane.handle.push(1, 1, now, |out| out.push(b'a')).unwrap();
        settle().await;
        let mut server = seen.servers.borrow_mut().remove(0);
        let mut byte = [0];
        server.read_exact(&mut byte).await.unwrap();
        server.write_all(b"A").await.unwrap();
        settle().await;
        for ticket in [2, 3] {
            lane.handle.push(ticket, 1, now, |out| out.push(b'b')).unwrap();
        }
        settle().await;
        assert!(seen.ended.borrow().is_empty());
        drop(server);
        settle().await;
        assert_eq!(*seen.ended.borrow(), ["Eof"]);
        assert_eq!(*seen.orphans.borrow(), [(2, Fate::Sent), (3, Fate::Sent)]);
        assert_eq!(group.count(), 0);
        drop(lane);
        assert!(seen.opened.borrow()[0].upgrade().is_none(), "nobody keeps it");
    });
}

#[test]
fn who_waits_is_told_where_no_lane_can_be_opened_and_waits_on_where_there_is_no_room() {
    run(async {
        for (instead, has_room, is_told) in [
            (Some(NotOpened::Failed("refused")), true, true),
            (Some(NotOpened::NoRoom), true, false),
            (None, false, false),
        ] {
            let (group, seen) = new();
            let opens = Cell::new(0);
            let pick = || {
                group.pick(Instant::now(), Duration::ZERO, || {
                    opens.set(opens.get() + 1);
                    open(Toy { instead, has_room, ..Toy::new(&group, &seen) });
                })
            };
            assert!(matches!(pick(), Picked::Opening));
            let turn = group.wait();
            settle().await;
            assert!(turn.is_called(), "it looks again");
            match pick() {
                Picked::Failed("refused") => assert!(is_told),
                Picked::Busy => assert!(!is_told),
                _ => panic!("there is none"),
            }
            assert_eq!(opens.get(), 1, "not at once again");
            assert_eq!(group.count(), 0);
        }
    });
}

#[test]
fn who_has_waited_for_an_attempt_that_failed_hears_of_it_while_the_next_is_made() {
    run(async {
        let (group, _seen) = new();
        let (begun, opens) = (Instant::now(), Cell::new(0));
        let pick = |at| group.pick(at, Duration::ZERO, || opens.set(opens.get() + 1));
        assert!(matches!(pick(begun), Picked::Opening));
        let (one, two) = (group.wait(), group.wait());
        group.failed("refused", REST_BRIEF);
        assert!(one.is_called() && two.is_called());
        assert_eq!((group.failure(&one), group.failure(&two)), (Some("refused"), Some("refused")));
        assert!(matches!(pick(begun), Picked::Failed("refused")), "not one for each in a row");
        tokio::time::sleep(REST_BRIEF).await;
        assert!(matches!(pick(Instant::now()), Picked::Opening));
        let late = group.wait();
        assert_eq!((group.failure(&two), group.failure(&late)), (Some("refused"), None));
        assert_eq!(opens.get(), 2);
        group.opens_late();
        assert!(late.is_called());
        assert!(matches!(pick(Instant::now()), Picked::Failed("refused")), "it takes long");
    });
}

#[test]
fn what_failed_long_ago_is_told_to_nobody_while_the_next_attempt_lasts() {
    run(async {
        for rest in [REST_BRIEF, REST] {
            // What was said at once is told again where the next attempt takes long.
            let is_told = rest < REST;
            for (after, is_told) in [(rest, is_told), (rest + REST * 2, false)] {
                let (group, _seen) = new();
                group.failed("refused", rest);
                let now = Instant::now() + after;
                assert!(matches!(group.pick(now, Duration::ZERO, || {}), Picked::Opening));
                group.opens_late();
                match group.pick(now, Duration::ZERO, || {}) {
                    Picked::Failed("refused") => assert!(is_told),
                    Picked::Opening => assert!(!is_told),
                    _ => panic!("it is being opened"),
                }
            }
        }
    });
}

#[test]
fn where_there_was_no_room_the_next_attempt_is_waited_for_however_long_it_takes() {
    run(async {
        let (group, _seen) = new();
        let now = Instant::now();
        group.refused(now);
        assert!(matches!(group.pick(now, Duration::ZERO, || {}), Picked::Busy));
        let later = now + REST;
        assert!(matches!(group.pick(later, Duration::ZERO, || {}), Picked::Opening));
        group.opens_late();
        assert!(matches!(group.pick(later, Duration::ZERO, || {}), Picked::Opening));
    });
}

#[test]
fn what_is_old_unused_too_many_or_not_what_it_was_finishes() {
    run(async {
        let (age, later) = (Duration::from_secs(60), Instant::now() + Duration::from_secs(61));
        let keep = |upkeep: Upkeep| async move {
            let (group, seen) = busy(3).await;
            group.look_after(later, &upkeep, |_| false);
            drop(seen);
            finishing(&group)
        };
        assert_eq!(keep(KEPT).await, 0);
        assert_eq!(keep(Upkeep { age: Some(age), ..KEPT }).await, 1, "one at a time");
        assert_eq!(keep(Upkeep { idle: Some(age), ..KEPT }).await, 3);
        let limits = Limits { count: 2, ..LIMITS };
        assert_eq!(keep(Upkeep { limits, ..KEPT }).await, 1);

        let (group, seen) = busy(1).await;
        let other = Toy::new(&group, &seen);
        let is_current = Rc::clone(&other.is_current);
        open(other);
        settle().await;
        is_current.set(false);
        group.look_after(later, &KEPT, |_| false);
        assert_eq!(finishing(&group), 1);
        settle().await;
        assert_eq!(*seen.ended.borrow(), ["Drained"], "it had nothing to finish");
        group.look_after(later, &KEPT, |_| true);
        settle().await;
        assert_eq!(*seen.ended.borrow(), ["Drained", "Closed"]);
        assert_eq!(*seen.orphans.borrow(), [(0, Fate::Sent)]);
    });
}

#[test]
fn groups_that_share_a_pool_leave_room_to_each_other() {
    run(async {
        let (own, _own) = busy(1).await;
        let (other, _other) = busy(2).await;
        let (none, _none) = busy(0).await;
        let now = Instant::now();
        let alike = [&*own, &*other, &*none];
        let room = |most, is_waited_for| Room { most, is_waited_for };
        assert!(own.has_room(&alike, room(3, false), now));
        assert!(!own.has_room(&alike, room(3, true), now), "a lease comes before a second lane");
        assert!(none.has_room(&alike, room(3, true), now), "the first lane does not wait");
        assert!(!own.has_room(&alike, room(2, false), now));
        assert_eq!(finishing(&other), 0, "it was used just now");
        let later = now + Duration::from_secs(6);
        assert!(!own.has_room(&alike, room(2, false), later));
        assert_eq!((finishing(&own), finishing(&other)), (0, 1), "nobody uses it");
    });
}

#[test]
fn the_lane_that_can_best_be_done_without_makes_way() {
    run(async {
        let (one, _one) = busy(1).await;
        let (two, _two) = busy(2).await;
        let now = Instant::now();
        Group::make_way(&[&one, &two], Need::More, now);
        assert_eq!((finishing(&one), finishing(&two)), (0, 1), "the only lane stays");
        let (unused, _unused) = busy(1).await;
        Group::make_way(&[&unused], Need::More, now + Duration::from_secs(2));
        assert_eq!(finishing(&unused), 1, "but where nobody uses it");
        let is_tried = Cell::new(false);
        let picked = unused.pick(Instant::now(), Duration::ZERO, || is_tried.set(true));
        assert!(matches!(picked, Picked::Busy) && !is_tried.get(), "and none comes in its place");
        let (one, _one) = busy(1).await;
        let (other, _other) = busy(1).await;
        for _ in 0..2 {
            Group::make_way(&[&one, &other], Need::Any, now);
            let finish = finishing(&one) + finishing(&other);
            assert_eq!(finish, 1, "a lane in use goes where nothing else will come free");
        }
    });
}

#[test]
fn lanes_without_a_request_go_to_those_who_wait() {
    run(async {
        let empty = |count: usize| async move {
            let (group, seen) = new();
            for _ in 0..count {
                open(Toy::new(&group, &seen));
                settle().await;
            }
            (group, seen)
        };
        let (busy, _busy) = busy(2).await;
        let (idle, _idle) = empty(3).await;
        // Picked from just now.
        idle.pick(Instant::now(), Duration::ZERO, || {});
        let (now, alike) = (idle.used(), [&*busy, &*idle]);
        assert_eq!(Group::give_up_empty(&alike, 1, now), 1);
        assert_eq!((finishing(&busy), finishing(&idle)), (0, 1), "as many as wait");
        assert_eq!(Group::give_up_empty(&alike, 9, now), 1);
        assert_eq!((finishing(&busy), finishing(&idle)), (0, 2), "one in use stays");
        let later = now + Duration::from_millis(1);
        assert_eq!(Group::give_up_empty(&alike, 9, later), 1);
        assert_eq!((finishing(&busy), finishing(&idle)), (0, 3), "but not where it is unused");
        settle().await;
        assert_eq!(idle.count(), 0, "none of them had anything to finish");
        let is_tried = Cell::new(false);
        idle.pick(later, Duration::ZERO, || is_tried.set(true));
        assert!(!is_tried.get(), "none comes in its place at once");
    });
}

#[test]
fn a_lane_that_nobody_has_used_for_a_moment_goes_to_whoever_waits_elsewhere() {
    run(async {
        let (group, seen) = new();
        open(Toy::new(&group, &seen));
        open(Toy::new(&group, &seen));
        settle().await;
        let (busy, _busy) = busy(1).await;
        let (moment, alike) = (Duration::from_millis(50), [&*busy, &*group]);
        assert!(!Group::give_up_unused(&alike, moment, group.used()), "it was used just now");
        let later = group.used().max(busy.used()) + moment;
        for _ in 0..2 {
            assert!(Group::give_up_unused(&alike, moment, later));
            assert_eq!((finishing(&busy), finishing(&group)), (0, 1), "one at a time");
        }
        settle().await;
        assert!(Group::give_up_unused(&alike, moment, later), "it has another");
        settle().await;
        assert!(!Group::give_up_unused(&alike, moment, later), "the other has a request");
    });
}
