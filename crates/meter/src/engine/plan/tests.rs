//! What can work of a plan, and what is refused before anything is opened.

use super::*;
use crate::schedule::{Arrivals, Segment};
use crate::workload::{Answer, Malformed, Reader, Workload};

const SECOND: Duration = Duration::from_secs(1);

/// A workload that has something to send for so many requests.
struct Rows(Option<u64>);

struct NoAnswers;

impl Workload for Rows {
    type Reader = NoAnswers;

    fn request(&mut self, _number: u64, _out: &mut Vec<u8>) -> usize {
        0
    }

    fn reader(&self) -> NoAnswers {
        NoAnswers
    }

    fn requests_max(&self) -> Option<u64> {
        self.0
    }
}

impl Reader for NoAnswers {
    fn begin(&mut self, _operation: usize) {}

    fn read(&mut self, _bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        Ok(None)
    }

    fn ended(&mut self) -> Option<Answer> {
        None
    }
}

/// So many requests in a second.
fn open(requests: f64) -> Pace {
    let segment = Segment::constant(requests, SECOND);
    Pace::Open(Schedule::new(vec![segment], Arrivals::Even).unwrap())
}

fn plan(pace: Pace) -> Plan {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: 1 };
    Plan::new(Target { address, tls: None, connect_timeout: SECOND }, pace)
}

fn load(plan: Plan, requests_max: Option<u64>) -> Load<'static> {
    Load::new("load", plan, move |_| Rows(requests_max))
}

