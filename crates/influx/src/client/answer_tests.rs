use super::*;
use proptest::prelude::{any, proptest};

fn reply(status: u16, body: &str) -> Answer {
    classify(&Reply { status, body: body.as_bytes(), ..Reply::default() }, SystemTime::UNIX_EPOCH)
}

fn refused(words: &str, dropped: Option<u64>) -> Answer {
    Answer::Refused(Refusal { words: words.into(), dropped, lines: Vec::new() })
}

fn check(rows: &[(u16, String, Answer)]) {
    for (status, body, expected) in rows {
        assert_eq!(&reply(*status, body), expected, "{status} {body}");
    }
}

/// Bodies as the servers named write them.
#[test]
fn influxdb_1_about_points() {
    let conflict = "partial write: field type conflict: input field \"v\" on measurement \"m\" is \
                    type float, already exists as type integer dropped=1";
    let quoted = serde_json::to_string(conflict).unwrap();
    let beyond = "partial write: points beyond retention policy dropped=7";
    let rows = [
        (204, String::new(), Answer::Delivered),
        (400, format!("{{\"error\":{quoted}}}\n"), refused(conflict, Some(1))),
        (400, format!("{{\"error\":\"{beyond}\"}}\n"), refused(beyond, Some(7))),
        (
            400,
            "{\"error\":\"unable to parse 'm v=': missing field value\"}\n".into(),
            refused("unable to parse 'm v=': missing field value", None),
        ),
        (
            400,
            "{\"error\":\"partial write: unable to parse 'x': missing fields dropped=0\"}\n".into(),
            refused("partial write: unable to parse 'x': missing fields dropped=0", Some(0)),
        ),
        (
            400,
            "{\"error\":\"partial write: max-series-per-database limit exceeded: (3) dropped=2\"}"
                .into(),
            refused(
                "partial write: max-series-per-database limit exceeded: (3) dropped=2",
                Some(2),
            ),
        ),
    ];
    check(&rows);
}

#[test]
fn influxdb_1_about_itself() {
    let rows = [
        (
            404,
            "{\"error\":\"database not found: \\\"x\\\"\"}\n".into(),
            Answer::Missing(Missing::Database, "database not found: \"x\"".into()),
        ),
        (
            500,
            "{\"error\":\"retention policy not found: x\"}\n".into(),
            Answer::Missing(Missing::Policy, "retention policy not found: x".into()),
        ),
        (500, "{\"error\":\"timeout\"}\n".into(), Answer::Overloaded("timeout".into())),
        (
            500,
            "{\"error\":\"cache-max-memory-size exceeded: (9/8)\"}\n".into(),
            Answer::Overloaded("cache-max-memory-size exceeded: (9/8)".into()),
        ),
        (
            500,
            "{\"error\":\"[shard 1] engine is closed\"}\n".into(),
            Answer::Failed("[shard 1] engine is closed".into()),
        ),
        (
            503,
            "request throttled, queue full\n".into(),
            Answer::Busy("request throttled, queue full".into(), None),
        ),
        (
            413,
            "{\"error\":\"Request Entity Too Large\"}\n".into(),
            Answer::TooLarge("Request Entity Too Large".into()),
        ),
        (
            401,
            "{\"error\":\"unable to parse authentication credentials\"}\n".into(),
            Answer::Denied("unable to parse authentication credentials".into()),
        ),
        (
            403,
            "{\"error\":\"\\\"u\\\" user is not authorized to write to database \\\"d\\\"\"}"
                .into(),
            Answer::Denied("\"u\" user is not authorized to write to database \"d\"".into()),
        ),
        (404, "404 page not found\n".into(), Answer::Misdirected("404 page not found".into())),
    ];
    check(&rows);
}

#[test]
fn influxdb_2() {
    let partial = "failure writing points to database: partial write: field type conflict: input \
                   field \\\"v\\\" on measurement \\\"m\\\" is type float, already exists as type \
                   integer dropped=2";
    let words = partial.replace("\\\"", "\"");
    let rows = [
        (
            422,
            format!("{{\"code\":\"unprocessable entity\",\"message\":\"{partial}\"}}"),
            refused(&words, Some(2)),
        ),
        (
            400,
            "{\"code\":\"invalid\",\"message\":\"unable to parse 'm v=': missing field value\"}"
                .into(),
            refused("unable to parse 'm v=': missing field value", None),
        ),
        (
            404,
            "{\"code\":\"not found\",\"message\":\"bucket \\\"d/r\\\" not found\"}".into(),
            Answer::Missing(Missing::Bucket, "bucket \"d/r\" not found".into()),
        ),
        (
            404,
            "{\"code\":\"not found\",\"message\":\"no dbrp mapping found\"}".into(),
            Answer::Missing(Missing::Mapping, "no dbrp mapping found".into()),
        ),
        (
            404,
            "{\"code\":\"not found\",\"message\":\"organization name \\\"o\\\" not found\"}".into(),
            Answer::Misdirected("organization name \"o\" not found".into()),
        ),
        (
            401,
            "{\"code\":\"unauthorized\",\"message\":\"unauthorized access\"}".into(),
            Answer::Denied("unauthorized access".into()),
        ),
        (
            413,
            "{\"code\":\"request too large\",\"message\":\"unable to read data: points batch \
             is too large\"}"
                .into(),
            Answer::TooLarge("unable to read data: points batch is too large".into()),
        ),
        (
            500,
            "{\"code\":\"internal error\",\"message\":\"unexpected error writing points to \
             database: timeout\"}"
                .into(),
            Answer::Overloaded("unexpected error writing points to database: timeout".into()),
        ),
    ];
    for (status, body, expected) in rows {
        assert_eq!(reply(status, &body), expected, "{status} {body}");
    }
}

