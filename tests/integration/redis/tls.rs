//! TLS and Unix sockets, towards clients and towards servers.

use std::path::Path;

use rig::places;
use rig::redis::{Redis, RedisClient};
use rig::tls::Certificate;
use rig::wait;
use rig::weir::{Setup, Weir};

use super::scene::table;

/// A server that speaks TLS with this certificate, its `url` there, and a `ca` that knows it.
fn server(certificate: &Certificate, dir: &Path) -> (Redis, String) {
    let (pem, key) = certificate.write(dir);
    let [pem, key] = [&pem, &key].map(|path| path.to_str().unwrap());
    let port = places::free_address().port().to_string();
    let words = ["--tls-port", &port, "--tls-cert-file", pem, "--tls-key-file", key];
    let trust = ["--tls-ca-cert-file", pem, "--tls-auth-clients", "no"];
    let server = Redis::start_with(&[&words[..], &trust[..]].concat());
    let backend = format!("name = \"s0\"\nurl = \"rediss://127.0.0.1:{port}\"\nca = {pem:?}\n");
    (server, format!("[[redis.backend]]\n{backend}"))
}

/// Weir that shows its clients this certificate.
fn weir(certificate: &Certificate, lines: &str, backend: &str) -> Weir {
    let mut weir = Setup::new().prepare();
    let (pem, key) = certificate.write(&weir.dir());
    let tls = format!("[redis.tls]\ncertificate = {pem:?}\nkey = {key:?}\n{backend}");
    weir.configure(|setup| setup.table(&table(&[], lines, &tls)));
    weir.start_again();
    weir
}

/// A pipeline whose answers are its own.
fn pipelined(client: &mut RedisClient, count: usize) {
    for n in 0..count {
        client.send(format!("INCR n\r\nSET k{n} v{n}\r\nGET k{n}\r\n").as_bytes());
    }
    for n in 0..count {
        assert_eq!([client.hear(), client.hear()], [format!(":{}", n + 1), "+OK".to_owned()]);
        assert_eq!(client.hear(), format!("${} v{n}", n.to_string().len() + 1));
    }
}

