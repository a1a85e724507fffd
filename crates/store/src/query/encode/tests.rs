use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::*;
use crate::query::results::Rows;
use crate::value::Value;

const T1: i64 = 1_000_000_000;

/// What an encoder hands out for what `fill` gives it.
fn written(format: Format, fill: impl FnOnce(&mut dyn Encoder)) -> String {
    let all = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&all);
    let mut encoder = new(
        format,
        Box::new(move |piece| {
            into.lock().unwrap().extend_from_slice(&piece);
            ControlFlow::Continue(())
        }),
    );
    fill(&mut *encoder);
    assert!(encoder.finish().is_continue());
    drop(encoder);
    String::from_utf8(Arc::try_unwrap(all).unwrap().into_inner().unwrap()).unwrap()
}

fn rows(tag: &str, points: &[(i64, f64)], partial: bool) -> Rows {
    let values = points.iter().map(|(at, v)| vec![Value::Time(at * T1), Value::Float(*v)]);
    Rows {
        name: "m".to_owned(),
        tags: vec![("h".to_owned(), tag.to_owned())],
        columns: ["time".to_owned(), "v".to_owned()].into(),
        values: values.collect(),
        partial,
    }
}

fn error(text: &str) -> Result<(), QueryError> {
    Err(QueryError(text.to_owned()))
}

/// `select v from m group by h; select * from nope; show databases` of influxd 1.6.7.
fn several(encoder: &mut dyn Encoder) {
    encoder.begin(0, Pieces::Cut);
    for (tag, at) in [("", 3), ("a", 1), ("b", 2)] {
        assert!(encoder.rows(rows(tag, &[(at, at as f64)], false)).is_continue());
    }
    assert!(encoder.end(Ok(())).is_continue());
    assert!(encoder.result(1, Ok(()), &[]).is_continue());
    encoder.begin(2, Pieces::Whole);
    let databases = Rows {
        name: "databases".to_owned(),
        tags: Vec::new(),
        columns: ["name".to_owned()].into(),
        values: vec![vec![Value::String(Arc::from("t"))]],
        partial: false,
    };
    assert!(encoder.rows(databases).is_continue());
    assert!(encoder.end(Ok(())).is_continue());
}

#[test]
fn one_document_is_that_of_influxdb() {
    let expected = concat!(
        r#"{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"h":""},"#,
        r#""columns":["time","v"],"values":[["1970-01-01T00:00:03Z",3]]},"#,
        r#"{"name":"m","tags":{"h":"a"},"columns":["time","v"],"#,
        r#""values":[["1970-01-01T00:00:01Z",1]]},"#,
        r#"{"name":"m","tags":{"h":"b"},"columns":["time","v"],"#,
        r#""values":[["1970-01-01T00:00:02Z",2]]}]},{"statement_id":1},"#,
        r#"{"statement_id":2,"series":[{"name":"databases","columns":["name"],"#,
        r#""values":[["t"]]}]}]}"#,
        "\n"
    );
    assert_eq!(written(Format::default(), several), expected);
    assert_eq!(written(Format::default(), |_| ()), "{}\n");
}

#[test]
fn chunks_are_those_of_influxdb() {
    let format = Format { chunk_size: Some(1), epoch: Some(Epoch::Seconds), ..Format::default() };
    let chunks = written(format, |encoder| {
        encoder.begin(0, Pieces::Cut);
        assert!(encoder.rows(rows("a", &[(1, 1.0), (2, 2.0)], true)).is_continue());
        assert!(encoder.rows(rows("a", &[(3, 3.0)], false)).is_continue());
        assert!(encoder.rows(rows("b", &[(4, 4.0)], false)).is_continue());
        assert!(encoder.end(Ok(())).is_continue());
        assert!(encoder.result(1, error("no"), &[]).is_continue());
        assert!(encoder.result(2, Ok(()), &[]).is_continue());
    });
    let series = |tag: &str, row: &str, rest: &str| {
        format!(
            "{{\"results\":[{{\"statement_id\":0,\"series\":[{{\"name\":\"m\",\"tags\":{{\"h\":\
             \"{tag}\"}},\"columns\":[\"time\",\"v\"],\"values\":[[{row}]]{rest}}}]}}\n"
        )
    };
    let expected = [
        series("a", "1,1", ",\"partial\":true}],\"partial\":true"),
        series("a", "2,2", ",\"partial\":true}],\"partial\":true"),
        series("a", "3,3", "}],\"partial\":true"),
        series("b", "4,4", "}]"),
        "{\"results\":[{\"statement_id\":1,\"error\":\"no\"}]}\n".to_owned(),
        "{\"results\":[{\"statement_id\":2}]}\n".to_owned(),
    ];
    assert_eq!(chunks, expected.concat());
}

