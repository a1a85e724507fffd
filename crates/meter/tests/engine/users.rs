//! Loads of HTTP beyond one request: targets in turn, data, users that go through steps, checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meter::engine::{EngineError, Outcome, Pace, run};
use meter::http::data::{Data, RowOrder};
use meter::http::{Http, Options, Request, Sequence, Step};
use meter::recorder::{Kind, Measure};
use meter::workload::Workload as _;

use super::server::{NO_CONTENT, Server, Stream};
use super::{MS, open, plan};

const SECOND: Duration = Duration::from_secs(1);

/// A request, written as `POST /target < body`, with checks and values to take.
fn step(words: &str, checks: &[&str], takes: &[&str]) -> Step {
    let (line, body) = words.split_once(" < ").unwrap_or((words, ""));
    let (method, target) = line.split_once(' ').unwrap();
    Step {
        name: None,
        target: Some(target.to_owned()),
        request: Request { method: method.to_owned(), headers: Vec::new(), body: body.into() },
        checks: checks.iter().map(|text| text.parse().unwrap()).collect(),
        takes: takes.iter().map(|text| text.parse().unwrap()).collect(),
    }
}

fn options(steps: Vec<Step>, sequence: Sequence) -> Options {
    Options { steps, sequence, literal: false, ..Options::of(Request::default()) }
}

fn made(options: Options) -> Http {
    Http::of(&"http://server/".parse().unwrap(), options).unwrap()
}

fn answer(stream: &mut Stream, headers: &str, body: &str) -> bool {
    let len = body.len();
    stream
        .send(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {len}\r\n\r\n{body}").as_bytes())
}

fn counts(outcome: &Outcome, kind: Kind) -> u64 {
    outcome.results.count(kind)
}

/// The words behind a name in a request's target or head.
fn behind<'a>(request: &'a str, name: &str) -> &'a str {
    let (_, rest) = request.split_once(name).unwrap_or_else(|| panic!("{name} in {request}"));
    rest.split([' ', '&', '\r', '/']).next().unwrap()
}

/// A shop: who logs in gets a token and a cookie of its own, without which nothing is sold.
fn shop(closes: bool) -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let server = Server::seeing(move |stream, request| {
        log.lock().unwrap().push(request.to_owned());
        let close = if closes { "Connection: close\r\n" } else { "" };
        let target = request.split(' ').nth(1).unwrap();
        if target == "/login" {
            let user = request.rsplit("user=").next().unwrap();
            let cookie = format!("Set-Cookie: id={user}; Path=/\r\nX-Cart: c{user}\r\n{close}");
            return answer(stream, &cookie, &format!("{{\"token\": \"t{user}\"}}")) && !closes;
        }
        let user = target.rsplit('/').next().unwrap().trim_start_matches('t');
        let is_known = request.contains(&format!("Cookie: id={user}\r\n"));
        if !is_known || (target.starts_with("/pay/") && behind(request, "cart=c") != user) {
            return stream.send(b"HTTP/1.1 403 Who\r\nContent-Length: 0\r\n\r\n");
        }
        answer(stream, close, "<b>sold</b>") && !closes
    });
    (server, seen)
}

fn shopping() -> Vec<Step> {
    vec![
        step(
            "POST /login < user={{seq 100}}",
            &[],
            &["token = json /token", "cart = header X-Cart"],
        ),
        step("GET /cart/{{token}}", &["text sold"], &["word = text ~ <b>(.*)</b>"]),
        step("POST /pay/{{token}} < cart={{cart}}&{{word}}", &["text sold"], &[]),
    ]
}

