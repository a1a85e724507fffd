//! What happens to a cluster while clients write through two gateways.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use meter::engine::Stop;
use rig::fake::{Event, Fake, Mode};
use rig::sending;
use rig::status::Account;
use rig::wait;
use rig::weir::{Setup, Weir};

use super::gateways::{fast_apply, period_in};
use super::noted::{DELETE, fakes, points_of_sets, runs, setup};
use super::{sets, start_applied};
use crate::scene::points;

const LIMIT: Duration = Duration::from_secs(30);
/// Points that are acknowledged before something happens.
const TAKEN: usize = 300;

/// Clients of a gateway that write points of now, one a request.
struct Clients {
    stop: Stop,
    /// The line of each request.
    lines: Arc<Mutex<Vec<String>>>,
    load: JoinHandle<sending::Report>,
}

impl Clients {
    fn start(weir: &Weir, name: &'static str) -> Self {
        let plan = sending::closed(weir.http, 4, Duration::from_secs(3600));
        let (stop, lines) = (plan.stop.clone(), Arc::<Mutex<Vec<String>>>::default());
        let sent = lines.clone();
        let request = move |n, out: &mut Vec<u8>| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
            let line = format!("load,host=h{},by={name} v={n}i {now}", n % 7);
            sending::put_post(out, "/write?db=db", line.as_bytes());
            sent.lock().unwrap().push(line);
        };
        Self { stop, lines, load: thread::spawn(move || sending::run(&plan, request)) }
    }

    /// How many requests have been made.
    fn sent(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    /// Ends them; gives the lines that were acknowledged.
    fn end(self) -> BTreeSet<String> {
        self.stop.ask();
        let report = self.load.join().unwrap();
        let lines = self.lines.lock().unwrap();
        report.acknowledged.iter().map(|n| lines[*n as usize].clone()).collect()
    }
}

/// Waits for more requests of both.
fn until_more(clients: &[Clients; 2]) {
    let before = clients.each_ref().map(Clients::sent);
    wait::until("more points are taken", LIMIT, || {
        clients.iter().zip(before).all(|(of, before)| of.sent() > before + TAKEN)
    });
}

