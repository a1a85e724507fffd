//! Clients of the same machine, over a Unix socket.
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use flow::endpoint::Endpoint;
use flow::limit::Limit;
use flow::progress::Timeouts;
use flow::stream::Stream;
use flow::unix::bind;
use flow::workers::{Drained, Workers};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watch::metrics::Registry;

const LONG: Duration = Duration::from_secs(60);

/// Peeks at a byte, then reads it and sends it back, with the client's user id.
async fn echo(mut stream: Stream) {
    let mut byte = [0];
    while stream.peek(&mut byte).await.is_ok_and(|n| n > 0) {
        assert_eq!(stream.read_u8().await.unwrap(), byte[0]);
        let uid = stream.peer_uid().unwrap();
        assert!(stream.is_unix());
        stream
            .write_all(&[byte[0], u8::from(uid == rustix::process::getuid().as_raw())])
            .await
            .unwrap();
    }
}

#[test]
fn clients_are_served_and_the_file_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".s.PGSQL.6432");
    // Left over by a process that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listeners = bind(&path, 0o700, 2).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(bind(&path, 0o700, 1).unwrap_err().to_string().contains("another program"));

    let registry = Registry::new();
    let endpoint = Endpoint::new("test", Limit::new(100), &Timeouts::default(), &registry);
    let listeners = Arc::new(Mutex::new(listeners));
    let body = move |worker: flow::Worker| async move {
        let listener = listeners.lock().pop().unwrap();
        endpoint.serve_unix(listener, &worker, echo).await.unwrap();
    };
    let workers = Workers::start(2, &registry, body).unwrap();
    let mut clients: Vec<_> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.set_read_timeout(Some(LONG)).unwrap();
        client.write_all(&[number as u8]).unwrap();
        let mut back = [0; 2];
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, [number as u8, 1]);
    }
    drop(clients);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let drained = runtime.block_on(workers.drain(LONG));
    assert_eq!(drained, Drained { cut: 0, panicked: 0, stuck: 0 });
    assert!(!path.exists());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    assert!(bind(&path, 0o700, 1).unwrap_err().to_string().contains("in the way"));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let long = dir.path().join("x".repeat(200));
    assert!(bind(&long, 0o700, 1).is_err());
}
