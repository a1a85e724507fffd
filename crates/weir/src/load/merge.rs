//! `weir load merge`: the results of the parts of a run, as those of one run.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use meter::directory::{self, LEDGER, LEDGER_BITS, RUN_FILE};
use meter::gate::{Gate, Sliding};
use meter::merge::Parts;
use meter::part::RunPart;
use meter::summary::Summary;
use meter::url::Url;
use serde_json::Value;

use super::results::{Results, ResultsPlace};
use super::run::{exit_code, on};
use super::stream::{SchemaOptions, Stream, stream_url};
use crate::exit::Failure;

/// Which directories, and where their sum goes.
#[derive(Debug, Args)]
pub struct Command {
    /// The directories that the parts of one run have left
    #[arg(value_name = "DIR", required = true, num_args = 1..)]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    place: ResultsPlace,
    /// What the whole run must reach, in place of what its parts were given
    #[arg(long, value_name = "DEMAND")]
    require: Vec<Gate>,
    /// Sends the whole run to an InfluxDB, a Weir or what else takes its writes, as
    /// http://user:password@host:8086/write?db=load
    #[arg(long, value_name = "URL", requires = "stream_schema", value_parser = stream_url)]
    stream: Option<Url>,
    #[command(flatten)]
    schema: SchemaOptions,
}

/// Adds up the parts, and judges their sum.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let parts = Parts::read(&command.directories).map_err(Failure::other)?;
    let run = parts.run();
    let require = on(&demands(command, &run)?, parts.operations())?;
    let path = command.place.path();
    let mut results = Results::of(path.clone(), &run, parts.operations(), &run_file(&parts))?;
    let mut sliding = Sliding::new(&require, parts.thresholds().tolerance());
    let mut stream = command.stream(&parts, &run)?;
    let merged = parts.merge(|ended| {
        results.window(ended);
        stream.iter_mut().for_each(|stream| stream.window(ended));
        sliding.window(&ended.results);
    });
    let outcome = match merged {
        Ok(outcome) => outcome,
        Err(error) => {
            results.discard();
            return Err(Failure::other(error));
        }
    };
    sliding.end(&outcome.rest);
    let summary = Summary::new(&outcome, &require).with_stretches(&sliding);
    let kept = results.finish(&outcome, &summary);
    writeln!(out, "{summary}{kept}")?;
    let directories: Vec<_> = parts.directories().collect();
    if directories.iter().any(|from| from.join(LEDGER).exists()) {
        writeln!(out, "{}", kept_ledger(&directories, parts.count(), &path))?;
    }
    if let Some(stream) = stream {
        writeln!(out, "{}", stream.finish(&outcome))?;
    }
    Ok(exit_code(&summary))
}

impl Command {
    /// The stream of the whole run, where one is asked for.
    fn stream(&self, parts: &Parts, run: &Value) -> Result<Option<Stream>, Failure> {
        let Some(url) = &self.stream else { return Ok(None) };
        // A run of one load has no list of them.
        let loads = run["loads"].as_array().map_or(std::slice::from_ref(run), Vec::as_slice);
        let connections = loads.iter().filter_map(|load| load["connections"].as_u64()).sum();
        let run_id = loads.first().and_then(|load| load["run_id"].as_str()).unwrap_or_default();
        Stream::of_merge(url, &self.schema, run_id, parts.operations(), connections).map(Some)
    }
}

/// The demands of the command line, or those that the parts were given.
fn demands(command: &Command, run: &Value) -> Result<Vec<Gate>, Failure> {
    if !command.require.is_empty() {
        return Ok(command.require.clone());
    }
    let first = run["loads"].get(0).unwrap_or(run);
    let words = first["require"].as_array().into_iter().flatten().filter_map(Value::as_str);
    words.map(str::parse).collect::<Result<_, _>>().map_err(Failure::other)
}

