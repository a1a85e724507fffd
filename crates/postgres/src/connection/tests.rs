use std::sync::Arc;

use flow::scratch::Scratch;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use wire::postgres::Severity;

use super::*;
use crate::pipeline::script::ResponseAction;
use crate::pipeline::settings::SessionSettings;
use crate::settings::BackendSettings;

const LIMITS: Limits = Limits { count: 10, bytes: 1000 };
const DONE: &[u8] = b"C\0\0\0\x08SET\0Z\0\0\0\x05I";
const FAILED: &[u8] = b"E\0\0\0\x0cC57014\0\0Z\0\0\0\x05I";

fn connection() -> (Connection, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let dialled = Dialled { socket: ours.into(), key: None, parameters: vec![], rest: vec![] };
    let settings = BackendSettings {
        connect_timeout: units::Duration::from_millis(100),
        ..BackendSettings::new("a", "postgresql://127.0.0.1")
    };
    let backend = Arc::new(Backend::new(0, &settings).unwrap());
    let key = Key { backend: 0, database: "d".into(), user: "u".into() };
    let opened = OpeningState { epoch: 0, login: backend.logins().of(&key.user, &key.database) };
    (Connection::new(dialled, Record::new(1, key, backend), opened, LIMITS), theirs)
}

/// Has the server say this; what it was asked.
async fn answered(connection: &mut Connection, server: &mut UnixStream, said: &[u8]) -> String {
    server.write_all(said).await.unwrap();
    let _ = connection.settle(&Scratch::default()).await;
    let mut asked = vec![0; 1000];
    let len = server.read(&mut asked).await.unwrap();
    String::from_utf8_lossy(&asked[5..len - 1]).into_owned()
}

#[tokio::test]
async fn settings_hold_once_the_server_has_said_so() {
    let (mut connection, mut server) = connection();
    let (one, other): (Applied, Applied) = ("SET a = 1;".into(), "SET a = 2;".into());
    connection.take_on(&one);
    assert_eq!(connection.settings, None);
    assert_eq!(answered(&mut connection, &mut server, DONE).await, "SET a = 1;", "it is bare");
    assert_eq!(connection.settings, Some(one.clone()));
    connection.take_on(&one);
    assert!(connection.is_free(), "it has them");

    connection.take_on(&other);
    let asked = answered(&mut connection, &mut server, DONE).await;
    assert_eq!(asked, format!("{FORGET}{other}"));
    assert_eq!(connection.settings, Some(other));
    connection.take_on(&one);
    answered(&mut connection, &mut server, FAILED).await;
    assert!(connection.broken && !connection.is_free());
    assert_eq!(connection.settings, None);
    assert_eq!(connection.own_error.as_deref(), Some(&b"C57014\0\0"[..]));
}

#[tokio::test]
async fn statements_are_prepared_anew_under_other_settings() {
    let (mut connection, mut server) = connection();
    connection.take_on(&"SET a = 1;".into());
    answered(&mut connection, &mut server, DONE).await;
    let mut out = Vec::new();
    let mut script = Script::default();
    let statement =
        crate::pipeline::statements::Statements::new(LIMITS).known(b"SELECT 1", &[0, 0]);
    connection.prepared.prepare(&statement, ResponseAction::Swallow, 0, &mut out, &mut script);
    connection.prepared.confirmed(statement.number);
    assert!(connection.prepared.has(statement.number, 0));
    connection.take_on(&"SET a = 1;".into());
    assert!(connection.prepared.has(statement.number, 0));
    connection.take_on(&"SET a = 2;".into());
    assert!(!connection.prepared.has(statement.number, 0));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let (mut connection, _server) = connection();
    connection.take_on(&"SET a = 1;".into());
    assert!(connection.settle_in_time(&Scratch::default()).await.is_err());
    assert!(connection.broken);
}

#[tokio::test]
async fn a_connection_on_which_an_answer_may_still_be_due_serves_nobody_else() {
    let (mut connection, mut server) = connection();
    connection.ask("SELECT 1");
    answered(&mut connection, &mut server, DONE).await;
    assert!(connection.is_free());
    // Of this one the script knows nothing.
    connection.out.extend_from_slice(b"S\0\0\0\x04");
    connection.ask("SELECT 1");
    answered(&mut connection, &mut server, DONE).await;
    assert!(connection.script.is_idle() && !connection.broken && !connection.is_free());
}

/// What becomes of a session that begins with `name`, where a server has said this of it: first to
/// all of its settings, then to what it forgets, then to each alone.
async fn restored(name: &str, code: &str) -> Result<Vec<RefusedSetting>, Refusal> {
    let (mut connection, mut server) = connection();
    let begun = [(name, "gone"), ("work_mem", "7MB")];
    let mut settings = SessionSettings::new(begun.into_iter());
    let failed = format!("E\0\0\0\x0cC{code}\0\0Z\0\0\0\x05I");
    let answers = async {
        for said in [failed.as_bytes(), DONE, failed.as_bytes(), DONE] {
            let _ = server.read(&mut [0; 1000]).await.unwrap();
            server.write_all(said).await.unwrap();
        }
        std::future::pending().await
    };
    let scratch = Scratch::default();
    let refused = tokio::select! {
        refused = connection.restore(&mut settings, &scratch) => refused,
        never = answers => never,
    };
    assert_eq!(connection.is_free(), refused.is_ok());
    if refused.is_ok() {
        assert_eq!(connection.settings, Some(settings.applied()));
        assert!(settings.value(name).is_none() && settings.value("work_mem").is_some());
    }
    refused
}

#[tokio::test]
async fn a_session_loses_a_setting_only_for_good_and_never_its_role() {
    let refused = restored("search_path", "22023").await.unwrap();
    assert!(refused.iter().map(|(name, _)| &**name).eq(["search_path"]));
    let of_the_moment = restored("search_path", "57014").await.unwrap_err();
    assert_eq!(of_the_moment.severity, Severity::Error);
    for name in ["role", "session_authorization"] {
        assert_eq!(restored(name, "22023").await.unwrap_err().severity, Severity::Fatal);
    }
}
