mod words;

use std::time::SystemTime;

use clap::Parser;
use meter::engine::{Pace, Stop};

use super::inputs::Inputs;
use super::{Command, file, mix};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    command: Command,
}

/// Whether a call of `weir load` would begin: what its options say, held against its workload. A
/// run file that it names has that text. Files of requests and scripts are not opened.
pub fn begins(words: &[String], file: &str) -> Result<(), String> {
    let one = |words: &[&String]| {
        let words = std::iter::once("load").chain(words.iter().map(|word| word.as_str()));
        Line::try_parse_from(words).map(|line| line.command).map_err(|error| error.to_string())
    };
    let loads = match words {
        [run, _, options @ ..] if run == "run" => {
            mix::loads(file, file::options(options)?)?.into_iter().map(|(_, load)| load).collect()
        }
        [compare, rest @ ..] if compare == "compare" => {
            let options = rest.iter().skip_while(|word| *word != "--").skip(1);
            let options: Vec<&String> = options.collect();
            let urls = rest.iter().filter(|word| word.contains("://"));
            let load = |url| one(&[&[url], &options[..]].concat());
            urls.map(load).collect::<Result<Vec<_>, _>>()?
        }
        [other, ..] if ["agent", "init", "merge", "report", "verify"].contains(&&**other) => {
            Vec::new()
        }
        options => vec![one(&options.iter().collect::<Vec<_>>())?],
    };
    for load in &loads {
        load.speed.pace().map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

fn inputs() -> Inputs {
    Inputs::of_machine(SystemTime::now())
}

fn read(words: &str) -> Result<Command, String> {
    let words = std::iter::once("load").chain(words.split(' '));
    Line::try_parse_from(words).map(|line| line.command).map_err(|error| error.to_string())
}

#[test]
fn a_url_alone_is_a_load() {
    let plan =
        read("http://127.0.0.1:8086/ping").unwrap().plan(Stop::default(), &inputs()).unwrap();
    let Pace::Open(schedule) = &plan.pace else { panic!("{:?}", plan.pace) };
    assert_eq!((schedule.due(0, 1).count(), plan.connections, plan.threads), (1000, 64, 1));
}

#[test]
fn steps_ramps_and_closed_loops_exclude_one_another() {
    let steps = read("http://h --steps 1:1s,2:2s --poisson --seed 7").unwrap();
    assert_eq!(steps.speed.steps.len(), 2);
    assert!(read("http://h --closed").unwrap().speed.pace().is_ok());
    assert!(read("http://h --find-limit p99<20ms --poisson").is_ok());
    for words in [
        "--find-limit p99<1s --rate 5",
        "--find-limit fast",
        "--closed --rate 5",
        "--steps 1:1s --ramp-to 9",
        "--steps 1",
    ] {
        assert!(read(&format!("http://h {words}")).is_err(), "{words}");
    }
}

#[test]
fn bad_input_is_told_before_anything_is_sent() {
    for (words, part) in [
        ("ftp://h", "only http"),
        ("http://h --require p99<5", "not a duration"),
        ("http://h --expect-rtt 5", "not a round trip"),
        ("http://h --think 5ms", "--closed"),
        ("http://h --closed --think 5ms-1ms", "not a think time"),
        ("http://h --duration 10", "unit"),
        ("http://h -H x", "not a header"),
    ] {
        let error = read(words).unwrap_err();
        assert!(error.contains(part), "{words}: {error}");
    }
    assert!(read("http://h --rate 0").unwrap().plan(Stop::default(), &inputs()).is_err());
    for words in [
        "http://h --body @/nowhere",
        "http://h --workload influx-write",
        "dubbo://h/a.B",
        "dubbo://h/a.B -X find --types int --arguments 5",
        "dubbo://h/a.B -X find --types int --arguments [{{n}}]",
        "dubbo://h/a.B -X find --types int --arguments [5] --data a.csv",
        "zookeeper://h/a.B?version=* -X find",
    ] {
        let command = read(words).unwrap();
        let plan = command.plan(Stop::default(), &inputs()).unwrap();
        assert!(command.load("load", plan, None, &inputs()).is_err(), "{words}");
    }
    for (words, part) in [
        ("http://h --mix get", "--mix has no effect"),
        ("redis://h -X POST", "--method has no effect"),
        ("redis://h --prepare", "--prepare has no effect"),
        ("redis://h --script select-only", "--script has no effect"),
        ("postgres://h --keys 5", "--keys has no effect"),
        ("postgres://h --body x", "--body has no effect"),
        ("postgres://h --protocol fast", "simple, extended or prepared"),
        ("postgres://h -D x", "not a variable"),
        ("postgres://h/?sslmode=maybe", "sslmode"),
        ("redis://h --workload influx-write", "goes to http"),
        ("http://h --workload influx-write --body x", "--body has no effect"),
        ("http://h --rows jmeter", "--rows has no effect"),
        ("redis://h --size 9-1", "not a size"),
        ("redis://h --check text", "says no text"),
        ("redis://h --data a.csv", "--data has no effect"),
        ("http://h --insecure", "--insecure has no effect"),
        ("postgres://h/?sslmode=require --insecure", "--insecure has no effect"),
        ("https://h --insecure --ca x", "cannot be used with"),
        ("http://h --workload influx-write -H a:b --body x", "--body has no effect"),
        ("redis://h --mix fly", "zrange"),
        ("dubbo://h/a.B --mix get", "--mix has no effect"),
        ("dubbo://h/a.B --attachment x", "name=value"),
        ("redis://h --generic", "option of dubbo"),
    ] {
        let error = read(words).unwrap_err();
        assert!(error.contains(part), "{words}: {error}");
    }
}
