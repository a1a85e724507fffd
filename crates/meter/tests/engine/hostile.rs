//! Servers that answer as none should: each request is counted once, under the kind that it is.

use std::time::Duration;

use meter::recorder::Kind;

use super::server::{NO_CONTENT, Server, Stream};
use super::{MS, load, open, plan};

#[track_caller]
fn ends_as(kind: Kind, words: &str, answer: impl Fn(&mut Stream) -> bool + Send + Sync + 'static) {
    let server = Server::start(answer);
    let mut plan = plan(server.address, open(20.0, Duration::from_secs(1)), 8);
    plan.timeout = 2000 * MS;
    let outcome = load(&plan);
    let counts = Kind::ALL.map(|kind| (kind, outcome.results.count(kind)));
    // What finds no connection open again in time is not sent, on a machine that is busy.
    let unsent = outcome.results.count(Kind::Unsent);
    // There a deadline may fall where the injector itself stood still: that timeout is its own.
    let own = if kind == Kind::Timeout { outcome.results.count(Kind::Injector) } else { 0 };
    assert_eq!(outcome.results.count(kind) + own + unsent, 20, "{counts:?}");
    assert!(outcome.results.count(kind) > 0, "{counts:?}");
    let said = outcome.errors.commonest(10);
    assert!(said.iter().any(|(_, said, _)| said.contains(words)), "{said:?}");
}

#[test]
fn a_server_that_hangs_up_within_an_answer() {
    for (part, begun) in [
        ("", "without an answer"),
        ("HTTP/1.1 200 OK\r\nContent-", "of an answer: a part of its head came"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "of an answer: status 200 and not all of its body came",
        ),
    ] {
        ends_as(Kind::Network, &format!("closed the connection {}{begun}", in_the_middle(part)), {
            move |stream| {
                stream.send(part.as_bytes());
                false
            }
        });
    }
}

fn in_the_middle(part: &str) -> &'static str {
    if part.is_empty() { "" } else { "in the middle " }
}

#[test]
fn a_server_that_sends_garbage() {
    ends_as(Kind::Server, "not HTTP/1.1", |stream| stream.send(b"\0\0\0 garbage\r\n\r\n"));
}

#[test]
fn a_server_whose_headers_never_end() {
    ends_as(Kind::Server, "an answer", |stream| {
        stream.send(b"HTTP/1.1 200 OK\r\n");
        while stream.send(b"Again: and again\r\n") {}
        false
    });
}

#[test]
fn a_server_whose_body_never_ends() {
    ends_as(Kind::Timeout, "in time: status 200 and not all of its body came", |stream| {
        stream.send(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.send(b"more") {
            std::thread::sleep(5 * MS);
        }
        false
    });
}

#[test]
fn a_server_that_says_more_than_it_was_asked() {
    ends_as(Kind::Server, "behind the end of its answer", |stream| {
        stream.send(&[NO_CONTENT, NO_CONTENT].concat())
    });
}

#[test]
fn a_server_that_closes_after_each_answer_costs_a_connection_and_no_request() {
    let server = Server::start(|stream| {
        stream.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall");
        false
    });
    let outcome = load(&plan(server.address, open(20.0, Duration::from_secs(1)), 8));
    let count = |kind| outcome.results.count(kind);
    assert_eq!(count(Kind::Succeeded) + count(Kind::Unsent), 20);
    assert!(outcome.reconnects > 0 && outcome.errors.commonest(1).is_empty());
}
