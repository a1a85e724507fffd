//! Rooms that decide and do nothing else: their production code takes from few others, and names
//! nothing that reads or writes, waits, or tells the time.

use crate::source::Source;
use crate::tokens::{Token, tokens};

/// A room, and the modules of its crate that it may take from.
const ROOMS: [(&str, &[&str]); 5] = [
    ("crates/postgres/src/pipeline/", &["pipeline", "plan"]),
    ("crates/redis/src/session/dedicated.rs", &["commands", "session"]),
    ("crates/redis/src/session/dedicated/", &["commands", "session"]),
    ("crates/redis/src/session/dispatch.rs", &["commands", "session"]),
    ("crates/redis/src/session/dispatch/", &["commands", "session"]),
];

/// Crates and modules whose names stand for input and output, waiting, or clocks.
const DOING: [&str; 10] =
    ["tokio", "flow", "net", "fs", "io", "thread", "async", "await", "SystemTime", "Future"];

/// What such a room names that it may not.
pub fn faults() -> Vec<String> {
    let mut faults = Vec::new();
    for source in Source::production() {
        let room = ROOMS.iter().find(|(folder, _)| source.path.starts_with(folder));
        if let Some((_, allowed)) = room {
            faults.extend(faults_of(&source, allowed));
        }
    }
    faults
}

fn faults_of(source: &Source, allowed: &[&str]) -> Vec<String> {
    let tokens = tokens(source.untested());
    let mut faults = Vec::new();
    for at in 0..tokens.len() {
        let what = match &tokens[at..] {
            [(Token::Name(first), _), (Token::Path, _), (Token::Name(second), _), ..]
                if (first == "crate" && !allowed.contains(&second.as_str()))
                    || (first == "Instant" && second == "now") =>
            {
                format!("{first}::{second}")
            }
            [(Token::Name(name), _), ..] if DOING.contains(&name.as_str()) => name.clone(),
            _ => continue,
        };
        faults.push(format!("{}:{}: {what}", source.path.display(), tokens[at].1));
    }
    faults
}

#[test]
fn what_does_more_than_decide_is_found() {
    let faults = |code: &str| {
        let source = Source { path: "crates/example/src/room/mod.rs".into(), code: code.into() };
        faults_of(&source, &["room", "below"]).len()
    };
    for code in [
        "use crate::above::Above;",
        "fn f() { let now = Instant::now(); }",
        "use tokio::sync::Notify;",
        "async fn f() {}",
    ] {
        assert_eq!(faults(code), 1, "{code}");
    }
    for code in [
        "use crate::below::Below;",
        "use std::time::Instant; fn f(now: Instant) { g(now) }",
        "// tokio does it.\nfn f() {}",
        "fn f() {}\n#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }",
    ] {
        assert_eq!(faults(code), 0, "{code}");
    }
}
