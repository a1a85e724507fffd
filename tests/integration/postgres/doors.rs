//! What Weir's door tells of who is behind it, before anybody has logged in.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use pg::NoTls;
use rig::postgres::{Auth, Cluster, PASSWORD, SUPERUSER, Setup as ClusterSetup, psql};
use rig::tls::Certificate;
use rig::wait;
use rig::weir::{Setup, Weir};
use wire::postgres::backend::Fields;
use wire::postgres::frame;
use wire::postgres::frontend::{put_password, put_sasl_initial, put_sasl_response};
use wire::postgres::startup::put_start;

use super::scene::{config, said, value};

/// A digest that only md5 can check.
const BOB: &str = "md5e1b4bcf0fca4d4fa5e9a1b1d2a1c1f8e";
/// A verifier of another number of iterations than those that Weir makes.
const EVE: &str = "SCRAM-SHA-256$10000:W22ZaJ0SNY7soEsUEjb6gQ==$\
                   WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                   wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

/// Weir in front of a cluster, with more lines in `[postgres]` and after it.
fn setup(cluster: &Cluster, lines: &str) -> Setup {
    let url = cluster.url();
    Setup::new().table(&format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n{lines}\n[[postgres.backend]]\nname = \"a\"\n\
         url = \"{url}\"\nuser = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n"
    ))
}

fn user(name: &str, password: &str) -> String {
    format!("[[postgres.user]]\nname = \"{name}\"\npassword = \"{password}\"\n")
}

/// A client that is not let in.
struct Stranger {
    stream: TcpStream,
    came: Vec<u8>,
    nonce: String,
}

/// What a client is asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    method: &'static str,
    salt: String,
    iterations: String,
}

impl Question {
    /// As far as it may not differ from one name to another.
    fn shape(&self) -> Self {
        Self { salt: "?".repeat(self.salt.len()), ..self.clone() }
    }
}

impl Stranger {
    fn come(weir: &Weir, user: &str, database: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(weir.postgres)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut start = Vec::new();
        put_start(&mut start, 0, [("user", user), ("database", database)]);
        stream.write_all(&start)?;
        Ok(Self { stream, came: Vec::new(), nonce: String::new() })
    }

    fn hear(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let Some(frame) = frame::next(&self.came, 1 << 20).map_err(io::Error::other)? {
                let (found, len) = ((frame.tag, frame.body.to_vec()), frame.whole.len());
                self.came.drain(..len);
                return Ok(found);
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.came.extend_from_slice(&more[..count]),
            }
        }
    }

    /// What it is asked, or what it hears in its place.
    fn question(&mut self) -> Result<Question, String> {
        let (tag, body) = self.hear().map_err(|error| error.to_string())?;
        let code = body.get(..4).map(|code| code[3]);
        let plain = |method| Question { method, salt: String::new(), iterations: String::new() };
        match (tag, code) {
            (b'R', Some(10)) => self.challenge(),
            (b'R', Some(5)) => Ok(plain("md5")),
            (b'R', Some(3)) => Ok(plain("password")),
            (b'E', _) => Err(error(&body)),
            other => Err(format!("{other:?}")),
        }
    }

    fn challenge(&mut self) -> Result<Question, String> {
        let mut out = Vec::new();
        put_sasl_initial(&mut out, "SCRAM-SHA-256", b"n,,n=,r=fyko+d2lbbFgONRv9qkxdawL");
        self.stream.write_all(&out).map_err(|error| error.to_string())?;
        let (tag, body) = self.hear().map_err(|error| error.to_string())?;
        if tag != b'R' {
            return Err(error(&body));
        }
        let text = String::from_utf8_lossy(&body[4..]).into_owned();
        let mut parts = text.splitn(3, ',');
        let mut part = || parts.next().unwrap_or_default()[2..].to_owned();
        self.nonce = part();
        Ok(Question { method: "scram", salt: part(), iterations: part() })
    }

    /// What it hears to a wrong password.
    fn guess(&mut self, asked: &Question) -> String {
        let mut out = Vec::new();
        match asked.method {
            "scram" => {
                let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
                let last = format!("c=biws,r={},p={proof}", self.nonce);
                put_sasl_response(&mut out, last.as_bytes());
            }
            _ => put_password(&mut out, b"md50123456789abcdef0123456789abcdef"),
        }
        self.stream.write_all(&out).expect("it is taken");
        match self.hear().expect("it is answered") {
            (b'E', body) => error(&body),
            (tag, _) => format!("let in, by {tag}"),
        }
    }
}

