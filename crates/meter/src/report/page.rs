//! The page of one run, or of several laid over one another. Verdicts, figures and errors are text
//! in it; lines are drawn from the numbers beside them by uPlot, which is built in.

mod lines;
#[cfg(test)]
mod tests;
mod traffic;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use watch::words;

use super::Run;
use super::uplot::{LICENCE as UPLOT_LICENCE, SCRIPT as UPLOT, STYLE as UPLOT_STYLE};
use crate::recorder::{Distribution, Kind, Measure, Tolerance};
use crate::summary::{ended, marked, shown};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Errors, and operations, that are shown of a run.
const LINES_MAX: usize = 20;
const SHARES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The lines of the page: where they are drawn, what they are called, what they mean.
const CHARTS: [(&str, &str, &str); 5] = [
    ("latency", "Latency over time", "Of what ended in each second, however it ended."),
    ("distribution", "Distribution", "How many requests took no longer than that."),
    ("rate", "Rates", "Requests a second: due, sent, and answered with a success."),
    ("errors", "Errors by owner", "A second, of what ended in it."),
    (
        "injector",
        "The injector",
        "What its busiest thread was outside its poll, its pauses, and sends late.",
    ),
];

/// The whole page, as HTML that needs no other file.
pub fn page(runs: &[Run<'_>]) -> String {
    let title = match runs {
        [run] => format!("{} · {}", run.verdict(), run.name),
        runs => format!("{} runs", runs.len()),
    };
    let title = escaped(&title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>weir load: {title}</title>\n<style>{UPLOT_STYLE}{STYLE}</style>\n</head>\n<body>\n\
         <h1>weir load</h1>\n"
    );
    for (at, run) in runs.iter().enumerate() {
        verdict(&mut out, run, at, runs.len());
    }
    figures(&mut out, runs);
    for (id, name, meaning) in CHARTS {
        let _ = writeln!(
            out,
            "<section class=\"chart\"><h2>{name}{}</h2><p>{meaning}</p><div id=\"{id}\"></div>\
             </section>",
            word(runs)
        );
    }
    for run in runs {
        operations(&mut out, run, runs);
        traffic::put(&mut out, run, runs);
        errors(&mut out, run, runs);
        about(&mut out, run, runs);
    }
    let lines = lines::of(runs).to_string().replace('<', "\\u003c");
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"runs\">{lines}</script>\n\
         <!-- uPlot draws the lines; its licence:\n{UPLOT_LICENCE}-->\n\
         <script>{UPLOT}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    out
}

/// What stands beside each figure of a run that can't be believed, or has no verdict.
fn word(runs: &[Run<'_>]) -> String {
    match runs {
        [run] if !run.is_valid() => format!(" <b class=\"word\">{}</b>", escaped(run.verdict())),
        _ => String::new(),
    }
}

fn verdict(out: &mut String, run: &Run<'_>, at: usize, runs: usize) {
    let class = match run.verdict() {
        "VALID" => "valid",
        "INVALID" => "invalid",
        _ => "unfinished",
    };
    let _ = write!(out, "<section class=\"verdict {class}\">");
    let url = run.about["run"]["url"].as_str().unwrap_or_default();
    let key = if runs > 1 { format!("<i class=\"key key{}\"></i>", at % 6) } else { String::new() };
    let (name, url) = (escaped(&run.name), escaped(url));
    let _ = write!(out, "<h2>{key}{name} <span>{url}</span></h2>");
    let told = |value: &Value| value.as_str().map(escaped);
    if let Some(when) = told(&run.about["created"]) {
        let host = told(&run.about["machine"]["host"]).unwrap_or_default();
        let _ = write!(out, "<p class=\"when\">{when} on {host}</p>");
    }
    let seconds = run.points.iter().map(|point| point.seconds).sum::<u64>();
    let words = run.judged["words"].as_str().map_or_else(
        || {
            format!(
                "This run has not ended, or was killed: there is no verdict on it. Here is what \
                 it left, {} requests in {seconds} whole seconds.",
                words::count(run.results.total())
            )
        },
        str::to_owned,
    );
    let _ = write!(out, "<p><b>{}</b> {}</p><ul>", escaped(run.verdict()), escaped(&words));
    let list = |name: &str| run.judged[name].as_array().into_iter().flatten();
    let text = |value: &Value| escaped(value.as_str().unwrap_or_default());
    for doubt in list("because") {
        let _ = write!(out, "<li>Because {}; {}", text(&doubt["cause"]), text(&doubt["remedy"]));
    }
    let aborted = Some(&run.judged["aborted"]).filter(|aborted| aborted.is_object());
    let missed = list("missed").map(|missed| ("Missed", missed));
    for (word, gate) in aborted.map(|gate| ("Aborted at", gate)).into_iter().chain(missed) {
        let (demand, found) = (text(&gate["demand"]), text(&gate["found"]));
        let _ = write!(out, "<li class=\"missed\"><b>{word}</b> {demand}: it was {found}");
    }
    if run.is_failing() {
        let words = "most requests failed, so these are times of failures.";
        let _ = write!(out, "<li class=\"missed\"><b>Failed</b> {words}");
    }
    for warning in list("warnings") {
        let _ = write!(out, "<li><b class=\"word\">Warning</b> {}", text(warning));
    }
    if run.judged["stopped"] == true {
        let _ = write!(out, "<li>Stopped before its end.");
    }
    if run.judged["used_up"] == true {
        let _ = write!(out, "<li>Ended when each row of the data had its request.");
    }
    let all = run.judged["requests"].as_u64().unwrap_or_default();
    let logged = run.results.total();
    if logged < all {
        let (logged, all) = (words::count(logged), words::count(all));
        let _ = write!(
            out,
            "<li>The disk had room for {logged} of {all} requests: the rest is not \
                             in the figures below."
        );
    }
    out.push_str("</ul></section>\n");
}

/// The percentiles of each run, and its rate.
fn figures(out: &mut String, runs: &[Run<'_>]) {
    let _ = write!(out, "<section><h2>Figures{}</h2>", word(runs));
    table(out, "", SHARES.iter().map(|(name, _)| *name).chain(["requests", "a second"]));
    for (at, run) in runs.iter().enumerate() {
        let key = match runs {
            [_] => String::new(),
            _ => format!("<i class=\"key key{}\"></i>{} ", at % 6, labelled(run)),
        };
        let (is_closed, tolerance) = (run.judged["loop"] == "closed", run.tolerance());
        let rate = |count: u64| count as f64 / run.measured().max(f64::MIN_POSITIVE);
        for (name, measure) in [("latency", Measure::Latency), ("service", Measure::Service)] {
            // Nothing is due in a closed loop, so both are the same there.
            if is_closed && measure == Measure::Latency {
                continue;
            }
            let times = run.results.distribution(measure, None);
            row(out, &format!("{key}{name}"), &times, Some(rate(times.count())), &tolerance);
        }
        let kinds = Kind::ALL.into_iter().filter(|kind| run.results.count(*kind) > 0);
        if run.results.failed() > 0 {
            for kind in kinds {
                let times = run.results.distribution(Measure::Latency, Some(kind));
                let (name, rate) = (format!("{key}that {}", ended(kind)), rate(times.count()));
                row(out, &name, &times, Some(rate), &tolerance);
            }
        }
    }
    out.push_str(
        "</table></div><p>Latency is from when a request was due; service from its send. \
                  All percentiles are of all requests of their line. A figure with * is the \
         injector's, and says nothing about the server; without the injector's own delays it would \
         be what stands in brackets.</p></section>\n",
    );
}

fn table<'a>(out: &mut String, first: &str, columns: impl Iterator<Item = &'a str>) {
    let _ = write!(out, "<div class=\"wide\"><table><tr><th>{first}");
    columns.for_each(|name| out.extend(["<th>", name]));
    out.push('\n');
}

fn row(
    out: &mut String,
    name: &str,
    times: &Distribution,
    rate: Option<f64>,
    tolerance: &Tolerance,
) {
    let _ = write!(out, "<tr><td>{name}");
    for (_, share) in SHARES {
        let figure = if share < 1.0 { times.quantile(share) } else { times.max() };
        let told = if times.count() == 0 { "-".to_owned() } else { marked(figure, tolerance) };
        let _ = write!(out, "<td>{told}");
        if figure.is_injectors(tolerance) {
            let _ = write!(out, " ({})", shown(figure.corrected));
        }
    }
    let _ = write!(out, "<td>{}", words::count(times.count()));
    if let Some(rate) = rate {
        let _ = write!(out, "<td>{rate:.1}");
    }
    out.push('\n');
}

/// A run's name, with the word without which none of its figures stands.
fn labelled(run: &Run<'_>) -> String {
    match run.is_valid() {
        true => escaped(&run.name),
        false => format!("{} <b class=\"word\">{}</b>", escaped(&run.name), escaped(run.verdict())),
    }
}

fn heading(run: &Run<'_>, runs: &[Run<'_>], what: &str) -> String {
    let of = if runs.len() > 1 { format!(": {}", labelled(run)) } else { word(runs) };
    format!("<section><h2>{what}{of}</h2>")
}

/// A line for each operation, where there are several.
fn operations(out: &mut String, run: &Run<'_>, runs: &[Run<'_>]) {
    let count = run.results.each().map(|(operation, ..)| operation + 1).max().unwrap_or_default();
    if count < 2 {
        return;
    }
    out.push_str(&heading(run, runs, "Operations"));
    table(out, "latency", SHARES.iter().map(|(name, _)| *name).chain(["requests"]));
    for operation in 0..count {
        let times = run.results.of(Measure::Latency, operation);
        if times.count() > 0 {
            row(out, &escaped(run.operation(operation)), &times, None, &run.tolerance());
        }
    }
    out.push_str("</table></div></section>\n");
}

