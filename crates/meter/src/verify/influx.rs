//! Points of InfluxDB, some steps of time of all series at once.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::body::Body;
use super::{Fault, Findings, StoredWrite, VerifyError};
use crate::engine::Conversation;
use crate::http::Head;
use crate::influx::{STEP_NS, Writes};
use crate::ledger::{Book, Fate};
use crate::recorder::Kind;
use crate::url::Url;

/// Points that are asked for at once; those of one step of all series at least.
const AT_ONCE: u64 = 20_000;

/// Holds what a server has against a ledger.
///
/// # Errors
/// It can't be read.
pub fn verify(
    writes: &mut Writes,
    (url, headers): (&Url, &[(String, String)]),
    book: &Book,
    server: &mut Conversation<'_>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let (batch, series) = (u64::from(writes.options().batch), writes.options().series);
    let steps_at_once = (AT_ONCE / series).max(1);
    let points = book.end().saturating_mul(batch);
    let steps = points.div_ceil(series);
    let mut first = 0;
    while first < steps {
        let last = steps.min(first + steps_at_once);
        let range = (first * series, (last * series).min(points));
        let mut wanted = wanted(writes, book, range);
        let both = [Some(in_order(writes, first, last)), late(writes, first, last)];
        for statement in both.into_iter().flatten() {
            let database = writes.options().database.as_deref().unwrap_or_default();
            let answer = ask(server, (url, headers), database, &statement)?;
            read(writes, &answer, &mut wanted, findings)?;
        }
        let mut rest: Vec<_> = wanted.into_values().collect();
        rest.sort_by_key(|point| point.number);
        for point in rest {
            let name = || format!("{} of request {}", point.line, point.request);
            findings.note(point.fate, point.seen, name);
        }
        first = last;
    }
    Ok(())
}

/// A point as it was written.
struct Point {
    fate: Fate,
    number: u64,
    request: u64,
    /// The line without its time, and with it.
    line: String,
    seen: StoredWrite,
}

/// The points from one number to below another, by series and time.
fn wanted(
    writes: &mut Writes,
    book: &Book,
    (first, last): (u64, u64),
) -> HashMap<(u64, i64), Point> {
    let (batch, series) = (u64::from(writes.options().batch), writes.options().series);
    let mut wanted = HashMap::new();
    for request in first / batch..last.div_ceil(batch) {
        let fate = book.fate(request);
        if fate == Fate::Unsent {
            continue;
        }
        for (number, line) in (request * batch..).zip(writes.lines(request).lines()) {
            let time = line.rsplit(' ').next().and_then(|time| time.parse::<i64>().ok());
            if let Some(time) = time.filter(|_| (first..last).contains(&number)) {
                let seen = StoredWrite::default();
                let point = Point { fate, number, request, line: line.to_owned(), seen };
                wanted.insert((number % series, time), point);
            }
        }
    }
    wanted
}

fn in_order(writes: &Writes, first: u64, last: u64) -> String {
    let start = writes.options().start_ns;
    let at = |step: u64| start.wrapping_add((step + 1).wrapping_mul(STEP_NS));
    select(writes, at(first), at(last))
}

/// Those whose time is before all that had come.
fn late(writes: &Writes, first: u64, last: u64) -> Option<String> {
    let start = writes.options().start_ns;
    let at = |step: u64| start.saturating_sub((step + 1).wrapping_mul(STEP_NS));
    let is_some = writes.options().out_of_order > 0.0;
    is_some.then(|| select(writes, at(last).saturating_add(1), at(first).saturating_add(1)))
}

fn select(writes: &Writes, from: u64, to: u64) -> String {
    let measurement = writes.options().rows.measurement();
    format!("SELECT * FROM {measurement} WHERE time >= {from} AND time < {to} GROUP BY *")
}

fn ask(
    server: &mut Conversation<'_>,
    (url, headers): (&Url, &[(String, String)]),
    database: &str,
    statement: &str,
) -> Result<Value, VerifyError> {
    let encoded =
        |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let target = format!("/query?db={}&epoch=ns&q={}", encoded(database), encoded(statement));
    let head = Head::new(url, &target, "GET", headers);
    let head = head.map_err(|_| VerifyError::Strange("a header can't be sent"))?;
    let (mut out, mut body) = (Vec::new(), Body::new());
    head.put(b"", &mut out);
    let answer = server.ask(|| None, &mut out, &mut body)?;
    let found = body.json().ok_or(VerifyError::Strange("it is not JSON"))?;
    let error = found["error"].as_str().or(found["results"][0]["error"].as_str());
    match (error, answer.kind) {
        (Some(error), _) => Err(VerifyError::Refused(error.to_owned())),
        (None, Kind::Succeeded) => Ok(found),
        (None, _) => Err(VerifyError::Refused(format!("status {}", answer.code))),
    }
}