fn error(body: &[u8]) -> String {
    let fields = Fields::read(body).expect("an error");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{} {}", text(fields.code()), text(fields.message()))
}

fn asked(weir: &Weir, user: &str) -> Question {
    let mut stranger = Stranger::come(weir, user, "postgres").expect("it listens");
    stranger.question().expect("a question")
}

/// All that a stranger hears who guesses a password, without what is about the name alone.
fn heard(weir: &Weir, user: &str, database: &str) -> Result<(Question, String), String> {
    let mut stranger = Stranger::come(weir, user, database).expect("it listens");
    let asked = stranger.question()?;
    let refused = stranger.guess(&asked);
    Ok((asked.shape(), refused.replace(user, "?")))
}

/// Who somebody is on the server, by libpq.
fn by_psql(weir: &Weir, user: &str, password: &str) -> Result<String, String> {
    let (host, port) = (weir.postgres.ip(), weir.postgres.port());
    let dsn = format!("host={host} port={port} user={user} dbname=postgres");
    psql(&dsn, "SELECT current_user", &[("PGPASSWORD", password.as_ref())])
}

#[test]
fn a_password_in_the_file_is_asked_for_by_scram_where_there_is_no_rule() {
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    for name in ["ann", "eve"] {
        cluster.create_user(name, "secret");
    }
    let eve = cluster.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'eve'");
    let users = user("ann", "secret") + &user("bob", BOB) + &user("eve", &eve);
    let weir = setup(&cluster, &users).start();
    assert_eq!(asked(&weir, "ann").method, "scram");
    assert_eq!(asked(&weir, "eve").method, "scram");
    assert_eq!(asked(&weir, "bob").method, "md5", "there is nothing else to check it by");
    // The server is told the password itself, or what the client's login has given away.
    for name in ["ann", "eve"] {
        assert_eq!(by_psql(&weir, name, "secret"), Ok(name.to_owned()));
        let said = by_psql(&weir, name, "wrong").expect_err("it is wrong");
        assert!(said.contains("password authentication failed for user"), "{said}");
    }
}

#[test]
fn whoever_asks_for_a_name_does_not_hear_whether_it_is_in_the_file() {
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    let users = user("ann", "secret") + &user("bare", "");
    for rules in [
        "",
        "[[postgres.auth]]\nmethod = \"md5\"\n",
        "[[postgres.auth]]\nmethod = \"password\"\n",
        "[[postgres.auth]]\nuser = [\"ann\"]\nmethod = \"scram-sha-256\"\n",
        "[[postgres.auth]]\ndatabase = [\"postgres\"]\nmethod = \"scram-sha-256\"\n",
        "[[postgres.auth]]\nuser = [\"ann\"]\nmethod = \"scram-sha-256\"\n\
         [[postgres.auth]]\nmethod = \"reject\"\n",
    ] {
        let weir = setup(&cluster, &format!("{rules}{users}")).start();
        let known = heard(&weir, "ann", "postgres");
        let words = known.as_ref().map(|(_, words)| words.as_str());
        let wanted = "28P01 password authentication failed for user \"?\"";
        assert_eq!(words, Ok(wanted), "{rules}");
        for (name, database) in
            [("nobody", "postgres"), ("bare", "postgres"), ("ann", "nowhere"), ("no", "nowhere")]
        {
            assert_eq!(heard(&weir, name, database), known, "{rules}: {name} in {database}");
        }
    }
}

#[test]
fn names_that_are_not_in_the_file_are_asked_in_each_way_that_its_users_are() {
    let cluster = Cluster::start();
    let users = user("ann", "secret") + &user("bob", BOB) + &user("eve", EVE);
    let weir = setup(&cluster, &users).start();
    let of_file: BTreeSet<Question> =
        ["ann", "bob", "eve"].into_iter().map(|name| asked(&weir, name).shape()).collect();
    assert_eq!(of_file.len(), 3, "{of_file:?}");
    let unknown = (0..60).map(|n| asked(&weir, &format!("nobody{n}")).shape());
    assert_eq!(unknown.collect::<BTreeSet<_>>(), of_file);
    for name in ["nobody1", "nobody2", "ann", "eve"] {
        assert_eq!(asked(&weir, name), asked(&weir, name), "asked again, it is the same");
    }
}

