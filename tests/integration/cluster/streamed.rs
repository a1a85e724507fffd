//! Points of several sets that pass through Weir: as fast as the client reads, as many as it wants,
//! in little memory, and never as an answer that looks whole and is not.

use std::thread;
use std::time::Duration;

use rig::fake::{Fake, Mode};
use rig::http::{Connection, Request};
use rig::process::anonymous_mib;
use rig::wait;
use rig::weir::{Setup, Weir};

use super::{PLACEMENT, sets, start_applied};

/// What Weir may have in addition while points pass through, however many these are.
const GROWTH_MIB: f64 = 32.0;
/// Points that pass through.
const POINTS: usize = 400_000;
/// Bytes that a member may have sent while the client does not read: those in the buffers of four
/// sockets, which the system lets grow to 6 MiB each, and in Weir.
const UNREAD_BYTES: u64 = 32 << 20;

/// Two sets of fakes, the first of which has two members; they hold no points back.
struct Streaming {
    fakes: [Fake; 3],
    weir: Weir,
}

impl Streaming {
    fn new() -> Self {
        let fakes = ["a1", "a2", "b"].map(|name| Fake::start(name, &["db"]));
        let mut setup = Setup::new();
        for (name, fake) in ["a1", "a2", "b"].iter().zip(&fakes) {
            setup = setup.backend(name, &fake.url());
        }
        let weir = start_applied(setup.table(&(sets(&["s1: a1 a2", "s2: b"]) + PLACEMENT)));
        weir.wait_catalogue();
        fakes.iter().for_each(|fake| fake.set_queries(Mode::Endless));
        Self { fakes, weir }
    }

    /// How many answers of members are under way.
    fn under_way(&self) -> u64 {
        self.fakes.iter().map(Fake::under_way).sum()
    }

    fn sent(&self) -> u64 {
        self.fakes.iter().map(Fake::endless_bytes).sum()
    }

    /// Begins a query, and reads the head of its answer.
    fn begin(&self, sql: &str, pairs: &[(&str, &str)]) -> Answer {
        let pairs: Vec<(&str, &str)> =
            [("db", "db"), ("epoch", "ns")].iter().chain(pairs).copied().collect();
        let mut connection = Connection::open(self.weir.http).unwrap();
        connection.push(&Request::query(sql, &pairs).encode()).unwrap();
        let head = connection.head().unwrap();
        assert_eq!(head.status(), 200, "{head:?}");
        Answer { connection, text: Vec::new(), last: 0 }
    }
}

/// An answer on its way, and the row that was read last.
struct Answer {
    connection: Connection,
    text: Vec<u8>,
    last: u64,
}

impl Answer {
    /// Reads so many rows, or some more; they come in the order of time, those of one time from
    /// both sets.
    fn read_rows(&mut self, rows: usize) {
        let mut read = 0;
        while read < rows {
            let goes_on = self.connection.chunk(&mut self.text).unwrap();
            assert!(goes_on, "{}", String::from_utf8_lossy(&self.text));
            let end = self.text.iter().rposition(|byte| *byte == b']').unwrap_or(0);
            let whole: Vec<u8> = self.text.drain(..end).collect();
            for row in String::from_utf8(whole).unwrap().split('[').skip(1) {
                let time = row.split(',').next().and_then(|time| time.parse::<u64>().ok());
                let Some(time) = time else { continue };
                let last = std::mem::replace(&mut self.last, time);
                assert!(last == time || last + 1_000 == time, "{time} behind {last}");
                read += 1;
            }
        }
    }

    /// The rest, up to the end.
    fn rest(mut self) -> String {
        while self.connection.chunk(&mut self.text).unwrap() {}
        String::from_utf8(self.text).unwrap()
    }
}

#[test]
fn points_of_two_sets_pass_through_in_little_memory_as_fast_as_the_client_reads() {
    let mut streaming = Streaming::new();
    let pid = streaming.weir.running().id();
    // What threads, connections and the first query take is not of the points.
    drop(streaming.begin("SELECT v FROM m", &[("chunked", "true")]));
    wait::until("the members are left", wait::LONG, || streaming.under_way() == 0);
    let before = (anonymous_mib(pid), streaming.sent());
    let mut answer = streaming.begin("SELECT v FROM m", &[("chunked", "true")]);
    let mut sent = 0;
    wait::until("the members to be held up", wait::LONG, || {
        thread::sleep(Duration::from_millis(500));
        let now = streaming.sent();
        std::mem::replace(&mut sent, now) == now
    });
    let unread = sent - before.1;
    assert!(streaming.under_way() == 2 && unread < UNREAD_BYTES, "{unread} bytes are not read");
    let mut most = anonymous_mib(pid);
    for _ in 0..10 {
        answer.read_rows(POINTS / 10);
        most = most.max(anonymous_mib(pid));
    }
    let growth = most - before.0;
    println!("{POINTS} points: {growth:.1} MiB more than {:.1}, {unread} bytes unread", before.0);
    assert!(growth < GROWTH_MIB, "{growth:.1} MiB more than {:.1}", before.0);
    let ways = |way| {
        let metrics = streaming.weir.metrics();
        metrics.sum("weir_influx_cluster_queries_total", &[("way", way)])
    };
    assert_eq!((ways("fetched"), ways("streamed")), (2.0, 2.0));
    drop(answer);
    wait::until("the members are left with the client", wait::LONG, || streaming.under_way() == 0);
}

#[test]
fn members_are_not_read_past_the_limit() {
    let streaming = Streaming::new();
    let sql = "SELECT v FROM m LIMIT 150000";
    let answer = streaming.weir.query(sql, &[("db", "db"), ("epoch", "ns")]).json();
    let rows = answer["results"][0]["series"][0]["values"].as_array();
    let rows = rows.unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(rows.len(), 150_000);
    assert_eq!(rows[149_999][0], 74_999_000);
    wait::until("the members are left", wait::LONG, || streaming.under_way() == 0);
}

#[test]
fn an_answer_whose_member_dies_ends_with_an_error() {
    for chunked in ["true", "false"] {
        let mut streaming = Streaming::new();
        let mut answer = streaming.begin("SELECT v FROM m", &[("chunked", chunked)]);
        answer.read_rows(120_000);
        streaming.fakes[2].take_down();
        let rest = answer.rest();
        let end = rest.len().saturating_sub(200);
        assert!(
            rest[end..].contains("\"error\":\"the answer of a set broke off"),
            "{}",
            &rest[end..]
        );
    }
}

#[test]
fn a_member_that_dies_before_its_first_points_is_replaced_by_another_one() {
    let streaming = Streaming::new();
    // It begins the answer, and then the connection is reset.
    streaming.fakes[0].set_queries(Mode::Parts("{\"results\":[{".to_owned(), None));
    let ask = || streaming.weir.query("SELECT v FROM m LIMIT 3", &[("db", "db")]);
    // The members of a set take turns.
    for _ in 0..20 {
        let has_begun = || streaming.fakes[0].under_way() > 0;
        let (answer, was_asked) = thread::scope(|scope| {
            let asked = scope.spawn(ask);
            wait::until("an answer", wait::LONG, || asked.is_finished() || has_begun());
            let was_asked = has_begun();
            if was_asked {
                streaming.fakes[0].set_queries(Mode::error(503, "gone"));
            }
            (asked.join().unwrap(), was_asked)
        });
        let rows = answer.json()["results"][0]["series"][0]["values"].clone();
        assert_eq!(rows.as_array().map(Vec::len), Some(3), "{}", answer.text());
        if was_asked {
            return;
        }
    }
    panic!("the member was never asked");
}
