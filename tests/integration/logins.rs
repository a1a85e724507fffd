//! Who may log in to PostgreSQL through Weir, and what is thrown at it before that.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rig::postgres::{Auth, Cluster, PASSWORD, SUPERUSER, Setup as ClusterSetup};
use rig::tls::Certificate;
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::{put_query, put_sasl_initial};
use wire::postgres::startup::{put_start, put_tls_request};

/// Weir that knows nobody and asks the server.
fn weir(cluster: &Cluster, dir: &std::path::Path) -> Weir {
    let (certificate, key) = Certificate::new().write(dir);
    let (certificate, key, url) = (certificate.display(), key.display(), cluster.url());
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n\
         [postgres.tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\nrequired = false\n\
         [postgres.auth-query]\nuser = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n\
         query = \"SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\n\
         user = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n"
    );
    Setup::new().table(&table).start()
}

/// What Weir says to these bytes, up to where it closes.
fn told(weir: &Weir, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(weir.postgres).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket's option");
    stream.write_all(bytes).expect("it takes them");
    let mut said = Vec::new();
    // It may close with bytes of ours unread, which the kernel tells us as a reset.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

fn log_in(weir: &Weir, user: &str, password: &str, options: &str) -> Result<String, String> {
    let mut config = pg::Config::new();
    config.host(&weir.postgres.ip().to_string()).port(weir.postgres.port());
    config.user(user).password(password).dbname("postgres").options(options);
    let said = |error: pg::Error| {
        error.as_db_error().map_or(error.to_string(), |error| {
            format!("{} {}", error.code().code(), error.message())
        })
    };
    let mut client = config.connect(pg::NoTls).map_err(said)?;
    let row = client.query_one("SELECT current_user::text", &[]).map_err(said)?;
    Ok(row.get(0))
}

#[test]
fn users_that_only_the_server_knows_log_in_as_the_server_would_have_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    cluster.create_user("ann", "secret");
    cluster.sql(
        "CREATE ROLE old LOGIN PASSWORD 'secret' VALID UNTIL '2001-01-01';
         CREATE ROLE gone NOLOGIN PASSWORD 'secret';
         CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO public;
         CREATE TABLE trap.pg_authid AS
             SELECT 'ann'::name AS rolname, 'guessed'::text AS rolpassword;
         GRANT SELECT ON trap.pg_authid TO public",
    );
    let weir = weir(&cluster, dir.path());
    assert_eq!(log_in(&weir, "ann", "secret", ""), Ok("ann".to_owned()));
    // A client's own search_path has no say in what auth-query reads.
    let trap = "-c search_path=trap,pg_catalog";
    assert_eq!(log_in(&weir, "ann", "secret", trap), Ok("ann".to_owned()));
    for (user, password, options) in [
        ("ann", "guessed", trap),
        ("ann", "wrong", ""),
        ("old", "secret", ""),
        ("gone", "secret", ""),
        ("nobody", "secret", ""),
    ] {
        let said = format!("28P01 password authentication failed for user \"{user}\"");
        assert_eq!(log_in(&weir, user, password, options), Err(said));
    }
}

#[test]
fn what_is_thrown_at_it_before_the_login_is_refused_with_a_sqlstate() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    cluster.create_user("ann", "secret");
    let weir = weir(&cluster, dir.path());
    let start = |out: &mut Vec<u8>| put_start(out, 0, [("user", "ann"), ("database", "postgres")]);
    // Bytes that would be taken for what was said under encryption (CVE-2021-3935).
    let mut stuffed = Vec::new();
    put_tls_request(&mut stuffed);
    start(&mut stuffed);
    let said = told(&weir, &stuffed);
    assert!(said.starts_with('E') && said.contains("C08P01\0"), "{said:?}");
    for (nonce, why) in [(5000, "over the limit"), (600, "nonce is too long")] {
        let mut login = Vec::new();
        start(&mut login);
        let message = format!("n,,n=,r={}", "a".repeat(nonce));
        put_sasl_initial(&mut login, "SCRAM-SHA-256", message.as_bytes());
        let said = told(&weir, &login);
        assert!(said.contains("C08P01\0") && said.contains(why), "{said:?}");
    }
    let mut early = Vec::new();
    start(&mut early);
    put_query(&mut early, b"SELECT 1");
    let said = told(&weir, &early);
    assert!(said.contains("C08P01\0") && !said.contains("SELECT"), "{said:?}");
    // None of that has hurt it.
    assert_eq!(log_in(&weir, "ann", "secret", ""), Ok("ann".to_owned()));
}