/// Marks the points that are in an answer.
fn read(
    writes: &Writes,
    answer: &Value,
    wanted: &mut HashMap<(u64, i64), Point>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let result = &answer["results"][0];
    if result["partial"] == true {
        return Err(VerifyError::Strange("it was cut short, by max-row-limit perhaps"));
    }
    for series in result["series"].as_array().into_iter().flatten() {
        if series["partial"] == true {
            return Err(VerifyError::Strange("it was cut short, by max-row-limit perhaps"));
        }
        let none = Map::new();
        let tags = series["tags"].as_object().unwrap_or(&none);
        let tag = |name: &str| tags.get(name)?.as_str().filter(|value| !value.is_empty());
        let number = writes.options().rows.series(tag);
        let columns = series["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
        for values in series["values"].as_array().into_iter().flatten() {
            let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
            let time = values.first().and_then(Value::as_i64);
            let Some(time) = time else { return Err(VerifyError::Strange("a point has no time")) };
            let place = number.map(|number| (number, time));
            let point = place.and_then(|place| wanted.get_mut(&place));
            match point.filter(|point| has_tags(&point.line, tags)) {
                Some(point) => {
                    let is_right = has_fields(&point.line, columns, values);
                    point.seen.count += 1;
                    point.seen.is_altered |= !is_right;
                }
                // Others may write there, too, at times that are none of this run's.
                None if !is_of_run(writes, time) => {}
                None => findings.fault(Fault::Strange, || {
                    let tags = Value::Object(tags.clone());
                    format!("a point of {tags} at {time}")
                }),
            }
        }
    }
    Ok(())
}

fn is_of_run(writes: &Writes, time: i64) -> bool {
    let start = i128::from(writes.options().start_ns);
    (i128::from(time) - start) % i128::from(STEP_NS) == 0
}

/// The series and the fields of a line.
fn halves(line: &str) -> (&str, &str) {
    let (line, _) = line.rsplit_once(' ').unwrap_or_default();
    line.split_once(' ').unwrap_or_default()
}

/// Whether a line's tags are these, of which the server names those that it has not as empty.
fn has_tags(line: &str, tags: &Map<String, Value>) -> bool {
    let (series, _) = halves(line);
    let mut own = 0;
    for (name, value) in series.split(',').filter_map(|tag| tag.split_once('=')) {
        own += 1;
        if tags.get(name).and_then(Value::as_str) != Some(value) {
            return false;
        }
    }
    let named = tags.values().filter(|value| value.as_str().is_some_and(|value| !value.is_empty()));
    named.count() == own
}

/// Whether a line's fields are these; values of the kinds of rows have no comma in them.
fn has_fields(line: &str, columns: &[Value], values: &[Value]) -> bool {
    let (_, fields) = halves(line);
    let own: HashMap<_, _> = fields.split(',').filter_map(|field| field.split_once('=')).collect();
    let mut found = 0;
    for (column, value) in columns.iter().zip(values).skip(1) {
        let field = column.as_str().and_then(|name| own.get(name));
        match (field, value.is_null()) {
            (None, true) => {}
            (Some(field), false) if is_value(field, value) => found += 1,
            _ => return false,
        }
    }
    found == own.len()
}

fn is_value(written: &str, found: &Value) -> bool {
    if let Some(text) = written.strip_prefix('"') {
        return found.as_str() == text.strip_suffix('"');
    }
    match written.strip_suffix('i') {
        Some(digits) => found.as_i64().is_some() && found.as_i64() == digits.parse().ok(),
        None => found.as_f64().is_some() && found.as_f64() == written.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{has_fields, has_tags};

    const LINE: &str = "cpu,hostname=host_3,os=x usage=7i,load=1.5,text=\"\u{e9}a\" 1700";

    fn fields(columns: serde_json::Value, values: serde_json::Value) -> bool {
        let list = |value: serde_json::Value| value.as_array().unwrap().clone();
        has_fields(LINE, &list(columns), &list(values))
    }

    #[test]
    fn a_point_is_right_where_all_its_fields_are() {
        let columns = json!(["time", "load", "other", "text", "usage"]);
        assert!(fields(columns.clone(), json!([1700, 1.5, null, "\u{e9}a", 7])));
        for wrong in [
            json!([1700, 1.5, null, "\u{e9}a", 8]),
            json!([1700, 1.5, null, "\u{e9}b", 7]),
            json!([1700, 1.25, null, "\u{e9}a", 7]),
            json!([1700, null, null, "\u{e9}a", 7]),
            json!([1700, 1.5, 1, "\u{e9}a", 7]),
            json!([1700, 1.5, null, "\u{e9}a", "7"]),
        ] {
            assert!(!fields(columns.clone(), wrong.clone()), "{wrong}");
        }
    }

    #[test]
    fn a_series_is_told_by_all_of_its_tags() {
        let is = |tags: serde_json::Value| has_tags(LINE, tags.as_object().unwrap());
        assert!(is(json!({ "hostname": "host_3", "os": "x", "rack": "" })));
        assert!(!is(json!({ "hostname": "host_3", "os": "y" })));
        assert!(!is(json!({ "hostname": "host_3", "os": "x", "rack": "1" })));
        assert!(!is(json!({ "hostname": "host_3" })));
    }
}
