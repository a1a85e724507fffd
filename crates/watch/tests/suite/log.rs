//! Logging of a whole process: the test runs itself as a child that logs.

use std::process::{Command, Stdio};
use std::time::Duration;

use watch::log::{LogError, Settings, init};

const CHILD: &str = "WEIR_TEST_LOGS";

#[test]
fn a_process_logs_json_to_standard_error() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let test = "log::a_process_logs_json_to_standard_error";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(child.stderr).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let found = |message: &str| lines.iter().filter(|l| l["message"] == message).count();
    assert_eq!((found("hello"), found("trouble"), found("quiet")), (1, 1, 0), "{text}");
    let again = lines.iter().find(|l| l["repeated"] == 999).unwrap();
    assert_eq!(again["message"], "again: trouble code=7");
    assert_eq!(again["source"], "suite::log");
}

fn child() {
    let handle = init(&Settings::default()).unwrap();
    assert!(matches!(init(&Settings::default()), Err(LogError::Twice)));
    tracing::info!("hello");
    tracing::debug!("quiet");
    let threads: Vec<_> = (0..10)
        .map(|_| {
            std::thread::spawn(|| {
                for _ in 0..100 {
                    tracing::error!(code = 7, "trouble");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    handle.flush(Duration::from_secs(60));
}