#[test]
fn a_user_goes_through_its_steps_with_its_own_cookies_and_values() {
    for closes in [false, true] {
        let (server, seen) = shop(closes);
        let http = made(options(shopping(), Sequence::AsOneUser));
        let mut plan = plan(server.address, open(40.0, SECOND), 16);
        plan.threads = 2;
        let outcome = run(&plan, |_| http.clone(), |_| {}).unwrap();
        assert_eq!(
            outcome.operations,
            ["POST /login", "GET /cart/{{token}}", "POST /pay/{{token}}"]
        );
        assert_eq!(outcome.results.failed(), 0, "{:?}", outcome.errors);
        let each: Vec<u64> =
            (0..3).map(|of| outcome.results.of(Measure::Service, of).count()).collect();
        // At the end of the time a user goes no further.
        assert!(each[0] == 40 && each[1] <= 40 && each[2] <= each[1] && each[2] >= 20, "{each:?}");
        let seen = seen.lock().unwrap();
        let users: BTreeSet<&str> =
            seen.iter().filter_map(|one| one.split_once("user=")).map(|(_, user)| user).collect();
        assert_eq!((users.len(), users.contains("100")), (40, true));
        assert!(
            seen.iter()
                .filter(|one| one.starts_with("POST /pay"))
                .all(|one| one.ends_with("&sold"))
        );
        // Whoever's connection ended goes on over another one.
        assert_eq!(outcome.reconnects > 0, closes);
        assert_eq!(seen.len() as u64, outcome.results.total());
    }
}

#[test]
fn a_user_whose_step_fails_goes_no_further() {
    let server = Server::seeing(|stream, request| match request.split(' ').nth(1).unwrap() {
        "/checked" => answer(stream, "", "{\"ok\": false}"),
        "/taken" => answer(stream, "", "{}"),
        "/refused" => stream.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
        _ => answer(stream, "", "all"),
    });
    for (first, kind, words) in [
        (
            step("GET /checked", &["json /ok = true"], &[]),
            Kind::Check,
            "GET /checked: check failed: json /ok = true",
        ),
        (
            step("GET /taken", &[], &["id = json /id"]),
            Kind::Check,
            "GET /taken: nothing to take: id = json /id",
        ),
        (step("GET /refused", &["json /ok"], &[]), Kind::Server, "GET /refused: status 503"),
    ] {
        let http = made(options(vec![first, step("GET /next", &[], &[])], Sequence::AsOneUser));
        let outcome = run(&plan(server.address, open(20.0, SECOND), 4), |_| http.clone(), |_| {});
        let outcome = outcome.unwrap();
        assert_eq!((counts(&outcome, kind), outcome.results.total()), (20, 20), "{words}");
        assert_eq!(outcome.errors.commonest(1)[0].1, words);
    }
}

