//! `docs/metrics.md` is made from what a running Weir shows at `/metrics`; `make docs` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::running::{ALONE, WeirProcess, request};

const HEAD: &str = "\
# Metrics

<!-- Made from a running Weir's own help texts by `make docs`. -->

Ask the admin port, as Prometheus does:

    curl -s http://127.0.0.1:8088/metrics

```yaml
# prometheus.yml
scrape_configs:
  - job_name: weir
    static_configs:
      - targets: [\"127.0.0.1:8088\"]
```

The answer is in Prometheus' text format. Counters begin at 0 with each start, but
for what is kept on disk with a backend's cursor, `weir_influx_backend_*_points_total`,
`weir_influx_backend_dropped_statements_total` and `weir_journal_cursor_*_total`: for each backend

    accepted = delivered + dead-lettered + dropped + waiting

holds at any time and over restarts. Times are in seconds, sizes in bytes.
[operating.md](operating.md) says which to alert on.
";

/// One family of `/metrics`.
#[derive(Default)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((sample, labels)) = line.split_once('{') {
            let parts = ["_bucket", "_sum", "_count"];
            let base = parts.iter().find_map(|part| sample.strip_suffix(part));
            let name = base.filter(|base| families.contains_key(*base)).unwrap_or(sample);
            let labels = labels.split_once('}').unwrap().0;
            let names = labels.split("\",").filter_map(|pair| pair.split_once('='));
            let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
            families.get_mut(name).unwrap().labels.extend(names);
        }
    }
    families
}

fn shown() -> BTreeMap<String, Family> {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{ALONE}[[influx.udp]]\nlisten = \"127.0.0.1:0\"\n");
    let running = WeirProcess::start(dir.path(), &text);
    assert_eq!(running.write("cpu v=1 1"), 204);
    assert_eq!(running.write("nonsense"), 400);
    assert_eq!(request(&running.http, "GET /query?q=SHOW+DATABASES", "").0, 503);
    let mut families = families(&running.ask("/metrics").1);
    drop(running);
    for (name, family) in of_the_store().into_iter().chain(of_postgres()).chain(of_redis()) {
        families.entry(name).or_insert(family);
    }
    families
}

/// What a Weir with the PostgreSQL gateway shows.
fn of_postgres() -> BTreeMap<String, Family> {
    let dir = tempfile::tempdir().unwrap();
    let table = "[postgres]\nlisten = \"127.0.0.1:0\"\n[[postgres.auth]]\nmethod = \"trust\"\n\
        [[postgres.backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:1\"\n";
    let running = WeirProcess::start(dir.path(), &format!("{ALONE}{table}"));
    families(&running.ask("/metrics").1)
}

