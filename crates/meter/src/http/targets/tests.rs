use super::{TARGETS_MAX, targets};
use crate::http::{Request, RequestError, Step};

fn read(text: &str) -> Result<Vec<Step>, RequestError> {
    let headers = vec![("Accept".to_owned(), "a".to_owned()), ("X-All".to_owned(), "1".to_owned())];
    let usual = Request { method: "GET".into(), headers, body: b"usual".to_vec() };
    targets(text, &usual, &|file| match file {
        "body.json" => Ok(b"{}".to_vec()),
        _ => Err(format!("can't read {file}")),
    })
}

fn shown(text: &str) -> Vec<String> {
    let step = |step: &Step| {
        let Request { method, headers, body } = &step.request;
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (target, body) = (step.target.as_deref().unwrap(), String::from_utf8_lossy(body));
        format!("{method} {target} {} {body}", headers.join(","))
    };
    read(text).unwrap().iter().map(step).collect()
}

#[test]
fn targets_are_read_as_vegeta_reads_them() {
    let text = "# All of it\n\nGET http://h/a\nPOST /b\nX-All: 2\nx-all: 3\n  # a comment\n\
                Content-Type:  text/plain\n\
                @body.json\nHEAD /c\n\nDELETE /d\nHost: other\n";
    assert_eq!(
        shown(text),
        [
            "GET http://h/a Accept=a,X-All=1 usual",
            "POST /b Accept=a,X-All=2,x-all=3,Content-Type=text/plain {}",
            "HEAD /c Accept=a,X-All=1 usual",
            "DELETE /d Accept=a,X-All=1,Host=other usual",
        ]
    );
}

#[test]
fn targets_are_read_as_vegetas_json_too() {
    let text = "{\"method\": \"PUT\", \"url\": \"http://h/a\", \"body\": \"YWJj\", \
                \"header\": {\"accept\": [\"x\", \"y\"]}}\n\n\
                {\"method\": \"GET\", \"url\": \"/b\"}\n";
    assert_eq!(
        shown(text),
        ["PUT http://h/a X-All=1,accept=x,accept=y abc", "GET /b Accept=a,X-All=1 usual"]
    );
}

#[test]
fn what_is_no_target_is_told_with_its_line() {
    for (text, part) in [
        ("", "no targets"),
        ("# nothing\n", "no targets"),
        ("/a\n", "line 1: it begins no target"),
        ("get /a\n", "line 1: it begins no target"),
        ("GET /a\nno header\n", "line 2: \"no header\" is not a header"),
        ("GET /a\n\nX: 1\n", "line 3: it begins no target"),
        ("GET /a\n@other\n", "line 2: can't read other"),
        ("GET /a\n@body.json\nX: 1\n", "line 3: it begins no target"),
        ("{\"method\": \"GET\"}\n", "line 1: missing field `url`"),
        ("{\"method\": \"GET\", \"url\": \"/\", \"bdy\": \"\"}\n", "unknown field `bdy`"),
        ("{\"method\": \"GET\", \"url\": \"/\", \"body\": \"?\"}\n", "line 1: its body"),
        (
            "{\"method\": \"GET\", \"url\": \"/\", \"header\": {\"a\": [\"b\\n\"]}}\n",
            "not a header",
        ),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
    let many = "GET /\n".repeat(TARGETS_MAX + 1);
    assert!(read(&many).unwrap_err().to_string().contains("1,000,000"));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(GET |POST |\\{|@|#|X: |/|\n| ){0,20}.{0,20}") {
        let _ = read(&text);
    }
}
