use std::time::{Duration, SystemTime};

use watch::table::Value;
use wire::postgres::{backend, frame};

use super::command::{Unreadable, parse};
use super::*;
use crate::connection::ServerState;
use crate::database::Totals;
use crate::settings::{Console, Settings};

fn settings() -> Console {
    let users = |name: &str| vec![name.to_owned()];
    Console { admin_users: users("root"), stats_users: users("grafana"), ..Console::default() }
}

fn seat(user: &str) -> Seat {
    Seat::admit(&settings(), user).unwrap()
}

/// What a client sees of an answer: tags, and the words of errors.
fn seen(mut bytes: &[u8]) -> String {
    let mut seen = Vec::new();
    while let Some(message) = frame::next(bytes, 1 << 20).unwrap() {
        bytes = &bytes[message.whole.len()..];
        seen.push(match message.tag {
            b'E' | b'N' => {
                let fields = backend::Fields::read(message.body).unwrap();
                let text = |letter| String::from_utf8_lossy(fields.get(letter).unwrap_or_default());
                format!("{}:{}:{}", char::from(message.tag), text(b'C'), text(b'M'))
            }
            b'C' => {
                let word = backend::command_complete(message.body).unwrap();
                format!("C:{}", String::from_utf8_lossy(word))
            }
            tag => char::from(tag).to_string(),
        });
    }
    assert!(bytes.is_empty());
    seen.join(" ")
}

fn asked(user: &str, sql: &str) -> (Answer, String) {
    let mut out = Vec::new();
    let answer = seat(user).on_query(sql.as_bytes(), &mut out);
    (answer, seen(&out))
}

#[test]
fn commands_are_read_as_by_pgbouncer() {
    let act = |action| Ok(Command::Act(action));
    let some = |name: &str| Some(name.to_owned());
    for (text, read) in [
        ("show pools", Ok(Command::Show(Show::Pools))),
        ("  SHOW\n\tPools ; ", Ok(Command::Show(Show::Pools))),
        ("SHOW \"pools\";", Ok(Command::Show(Show::Pools))),
        ("select version", Ok(Command::Show(Show::Version))),
        ("SHOW HELP", Ok(Command::Help)),
        ("", Ok(Command::Empty)),
        (" ;", Ok(Command::Empty)),
        ("show", Err(Unreadable::Syntax)),
        ("show pools; show pools", Err(Unreadable::Syntax)),
        ("show pools;;", Err(Unreadable::Syntax)),
        ("show pools -- now", Err(Unreadable::Syntax)),
        ("show pools now", Err(Unreadable::Syntax)),
        ("showpools", Err(Unreadable::Syntax)),
        ("show\"pools\"", Err(Unreadable::Syntax)),
        ("foo", Err(Unreadable::Syntax)),
        ("\"unended", Err(Unreadable::Syntax)),
        ("PAUSE", act(Action::Pause(None))),
        ("pause Db_1;", act(Action::Pause(some("Db_1")))),
        ("pause \"a \"\"b\"\" c\"", act(Action::Pause(some("a \"b\" c")))),
        ("resume x", act(Action::Resume(some("x")))),
        ("reconnect", act(Action::Reconnect(None))),
        ("kill x", act(Action::Kill(some("x")))),
        ("kill_client 17", act(Action::KillClient(17))),
        ("kill_client", Err(Unreadable::NoClient)),
        ("kill_client -1", Err(Unreadable::Syntax)),
        ("kill_client x", Err(Unreadable::NoClient)),
        ("kill_client 99999999999999999999", Err(Unreadable::NoClient)),
        ("disable x", act(Action::Disable("x".into()))),
        ("disable", Err(Unreadable::NoDatabase)),
        ("enable x", act(Action::Enable("x".into()))),
        ("reload", act(Action::Reload)),
        ("reload now", Err(Unreadable::Syntax)),
        ("wait_close x", act(Action::WaitClose(some("x")))),
        ("shutdown", act(Action::Shutdown(Wait::None))),
        ("shutdown WAIT_FOR_CLIENTS", act(Action::Shutdown(Wait::Clients))),
        ("shutdown wait_for_servers", act(Action::Shutdown(Wait::Servers))),
        ("shutdown now", Err(Unreadable::Syntax)),
        ("set client_encoding to 'UTF8'", Ok(Command::IgnoredSet)),
        ("SET DateStyle='ISO, MDY';", Ok(Command::IgnoredSet)),
        ("set timezone = utc", Ok(Command::IgnoredSet)),
        ("set", Err(Unreadable::Syntax)),
        ("set a", Err(Unreadable::Syntax)),
        ("set a =", Err(Unreadable::Syntax)),
        ("set a = 'b", Err(Unreadable::Syntax)),
        ("show client_encoding", Ok(Command::ShowSetting("client_encoding", "UTF-8"))),
    ] {
        assert_eq!(parse(text), read, "{text:?}");
    }
    assert!(matches!(parse("suspend"), Ok(Command::NotHere(_))));
    assert!(matches!(parse("show fds"), Ok(Command::NotHere(_))));
    assert!(matches!(parse("set pool_mode = 'session'"), Ok(Command::NotHere(_))));
    assert_eq!(parse(&format!("pause {}", "a".repeat(64))), Err(Unreadable::Syntax));
}

