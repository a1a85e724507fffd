//! A client's outlet, plain and encrypted, with clients that read at their leisure.
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flow::endpoint::Endpoint;
use flow::limit::Limit;
use flow::outlet::{Outlet, Together};
use flow::progress::Timeouts;
use flow::stream::Stream;
use flow::tcp::bind;
use flow::tls::{Check, ClientOptions, ServerTls, Settings, client_config};
use flow::workers::{Worker, Workers};
use parking_lot::Mutex;
use rustls::{ClientConnection, StreamOwned};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watch::metrics::Registry;

const LONG: Duration = Duration::from_secs(60);
const SPILL_MAX: usize = 64 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 249) as u8).collect()
}

/// Clients that are sent to together, and how much each is sent.
const MEMBERS: usize = 30;
const TOGETHER: usize = 3 << 20;

thread_local! {
    static GROUP: RefCell<Vec<Outlet>> = const { RefCell::new(Vec::new()) };
}

/// Sends each its bytes, by turns and in pieces of many sizes; the last is closed amid that.
fn send_together(group: &[Outlet]) {
    let all = pattern(TOGETHER);
    let mut sent = vec![0; group.len()];
    for turn in 0.. {
        let together = Together::begin();
        for step in 0..group.len() * 3 {
            // Some have several pieces in a row, some with others' between.
            let of = (step * 7 + step / 4) % group.len();
            let size = [1, 90, 3_000, 20_000, 9][(turn + step) % 5];
            let to = all.len().min(sent[of] + size);
            let middle = sent[of].midpoint(to);
            group[of].send(&all[sent[of]..middle]);
            group[of].send_parts(&[&all[middle..to], &[]]);
            sent[of] = to;
        }
        if turn == 20 {
            group[group.len() - 1].close();
        }
        drop(together);
        if sent.iter().all(|len| *len == all.len()) {
            return;
        }
    }
}

/// After `G` it is waited, without reading, until the client has gone; after `T` many clients are
/// sent to together; after `S` the connection
/// goes on encrypted; after a number of mebibytes so many are sent in
/// pieces of many sizes, all at once, and then the connection is closed.
async fn client(mut stream: Stream, tls: ServerTls) {
    let wish = stream.read_u8().await.unwrap();
    if wish == b'G' {
        let outlet = Outlet::new(stream, SPILL_MAX);
        outlet.progress().serving();
        return outlet.gone(std::time::Duration::from_millis(100)).await;
    }
    if wish == b'T' {
        let outlet = Outlet::new(stream, SPILL_MAX);
        outlet.progress().serving();
        GROUP.with_borrow_mut(|group| {
            group.push(outlet.clone());
            if group.len() == MEMBERS {
                send_together(&std::mem::take(group));
            }
        });
        return outlet.gone(std::time::Duration::from_millis(100)).await;
    }
    if wish == b'S' {
        stream.write_all(b"S").await.unwrap();
        let Ok(encrypted) = stream.start_tls(&tls).await else { return };
        stream = encrypted;
        assert!(stream.is_tls() && stream.server_certificate().is_some_and(|der| der[0] == 0x30));
        // Those that have one say so by ALPN here.
        assert_eq!(stream.client_certificate().is_some(), stream.alpn().is_some());
    }
    let outlet = Outlet::new(stream, SPILL_MAX);
    let mut asked = Vec::new();
    outlet.read(&mut asked).await.unwrap();
    assert_eq!(asked.len(), 1);
    outlet.progress().serving();
    let all = pattern(usize::from(asked[0]) << 20);
    let (mut from, mut size) = (0, 1);
    while from < all.len() {
        let to = all.len().min(from + size);
        let middle = from.midpoint(to);
        // As one piece, as several, and put together with those that are sent beside them.
        let send = || {
            outlet.send_parts(&[&all[from..middle], &[], &all[middle..to]]);
            outlet.send(b"");
        };
        match size % 3 {
            0 => outlet.gathered(|| outlet.gathered(send)),
            1 => {
                assert!(outlet.gather() && !outlet.gather());
                send();
                outlet.send_gathered();
                // Whoever did not begin it has nothing to end.
                outlet.send_gathered();
            }
            _ => send(),
        };
        (from, size) = (to, (size * 3 + 1) % 200_003);
    }
    outlet.drained(1 << 20).await;
    assert!(outlet.spilled() <= 1 << 20);
    outlet.finish().await;
}

fn serve(registry: &Registry, tls: ServerTls) -> (SocketAddr, Workers) {
    let listener = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let address = listener.address();
    let endpoint = Endpoint::new("test", Limit::new(1000), &Timeouts::default(), registry);
    let listener = Arc::new(Mutex::new(Some(listener)));
    let body = move |worker: Worker| async move {
        let listener = listener.lock().take().unwrap();
        let handle = move |stream, _| client(stream, tls.clone());
        endpoint.serve(listener, &worker, handle).await.unwrap();
    };
    (address, Workers::start(1, registry, body).unwrap())
}

fn server_tls() -> ServerTls {
    let dir = tempfile::tempdir().unwrap();
    let settings = certificate(dir.path());
    ServerTls::with_clients(&settings, &["postgresql"], Some(&settings.certificate)).unwrap()
}