#[test]
fn salts_are_the_same_after_a_restart() {
    let cluster = Cluster::start();
    let dir = tempfile::tempdir().expect("a directory");
    let file = format!("salt-file = {:?}\n", dir.path().join("salts"));
    let names = ["ann", "eve", "nobody"];
    let mut weir =
        setup(&cluster, &(file.clone() + &user("ann", "secret") + &user("eve", EVE))).start();
    let before = names.map(|name| asked(&weir, name));
    weir.kill();
    // Another user in the file changes none either.
    let users = user("ann", "secret") + &user("eve", EVE) + &user("bob", "other");
    let table = setup(&cluster, &(file + &users));
    weir.configure(|_| table);
    weir.start_again();
    let after = names.map(|name| asked(&weir, name));
    assert_eq!(after[..2], before[..2]);
    assert_eq!(after[2].salt, before[2].salt);
}

#[test]
fn users_of_a_server_are_asked_as_names_that_it_does_not_have() {
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    cluster.sql(
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE ann LOGIN PASSWORD 'secret';
         CREATE ROLE gone NOLOGIN PASSWORD 'secret';
         CREATE ROLE old LOGIN PASSWORD 'secret' VALID UNTIL '2001-01-01'",
    );
    let query = format!(
        "[postgres.auth-query]\nuser = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n{}",
        user("clerk", "secret")
    );
    let weir = setup(&cluster, &query).start();
    // It is asked for users of the file as well, so that time does not tell of them.
    asked(&weir, "clerk");
    let line = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir auth_query'";
    assert_eq!(cluster.value(line), "1");
    let known = heard(&weir, "ann", "postgres");
    assert!(known.is_ok());
    let long = "n".repeat(70);
    for (name, database) in [
        (&*long, "postgres"),
        ("nobody", "postgres"),
        ("gone", "postgres"),
        ("old", "nowhere"),
        ("clerk", "nowhere"),
    ] {
        assert_eq!(heard(&weir, name, database), known, "{name} in {database}");
    }
    // Who knows the password hears of the database.
    let nowhere = config(weir.postgres, "ann", "nowhere").password("secret").connect(NoTls);
    let said = said(&nowhere.map(drop).expect_err("there is none"));
    assert!(said.starts_with("3D000"), "{said}");
    drop(weir);
    // While the server can't be asked, nobody is told that there is no such user, nor who is in
    // the file.
    let failing = query.replace(&format!("\"{PASSWORD}\"\n"), "\"wrong\"\n");
    let weir = setup(&cluster, &failing).start();
    let known = heard(&weir, "ann", "postgres");
    assert!(known.as_ref().is_ok_and(|(_, said)| said.starts_with("57P03")), "{known:?}");
    for name in ["nobody", "clerk"] {
        assert_eq!(heard(&weir, name, "postgres"), known, "{name}");
    }
}

