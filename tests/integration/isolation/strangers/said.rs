//! What a side says to a step, and whether two sides have said the same.

use std::io;

use wire::postgres::backend::{Columns, Fields, Row};

use super::step::{Round, Step};
use rig::postgres::MessageClient;

/// Objects that a database itself has made have lower numbers.
const FIRST_OWN_OID: u32 = 16_384;
/// So much is shown on either side of where two answers part.
const SHOWN: usize = 160;

/// One message, in a form that can be held against another side's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub tag: u8,
    /// The SQLSTATE of an error.
    pub code: String,
    pub text: String,
}

/// All that was said to a step.
#[derive(Debug, Default, Clone)]
pub struct StepReply {
    /// What was said to each round, ReadyForQuery at its end.
    pub rounds: Vec<Vec<Line>>,
    /// As the last ReadyForQuery says it.
    pub status: Option<u8>,
    /// The connection was closed from the other end.
    pub closed: bool,
}

impl StepReply {
    /// The first error of all, with its code.
    pub fn error(&self) -> Option<&Line> {
        self.rounds.iter().flatten().find(|line| line.tag == b'E')
    }

    /// Where it is closed, and of what is under way, in a few words.
    pub fn brief(&self) -> String {
        let line = |line: &Line| {
            let tag = char::from(line.tag);
            format!(
                "{tag}{}{}{:.60}",
                line.code,
                if line.code.is_empty() { "" } else { " " },
                line.text
            )
        };
        let said: Vec<String> = self
            .rounds
            .iter()
            .flatten()
            .filter(|line| matches!(line.tag, b'D' | b'C' | b'E' | b'Z'))
            .take(12)
            .map(line)
            .collect();
        format!("{}{}", said.join(" "), if self.closed { " closed" } else { "" }).replace('\n', " ")
    }
}

/// What comes of holding one side against the other.
#[derive(Debug)]
pub enum Verdict {
    Same,
    /// They differ in a way that is written down; what follows can't be compared.
    Excused(&'static str),
    Wrong(String),
    /// They have said the same, and a setting was reported that is another one directly.
    Reported(String),
}

/// Hears so many rounds, or up to where the connection ends.
///
/// # Errors
/// Nothing comes for a minute, or what comes can't be read.
pub fn hear(peer: &mut MessageClient, rounds: usize) -> io::Result<StepReply> {
    let mut said = StepReply::default();
    let mut round = Vec::new();
    while said.rounds.len() < rounds {
        let (tag, body) = match peer.message() {
            Ok(message) => message,
            Err(error) if is_end(&error) => {
                said.closed = true;
                break;
            }
            Err(error) => return Err(error),
        };
        if let Some(line) = line(tag, &body)? {
            round.push(line);
        }
        if tag == b'Z' {
            said.status = body.first().copied();
            said.rounds.push(std::mem::take(&mut round));
        }
    }
    if !round.is_empty() {
        said.rounds.push(round);
    }
    Ok(said)
}

/// Whether the other end has closed the connection.
pub fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted)
}

fn line(tag: u8, body: &[u8]) -> io::Result<Option<Line>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut code = String::new();
    let text = match tag {
        // What is reported is compared as what holds at the end; the process id differs.
        b'S' | b'A' | b'K' | b'R' => return Ok(None),
        b'E' | b'N' => {
            let fields = Fields::read(body).map_err(io::Error::other)?;
            let severity = text(fields.severity());
            // What a client asks to be told of the server's own doings is not a statement's answer.
            if tag == b'N' && !matches!(&*severity, "WARNING" | "NOTICE") {
                return Ok(None);
            }
            code = text(fields.code());
            // A warning about the text itself comes when it is parsed, which may be another time.
            if tag == b'N' && code == "22P06" {
                return Ok(None);
            }
            format!("{severity} {}", text(fields.message()))
        }
        b'T' => columns(body)?,
        b't' => body.get(2..).unwrap_or_default().chunks(4).map(kind).collect::<Vec<_>>().join(" "),
        b'D' => {
            let row = Row::read(body).map_err(io::Error::other)?;
            let value = |value: Option<&[u8]>| value.map_or_else(|| "\u{0}".to_owned(), &text);
            row.values().map(value).collect::<Vec<_>>().join("\u{1}")
        }
        _ => text(body.strip_suffix(&[0]).unwrap_or(body)),
    };
    Ok(Some(Line { tag, code, text: without_number_of_process(text) }))
}

