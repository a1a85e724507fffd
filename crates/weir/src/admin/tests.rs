//! The admin port as its clients see it, over a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use watch::metrics::Registry;

use super::Sources;
use super::port::{CONNECTIONS_MAX, HEAD_BYTES_MAX, Port};
use crate::config::admin::Settings;
use crate::page::VIEWERS_MAX;

struct TestPort {
    address: std::net::SocketAddr,
    ready: Arc<AtomicBool>,
}

impl TestPort {
    async fn open() -> Self {
        let settings = Settings { listen: "127.0.0.1:0".to_owned(), ..Settings::default() };
        Self::open_with(&settings).await
    }

    async fn open_with(settings: &Settings) -> Self {
        let port = Port::bind(settings).await.unwrap().unwrap();
        let address = port.address();
        let ready = Arc::new(AtomicBool::new(true));
        let registry = Registry::new();
        registry.counter("weir_things_total", "Things.", &[]).add(7);
        let is_ready = Arc::clone(&ready);
        let watched = crate::page::Sources {
            registry: registry.clone(),
            status: Box::new(|| json!({ "process": { "pid": 1 } })),
            expiries: Box::new(Vec::new),
            installation: Arc::default(),
        };
        let sources = Sources {
            page: crate::page::Page::start(None, watched).unwrap(),
            registry,
            ready: Box::new(move || {
                let why = || "the journal is full".to_owned();
                is_ready.load(Ordering::Relaxed).then_some(()).ok_or_else(why)
            }),
            status: Box::new(|| json!({ "process": { "pid": 1 } })),
        };
        tokio::spawn(port.serve(Arc::new(sources)));
        Self { address, ready }
    }

    /// Sends `request` and reads until the server closes.
    async fn say(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that has heard enough may close before everything is sent.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = self.say(&request).await;
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, body.to_owned())
    }
}

#[tokio::test]
async fn metrics_are_there_for_prometheus() {
    let (status, body) = TestPort::open().await.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(body.contains("# TYPE weir_things_total counter\nweir_things_total 7\n"), "{body}");
}

#[tokio::test]
async fn health_is_about_the_process_and_ready_about_writes() {
    let port = TestPort::open().await;
    assert_eq!(port.get("/ready").await, (200, "{\"ready\":true}\n".to_owned()));
    port.ready.store(false, Ordering::Relaxed);
    let why = "{\"ready\":false,\"reason\":\"the journal is full\"}\n";
    assert_eq!(port.get("/ready").await, (503, why.to_owned()));
    assert_eq!(port.get("/health").await.0, 200);
}

#[tokio::test]
async fn status_is_json() {
    let (status, body) = TestPort::open().await.get("/status").await;
    assert_eq!((status, body.as_str()), (200, "{\"process\":{\"pid\":1}}\n"));
}

#[tokio::test]
async fn what_is_not_there_is_told_with_what_is() {
    let (status, body) = TestPort::open().await.get("/metric").await;
    assert_eq!(status, 404);
    assert!(body.contains("/metrics"), "{body}");
}

#[tokio::test]
async fn it_only_answers_questions() {
    let port = TestPort::open().await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request =
            format!("{method} /ready HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nxx");
        let answer = port.say(&request).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        assert!(answer.to_ascii_lowercase().contains("allow: get, head"), "{answer}");
    }
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let port = TestPort::open().await;
    let request = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(2 * HEAD_BYTES_MAX));
    let answer = port.say(&request).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_profile_of_nonsense_is_refused() {
    let port = TestPort::open().await;
    for seconds in ["0", "301", "x", "-1", ""] {
        let (status, body) = port.get(&format!("/debug/pprof/profile?seconds={seconds}")).await;
        assert_eq!(status, 400, "{body}");
    }
}

#[tokio::test]
async fn idle_connections_do_not_keep_others_out_of_memory_or_descriptors() {
    let port = TestPort::open().await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        idle.push(TcpStream::connect(port.address).await.unwrap());
    }
    // One more waits in the kernel's queue, and is served as soon as another goes.
    let port = Arc::new(port);
    let asking = tokio::spawn({
        let port = Arc::clone(&port);
        async move { port.get("/health").await.0 }
    });
    idle.pop();
    assert_eq!(asking.await.unwrap(), 200);
}

#[tokio::test]
async fn probes_are_open_and_all_else_needs_the_token_and_its_own_name() {
    let settings = Settings {
        listen: "127.0.0.1:0".to_owned(),
        token: units::secret::Secret::new("tok"),
        ..Settings::default()
    };
    let port = TestPort::open_with(&settings).await;
    let ask = async |path: &str, host: &str, more: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close");
        port.say(&format!("{head}\r\n\r\n")).await
    };
    let token = "Authorization: Bearer tok\r\n";
    for path in ["/health", "/ready"] {
        assert!(ask(path, "evil.example", "").await.starts_with("HTTP/1.1 200 "), "{path}");
    }
    for path in ["/", "/metrics", "/status", "/nowhere"] {
        let answer = ask(path, "localhost", "").await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
        assert!(answer.to_lowercase().contains("www-authenticate: basic realm="), "{answer}");
        let answer = ask(path, "evil.example", token).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("hosts"), "{answer}");
    }
    assert!(ask("/metrics", "localhost", token).await.starts_with("HTTP/1.1 200 "));
    let profile = ask("/debug/pprof/profile?seconds=1", "localhost", token).await;
    assert!(profile.starts_with("HTTP/1.1 403 ") && profile.contains("admin = true"), "{profile}");
}

#[tokio::test]
async fn a_browser_gets_the_page_and_a_program_the_paths() {
    let port = TestPort::open().await;
    let ask = async |path: &str, more: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close");
        port.say(&format!("{head}\r\n\r\n")).await
    };
    let page = ask("/", "Accept: text/html,*/*\r\n").await;
    assert!(page.contains("<!doctype html>") && page.contains("default-src 'none'"), "{page}");
    assert!(ask("/", "Accept: */*\r\n").await.contains("/metrics"));
    assert!(ask("/help", "").await.contains("/metrics"));
    for (path, kind) in [("/page.js", "javascript"), ("/page.css", "css"), ("/uplot.js", "uPlot")] {
        let file = ask(path, "").await;
        assert!(file.starts_with("HTTP/1.1 200 ") && file.contains(kind), "{path}");
        let packed = ask(path, "Accept-Encoding: br, gzip\r\n").await;
        assert!(packed.contains("content-encoding: gzip"), "{path}");
        let refused = ask(path, "Accept-Encoding: gzip;q=0\r\n").await;
        assert!(!refused.contains("content-encoding"), "{path}");
    }
    let history = ask("/history?of=b", "").await;
    assert!(history.contains("\"events\":[") && history.contains("started"), "{history}");
}

#[tokio::test]
async fn so_many_viewers_are_served_and_the_next_hears_why_not() {
    let port = TestPort::open().await;
    let request = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut viewers = Vec::new();
    for _ in 0..VIEWERS_MAX {
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut heard = String::new();
        while !heard.contains("data: {") {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).await.unwrap();
            assert!(read > 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        viewers.push(stream);
    }
    let head =
        port.say("HEAD /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (status, body) = port.get("/live").await;
    assert!(status == 503 && body.contains("16 viewers"), "{status} {body}");
    assert_eq!(port.get("/health").await.0, 200);
}
