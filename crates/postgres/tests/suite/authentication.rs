//! Authentication against those who have the last word: libpq as the client, PostgreSQL as the
//! server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use postgres::auth::auth_query::{Lookup, Outcome, PARAMETERS};
use postgres::auth::{
    Ask, AuthStep, Binding, ChannelBinding, ClientAuth, Credentials, Login, LoginRules, LoginStep,
    Md5Verifier, Mock, Secret, Verifier,
};
use postgres::settings::{AuthQuery, Method};
use rig::postgres::{Auth, Cluster, SUPERUSER, Setup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use wire::postgres::backend::{self, Fields, Status, tag};
use wire::postgres::startup::{self, First, PACKET_BYTES_MAX};
use wire::postgres::{Refusal, frame};

const MAX: usize = 1 << 20;

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// One end of a connection.
struct Talk {
    stream: Box<dyn Stream>,
    came: Vec<u8>,
    /// The certificate that the other end showed.
    certificate: Option<Vec<u8>>,
}

impl Talk {
    fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), came: Vec::new(), certificate: None }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    fn more(&mut self) {
        let mut chunk = [0; 4096];
        let count = self.stream.read(&mut chunk).unwrap();
        assert!(count > 0, "the other end has closed");
        self.came.extend_from_slice(&chunk[..count]);
    }

    fn next(&mut self, max: usize) -> (u8, Vec<u8>) {
        loop {
            if let Some(frame) = frame::next(&self.came, max).unwrap() {
                let (tag, body, len) = (frame.tag, frame.body.to_vec(), frame.whole.len());
                self.came.drain(..len);
                return (tag, body);
            }
            self.more();
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A key and a certificate of that name, signed by itself.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    pem: String,
}

impl Identity {
    fn new(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let made = parameters.self_signed(&key).unwrap();
        let key = key.serialize_der().into();
        Self { pem: made.pem(), certificate: made.der().clone(), key }
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key().into()
    }
}

/// A connection to the cluster, under TLS or not.
fn connect(cluster: &Cluster, tls: bool, own: Option<&Identity>) -> Talk {
    let mut stream = TcpStream::connect(cluster.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    if !tls {
        return Talk::over(stream);
    }
    let mut request = Vec::new();
    startup::put_tls_request(&mut request);
    stream.write_all(&request).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let mut roots = RootCertStore::empty();
    let pem = std::fs::read(cluster.data().join("certificate.pem")).unwrap();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        Some(own) => config.with_client_auth_cert(vec![own.certificate.clone()], own.key()),
        None => Ok(config.with_no_client_auth()),
    };
    let name = ServerName::from(cluster.address.ip());
    let mut session = ClientConnection::new(Arc::new(config.unwrap()), name).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream).unwrap();
    }
    let certificate = session.peer_certificates().map(|chain| chain[0].to_vec());
    Talk { certificate, ..Talk::over(rustls::StreamOwned::new(session, stream)) }
}

/// Logs in and waits until the server is ready.
fn log_in(
    mut talk: Talk,
    user: &str,
    parameters: &[(&str, &str)],
    credentials: Credentials,
    rules: LoginRules,
) -> Result<Talk, String> {
    let mut out = Vec::new();
    let who = [("user", user), ("database", "postgres")];
    startup::put_start(&mut out, 0, who.into_iter().chain(parameters.iter().copied()));
    let mut login = Login::new(user, credentials, talk.certificate.as_deref()).rules(rules);
    loop {
        talk.send(&out);
        out.clear();
        let (tag, body) = talk.next(MAX);
        match tag {
            tag::AUTHENTICATION => match login.on(&body, &mut out) {
                LoginStep::More | LoginStep::Done => {}
                LoginStep::Derive(derivation) => {
                    login.derived(&derivation.run(), &mut out);
                }
                LoginStep::Failed(error) => return Err(error.to_string()),
            },
            tag::ERROR_RESPONSE => {
                let message = Fields::read(&body).unwrap().message().to_vec();
                return Err(String::from_utf8(message).unwrap());
            }
            tag::READY_FOR_QUERY => return Ok(talk),
            _ => {}
        }
    }
}

fn password(text: &str) -> Credentials {
    Credentials::Password(Secret::from(text))
}

const PREFER: LoginRules = LoginRules { cleartext: true, binding: Binding::Prefer };
const REQUIRE: LoginRules = LoginRules { cleartext: true, binding: Binding::Require };

/// A server with a user for each method, and all passwords `sécret`.
fn cluster(clients: &Identity) -> Cluster {
    let by = |kind: &str, method: &str| format!("{kind} all {method} 127.0.0.1/32 {method}");
    let cluster = Setup::new()
        .auth(Auth::Scram)
        .tls()
        .setting("ssl_ca_file", "clients.pem")
        .file("clients.pem", &clients.pem)
        .hba(&by("host", "md5"))
        .hba(&by("host", "password"))
        .hba(&by("hostssl", "cert"))
        .hba(&by("host", "trust"))
        .start();
    for user in ["scram", "password", "cert", "trust"] {
        cluster.create_user(user, "sécret");
    }
    cluster.sql("SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'sécret'");
    cluster
}

