use std::io;
use std::path::Path;

use serde::Deserialize;
use units::draft::Conversion;

use super::{keys, pgbouncer};
use crate::settings::{ApplicationName, From, Method, Mode, Settings, TlsMode};

fn read(path: &Path) -> io::Result<String> {
    let text = match path.to_str().unwrap() {
        "/etc/pgbouncer/debian.ini" => include_str!("fixtures/debian.ini"),
        "/etc/pgbouncer/pooled.ini" => include_str!("fixtures/pooled.ini"),
        "/etc/pgbouncer/container.ini" => include_str!("fixtures/container.ini"),
        "/etc/pgbouncer/trusting.ini" => include_str!("fixtures/trusting.ini"),
        "/etc/pgbouncer/empty.ini" => include_str!("fixtures/empty.ini"),
        "/etc/pgbouncer/pg_hba.conf" => include_str!("fixtures/pooled_hba.conf"),
        "/etc/pgbouncer/userlist.txt" => include_str!("fixtures/userlist.txt"),
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    Ok(text.to_owned())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "tcp-user-timeout")]
    tcp_user_timeout: Option<units::Duration>,
    postgres: Settings,
}

/// The TOML and what it means, which must be a configuration that can be used.
#[track_caller]
fn migrated(name: &str) -> (String, Settings) {
    let text = pgbouncer(&Path::new("/etc/pgbouncer").join(name), &read).unwrap().toml;
    let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    if let Err(error) = file.postgres.validate() {
        panic!("{error}\n{text}");
    }
    (text, file.postgres)
}

#[test]
fn a_silent_server_is_waited_for_as_long_as_before() {
    let limit = |text: &str| {
        let read = |_: &Path| Ok(format!("[databases]\n* = host=10.0.0.1\n[pgbouncer]\n{text}"));
        let text = pgbouncer(Path::new("/p.ini"), &read).unwrap().toml;
        let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        file.tcp_user_timeout.map(|limit| limit.to_string())
    };
    assert_eq!(limit("tcp_user_timeout = 12500").as_deref(), Some("12500ms"));
    assert_eq!(limit("tcp_user_timeout = 5").as_deref(), Some("1s"), "no less than that");
    assert_eq!(limit("tcp_user_timeout = 0"), None, "as by default");
    assert_eq!(limit(""), None);
    assert!(migrated("pooled.ini").0.contains("\ntcp-user-timeout = \"12500ms\"\n"));
}