#[test]
fn direct_tls_without_alpn_is_refused_as_by_postgresql() {
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    cluster.create_user("ann", "secret");
    let (dir, own) = (tempfile::tempdir().expect("a directory"), Certificate::new());
    let (certificate, key) = own.write(dir.path());
    let tls = format!("[postgres.tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    let weir = setup(&cluster, &(tls + &user("ann", "secret"))).start();
    let heard = |protocols: &[&str]| {
        let mut stream = own.stream(weir.postgres, protocols)?;
        let mut start = Vec::new();
        put_start(&mut start, 0, [("user", "ann"), ("database", "postgres")]);
        stream.write_all(&start)?;
        let mut tag = [0];
        stream.read_exact(&mut tag).map(|()| tag[0])
    };
    assert_eq!(heard(&["postgresql"]).ok(), Some(b'R'));
    assert_eq!(heard(&["h2", "postgresql"]).ok(), Some(b'R'));
    for protocols in [&[][..], &["h2"], &["http/1.1", "h2"]] {
        let heard = heard(protocols);
        assert!(heard.is_err(), "{protocols:?}: {heard:?}");
    }
    // Asked for in the protocol's own words it needs none: libpq before 17 knows nothing of it.
    assert_eq!(by_psql(&weir, "ann", "secret"), Ok("ann".to_owned()));
}

#[test]
fn users_of_an_auth_query_reach_the_console_only_by_a_database_that_the_operator_names() {
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    // Whoever may make databases makes one of the console's name, and says there who may log in.
    cluster.sql("CREATE DATABASE weir");
    cluster.sql("CREATE DATABASE logins");
    for (database, password) in [("weir", "guessed"), ("logins", "secret")] {
        let mut client = config(cluster.address, SUPERUSER, database)
            .password(PASSWORD)
            .connect(NoTls)
            .expect("a database of its own");
        let made = format!(
            "CREATE TABLE public.logins AS SELECT name::text, '{password}'::text AS password
             FROM unnest(ARRAY['boss', 'weir', 'clerk']) AS name"
        );
        client.batch_execute(&made).expect("a table of logins");
    }
    let table = |more: &str| {
        format!(
            "[postgres.console]\nadmin-users = [\"boss\", \"chief\"]\n\
             [postgres.auth-query]\nuser = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n{more}\
             query = \"SELECT name, password FROM public.logins WHERE name = $1\"\n{}",
            user("chief", "secret")
        )
    };
    let enter = |weir: &Weir, user: &str, password: &str| {
        let console = config(weir.postgres, user, "weir").password(password).connect(NoTls);
        let mut console = console.map_err(|error| said(&error))?;
        value(&mut console, "SHOW VERSION").map(drop)
    };
    let wrong = |user| Err(format!("28P01 password authentication failed for user \"{user}\""));
    {
        let weir = setup(&cluster, &table("")).start();
        assert_eq!(enter(&weir, "boss", "guessed"), wrong("boss"));
        assert_eq!(enter(&weir, "boss", "secret"), wrong("boss"));
        assert_eq!(enter(&weir, "clerk", "guessed"), wrong("clerk"));
        assert_eq!(enter(&weir, "chief", "secret"), Ok(()));
    }
    let weir = setup(&cluster, &table("database = \"logins\"\n")).start();
    assert_eq!(enter(&weir, "boss", "guessed"), wrong("boss"));
    assert_eq!(enter(&weir, "boss", "secret"), Ok(()));
    assert_eq!(enter(&weir, "clerk", "secret"), Err("28000 not allowed".to_owned()));
    // Who names no database goes to the one of its own name.
    assert_eq!(enter(&weir, "weir", "secret"), Err("28000 not allowed".to_owned()));
}

#[test]
fn many_wrong_passwords_at_once_keep_nobody_out_and_no_worker() {
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    cluster.create_user("ann", "secret");
    // A second's work for each password.
    let slow = EVE.replace("$10000:", "$2000000:");
    let users = user("ann", "secret") + &user("eve", &slow);
    let rule = "[[postgres.auth]]\nmethod = \"password\"\n";
    let weir = setup(&cluster, &format!("{rule}{users}"))
        .top("workers = 1\nstall-limit = \"500ms\"")
        .start();
    let slowed = || weir.metrics().sum("weir_postgres_logins_slowed_total", &[]);
    std::thread::scope(|scope| {
        let strangers: Vec<_> = (0..12)
            .map(|n| {
                let name = if n < 6 { "eve" } else { "nobody" };
                let weir = &weir;
                scope.spawn(move || heard(weir, name, "postgres"))
            })
            .collect();
        wait::until("the first are refused late", wait::LONG, || slowed() > 0.0);
        assert_eq!(by_psql(&weir, "ann", "secret"), Ok("ann".to_owned()));
        for stranger in strangers {
            let (_, refused) = stranger.join().expect("no panic").expect("a question");
            assert_eq!(refused, "28P01 password authentication failed for user \"?\"");
        }
    });
    assert!(slowed() >= 6.0, "the first five are told at once");
    assert_eq!(weir.metrics().sum("weir_worker_stalls_total", &[]), 0.0, "{}", weir.log());
}
