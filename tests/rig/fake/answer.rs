//! What a fake answers.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use super::{Event, FakeContext, FakeState, Mode, cluster};
use crate::http::Message;

/// What is done about one request.
pub enum Reply {
    Bytes(Vec<u8>),
    Later(Vec<u8>, Duration),
    /// The head and a chunk, and the rest.
    Parts(Vec<u8>, Option<Vec<u8>>),
    /// The head and what stands before the points of the statement at this place, which come then.
    Endless(Vec<u8>, usize),
    Never,
    Reset,
}

/// Decides about one request and notes what it stores.
pub fn decide(shared: &FakeContext, request: &Message) -> Reply {
    let target = request.start.split(' ').nth(1).unwrap_or_default();
    let mut kept = shared.kept();
    match target.split('?').next().unwrap_or_default() {
        "/ping" => Reply::Bytes(encode(204, &[], "")),
        "/query" => query(shared, &mut kept, request, target),
        "/write" | "/api/v2/write" => write(&mut kept, request, target),
        _ => Reply::Bytes(encode(404, &[], "404 page not found\n")),
    }
}

fn encode(status: u16, headers: &[(String, String)], body: &str) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Fake\r\nX-Influxdb-Version: 1.8.10\r\n");
    if status != 204 {
        out.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str("\r\n");
    out.push_str(body);
    out.into_bytes()
}

fn error(status: u16, words: &str) -> Reply {
    Reply::Bytes(encode(status, &[], &format!("{}\n", json!({ "error": words }))))
}

fn write(kept: &mut FakeState, request: &Message, target: &str) -> Reply {
    let text = unzipped(request);
    let parameters = pairs(target.split_once('?').map_or("", |(_, query)| query));
    let (db, rp) = bucket(&parameters);
    if db == cluster::NAME && kept.databases.contains_key(&db) {
        return write_table(kept, &text);
    }
    kept.requests += 1;
    kept.sizes.push(text.lines().count());
    let reply = match kept.databases.get(&db) {
        None => return error(404, &format!("database not found: {db:?}")),
        Some(policies) if !rp.is_empty() && !policies.contains(&rp) => {
            return error(500, &format!("retention policy not found: {rp}"));
        }
        Some(_) => Reply::Bytes(encode(204, &[], "")),
    };
    let mut store = |lines: String| {
        let authorization = request.header("authorization").map(str::to_owned);
        kept.events.push(Event::Write { target: target.to_owned(), authorization, lines });
    };
    match kept.writes.clone() {
        Mode::Accept => store(text),
        Mode::Slow(pause) => {
            store(text);
            return Reply::Later(encode(204, &[], ""), pause);
        }
        Mode::Conflict(bytes) if text.contains(&bytes) => {
            let (bad, good): (Vec<_>, Vec<_>) = text.lines().partition(|l| l.contains(&bytes));
            store(good.iter().map(|line| format!("{line}\n")).collect());
            let words = format!(
                "partial write: field type conflict: input field \"v\" on measurement \"m\" is \
                 type string, already exists as type float dropped={}",
                bad.len()
            );
            return error(400, &words);
        }
        Mode::Numbered(bytes) if text.contains(&bytes) => {
            let (bad, good): (Vec<_>, Vec<_>) =
                (1..).zip(text.lines()).partition(|(_, line)| line.contains(&bytes));
            store(good.iter().map(|(_, line)| format!("{line}\n")).collect());
            return Reply::Bytes(encode(400, &[], &numbered(&bad).to_string()));
        }
        Mode::Chokes(bytes) if text.contains(&bytes) => return error(500, "engine: panic"),
        Mode::HangsOn(bytes) if text.contains(&bytes) => return Reply::Never,
        Mode::AtMost(lines) if text.lines().count() > lines => {
            return error(413, "Request Entity Too Large");
        }
        Mode::Conflict(_)
        | Mode::Numbered(_)
        | Mode::Chokes(_)
        | Mode::HangsOn(_)
        | Mode::AtMost(_) => store(text),
        bad => return misbehave(&bad),
    }
    reply
}

fn write_table(kept: &mut FakeState, text: &str) -> Reply {
    if !text.starts_with("note,") {
        if kept.tables_left == Some(0) {
            return error(503, "the table is not taken");
        }
        kept.tables_left = kept.tables_left.map(|left| left - 1);
    }
    kept.cluster.write(text);
    Reply::Bytes(encode(204, &[], ""))
}