fn nanoseconds(line: &str) -> u64 {
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn a_cluster_grows_under_the_load_of_two_gateways() {
    let fakes = ["a", "b"].map(|name| Fake::start(name, &["db"]));
    let of = |tables: &str| {
        let [a, b] = &fakes;
        Setup::new().backend("a", &a.url()).backend("b", &b.url()).table(tables)
    };
    let first = "[[influx.placement]]\nsets = [\"s1\"]\nfuture-max = \"1s\"\n";
    let before = sets(&["s1: a", "s2: b"]).replace("\"2s\"", "\"1s\"") + first;
    let mut gateways = [start_applied(of(&before)), of(&before).start()];
    let clients = [(0, "one"), (1, "two")].map(|(n, name)| Clients::start(&gateways[n], name));
    until_more(&clients);
    let (period, from_ns) = period_in(14);
    let after = before + &period.replace("[\"s2\"]", "[\"s1\", \"s2\"]");
    for weir in &mut gateways {
        weir.configure(|_| of(&after));
        weir.reload();
        weir.wait_log("the configuration was reloaded");
    }
    fast_apply(&gateways[0]);
    let from = UNIX_EPOCH + Duration::from_nanos(from_ns);
    thread::sleep(from.duration_since(SystemTime::now()).unwrap_or_default());
    until_more(&clients);
    // Points of before the new period go on to where they lay.
    let late = format!("load,host=late v=1i {}", from_ns - 1);
    gateways[1].must_write("db", &late);
    let mut acknowledged: BTreeSet<String> = clients.into_iter().flat_map(Clients::end).collect();
    acknowledged.insert(late);
    gateways.iter().for_each(Weir::wait_delivered);
    let [a, b] = fakes.each_ref().map(|fake| fake.lines().into_iter().collect::<BTreeSet<_>>());
    assert!(a.is_disjoint(&b));
    let lost = acknowledged.iter().filter(|line| !a.contains(*line) && !b.contains(*line));
    assert_eq!(lost.count(), 0, "of {}", acknowledged.len());
    assert!(b.iter().all(|line| nanoseconds(line) >= from_ns), "{from_ns}: {:?}", b.first());
    let later = a.iter().filter(|line| nanoseconds(line) >= from_ns).count();
    assert!(later > 50 && b.len() > 50, "{later} and {} points of the new period", b.len());
    for weir in &gateways {
        assert!(weir.accounts().iter().all(Account::adds_up), "{:?}", weir.accounts());
    }
}

#[test]
fn a_delete_runs_behind_what_was_acknowledged_before_while_the_other_gateway_writes() {
    let fakes = fakes();
    let gateways = [start_applied(setup(&fakes)), setup(&fakes).start()];
    let clients = [(0, "one"), (1, "two")].map(|(n, name)| Clients::start(&gateways[n], name));
    until_more(&clients);
    // Up to here all were acknowledged: four connections have one request each under way.
    let before: Vec<String> = clients
        .iter()
        .flat_map(|of| {
            let lines = of.lines.lock().unwrap();
            lines[..lines.len() - 4].to_vec()
        })
        .collect();
    for weir in &gateways {
        let answer = weir.query(DELETE, &[("db", "db")]);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(!answer.text().contains("error"), "{}", answer.text());
        until_more(&clients);
    }
    let acknowledged: BTreeSet<String> = clients.into_iter().flat_map(Clients::end).collect();
    gateways.iter().for_each(Weir::wait_delivered);
    let [a, b] = points_of_sets(&fakes);
    let lost = acknowledged.iter().filter(|line| !a.contains(*line) && !b.contains(*line));
    assert_eq!(lost.count(), 0, "of {}", acknowledged.len());
    for fake in &fakes {
        assert_eq!(runs(fake, DELETE), 2);
        let events = fake.events();
        let is_it =
            |event: &Event| matches!(event, Event::Statement { text, .. } if text == DELETE);
        let at = events.iter().position(is_it).unwrap();
        let behind: BTreeSet<&str> = events[at..]
            .iter()
            .filter_map(|event| match event {
                Event::Write { lines, .. } => Some(lines.lines()),
                Event::Statement { .. } => None,
            })
            .flatten()
            .collect();
        let late = before.iter().filter(|line| behind.contains(line.as_str()));
        assert_eq!(late.count(), 0, "a DELETE overtook points that were acknowledged before");
    }
}

#[test]
fn a_journal_that_drops_the_oldest_says_which_member_lacks_them_and_asks_the_others() {
    let fakes = fakes();
    let journal = "segment-size = \"256KiB\"\nmax-size = \"1MiB\"\nwhen-full = \"drop-oldest\"";
    let small = || setup(&fakes).journal(journal);
    let weir = start_applied(small());
    let other = setup(&fakes).start();
    let batch = |n: u64| -> Range<u64> { n * 500..(n + 1) * 500 };
    fakes[0].set(Mode::error(503, "away"));
    let mut written = 0;
    while weir.account("a1").dropped < 2_000 {
        weir.must_write("db", &points(batch(written).start, 500));
        written += 1;
        wait::until("the others have everything", LIMIT, || {
            ["a2", "b1", "b2"].iter().all(|name| weir.account(name).waiting == 0)
        });
        assert!(written < 1_000);
    }
    fakes[0].set(Mode::Accept);
    weir.wait_delivered();
    let accounts = weir.accounts();
    assert!(accounts.iter().all(Account::adds_up), "{accounts:?}");
    let dropped = |name: &str| weir.account(name).dropped;
    assert_eq!(["a2", "b1", "b2"].map(dropped), [0; 3]);
    let of = |n: usize| fakes[n].lines().into_iter().collect::<BTreeSet<String>>();
    assert!(of(0).is_subset(&of(1)) && of(0).len() < of(1).len());
    assert_eq!(of(1).len() + of(2).len(), written as usize * 500);
    assert_eq!(of(2), of(3));
    // Both gateways know: it lags for ever, and the other member is asked.
    for weir in [&weir, &other] {
        let asks_a1 = || weir.query("SHOW MEASUREMENTS", &[("db", "db")]).text().contains("a1");
        wait::until("the gateway knows", LIMIT, || (0..10).all(|_| !asks_a1()));
    }
    let shown = other.must_run(&["placement", "show"]);
    assert!(shown.contains("a1"), "{shown}");
}