fn certificate(dir: &Path) -> Settings {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let settings = Settings { certificate: dir.join("c.pem"), key: dir.join("k.pem") };
    std::fs::write(&settings.certificate, made.cert.pem()).unwrap();
    std::fs::write(&settings.key, made.key_pair.serialize_pem()).unwrap();
    settings
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

fn encrypt(stream: TcpStream) -> Encrypted {
    encrypt_as(stream, client_config(None, true).unwrap())
}

fn encrypt_as(mut stream: TcpStream, config: rustls::ClientConfig) -> Encrypted {
    stream.write_all(b"S").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    let connection =
        ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, stream)
}

/// Asks for `mebibytes` and reads them after a while.
fn read_late(mut client: impl std::io::Read + std::io::Write, mebibytes: u8) {
    client.write_all(&[mebibytes]).unwrap();
    client.flush().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut got = vec![0; usize::from(mebibytes) << 20];
    client.read_exact(&mut got).unwrap();
    assert!(got == pattern(got.len()));
    // The end may come without a goodbye, but there is nothing before it.
    assert!(!matches!(client.read(&mut [0]), Ok(1)));
}

fn end(registry: &Registry, workers: Workers) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let drained = runtime.block_on(workers.drain(LONG));
    assert_eq!((drained.cut, drained.panicked, drained.stuck), (0, 0, 0));
    assert!(registry.render().contains("weir_connections_panics_total{listener=\"test\"} 0"));
}

#[test]
fn all_that_was_sent_arrives_in_order() {
    let registry = Registry::new();
    let (address, workers) = serve(&registry, server_tls());
    for mebibytes in [1, 40] {
        let mut plain = connect(address);
        plain.write_all(b"P").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        read_late(plain, mebibytes);
        read_late(encrypt(connect(address)), mebibytes);
    }
    end(&registry, workers);
}

#[test]
fn what_is_sent_to_many_together_arrives_at_each_in_order() {
    let registry = Registry::new();
    let (address, workers) = serve(&registry, server_tls());
    let clients = (0..MEMBERS).map(|number| {
        let mut client = connect(address);
        client.write_all(b"T").unwrap();
        // The last to be served is one that is closed.
        std::thread::sleep(Duration::from_millis(if number + 2 >= MEMBERS { 50 } else { 0 }));
        std::thread::spawn(move || {
            if number % 3 == 0 {
                std::thread::sleep(Duration::from_millis(300));
            }
            let mut got = Vec::new();
            if number + 1 == MEMBERS {
                let _ = client.read_to_end(&mut got);
                assert!(got.len() < TOGETHER, "it was closed");
                assert!(pattern(TOGETHER).starts_with(&got));
            } else {
                got = vec![0; TOGETHER];
                client.read_exact(&mut got).unwrap();
                assert!(got == pattern(TOGETHER), "client {number}");
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    end(&registry, workers);
}

#[test]
fn a_client_s_certificate_is_seen_and_a_stranger_s_refused() {
    let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (settings, stranger) = (certificate(ours.path()), certificate(other.path()));
    let ca = Some(&*settings.certificate);
    let tls = ServerTls::with_clients(&settings, &["postgresql"], ca).unwrap();
    let registry = Registry::new();
    let (address, _workers) = serve(&registry, tls);
    let config = |identity| {
        let check = Check::Nothing;
        let identity = Some(identity);
        ClientOptions { ca: None, check, identity, protocols: &["postgresql"] }.config().unwrap()
    };
    read_late(encrypt_as(connect(address), config(&settings)), 1);
    let mut refused = encrypt_as(connect(address), config(&stranger));
    let _ = refused.write_all(&[1]).and_then(|()| refused.flush());
    assert!(!matches!(refused.read(&mut [0]), Ok(1)));
}

#[test]
fn a_client_that_goes_away_is_noticed_behind_what_it_sent() {
    let registry = Registry::new();
    let (address, workers) = serve(&registry, server_tls());
    let mut goes = connect(address);
    goes.write_all(b"Gand more that nobody reads").unwrap();
    let open = "weir_connections_open{listener=\"test\"} ";
    let until = |line: &str| {
        let deadline = std::time::Instant::now() + LONG;
        while !registry.render().contains(line) {
            assert!(std::time::Instant::now() < deadline, "{line}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&format!("{open}1"));
    std::thread::sleep(Duration::from_millis(300));
    assert!(registry.render().contains(&format!("{open}1")), "it stays while its client does");
    drop(goes);
    until(&format!("{open}0"));
    drop(workers);
}

#[test]
fn too_much_for_a_client_that_does_not_read_cuts_it_off() {
    let registry = Registry::new();
    let (address, workers) = serve(&registry, server_tls());
    let mut client = encrypt(connect(address));
    client.write_all(&[120]).unwrap();
    client.flush().unwrap();
    let cut = "weir_connections_slow_total{listener=\"test\",phase=\"spill\"} 1";
    let deadline = std::time::Instant::now() + LONG;
    while !registry.render().contains(cut) {
        assert!(std::time::Instant::now() < deadline, "{}", registry.render());
        std::thread::sleep(Duration::from_millis(5));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(workers.drain(LONG)).cut, 0, "its task was told");
}