fn errors(out: &mut String, run: &Run<'_>, runs: &[Run<'_>]) {
    let all = run.judged["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        return;
    }
    out.push_str(&heading(run, runs, "Errors in their own words"));
    table(out, "count", ["owner", "words"].into_iter());
    for error in all.iter().take(LINES_MAX) {
        let count = words::count(error["count"].as_u64().unwrap_or_default());
        let text = |name: &str| escaped(error[name].as_str().unwrap_or_default());
        let (owner, words) = (text("owner"), text("words"));
        let _ = writeln!(out, "<tr><td>{count}<td>{owner}<td class=\"words\">{words}");
    }
    out.push_str("</table></div></section>\n");
}

/// What was run and on what, as `run.json` has it, and what is known of the injector.
fn about(out: &mut String, run: &Run<'_>, runs: &[Run<'_>]) {
    out.push_str(&heading(run, runs, "The run"));
    out.push_str("<div class=\"wide\"><table class=\"about\">");
    let mut lines = Vec::new();
    flatten(&mut lines, "", &run.about["run"]);
    flatten(&mut lines, "", &run.about["machine"]);
    let injector = &run.judged["injector"];
    let share = |name: &str| injector[name].as_f64().map(|share| format!("{:.1} %", share * 100.0));
    let named = [("busy", "busy"), ("waited for a CPU", "waited_for_cpu"), ("stolen", "stolen")];
    for (words, name) in named.into_iter().chain([("stood still", "stood_still")]) {
        lines.extend(share(name).map(|told| (format!("injector {words}"), told)));
    }
    let count = |name: &str| injector[name].as_u64().map(words::count);
    lines.extend(count("late").map(|told| ("sends that were late".to_owned(), told)));
    lines.extend(count("blocked").map(|told| ("waited for a connection".to_owned(), told)));
    let connect = run.judged["connect"]["min_ns"].as_u64().map(Duration::from_nanos);
    lines.extend(connect.map(|span| ("network".to_owned(), shown(span))));
    for (name, value) in lines {
        let (name, value) = (escaped(&name), escaped(&value));
        let _ = writeln!(out, "<tr><td>{name}<td class=\"words\">{value}");
    }
    out.push_str("</table></div></section>\n");
}

/// Every value with its name, but for those that say nothing.
fn flatten(lines: &mut Vec<(String, String)>, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let field = field.replace('_', " ");
                let name = if name.is_empty() { field } else { format!("{name}, {field}") };
                flatten(lines, &name, value);
            }
        }
        Value::Array(values) if values.iter().all(Value::is_string) => {
            let all: Vec<_> = values.iter().filter_map(Value::as_str).collect();
            if !all.is_empty() {
                lines.push((name.to_owned(), all.join("; ")));
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                flatten(lines, &format!("{name} {}", at + 1), value);
            }
        }
        Value::Null => {}
        Value::String(text) => lines.push((name.to_owned(), text.clone())),
        other => lines.push((name.to_owned(), other.to_string())),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