#[test]
fn a_series_of_many_rows_is_marked_as_influxdb_marks_it() {
    let many: Vec<(i64, f64)> = (0..10_001).map(|at| (at, 0.5)).collect();
    let of = |count: usize, pieces| {
        written(Format::default(), |encoder| {
            encoder.begin(0, pieces);
            let (first, rest) = many[..count].split_at(count / 2);
            assert!(encoder.rows(rows("a", first, true)).is_continue());
            assert!(encoder.rows(rows("a", rest, false)).is_continue());
            assert!(encoder.end(Ok(())).is_continue());
        })
    };
    assert!(of(10_001, Pieces::Cut).ends_with("],\"partial\":true}]}]}\n"));
    assert!(of(10_000, Pieces::Cut).ends_with("]]}]}]}\n"));
    assert!(of(10_001, Pieces::Whole).ends_with("]]}]}]}\n"));
}

#[test]
fn an_error_stands_alone_and_messages_come_behind() {
    let text = written(Format::default(), |encoder| {
        encoder.begin(0, Pieces::Cut);
        encoder.message(Message { level: "warning", text: "old".to_owned() });
        assert!(encoder.rows(rows("a", &[(1, 1.5)], true)).is_continue());
        assert!(encoder.end(error("broken <off>")).is_continue());
        encoder.begin(1, Pieces::Cut);
        encoder.message(Message { level: "warning", text: "old".to_owned() });
        assert!(encoder.rows(rows("a", &[], false)).is_continue());
        assert!(encoder.end(Ok(())).is_continue());
    });
    let expected = concat!(
        r#"{"results":[{"statement_id":0,"error":"broken \u003coff\u003e"},"#,
        r#"{"statement_id":1,"series":[{"name":"m","tags":{"h":"a"},"columns":["time","v"]}],"#,
        r#""messages":[{"level":"warning","text":"old"}]}]}"#,
        "\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn pretty_documents_are_indented() {
    let text = written(Format { pretty: true, ..Format::default() }, several);
    let beginning = "{\n    \"results\": [\n        {\n            \"statement_id\": 0,\n";
    assert!(text.starts_with(beginning), "{text}");
    assert!(text.ends_with("                }\n            ]\n        }\n    ]\n}\n"), "{text}");
}

#[test]
fn csv_is_that_of_influxdb() {
    let format = Format { csv: true, ..Format::default() };
    let expected = "name,tags,time,v\nm,,3000000000,3\nm,h=a,1000000000,1\nm,h=b,2000000000,2\n\n\
                    name,tags,name\ndatabases,,t\n";
    assert_eq!(written(format, several), expected);
    let odd = written(format, |encoder| {
        encoder.begin(0, Pieces::Cut);
        let mut rows = rows("a,b c=d", &[], false);
        let text = |text: &str| Value::String(Arc::from(text));
        rows.values = vec![
            vec![Value::Null, text(" lead")],
            vec![Value::Boolean(true), text("a\"b,c\nd")],
            vec![Value::Float(1e21), Value::Float(2.5e-9)],
        ];
        assert!(encoder.rows(rows).is_continue());
        assert!(encoder.end(error("left out")).is_continue());
    });
    let tags = "m,\"h=a\\,b\\ c\\=d\"";
    let expected = format!(
        "name,tags,time,v\n{tags},,\" lead\"\n{tags},true,\"a\"\"b,c\nd\"\n\
         {tags},1000000000000000000000,0.0000000025\n"
    );
    assert_eq!(odd, expected);
    let refused = format.error_body("error parsing query: found fom, expected FROM at line 1");
    let expected = "error\n\"error parsing query: found fom, expected FROM at line 1\"\n";
    assert_eq!(String::from_utf8(refused).unwrap(), expected);
    assert_eq!(Format::default().error_body("a<b"), b"{\"error\":\"a\\u003cb\"}\n");
}

#[test]
fn long_answers_come_in_pieces_and_stop_when_nobody_wants_them() {
    let mut encoder = new(Format::default(), Box::new(|_| ControlFlow::Break(())));
    encoder.begin(0, Pieces::Cut);
    let many: Vec<(i64, f64)> = (0..1_000).map(|at| (at, 0.123_456_789)).collect();
    let mut given = 0;
    while encoder.rows(rows("a", &many, true)).is_continue() {
        given += 1;
        assert!(given < 1_000, "an answer without end");
    }
    assert!(given > 10, "the beginning is held back");
}

#[test]
fn a_list_of_accepted_kinds_asks_for_csv_where_it_weighs_more() {
    let csv = |accept: &[&str]| Format::accepts_csv(accept.iter().copied());
    for asks in [
        "text/csv",
        "application/csv",
        "Application/CSV; charset=utf-8",
        "text/html, application/csv;q=0.9, */*;q=0.8",
        "application/json;q=0.5, application/csv",
        "application/csv, application/json",
        "text/*",
        "application/x-msgpack, text/csv;q=0.1",
    ] {
        assert!(csv(&[asks]), "{asks}");
    }
    for does_not in [
        "",
        "*/*",
        "application/json, application/csv;q=0.5",
        "application/json, application/csv",
        "text/html, */*;q=0.8",
        "text/csv;q=0",
        "text/csv;q=most",
        "text/csv;q=nan, */*;q=0.1",
        "text/csvx",
    ] {
        assert!(!csv(&[does_not]), "{does_not}");
    }
    assert!(csv(&["application/json;q=0.1", "text/csv"]), "two headers are one list");
    assert!(!csv(&[]));
}
