//! A pool over connections that are mere numbers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{LocalSet, spawn_local, yield_now};

use super::{
    Budget, Counts, Figures, Lease, LeaseError, OpenError, Opener, Pool, Settings, Tenure,
};
use crate::limit::Limit;

/// Long enough for anything that is going to happen at all on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Opens numbers from 0.
#[derive(Default)]
struct Numbers {
    budgets: Vec<Budget>,
    next: Cell<u32>,
    slow: Cell<Duration>,
    failing: RefCell<Option<OpenError<&'static str>>>,
    bad: RefCell<Vec<u32>>,
    closed: RefCell<Vec<u32>>,
    asked_for: RefCell<Vec<&'static str>>,
    /// What a lane has that nobody uses, by its key.
    unused: RefCell<Vec<(&'static str, Tenure<Self>)>>,
}

impl Opener for Numbers {
    type Key = &'static str;
    type Connection = u32;
    type Error = &'static str;

    async fn open(self: Rc<Self>, _: &'static str) -> Result<u32, OpenError<&'static str>> {
        if self.slow.get().is_zero() {
            yield_now().await;
        } else {
            tokio::time::sleep(self.slow.get()).await;
        }
        if let Some(error) = self.failing.borrow().clone() {
            return Err(error);
        }
        Ok(self.next.replace(self.next.get() + 1))
    }

    fn budgets(&self, _: &&'static str) -> Vec<Budget> {
        self.budgets.clone()
    }

    fn give_up_one(&self, key: &&'static str) -> bool {
        self.asked_for.borrow_mut().push(key);
        *key != "none"
    }

    fn give_up_unused(&self, key: &&'static str, _: Duration) -> bool {
        let mut unused = self.unused.borrow_mut();
        let given = unused.iter().position(|(of, _)| of == key).map(|at| unused.remove(at));
        // Its end has the pool look once more.
        drop(unused);
        given.is_some()
    }

    fn is_good(&self, number: &mut u32) -> bool {
        !self.bad.borrow().contains(number)
    }

    fn close(&self, number: u32) {
        self.closed.borrow_mut().push(number);
    }
}

fn numbers(budget: usize) -> Rc<Numbers> {
    let budgets = vec![Budget::new(Limit::new(budget))];
    Rc::new(Numbers { budgets, ..Numbers::default() })
}

fn pool(opener: &Rc<Numbers>, settings: Settings) -> Pool<Numbers> {
    Pool::new(Rc::clone(opener), settings, Counts::default())
}

async fn lease(pool: &Pool<Numbers>) -> Lease<Numbers> {
    pool.lease(&"key", |_| 0, Instant::now() + LONG).await.unwrap()
}

async fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !what() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[track_caller]
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(LONG * 2, test).await.unwrap();
    });
}

#[test]
fn the_newest_idle_connection_is_lent_and_the_best_before_it() {
    run(async {
        let pool = pool(&numbers(10), Settings::default());
        let (a, b, c) = (lease(&pool).await, lease(&pool).await, lease(&pool).await);
        assert_eq!((*a, *b, *c), (0, 1, 2));
        a.give_back();
        c.give_back();
        b.give_back();
        let newest = lease(&pool).await;
        assert_eq!(*newest, 1);
        newest.give_back();
        let deadline = Instant::now() + LONG;
        let best = pool.lease(&"key", |number| u8::from(*number == 0), deadline).await.unwrap();
        assert_eq!(*best, 0);
        let figures = pool.group(&"key").figures();
        assert_eq!(figures, Figures { active: 1, idle: 2, ..Figures::default() });
    });
}

