//! Run files: the options of `weir load` as TOML, each by its long name.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::ArgAction;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser};
use toml::{Table, Value};

use super::run::LoadSource;
use super::workload::WorkloadOptions;
use super::{Command, http, mix};
use crate::exit::Failure;

/// The key of what is not an option.
pub(super) const URL: &str = "url";
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

/// The load that a table describes.
pub(super) fn command(table: &Table) -> Result<Command, String> {
    let (mut words, mut steps) = (Vec::new(), Vec::new());
    for (key, value) in table {
        if key == URL {
            continue;
        }
        if key == http::KEY {
            steps = http::parse(value)?;
            continue;
        }
        known(key)?;
        match value {
            Value::Array(values) => {
                for value in values {
                    words.push(option(key, value)?);
                }
            }
            Value::Boolean(true) => words.push(format!("--{key}")),
            Value::Boolean(false) => {}
            value => words.push(option(key, value)?),
        }
    }
    let url = table.get(URL).ok_or("it has no url: write url = \"http://host:port/path\"")?;
    words.extend(["--".to_owned(), text_of(URL, url)?]);
    let matches = Line::command().try_get_matches_from(words).map_err(first_part)?;
    let mut command = Command::from_arg_matches(&matches).map_err(first_part)?;
    command.given = given(&matches);
    match &mut command.options {
        WorkloadOptions::Http(options) => options.steps = steps,
        other if !steps.is_empty() => {
            let name = other.name();
            return Err(format!("[[step]] has no effect on {name}: it is of http"));
        }
        _ => {}
    }
    Ok(command)
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

fn option(key: &str, value: &Value) -> Result<String, String> {
    Ok(format!("--{key}={}", text_of(key, value)?))
}

fn text_of(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        _ => Err(format!("{key} is a text, a number, or a list of them")),
    }
}

/// Refuses a key that is not an option, and names the nearest one.
pub(super) fn known(key: &str) -> Result<(), String> {
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
    use super::{known, options, table, template};
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
        let closed = crate::load::mix::loads(text, over(&["--closed"]).unwrap()).err();
        assert!(closed.unwrap().contains("cannot be used with"));
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
            ("url = 'http://h'\nrate = 'fast'", "--rate"),
            ("url = 'http://h'\nrate = 5\nclosed = true", "--closed"),
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
