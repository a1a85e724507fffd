//! Logging in to real servers, by each of their methods and ways.

use std::path::Path;
use std::time::Duration;

use postgres::auth::Credentials;
use postgres::server::{
    AskLimits, Conversation, DialError, Dialled, Identity, Server, cancel, dial,
};
use postgres::settings::{BackendSettings, TlsMode};
use rig::postgres::{Auth, Cluster, PASSWORD, SUPERUSER, Setup};

const LIMITS: AskLimits = AskLimits { bytes: 1 << 20, time: Duration::from_secs(30) };

fn password(text: &str) -> Credentials {
    Credentials::Password(text.into())
}

async fn log_in(server: &Server, credentials: Credentials) -> Result<Dialled, DialError> {
    log_in_as(SUPERUSER, server, credentials).await
}

async fn log_in_as(
    user: &str,
    server: &Server,
    credentials: Credentials,
) -> Result<Dialled, DialError> {
    let parameters = [("search_path", "pg_catalog")];
    let database = SUPERUSER;
    dial(server, Identity { user, database, parameters: &parameters, credentials }).await
}

fn server(url: &str, tls: TlsMode, ca: Option<&Path>) -> Server {
    let ca = ca.map(Path::to_owned);
    Server::new(&BackendSettings { tls, ca, ..BackendSettings::new("a", url) }).expect("settings")
}

async fn ask(dialled: Dialled, sql: &str) -> String {
    let mut talk = Conversation::new(dialled.socket, dialled.rest);
    let rows = talk.ask(sql, &[], LIMITS).await.expect("an answer");
    rows[0][0].clone().unwrap_or_default()
}

#[tokio::test]
async fn each_method_lets_in_whoever_knows_the_password() {
    for auth in [Auth::Trust, Auth::Scram, Auth::Md5] {
        let cluster = Setup::new().auth(auth).start();
        let server = server(&cluster.url(), TlsMode::Prefer, None);
        let dialled = log_in(&server, password(PASSWORD)).await.expect("a login");
        assert!(dialled.parameter("server_version").is_some());
        assert!(dialled.key.is_some());
        assert_eq!(ask(dialled, "SHOW search_path").await, "pg_catalog");
        if auth != Auth::Trust {
            let wrong = log_in(&server, password("guess")).await.unwrap_err();
            assert!(matches!(wrong, DialError::Refused { .. }), "{wrong}");
            assert!(wrong.is_of_this_login());
            let none = log_in(&server, Credentials::None).await.unwrap_err();
            assert!(matches!(none, DialError::Login { .. }), "{none}");
        }
    }
}

#[tokio::test]
async fn tls_is_checked_as_is_asked() {
    let cluster = Setup::new().auth(Auth::Scram).tls().start();
    let dir = tempfile::tempdir().expect("a directory");
    let (ca, _) = cluster.certificate().expect("it takes TLS").write(dir.path());
    let ssl = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    for (tls, ca) in [
        (TlsMode::Prefer, None),
        (TlsMode::Require, None),
        (TlsMode::VerifyCa, Some(ca.as_path())),
        (TlsMode::VerifyFull, Some(ca.as_path())),
    ] {
        let dialled = log_in(&server(&cluster.url(), tls, ca), password(PASSWORD)).await;
        let dialled = dialled.unwrap_or_else(|error| panic!("{tls:?}: {error}"));
        assert!(dialled.socket.is_tls() && dialled.socket.server_certificate().is_some());
        assert_eq!(ask(dialled, ssl).await, "t");
    }
    let plain = server(&cluster.url(), TlsMode::Disable, None);
    let dialled = log_in(&plain, password(PASSWORD)).await.expect("a login");
    assert_eq!(ask(dialled, ssl).await, "f");

    // By another name, for which the certificate is not.
    let other = format!("postgresql://127.0.0.2:{}", cluster.address.port());
    cluster.sql("ALTER SYSTEM SET listen_addresses = '*'");
    let mut cluster = cluster;
    cluster.restart();
    let by_name = server(&other, TlsMode::VerifyFull, Some(&ca));
    let refused = log_in(&by_name, password(PASSWORD)).await.unwrap_err();
    assert!(matches!(refused, DialError::Tls { .. }), "{refused}");
    // By an authority that did not sign it.
    let dir = tempfile::tempdir().expect("a directory");
    let (strange, _) = rig::tls::Certificate::new().write(dir.path());
    let by_other = server(&cluster.url(), TlsMode::VerifyCa, Some(&strange));
    let refused = log_in(&by_other, password(PASSWORD)).await.unwrap_err();
    assert!(matches!(refused, DialError::Tls { .. }), "{refused}");
}

#[tokio::test]
async fn a_password_in_the_clear_goes_by_tls_and_unix_sockets_alone() {
    let cluster = Setup::new().auth(Auth::Password).tls().start();
    cluster.create_user("someone", "secret");
    let socket = format!("{}:{}", cluster.socket_dir().display(), cluster.address.port());
    for server in
        [server(&cluster.url(), TlsMode::Require, None), server(&socket, TlsMode::Require, None)]
    {
        log_in_as("someone", &server, password("secret")).await.expect("a login");
    }
    let plain = server(&cluster.url(), TlsMode::Disable, None);
    let refused = log_in_as("someone", &plain, password("secret")).await.unwrap_err();
    assert!(matches!(refused, DialError::Login { .. }), "{refused}");
}

#[tokio::test]
async fn a_statement_is_cancelled_by_its_key() {
    let cluster = Cluster::start();
    let server = server(&cluster.url(), TlsMode::Prefer, None);
    let dialled = log_in(&server, Credentials::None).await.expect("a login");
    let key = dialled.key.clone().expect("a key");
    let mut talk = Conversation::new(dialled.socket, dialled.rest);
    let sleeping = talk.ask("SELECT pg_sleep(60)", &[], LIMITS);
    let cancelling = async {
        let running = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
        while cluster.sql(running).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel(&server, &key).await.expect("it is taken");
    };
    let (asked, ()) = tokio::join!(sleeping, cancelling);
    let error = asked.unwrap_err().to_string();
    assert!(error.contains("57014"), "{error}");
    let sql = "SELECT $1::int + $2::int";
    let sum = talk.ask(sql, &[Some(b"1"), Some(b"2")], LIMITS).await.expect("an answer");
    assert_eq!(sum, [[Some("3".to_owned())]]);
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let cluster = Cluster::start();
    let mut server = server(&cluster.url(), TlsMode::Prefer, None);
    server.target.connect_timeout = Duration::from_millis(200);
    cluster.hang();
    let error = log_in(&server, Credentials::None).await.unwrap_err();
    assert!(matches!(error, DialError::TimedOut { .. }), "{error}");
    assert!(!error.is_of_this_login());
}