/// What a Weir with the Redis gateway shows.
fn of_redis() -> BTreeMap<String, Family> {
    let dir = tempfile::tempdir().unwrap();
    let table = format!(
        "[redis]\nlisten = \"127.0.0.1:0\"\n[[redis.backend]]\nname = \"a\"\n\
         url = \"redis://127.0.0.1:1\"\n[redis.aof]\ndir = {:?}\n[[redis.aof.master]]\n\
         name = \"a\"\nurl = \"redis://127.0.0.1:1\"\n[redis.guard]\nmode = \"act\"\n",
        dir.path().join("aof")
    );
    let running = WeirProcess::start(dir.path(), &format!("{ALONE}{table}"));
    // What the guard shows of a host is there once it has looked for the first time.
    let begun = Instant::now();
    loop {
        let families = families(&running.ask("/metrics").1);
        if families.contains_key("weir_redis_guard_holds_key") {
            return families;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the guard has not looked");
        // The guard tells nobody that it has looked.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a Weir with the embedded store shows.
fn of_the_store() -> BTreeMap<String, Family> {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let backend = "[[influx.backend]]\nname = \"store\"\nembedded = true\n";
    let text = format!("{ALONE}{backend}[store]\ndir = {store:?}\n");
    let running = WeirProcess::start(dir.path(), &text);
    families(&running.ask("/metrics").1)
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn every_metric_is_in_the_reference() {
    let families = shown();
    let mut text = HEAD.to_owned();
    let mut group = String::new();
    for (name, Family { kind, help, labels }) in &families {
        let parts = if name.starts_with("process_") { 1 } else { 2 };
        let this = name.split('_').take(parts).collect::<Vec<_>>().join("_");
        if this != group {
            text += &format!(
                "\n## `{this}`\n| metric | kind | labels | meaning |\n|---|---|---|---|\n"
            );
            group = this;
        }
        let labels = labels.iter().cloned().collect::<Vec<_>>().join(", ");
        assert!(!help.is_empty(), "{name} has no help text");
        text += &format!("| `{name}` | {kind} | {labels} | {} |\n", help.replace('|', "\\|"));
    }
    let file = docs().join("metrics.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (is, shown) = (lines(&written), lines(&text));
    let only = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect::<Vec<_>>();
    assert!(
        written == text,
        "docs/metrics.md is not what Weir shows; run `make docs`\nin the page only: {:#?}\n\
         shown only: {:#?}",
        only(&is, &shown),
        only(&shown, &is),
    );
}

/// The rows of the page's table of alerts: the expression, how long it has to hold, what it means.
fn alerts(page: &str) -> Vec<[String; 3]> {
    let (_, table) = page.split_once("| alert | `for` | means |\n|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        // A bar within a cell has a backslash before it.
        let line = line.replace("\\|", "\u{1}");
        let cells = line.trim_matches('|').split('|');
        let cells = cells.map(|cell| cell.trim().replace('\u{1}', "|")).collect::<Vec<_>>();
        let [expression, span, meaning] = <[String; 3]>::try_from(cells).unwrap();
        [expression.trim_matches('`').to_owned(), span, without_links(&meaning)]
    };
    rows.map(row).collect()
}

/// A text of Markdown without its marks.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (_, behind) = after.split_once(')').unwrap();
        plain += &before.replace('[', "");
        rest = behind;
    }
    (plain + rest).replace('`', "")
}

/// The rules that Prometheus reads.
fn rules(alerts: &[[String; 3]]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut text = "# Made from the table in docs/operating.md: `make docs` makes it anew.\n\
                    groups:\n  - name: weir\n    rules:\n"
        .to_owned();
    let mut names = BTreeSet::new();
    for [expression, span, meaning] in alerts {
        let part = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let metric = expression.split(part).find_map(|word| word.strip_prefix("weir_"));
        let metric = metric
            .map_or("down", |name| name.trim_end_matches("_total").trim_end_matches("_bucket"));
        let word = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
        let name = format!("Weir{}", metric.split('_').map(word).collect::<String>());
        let numbered = (2..).map(|number| format!("{name}{number}"));
        let mut all = std::iter::once(name.clone()).chain(numbered);
        let name = all.find(|name| names.insert(name.clone())).unwrap();
        let (expression, meaning) = (quoted(expression), quoted(meaning));
        text += &format!(
            "      - alert: {name}\n        expr: {expression}\n        for: {span}\n        \
             annotations:\n          summary: {meaning}\n"
        );
    }
    text
}

#[test]
fn the_rules_of_the_package_are_made_from_the_reference_of_alerts() {
    let page = std::fs::read_to_string(docs().join("operating.md")).unwrap();
    let alerts = alerts(&page);
    for gateway in ["weir_influx", "weir_postgres", "weir_redis"] {
        let of = alerts.iter().filter(|[expression, ..]| expression.contains(gateway));
        assert!(of.count() >= 5, "{gateway}");
    }
    let (text, file) = (rules(&alerts), docs().join("../packaging/prometheus/weir.yml"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "packaging/prometheus/weir.yml lags; run `make docs`");
}

#[test]
fn metrics_that_the_documents_name_exist() {
    let families = shown();
    let words = |text: &str| -> Vec<String> {
        let part = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        text.split(part).filter(|word| word.starts_with("weir_")).map(str::to_owned).collect()
    };
    let mut files = vec![docs().join("../README.md"), docs().join("../ARCHITECTURE.md")];
    let below = |dir: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let pages = below(&docs());
    let folders = pages.iter().filter(|path| path.is_dir());
    files.extend(folders.flat_map(|folder| below(folder)));
    files.extend(pages);
    // The reference itself has them all, and headings that are the beginning of several.
    files.retain(|file| {
        file.extension().is_some_and(|e| e == "md") && !file.ends_with("metrics.md")
    });
    for file in &files {
        for word in words(&std::fs::read_to_string(file).unwrap_or_default()) {
            // A name that ends so is the beginning of several, or a package's file name; the others
            // are what the load meter writes to.
            let of_loads = ["weir_ledger", "weir_load", "weir_load_window"];
            if word.ends_with('_') || of_loads.contains(&word.as_str()) {
                continue;
            }
            // A histogram's samples are named by its parts.
            let word = word.strip_suffix("_bucket").map_or(word.clone(), str::to_owned);
            assert!(families.contains_key(&word), "{} names {word}", file.display());
        }
    }
}
