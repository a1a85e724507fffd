//! What a run file has that is not an option: several loads, and beyond what a run is INVALID.

use std::fmt::Write as _;
use std::time::Duration;

use meter::verdict::{THRESHOLDS, Thresholds};
use toml::{Table, Value};

use super::entries::{Entries, Entry, parse};
use super::file::{URL, command};
use super::{Command, LOAD as ALONE};

/// The tables of loads, and that of thresholds.
pub const LOAD: &str = "load";
/// The table of thresholds.
pub const VERDICT: &str = "verdict";
/// What a load of several has besides its options.
const NAME: &str = "name";
const SHARE: &str = "share";
/// The most loads of a run.
const LOADS_MAX: usize = 20;
const NAME_MAX: usize = 40;
/// What is of the whole run.
const WHOLE: [&str; 18] = [
    "abort",
    "agent-secret-file",
    "agents",
    "closed",
    "duration",
    "expect-rtt",
    "find-limit",
    "ledger",
    "out",
    "part",
    "require",
    "run-id",
    "start-at",
    "stream",
    "stream-application",
    "stream-schema",
    "warmup",
    VERDICT,
];
/// What a share is of.
const RATES: [&str; 3] = ["rate", "ramp-to", "steps"];

/// The loads that a file's text describes, with their names. What is in `over` stands in place of
/// what the file has above its loads.
pub fn loads(text: &str, over: Table) -> Result<Vec<(String, Command)>, String> {
    let mut whole = parse(text)?;
    whole.extend(Entries::of_options(over));
    let at = whole.at(VERDICT);
    let verdict = whole.remove(VERDICT);
    let thresholds = verdict.as_ref().map_or(Ok(THRESHOLDS), |of| thresholds(of, &at))?;
    let verdict = verdict.map(|entry| entry.value);
    let line = whole.line(LOAD);
    let mut loads = match whole.remove(LOAD) {
        None => vec![(ALONE.to_owned(), command(whole)?)],
        Some(entry) => match entry.tables().filter(|_| entry.value.is_array()) {
            Some(tables) => several(&whole, tables)?,
            None => return Err(format!("{line}{LOAD} is a list of tables: write [[{LOAD}]]")),
        },
    };
    for (_, load) in &mut loads {
        load.thresholds = thresholds;
        load.given.extend(verdict.clone().map(|verdict| (VERDICT.to_owned(), verdict)));
    }
    Ok(loads)
}

/// The only load of a file.
#[cfg(test)]
pub fn alone(text: &str) -> Result<Command, String> {
    let mut loads = loads(text, Table::new())?;
    assert_eq!(loads.len(), 1);
    Ok(loads.remove(0).1)
}

/// What stands above all loads is of each that does not say it otherwise.
fn several(whole: &Entries, tables: Vec<Entries>) -> Result<Vec<(String, Command)>, String> {
    if whole.has(URL) {
        let line = whole.line(URL);
        let words = format!("each [[{LOAD}]] has a url of its own, so there is none above them");
        return Err(format!("{line}{words}"));
    }
    if tables.is_empty() || tables.len() > LOADS_MAX {
        return Err(format!("a run has 1 to {LOADS_MAX} loads"));
    }
    let (mut loads, mut shares) = (Vec::<(String, Command)>::new(), Vec::new());
    for (number, mut own) in tables.into_iter().enumerate() {
        let line = own.line(NAME);
        let named = own.remove(NAME).map(|entry| name(&entry.value)).transpose();
        let named = named.map_err(|words| format!("{line}{words}"))?;
        let about = named.clone().unwrap_or_else(|| format!("number {}", number + 1));
        let line = own.line(SHARE);
        let of_share = own.remove(SHARE).map(|entry| entry.value);
        let load = one(whole, own, of_share.is_some());
        let mut load = load.map_err(|words| format!("[[{LOAD}]] {about}: {words}"))?;
        load.speed.number = number as u64;
        let name = named.unwrap_or_else(|| usual(&load, &loads));
        if loads.iter().any(|(other, _)| *other == name) {
            return Err(format!("two loads are called {name:?}"));
        }
        if let Some(value) = of_share {
            shares.push(share(&value).map_err(|words| format!("{line}{words}"))?);
            load.given.insert(SHARE.to_owned(), value);
        }
        loads.push((name, load));
    }
    if shares.is_empty() {
        return Ok(loads);
    }
    if shares.len() != loads.len() || loads.iter().any(|(_, load)| load.speed.closed) {
        return Err("either all loads have a share of the rate, or none, and none where they are \
                    closed"
            .to_owned());
    }
    let sum = shares.iter().sum::<f64>();
    loads.iter_mut().zip(&shares).for_each(|((_, load), share)| load.speed.part = share / sum);
    Ok(loads)
}

