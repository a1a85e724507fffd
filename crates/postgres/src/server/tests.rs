use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use flow::dial::Address;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use wire::postgres::backend::{self, Status, tag};
use wire::postgres::{Refusal, sqlstate};

use super::{
    AskLimits, CancelKey, Conversation, DialError, Identity, QueryError, Server, ServerError,
    TalkError, cancel, dial,
};
use crate::auth::Credentials;
use crate::settings::{BackendSettings, TlsMode, TlsNegotiation};

const LIMITS: AskLimits = AskLimits { bytes: 1000, time: Duration::from_secs(10) };

/// A server that takes one connection and does as it is told.
async fn server<F: Future<Output = ()> + Send + 'static>(
    act: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { act(listener.accept().await.unwrap().0).await });
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
    Server::plain(address, Duration::from_secs(10))
}

/// The same under TLS of a kind.
fn under_tls(server: &Server, tls: TlsMode) -> Server {
    let url = format!("postgresql://{}", server.target.address);
    Server::new(&BackendSettings { tls, ..BackendSettings::new("a", &url) }).unwrap()
}

fn someone() -> Identity<'static> {
    Identity { user: "me", database: "db", parameters: &[], credentials: Credentials::None }
}

async fn read_some(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; 10_000];
    let count = stream.read(&mut bytes).await.unwrap();
    bytes.truncate(count);
    bytes
}

/// What a server says that trusts everyone.
fn welcome() -> Vec<u8> {
    let mut out = Vec::new();
    backend::put_authentication_ok(&mut out);
    backend::put_parameter_status(&mut out, b"server_version", b"15.4");
    backend::put_parameter_status(&mut out, b"TimeZone", b"UTC");
    backend::put_parameter_status(&mut out, b"TimeZone", b"Etc/UTC");
    backend::put_backend_key_data(&mut out, 7, b"abcd");
    backend::put_ready_for_query(&mut out, Status::Idle);
    out
}

#[tokio::test]
async fn what_a_server_says_at_the_start_is_kept() {
    let server = server(|mut stream| async move {
        let start = read_some(&mut stream).await;
        assert!(start.windows(13).any(|w| w == b"user\0me\0datab"));
        let mut said = welcome();
        backend::put_notification(&mut said, 1, b"c", b"p");
        // Byte by byte, as a network may.
        for byte in said {
            stream.write_all(&[byte]).await.unwrap();
        }
        let _ = stream.read(&mut [0]).await;
    });
    let dialled = dial(&server.await, someone()).await.unwrap();
    assert_eq!(dialled.parameter("server_version"), Some("15.4"));
    assert_eq!(dialled.parameter("TimeZone"), Some("Etc/UTC"));
    assert_eq!(dialled.key, Some(CancelKey { process_id: 7, secret: (*b"abcd").into() }));
    assert!(!dialled.socket.is_tls());
}

#[tokio::test]
async fn bytes_in_the_clear_behind_the_agreement_on_tls_end_it() {
    let server = server(|mut stream| async move {
        read_some(&mut stream).await;
        let mut said = b"S".to_vec();
        said.extend(welcome());
        stream.write_all(&said).await.unwrap();
        let _ = stream.read(&mut [0]).await;
    });
    let server = under_tls(&server.await, TlsMode::Prefer);
    assert!(matches!(dial(&server, someone()).await, Err(DialError::Injected { .. })));
}

