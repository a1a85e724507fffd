//! Run files: the options of `weir load` as TOML, each by its long name.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::ArgAction;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, Parser};
use meter::url::Url;
use meter::verdict::Thresholds;
use toml::{Table, Value};

use super::entries::{Entries, text_of};
use super::run::LoadSource;
use super::stream::StreamOptions;
use super::values::OptionValue;
use super::workload::WorkloadOptions;
use super::{Command, http, mix};
use crate::exit::Failure;

/// The key of what is not an option.
pub(super) const URL: &str = "url";
/// What an option is nothing without; clap knows it, and tells nobody.
const NEEDS: [(&str, &[&str]); 6] = [
    ("agent-secret-file", &["agents"]),
    ("agents", &["agent-secret-file"]),
    ("part", &["run-id", "start-at"]),
    ("stream-application", &["stream-schema"]),
    ("stream-schema", &["stream"]),
    ("think", &["closed"]),
];
/// What a load is where nobody has changed the file.
const USUAL_URL: &str = "http://127.0.0.1:8086/ping";

/// Runs what a file says.
#[derive(Debug, Args)]
pub struct RunFile {
    /// The file, as `weir load init` prints one
    file: PathBuf,
    /// Options of `weir load` that stand in place of the file's own, above its loads
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// A command line without the program's name.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    command: Command,
}

impl RunFile {
    /// Reads the loads in it, each with its name, and what it has of them; what is wrong is told
    /// before anything is sent.
    pub fn read(&self) -> Result<(Vec<(String, Command)>, LoadSource), Failure> {
        let file = self.file.display();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::other(format!("can't read {file}: {error}")))?;
        let over = options(&self.options).map_err(Failure::other)?;
        let loads = mix::loads(&text, over.clone());
        let loads = loads.map_err(|words| Failure::other(format!("{file}: {words}")))?;
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        Ok((loads, LoadSource { text, over, folder }))
    }
}

/// Options of a command line that has no URL, as a run file has them.
pub(super) fn options(words: &[String]) -> Result<Table, String> {
    let line = Line::command().mut_arg(URL, |url| url.required(false));
    let table = given(&line.try_get_matches_from(words).map_err(first_part)?);
    match table.contains_key(URL) {
        true => Err("the file has the URL: behind it only options stand".to_owned()),
        false => Ok(table),
    }
}