#[test]
fn a_failed_check_is_no_error_of_the_servers() {
    let server = Server::seeing(|stream, request| match request.split(' ').nth(1).unwrap() {
        "/404" => stream.send(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n"),
        "/500" => stream.send(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
        "/204" => stream.send(NO_CONTENT),
        _ => stream.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        ),
    });
    for (target, check, kind, words) in [
        // Whoever asks for a status gets it.
        ("/404", "status 404", Kind::Succeeded, ""),
        ("/500", "status 404", Kind::Server, "status 500"),
        ("/500", "text abc", Kind::Server, "status 500"),
        ("/204", "status 200", Kind::Check, "check failed: status 200; it was 204"),
        ("/chunks", "text abc", Kind::Succeeded, ""),
        ("/chunks", "text abd", Kind::Check, "check failed: text abd"),
        ("/chunks", "header Transfer-Encoding: chunked", Kind::Succeeded, ""),
    ] {
        let http =
            made(options(vec![step(&format!("GET {target}"), &[check], &[])], Sequence::InTurn));
        let mut plan = plan(server.address, open(10.0, SECOND / 2), 2);
        plan.warm_up = Duration::ZERO;
        let outcome = run(&plan, |_| http.clone(), |_| {}).unwrap();
        assert_eq!(counts(&outcome, kind), 5, "{target} {check}: {:?}", outcome.errors);
        let said =
            outcome.errors.commonest(1).first().map_or("", |(_, words, _)| *words).to_owned();
        assert_eq!(said, words, "{target} {check}");
    }
}

#[test]
fn targets_come_in_turn_and_their_data_as_they_were_asked_for() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let server = Server::seeing(move |stream, request| {
        log.lock().unwrap().push(request.to_owned());
        // The answer to a HEAD says how long that to a GET would be.
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        stream.send(
            if request.starts_with("HEAD") {
                length
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
            }
            .as_bytes(),
        )
    });
    let csv = "name\nann\nb&b\ncid\n";
    let data = |order, salt| Data::new(csv.as_bytes(), order, salt).unwrap();
    let renamed = Data::new(csv.replace("name", "other").as_bytes(), RowOrder::Random, 2).unwrap();
    let steps = vec![
        step("GET /a?n={{url name}}&seq={{seq}}", &[], &[]),
        step("HEAD /b?seq={{seq}}", &[], &[]),
        step("PUT /c/{{other}} < {\"n\": \"{{name}}\", \"r\": {{random 5 6}}}", &[], &[]),
    ];
    let options = options(steps, Sequence::InTurn);
    let http = made(Options { data: vec![data(RowOrder::Sequence, 1), renamed], ..options });
    assert_eq!(http.operations(), ["GET /a", "HEAD /b", "PUT /c/{{other}}"]);
    let mut plan = plan(server.address, open(60.0, SECOND), 4);
    plan.threads = 2;
    let outcome = run(&plan, |_| http.clone(), |_| {}).unwrap();
    assert_eq!(
        (outcome.results.total(), outcome.results.failed()),
        (60, 0),
        "{:?}",
        outcome.errors
    );
    let seen = seen.lock().unwrap();
    let of = |method: &str| seen.iter().filter(|one| one.starts_with(method)).collect::<Vec<_>>();
    assert_eq!((of("GET /a").len(), of("HEAD /b").len(), of("PUT /c").len()), (20, 20, 20));
    for request in of("GET /a") {
        // Numbers 0, 3, 6 and so on, and each has row 0.
        assert_eq!(
            (behind(request, "?n="), behind(request, "seq=").parse::<u64>().unwrap() % 3),
            ("ann", 0)
        );
    }
    let drawn: BTreeSet<String> =
        of("PUT /c").iter().map(|one| behind(one, "/c/").to_owned()).collect();
    assert!(drawn.len() == 3 && of("PUT /c")[0].contains("{\"n\": \"cid\", \"r\": "), "{drawn:?}");
}

#[test]
fn each_row_is_used_once_and_no_schedule_may_have_more() {
    let seen: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let log = Arc::clone(&seen);
    let server = Server::seeing(move |stream, request| {
        *log.lock().unwrap().entry(behind(request, "n=").to_owned()).or_default() += 1;
        stream.send(NO_CONTENT)
    });
    let rows: String = (0..300).map(|row| format!("{row}\n")).collect();
    let data = vec![Data::new(format!("n\n{rows}").as_bytes(), RowOrder::Once, 1).unwrap()];
    let http =
        made(Options { data, ..options(vec![step("GET /?n={{n}}", &[], &[])], Sequence::InTurn) });
    let mut plan = plan(server.address, Pace::Closed(600 * SECOND), 8);
    plan.threads = 2;
    let outcome = run(&plan, |_| http.clone(), |_| {}).unwrap();
    assert!(outcome.used_up && !outcome.stopped && outcome.measured < 300 * SECOND);
    assert_eq!((outcome.results.total(), outcome.results.failed()), (300, 0));
    assert!(seen.lock().unwrap().len() == 300 && seen.lock().unwrap().values().all(|of| *of == 1));
    // The schedule is known, so one with more is refused: with the warm-up 301 are due.
    plan.pace = open(100.0, 3 * SECOND);
    plan.warm_up = 10 * MS;
    let refused = run(&plan, |_| http.clone(), |_| {}).unwrap_err();
    assert!(
        matches!(&refused, EngineError::Plan(words) if words.contains("300 requests")),
        "{refused}"
    );
    assert_eq!(server.requests(), 300);
    plan.pace = open(1000.0, 290 * MS);
    let outcome = run(&plan, |_| http.clone(), |_| {}).unwrap();
    assert!(outcome.results.total() + outcome.warm_up.requests == 300 && !outcome.used_up);
}

