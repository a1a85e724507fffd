//! What went over the connections, and the codes of answers. A run that was killed does not say.

use std::fmt::Write as _;

use watch::words;

use super::super::Run;
use super::{escaped, heading, table};
use crate::recorder::Kind;

/// Bytes and status codes.
pub fn put(out: &mut String, run: &Run<'_>, runs: &[Run<'_>]) {
    bytes(out, run, runs);
    codes(out, run, runs);
}

fn bytes(out: &mut String, run: &Run<'_>, runs: &[Run<'_>]) {
    let told = &run.judged["bytes"];
    let all = [("sent", &told["sent"]), ("received", &told["received"])];
    let all = all.map(|(name, bytes)| bytes.as_u64().map(|bytes| (name, bytes)));
    if all.iter().all(Option::is_none) {
        return;
    }
    out.push_str(&heading(run, runs, "Bytes"));
    table(out, "", ["bytes", "a request", "a second"].into_iter());
    let requests = run.results.total() - run.results.count(Kind::Unsent);
    for (name, bytes) in all.into_iter().flatten() {
        let of_each = bytes as f64 / requests.max(1) as f64;
        let a_second = bytes as f64 / run.measured().max(f64::MIN_POSITIVE);
        let (of_each, a_second) = (words::bytes(of_each as u64), words::bytes(a_second as u64));
        let bytes = words::bytes(bytes);
        let _ = writeln!(out, "<tr><td>{name}<td>{bytes}<td>{of_each}<td>{a_second}");
    }
    out.push_str(
        "</table></div><p>Of whole requests and answers as the protocol has them, under TLS \
         before it encrypts them.</p></section>\n",
    );
}

fn codes(out: &mut String, run: &Run<'_>, runs: &[Run<'_>]) {
    let Some(codes) = run.judged["codes"].as_object().filter(|codes| !codes.is_empty()) else {
        return;
    };
    out.push_str(&heading(run, runs, "Status codes"));
    table(out, "code", ["answers", "of all"].into_iter());
    let all: u64 = codes.values().filter_map(serde_json::Value::as_u64).sum();
    for (code, count) in codes {
        let count = count.as_u64().unwrap_or_default();
        let share = count as f64 * 100.0 / all.max(1) as f64;
        let (code, count) = (escaped(code), words::count(count));
        let _ = writeln!(out, "<tr><td>{code}<td>{count}<td>{share:.2} %");
    }
    out.push_str("</table></div></section>\n");
}