/// A schema of temporary tables has the number of its server process in its name.
fn without_number_of_process(mut text: String) -> String {
    const NAME: &str = "pg_temp_";
    let mut from = 0;
    while let Some(at) = text[from..].find(NAME) {
        let digits = from + at + NAME.len();
        let end =
            text[digits..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| digits + n);
        text.replace_range(digits..end, "");
        from = digits;
    }
    text
}

fn columns(body: &[u8]) -> io::Result<String> {
    let columns = Columns::read(body).map_err(io::Error::other)?;
    let column = |column: wire::postgres::backend::Column<'_>| {
        let kind = kind(&column.type_oid.to_be_bytes());
        format!("{}:{kind}", String::from_utf8_lossy(column.name))
    };
    Ok(columns.iter().map(column).collect::<Vec<_>>().join(" "))
}

/// A type by its number, where that is the same in any database.
fn kind(oid: &[u8]) -> String {
    let oid = oid.try_into().map_or(0, u32::from_be_bytes);
    if oid < FIRST_OWN_OID { oid.to_string() } else { "own".to_owned() }
}

/// Holds what came through Weir against what the server itself has said.
pub fn compare(step: &Step, through: &StepReply, beside: &StepReply) -> Verdict {
    for (at, round) in step.rounds.iter().enumerate() {
        let empty = Vec::new();
        let (a, b) = (through.rounds.get(at), beside.rounds.get(at));
        let verdict = of_round(round, a.unwrap_or(&empty), b.unwrap_or(&empty));
        if !matches!(verdict, Verdict::Same) {
            return verdict;
        }
    }
    if through.closed == beside.closed && through.status == beside.status {
        return Verdict::Same;
    }
    let end = |said: &StepReply| (said.status.map(char::from), said.closed);
    Verdict::Wrong(format!("at its end: {:?}, and directly {:?}", end(through), end(beside)))
}

fn of_round(round: &Round, through: &[Line], beside: &[Line]) -> Verdict {
    if through == beside {
        return Verdict::Same;
    }
    let (error, wanted) = (error(through), error(beside));
    let excuse = excuse(&round.sql, error, wanted);
    if let Some(excuse) = excuse.or_else(|| excuse_of_rows(&round.sql, through, beside)) {
        return Verdict::Excused(excuse);
    }
    let tags = |lines: &[Line]| lines.iter().map(|line| line.tag).collect::<Vec<_>>();
    let code = |line: Option<&Line>| line.map(|line| line.code.clone());
    let status = |lines: &[Line]| lines.last().map(|line| (line.tag, line.text.clone()));
    let is_alike = code(error) == code(wanted) && status(through) == status(beside);
    // Of what is thrown away by an error, not all is announced before it by both.
    let reads_no_rows = |lines: &[Line]| !lines.iter().any(|line| matches!(line.tag, b'D' | b'C'));
    if is_alike
        && (round.blur || error.is_some() && reads_no_rows(through) && reads_no_rows(beside))
    {
        return Verdict::Same;
    }
    if is_alike && error.is_some() && without_announced(through) == without_announced(beside) {
        return Verdict::Same;
    }
    if is_alike && tags(through) == tags(beside) {
        // A variable that nobody has ever set there is NULL, one that was set and reset is ''.
        let reads = round.sql.contains("current_setting") || round.sql.contains("set_config");
        let plain = |lines: &[Line]| {
            let text = |line: &Line| line.text.replace('\u{0}', "");
            lines.iter().filter(|line| line.tag == b'D').map(text).collect::<Vec<_>>()
        };
        // Where something is wrong with a constant is told in other words (point statements).
        let others = |lines: &[Line]| {
            let told = |line: &&Line| line.tag != b'D' && line.tag != b'E' && line.tag != b'N';
            lines.iter().filter(told).cloned().collect::<Vec<_>>()
        };
        let rows = |lines: &[Line]| {
            lines.iter().filter(|line| line.tag == b'D').cloned().collect::<Vec<_>>()
        };
        let same_rows = rows(through) == rows(beside) || reads && plain(through) == plain(beside);
        if same_rows && others(through) == others(beside) {
            return Verdict::Same;
        }
    }
    Verdict::Wrong(parted(&round.sql, through, beside))
}