/// Whether a line that was stored has a time at or past this one.
fn has_point_past(kept: &FakeState, from_ns: i64) -> bool {
    kept.events.iter().any(|event| match event {
        Event::Write { lines, .. } => lines.lines().any(|line| {
            let time = line.rsplit(' ').next().and_then(|time| time.parse::<i64>().ok());
            time.is_some_and(|time| time >= from_ns)
        }),
        Event::Statement { .. } => false,
    })
}

/// What InfluxDB 3 says of lines it did not take (`influxdb3_server/src/http.rs`).
fn numbered(lines: &[(u32, &str)]) -> Value {
    let line = |(number, line): &(u32, &str)| {
        let why = "invalid column type for column 'v', expected iox::column_type::field::integer, \
                   got iox::column_type::field::string";
        json!({ "original_line": line, "line_number": number, "error_message": why })
    };
    let data: Vec<_> = lines.iter().map(line).collect();
    json!({ "error": "partial write of line protocol occurred", "data": data })
}

/// The modes that store nothing.
fn misbehave(mode: &Mode) -> Reply {
    match mode {
        Mode::Hang => Reply::Never,
        Mode::Reset => Reply::Reset,
        Mode::Answer { status, headers, body } => Reply::Bytes(encode(*status, headers, body)),
        Mode::Garbage => Reply::Bytes(b"\x16\x03\x01 what is this\r\n\r\n\0\0".to_vec()),
        mode => unreachable!("{mode:?} stores something"),
    }
}