/// The comments as one text, without their line breaks.
fn comments(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn debians_own_file_goes_on_as_before() {
    let (text, settings) = migrated("debian.ini");
    assert_eq!(settings.listen.len(), 2);
    assert_eq!(settings.unix_sockets, [Path::new("/var/run/postgresql")]);
    assert_eq!(settings.mode, Mode::Session);
    assert_eq!(settings.user.len(), 4);
    assert!(settings.user[0].password.reveal().starts_with("md5"));
    assert_eq!(settings.user[3].name, "o\"hara");
    assert_eq!(settings.user[3].password.reveal(), "pass\"word");
    assert_eq!(settings.database("app").unwrap().dbname, "app_production");
    assert!(!settings.has_database("other"));
    assert_eq!(settings.backend[0].url, "/var/run/postgresql:5432");
    assert_eq!(settings.console.admin_users, ["postgres"]);
    assert!(settings.auth.is_empty() && settings.auth_query.is_none());
    assert!(comments(&text).contains("pidfile = /var/run/postgresql/pgbouncer.pid: the service"));
}

#[test]
fn limits_and_timeouts_keep_their_values() {
    let (_, settings) = migrated("pooled.ini");
    assert_eq!(settings.listen, ["0.0.0.0:6543".parse().unwrap()]);
    assert!(settings.unix_sockets.is_empty() && !settings.allow_cleartext);
    assert_eq!((settings.max_connections, settings.prepared_statements), (5000, 300));
    let pool = &settings.pool;
    assert_eq!((pool.size, pool.min_idle), (40, 5));
    assert_eq!((pool.max_per_database, pool.max_per_user), (200, 100));
    assert_eq!(pool.max_age.to_string(), "30m");
    assert_eq!(pool.idle_timeout.to_string(), "120500ms");
    assert_eq!(pool.login_retry.to_string(), "2s");
    assert_eq!(settings.timeouts.query_wait.to_string(), "30s");
    assert_eq!(settings.timeouts.idle_in_transaction.to_string(), "1m");
    assert_eq!(settings.timeouts.login.to_string(), "15s");
    assert_eq!(settings.max_message.to_string(), "16MiB");
    assert_eq!(settings.application_name, ApplicationName::ClientAndAddress);
    assert_eq!(settings.ignore_startup_parameters, ["extra_float_digits", "search_path"]);
    assert_eq!(settings.console.admin_users, ["dba", "root"]);
    assert_eq!(settings.console.stats_users, ["grafana"]);
    let tls = settings.tls.unwrap();
    assert!(tls.required && tls.client_ca.is_some());
    let query = settings.auth_query.unwrap();
    assert_eq!((query.user.as_str(), query.database.as_str()), ("pgbouncer", "postgres"));
    assert_eq!(query.password.reveal(), "sesame");
    assert!(settings.backend.iter().all(|backend| backend.password.reveal() == "sesame"));
    assert!(query.query.contains("pgbouncer.user_lookup($1)"));
}

#[test]
fn databases_and_users_keep_what_is_their_own() {
    let (text, settings) = migrated("pooled.ini");
    let orders = settings.database("orders").unwrap();
    assert_eq!(orders.pool_size, Some(50));
    let reports = settings.database("old reports").unwrap();
    assert_eq!((reports.user.as_str(), reports.password.reveal()), ("reports", "it's \"secret\""));
    assert_eq!((reports.mode, reports.max_server_connections), (Some(Mode::Session), Some(4)));
    assert_eq!(reports.settings["search_path"], "reports");
    assert_eq!(reports.settings["work_mem"], "64MB");
    let jobs = settings.database("jobs").unwrap();
    assert_eq!(jobs.settings["timezone"], "UTC");
    assert_eq!((jobs.min_idle, jobs.max_connections), (Some(2), Some(300)));
    assert_eq!(jobs.query_wait.unwrap().to_string(), "5s");
    assert_eq!(settings.mode("orders", "batch"), Mode::Session);
    let batch = settings.user("batch").unwrap();
    assert_eq!((batch.pool_size, batch.max_server_connections), (Some(3), Some(10)));
    assert_eq!(batch.query.unwrap().to_string(), "10m");
    assert!(batch.password.reveal().starts_with("SCRAM-SHA-256$"));
    assert_eq!(settings.user("ann").unwrap().max_connections, Some(7));
    let urls: Vec<_> = settings.backend.iter().map(|backend| backend.url.as_str()).collect();
    assert_eq!(urls, [11, 12, 13].map(|last| format!("postgresql://10.0.0.{last}:5432")));
    assert!(settings.backend.iter().all(|backend| backend.tls == TlsMode::VerifyFull));
    assert_eq!(settings.backend[0].connect_timeout.to_string(), "5s");
    let said = comments(&text);
    for words in [
        "reserve_pool=5 of database orders: lanes take the load",
        "connect_query=SELECT set_up() of database jobs: only SET",
        "reserve_pool_size=2 of user batch",
        "taken for one primary and its replicas",
        "PgBouncer sent orders_ro here.",
        "PgBouncer sent this to 10.0.0.12,10.0.0.13.",
        "so_reuseport = 1: Weir's workers do that",
        "[peers]: one process uses all cores",
        "made_up = 1: PgBouncer has no such key",
        "tcp_keepidle = 30",
    ] {
        assert!(said.contains(words), "{words}\n{text}");
    }
}

#[test]
fn a_rule_that_cannot_be_carried_over_rejects() {
    let (text, settings) = migrated("pooled.ini");
    let seen: Vec<_> = settings.auth.iter().map(|rule| (rule.from, rule.method)).collect();
    assert_eq!(
        seen,
        [
            (From::Local, Method::Peer),
            (From::Hostssl, Method::Reject),
            (From::Hostssl, Method::ScramSha256),
            (From::Hostssl, Method::Cert),
            (From::Host, Method::Trust),
            (From::Host, Method::Reject),
            (From::Hostnossl, Method::Reject),
        ]
    );
    assert_eq!(settings.auth[2].user, ["batch", "ann"]);
    assert!(settings.auth[2].address[0].contains("10.255.0.1".parse().unwrap()));
    assert!(comments(&text).contains("\"nonsense\" is not a rule"));
}

#[test]
fn a_container_has_one_entry_for_every_database() {
    let (text, settings) = migrated("container.ini");
    assert_eq!(settings.database("whatever").unwrap().server_name("whatever"), "whatever");
    assert_eq!(settings.backend[0].url, "postgresql://db.internal:5432");
    assert_eq!(settings.backend[0].tls, TlsMode::Require);
    assert_eq!(settings.auth_query.unwrap().user, "postgres");
    assert_eq!(settings.auth[0].method, Method::ScramSha256);
    // It let clients come without TLS; that stays, and is said.
    assert!(settings.allow_cleartext && comments(&text).contains("without TLS"));
    assert!(settings.console.admin_users == ["postgres"]);
}

#[test]
fn whom_pgbouncer_trusted_from_afar_is_not_trusted_here() {
    let (text, settings) = migrated("trusting.ini");
    assert_eq!(settings.listen, ["[::]:6432".parse().unwrap()]);
    assert!(settings.auth.iter().all(|rule| rule.is_of_this_machine() && !rule.trust_strangers));
    assert_eq!(
        (settings.mode, settings.pool.max_age.to_string()),
        (Mode::Transaction, "1s".into())
    );
    let urls: Vec<_> = settings.backend.iter().map(|backend| backend.url.as_str()).collect();
    assert_eq!(urls, ["postgresql://127.0.0.1:6000", "postgresql://[::1]:6001"]);
    let said = comments(&text);
    for words in [
        "trust-strangers = true",
        "pool_mode = statement refused transactions",
        "max_client_conn = 0: nobody could connect",
        "query_timeout = soon: this is not a number of seconds",
        "host=@abstract of database c",
        "database d: \"broken\" is not a connection string",
        "unix_socket_dir = @weir",
        "max_prepared_statements = 0",
    ] {
        assert!(said.contains(words), "{words}\n{text}");
    }
}

/// What is to be done about a file whose databases and settings these are.
fn to_do(databases: &str, settings: &str) -> String {
    let text = format!("[databases]\n{databases}\n[pgbouncer]\n{settings}\n");
    let read = |path: &Path| match path.to_str() {
        Some("/p.ini") => Ok(text.clone()),
        Some("/broken") => Ok("\"ann\" \"a\"\nbob\n".to_owned()),
        Some("/users") => Ok("\"ann\" \"a\"\n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let Conversion { toml, to_do } = pgbouncer(Path::new("/p.ini"), &read).unwrap();
    for words in &to_do {
        assert!(comments(&toml).contains(words.as_str()), "{words} is not in\n{toml}");
    }
    to_do.join("\n")
}

#[test]
fn what_would_not_serve_is_something_to_do() {
    let plain = "listen_addr = 127.0.0.1\nunix_socket_dir =\nauth_file = /users";
    assert_eq!(to_do("a = host=db", plain), "");
    assert_eq!(to_do("a = host=db\nb = host=copy dbname=a", plain), "", "copies of one another");
    for (databases, settings, words) in [
        ("a = host=one\nb = host=two", plain, "two:5432 shares no database with one:5432"),
        ("a = host=one\n* = host=two", plain, "give * a Weir of its own"),
        ("a = host=db\nb = broken", plain, "database b: \"broken\" is not a connection string"),
        ("a = host=@x", plain, "there are no abstract sockets"),
        ("a = host=/tmp", plain, "has its socket in /tmp"),
        ("", plain, "put in the real server"),
        ("a = host=db", "unix_socket_dir =\nauth_file = /gone", "/gone can't be read"),
        ("a = host=db", "auth_file = /broken", "the users behind it are missing"),
        ("a = host=db", "auth_type = trust", "the packaged unit has a /tmp of its own"),
        ("a = host=db", "auth_type = ldap", "auth_type = ldap: there is no such method"),
        ("a = host=db", "auth_type = hba", "every client is refused"),
        ("a = host=db", "auth_type = hba\nauth_hba_file = /gone", "run this where it can be"),
        ("a = host=db", "listen_addr = cache", "listen_addr cache: write the address"),
        ("a = host=db", "auth_user = bob", "write the password of bob"),
    ] {
        let told = to_do(databases, settings);
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn an_empty_file_becomes_one_to_fill_in() {
    let (text, settings) = migrated("empty.ini");
    assert_eq!(settings.unix_sockets, [Path::new("/tmp")]);
    assert_eq!(settings.user[0].name, "nobody");
    assert!(comments(&text).contains("put in the real server"));
    assert!(pgbouncer(Path::new("/nowhere.ini"), &read).is_err());
}

#[test]
fn every_key_becomes_a_key_that_exists() {
    let settings = serde_json::to_value(Settings::default()).unwrap();
    for (name, to) in keys::GATEWAY {
        if let keys::To::Count(path) | keys::To::Seconds(path) | keys::To::Words(path) = to {
            let pointer = format!("/{}", path.replace('.', "/"));
            assert!(settings.pointer(&pointer).is_some(), "{name} becomes {path}");
        }
    }
    let names: Vec<_> = keys::GATEWAY.iter().map(|(name, _)| *name).collect();
    assert!(names.is_sorted(), "in the order of the alphabet");
}

#[test]
fn every_key_is_in_the_guide() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pgbouncer.md");
    let guide = std::fs::read_to_string(&file).unwrap();
    let (begin, end) = ("<!-- keys -->\n", "<!-- end of keys -->\n");
    let (head, rest) = guide.split_once(begin).unwrap();
    let (written, tail) = rest.split_once(end).unwrap();
    let expected = tables();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, format!("{head}{begin}{expected}{end}{tail}")).unwrap();
    } else {
        assert!(
            written == expected,
            "docs/pgbouncer.md lags: UPDATE=1 cargo test -p weir-postgres"
        );
    }
}

fn tables() -> String {
    let mut text = String::new();
    for (title, place, keys) in [
        ("`[pgbouncer]`", "under `[postgres]`", keys::GATEWAY),
        ("`[databases]`, one line", "in `[[postgres.database]]`", keys::DATABASE),
        ("`[users]`, one line", "in `[[postgres.user]]`", keys::USER),
    ] {
        text += &format!("\n### {title}\n| PgBouncer | {place} |\n|---|---|\n");
        for (name, to) in keys {
            let becomes = match to {
                keys::To::Count(path) | keys::To::Seconds(path) | keys::To::Words(path) => {
                    format!("`{path}`")
                }
                keys::To::As(words) => (*words).to_owned(),
                keys::To::Nothing(why) => format!("none: {why}"),
            };
            text += &format!("| `{name}` | {becomes} |\n");
        }
    }
    text += "\n";
    text
}

/// A line that may be one of PgBouncer's.
const LINE: &str = "(\\[(databases|users|pgbouncer)\\]|[a-z_]{1,8} ?= ?.{0,30}|\
    (a|\\*) = host=[a-z,:/]{1,8} (port|pool_size|user|timezone)=.{1,6}|\
    (listen_addr|auth_type|pool_mode|query_timeout) = .{0,12})";

proptest::proptest! {
    #[test]
    fn no_file_panics_or_becomes_what_toml_cannot_read(
        lines in proptest::collection::vec(LINE, 0..12)
    ) {
        let text = lines.join("\n");
        let read = |_: &Path| Ok(text.clone());
        if let Ok(Conversion { toml, .. }) = pgbouncer(Path::new("x"), &read) {
            proptest::prop_assert!(toml::from_str::<toml::Table>(&toml).is_ok(), "{}", toml);
        }
    }
}