fn error(lines: &[Line]) -> Option<&Line> {
    lines.iter().find(|line| line.tag == b'E')
}

/// The list of what may differ and ends the comparison of two sessions.
fn excuse(sql: &str, through: Option<&Line>, beside: Option<&Line>) -> Option<&'static str> {
    let draws = ["currval", "lastval"].iter().any(|word| sql.contains(word));
    match (through, beside) {
        (Some(line), _) if draws && line.code == "55000" => Some("currval and lastval"),
        (None, Some(line)) if line.code == "0A000" && line.text.contains("cached plan") => {
            Some("a statement from before a change of the catalogue")
        }
        _ if sql.contains("_statement")
            || through.is_some_and(|line| line.text.contains("\"weir_")) =>
        {
            Some("statements under Weir's own names")
        }
        (Some(line), _) if line.code == "26000" && !sql.is_ascii() => {
            Some("the statement before one whose text can't be converted")
        }
        (Some(line), _) | (_, Some(line)) if line.code == "40001" => {
            Some("a serialization failure")
        }
        _ => None,
    }
}

/// As `excuse`, by the rows.
fn excuse_of_rows(sql: &str, through: &[Line], beside: &[Line]) -> Option<&'static str> {
    let reads = |lines: &[Line], value: &str| {
        lines.iter().any(|line| line.tag == b'D' && line.text.contains(value))
    };
    // A server process that has had temporary tables before does not look for new ones when it
    // runs what was prepared (`plancache.c`: the search path is the same as it was).
    if sql.contains("EXECUTE q") && reads(through, "stolen") != reads(beside, "stolen") {
        return Some("a plan from before a temporary table");
    }
    // A setting of one's own has flags once anybody has named it to that server process.
    if sql.contains("pg_settings_get_flags") {
        return Some("a setting that somebody else has named");
    }
    // One that nobody has named there can't be read; one that was set and reset is ''.
    let is_unknown = error(beside).is_some_and(|line| {
        line.code == "42704" && line.text.contains("unrecognized configuration parameter")
    });
    let is_empty = through.iter().any(|line| line.tag == b'D' && line.text.is_empty());
    if sql.contains("current_setting") && is_unknown && is_empty {
        return Some("a setting that somebody else has named");
    }
    // What was set by `SET` is set again on another connection, under quote_all_identifiers then.
    let unquoted = |lines: &[Line]| {
        let plain = |line: &Line| Line { text: line.text.replace('"', ""), ..line.clone() };
        lines.iter().map(plain).collect::<Vec<_>>()
    };
    if sql.contains("setting") && unquoted(through) == unquoted(beside) {
        return Some("names of a setting's list in quotes");
    }
    // A twin that came back may be let in before its former server process has ended.
    let is_lock = sql.contains("pg_try_advisory");
    let is_late = is_lock && reads(through, "t") && reads(beside, "f");
    is_late.then_some("a lock of a process that is ending")
}

/// An answer without what was announced right before its error: a name that is used under other
/// settings than its text was parsed under may fail a message earlier or later.
fn without_announced(lines: &[Line]) -> Vec<Line> {
    let Some(error) = lines.iter().position(|line| line.tag == b'E') else {
        return lines.to_vec();
    };
    let (before, rest) = lines.split_at(error);
    let announces = |line: &&Line| b"123nTt".contains(&line.tag);
    let kept = before.len() - before.iter().rev().take_while(announces).count();
    before.iter().take(kept).chain(rest).cloned().collect()
}

/// Where two answers to a round part.
fn parted(sql: &str, through: &[Line], beside: &[Line]) -> String {
    let at = through.iter().zip(beside).take_while(|(a, b)| a == b).count();
    let (mut a, mut b) = (shown(through.get(at)), shown(beside.get(at)));
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(SHOWN);
    for text in [&mut a, &mut b] {
        *text = text.chars().skip(from).take(2 * SHOWN).collect();
    }
    format!("{sql}\n  through Weir: {a}\n  directly:     {b}")
}

fn shown(line: Option<&Line>) -> String {
    let Some(line) = line else { return "nothing more".to_owned() };
    let text = line.text.replace('\u{0}', "NULL").replace('\u{1}', " | ");
    format!("{} {} {text}", char::from(line.tag), line.code)
}