#[test]
fn those_in_line_are_served_in_their_order() {
    run(async {
        let pool = pool(&numbers(1), Settings::default());
        let first = lease(&pool).await;
        let served = Rc::new(RefCell::new(Vec::new()));
        for number in 0..5 {
            let (pool, served) = (pool.clone(), Rc::clone(&served));
            spawn_local(async move {
                let lease = lease(&pool).await;
                served.borrow_mut().push(number);
                yield_now().await;
                lease.give_back();
            });
        }
        yield_now().await;
        assert_eq!(pool.group(&"key").figures().waiting, 5);
        first.give_back();
        until(|| served.borrow().len() == 5).await;
        assert_eq!(*served.borrow(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn who_waits_too_long_is_told_and_leaves_no_gap() {
    run(async {
        let pool = pool(&numbers(1), Settings::default());
        let first = lease(&pool).await;
        let soon = Instant::now() + Duration::from_millis(20);
        let late = pool.lease(&"key", |_| 0, soon).await.unwrap_err();
        assert_eq!(late, LeaseError::Late);
        let waiting = spawn_local({
            let pool = pool.clone();
            async move { *lease(&pool).await }
        });
        // Those who go away while they wait are not served.
        let gone: Vec<_> = (0..3)
            .map(|_| {
                let pool = pool.clone();
                spawn_local(async move { drop(lease(&pool).await) })
            })
            .collect();
        yield_now().await;
        gone.iter().for_each(|task| task.abort());
        yield_now().await;
        assert_eq!(pool.group(&"key").figures().waiting, 1);
        first.give_back();
        assert_eq!(waiting.await.unwrap(), 0);
    });
}

#[test]
fn a_lease_that_is_dropped_closes_its_connection_and_makes_room() {
    run(async {
        let opener = numbers(1);
        let pool = pool(&opener, Settings::default());
        drop(lease(&pool).await);
        assert_eq!(*opener.closed.borrow(), [0]);
        let second = lease(&pool).await;
        assert_eq!(*second, 1);
        second.give_back();
        opener.bad.borrow_mut().push(1);
        assert_eq!(*lease(&pool).await, 2, "what ended while it idled is not lent");
    });
}

#[test]
fn a_connection_that_left_for_a_lane_counts_until_its_tenure_ends() {
    run(async {
        let opener = numbers(1);
        let pool = pool(&opener, Settings::default());
        let (number, tenure) = lease(&pool).await.into_parts().unwrap();
        assert_eq!(number, 0);
        assert_eq!(pool.group(&"key").figures().active, 1);
        let waiting = spawn_local({
            let pool = pool.clone();
            async move { *lease(&pool).await }
        });
        yield_now().await;
        assert!(!waiting.is_finished());
        drop(tenure);
        assert_eq!(waiting.await.unwrap(), 1);
        assert_eq!(*opener.closed.borrow(), [1], "the lane closes its own");
    });
}

#[test]
fn failures_reach_those_who_wait() {
    run(async {
        let opener = numbers(2);
        let backoff = (Duration::from_millis(1), Duration::from_millis(5));
        let pool = pool(&opener, Settings { backoff, ..Settings::default() });
        let passing = OpenError { error: "starting up", is_final: false };
        opener.failing.replace(Some(passing));
        // Nothing was tried yet where this thread stood still for so long.
        let error = loop {
            let soon = Instant::now() + Duration::from_millis(50);
            match pool.lease(&"key", |_| 0, soon).await.unwrap_err() {
                LeaseError::Late => {}
                error => break error,
            }
        };
        assert_eq!(error, LeaseError::Open("starting up"));
        let waiting = spawn_local({
            let pool = pool.clone();
            async move { *lease(&pool).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        opener.failing.replace(None);
        assert_eq!(waiting.await.unwrap(), 0, "tried until it worked");

        opener.failing.replace(Some(OpenError { error: "no such database", is_final: true }));
        let deadline = Instant::now() + LONG;
        let error = pool.lease(&"other", |_| 0, deadline).await.unwrap_err();
        assert_eq!(error, LeaseError::Open("no such database"));
        assert!(deadline > Instant::now() + LONG / 2, "at once");
    });
}

#[test]
fn what_failed_for_good_is_not_tried_again_at_once() {
    run(async {
        let opener = numbers(2);
        let pool = pool(&opener, Settings { retry: LONG, ..Settings::default() });
        opener.failing.replace(Some(OpenError { error: "wrong password", is_final: true }));
        let ask = || pool.lease(&"key", |_| 0, Instant::now() + LONG);
        let refused = LeaseError::Open("wrong password");
        assert_eq!(ask().await.unwrap_err(), refused);
        opener.failing.replace(None);
        assert_eq!(ask().await.unwrap_err(), refused, "nobody has looked");
        let retry = Duration::from_millis(100);
        pool.set_settings(Settings { retry, ..Settings::default() });
        tokio::time::sleep(retry).await;
        assert_eq!(*ask().await.unwrap(), 0);
    });
}

#[test]
fn a_lease_says_how_long_it_was_waited_for() {
    run(async {
        let pool = pool(&numbers(1), Settings::default());
        let first = lease(&pool).await;
        let waiting = spawn_local({
            let pool = pool.clone();
            async move {
                let lease = lease(&pool).await;
                let waited = lease.waited();
                lease.give_back();
                waited
            }
        });
        until(|| pool.group(&"key").figures().waiting == 1).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        first.give_back();
        assert!(waiting.await.unwrap() >= Duration::from_millis(9));
        assert_eq!(lease(&pool).await.waited(), Duration::ZERO, "it was idle");
    });
}

#[test]
fn a_wait_counts_whoever_gives_it_up() {
    run(async {
        let counts = Counts::default();
        let pool = Pool::new(numbers(1), Settings::default(), counts.clone());
        let first = lease(&pool).await;
        let before = counts.waited.count();
        let late = pool.lease(&"key", |_| 0, Instant::now() + Duration::from_millis(5)).await;
        assert!(matches!(late, Err(LeaseError::Late)));
        assert_eq!(counts.waited.count(), before + 1, "by its deadline");
        let left = tokio::time::timeout(Duration::from_millis(5), lease(&pool)).await;
        assert!(left.is_err());
        assert_eq!(counts.waited.count(), before + 2, "by its client");
        first.give_back();
    });
}

#[test]
fn connections_of_a_former_generation_are_closed() {
    run(async {
        let opener = numbers(3);
        let pool = pool(&opener, Settings::default());
        let (lent, idle) = (lease(&pool).await, lease(&pool).await);
        idle.give_back();
        assert!(!lent.is_outdated());
        pool.reconnect();
        assert_eq!(*opener.closed.borrow(), [1]);
        assert!(lent.is_outdated());
        lent.give_back();
        assert_eq!(*opener.closed.borrow(), [1, 0]);
        assert_eq!(*lease(&pool).await, 2);
    });
}

#[test]
fn idle_and_old_connections_end_and_some_are_kept() {
    run(async {
        let opener = numbers(10);
        let settings = Settings {
            idle_min: 2,
            idle_time: Some(Duration::from_millis(10)),
            ..Settings::default()
        };
        let pool = pool(&opener, settings.clone());
        let leases = [lease(&pool).await, lease(&pool).await, lease(&pool).await];
        leases.into_iter().for_each(Lease::give_back);
        until(|| pool.group(&"key").figures().idle == 2).await;
        let age = Some(Duration::from_millis(10));
        pool.set_settings(Settings { age, ..settings });
        pool.reconnect();
        until(|| opener.closed.borrow().len() > 5).await;
        until(|| pool.group(&"key").figures().idle == 2).await;
    });
}

#[test]
fn a_pause_keeps_all_in_line() {
    run(async {
        let pool = pool(&numbers(2), Settings::default());
        let group = pool.group(&"key");
        lease(&pool).await.give_back();
        group.pause(true);
        let waiting = spawn_local({
            let pool = pool.clone();
            async move { *lease(&pool).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(group.figures().waiting, 1);
        group.pause(false);
        assert_eq!(waiting.await.unwrap(), 0);
        pool.close();
        let soon = Instant::now() + LONG;
        assert_eq!(pool.lease(&"key", |_| 0, soon).await.unwrap_err(), LeaseError::Closed);
    });
}

#[test]
fn an_idle_connection_makes_way_for_another_key() {
    run(async {
        let opener = numbers(2);
        let pool = pool(&opener, Settings::default());
        let (a, b) = (lease(&pool).await, lease(&pool).await);
        a.give_back();
        b.give_back();
        let other = pool.lease(&"other", |_| 0, Instant::now() + LONG).await.unwrap();
        assert_eq!(*other, 2);
        assert_eq!(*opener.closed.borrow(), [0], "the one that idled longest");
    });
}

#[test]
fn a_worker_gets_what_another_does_not_need() {
    run(async {
        let opener = numbers(2);
        let (one, two) = (pool(&opener, Settings::default()), pool(&opener, Settings::default()));
        let (a, b) = (lease(&one).await, lease(&one).await);
        a.give_back();
        let got = lease(&two).await;
        b.give_back();
        got.give_back();
        assert_eq!(opener.budgets[0].wanted(), 0);
    });
}

#[test]
fn one_group_gives_up_a_lane_for_a_worker_that_has_none() {
    run(async {
        let opener = numbers(3);
        let (one, two) = (pool(&opener, Settings::default()), pool(&opener, Settings::default()));
        let mut tenures = Vec::new();
        for key in ["none", "a", "b"] {
            let lease = one.lease(&key, |_| 0, Instant::now() + LONG).await.unwrap();
            tenures.push(lease.into_parts().unwrap());
        }
        let waiting = spawn_local(async move { *lease(&two).await });
        until(|| opener.asked_for.borrow().iter().any(|key| *key != "none")).await;
        let asked_for = opener.asked_for.borrow().clone();
        assert!(asked_for.contains(&"a") != asked_for.contains(&"b"), "{asked_for:?}");
        tenures.clear();
        assert_eq!(waiting.await.unwrap(), 3);
    });
}

/// Whoever waits has a connection of its own already, so that no pool is without any.
#[test]
fn a_lane_that_nobody_uses_ends_for_another_worker_and_for_another_key() {
    run(async {
        for waits_elsewhere in [true, false] {
            let opener = numbers(4);
            let one = pool(&opener, Settings::default());
            let other = pool(&opener, Settings::default());
            for key in ["a", "b"] {
                let lease = one.lease(&key, |_| 0, Instant::now() + LONG).await.unwrap();
                let (_, tenure) = lease.into_parts().unwrap();
                opener.unused.borrow_mut().push((key, tenure));
            }
            let (_busy, _too) = (lease(&one).await, lease(&other).await);
            let waits = if waits_elsewhere { &other } else { &one };
            let begun = Instant::now();
            let got = lease(waits).await;
            assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
            assert_eq!((*got, opener.unused.borrow().len()), (4, 1), "one is enough");
            opener.unused.borrow_mut().clear();
        }
    });
}

/// Two pools whose clients never pause, over fewer connections than they would take.
async fn contest(connections: usize) -> (u32, u32) {
    let opener = numbers(connections);
    let pools = [pool(&opener, Settings::default()), pool(&opener, Settings::default())];
    let served = Rc::new([Cell::new(0_u32), Cell::new(0)]);
    // The first has a head start.
    for (at, pool) in pools.iter().enumerate() {
        for _ in 0..8 {
            let (pool, served) = (pool.clone(), Rc::clone(&served));
            spawn_local(async move {
                loop {
                    let lease = lease(&pool).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    lease.give_back();
                    served[at].set(served[at].get() + 1);
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    served.iter().for_each(|served| served.set(0));
    until(|| served[0].get() + served[1].get() >= 1000).await;
    (served[0].get(), served[1].get())
}

#[test]
fn busy_workers_share_what_there_is() {
    run(async {
        for connections in [4, 5, 1] {
            let (one, two) = contest(connections).await;
            assert!(one < two * 4 && two < one * 4, "{connections} connections: {one}, {two}");
        }
    });
}
