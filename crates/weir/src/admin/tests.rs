//! The admin port as its clients see it, over a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use watch::metrics::Registry;

use super::{CONNECTIONS_MAX, HEAD_BYTES_MAX, Settings, Sources, serve};

struct Port {
    address: std::net::SocketAddr,
    ready: Arc<AtomicBool>,
}

impl Port {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ready = Arc::new(AtomicBool::new(true));
        let registry = Registry::new();
        registry.counter("weir_things_total", "Things.", &[]).add(7);
        let is_ready = Arc::clone(&ready);
        let sources = Sources {
            registry,
            ready: Box::new(move || {
                let why = || "the journal is full".to_owned();
                is_ready.load(Ordering::Relaxed).then_some(()).ok_or_else(why)
            }),
            status: Box::new(|| json!({ "process": { "pid": 1 } })),
        };
        tokio::spawn(serve(listener, Arc::new(sources)));
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
        let request = format!("GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n");
        let answer = self.say(&request).await;
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, body.to_owned())
    }
}

#[tokio::test]
async fn metrics_are_there_for_prometheus() {
    let (status, body) = Port::open().await.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(body.contains("# TYPE weir_things_total counter\nweir_things_total 7\n"), "{body}");
}

#[tokio::test]
async fn health_is_about_the_process_and_ready_about_writes() {
    let port = Port::open().await;
    assert_eq!(port.get("/ready").await, (200, "{\"ready\":true}\n".to_owned()));
    port.ready.store(false, Ordering::Relaxed);
    let why = "{\"ready\":false,\"reason\":\"the journal is full\"}\n";
    assert_eq!(port.get("/ready").await, (503, why.to_owned()));
    assert_eq!(port.get("/health").await.0, 200);
}

#[tokio::test]
async fn status_is_json() {
    let (status, body) = Port::open().await.get("/status").await;
    assert_eq!((status, body.as_str()), (200, "{\"process\":{\"pid\":1}}\n"));
}

#[tokio::test]
async fn what_is_not_there_is_told_with_what_is() {
    let (status, body) = Port::open().await.get("/metric").await;
    assert_eq!(status, 404);
    assert!(body.contains("/metrics"), "{body}");
}

#[tokio::test]
async fn it_only_answers_questions() {
    let port = Port::open().await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request =
            format!("{method} /ready HTTP/1.1\r\nHost: weir\r\nContent-Length: 2\r\n\r\nxx");
        let answer = port.say(&request).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        assert!(answer.to_ascii_lowercase().contains("allow: get, head"), "{answer}");
    }
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let port = Port::open().await;
    let request = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(2 * HEAD_BYTES_MAX));
    let answer = port.say(&request).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_profile_of_nonsense_is_refused() {
    let port = Port::open().await;
    for seconds in ["0", "301", "x", "-1", ""] {
        let (status, body) = port.get(&format!("/debug/pprof/profile?seconds={seconds}")).await;
        assert_eq!(status, 400, "{body}");
    }
}

#[tokio::test]
async fn idle_connections_do_not_keep_others_out_of_memory_or_descriptors() {
    let port = Port::open().await;
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

#[test]
fn an_empty_address_is_no_port() {
    let settings = |listen: &str| Settings { listen: listen.to_owned() };
    assert_eq!(settings("").address(), Ok(None));
    assert!(settings("[::1]:8088").address().unwrap().is_some());
    assert!(settings("8088").address().is_err());
}
