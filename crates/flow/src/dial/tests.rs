use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};

use super::*;
use crate::tls::{Check, ClientOptions, TlsError};

fn tcp(host: &str, port: u16) -> Target {
    let address = Address::Tcp { host: host.to_owned(), port };
    Target { address, tls: None, connect_timeout: Duration::from_secs(10) }
}

fn unix(path: &Path) -> Target {
    Target { address: Address::Unix(path.to_owned()), ..tcp("", 0) }
}

const UNCHECKED: ClientOptions<'_> =
    ClientOptions { ca: None, check: Check::Nothing, identity: None, protocols: &[] };

/// A port of this machine's, and who listens there.
async fn listening() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn what_is_wanting_here_is_told_from_what_is_wanting_there() {
    for (errno, stage) in [
        (Errno::MFILE, Stage::Exhausted),
        (Errno::NFILE, Stage::Exhausted),
        (Errno::ADDRNOTAVAIL, Stage::Exhausted),
        (Errno::NOMEM, Stage::Exhausted),
        (Errno::NOBUFS, Stage::Exhausted),
        (Errno::AGAIN, Stage::Exhausted),
        (Errno::CONNREFUSED, Stage::Refused),
        (Errno::CONNRESET, Stage::Reset),
        (Errno::TIMEDOUT, Stage::Late),
        (Errno::HOSTUNREACH, Stage::Unreachable),
        (Errno::NETUNREACH, Stage::Unreachable),
        (Errno::ACCESS, Stage::Unreachable),
    ] {
        assert_eq!(Stage::of(&errno.into()), stage, "{errno}");
        assert_eq!(stage.is_of_this_side(), stage == Stage::Exhausted);
    }
    assert_eq!(Stage::of_unix(&Errno::AGAIN.into()), Stage::Refused);
    assert_eq!(Stage::of_unix(&Errno::MFILE.into()), Stage::Exhausted);
    assert_eq!(Stage::of_lookup(&Errno::MFILE.into()), Stage::Exhausted);
    assert_eq!(Stage::of_lookup(&io::Error::other("no such name")), Stage::Name);
}

/// In a process of its own, since the others of this one need descriptors.
#[test]
fn a_process_without_descriptors_says_that_it_has_none() {
    const STARVED: &str = "FLOW_DIAL_TEST_STARVED";
    if std::env::var_os(STARVED).is_none() {
        let own = std::env::current_exe().unwrap();
        let name = "dial::tests::a_process_without_descriptors_says_that_it_has_none";
        let child = Command::new(own).args(["--exact", name]).env(STARVED, "1").output().unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (_listener, port) = listening().await;
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
        let error = tcp("127.0.0.1", port).connect().await.unwrap_err();
        assert_eq!(error.stage, Stage::Exhausted);
        assert_eq!(Errno::from_io_error(&error.source), Some(Errno::MFILE));
    });
}

#[tokio::test]
async fn each_address_of_a_name_is_tried() {
    // Most machines know `localhost` as [::1], too, where nobody listens.
    let (_listener, port) = listening().await;
    let socket = tcp("localhost", port).connect().await.unwrap();
    assert!(socket.is_in_clear() && !socket.is_tls());
    assert_eq!(socket.addresses().1, Some(([127, 0, 0, 1], port).into()));
}

/// A listener that answers nobody any more: as many wait for it as may.
fn full() -> (Vec<std::net::TcpStream>, socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let limit = Duration::from_millis(300);
    let connect = || std::net::TcpStream::connect_timeout(&address, limit).ok();
    (std::iter::from_fn(connect).collect(), socket, address)
}

#[tokio::test]
async fn an_address_that_says_nothing_does_not_hold_up_the_next() {
    let (_waiting, _full, silent) = full();
    let (listener, port) = listening().await;
    let good = SocketAddr::from(([127, 0, 0, 1], port));
    let begun = std::time::Instant::now();
    let stream = first_of(vec![silent, silent, good]).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), good);
    assert!(begun.elapsed() >= 2 * NEXT_ADDRESS, "each is tried in its turn");
    drop(listener);
    // What is told is what the last of them said, once all have said something.
    let error = first_of(vec![good, good]).await.unwrap_err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(first_of(Vec::new()).await.unwrap_err().is_none());
}

