use std::net::IpAddr;

use units::secret::Secret;
use units::{Duration, Size};

use super::{
    AuthQuery, AuthRule, Commit, DatabaseSettings, From, Method, Mode, Settings, TlsSettings,
    UserSettings,
};

/// The smallest configuration that works.
const SMALLEST: &str = r#"
[[user]]
name = "ann"
password = "geheim"
[[backend]]
name = "a"
url = "postgresql://127.0.0.1:5432"
"#;

fn smallest() -> Settings {
    toml::from_str(SMALLEST).unwrap()
}

#[track_caller]
fn refused(settings: &Settings, words: &str) {
    let said = settings.validate().unwrap_err().to_string();
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_user_and_a_server_are_enough() {
    let settings = smallest();
    settings.validate().unwrap();
    assert!(settings.warnings().is_empty(), "{:?}", settings.warnings());
    assert_eq!(settings.listen, ["127.0.0.1:6432".parse().unwrap()]);
    assert_eq!((settings.mode, settings.unix_port()), (Mode::Transaction, 6432));
}

#[test]
fn one_address_needs_no_brackets() {
    let one: Settings =
        toml::from_str("listen = \"0.0.0.0:5432\"\nunix-sockets = \"/run\"").unwrap();
    let many: Settings =
        toml::from_str("listen = [\"0.0.0.0:5432\"]\nunix-sockets = [\"/run\"]").unwrap();
    assert_eq!(one, many);
    assert_eq!(one.unix_port(), 5432);
}

#[test]
fn what_cannot_work_is_refused_with_what_to_write() {
    refused(&Settings { listen: Vec::new(), ..smallest() }, "unix-sockets");
    refused(&Settings { user: Vec::new(), ..smallest() }, "nobody could log in");
    refused(&Settings { backend: Vec::new(), ..smallest() }, "[[postgres.backend]]");
    refused(&Settings { max_connections: 0, ..smallest() }, "max-connections: must be at least 1");
    refused(&Settings { max_message: Size::from_gib(2), ..smallest() }, "64KiB to 1GiB");
    refused(&Settings { unix_socket_mode: "rwx".into(), ..smallest() }, "write \"0770\"");
    refused(&Settings { unix_sockets: vec!["run".into()], ..smallest() }, "begin with /");
    let mut settings = smallest();
    settings.lanes.depth = 0;
    refused(&settings, "lanes.on = false");
    settings = smallest();
    settings.timeouts.login = Duration::from_secs(0);
    refused(&settings, "timeouts.login");
    settings = smallest();
    settings.pool.min_idle = 21;
    refused(&settings, "pool.size");
}

#[test]
fn names_are_there_once_and_fit_postgresql() {
    let user = |name: &str| UserSettings { name: name.into(), ..UserSettings::default() };
    let database = |name: &str| DatabaseSettings { name: name.into(), ..Default::default() };
    refused(&Settings { user: vec![user("a"), user("a")], ..smallest() }, "is there twice");
    refused(&Settings { user: vec![user(&"a".repeat(64))], ..smallest() }, "63 bytes");
    refused(&Settings { database: vec![database("")], ..smallest() }, "must not be empty");
    refused(&Settings { database: vec![database("pgbouncer")], ..smallest() }, "the console");
    let lone = DatabaseSettings { password: Secret::new("x"), ..database("a") };
    refused(&Settings { database: vec![lone], ..smallest() }, "without a user");
    let mut settings = smallest();
    settings.backend.extend(settings.backend.clone());
    refused(&settings, "is there twice");
}

#[test]
fn passwords_cross_a_network_by_tls_unless_it_is_said_otherwise() {
    let open = Settings { listen: vec!["0.0.0.0:5432".parse().unwrap()], ..smallest() };
    refused(&open, "allow-cleartext");
    let stated = Settings { allow_cleartext: true, ..open.clone() };
    stated.validate().unwrap();
    assert_eq!(stated.warnings().len(), 1);
    let tls = |required| {
        Some(TlsSettings { certificate: "c".into(), key: "k".into(), required, client_ca: None })
    };
    refused(&Settings { tls: tls(false), ..open.clone() }, "need not use TLS");
    let encrypted = Settings { tls: tls(true), ..open };
    encrypted.validate().unwrap();
    assert!(encrypted.warnings().is_empty());
}

#[test]
fn strangers_are_not_trusted_unless_it_is_said() {
    let rule = AuthRule::everyone(Method::Trust);
    let here = Settings { auth: vec![rule.clone()], user: Vec::new(), ..smallest() };
    here.validate().unwrap();
    let open = Settings {
        listen: vec!["[::]:6432".parse().unwrap()],
        allow_cleartext: true,
        ..here.clone()
    };
    refused(&open, "trust-strangers");
    for rule in [
        AuthRule { from: From::Local, ..rule.clone() },
        AuthRule { address: vec!["127.0.0.0/8".parse().unwrap()], ..rule.clone() },
        AuthRule { trust_strangers: true, ..rule.clone() },
    ] {
        Settings { auth: vec![rule], ..open.clone() }.validate().unwrap();
    }
    let rule = AuthRule { address: vec!["10.0.0.0/8".parse().unwrap()], ..rule };
    refused(&Settings { auth: vec![rule], ..open }, "lets whoever reaches the port");
}

#[test]
fn a_method_has_what_it_needs() {
    let with = |rule: AuthRule| Settings { auth: vec![rule], ..smallest() };
    refused(&with(AuthRule::everyone(Method::Cert)), "needs [postgres.tls]");
    let mut settings = with(AuthRule::everyone(Method::Cert));
    let (certificate, key) = ("c".into(), "k".into());
    settings.tls = Some(TlsSettings { certificate, key, required: true, client_ca: None });
    refused(&settings, "client-ca");
    let plus = AuthRule { from: From::Local, ..AuthRule::everyone(Method::ScramSha256Plus) };
    refused(&with(plus), "hostssl");
    let mut clear = with(AuthRule::everyone(Method::Password));
    clear.validate().unwrap();
    clear.listen = vec!["10.0.0.1:6432".parse().unwrap()];
    clear.allow_cleartext = true;
    clear.validate().unwrap();
    let query = AuthQuery { query: "SELECT 1".into(), ..AuthQuery::new("w") };
    refused(&Settings { auth_query: Some(query), ..smallest() }, "$1");
}

#[test]
fn rules_fit_as_those_of_pg_hba() {
    let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let rule = |text: &str| toml::from_str::<AuthRule>(text).unwrap();
    let everyone = rule("method = \"md5\"");
    assert!(everyone.fits(None, false, "d", "u") && everyone.fits(address("::1"), true, "d", "u"));
    let local = rule("from = \"local\"\nmethod = \"trust\"");
    assert!(local.fits(None, false, "d", "u") && !local.fits(address("::1"), false, "d", "u"));
    let ssl = rule("from = \"hostssl\"\nmethod = \"scram-sha-256-plus\"");
    assert!(ssl.fits(address("8.8.8.8"), true, "d", "u"));
    assert!(!ssl.fits(address("8.8.8.8"), false, "d", "u") && !ssl.fits(None, true, "d", "u"));
    let clear = rule("from = \"hostnossl\"\nmethod = \"reject\"");
    assert!(!clear.fits(address("8.8.8.8"), true, "d", "u"));
    let network = rule("address = [\"10.0.0.0/8\"]\nmethod = \"scram-sha-256\"");
    assert!(network.fits(address("10.1.2.3"), false, "d", "u"));
    assert!(
        !network.fits(address("11.1.2.3"), false, "d", "u") && !network.fits(None, false, "d", "u")
    );
    let named = rule("user = [\"a\", \"b\"]\ndatabase = [\"sameuser\", \"x\"]\nmethod = \"cert\"");
    assert!(named.fits(None, false, "x", "a") && named.fits(None, false, "b", "b"));
    assert!(!named.fits(None, false, "x", "c") && !named.fits(None, false, "a", "b"));
}

#[test]
fn a_user_comes_before_a_database_and_that_before_all() {
    let settings: Settings = toml::from_str(
        r#"
        [[user]]
        name = "old"
        mode = "session"
        [[database]]
        name = "jobs"
        dbname = "work"
        mode = "session"
        [[database]]
        name = "*"
        "#,
    )
    .unwrap();
    assert_eq!(settings.mode("any", "ann"), Mode::Transaction);
    assert_eq!(settings.mode("any", "old"), Mode::Session);
    assert_eq!(settings.mode("jobs", "ann"), Mode::Session);
    assert_eq!(settings.database("jobs").unwrap().server_name("jobs"), "work");
    assert_eq!(settings.database("other").unwrap().server_name("other"), "other");
    assert!(settings.has_database("other"));
    assert!(Settings::default().has_database("other"));
    let named = Settings { database: settings.database[..1].to_vec(), ..settings };
    assert!(!named.has_database("other"));
}

#[test]
fn secrets_are_never_printed() {
    let settings = smallest();
    assert!(!format!("{settings:?}").contains("geheim"));
    assert!(!serde_json::to_string(&settings).unwrap().contains("geheim"));
}

#[test]
fn who_cannot_log_in_is_named() {
    let warned = |settings: &Settings| settings.warnings().join("\n");
    let mut settings = smallest();
    settings.user[0].password = Secret::default();
    assert!(warned(&settings).contains("\"ann\" has no password"));
    settings.auth_query = Some(AuthQuery::new("weir"));
    assert_eq!(warned(&settings), "");
    let mut settings = smallest();
    settings.user[0].password = Secret::new("md53175bce1d3201d16594cebf9d7eb3f9d");
    assert_eq!(warned(&settings), "");
    settings.auth = vec![AuthRule::everyone(Method::ScramSha256)];
    assert!(warned(&settings).contains("md5 verifier"));
    settings.auth.push(AuthRule::everyone(Method::Md5));
    let said = warned(&settings);
    assert!(said.contains("number 1 fits every client") && said.contains("is weak"), "{said}");
}

#[test]
fn commits_are_shared_by_a_user_s_word_before_a_database_s() {
    let settings = |toml: &str| toml::from_str::<Settings>(toml).unwrap();
    let database = "[[database]]\nname = \"shop\"\ncommit = \"shared\"\n";
    let user = "[[user]]\nname = \"ann\"\npassword = \"x\"\ncommit = \"own\"\n";
    let both = settings(&format!("{database}{user}"));
    assert_eq!(both.commit("shop", "bob"), Commit::Shared);
    assert_eq!(both.commit("shop", "ann"), Commit::Own);
    assert_eq!(both.commit("other", "bob"), Commit::Own);
    assert!(both.shares_commits() && settings(database).shares_commits());
    assert!(!settings(user).shares_commits());
}

#[test]
fn a_client_that_keeps_its_server_connection_cannot_share_commits() {
    let database = |mode| {
        let name = "d".to_owned();
        DatabaseSettings { name, commit: Some(Commit::Shared), mode, ..DatabaseSettings::default() }
    };
    let with = |mode, of| Settings { mode, database: vec![database(of)], ..smallest() };
    refused(&with(Mode::Session, None), "needs mode = \"transaction\"");
    refused(&with(Mode::Transaction, Some(Mode::Session)), "needs mode = \"transaction\"");
    assert_eq!(with(Mode::Session, Some(Mode::Transaction)).validate(), Ok(()));
    let ann = UserSettings { commit: Some(Commit::Shared), ..smallest().user.remove(0) };
    let settings = Settings { mode: Mode::Session, user: vec![ann], ..smallest() };
    refused(&settings, "needs mode = \"transaction\"");
    let zero = Settings { commit_wait: Duration::from_secs(0), ..smallest() };
    refused(&zero, "commit-wait");
}