#[test]
fn influxdb_3_names_the_lines() {
    let body = r#"{"error":"partial write of line protocol occurred","data":[
        {"original_line":"m v=","line_number":2,"error_message":"invalid field"},
        {"original_line":"m w=","line_number":5,"error_message":"invalid field"}]}"#;
    let words = "partial write of line protocol occurred: invalid field".to_owned();
    let expected = Refusal { words, dropped: Some(2), lines: vec![1, 4] };
    assert_eq!(reply(400, body), Answer::Refused(expected));
    for said in ["parsing failed for write_lp endpoint", "line protocol parsing error"] {
        let data = r#"{"original_line":"m","line_number":1,"error_message":"no fields"}"#;
        let words = format!("{said}: no fields");
        let expected = Refusal { words, dropped: Some(1), lines: vec![0] };
        let body = format!(r#"{{"error":"{said}","data":{data}}}"#);
        assert_eq!(reply(400, &body), Answer::Refused(expected));
    }
    let words = "write buffer error: parsing for line protocol failed";
    let expected = Refusal { words: words.to_owned(), dropped: None, lines: vec![] };
    assert_eq!(reply(400, &format!(r#"{{"error":"{words}"}}"#)), Answer::Refused(expected));
}

#[test]
fn victoria_metrics_and_what_stands_between() {
    let plain_http = "<html>400 The plain HTTP request was sent to HTTPS port</html>";
    let rows = [
        (204, "", Answer::Delivered),
        (
            503,
            "cannot handle more than 8 concurrent inserts",
            Answer::Busy("cannot handle more than 8 concurrent inserts".into(), None),
        ),
        (400, plain_http, Answer::Failed(plain_http.into())),
        (502, "<html>Bad Gateway</html>", Answer::Failed("<html>Bad Gateway</html>".into())),
        (500, "", Answer::Failed("status 500 without a message".into())),
        (302, "", Answer::Misdirected("status 302 without a message".into())),
        (405, "no", Answer::Misdirected("no".into())),
    ];
    for (status, body, expected) in rows {
        assert_eq!(reply(status, body), expected, "{status} {body}");
    }
}

#[test]
fn a_quoted_line_cannot_pose_as_another_message() {
    let body =
        r#"{"error":"unable to parse 'partial write dropped=9': database not found: \"x\""}"#;
    let Answer::Refused(refusal) = reply(400, body) else { panic!("not refused") };
    assert_eq!(refusal.dropped, None);
}

#[test]
fn a_header_speaks_where_the_body_was_cut() {
    let reply = Reply {
        status: 400,
        error_header: Some("unable to parse 'x': missing fields"),
        body: b"{\"error\":\"unable to par",
        ..Reply::default()
    };
    assert!(matches!(classify(&reply, SystemTime::now()), Answer::Refused(_)));
}

#[test]
fn retry_after_is_seconds_or_a_date_and_has_a_limit() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    for (text, expected) in [
        ("7", Some(7)),
        ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
        ("Tue, 06 Nov 1984 08:49:47 GMT", Some(0)),
        ("99999999", Some(300)),
        ("soon", None),
    ] {
        let reply = Reply { status: 429, retry_after: Some(text), ..Reply::default() };
        let Answer::Busy(_, after) = classify(&reply, now) else { panic!("{text}: not busy") };
        assert_eq!(after, expected.map(Duration::from_secs), "{text}");
    }
}

proptest! {
    #[test]
    fn no_answer_panics(status in any::<u16>(), header in proptest::option::of(".{0,40}"),
                        body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let reply = Reply { status, error_header: header.as_deref(), retry_after: header.as_deref(),
                            body: &body };
        classify(&reply, SystemTime::now());
    }

    #[test]
    fn words_are_cut_at_a_character(words in "\\PC{900,1400}") {
        assert!(shortened(words).len() <= WORDS_BYTES_MAX + 3);
    }
}