#[test]
fn users_of_a_closed_loop_finish_their_steps_when_the_data_end() {
    let (server, _) = shop(false);
    let data = vec![Data::new(b"n\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", RowOrder::Once, 1).unwrap()];
    let mut steps = shopping();
    steps[0].request.body = b"user={{n}}".to_vec();
    let http = made(Options { data, ..options(steps, Sequence::AsOneUser) });
    let plan = plan(server.address, Pace::Closed(600 * SECOND), 4);
    let outcome = run(&plan, |_| http.clone(), |_| {}).unwrap();
    assert!(outcome.used_up, "{:?}", outcome.measured);
    assert_eq!(
        (outcome.results.total(), outcome.results.failed()),
        (27, 0),
        "{:?}",
        outcome.errors
    );
    assert!((outcome.occupancy.connections(outcome.measured) - 4.0).abs() < 0.2);
}

#[test]
fn a_connection_takes_so_many_requests_as_were_asked_for() {
    let (closing, of_others) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (count, others) = (Arc::clone(&closing), Arc::clone(&of_others));
    let server = Server::seeing(move |stream, request| {
        let closes = request.contains("\r\nConnection: close\r\n");
        (if closes { &count } else { &others }).fetch_add(1, Ordering::Relaxed);
        // It is the client that ends the connection, whatever the server does.
        stream.send(NO_CONTENT)
    });
    let steps = vec![step("POST / < abc", &[], &[])];
    let of = options(steps, Sequence::InTurn);
    let http = made(Options { per_connection: Some(5), ..of });
    let outcome =
        run(&plan(server.address, open(60.0, SECOND), 4), |_| http.clone(), |_| {}).unwrap();
    assert_eq!(
        (outcome.results.total(), outcome.results.failed()),
        (60, 0),
        "{:?}",
        outcome.errors
    );
    let (closing, others) = (closing.load(Ordering::Relaxed), of_others.load(Ordering::Relaxed));
    assert!(closing + others == 60 && (10..=12).contains(&closing), "{closing} {others}");
    assert!(outcome.reconnects >= closing - 4, "{}", outcome.reconnects);
}

#[test]
fn every_address_of_a_name_is_used_in_turn() {
    // Both are localhost's where the machine has IPv6; else there is one, and this shows nothing.
    let http = made(options(vec![step("GET /", &[], &[])], Sequence::InTurn));
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let mut plan = plan(server.address, open(20.0, SECOND / 2), 4);
    plan.target.address =
        flow::dial::Address::Tcp { host: "localhost".to_owned(), port: server.address.port() };
    let names: Vec<_> =
        std::net::ToSocketAddrs::to_socket_addrs(&("localhost", 1)).unwrap().collect();
    match run(&plan, |_| http.clone(), |_| {}) {
        Ok(outcome) => assert_eq!((names.len(), outcome.results.total()), (1, 10)),
        // The server listens on one of them only.
        Err(error) => assert!(names.len() > 1 && error.to_string().contains("refused"), "{error}"),
    }
}

#[test]
fn an_answer_that_can_not_be_looked_into_fails_its_check_and_says_why() {
    let server = Server::seeing(|stream, request| match request.split(' ').nth(1).unwrap() {
        "/packed" => answer(stream, "Content-Encoding: gzip\r\n", "abc"),
        _ => {
            stream.send(b"HTTP/1.1 200 OK\r\n\r\n");
            let piece = vec![b'a'; 1 << 20];
            let _ = (0..6).all(|_| stream.send(&piece));
            false
        }
    });
    for (target, why) in [("/packed", "has a Content-Encoding"), ("/long", "is over 4 MiB")] {
        let http = made(options(
            vec![step(&format!("GET {target}"), &["not text b"], &[])],
            Sequence::InTurn,
        ));
        let outcome =
            run(&plan(server.address, open(10.0, SECOND / 2), 2), |_| http.clone(), |_| {});
        let outcome = outcome.unwrap();
        assert_eq!(counts(&outcome, Kind::Check) + counts(&outcome, Kind::Unsent), 5);
        assert!(outcome.errors.commonest(1)[0].1.contains(why), "{:?}", outcome.errors);
    }
}
