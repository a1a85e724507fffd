use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use watch::metrics::Registry;

use super::{Call, GatewayContext, Order};
use crate::console::{Action, ActionError, Snapshot};

/// What is shared with a worker that does what a test has it do.
fn shared() -> (Arc<GatewayContext>, mpsc::Receiver<Call>) {
    let text = "[[backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:1\"";
    let control = tokio::runtime::Handle::current();
    let settings = toml::from_str(text).unwrap();
    let shared = GatewayContext::open(settings, None, &Registry::new(), control).unwrap();
    let calls = shared.calls.attend(0);
    (shared, calls)
}

fn told(shared: &Arc<GatewayContext>, action: Action) -> JoinHandle<Result<(), ActionError>> {
    let shared = shared.clone();
    tokio::spawn(async move { shared.act(&action).await })
}

/// What it is asked for, beside its part of `/status`.
async fn asked(calls: &mut mpsc::Receiver<Call>) -> Call {
    let asked = tokio::time::timeout(Duration::from_secs(60), calls.recv());
    asked.await.expect("it is asked").expect("somebody is there to ask")
}

#[tokio::test]
async fn a_command_is_answered_once_all_workers_have_done_it() {
    let (shared, mut calls) = shared();
    let paused = told(&shared, Action::Kill(None));
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
    let (shared, mut calls) = shared();
    let paused = told(&shared, Action::Pause(None));
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
