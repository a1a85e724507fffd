//! A network that drops what a backend sends, and resets nothing.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rig::fake::Fake;
use rig::http::Connection;
use rig::network::{Silence, test_apart};
use rig::wait;
use rig::weir::Setup;

use crate::scene::{assert_points, point};

/// The limit in these tests, and when what waits must have ended: a busy machine looks late.
const LIMIT: Duration = Duration::from_secs(4);
const ENDED: Duration = Duration::from_secs(30);
const TOP: &str = "workers = 1\ntcp-user-timeout = \"4s\"";

fn port(fake: &Fake) -> u16 {
    let url = fake.url();
    url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("its URL ends in a port")
}

#[test]
fn points_are_sent_again_once_the_network_is_back() {
    test_apart(None, || {
        let fake = Fake::start("a", &["db"]);
        // Longer than the test: only the network's silence ends the request.
        let weir = Setup::new().top(TOP).backend_with("a", &fake.url(), "timeout = \"1h\"").start();
        assert_eq!(weir.write("db", &point(0)).status(), 204);
        weir.wait_delivered();
        let silence = Silence::of(port(&fake));
        let begun = Instant::now();
        assert_eq!(weir.write("db", &point(1)).status(), 204);
        wait::until("its connection has ended", ENDED, || {
            weir.metrics().sum("weir_server_connections_silent_total", &[]) >= 1.0
        });
        assert!(begun.elapsed() >= LIMIT, "{:?}", begun.elapsed());
        drop(silence);
        weir.wait_delivered();
        assert_points(&fake, 0, 2);
    });
}

#[test]
fn a_query_that_is_swallowed_goes_to_another_backend() {
    test_apart(None, || {
        let (a, b) = (Fake::start("a", &["db"]), Fake::start("b", &["db"]));
        let weir = Setup::new().top(TOP).backend("a", &a.url()).backend("b", &b.url()).start();
        let ask = || weir.query("SELECT v FROM load", &[("db", "db")]);
        assert_eq!(ask().header("x-weir-backend"), Some("a"));
        let _silence = Silence::of(port(&a));
        let begun = Instant::now();
        let answer = ask();
        let took = begun.elapsed();
        assert_eq!(answer.header("x-weir-backend"), Some("b"), "after {took:?}");
        assert!(took < ENDED, "{took:?}");
    });
}

/// A server that answers all but queries for points, and says when it has one of those.
fn thinking() -> (u16, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let (say, said) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let say = say.clone();
            thread::spawn(move || {
                let mut connection = Connection::over(stream);
                while let Ok(request) = connection.request() {
                    if request.text().contains("SELECT") {
                        let _ = say.send(());
                        thread::park();
                    }
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"results\":[{}]}";
                    let _ = connection.push(answer);
                }
            });
        }
    });
    (port, said)
}

#[test]
fn a_query_whose_backend_has_it_ends_in_a_silent_network() {
    test_apart(None, || {
        let (port, said) = thinking();
        let url = format!("http://127.0.0.1:{port}");
        let weir = Setup::new().top(TOP).backend("a", &url).start();
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let begun = Instant::now();
                (weir.query("SELECT v FROM load", &[("db", "db")]).status(), begun.elapsed())
            });
            said.recv_timeout(wait::LONG).expect("the backend has it");
            let _silence = Silence::of(port);
            let (status, took) = asking.join().expect("no panic");
            assert_eq!(status, 503, "after {took:?}");
            assert!(took < 2 * ENDED, "{took:?}");
        });
    });
}