/// One of several loads, which may have a share of the rate that stands above.
fn one(whole: &Entries, own: Entries, has_share: bool) -> Result<Command, String> {
    for key in own.keys() {
        let line = own.line(key);
        if WHOLE.contains(&key) {
            return Err(format!("{line}{key} is of the whole run: write it above the loads"));
        }
        if has_share && RATES.contains(&key) {
            return Err(format!("{line}its share is of the rate above the loads: leave {key} out"));
        }
    }
    let mut merged = whole.clone();
    merged.extend(own);
    command(merged)
}

fn name(value: &Value) -> Result<String, String> {
    let name = value.as_str().filter(|name| {
        let is_word = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(is_word)
    });
    let wrong = || format!("a load's name is a word of {NAME_MAX} letters at most");
    name.map(str::to_owned).ok_or_else(wrong)
}

fn share(value: &Value) -> Result<f64, String> {
    let share = value.as_float().or(value.as_integer().map(|whole| whole as f64));
    let share = share.filter(|share| *share > 0.0 && share.is_finite());
    share.ok_or_else(|| "a share is a number above 0".to_owned())
}

/// What a load is called that has no name: by what it is of, and by a number where others are.
fn usual(load: &Command, others: &[(String, Command)]) -> String {
    let kind = load.options.name();
    let numbered = (2..).map(|number| format!("{kind}-{number}"));
    let is_free = |name: &String| !others.iter().any(|(other, _)| other == name);
    std::iter::once(kind.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

/// Beyond what a run is INVALID. What is not said is as usual.
fn thresholds(entry: &Entry, at: &str) -> Result<Thresholds, String> {
    let tables = entry.tables().filter(|_| entry.value.is_table());
    let wrong = || format!("{at} is a table: write [{VERDICT}]");
    let table = tables.and_then(|mut tables| tables.pop()).ok_or_else(wrong)?;
    let mut of = THRESHOLDS;
    for (key, value) in table.keys().filter_map(|key| Some((key, table.value(key)?))) {
        let line = table.line(key);
        let share = || {
            let number = value.as_float().or(value.as_integer().map(|whole| whole as f64));
            let number = number.filter(|number| (0.0..=1.0).contains(number));
            number.ok_or_else(|| format!("{line}{VERDICT}.{key} is a share from 0 to 1"))
        };
        let span = || -> Result<Duration, String> {
            let wrong = || format!("{line}{VERDICT}.{key} is a time, as 1ms");
            let text = value.as_str().ok_or_else(wrong)?;
            super::round_trip(text).map_err(|words| format!("{line}{VERDICT}.{key}: {words}"))
        };
        match key {
            "late-share" => of.late_share = share()?,
            "late-min" => {
                let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
                of.late_min =
                    count.ok_or_else(|| format!("{line}{VERDICT}.{key} is a whole number"))?;
            }
            "lateness-share" => of.lateness_share = share()?,
            "lateness-min" => of.lateness_min = span()?,
            "busy-open" => of.busy_open = share()?,
            "busy-closed" => of.busy_closed = share()?,
            "turnaround-share" => of.turnaround_share = share()?,
            "turnaround-min" => of.turnaround_min = span()?,
            "waiting" => of.waiting = share()?,
            "standing" => of.standing = share()?,
            "little" => of.little = share()?,
            _ => {
                let words = format!("there is no threshold {key:?}: weir load init shows all");
                return Err(format!("{line}{words}"));
            }
        }
    }
    Ok(of)
}

/// Puts what a file may have besides options, as comments; in TOML tables stand behind all else.
pub fn put_template(out: &mut String) {
    let of = THRESHOLDS;
    let _ = write!(
        out,
        "\n# ---- Beyond what a run is INVALID ----\n\n\
         # Shares are from 0 to 1; docs/load/figures.md has what each is of.\n#[{VERDICT}]\n\
         # late-share = {}\n# late-min = {}\n# lateness-share = {}\n# lateness-min = \"{:?}\"\n\
         # busy-open = {}\n# busy-closed = {}\n# turnaround-share = {}\n\
         # turnaround-min = \"{:?}\"\n# waiting = {}\n# standing = {}\n# little = {}\n",
        of.late_share,
        of.late_min,
        of.lateness_share,
        of.lateness_min,
        of.busy_open,
        of.busy_closed,
        of.turnaround_share,
        of.turnaround_min,
        of.waiting,
        of.standing,
        of.little,
    );
    let _ = write!(
        out,
        "\n# ---- Several loads at a time, in place of one url above ----\n\n\
         # Each has connections, threads and a schedule of its own, and any option but those of\n\
         # the whole run: {}.\n\
         # What stands above the loads is of each that does not say it otherwise.\n#[[{LOAD}]]\n\
         # {NAME} = \"cache\"       # what it is called in results\n\
         # {URL} = \"redis://127.0.0.1:6379\"\n\
         # {SHARE} = 9            # of the rate above, where all loads have one\n",
        WHOLE.join(", "),
    );
}

/// The loads as a file has them, of what was given for each.
pub fn text(loads: &[(String, Table)]) -> String {
    if let [(_, alone)] = loads {
        return alone.to_string();
    }
    let mut whole = Table::new();
    let tables = loads.iter().map(|(name, given)| {
        let mut own = given.clone();
        // A share is of the rate that stands above.
        let rates = own.contains_key(SHARE).then_some(RATES).into_iter().flatten();
        for key in WHOLE.into_iter().chain(rates) {
            if let Some(value) = own.remove(key) {
                whole.insert(key.to_owned(), value);
            }
        }
        own.insert(NAME.to_owned(), Value::String(name.clone()));
        Value::Table(own)
    });
    let tables = tables.collect();
    whole.insert(LOAD.to_owned(), Value::Array(tables));
    whole.to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meter::engine::Pace;

    use super::{Command, put_template, text};

    fn loads(text: &str) -> Result<Vec<(String, Command)>, String> {
        super::loads(text, toml::Table::new())
    }

    const TWO: &str = "rate = 1000\nclosed = false\nduration = '5s'\n\
                       require = ['p99<9ms of cache']\n\
                       [[load]]\nname = 'cache'\nurl = 'redis://h'\nmix = 'get,set'\nSHARE9\n\
                       [[load]]\nurl = 'postgres://h/d'\nconnections = 3\nSHARE1\n";

    fn two(shared: bool) -> String {
        match shared {
            true => TWO.replace("SHARE", "share = "),
            false => TWO.replace("SHARE9", "").replace("SHARE1", "rate = 5"),
        }
    }

    #[test]
    fn loads_take_what_is_above_them_and_say_the_rest() {
        let read = loads(&two(false)).unwrap();
        let names: Vec<_> = read.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["cache", "postgres"]);
        let of = |at: usize| &read[at].1;
        assert_eq!((of(0).speed.rate, of(1).speed.rate), (1000.0, 5.0));
        assert_eq!((of(0).means.connections, of(1).means.connections), (64, 3));
        assert_eq!(
            (of(0).demands.require.len(), of(1).speed.duration.to_string()),
            (1, "5s".to_owned())
        );
        // They are the same when they are written down and read again.
        let given: Vec<_> =
            read.iter().map(|(name, of)| (name.clone(), of.given.clone())).collect();
        let again = loads(&text(&given)).unwrap();
        assert_eq!(again[1].1.given, given[1].1);
        assert_eq!((&*again[0].0, again[0].1.speed.rate), ("cache", 1000.0));
    }

    #[test]
    fn shares_divide_the_rate() {
        let read = loads(&two(true)).unwrap();
        let counts = read.iter().map(|(_, load)| match load.speed.pace().unwrap() {
            Pace::Open(schedule) => schedule.due(0, 1).count(),
            Pace::Closed(_) => 0,
        });
        assert_eq!(counts.collect::<Vec<_>>(), [4500, 500]);
        // They do so when they are written down and read again, and are judged by the same.
        let judged = format!("{}[verdict]\nlittle = 0.5\n", two(true));
        let read = loads(&judged).unwrap();
        let given: Vec<_> =
            read.iter().map(|(name, of)| (name.clone(), of.given.clone())).collect();
        let again = loads(&text(&given)).unwrap();
        let parts = again.iter().map(|(_, load)| (load.speed.part, load.thresholds.little));
        assert_eq!(parts.collect::<Vec<_>>(), [(0.9, 0.5), (0.1, 0.5)]);
    }

    #[test]
    fn what_is_wrong_in_a_mix_is_told_with_the_load() {
        let load = "[[load]]\nurl = 'redis://h'\n";
        for (text, part) in [
            ("url = 'redis://h'\n[[load]]\nurl = 'redis://h'".to_owned(), "url of its own"),
            (format!("{load}duration = '5s'"), "number 1: line 3: duration is of the whole run"),
            (format!("{load}rats = 5"), "nearest one is \"rate\""),
            (format!("{load}name = 'a b'"), "is a word"),
            (format!("{load}name = 'x'\n{load}name = 'x'"), "two loads are called"),
            (format!("{load}share = 0"), "above 0"),
            (format!("{load}share = 1\nrate = 5"), "leave rate out"),
            (format!("{load}share = 1\n{load}"), "all loads have a share"),
            (format!("closed = true\n{load}share = 1"), "none where they are"),
            ("[load]\nurl = 'redis://h'".to_owned(), "[[load]]"),
            (format!("{load}[[load.load]]\nrate = 5"), "number 1: line 3: load has no place"),
            (format!("{load}[load.verdict]\nlittle = 1"), "line 3: verdict is of the whole run"),
            ("load = []".to_owned(), "1 to 20 loads"),
            ("load = [5]".to_owned(), "line 1: load is a list of tables"),
            ("rate = 5".to_owned(), "no url"),
            ("url = 'http://h'\n[verdict]\nbusy = 1".to_owned(), "no threshold \"busy\""),
            (
                "url = 'http://h'\n[verdict]\nlittle = 2".to_owned(),
                "line 3: verdict.little is a share from 0 to 1",
            ),
            ("url = 'http://h'\nverdict = 5".to_owned(), "line 2: verdict is a table"),
            ("url = 'http://h'\n[verdict]\nlateness-min = 2".to_owned(), "is a time"),
        ] {
            let error = loads(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(loads(&load.repeat(21)).unwrap_err().contains("1 to 20 loads"));
    }

    #[test]
    fn thresholds_are_those_that_are_said_and_the_template_has_all() {
        let read =
            loads("url = 'http://h'\n[verdict]\nbusy-open = 0.5\nlateness-min = '1ms'").unwrap();
        let of = read[0].1.thresholds;
        assert_eq!((of.busy_open, of.lateness_min), (0.5, Duration::from_millis(1)));
        let mut template = String::new();
        put_template(&mut template);
        let (table, _) = template.split_once("\n# ---- Several").unwrap();
        let table = table.replace("#[", "[").replace("\n# l", "\nl");
        let lines = table.lines().map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = ") => key.to_owned(),
            Some(_) => String::new(),
            None => line.to_owned(),
        });
        let lines = lines.collect::<Vec<_>>().join("\n");
        let read = loads(&format!("url = 'http://h'\n{lines}")).unwrap();
        assert_eq!(read[0].1.thresholds, meter::verdict::THRESHOLDS);
    }
}