/// The run file of the parts, without what was of one of them.
fn run_file(parts: &Parts) -> String {
    let file = parts.directories().next().map(|first| first.join(RUN_FILE));
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    const OF_PART: [&str; 5] = ["out =", "part =", "run-id =", "start-at =", "stream ="];
    let is_of_part = |line: &&str| OF_PART.iter().any(|key| line.starts_with(key));
    text.lines().filter(|line| !is_of_part(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Puts the ledgers of all parts together in the directory of the run; says what to do with them.
pub fn kept_ledger(parts: &[&Path], count: u64, out: &Path) -> String {
    match merge_ledgers(parts, count, out) {
        Ok(()) => format!("ledger: weir load verify {}", out.display()),
        Err(why) => format!("no ledger: {why}"),
    }
}

/// Each has the numbers that no other one has.
fn merge_ledgers(parts: &[&Path], count: u64, out: &Path) -> Result<(), String> {
    if parts.len() as u64 != count {
        return Err("a part is missing, and with it what it has sent".to_owned());
    }
    if let Some(without) = parts.iter().find(|from| !from.join(LEDGER).exists()) {
        return Err(format!("{} has none", without.display()));
    }
    let told =
        |path: &Path, error: &dyn ToString| format!("{}: {}", path.display(), error.to_string());
    let bits = out.join(LEDGER_BITS);
    fs::create_dir_all(&bits).map_err(|error| told(&bits, &error))?;
    let mut documents = Vec::new();
    for from in parts {
        let (path, bits_of_part) = (from.join(LEDGER), from.join(LEDGER_BITS));
        let text = fs::read_to_string(&path).map_err(|error| told(&path, &error))?;
        documents.push(serde_json::from_str(&text).map_err(|error| told(&path, &error))?);
        for file in fs::read_dir(&bits_of_part).map_err(|error| told(&bits_of_part, &error))? {
            let file = file.map_err(|error| told(&bits_of_part, &error))?;
            fs::copy(file.path(), bits.join(file.file_name()))
                .map_err(|error| told(&file.path(), &error))?;
        }
    }
    let document = merged_ledger(&documents, count);
    directory::replace(&out.join(LEDGER), &format!("{document:#}\n"))
        .map_err(|error| error.to_string())
}

/// What the bits of all parts are of: the threads are those of all parts; of what servers counted,
/// the least is from before, and the most from behind.
fn merged_ledger(documents: &[Value], parts: u64) -> Value {
    let mut merged = documents.first().cloned().unwrap_or_default();
    let loads = merged.get_mut("loads").and_then(Value::as_array_mut).into_iter().flatten();
    for (number, load) in loads.enumerate() {
        if let Some(threads) = load.get_mut("threads") {
            *threads = threads.as_u64().unwrap_or(1).saturating_mul(parts).into();
        }
        for (key, is_before) in [("before", true), ("after", false)] {
            let counts = load.get_mut(key).and_then(Value::as_object_mut).into_iter().flatten();
            for (name, count) in counts {
                let of = documents.iter().map(|of| of["loads"][number][key][name].as_u64());
                let Some(all) = of.collect::<Option<Vec<_>>>() else { continue };
                let best = if is_before { all.iter().min() } else { all.iter().max() };
                *count = best.copied().into();
            }
        }
    }
    merged
}

/// What is said of a part when it has ended.
pub fn next_step(part: RunPart, run_id: &str) -> String {
    format!(
        "part {part} of {run_id}: `weir load merge DIR...` makes one run of all parts, and judges \
         it"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merged_ledger;

    #[test]
    fn ledgers_join_with_all_threads_and_what_servers_counted_around_the_run() {
        let of = |before: u64, after: u64| {
            json!({ "schema": 1, "loads": [{
                "name": "load", "threads": 2, "kept": { "run": 7 },
                "before": { "inserted": before }, "after": { "inserted": after },
            }] })
        };
        let merged = merged_ledger(&[of(5, 90), of(3, 100), of(4, 95)], 3);
        let load = &merged["loads"][0];
        assert_eq!((&load["threads"], &load["kept"]["run"]), (&json!(6), &json!(7)));
        assert_eq!(
            (&load["before"]["inserted"], &load["after"]["inserted"]),
            (&json!(3), &json!(100))
        );
        for odd in [json!([]), json!({ "loads": [1] }), json!({ "loads": [{ "threads": "x" }] })] {
            merged_ledger(&[odd.clone(), odd], 2);
        }
        let null = json!({ "loads": [{ "threads": 1, "before": null, "after": null }] });
        assert_eq!(
            merged_ledger(&[null.clone(), null.clone()], 2)["loads"][0]["before"],
            json!(null)
        );
    }
}
