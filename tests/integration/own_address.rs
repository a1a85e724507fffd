//! A server whose address leads back to Weir itself: what it took in would go round for ever.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use rig::network::test_apart;
use rig::redis::RedisClient;
use rig::weir::{Setup, Weir};
use rig::{places, wait};

use crate::scene::{point, points};

/// What every start and every `weir check` says.
#[track_caller]
fn is_refused(weir: &Weir, name: &str) {
    let (code, log) = weir.start_in_vain();
    assert_eq!(code, Some(78), "{log}");
    assert!(log.contains(name) && log.contains("that is Weir's own"), "{log}");
    let checked = weir.command(&["check"]);
    assert!(!checked.status.success(), "{checked:?}");
    let told = String::from_utf8_lossy(&checked.stderr);
    assert!(told.contains("would come back for ever"), "{told}");
}

#[test]
fn a_backend_that_is_an_own_listener_is_refused_at_check_and_at_start() {
    let mut influx = Setup::new().prepare();
    let port = influx.http.port();
    influx.configure(|setup| setup.backend("a", &format!("http://localhost:{port}")));
    is_refused(&influx, "influx.backend \"a\"");

    let mut sql = Setup::new().prepare();
    let port = sql.postgres.port();
    sql.configure(|setup| {
        setup.table(&format!(
            "[postgres]\nlisten = \"{{postgres}}\"\n[[postgres.backend]]\nname = \"a\"\n\
             url = \"postgresql://localhost:{port}\""
        ))
    });
    is_refused(&sql, "postgres.backend \"a\"");

    let mut keys = Setup::new().prepare();
    let port = keys.redis.port();
    keys.configure(|setup| {
        setup.table(&format!(
            "[redis]\nlisten = \"{{redis}}\"\n[[redis.backend]]\nname = \"a\"\n\
             url = \"redis://localhost:{port}\""
        ))
    });
    is_refused(&keys, "redis.backend \"a\"");
}

/// An address that leads to this machine though it looks like none of its own: what is sent there
/// comes from another one.
fn disguise(address: &str) {
    let words = ["route", "replace", "local", address, "dev", "lo", "table", "local"];
    let mut command = Command::new(places::need("ip"));
    let status = command.args(words).args(["src", "127.0.0.1"]).status().expect("ip is run");
    assert!(status.success());
}

#[test]
fn a_connection_that_weir_has_dialled_to_itself_is_closed_and_said() {
    test_apart(None, || {
        disguise("10.9.9.9");
        let mut weir = Setup::new().embedded().prepare();
        let port = weir.redis.port();
        weir.configure(|setup| {
            setup.table(&format!(
                "[redis]\nlisten = \"0.0.0.0:{port}\"\nallow-cleartext = true\n\
                 [[redis.backend]]\nname = \"a\"\nurl = \"redis://10.9.9.9:{port}\""
            ))
        });
        weir.start_again();
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let heard = RedisClient::connect(at).line("GET a");
        assert!(heard.starts_with("-ERR weir: not sent"), "{heard}");
        wait::until("it is said", wait::LONG, || {
            let log = weir.log();
            log.contains("this Weir has dialled itself") || log.contains("an address of this Weir")
        });
        assert!(weir.command(&["status"]).status.success());
    });
}

/// Something that passes all bytes on, as a proxy does; it ends with the test's process.
fn passing_on(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        for from in listener.incoming().map_while(Result::ok) {
            let Ok(to) = TcpStream::connect(to) else { continue };
            for (mut from, mut to) in [(clone(&from), clone(&to)), (to, from)] {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    address
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("there are descriptors")
}

#[test]
fn a_write_that_comes_back_through_a_proxy_ends_there_and_is_kept() {
    let mut weir = Setup::new().embedded().prepare();
    let proxy = passing_on(weir.http);
    weir.configure(|setup| setup.backend("round", &format!("http://{proxy}")));
    weir.start_again();
    weir.query("CREATE DATABASE db", &[]);
    for n in 0..10 {
        assert_eq!(weir.write("db", &point(n)).status(), 204);
    }
    wait::until("it is said", wait::LONG, || {
        weir.account("round").last_error.contains("this Weir has sent that itself")
            || weir.account("round").last_error.contains("508")
    });
    let round = weir.account("round");
    assert_eq!((round.accepted, round.delivered, round.dead_lettered), (10, 0, 0), "{round:?}");
}

#[test]
fn a_write_that_comes_back_through_another_weir_ends_there_and_is_kept() {
    let (mut one, mut other) = (Setup::new().prepare(), Setup::new().embedded().prepare());
    let (to_one, to_other) = (format!("http://{}", one.http), format!("http://{}", other.http));
    one.configure(|setup| setup.backend("other", &to_other));
    other.configure(|setup| setup.backend("one", &to_one));
    other.start_again();
    other.query("CREATE DATABASE db", &[]);
    one.start_again();
    wait::until("a write is taken", wait::LONG, || one.write("db", &points(0, 1)).status() == 204);
    wait::until("the way back is refused", wait::LONG, || {
        let error = other.account("one").last_error;
        error.contains("this Weir has sent that itself") || error.contains("508")
    });
    assert!(one.account("other").accepted <= 2, "{:?}", one.account("other"));
}