#[test]
fn who_may_look_may_not_act() {
    // CVE-2026-6667 was one command that forgot to ask.
    for command in [
        "PAUSE",
        "PAUSE x",
        "RESUME",
        "RESUME x",
        "RECONNECT",
        "RECONNECT x",
        "KILL",
        "KILL x",
        "KILL_CLIENT 1",
        "KILL_CLIENT x",
        "DISABLE x",
        "DISABLE",
        "ENABLE x",
        "RELOAD",
        "SHUTDOWN",
        "SHUTDOWN WAIT_FOR_CLIENTS",
        "SHUTDOWN WAIT_FOR_SERVERS",
        "SUSPEND",
        "WAIT_CLOSE",
        "WAIT_CLOSE x",
        "SHOW FDS",
        "SET pool_mode = 'session'",
    ] {
        let refused = (Answer::Whole, "E:42501:admin access needed Z".to_owned());
        assert_eq!(asked("grafana", command), refused, "{command}");
        assert_ne!(asked("root", command).1, refused.1, "{command}");
    }
    for (name, table) in Show::ALL {
        for user in ["root", "grafana"] {
            let answer = asked(user, &format!("SHOW {name}"));
            assert_eq!(answer, (Answer::Show(table), String::new()), "{name}");
        }
    }
}

#[test]
fn nobody_else_gets_in() {
    for user in ["ann", "", "Root", "pgbouncer"] {
        let refused = Seat::admit(&settings(), user).unwrap_err();
        assert_eq!((&*refused.code, refused.message.as_str()), ("28000", "not allowed"));
    }
    assert!(Seat::admit(&Console::default(), "postgres").is_err());
}

#[test]
fn answers_are_whole() {
    let whole = |sql: &str| asked("grafana", sql).1;
    assert_eq!(whole("SHOW HELP"), "N:00000:Console usage C:SHOW Z");
    assert_eq!(whole("show timezone"), "T D C:SHOW Z");
    assert_eq!(whole("set timezone to 'UTC'"), "N:00000:SET ignored C:SET Z");
    assert_eq!(whole(";"), "I Z");
    assert_eq!(whole("foo"), "E:42601:invalid command 'foo', use SHOW HELP; Z");
    assert_eq!(asked("root", "disable").1, "E:42601:a database is required Z");
    assert_eq!(asked("root", "pause weir").1, "E:55000:cannot pause admin db: weir Z");
    let mut out = Vec::new();
    assert_eq!(seat("root").on_query(b"pause \xff", &mut out), Answer::Whole);
    assert_eq!(seen(&out), "E:42601:invalid command '?', use SHOW HELP; Z");
}

#[test]
fn an_action_ends_in_pgbouncers_words() {
    let done = |action: Action, outcome| {
        let mut out = Vec::new();
        action.done(outcome, &mut out);
        seen(&out)
    };
    assert_eq!(done(Action::Pause(None), Ok(())), "C:PAUSE Z");
    assert_eq!(
        done(Action::Resume(None), Err(ActionError::NotPaused)),
        "E:55000:pooler is not paused/suspended Z"
    );
    assert_eq!(
        done(Action::Kill(None), Err(ActionError::NoSuchDatabase("x".into()))),
        "E:3D000:no such database: x Z"
    );
    assert_eq!(
        done(Action::Reload, Err(ActionError::NotReloaded)),
        "E:F0000:RELOAD failed, see logs for additional details Z"
    );
}

fn pool(user: &str, clients_active: u64, wait_ms: u64) -> PoolRow {
    PoolRow {
        database: "d".into(),
        user: user.into(),
        clients_active,
        wait_max: Duration::from_millis(wait_ms),
        ..PoolRow::default()
    }
}