#[tokio::test]
async fn direct_tls_with_a_server_that_agrees_on_no_protocol_is_given_up() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    for (protocol, is_taken) in [("", false), ("postgresql", true)] {
        let key = PrivateKeyDer::try_from(made.key_pair.serialize_der()).unwrap();
        let mut config = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols.extend((!protocol.is_empty()).then(|| protocol.into()));
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let server = server(|stream| async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            // A server of another protocol may take what comes for its own.
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(&welcome()).await;
            let _ = stream.read(&mut [0]).await;
        });
        let url = format!("postgresql://{}", server.await.target.address);
        let settings = BackendSettings {
            tls: TlsMode::Require,
            tls_negotiation: TlsNegotiation::Direct,
            ..BackendSettings::new("a", &url)
        };
        let dialled = dial(&Server::new(&settings).unwrap(), someone()).await;
        match is_taken {
            true => assert!(dialled.is_ok(), "{dialled:?}"),
            false => assert!(matches!(dialled, Err(DialError::NoAlpn { .. })), "{dialled:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let without = |mut stream: TcpStream| async move {
        read_some(&mut stream).await;
        stream.write_all(b"N").await.unwrap();
        if stream.read(&mut [0; 1000]).await.unwrap_or(0) > 0 {
            stream.write_all(&welcome()).await.unwrap();
        }
        let _ = stream.read(&mut [0]).await;
    };
    let strict = under_tls(&server(without).await, TlsMode::Require);
    let said = dial(&strict, someone()).await.unwrap_err();
    assert!(matches!(said, DialError::NoTls { .. }), "{said}");
    let lenient = under_tls(&server(without).await, TlsMode::Prefer);
    assert!(dial(&lenient, someone()).await.is_ok());
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = server(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let mut server = server.await;
    server.target.connect_timeout = Duration::from_millis(50);
    assert!(matches!(dial(&server, someone()).await, Err(DialError::TimedOut(_))));
}

#[tokio::test]
async fn what_a_server_refuses_is_told_in_its_words() {
    for (code, of_this_login) in [(sqlstate::UNDEFINED_DATABASE, true), ("57P03", false)] {
        let server = server(move |mut stream| async move {
            read_some(&mut stream).await;
            let mut said = Vec::new();
            Refusal::fatal(code, "no such thing").encode(&mut said);
            stream.write_all(&said).await.unwrap();
        });
        let error = dial(&server.await, someone()).await.unwrap_err();
        assert_eq!(error.is_of_this_login(), of_this_login);
        let words = error.to_string();
        for word in ["no such thing", code, "user me in database db"] {
            assert!(words.contains(word), "{words}");
        }
    }
}

#[tokio::test]
async fn garbage_is_an_error() {
    let garbage: [&[u8]; 6] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
        b"Z\0\0\0\x05I",
        b"R\0\0\0\x03",
        b"R\0\0\0\x08\0\0\0\0R\0\0\0\x08\0\0\0\0",
        b"R\0\0\0\x08\0\0\0\0K\0\0\0\x06\0\0",
    ];
    for bytes in garbage {
        let server = server(move |mut stream| async move {
            read_some(&mut stream).await;
            stream.write_all(bytes).await.unwrap();
        });
        let error = dial(&server.await, someone()).await.unwrap_err();
        assert!(matches!(error, DialError::Talk { .. } | DialError::Login { .. }), "{error}");
    }
    let endless = server(|mut stream| async move {
        read_some(&mut stream).await;
        let mut said = Vec::new();
        backend::put_authentication_ok(&mut said);
        for _ in 0..2000 {
            backend::put_parameter_status(&mut said, b"a", b"b");
        }
        let _ = stream.write_all(&said).await;
    });
    let error = dial(&endless.await, someone()).await.unwrap_err();
    let endless = matches!(error, DialError::Talk { source: TalkError::Endless, .. });
    assert!(endless, "{error}");
}

#[tokio::test]
async fn nobody_there_is_told_so() {
    let address = Address::Unix("/nowhere/.s.PGSQL.1".into());
    let server = Server::plain(address, Duration::from_secs(10));
    let error = dial(&server, someone()).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere") && error.contains("is PostgreSQL running"), "{error}");
}

#[tokio::test]
async fn a_cancel_request_carries_the_key() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let server = server(|mut stream| async move {
        tell.send(read_some(&mut stream).await).unwrap();
    });
    let key = CancelKey { process_id: 1, secret: (*b"wxyz").into() };
    cancel(&server.await, &key).await.unwrap();
    assert_eq!(told.await.unwrap(), b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01wxyz");
}

/// A conversation whose other end has said `said`.
async fn hearing(said: Vec<u8>) -> Conversation<tokio::io::DuplexStream> {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        far.write_all(&said).await.unwrap();
        let _ = far.read_to_end(&mut Vec::new()).await;
    });
    Conversation::new(near, Vec::new())
}

#[tokio::test]
async fn answers_are_rows_of_text() {
    let mut said = Vec::new();
    backend::put_row_description(&mut said, &[("a", 25), ("b", 25)]);
    backend::put_data_row(&mut said, [Some(&b"1"[..]), None]);
    backend::put_command_complete(&mut said, "SELECT 1");
    backend::put_ready_for_query(&mut said, Status::Idle);
    Refusal::error("42601", "no SQL").encode(&mut said);
    backend::put_ready_for_query(&mut said, Status::Idle);
    backend::put_data_row(&mut said, [Some(&[b'x'; 2000][..])]);
    let mut talk = hearing(said).await;
    let rows = talk.ask("SELECT 1, NULL", &[], LIMITS).await.unwrap();
    assert_eq!(rows, [[Some("1".to_owned()), None]]);
    let refused = talk.ask("SELEKT", &[], LIMITS).await;
    let Err(QueryError::Refused(ServerError { code, .. })) = refused else { panic!("{refused:?}") };
    assert_eq!(code, "42601");
    let long = talk.ask("SELECT repeat('x', 2000)", &[], LIMITS).await;
    assert!(matches!(long, Err(QueryError::TooLarge(1000))), "{long:?}");
}

#[tokio::test]
async fn what_is_no_answer_ends_the_conversation() {
    let late = AskLimits { time: Duration::from_millis(20), ..LIMITS };
    let silent = hearing(Vec::new()).await.ask("SELECT 1", &[], late).await;
    assert!(matches!(silent, Err(QueryError::TimedOut(_))));
    let copy = vec![tag::COPY_IN_RESPONSE, 0, 0, 0, 7, 0, 0, 0];
    let copy = hearing(copy).await.ask("COPY a FROM STDIN", &[], LIMITS).await;
    assert!(matches!(copy, Err(QueryError::Talk(TalkError::Unexpected(b'G')))));
    let mut fatal = Vec::new();
    Refusal::fatal(sqlstate::ADMIN_SHUTDOWN, "bye").encode(&mut fatal);
    let fatal = hearing(fatal).await.ask("SELECT 1", &[], LIMITS).await;
    assert!(matches!(fatal, Err(QueryError::Refused(_))));
}
