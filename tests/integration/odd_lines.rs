//! The corpus of odd bodies that the parser is tested with, sent to a real InfluxDB and to Weir in
//! front of another: the answers are those of the corpus, and both hold the same points in the end.

use rig::http::{Message, Request};
use rig::influxd::Influxd;
use rig::places;
use rig::weir::Setup;

/// Times this close to now were given by a server and differ between two of them.
const NOW_WITHIN_NS: i64 = 3_600_000_000_000;

/// One case of `crates/wire/corpus/odd_lines.txt`, whose head explains the columns.
struct Case {
    precision: String,
    body: Vec<u8>,
    /// The text of the 400; nothing for a 204.
    answer: Option<String>,
    /// What InfluxDB 1.6.7 answers where that differs.
    older: Option<Option<String>>,
}

fn corpus() -> Vec<Case> {
    let path = places::root().join("crates/wire/corpus/odd_lines.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let answer =
        |text: &str| (text != "-").then(|| String::from_utf8_lossy(&unescape(text)).into_owned());
    let case = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        Case {
            precision: columns[0].to_owned(),
            body: unescape(columns[1]),
            answer: answer(columns[3]),
            older: columns.get(4).map(|text| answer(text)),
        }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(case).collect()
}

/// The bytes of a column: `\\ \n \r \t \0 \xHH`, and `\{N}c` for the byte c N times over.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = if byte == b'\\' { after.first() } else { None };
        let (bytes, taken) = match escaped {
            None => (vec![byte], 1),
            Some(b'n') => (vec![b'\n'], 2),
            Some(b'r') => (vec![b'\r'], 2),
            Some(b't') => (vec![b'\t'], 2),
            Some(b'0') => (vec![0], 2),
            Some(b'x') => {
                let digits = std::str::from_utf8(&rest[2..4]).unwrap();
                (vec![u8::from_str_radix(digits, 16).unwrap()], 4)
            }
            Some(b'{') => {
                let end = rest.iter().position(|b| *b == b'}').unwrap();
                let count = std::str::from_utf8(&rest[2..end]).unwrap().parse().unwrap();
                (vec![rest[end + 1]; count], end + 2)
            }
            Some(other) => (vec![*other], 2),
        };
        out.extend(bytes);
        rest = &rest[taken..];
    }
    out
}

fn create_all(server: &Influxd, count: usize) {
    let statements: Vec<String> = (0..count).map(|n| format!("CREATE DATABASE odd{n}")).collect();
    for some in statements.chunks(50) {
        server.ask(&some.join(";"), &[]);
    }
}

/// Everything of one database, in an order that does not depend on how it came there.
fn everything(server: &Influxd, number: usize) -> Vec<String> {
    let db = format!("odd{number}");
    let q = "SELECT * FROM /.*/ GROUP BY *";
    let answer = server.ask(q, &[("db", &db), ("epoch", "ns")]);
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
    let mut series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    for row in series.iter_mut().filter_map(|one| one["values"].as_array_mut()).flatten() {
        let time = row[0].as_i64().unwrap_or_default();
        if now.saturating_sub(time).saturating_abs() < NOW_WITHIN_NS {
            row[0] = "now".into();
        }
    }
    let mut shown: Vec<String> = series.iter().map(ToString::to_string).collect();
    shown.sort();
    shown
}

fn said(answer: &Message) -> Option<String> {
    match answer.status() {
        204 => None,
        400 => answer.json()["error"].as_str().map(str::to_owned),
        other => Some(format!("{other} {}", answer.text())),
    }
}

#[test]
fn odd_lines_are_answered_and_stored_as_by_influxdb() {
    let cases = corpus();
    assert!(cases.len() > 400, "the corpus has been cut to {} cases", cases.len());
    let (reference, backend) = (Influxd::start(), Influxd::start());
    create_all(&reference, cases.len());
    create_all(&backend, cases.len());
    let weir = Setup::new().backend("a", &backend.url()).start();
    weir.wait_catalogue();
    let mut wrong = Vec::new();
    let mut comparable = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let target = format!("/write?db=odd{number}&precision={}", case.precision);
        let request = Request::post(&target, case.body.clone());
        let theirs = reference.send(&request);
        if theirs.status() == 500 {
            // 1.6.7 panics; nothing is proven by making Weir's backend do so too.
            continue;
        }
        let (theirs, ours) = (said(&theirs), said(&weir.send(&request)));
        let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(120)]).into_owned();
        if theirs != *case.older.as_ref().unwrap_or(&case.answer) {
            wrong.push(format!("{shown:?}: InfluxDB answers {theirs:?}"));
        }
        if ours != case.answer {
            wrong.push(format!("{shown:?}: Weir answers {ours:?}, not {:?}", case.answer));
        }
        if case.older.is_none() {
            comparable.push((number, shown));
        }
    }
    weir.wait_delivered();
    for (number, shown) in comparable {
        let (theirs, ours) = (everything(&reference, number), everything(&backend, number));
        if theirs != ours {
            wrong.push(format!(
                "{shown:?}\n  stored by InfluxDB {theirs:?}\n  by way of Weir {ours:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    let letters = weir.account("a").dead_lettered as usize;
    let shown = weir.must_run(&["dead-letters", "show", "a"]);
    let conflicts = shown.matches("field type conflict").count();
    assert_eq!(
        letters, conflicts,
        "only a backend knows a field's type; all else is refused: {shown}"
    );
}