/// What the server has stored for a user.
fn stored(cluster: &Cluster, user: &str) -> Verifier {
    let query = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'");
    Verifier::parse(&cluster.value(&query))
}

#[test]
fn weir_logs_in_at_postgresql_by_every_method() {
    let clients = Identity::new("cert");
    let cluster = cluster(&clients);
    let login = |user: &str, credentials: Credentials, tls: bool, rules: LoginRules| {
        let own = (user == "cert").then_some(&clients);
        let talk = connect(&cluster, tls, own);
        log_in(talk, user, &[], credentials, rules).map(|_| ())
    };
    for tls in [false, true] {
        for user in ["scram", "md5", "password", "trust"] {
            assert_eq!(login(user, password("sécret"), tls, PREFER), Ok(()), "{user} {tls}");
        }
        for user in ["scram", "md5", "password"] {
            let said = login(user, password("wrong"), tls, PREFER).unwrap_err();
            let expected = format!("password authentication failed for user \"{user}\"");
            assert_eq!(said, expected);
            assert!(login(user, Credentials::None, tls, PREFER).unwrap_err().contains("asks"));
        }
        let digest = stored(&cluster, "md5").credentials().unwrap();
        assert_eq!(login("md5", digest, tls, PREFER), Ok(()));
    }
    assert_eq!(login("scram", password("sécret"), true, REQUIRE), Ok(()));
    assert_eq!(login("cert", Credentials::Certificate, true, PREFER), Ok(()));
    for (user, tls) in [("scram", false), ("md5", true), ("password", true), ("trust", true)] {
        let said = login(user, password("sécret"), tls, REQUIRE).unwrap_err();
        assert!(said.contains("channel binding"), "{user}: {said}");
    }
}

/// Serves one connection of libpq's: what it showed, or why it was refused.
fn serve(
    listener: &TcpListener,
    identity: &Identity,
    method: Method,
    verifier: Option<&Verifier>,
) -> Result<Credentials, Refusal> {
    let mut stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut packet = [0; PACKET_BYTES_MAX];
    let count = stream.peek(&mut packet).unwrap();
    let (first, len) = startup::parse(&packet[..count], PACKET_BYTES_MAX).unwrap().unwrap();
    let tls = first == First::Tls;
    let mut talk = if tls {
        stream.read_exact(&mut packet[..len]).unwrap();
        stream.write_all(b"S").unwrap();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate.clone()], identity.key())
            .unwrap();
        let session = ServerConnection::new(Arc::new(config)).unwrap();
        Talk::over(rustls::StreamOwned::new(session, stream))
    } else {
        Talk::over(stream)
    };
    let user = loop {
        match startup::parse(&talk.came, PACKET_BYTES_MAX).unwrap() {
            Some((First::Start(start), len)) => {
                let user = start.user().to_owned();
                talk.came.drain(..len);
                break user;
            }
            Some(other) => panic!("{other:?}"),
            None => talk.more(),
        }
    };
    let mock = Mock::new(b"seed");
    let binding = ChannelBinding::of(&identity.certificate).filter(|_| tls);
    let binding = binding.as_ref();
    let ask =
        Ask { method, user: &user, verifier, mock: &mock, there: None, binding, is_named: false };
    let shown = authenticate(&mut talk, ask);
    if shown.is_ok() {
        greet(&mut talk);
    }
    shown
}

fn authenticate(talk: &mut Talk, ask: Ask<'_>) -> Result<Credentials, Refusal> {
    let mut out = Vec::new();
    let (mut auth, mut step) = ClientAuth::begin(ask, &mut out);
    loop {
        if let AuthStep::Refused(refusal) = &step {
            refusal.encode(&mut out);
        }
        talk.send(&out);
        out.clear();
        step = match step {
            AuthStep::Done(credentials) => return Ok(credentials),
            AuthStep::Refused(refusal) => return Err(refusal),
            AuthStep::Prepare(derivation) | AuthStep::Derive(derivation) => {
                auth.derived(&derivation.run(), &mut out)
            }
            AuthStep::More => {
                let (tag, body) = talk.next(auth.message_bytes_max());
                assert_eq!(tag, b'p');
                auth.on(&body, &mut out)
            }
        };
    }
}

/// Lets a client in and answers its one statement.
fn greet(talk: &mut Talk) {
    let mut out = Vec::new();
    backend::put_authentication_ok(&mut out);
    backend::put_ready_for_query(&mut out, Status::Idle);
    talk.send(&out);
    assert_eq!(talk.next(MAX).0, b'Q');
    out.clear();
    backend::put_command_complete(&mut out, "SELECT 0");
    backend::put_ready_for_query(&mut out, Status::Idle);
    talk.send(&out);
}

/// libpq, by psql: whether it came in, and what it was told.
fn psql(listener: &TcpListener, password: &str, more: &str) -> Output {
    let port = listener.local_addr().unwrap().port();
    let target = format!("host=127.0.0.1 port={port} user=scram dbname=postgres {more}");
    let mut command = Command::new("psql");
    command.args(["-X", "-c", "SELECT", &target]).env("PGPASSWORD", password);
    command.output().expect("psql (Debian: postgresql-client) is needed here")
}

