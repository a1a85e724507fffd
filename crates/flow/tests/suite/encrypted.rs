//! TLS over real sockets, with certificates made for the test.
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::echo::{LONG, Server, read_to_close, round_trip, send};
use flow::progress::Timeouts;
use flow::tls::{ServerTls, Settings, TlsError, client_config};
use rustls::{ClientConnection, StreamOwned};

/// Writes a certificate for localhost and its key into `dir`.
fn certificate(dir: &Path) -> Settings {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let settings = Settings { certificate: dir.join("certificate.pem"), key: dir.join("key.pem") };
    std::fs::write(&settings.certificate, made.cert.pem()).unwrap();
    std::fs::write(&settings.key, made.key_pair.serialize_pem()).unwrap();
    settings
}

fn serve(tls: &ServerTls, timeouts: &Timeouts) -> Server {
    Server::start(2, 100, timeouts, |endpoint| endpoint.with_tls(Some(tls.clone())))
}

type Client = StreamOwned<ClientConnection, std::net::TcpStream>;

fn connect(server: &Server, ca: Option<&Path>, insecure: bool) -> std::io::Result<Client> {
    let config = client_config(ca, insecure).unwrap();
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut client = StreamOwned::new(connection, server.connect());
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock)?;
    }
    Ok(client)
}

#[test]
fn clients_that_trust_the_certificate_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let settings = certificate(dir.path());
    let tls = ServerTls::new(&settings, &["http/1.1"]).unwrap();
    let server = serve(&tls, &Timeouts::default());
    let mut client = connect(&server, Some(&settings.certificate), false).unwrap();
    round_trip(&mut client, b"secret\n");
    let mut client = connect(&server, None, true).unwrap();
    round_trip(&mut client, b"unchecked\n");

    assert!(client_config(Some(&dir.path().join("none.pem")), false).is_err());
    let failed = "weir_connections_handshakes_failed_total{listener=\"test\"}";
    assert_eq!(server.metric(failed), 0);
    let mut plain = server.connect();
    send(&mut plain, b"GET / HTTP/1.1\r\n\r\n");
    read_to_close(&mut plain);
    server.wait_for(failed, 1);
}

#[test]
fn a_stranger_s_certificate_is_refused() {
    let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tls = ServerTls::new(&certificate(ours.path()), &[]).unwrap();
    let server = serve(&tls, &Timeouts::default());
    let stranger = certificate(other.path());
    let refused = connect(&server, Some(&stranger.certificate), false);
    assert!(refused.err().unwrap().to_string().contains("certificate"));
}

#[test]
fn a_new_certificate_is_served_after_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let settings = certificate(dir.path());
    let tls = ServerTls::new(&settings, &[]).unwrap();
    let server = serve(&tls, &Timeouts::default());
    let mut before = connect(&server, Some(&settings.certificate), false).unwrap();
    let renewed = certificate(dir.path());
    assert!(connect(&server, Some(&renewed.certificate), false).is_err());
    tls.renew().unwrap().put_in_force();
    let mut after = connect(&server, Some(&renewed.certificate), false).unwrap();
    round_trip(&mut after, b"renewed\n");
    round_trip(&mut before, b"old connections go on\n");

    std::fs::write(&settings.key, "no key").unwrap();
    assert!(matches!(tls.renew(), Err(TlsError::File { .. })));
    let mut still = connect(&server, Some(&renewed.certificate), false).unwrap();
    round_trip(&mut still, b"the former stays\n");
}

#[test]
fn a_key_of_another_certificate_is_an_error() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = certificate(one.path());
    settings.key = certificate(two.path()).key;
    let error = ServerTls::new(&settings, &[]).unwrap_err();
    assert!(matches!(error, TlsError::Pair { .. }), "{error}");
    settings.certificate = one.path().join("none.pem");
    let error = ServerTls::new(&settings, &[]).unwrap_err();
    assert!(error.to_string().contains("none.pem"), "{error}");
}

#[test]
fn a_handshake_that_takes_too_long_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let tls = ServerTls::new(&certificate(dir.path()), &[]).unwrap();
    let timeouts = Timeouts { handshake: Duration::from_millis(200).into(), ..Timeouts::default() };
    let server = serve(&tls, &timeouts);
    let mut hangs = server.connect();
    hangs.write_all(&[0x16, 3, 1]).unwrap();
    assert_eq!(read_to_close(&mut hangs), b"");
    server.wait_for("weir_connections_handshakes_failed_total{listener=\"test\"}", 1);
    assert_eq!(server.drain(LONG).cut, 0);
}

#[test]
fn an_encrypted_answer_must_be_taken_too() {
    let dir = tempfile::tempdir().unwrap();
    let tls = ServerTls::new(&certificate(dir.path()), &[]).unwrap();
    let timeouts = Timeouts { write: Duration::from_millis(200).into(), ..Timeouts::default() };
    let server = serve(&tls, &timeouts);
    let mut client = connect(&server, None, true).unwrap();
    client.write_all(b"w\n").unwrap();
    client.flush().unwrap();
    server.wait_for("weir_connections_slow_total{listener=\"test\",phase=\"write\"}", 1);
    assert_eq!(server.drain(LONG).cut, 0);
}
