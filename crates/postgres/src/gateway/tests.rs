use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use watch::metrics::Registry;

use super::{Call, Gateway, OpenError, Order, lock};
use crate::console::{Action, ActionError, Snapshot};
use crate::settings::{BackendSettings, Settings};

fn settings(more: &str) -> Settings {
    let text = format!(
        "{more}\n[[user]]\nname = \"ann\"\npassword = \"secret\"\n\
         [[backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:1\""
    );
    toml::from_str(&text).unwrap()
}

fn open() -> Arc<Gateway> {
    let control = tokio::runtime::Handle::current();
    Gateway::open(settings(""), &Registry::new(), control).unwrap()
}

#[tokio::test]
async fn settings_that_cannot_be_used_let_in_nobody_else() {
    let gateway = open();
    let doors = gateway.logins.doors.load_full();
    let mut wanted = settings("[[auth]]\nmethod = \"trust\"\naddress = [\"127.0.0.1\"]");
    let nowhere = BackendSettings {
        user: "weir".to_owned(),
        password_file: Some("/nowhere/password".into()),
        ..BackendSettings::new("b", "postgresql://127.0.0.1:2")
    };
    wanted.backend.push(nowhere);
    let Err(error) = gateway.prepare(wanted) else {
        panic!("taken");
    };
    assert!(matches!(error, OpenError::Start(_)), "{error}");
    assert!(Arc::ptr_eq(&doors, &gateway.logins.doors.load_full()));
    gateway.prepare(settings("")).unwrap().put_in_force();
    assert!(!Arc::ptr_eq(&doors, &gateway.logins.doors.load_full()));
}

/// A gateway with a worker that does what a test has it do.
fn gateway() -> (Arc<Gateway>, mpsc::Receiver<Call>) {
    let gateway = open();
    let (sender, calls) = mpsc::channel(8);
    lock(&gateway.calls).insert(0, sender);
    (gateway, calls)
}

fn told(gateway: &Arc<Gateway>, action: Action) -> JoinHandle<Result<(), ActionError>> {
    let gateway = gateway.clone();
    tokio::spawn(async move { gateway.act(&action).await })
}

/// What it is asked for, beside its part of `/status`.
async fn asked(calls: &mut mpsc::Receiver<Call>) -> Call {
    let asked = tokio::time::timeout(Duration::from_secs(60), calls.recv());
    asked.await.expect("it is asked").expect("somebody is there to ask")
}

#[tokio::test]
async fn a_command_is_answered_once_all_workers_have_done_it() {
    let (gateway, mut calls) = gateway();
    let paused = told(&gateway, Action::Kill(None));
    let Call::Order(Order::Paused, done) = asked(&mut calls).await else { panic!("not paused") };
    drop(done);
    let Call::Order(Order::Kill(None), done) = asked(&mut calls).await else {
        panic!("nobody is killed")
    };
    tokio::task::yield_now().await;
    assert!(!paused.is_finished());
    drop(done);
    assert!(paused.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_pause_is_not_complete_while_a_worker_stands_still() {
    let (gateway, mut calls) = gateway();
    let paused = told(&gateway, Action::Pause(None));
    let mut parts = Vec::new();
    // It has heard of the pause, and then does not say for a while what it has.
    while parts.len() < 3 {
        match asked(&mut calls).await {
            Call::Order(_, done) => drop(done),
            Call::Snapshot(_, asker) => parts.push(asker),
            _ => panic!("it is asked for nothing else"),
        }
    }
    assert!(!paused.is_finished());
    let answering = tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            if let Call::Snapshot(_, asker) = call {
                let _ = asker.send(Snapshot::default());
            }
        }
    });
    let paused = tokio::time::timeout(Duration::from_secs(60), paused).await;
    assert!(paused.expect("it is complete now").unwrap().is_ok());
    answering.abort();
}
