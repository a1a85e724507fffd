//! Requests as bytes, and replies in pieces.

use proptest::prelude::{prop_assert_eq, proptest};

use super::{Mix, Options, Pipeline, Redis, RedisError, names};
use crate::keys::Order;
use crate::recorder::Kind;
use crate::url::Url;
use crate::workload::{Answer, Reader as _, Workload as _};

fn options() -> Options {
    let sizes = "3".parse().unwrap();
    Options { keys: 1000, order: Order::Uniform, sizes, pipeline: 1, seed: 1, run: None }
}

fn redis(mix: &str, options: Options) -> Redis {
    let url: Url = "redis://h".parse().unwrap();
    Redis::new(&url, mix.parse().unwrap(), options).unwrap()
}

fn sent(redis: &mut Redis, number: u64) -> (usize, String) {
    let mut out = Vec::new();
    let operation = redis.request(number, &mut out);
    (operation, String::from_utf8(out).unwrap())
}

#[test]
fn commands_are_as_a_client_writes_them() {
    let options = Options { order: Order::Sequence, ..options() };
    let get = sent(&mut redis("get", options), 1007).1;
    assert_eq!(get, "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
    let set = sent(&mut redis("SET", options), 3).1;
    assert!(set.starts_with("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000003\r\n$3\r\n"), "{set}");
    assert_eq!(set.len(), "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000003\r\n$3\r\nabc\r\n".len());
    assert_eq!(sent(&mut redis("ping", options), 3).1, "*1\r\n$4\r\nPING\r\n");
}

#[test]
fn each_command_that_there_is_can_be_cut_by_a_server() {
    for name in names() {
        let (_, text) = sent(&mut redis(name, options()), 5);
        let mut commands = wire::resp::Commands::default();
        let cut = commands.cut(text.as_bytes(), &wire::resp::Limits::default()).unwrap();
        assert!(
            matches!(cut, wire::resp::CommandFrame::Command(len) if len == text.len()),
            "{name}"
        );
    }
}

#[test]
fn a_mix_is_drawn_by_its_shares_and_by_the_number_alone() {
    let mut mixed = redis("get=9,set=1", options());
    let count = (0..10_000).filter(|number| sent(&mut mixed, *number).0 == 0).count();
    assert!((8_800..9_200).contains(&count), "{count}");
    assert_eq!(sent(&mut mixed, 77), sent(&mut redis("get=9,set=1", options()), 77));
    assert_eq!(mixed.operations(), ["get", "set"]);
    assert!((0..100).all(|number| mixed.operation(number) == sent(&mut mixed, number).0));
}

#[test]
fn a_pipeline_is_one_request_of_many_commands() {
    let options = Options { pipeline: 16, order: Order::Sequence, ..options() };
    let mut piped = redis("get", options);
    let (operation, text) = sent(&mut piped, 2);
    assert_eq!((operation, text.matches("GET").count()), (0, 16));
    assert!(text.contains("key:000000000032") && text.contains("key:000000000047"));
    assert_eq!(piped.operations(), ["pipeline of 16"]);
}

#[test]
fn values_are_as_long_as_they_may_be() {
    let options = Options { sizes: "10-12".parse().unwrap(), ..options() };
    let mut set = redis("set", options);
    for len in [10, 11, 12] {
        let of_len = |number| sent(&mut set, number).1.contains(&format!("\r\n${len}\r\n"));
        assert!((0..100).any(of_len), "{len}");
    }
}

#[test]
fn what_can_not_be_loaded_is_refused_with_the_reason() {
    for (mix, words) in [("fly=1", "get=9"), ("get=0", "get=0"), ("get,get", "twice"), ("", "mix")]
    {
        let error = mix.parse::<Mix>().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    for wrong in [
        Options { keys: 0, ..options() },
        Options { keys: u64::MAX, ..options() },
        Options { pipeline: 0, ..options() },
        Options { pipeline: 10_000, sizes: "1000000".parse().unwrap(), ..options() },
    ] {
        let url: Url = "redis://h".parse().unwrap();
        let refused = Redis::new(&url, "set".parse().unwrap(), wrong);
        assert!(matches!(refused, Err(RedisError::Limit(_))));
    }
    let url: Url = "redis://h/x".parse().unwrap();
    assert!(Redis::new(&url, "set".parse().unwrap(), options()).is_err());
    assert!("zipf:0".parse::<Order>().is_err() && "12-3".parse::<super::Sizes>().is_err());
}

#[test]
fn a_login_is_what_the_url_says_and_is_refused_in_the_servers_words() {
    let url: Url = "redis://ann:secret@h/3".parse().unwrap();
    let redis = Redis::new(&url, "get".parse().unwrap(), options()).unwrap();
    let (mut greeting, mut out) = (redis.greeting().unwrap(), Vec::new());
    assert_eq!(greeting.step(b"", &mut out), Ok(false));
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$6\r\nsecret\r\n"), "{text}");
    assert!(text.contains("SELECT\r\n$1\r\n3\r\n") && text.ends_with("PING\r\n"), "{text}");
    let mut again = redis.greeting().unwrap();
    let mut out = Vec::new();
    assert_eq!(again.step(b"", &mut out), Ok(false));
    assert_eq!(again.step(b"+OK\r\n+OK\r\n+PO", &mut out), Ok(false));
    assert_eq!(again.step(b"NG\r\n", &mut out), Ok(true));
    let refused = greeting.step(b"-WRONGPASS no\r\n-NOAUTH\r\n-NOAUTH\r\n", &mut out);
    assert_eq!(refused.unwrap_err().0, "WRONGPASS no");
}

/// The answer to `commands` commands, that came in two pieces.
fn answer(commands: u32, bytes: &[u8], cut: usize) -> (Option<Answer>, String) {
    let mut replies = Pipeline::new(commands);
    replies.begin(0);
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    let mut last = None;
    for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
        assert_eq!(last, None, "the answer ended before its end");
        last = replies.read(piece).unwrap();
    }
    (last, replies.error())
}

#[test]
fn replies_are_counted_wherever_they_are_cut() {
    let bytes = b"+OK\r\n$3\r\na\rb\r\n$-1\r\n*2\r\n:1\r\n$0\r\n\r\n-ERR no\r\n:5\r\n";
    for cut in 0..=bytes.len() {
        let (answer, error) = answer(6, bytes, cut);
        let expected = Answer { kind: Kind::Server, code: 0, commands: 6, reusable: true };
        assert_eq!((answer, &*error), (Some(expected), "ERR no"), "{cut}");
    }
    assert_eq!(answer(1, b"$-1\r\n", 9).0.unwrap().kind, Kind::Succeeded);
}

#[test]
fn what_is_no_reply_or_goes_on_is_malformed() {
    for bytes in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"+OK\r\n+OK\r\n", b">1\r\n+x\r\n"] {
        let mut replies = Pipeline::new(1);
        replies.begin(0);
        assert!(replies.read(bytes).is_err());
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(pieces: Vec<Vec<u8>>) {
        let mut replies = Pipeline::new(3);
        replies.begin(0);
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            if replies.read(piece).map_or(true, |answer| answer.is_some()) {
                break;
            }
        }
    }

    #[test]
    fn an_error_of_any_length_is_one(len in 0..1000_usize, cut in 0..1000_usize) {
        let bytes = format!("-{}\r\n", "x".repeat(len));
        let (answer, error) = answer(1, bytes.as_bytes(), cut);
        prop_assert_eq!(answer.unwrap().kind, Kind::Server);
        prop_assert_eq!(error.len(), len.min(199));
    }
}