/// What clap says is wrong; the rest is about how to type it on a command line.
fn first_part(error: clap::Error) -> String {
    let said = error.to_string();
    let first = said.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The keys of a file's text.
pub(super) fn table(text: &str) -> Result<Table, String> {
    text.parse().map_err(|error: toml::de::Error| error.to_string())
}

/// The load that these keys describe: each struct of options takes what is its own.
pub(super) fn command(mut entries: Entries) -> Result<Command, String> {
    let line = Line::command();
    for key in entries.keys() {
        known(key).map_err(|words| format!("{}{words}", entries.line(key)))?;
    }
    let mut given = given_in(&entries, &line)?;
    combinable(&entries, &given, &line)?;
    let at = entries.at(URL);
    let text = entries.remove(URL).ok_or("it has no url: write url = \"http://host:port/path\"")?;
    let text = text_of(&text.value).ok_or_else(|| format!("{at} is a text"))?;
    let url: Url = text.parse().map_err(|error| format!("{at}: {error}"))?;
    given.insert(URL.to_owned(), Value::String(text));
    let options = WorkloadOptions::take(&mut entries, &url)?;
    let schema = entries.take()?;
    let command = Command {
        options,
        url,
        speed: entries.take()?,
        means: entries.take()?,
        findings: entries.take()?,
        shared: entries.take()?,
        agents: entries.take()?,
        stream: StreamOptions { schema, ..entries.take()? },
        place: entries.take()?,
        demands: entries.take()?,
        thresholds: Thresholds::default(),
        given,
    };
    // As one of the file's tables within another.
    match entries.keys().next() {
        Some(key) => Err(format!("{} has no place in a load", entries.at(key))),
        None => Ok(command),
    }
}

/// The keys that say something, each in the form that an option of its kind has.
fn given_in(entries: &Entries, line: &clap::Command) -> Result<Table, String> {
    let mut table = Table::new();
    for arg in line.get_arguments() {
        let (Some(key), Some(value)) = (arg.get_long(), entries.option(arg)?) else { continue };
        let value = match value {
            OptionValue::Flag(false) => continue,
            OptionValue::Flag(true) => Value::Boolean(true),
            OptionValue::One(text) => Value::String(text),
            OptionValue::Each(texts) => Value::from(texts),
        };
        table.insert(key.to_owned(), value);
    }
    Ok(table)
}

/// Refuses keys that exclude one another, and one without those that it needs.
fn combinable(entries: &Entries, given: &Table, line: &clap::Command) -> Result<(), String> {
    let key_of =
        |arg: &Arg| arg.get_long().filter(|key| given.contains_key(*key)).map(str::to_owned);
    for arg in line.get_arguments() {
        let Some(key) = key_of(arg) else { continue };
        if let Some(other) = { line.get_arg_conflicts_with(arg) }.into_iter().find_map(key_of) {
            let (at, other) = (entries.at(&key), entries.name(&other));
            return Err(format!("{at} cannot be used with {other}"));
        }
    }
    let lacks = |needed: &&str| !given.contains_key(*needed);
    for (key, needed) in NEEDS.into_iter().filter(|(key, _)| given.contains_key(*key)) {
        if let Some(absent) = needed.iter().find(|needed| lacks(needed)) {
            return Err(format!("{} needs {absent}", entries.at(key)));
        }
    }
    Ok(())
}

/// The options that were given, as a run file has them.
pub fn given(matches: &ArgMatches) -> Table {
    let mut table = Table::new();
    for arg in Line::command().get_arguments() {
        let id = arg.get_id().as_str();
        let is_given = matches!(matches.try_get_raw(id), Ok(Some(_)))
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        if !is_given {
            continue;
        }
        let raw = matches.get_raw(id).into_iter().flatten();
        let values: Vec<_> = raw.map(|raw| raw.to_string_lossy().into_owned()).collect();
        let value = match arg.get_action() {
            ArgAction::SetTrue => Value::Boolean(true),
            ArgAction::Append => Value::Array(values.into_iter().map(Value::String).collect()),
            _ => values.into_iter().next().map_or(Value::Boolean(true), Value::String),
        };
        table.insert(arg.get_long().unwrap_or(URL).to_owned(), value);
    }
    table
}

/// Refuses a key that is not an option, and names the nearest one.
fn known(key: &str) -> Result<(), String> {
    let line = Line::command();
    let mut names: Vec<&str> = line.get_arguments().filter_map(Arg::get_long).collect();
    names.extend([URL, http::KEY, mix::LOAD, mix::VERDICT]);
    known_among(key, names)
}

/// Refuses a key that is none of these names, and names the nearest one.
pub fn known_among(key: &str, names: Vec<&str>) -> Result<(), String> {
    if names.contains(&key) {
        return Ok(());
    }
    let near = names.into_iter().map(|name| (strsim::jaro(name, key), name));
    let nearest = near.max_by(|a, b| a.0.total_cmp(&b.0)).map_or("", |(_, name)| name);
    Err(format!("there is no key {key:?}; the nearest one is {nearest:?}"))
}

/// A run file with every key, of which all but the URL are comments.
pub fn template() -> String {
    let mut out = String::from(
        "# A load, for `weir load run FILE`. Each key is an option of `weir load`; those that are\n\
         # commented out have the value that they have unsaid, or none. A key of which\n\
         # there may be several has a list: require = [\"p99<20ms\", \"errors<0.1%\"].\n",
    );
    let line = Line::command();
    // The URL first, then what has no heading, then the workloads.
    let mut args: Vec<_> = line.get_arguments().collect();
    args.sort_by_key(|arg| (arg.get_help_heading().is_some(), arg.get_long().is_some()));
    let mut heading = None;
    for arg in args {
        if heading != arg.get_help_heading() {
            heading = arg.get_help_heading();
            let _ = write!(out, "\n# ---- {} ----\n", heading.unwrap_or("The run"));
        }
        out.push('\n');
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        for line in help.unwrap_or_default().lines() {
            let _ = writeln!(out, "# {line}");
        }
        let _ = match arg.get_long() {
            None => writeln!(out, "{URL} = \"{USUAL_URL}\""),
            Some(name) => writeln!(out, "#{name} = {}", example(arg)),
        };
    }
    mix::put_template(&mut out);
    put_step(&mut out);
    out
}

/// A step of a user, which is not an option; in TOML tables stand behind all else.
fn put_step(out: &mut String) {
    out.push_str(
        "\n# ---- The steps of a user (HTTP) ----\n\n\
         # What one user does, step by step, with cookies and values of its own.\n",
    );
    let _ = writeln!(out, "#[[{}]]", http::KEY);
    for (key, example, help) in http::KEYS {
        let _ = writeln!(out, "# {key} = {example:<38} # {help}");
    }
}

/// What stands behind a key in the template: the value that it has, or what it is.
fn example(arg: &Arg) -> String {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return "true".to_owned();
    }
    let usual = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let name = || arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = usual.or_else(name).unwrap_or_default();
    let value = if value.parse::<f64>().is_ok() { value } else { format!("{value:?}") };
    let is_list = matches!(arg.get_action(), ArgAction::Append);
    if is_list { format!("[{value}]") } else { value }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory as _, Parser as _};

    use super::{Line, NEEDS, given, known, options, table, template};
    use crate::load::mix::alone as command;

    #[test]
    fn what_was_given_is_a_run_file_again() {
        let text = "url = 'redis://h'\nmix = 'get=9,set'\nrate = 7\npoisson = true\n\
                    require = ['p99<20ms of get', 'errors<1%']\n";
        let first = command(text).unwrap();
        let again = command(&first.given.to_string()).unwrap();
        assert_eq!(first.given, again.given);
        assert_eq!((again.speed.rate, again.demands.require.len()), (7.0, 2));
        assert!(first.given.contains_key("mix") && !first.given.contains_key("threads"));
        assert!(table("a = ").is_err());
    }

    #[test]
    fn options_behind_a_file_stand_in_place_of_its_own() {
        let over = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            options(&words)
        };
        let own = over(&["--rate", "9", "--out", "there", "--require", "p99<1s"]).unwrap();
        let text = "url = 'http://h'\nrate = 5\nrequire = ['max<1s', 'errors<1']";
        let command = crate::load::mix::loads(text, own).unwrap().remove(0).1;
        assert_eq!((command.speed.rate, command.demands.require.len()), (9.0, 1));
        for (words, part) in [
            (&["http://h"][..], "the file has the URL"),
            (&["--rats", "9"], "'--rats'"),
            (&["--duration", "soon"], "--duration"),
        ] {
            let error = over(words).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let refusal = |words: &[&str]| {
            crate::load::mix::loads(text, over(words).unwrap()).err().unwrap_or_default()
        };
        assert_eq!(refusal(&["--closed"]), "line 2: rate cannot be used with --closed");
        assert_eq!(
            refusal(&["--mix", "get"]),
            "--mix has no effect on http: it is an option of redis"
        );
    }

    #[test]
    fn a_file_is_the_command_line_in_other_words() {
        let text = "url = 'postgres://h/d'\nrate = 7\npoisson = true\nclosed = false\n\
                    script = ['select-only=9', 'tpcb-like']\nduration = '3s'\n\
                    require = ['p99<20ms', 'errors<1%']\n";
        let read = command(text).unwrap();
        assert_eq!(read.speed.rate, 7.0);
        assert!(read.speed.poisson && !read.speed.closed);
        assert_eq!((read.demands.require.len(), read.url.host()), (2, "h"));
        assert_eq!(read.options.name(), "postgres");
        assert_eq!(read.speed.duration.to_string(), "3s");
    }

    #[test]
    fn what_is_wrong_in_a_file_is_told_in_its_own_words() {
        for (text, part) in [
            ("rate = 5", "no url"),
            ("url = 'http://h'\nrats = 5", "nearest one is \"rate\""),
            ("url = 'http://h'\nrate = 'fast'", "line 2: rate: \"fast\" is not a number"),
            (
                "url = 'http://h'\nrate = 5\nclosed = true",
                "line 2: rate cannot be used with closed",
            ),
            ("url = 'http://h'\nrequests-per-connection = 0", "it is 1 at least"),
            ("url = 'http://h'\nrequests-per-connection = -1", "of 0 or more"),
            ("url = 'http://h'\nrequire = ['p99<1s', 'p99<5']", "line 2: require: "),
            ("url = 'http://h'\n\nheader = 'x'", "line 3: header: "),
            ("url = 'http://h'\nrun-id = 'a b'", "line 2: run-id: "),
            ("url = 'http://h'\nexpect-rtt = 5", "not a round trip"),
            ("url = 'http://h'\nstream = 'redis://h'", "write it as http://host:8086"),
            ("url = 'http://h'\nagents = [':5']", "line 2: agents"),
            ("url = 'http://h'\npart = '1/2'\nrun-id = 'a'", "line 2: part needs start-at"),
            ("url = 'https://h'\ninsecure = true\nca = 'x'", "cannot be used with"),
            ("url = 'http://h'\n\ninsecure = true", "line 3: insecure has no effect"),
            ("url = 'redis://h'\nworkload = 'influx-write'", "line 2: workload: influx-write goes"),
            ("url = 'ftp://h'", "only http"),
            ("url = 'http://h'\n[rate]\nx = 1", "rate is a text"),
            ("url = 'http://h'\nurl = 'http://h'", "duplicate key"),
            ("url = 5 5", "expected"),
            ("url = 'http://h'\nhelp = true", "no key \"help\""),
        ] {
            let error = command(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_key_of_each_workload_is_read_by_its_struct() {
        let mut unread: Vec<String> =
            Line::command().get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect();
        for (url, keys) in [
            ("http://h", "body = 'x'\ndata = 'a.csv'\ncheck = 'status 200'\nheader = 'a: b'"),
            ("http://h", "targets = 'a'\nliteral = true\nrequests-per-connection = 9"),
            ("http://h", "user-steps = 'a'\ntimeout = '1s'\nthreads = 2\nledger = true"),
            ("postgres://h", "script = 'a=9,b'\nprotocol = 'simple'\npipelined = true\ntables = 2"),
            ("postgres://h", "table-size = 5\nscale = 2\ndefine = ['a=1']\nkey-order = 'zipf'"),
            ("redis://h", "mix = 'get'\nkeys = 5\nsize = '1-9'\npipeline = 2\nkey-order = 'zipf'"),
            ("dubbo://h/a.B", "method = 'm'\ntypes = 'int'\narguments = '[5]'\ngeneric = true"),
            ("dubbo://h/a.B", "attachment = 'a=b'\nservice-version = '1'\ngroup = 'g'"),
            ("dubbo://h/a.B", "data = 'a.csv'\nchannels = 2"),
            ("dubbo://h/a.B", "literal = true\nramp-to = 9\nseed = 7\nwarmup = '2s'"),
            ("http://h", "workload = 'influx-write'\ndb = 'd'\nrows = 'jmeter'\nbatch = 5"),
            ("http://h", "workload = 'influx-write'\nseries = 9\nout-of-order = 0.1\ngzip = true"),
            ("http://h", "workload = 'influx-write'\nheader = ['a: b']\nprepare = true"),
            ("https://h", "insecure = true\nclosed = true\nthink = '5ms'\nout = 'there'"),
            ("https://h", "ca = 'a'\nfind-limit = 'p99<1s'\nabort = 'p99<1s'\nexpect-rtt = '1ms'"),
            ("http://h", "steps = '1:1s,2:2s'\nagents = 'h,h2'\nagent-secret-file = 'a'"),
            ("http://h", "connections = 3\nrate = 7.5\npoisson = true\nrequire = ['p99<1s']"),
            (
                "http://h",
                "stream = 'http://h/write?db=a'\nstream-schema = 'jmeter'\nduration = '5s'\n\
                 stream-application = 'a'",
            ),
            ("http://h", "run-id = 'a'\npart = '1/2'\nstart-at = '2026-11-28T12:00:00Z'"),
        ] {
            let text = format!("url = '{url}'\n{keys}");
            let read = command(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let words = read.given.iter().filter(|(key, _)| *key != "url");
            let words = words.flat_map(|(key, value)| match value {
                toml::Value::Boolean(_) => vec![format!("--{key}")],
                toml::Value::Array(all) => {
                    all.iter().map(|one| format!("--{key}={}", one.as_str().unwrap())).collect()
                }
                value => vec![format!("--{key}={}", value.as_str().unwrap())],
            });
            // As a command line it is the same load, what nobody has said included.
            let words: Vec<_> = words.chain([url.to_owned()]).collect();
            let matches = Line::command().try_get_matches_from(&words).unwrap();
            assert_eq!(read.given, given(&matches), "{text}");
            let line = Line::try_parse_from(&words).unwrap();
            let clear = |mut of: crate::load::Command| {
                of.given.clear();
                format!("{of:?}")
            };
            unread.retain(|key| !read.given.contains_key(key));
            assert_eq!(clear(read), clear(line.command), "{text}");
        }
        assert!(unread.is_empty(), "{unread:?}");
    }

    #[test]
    fn what_an_option_needs_is_what_clap_has_it_need() {
        for arg in Line::command().get_arguments() {
            let shown = format!("{arg:?}");
            let (_, requires) = shown.split_once("requires: [").unwrap();
            let requires = requires.split_once(']').unwrap().0;
            let known = NEEDS.iter().find(|(key, _)| arg.get_long() == Some(key));
            let known = known.map_or(&[][..], |(_, needed)| needed);
            assert_eq!(requires.matches("IsPresent").count(), known.len(), "{shown}");
            for key in known {
                assert!(requires.contains(&format!("{:?}", key.replace('-', "_"))), "{shown}");
            }
        }
    }

    #[test]
    fn the_template_has_every_key_and_is_a_load() {
        let text = template();
        assert!(command(&text).unwrap().url.host() == "127.0.0.1", "{text}");
        let keys = text.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
        let keys: Vec<_> = keys.map(|(key, _)| key).filter(|key| !key.contains(' ')).collect();
        assert!(keys.len() > 30, "{keys:?}");
        for key in keys {
            known(key).unwrap();
        }
    }
}