#[test]
fn workers_parts_add_up() {
    let part = |clients, wait_ms| Snapshot {
        pools: vec![pool("a", clients, wait_ms)],
        totals: vec![("d".into(), Totals { queries: 5, ..Totals::default() })],
        plans: vec![PlanRow { database: "d".into(), kind: "read", reason: "", statements: 3 }],
        login_clients: 1,
        ..Snapshot::default()
    };
    let mut whole = part(2, 1500);
    whole.merge(part(3, 200));
    whole.merge(Snapshot { pools: vec![pool("b", 1, 0)], ..Snapshot::default() });
    let settings = Settings::default();
    let pools = Show::Pools.table(&whole, &settings);
    assert_eq!(pools.rows().len(), 2);
    assert_eq!(pools.cell(0, "cl_active"), Some(&Value::Count(5)));
    assert_eq!(pools.cell(0, "maxwait"), Some(&Value::Count(1)));
    assert_eq!(pools.cell(0, "maxwait_us"), Some(&Value::Count(500_000)));
    let stats = Show::Stats.table(&whole, &settings);
    assert_eq!(stats.cell(0, "total_query_count"), Some(&Value::Count(10)));
    let plans = Show::Plans.table(&whole, &settings);
    assert_eq!(plans.cell(0, "statements"), Some(&Value::Count(6)));
    let lists = Show::Lists.table(&whole, &settings);
    let logging_in = lists.rows().iter().find(|row| row[0] == Value::from("login_clients"));
    assert_eq!(logging_in.unwrap()[1], Value::Count(2));
}

#[test]
fn every_row_has_all_columns() {
    let now = SystemTime::now();
    let client = ClientRow {
        id: 7,
        user: "ann".into(),
        database: "d".into(),
        state: ClientState::Waiting,
        address: Some("10.0.0.1:50000".parse().unwrap()),
        local: None,
        connected: now,
        asked: now,
        waiting: Duration::from_micros(1_000_002),
        server: None,
        tls: String::new(),
        application_name: "psql".into(),
        prepared: 2,
        worker: 0,
        pinned: "listen",
    };
    let server = ServerRow {
        id: 9,
        user: "ann".into(),
        database: "d".into(),
        state: ServerState::Lane,
        address: Some("10.0.0.2:5432".parse().unwrap()),
        local: None,
        connected: now,
        asked: now,
        closing: false,
        client: Some(7),
        process: 4711,
        tls: "TLSv1.3".into(),
        application_name: "psql".into(),
        prepared: 3,
        backend: "a".into(),
        worker: 1,
    };
    let snapshot = Snapshot { clients: vec![client], servers: vec![server], ..Snapshot::default() };
    let settings = Settings::default();
    for show in [Show::Clients, Show::Servers, Show::Sockets, Show::ActiveSockets] {
        let table = show.table(&snapshot, &settings);
        assert!(table.rows().iter().all(|row| row.last() != Some(&Value::Null)), "{show:?}");
    }
    let clients = Show::Clients.table(&snapshot, &settings);
    assert_eq!(clients.cell(0, "id"), Some(&Value::Count(7)));
    assert_eq!(clients.cell(0, "wait_us"), Some(&Value::Count(2)));
    assert_eq!(clients.cell(0, "pinned"), Some(&Value::from("listen")));
    let sockets = Show::Sockets.table(&snapshot, &settings);
    assert_eq!(sockets.cell(1, "link"), Some(&Value::from("0xc0000007")));
    assert_eq!(sockets.cell(1, "state"), Some(&Value::from("sv_lane")));
    assert_eq!(sockets.cell(1, "backend"), Some(&Value::from("a")));
    let mut out = Vec::new();
    Show::Servers.encode(&snapshot, &settings, &mut out);
    assert_eq!(seen(&out), "T D C:SHOW Z");
}

#[test]
fn config_has_every_value_and_no_secret() {
    let settings: Settings = toml::from_str(
        "[pool]\nsize = 7\n[auth-query]\nuser = \"w\"\npassword = \"geheim\"\n\
         [[user]]\nname = \"ann\"\npassword = \"geheim\"",
    )
    .unwrap();
    let config = Show::Config.table(&Snapshot::default(), &settings);
    let row = |key: &str| config.rows().iter().find(|row| row[0] == Value::from(key));
    let texts = |row: &[Value]| row[1..].to_vec();
    let size = ["7", "20", "yes"].map(Value::from).to_vec();
    assert_eq!(row("pool.size").map(|row| texts(row)), Some(size));
    assert_eq!(row("listen").unwrap()[3], Value::from("no"));
    assert!(row("timeouts.query-wait").is_some() && row("console.databases").is_some());
    assert!(!format!("{config:?}").contains("geheim"));
}

proptest::proptest! {
    #[test]
    fn no_query_panics_or_goes_unanswered(sql in ".{0,80}") {
        let mut out = Vec::new();
        let answer = seat("grafana").on_query(sql.as_bytes(), &mut out);
        proptest::prop_assert_eq!(answer == Answer::Whole, out.ends_with(b"I"));
    }
}