/// Why loads of these plans are refused; nothing where they are not.
fn refused(plans: impl IntoIterator<Item = Plan>) -> String {
    let loads: Vec<_> = plans.into_iter().map(|plan| load(plan, None)).collect();
    check(&loads).map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn what_cannot_work_is_refused_in_words() {
    let (closed, usual) = (Pace::Closed(SECOND), || plan(Pace::Closed(SECOND)));
    for (plan, words) in [
        (usual(), ""),
        (plan(open(1.0)), ""),
        (Plan { threads: 0, ..usual() }, "1 to 256 threads"),
        (Plan { threads: 257, connections: 300, ..usual() }, "1 to 256 threads"),
        (Plan { threads: 256, connections: 256, ..usual() }, ""),
        (Plan { threads: 2, connections: 1, ..usual() }, "1 for each thread"),
        (Plan { connections: CONNECTIONS_MAX + 1, ..usual() }, "1000000 connections at most"),
        (Plan { timeout: Duration::ZERO, ..usual() }, "a timeout is longer"),
        (plan(Pace::Closed(Duration::ZERO)), "longer than 0 s"),
    ] {
        let why = refused([plan.clone()]);
        assert!(if words.is_empty() { why.is_empty() } else { why.contains(words) }, "{why}");
    }
    assert_eq!(usual().pace, closed);
}

#[test]
fn loads_side_by_side_are_of_a_kind_and_of_one_length() {
    let closed = |length| plan(Pace::Closed(length));
    assert_eq!(refused([closed(SECOND), closed(SECOND)]), "");
    assert_eq!(refused([plan(open(1.0)), plan(open(2.0))]), "");
    for plans in [[closed(SECOND), closed(2 * SECOND)], [closed(SECOND), plan(open(1.0))]] {
        assert!(refused(plans).contains("as long as one another"));
    }
    let with_rows = || load(closed(SECOND), Some(5));
    assert!(check(&[with_rows()]).is_ok());
    let both = check(&[with_rows(), load(closed(SECOND), None)]).unwrap_err().to_string();
    assert!(both.contains("no other one beside it"), "{both}");
}

#[test]
fn connections_of_all_loads_need_files_of_the_process() {
    let limit = flow::nofile::raise().ok().and_then(|limit| limit.now);
    let Some(most) = limit.and_then(|limit| usize::try_from(limit - DESCRIPTORS_BESIDE).ok())
    else {
        return;
    };
    // Two loads have no more than that.
    if most > CONNECTIONS_MAX {
        return;
    }
    let with = |connections| Plan { connections, ..plan(Pace::Closed(SECOND)) };
    assert_eq!(refused([with(most - 1), with(1)]), "");
    assert!(refused([with(most - 1), with(2)]).contains("raise that (ulimit -n)"));
}

#[test]
fn a_schedule_has_no_more_requests_than_there_are_rows() {
    let limit = |pace, warm_up, rows| {
        let plan = Plan { warm_up, ..plan(pace) };
        last(&load(plan, rows)).map(|limit| limit.map(|limit| limit.requests))
    };
    assert_eq!(limit(open(10.0), Duration::ZERO, None).unwrap(), None);
    assert_eq!(limit(open(10.0), Duration::ZERO, Some(10)).unwrap(), Some(10));
    assert_eq!(limit(Pace::Closed(SECOND), SECOND, Some(3)).unwrap(), Some(3));
    for (warm_up, rows) in [(Duration::ZERO, 9), (SECOND, 19)] {
        let why = limit(open(10.0), warm_up, Some(rows)).unwrap_err().to_string();
        assert!(why.contains(&format!("data for {rows} requests")), "{why}");
        assert_eq!(limit(open(10.0), warm_up, Some(rows + 1)).unwrap(), Some(rows + 1));
    }
}

#[test]
fn a_plan_tells_how_it_sends_and_for_how_long() {
    let (open, closed) = (plan(open(1.0)), plan(Pace::Closed(3 * SECOND)));
    assert_eq!((open.is_closed(), open.duration()), (false, SECOND));
    assert_eq!((closed.is_closed(), closed.duration()), (true, 3 * SECOND));
    let shared = Plan { threads: 2, connections: 10, ..closed };
    assert_eq!(
        [1, 2, 3, 10, 11].map(|wanted| shared.shared_connections(wanted)),
        [2, 2, 3, 10, 10]
    );
}

#[test]
fn a_user_thinks_from_the_least_to_the_most() {
    let (day, ns) = (Duration::from_secs(86_400), Duration::from_nanos(1));
    assert!(Think::new(2 * SECOND, SECOND).is_none());
    assert!(Think::new(SECOND, day + ns).is_none());
    assert!(Think::new(SECOND, SECOND).is_some() && Think::new(Duration::ZERO, day).is_some());
    let think = Think::new(SECOND, 3 * SECOND).unwrap();
    let mut chance = Chance::of(1, 1);
    let drawn: Vec<_> = (0..1000).map(|_| think.draw(&mut chance)).collect();
    let (least, most) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
    assert!(*least >= SECOND && *least < SECOND + SECOND / 10, "{least:?}");
    assert!(*most <= 3 * SECOND && *most > 3 * SECOND - SECOND / 10, "{most:?}");
}

#[test]
fn a_run_ends_with_all_or_by_itself() {
    let all = Stop::default();
    let (one, other) = (all.of_run(), all.of_run());
    assert!(!one.is_asked() && one.asked() == 0);
    one.ask();
    assert!(one.is_asked() && !other.is_asked() && !all.is_asked());
    all.ask();
    all.ask();
    assert_eq!([all.asked(), one.asked(), other.asked()], [2, 2, 2]);
}

#[test]
fn a_socket_has_no_addresses_and_an_address_is_its_own() {
    let of = |address| addresses(&Target { address, tls: None, connect_timeout: SECOND }).unwrap();
    let socket = of(Address::Unix("/run/server.sock".into()));
    assert!(socket.used.is_empty() && socket.left_out.is_empty());
    // Nobody is asked there before the load begins.
    let tcp = of(Address::Tcp { host: "127.0.0.1".to_owned(), port: 1 });
    assert_eq!(tcp.used, [SocketAddr::from(([127, 0, 0, 1], 1))]);
    assert!(tcp.left_out.is_empty());
}