/// Database and policy of either API; the 2.x one has a bucket.
fn bucket(parameters: &[(String, String)]) -> (String, String) {
    let get = |name: &str| {
        let found = parameters.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    match get("bucket").split_once('/') {
        Some((db, rp)) => (db.to_owned(), rp.to_owned()),
        None if !get("bucket").is_empty() => (get("bucket"), String::new()),
        None => (get("db"), get("rp")),
    }
}

fn unzipped(request: &Message) -> String {
    if request.header("content-encoding") != Some("gzip") {
        return request.text();
    }
    let mut text = String::new();
    match MultiGzDecoder::new(request.body.as_slice()).read_to_string(&mut text) {
        Ok(_) => text,
        Err(error) => panic!("the batch is not gzip: {error}"),
    }
}

fn query(shared: &FakeContext, kept: &mut FakeState, request: &Message, target: &str) -> Reply {
    let mut form = pairs(&request.text());
    form.extend(pairs(target.split_once('?').map_or("", |(_, query)| query)));
    let get = |name: &str| {
        let found = form.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let (q, db) = (get("q"), get("db"));
    let pause = match kept.queries.clone() {
        Mode::Accept => None,
        Mode::Slow(pause) => Some(pause),
        Mode::Parts(first, rest) if q.starts_with("SELECT v") => return parts(&first, rest),
        Mode::Endless if q.contains("SELECT v::") => return endless(shared, kept, &q, &db),
        Mode::Parts(..) | Mode::Endless => None,
        bad => return misbehave(&bad),
    };
    let statements = q.split(';').map(str::trim).filter(|text| !text.is_empty());
    let results: Vec<Value> = statements
        .enumerate()
        .map(|(at, text)| {
            let mut result = run(shared, kept, text, &db);
            result["statement_id"] = at.into();
            result
        })
        .collect();
    let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
    let bytes = encode(200, &headers, &format!("{}\n", json!({ "results": results })));
    pause.map_or(Reply::Bytes(bytes.clone()), |pause| Reply::Later(bytes, pause))
}

const CHUNKED_HEAD: &str = "HTTP/1.1 200 Fake\r\nContent-Type: application/json\r\n\
                            Transfer-Encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// What comes before the points of an endless answer: what the text asks of the schema.
fn endless(shared: &FakeContext, kept: &mut FakeState, q: &str, db: &str) -> Reply {
    let texts: Vec<&str> = q.split(';').map(str::trim).collect();
    let schema = texts.iter().take_while(|text| text.starts_with("SHOW"));
    let mut head = CHUNKED_HEAD.to_owned();
    for (at, text) in schema.enumerate() {
        let mut result = match text.starts_with("SHOW FIELD KEYS") {
            true => {
                let (columns, row) = (["fieldKey", "fieldType"], ["v", "float"]);
                json!({ "series": [{ "name": "m", "columns": columns, "values": [row] }] })
            }
            false => run(shared, kept, text, db),
        };
        result["statement_id"] = at.into();
        head.push_str(&chunk(&format!("{}\n", json!({ "results": [result] }))));
    }
    Reply::Endless(head.into_bytes(), texts.len() - 1)
}

/// A thousand points of an endless answer, a microsecond apart.
pub fn chunk_of_points(first: u64, statement: usize) -> Vec<u8> {
    let rows: Vec<String> =
        (first..first + 1000).map(|n| format!("[{},{n}.5]", n * 1000)).collect();
    let text = format!(
        "{{\"results\":[{{\"statement_id\":{statement},\"series\":[{{\"name\":\"m\",\
         \"columns\":[\"time\",\"v\"],\"values\":[{}],\"partial\":true}}],\"partial\":true}}]}}\n",
        rows.join(",")
    );
    chunk(&text).into_bytes()
}

/// A chunked answer of two parts, or of one and no end.
fn parts(first: &str, rest: Option<String>) -> Reply {
    let rest = rest.map(|text| format!("{}0\r\n\r\n", chunk(&text)).into_bytes());
    Reply::Parts(format!("{CHUNKED_HEAD}{}", chunk(first)).into_bytes(), rest)
}

/// The result of one statement.
fn run(shared: &FakeContext, kept: &mut FakeState, text: &str, db: &str) -> Value {
    let words: Vec<&str> = text.split_whitespace().collect();
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    let name = |at: usize| words.get(at).map_or("", |word| word.trim_matches('"')).to_owned();
    let not_found = |db: &str| json!({ "error": format!("database not found: {db}") });
    match upper.as_slice() {
        ["SHOW", "DATABASES"] => {
            kept.listings += 1;
            let rows: Vec<_> = kept.databases.keys().map(|db| json!([db])).collect();
            json!({ "series": [{ "name": "databases", "columns": ["name"], "values": rows }] })
        }
        ["SHOW", "RETENTION", "POLICIES", rest @ ..] => {
            let db = if rest.first() == Some(&"ON") { name(4) } else { db.to_owned() };
            let Some(policies) = kept.databases.get(&db) else { return not_found(&db) };
            let row = |p: &String| json!([p, "0s", "168h0m0s", 1, p == "autogen"]);
            let rows: Vec<_> = policies.iter().map(row).collect();
            let columns = ["name", "duration", "shardGroupDuration", "replicaN", "default"];
            json!({ "series": [{ "columns": columns, "values": rows }] })
        }
        ["CREATE", "DATABASE", ..] => {
            let policies = || BTreeSet::from(["autogen".to_owned()]);
            kept.databases.entry(name(2)).or_insert_with(policies);
            note(kept, text, db)
        }
        ["DROP", "DATABASE", _] => {
            kept.databases.remove(&name(2));
            note(kept, text, db)
        }
        ["CREATE", "RETENTION", "POLICY", _, "ON", ..] => {
            let Some(policies) = kept.databases.get_mut(&name(5)) else {
                return not_found(&name(5));
            };
            policies.insert(name(3));
            note(kept, text, db)
        }
        ["SELECT", "\"TABLE\",", ..] if kept.databases.contains_key(cluster::NAME) => {
            kept.cluster.result()
        }
        ["SELECT", "\"TABLE\",", ..] => not_found(cluster::NAME),
        ["SHOW", "MEASUREMENTS", "ON", .., "1"] if !has_point_past(kept, i64::MIN) => json!({}),
        ["SELECT", .., "TIME", ">=", from, "LIMIT", "1", "SLIMIT", "1"]
            if !has_point_past(kept, from.parse().unwrap_or(i64::MIN)) =>
        {
            json!({})
        }
        ["SELECT" | "SHOW", ..] if !upper.contains(&"INTO") => {
            json!({ "series": [{ "name": "who", "columns": ["name"], "values": [[shared.name]] }] })
        }
        _ => note(kept, text, db),
    }
}

fn note(kept: &mut FakeState, text: &str, db: &str) -> Value {
    kept.events.push(Event::Statement { text: text.to_owned(), db: db.to_owned() });
    json!({})
}

/// The pairs of a form or a URL's query.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescape(name), unescape(value))
    };
    text.split('&').filter(|text| !text.is_empty()).map(pair).collect()
}

fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                out.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
