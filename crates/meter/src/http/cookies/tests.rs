use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::{any, prop_assert, proptest};

use super::{COOKIES_MAX, CookieScope, Jar, date};

fn asked(target: &str, is_tls: bool) -> CookieScope<'_> {
    CookieScope { host: "Shop.example", target: target.as_bytes(), is_tls }
}

fn jar(lines: &[&str]) -> Jar {
    let mut jar = Jar::default();
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    lines.iter().for_each(|line| jar.take_in(line.as_bytes(), &asked("/a/login?x=/y", false), now));
    jar
}

fn sent(jar: &Jar, target: &str, is_tls: bool) -> String {
    let mut out = Vec::new();
    jar.put(&asked(target, is_tls), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn cookies_go_back_where_they_belong() {
    let jar = jar(&[
        "id=1; HttpOnly",
        "all = 2 ; Path=/; SameSite=Lax",
        "deep=3; path=/a/b",
        "tls=4; Path=/; Secure",
        "id=5",
        "same=6; Domain=.example; Path=/",
    ]);
    assert_eq!(sent(&jar, "/", false), "Cookie: all=2; same=6\r\n");
    assert_eq!(sent(&jar, "/a/b/c?d", false), "Cookie: deep=3; id=5; all=2; same=6\r\n");
    assert_eq!(sent(&jar, "/a/bc", true), "Cookie: id=5; all=2; tls=4; same=6\r\n");
    assert_eq!(sent(&jar, "/ab", false), "Cookie: all=2; same=6\r\n");
}

#[test]
fn a_cookie_that_is_over_is_gone() {
    for over in [
        "id=1; Max-Age=0",
        "id=1; Max-Age=-5; Expires=Fri, 01 Jan 2100 00:00:00 GMT",
        "id=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "id=; expires=Thursday, 01-Jan-70 00:00:01 GMT",
    ] {
        assert_eq!(sent(&jar(&["id=1", over]), "/a/", false), "", "{over}");
    }
    let lasting =
        ["id=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "b=2; Expires=no date"];
    assert_eq!(sent(&jar(&lasting), "/a/", false), "Cookie: id=1; b=2\r\n");
}

#[test]
fn what_is_no_cookie_of_this_server_is_left_out() {
    let long = format!("a={}", "x".repeat(9000));
    let lines = ["", "x", "=1", "a=1; Domain=other.example", "a=1; Domain=hop.example", &long];
    assert_eq!(sent(&jar(&lines), "/a/", false), "");
    let many: Vec<String> = (0..2 * COOKIES_MAX).map(|number| format!("c{number}=1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(sent(&jar(&many), "/a/", false).matches("=1").count(), COOKIES_MAX);
}

#[test]
fn dates_are_read_in_the_shapes_that_cookies_have() {
    let at = |text: &str| {
        date(text.as_bytes()).map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_secs())
    };
    assert_eq!(at("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
    assert_eq!(at("Sunday, 06-Nov-94 08:49:37 GMT"), Some(784_111_777));
    assert_eq!(at("Tue, 29 Feb 2028 00:00:00 GMT"), Some(1_835_395_200));
    assert_eq!(at("Mon, 01 Jan 1601 00:00:00 GMT"), Some(0));
    for text in ["", "soon", "1 2 3", "99 Jan 2020", "Sun, 06 Nov 1994 99:00:00"] {
        assert_eq!(at(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_or_break_a_head(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        // A line of a head has none of these in it.
        let line: Vec<u8> = bytes.into_iter().filter(|byte| !b"\r\n\0".contains(byte)).collect();
        let mut jar = Jar::default();
        jar.take_in(&line, &asked("/", true), UNIX_EPOCH);
        let mut out = Vec::new();
        jar.put(&asked("/", true), &mut out);
        prop_assert!(out.is_empty() || out.iter().filter(|byte| **byte == b'\n').count() == 1);
        let _ = date(&line);
    }
}
