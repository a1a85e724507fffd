//! The other commands of the program.

use rig::places;
use rig::weir::Setup;

use crate::scene::{Scene, assert_points, points};

#[test]
fn the_version_and_the_help_are_there() {
    let scene = Setup::new().prepare();
    assert!(scene.must_run(&["--version"]).starts_with("weir "));
    let help = scene.must_run(&["--help"]);
    for command in ["serve", "check", "status", "journal", "store", "dead-letters", "completions"] {
        assert!(help.contains(command), "{help}");
        let help = scene.must_run(&[command, "--help"]);
        assert!(help.contains("Usage"), "{help}");
    }
    assert!(scene.must_run(&["serve", "--help"]).contains("Example"));
    assert!(scene.must_run(&["completions", "bash"]).contains("weir"));
}

#[test]
fn without_a_backend_the_store_is_one() {
    let weir = Setup::new().influx("").start();
    assert_eq!(weir.query("CREATE DATABASE db", &[]).status(), 200);
    weir.must_write("db", "m v=1i 1\n");
    let account = weir.account("store");
    assert!(account.adds_up() && account.accepted == 1, "{account:?}");
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest() {
    let weir = Setup::new().journal("max-sise = \"1GiB\"").backend("a", "http://h:1").prepare();
    let output = weir.command(&["check"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(
        said.contains("max-sise") && said.contains("max-size") && said.contains("line"),
        "{said}"
    );
}

#[test]
fn check_says_what_serve_would_do_and_no_secret() {
    let weir = Setup::new()
        .backend_with("a", "http://127.0.0.1:1", "user = \"weir\"\npassword = \"hush\"")
        .prepare();
    let said = weir.must_run(&["check"]);
    assert!(said.contains("http://127.0.0.1:1") && said.contains(&weir.http.to_string()), "{said}");
    assert!(!said.contains("hush"), "{said}");
}

#[test]
fn status_shows_the_backlog_of_a_backend_that_is_away() {
    let mut scene = Scene::new();
    scene.b.take_down();
    scene.write_one_by_one(0, 123);
    rig::wait::until("the healthy one has everything", rig::wait::LONG, || {
        scene.weir.account("a").waiting == 0
    });
    let admin = scene.weir.admin.to_string();
    let said = scene.weir.must_run(&["status", "--admin", &admin]);
    let line = said.lines().find(|line| line.trim_start().starts_with("b ")).unwrap();
    assert!(line.contains("123"), "{said}");
    let json = scene.weir.must_run(&["status", "--admin", &admin, "--json"]);
    assert!(json.contains("\"waiting\""), "{json}");
    scene.weir.kill();
    let output = scene.weir.command(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&admin), "{said}");
}

#[test]
fn inspect_and_verify_read_a_journal_and_change_nothing() {
    let mut scene = Scene::new();
    scene.b.take_down();
    scene.weir.must_write("db", &points(0, 77));
    assert!(scene.weir.terminate().success());
    let dir = scene.weir.journal_dir();
    let dir = dir.to_str().unwrap();
    let inspected = scene.weir.must_run(&["journal", "inspect", dir]);
    assert!(inspected.contains('b') && inspected.contains("77"), "{inspected}");
    scene.weir.must_run(&["journal", "verify", dir]);
    assert_eq!(scene.weir.must_run(&["journal", "inspect", dir]), inspected);
    let nowhere = places::directory();
    let output = scene.weir.command(&["journal", "inspect", nowhere.path().to_str().unwrap()]);
    assert!(!output.status.success());
    scene.b.bring_up();
    scene.weir.start_again();
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 77);
}