#[test]
fn libpq_logs_in_at_weir_and_its_key_logs_in_at_postgresql() {
    let cluster = cluster(&Identity::new("cert"));
    let identity = Identity::new("weir");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let verifier = stored(&cluster, "scram");
    let come = |given: &str, more: &str, method: Method, verifier: Option<&Verifier>| {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| psql(&listener, given, more));
            let shown = serve(&listener, &identity, method, verifier);
            (shown, client.join().unwrap())
        })
    };
    let ways = ["sslmode=disable", "sslmode=require", "sslmode=require channel_binding=require"];
    for way in ways {
        let (shown, client) = come("sécret", way, Method::ScramSha256, Some(&verifier));
        assert!(client.status.success(), "{way}: {client:?}");
        let credentials = shown.unwrap();
        assert!(matches!(credentials, Credentials::Scram(_)));
        // Weir has never seen the password.
        for (tls, rules) in [(false, PREFER), (true, REQUIRE)] {
            let talk = connect(&cluster, tls, None);
            assert!(log_in(talk, "scram", &[], credentials.clone(), rules).is_ok());
        }
    }
    let bound = Method::ScramSha256Plus;
    let (shown, _) = come("sécret", ways[2], bound, Some(&verifier));
    assert!(shown.is_ok());
    let digest = Verifier::Md5(Md5Verifier::make("scram", &Secret::from("sécret")));
    let others = [
        (Method::Md5, &digest),
        (Method::Md5, &verifier),
        (Method::Password, &digest),
        (Method::Password, &verifier),
    ];
    for (method, verifier) in others {
        let (shown, client) = come("sécret", ways[1], method, Some(verifier));
        assert!(shown.is_ok() && client.status.success(), "{method:?} {verifier:?}");
        let (shown, client) = come("secret", ways[1], method, Some(verifier));
        assert!(shown.is_err() && !client.status.success(), "{method:?} {verifier:?}");
    }
    // A wrong password and an unknown user are told the same, in PostgreSQL's words.
    let told = |verifier| {
        let (shown, client) = come("wrong", ways[0], Method::ScramSha256, verifier);
        assert_eq!(shown.unwrap_err().code, "28P01");
        String::from_utf8(client.stderr).unwrap()
    };
    assert_eq!(told(Some(&verifier)), told(None));
    assert!(told(None).ends_with("password authentication failed for user \"scram\"\n"));
}

#[test]
fn auth_query_honours_what_postgresql_does() {
    let cluster = cluster(&Identity::new("cert"));
    cluster.sql(
        "ALTER ROLE trust VALID UNTIL '2001-01-01'; ALTER ROLE cert NOLOGIN;
         ALTER ROLE scram VALID UNTIL 'infinity'; ALTER ROLE md5 VALID UNTIL '2999-01-01';
         CREATE ROLE bare LOGIN; CREATE SCHEMA trap;
         CREATE FUNCTION trap.is_later(timestamptz, timestamptz) RETURNS bool LANGUAGE sql
             AS 'SELECT true';
         CREATE OPERATOR trap.> (FUNCTION = trap.is_later,
             LEFTARG = timestamptz, RIGHTARG = timestamptz);
         ALTER ROLE postgres SET search_path = trap, pg_catalog",
    );
    let talk = connect(&cluster, false, None);
    let superuser = password(rig::postgres::PASSWORD);
    let mut talk = log_in(talk, SUPERUSER, &PARAMETERS, superuser, PREFER).ok().unwrap();
    let mut look = |user: &str, query: &str| {
        let mut out = Vec::new();
        let mut lookup = Lookup::begin(user, query, &mut out);
        talk.send(&out);
        loop {
            let (tag, body) = talk.next(MAX);
            if let Some(outcome) = lookup.on(tag, &body) {
                return outcome;
            }
        }
    };
    let usual = AuthQuery::new(SUPERUSER).query;
    // One that knows nothing of expiry, as most do.
    let careless = "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1";
    for query in [usual.as_str(), careless] {
        for user in ["scram", "md5"] {
            assert!(matches!(look(user, query), Outcome::Known(_)), "{user}");
        }
        for user in ["trust", "cert", "bare", "nobody", "", "' OR true --"] {
            assert!(matches!(look(user, query), Outcome::Unknown { .. }), "{user}");
        }
        let long = "scram".repeat(20);
        assert!(matches!(look(&long, query), Outcome::Unknown { .. }));
    }
    let own = "SELECT 'app', 'secret' WHERE $1 = 'app'";
    assert!(matches!(look("app", own), Outcome::Known(Verifier::Plain(_))));
    assert!(matches!(look("scram", "SELECT 1 FROM nowhere WHERE 'a' = $1"), Outcome::Failed(_)));
    assert!(matches!(look("scram", "SELECT $1::text"), Outcome::Failed(_)));
    assert!(matches!(look("scram", careless), Outcome::Known(_)));
}
