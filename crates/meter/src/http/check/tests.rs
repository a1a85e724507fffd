use super::{Check, CheckedAnswer, Take};
use crate::http::recorded_answer::{BODY_MAX, RecordedAnswer};

fn kept(body: &str) -> RecordedAnswer {
    let head = "HTTP/1.1 201 Made\r\nContent-Type: text/plain; charset=utf-8\r\nX-Id:  7 \r\n\
                set-cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n";
    let mut kept = RecordedAnswer::default();
    kept.take_head(head.as_bytes());
    kept.take_body(body.as_bytes());
    kept
}

const JSON: &str =
    r#"{"ok": true, "id": 5, "name": "a b", "items": [{"n": 1.0}, null], "a/b": ""}"#;

#[track_caller]
fn holds(check: &str, body: &str) -> bool {
    let kept = kept(body);
    check.parse::<Check>().unwrap().holds(&mut CheckedAnswer::new(201, &kept))
}

#[test]
fn an_answer_is_held_against_each_kind_of_check() {
    for check in [
        "status 201",
        "status 200,201",
        "status 200-299",
        "not status 200",
        "header X-Id",
        "header x-id: 7",
        "header Content-Type ~ ^text/",
        "header set-cookie: b=2",
        "not header X-Other",
        "text \"name\"",
        "text a b",
        "text ~ \"id\": [0-9]+",
        "not text error",
        "json /ok",
        "json /ok = true",
        "json /id = 5",
        "json /id = 5.0",
        "json /name = a b",
        "json /name = \"a b\"",
        "json /name ~ ^a",
        "json /items/0/n = 1",
        "json /items/1 = null",
        "json /a~1b = \"\"",
        "json /items/0 = {\"n\": 1.0}",
        "not json /error",
        "not json /id = 6",
    ] {
        assert!(holds(check, JSON), "{check}");
        let other = check.strip_prefix("not ").map_or(format!("not {check}"), str::to_owned);
        assert!(!holds(&other, JSON), "{other}");
    }
    // What is not JSON has no values.
    assert!(!holds("json /ok", "{\"ok\"") && holds("not json /ok", "{\"ok\""));
}

#[test]
fn what_can_not_be_read_is_no_proof() {
    let mut long = kept("");
    long.take_body(&vec![b'x'; BODY_MAX + 1]);
    let mut packed = RecordedAnswer::default();
    packed.take_head(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
    for kept in [&long, &packed] {
        for check in ["text x", "not text x", "json /a", "not json /a", "not text ~ y"] {
            let check: Check = check.parse().unwrap();
            assert!(
                !check.holds(&mut CheckedAnswer::new(200, kept)) && check.reads_body(),
                "{check}"
            );
        }
    }
    assert!("status 200".parse::<Check>().unwrap().holds(&mut CheckedAnswer::new(200, &packed)));
    assert_eq!(
        (long.unreadable(), packed.unreadable()),
        (Some("the body is over 4 MiB"), Some("the body has a Content-Encoding"))
    );
    long.clear();
    assert_eq!(long.body(), Some(&b""[..]));
}

#[test]
fn values_are_taken_from_each_part_of_an_answer() {
    let kept = kept(JSON);
    let value = |take: &str| {
        let value = take.parse::<Take>().unwrap().value(&mut CheckedAnswer::new(201, &kept));
        value.map(|value| String::from_utf8(value).unwrap())
    };
    for (take, expected) in [
        ("id = json /id", "5"),
        ("id=json /name", "a b"),
        ("first = json /items/0", "{\"n\":1.0}"),
        ("id = header X-Id", "7"),
        ("type = header Content-Type ~ charset=(.*)", "utf-8"),
        ("word = text ~ \"id\": [0-9]", "\"id\": 5"),
        ("letter = json /name ~ (.)$", "b"),
    ] {
        assert_eq!(value(take).as_deref(), Some(expected), "{take}");
    }
    for take in ["id = json /no", "id = header X-No", "id = text ~ no(.)", "id = json /id ~ x"] {
        assert_eq!(value(take), None, "{take}");
    }
}

#[test]
fn what_is_no_check_says_why() {
    for (check, part) in [
        ("", "begins with status"),
        ("stat 200", "begins with status"),
        ("status", "statuses are numbers"),
        ("status 99", "statuses are numbers"),
        ("status 299-200", "statuses are numbers"),
        ("text", "says no text"),
        ("text ~ (", "not a regular expression"),
        ("header", "written as header Name"),
        ("header a b", "written as header Name"),
        ("json id", "begins with /"),
    ] {
        let error = check.parse::<Check>().unwrap_err().to_string();
        assert!(error.contains(part), "{check}: {error}");
    }
    for (take, part) in [
        ("json /id", "has no ="),
        ("a b = json /id", "letters, digits"),
        ("seq = json /id", "is not seq"),
        ("id = json id", "begins with /"),
        ("id = status", "json, header or text"),
        ("id = text abc", "regular expression"),
        ("id = header", "names no header"),
        ("id = json /id = 5", "known already"),
    ] {
        let error = take.parse::<Take>().unwrap_err().to_string();
        assert!(error.contains(part), "{take}: {error}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(kind in 0..5_usize, text in ".{0,30}") {
        let text = format!("{}{text}", ["", "json /", "text ~ ", "header ", "a = "][kind]);
        let kept = kept(JSON);
        if let Ok(check) = text.parse::<Check>() {
            let _ = check.holds(&mut CheckedAnswer::new(200, &kept));
        }
        if let Ok(take) = text.parse::<Take>() {
            let _ = take.value(&mut CheckedAnswer::new(200, &kept));
        }
    }
}
