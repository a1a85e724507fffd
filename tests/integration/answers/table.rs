//! The table of requests and expected answers.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use rig::http::Request;

/// What Weir is to answer.
pub enum Expected {
    Same,
    /// The same status; the rest differs for this reason.
    SameStatus(&'static str),
    /// Something else, for this reason.
    Instead {
        status: u16,
        contains: &'static str,
        reason: &'static str,
    },
}

pub struct Row {
    pub request: Request,
    pub expected: Expected,
}

fn same(request: Request) -> Row {
    Row { request, expected: Expected::Same }
}

fn status(request: Request, reason: &'static str) -> Row {
    Row { request, expected: Expected::SameStatus(reason) }
}

fn instead(request: Request, status: u16, contains: &'static str, reason: &'static str) -> Row {
    Row { request, expected: Expected::Instead { status, contains, reason } }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Every row in order: some read what others have written.
pub fn rows() -> Vec<Row> {
    let mut rows = writes();
    rows.extend(bodies());
    rows.extend(reads());
    rows.extend(the_rest());
    rows.extend(newer_than_1_6());
    rows
}

fn write(query: &str, body: &str) -> Request {
    Request::post(&format!("/write{query}"), body)
}

const LINE: &str = "m,host=a v=1 1600000000000000000\n";

fn writes() -> Vec<Row> {
    let go = "Go writes its own words for a path it does not route";
    let mut rows: Vec<Row> = [
        "?db=db",
        "?db=db&precision=n",
        "?db=db&precision=ns",
        "?db=db&precision=u",
        "?db=db&precision=ms",
        "?db=db&precision=s",
        "?db=db&precision=m",
        "?db=db&precision=h",
        "?db=db&precision=",
        "?db=db&rp=p",
        "?db=db&rp=none",
        "?db=none",
        "?db=",
        "",
        "?db=db&consistency=one",
        "?db=db&consistency=ALL",
        "?db=db&consistency=some",
        "?db=db&consistency=",
        "?db=db&unknown=1",
        "?db=db&db=none",
        "?db=d%62",
        "?db=db&rp=none&consistency=some",
    ]
    .map(|query| same(write(query, "m,host=a v=1 1\n")))
    .into();
    for query in ["?db=db&precision=x", "?precision=x", "?db=none&precision=x"] {
        let words = "invalid precision \\\"x\\\" (use n, u, ms, s, m or h)";
        let why = "1.8 checks the precision, and first of all; 1.6.7 takes any for n";
        rows.push(instead(write(query, LINE), 400, words, why));
    }
    for method in ["GET", "PUT", "DELETE", "HEAD"] {
        rows.push(status(Request::new(method, "/write?db=db"), go));
    }
    rows.push(same(Request::new("OPTIONS", "/write")));
    rows.push(same(write("?db=db", LINE).header("Origin", "http://localhost")));
    rows.push(same(Request::new("OPTIONS", "/write").header("Origin", "http://localhost")));
    let foreign = "InfluxDB lets any web page write";
    for request in [write("?db=db", LINE), Request::new("OPTIONS", "/write")] {
        let request = request.header("Origin", "http://grafana");
        rows.push(instead(request, 403, "web pages of http://grafana are not allowed", foreign));
    }
    rows
}

fn bodies() -> Vec<Row> {
    let lines = [
        "",
        "\n",
        "# only a comment\n",
        "untimed v=1",
        "m v=1 1600000000000000000\r\n",
        "m v=1 1\n\n\nm v=2 2\n",
        "   m v=1 1",
        "m",
        "m ",
        "m v",
        "m v=",
        "m v=1 x",
        "whole v=1i 1",
        "m,host v=1 1",
        "m,host= v=1 1",
        "m,=a v=1 1",
        "m,host=a,host=b v=1 1",
        ",host=a v=1 1",
        "m v=1, 1",
        "m v=\"open 1",
        "good i=1i 1\nbad\ngood i=2i 2\n",
        "bad\nworse\n",
        "good j=1i 1\nbad \"<&>\n",
        "conflict v=1 1\n",
        "time_tag,time=1 v=1 1\n",
        "time_field time=1 1\n",
        "time_field time=1,v=2 1\n",
    ];
    let mut rows: Vec<Row> = lines.map(|line| same(write("?db=db", line))).into();
    let gzipped =
        |body: Vec<u8>| Request::post("/write?db=db", body).header("Content-Encoding", "gzip");
    rows.push(same(gzipped(gzip("z v=1 1\n"))));
    rows.push(same(gzipped(gzip(""))));
    rows.push(same(gzipped(gzip("z v=\n"))));
    rows.push(same(gzipped(b"no gzip".to_vec())));
    rows.push(same(gzipped(b"certainly no gzip at all".to_vec())));
    rows.push(same(gzipped(Vec::new())));
    let cut = gzip("z v=1 1\n");
    rows.push(same(gzipped(cut[..cut.len() - 4].to_vec())));
    rows.push(same(Request::post("/write?db=db", "m v=1 1\n").header("Content-Encoding", "br")));
    rows.push(instead(
        write("?db=db", "conflict v=\"text\" 1\n"),
        204,
        "",
        "the ack comes before any backend has seen the point: such points are dead letters",
    ));
    rows
}

fn query(q: &str, pairs: &[(&str, &str)]) -> Request {
    Request::query(q, pairs)
}

fn reads() -> Vec<Row> {
    let db = [("db", "db")];
    let mut rows: Vec<Row> = [
        "SELECT * FROM m",
        "SELECT v FROM m; SELECT count(v) FROM m",
        "SELECT nothing FROM nothing",
        "SHOW DATABASES",
        "SHOW MEASUREMENTS",
        "SHOW TAG KEYS",
        "SHOW RETENTION POLICIES ON db",
        "SELECT v FROM m WHERE host = $host",
        "SELECT mean(v) FROM m WHERE time > 0 GROUP BY time(1h) LIMIT 1",
        "CREATE DATABASE made",
        "CREATE DATABASE made",
        "CREATE RETENTION POLICY q ON made DURATION 1d REPLICATION 1",
        "SHOW RETENTION POLICIES ON made",
        "ALTER RETENTION POLICY q ON made DURATION 2d",
        "DROP RETENTION POLICY q ON made",
        "DROP DATABASE made",
        "DROP DATABASE never_there",
        "DELETE FROM m WHERE host = 'nobody'",
        "DROP MEASUREMENT never_there",
        "SHOW DATABASES; SELECT * FROM none.none.none",
        "; ;SHOW DATABASES;",
    ]
    .map(|q| same(query(q, &db)))
    .into();
    for pairs in [
        &[("db", "none")][..],
        &[("db", "")],
        &[("db", "db"), ("epoch", "s")],
        &[("db", "db"), ("epoch", "x")],
        &[("db", "db"), ("chunked", "true")],
        &[("db", "db"), ("chunked", "true"), ("chunk_size", "1")],
        &[("db", "db"), ("pretty", "true")],
        &[("db", "db"), ("params", "{\"host\":\"a\"}")],
        &[("db", "db"), ("rp", "p")],
    ] {
        rows.push(same(query("SELECT * FROM m", pairs)));
    }
    let words = "the parser's list of what it expected is not kept";
    for q in ["SELEC v FROM m", "SELECT", "SELECT v FROM", "DROP", "CREATE DATABASE", "SHOW", "x"] {
        rows.push(status(query(q, &db), words));
    }
    rows.push(same(query("", &db)));
    rows.push(same(Request::get("/query")));
    rows.push(same(Request::get("/query?db=db&q=SHOW+MEASUREMENTS")));
    rows.push(same(Request::get("/query?db=db&q=SELECT+*+FROM+m&epoch=ms")));
    rows.push(same(Request::get("/query?q=SHOW+DATABASES").header("Accept", "application/csv")));
    rows.push(status(
        query("SELECT v FROM m", &[("db", "db"), ("params", "no json")]),
        "the JSON parser's words are Go's",
    ));
    rows.push(same(multipart("SHOW DATABASES")));
    rows
}

fn multipart(q: &str) -> Request {
    let disposition = "Content-Disposition: form-data; name=\"q\"; filename=\"q.txt\"";
    let body = format!("--X\r\n{disposition}\r\n\r\n{q}\r\n--X--\r\n");
    Request::post("/query", body).header("Content-Type", "multipart/form-data; boundary=X")
}

fn the_rest() -> Vec<Row> {
    let verbose = "1.8 tells its version, which here is Weir's to set";
    let go = "Go writes its own words for a path it does not route";
    vec![
        same(Request::get("/ping")),
        same(Request::new("HEAD", "/ping")),
        same(Request::get("/ping?verbose=0")),
        same(Request::get("/ping?verbose=false")),
        same(Request::get("/ping?verbose=")),
        instead(Request::get("/ping?verbose=true"), 200, "{\"version\":\"1.8.10\"}", verbose),
        instead(Request::get("/ping?verbose=1"), 200, "{\"version\":\"1.8.10\"}", verbose),
        same(Request::get("/status")),
        same(Request::new("HEAD", "/status")),
        same(Request::new("OPTIONS", "/query")),
        status(Request::get("/nothing"), go),
        status(Request::post("/ping", ""), go),
    ]
}

/// Debian's InfluxDB is 1.6.7; these are as 1.8's sources have them (`services/httpd/handler.go`,
/// `serveWriteV2` and `serveHealth`).
fn newer_than_1_6() -> Vec<Row> {
    let v2 = |query: &str| Request::post(&format!("/api/v2/write{query}"), "m v=1 1\n");
    let why = "as in 1.8, which 1.6.7 is not";
    vec![
        instead(v2("?bucket=db/autogen"), 204, "", why),
        instead(v2("?bucket=db"), 204, "", why),
        instead(v2("?bucket=db/p&org=any&precision=ns"), 204, "", why),
        instead(v2("?bucket=db/autogen&precision=ms"), 204, "", why),
        instead(v2("?bucket=db/autogen&precision=n"), 400, "invalid precision", why),
        instead(v2("?bucket=none/autogen"), 404, "database not found: \\\"none\\\"", why),
        instead(v2("?bucket=db/none"), 500, "retention policy not found: none", why),
        instead(v2("?bucket=/autogen"), 404, "bucket name", why),
        instead(v2(""), 404, "bucket name", why),
        instead(Request::get("/health"), 200, "\"status\":\"pass\"", why),
    ]
}
