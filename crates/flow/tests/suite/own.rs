//! A process that serves does not dial itself.

use std::time::Duration;

use flow::dial::{Address, Stage, Target};
use watch::metrics::Registry;

fn target(address: Address) -> Target {
    Target { address, tls: None, connect_timeout: Duration::from_secs(10) }
}

#[tokio::test]
async fn an_address_that_the_process_listens_on_is_refused_for_as_long_as_it_does() {
    flow::dial::watch(Duration::from_secs(60), &Registry::new()).unwrap();
    let listeners = flow::tcp::bind("0.0.0.0:0".parse().unwrap(), 2).unwrap();
    let port = listeners[0].address().port();
    for host in ["127.0.0.1", "127.0.0.7", "localhost"] {
        let there = target(Address::Tcp { host: host.to_owned(), port });
        let error = there.connect().await.unwrap_err();
        assert_eq!(error.stage, Stage::Own, "{error}");
        assert!(error.to_string().contains("name the server's own address"), "{error}");
    }
    drop(listeners);
    let other = tokio::net::TcpListener::bind(("0.0.0.0", port)).await.unwrap();
    let there = target(Address::Tcp { host: "127.0.0.1".to_owned(), port });
    there.connect().await.unwrap();
    drop(other);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _own = flow::unix::bind(&path, 0o700, 1).unwrap();
    let error = target(Address::Unix(path)).connect().await.unwrap_err();
    assert_eq!(error.stage, Stage::Own, "{error}");
}