#[test]
fn under_tls_on_both_sides_all_is_as_in_clear_text() {
    let (of_weir, of_server, dir) = (Certificate::new(), Certificate::new(), places::directory());
    let (server, backend) = server(&of_server, dir.path());
    let weir = weir(&of_weir, "", &backend);
    let client = || RedisClient::over_tls(weir.redis, &of_weir).unwrap();
    let [mut ann, mut bob, mut carl] = [client(), client(), client()];
    pipelined(&mut ann, 200);
    for size in [1 << 10, 300 << 10, 3 << 20] {
        let value = "x".repeat(size);
        assert_eq!(ann.ask(&["SET", "large", &value]), "+OK", "{size}");
        assert!(ann.ask(&["GET", "large"]) == format!("${size} {value}"), "{size}");
    }
    for (line, wanted) in [
        ("MULTI", "+OK"),
        ("INCR t", "+QUEUED"),
        ("HSET h f v", "+QUEUED"),
        ("EXEC", "*2 :1 :1"),
        ("BLPOP none 0.01", "*-1"),
    ] {
        assert_eq!(ann.line(line), wanted, "{line}");
    }
    assert!(bob.line("HELLO 3").starts_with("%7"));
    assert_eq!(bob.line("HGETALL h"), "%1 $1 f $1 v");
    assert_eq!(bob.line("SUBSCRIBE news"), ">3 $9 subscribe $4 news :1");
    assert_eq!(carl.line("SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
    assert!(ann.line("PUBLISH news hello").starts_with(':'));
    assert_eq!(bob.hear(), ">3 $7 message $4 news $5 hello");
    assert_eq!(carl.hear(), "*3 $7 message $4 news $5 hello");
    assert_eq!(bob.line("GET t"), "$1 1");
    assert_eq!(server.client().line("GET t"), "$1 1");
    // Whoever does not trust the certificate says nothing that Weir could hear.
    let stranger = RedisClient::over_tls(weir.redis, &of_server).unwrap().try_ask(&["PING"]);
    assert!(stranger.unwrap_err().to_string().contains("certificate"));
}

#[test]
fn clear_text_to_a_port_of_tls_is_closed_and_nobody_else_is_disturbed() {
    let certificate = Certificate::new();
    let server = Redis::start();
    let backend = format!("[[redis.backend]]\nname = \"s0\"\nurl = {:?}", server.url());
    let mut weir = weir(&certificate, "read-timeout = \"1s\"", &backend);
    let mut ann = RedisClient::over_tls(weir.redis, &certificate).unwrap();
    assert_eq!(ann.line("SET a 1"), "+OK");
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let cases: [&[u8]; 5] = [b"PING\r\n", b"*1\r\n$4\r\nPING\r\n", &[0; 64], &[0xff; 9000], hello];
    for bytes in cases {
        let mut stranger = RedisClient::connect(weir.redis);
        stranger.send(bytes);
        // What it may hear is an alert of TLS, which is not a reply.
        assert!(stranger.is_closed(), "{bytes:?}");
        assert_eq!(ann.line("GET a"), "$1 1");
    }
    wait::until("they are counted", wait::LONG, || {
        weir.metrics().sum("weir_connections_handshakes_failed_total", &[]) == 5.0
    });
    assert!(weir.running().ended().is_none());
    assert!(!weir.log().contains("panic"), "{}", weir.log());
    assert_eq!(RedisClient::over_tls(weir.redis, &certificate).unwrap().line("GET a"), "$1 1");
}

#[test]
fn a_server_whose_certificate_has_another_name_is_refused_by_that_name() {
    let (of_weir, dir) = (Certificate::new(), places::directory());
    let (server, backend) = server(&Certificate::of(&["elsewhere.example"]), dir.path());
    let weir = weir(&of_weir, "", &backend);
    let mut ann = RedisClient::over_tls(weir.redis, &of_weir).unwrap();
    let heard = ann.line("INCR n");
    assert!(heard.starts_with("-ERR weir: not sent: s0 cannot be reached: "), "{heard}");
    assert!(heard.contains("elsewhere.example") && heard.contains("127.0.0.1"), "{heard}");
    let status = weir.must_run(&["status"]);
    assert!(status.contains("elsewhere.example"), "{status}");
    assert_eq!(server.client().line("GET n"), "$-1");
}

#[test]
fn unix_sockets_carry_a_pipeline_on_either_side() {
    let dir = places::directory();
    let [of_weir, of_server] = ["weir.sock", "redis.sock"].map(|name| dir.path().join(name));
    let server = Redis::start_with(&["--unixsocket", of_server.to_str().unwrap()]);
    let backend = |url: &str| format!("[[redis.backend]]\nname = \"s0\"\nurl = {url:?}");
    let lines = format!("unix-sockets = {of_weir:?}");
    for url in [server.url(), of_server.to_str().unwrap().to_owned()] {
        let weir = Setup::new().table(&table(&[], &lines, &backend(&url))).start();
        for mut client in [RedisClient::over_unix(&of_weir).unwrap(), super::scene::client(&weir)] {
            pipelined(&mut client, 500);
            let value = "x".repeat(1 << 20);
            assert_eq!(client.ask(&["SET", "large", &value]), "+OK");
            assert!(client.ask(&["GET", "large"]) == format!("$1048576 {value}"));
            client.send(b"MULTI\r\nGET n\r\nEXEC\r\n");
            assert_eq!(
                [client.hear(), client.hear(), client.hear()],
                ["+OK", "+QUEUED", "*1 $3 500"]
            );
            assert_eq!(server.client().line("FLUSHALL"), "+OK");
        }
    }
}