#[tokio::test]
async fn nobody_there_is_told_as_the_system_says_it() {
    let (listener, port) = listening().await;
    drop(listener);
    let error = tcp("127.0.0.1", port).connect().await.unwrap_err();
    assert_eq!(error.stage, Stage::Refused);
    assert_eq!(Errno::from_io_error(&error.source), Some(Errno::CONNREFUSED));
    let words = error.to_string();
    assert!(words.starts_with(&format!("127.0.0.1:{port}: ")), "{words}");

    let error = unix(Path::new("/nowhere/socket")).connect().await.unwrap_err();
    assert_eq!((error.stage, error.source.kind()), (Stage::Refused, io::ErrorKind::NotFound));
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_told_so() {
    // Longer than a label of a name may be, so that nobody is asked.
    let error = tcp(&"x".repeat(64), 1).connect().await.unwrap_err();
    assert_eq!(error.stage, Stage::Name, "{error}");
}

#[tokio::test]
async fn a_socket_of_this_machine_is_reached_and_never_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let target = unix(&path);
    let mut socket = target.connect().await.unwrap();
    assert!(!socket.is_in_clear() && socket.addresses() == (None, None));
    socket.write_all(b"?").await.unwrap();
    assert_eq!(listener.accept().await.unwrap().0.read_u8().await.unwrap(), b'?');

    let tls = Tls::new(&UNCHECKED, "localhost").unwrap();
    let error = target.start_tls(socket, &tls).await.unwrap_err();
    assert_eq!((error.stage, error.source.kind()), (Stage::Tls, io::ErrorKind::Unsupported));
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_fails_at_that_stage() {
    let (listener, port) = listening().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let tls = Some(Tls::new(&UNCHECKED, "localhost").unwrap());
    let error = Target { tls, ..tcp("127.0.0.1", port) }.connect().await.unwrap_err();
    assert_eq!(error.stage, Stage::Tls, "{error}");
}

#[tokio::test]
async fn the_deadline_is_over_the_protocols_own_words_too() {
    let (_listener, port) = listening().await;
    let target = Target { connect_timeout: Duration::from_millis(20), ..tcp("127.0.0.1", port) };
    let open = async {
        let mut socket = target.connect().await?;
        let _ = socket.read_u8().await;
        Ok(())
    };
    let error: DialError = target.in_time(open).await.unwrap_err();
    assert_eq!((error.stage, error.source.kind()), (Stage::Late, io::ErrorKind::TimedOut));
}

#[test]
fn what_no_certificate_could_be_for_is_refused() {
    assert!(matches!(Tls::new(&UNCHECKED, "my_server!"), Err(TlsError::Name(_))));
}

/// A server with a certificate of that name that it has signed itself, as an authority or not;
/// gives its port and the certificate.
async fn self_signed(name: &str, is_authority: bool) -> (u16, String) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    if is_authority {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let (listener, port) = listening().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that refuses the certificate goes away.
            let _ = acceptor.accept(stream).await;
        }
    });
    (port, certificate.pem())
}

#[tokio::test]
async fn a_certificate_that_is_refused_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.pem");
    let (authority, of_authority) = self_signed("one", true).await;
    let (plain, of_plain) = self_signed("two", false).await;
    let (_, of_former) = self_signed("two", true).await;
    for (port, trusted, words) in [
        (authority, &of_authority, Some("is a certificate of an authority (CA:TRUE)")),
        (plain, &of_authority, Some("name the certificate of its authority as `ca`")),
        (plain, &of_former, Some("name its present certificate as `ca`")),
        (plain, &of_plain, None),
    ] {
        std::fs::write(&ca, trusted).unwrap();
        let options = ClientOptions { ca: Some(&ca), check: Check::Name, ..UNCHECKED };
        let tls = Tls::new(&options, "localhost").unwrap();
        let target = tcp("127.0.0.1", port);
        let socket = target.connect_in_clear().await.unwrap();
        let said = target.start_tls(socket, &tls).await.err().map(|error| error.to_string());
        match (words, said) {
            (None, None) => {}
            (Some(words), Some(said)) => assert!(said.contains(words), "{said}"),
            (words, said) => panic!("{words:?}: {said:?}"),
        }
    }
}
