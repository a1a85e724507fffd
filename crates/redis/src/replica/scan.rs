//! An increment read from its beginning: how far it is what Weir wrote, and what lies behind.

use std::io::{self, BufRead};

use super::keys::Keys;
use super::lines::{Id, LINE_BYTES_MAX, Line};
use super::stream::Tracker;

/// Where the stream can be continued, or a file be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AofPosition {
    /// Bytes of the file before it.
    pub at: u64,
    /// Bytes of the stream before it.
    pub offset: u64,
    /// Whose history it is.
    pub id: Id,
    /// The database that is selected.
    pub database: u32,
    /// How many keys the master had, where that is known.
    pub keys: Option<Keys>,
}

/// What lies behind the last mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Nothing: the last thing Weir wrote is whole.
    None,
    /// So many bytes of what was being written when Weir or the machine died. None of them was
    /// confirmed to any client of the master as durable.
    Torn(u64),
    /// Commands of a server that has run with this file: a `SELECT` begins them.
    Servers(u64),
    /// The file is damaged at this byte, and what lies behind is sound again: this is no end that
    /// was torn off.
    Damaged(u64, String),
}

/// How much of a file is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// All that is sound.
    End,
    /// What was written up to the end of this second since 1970.
    Time(u64),
    /// What lies before this offset of the stream.
    Offset(u64),
}

/// Where a file can be cut, so that it holds what is wanted and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AofCut {
    /// The last place within what is wanted at which neither a command nor a transaction is under
    /// way; Weir's own lines at this offset lie behind it.
    pub place: AofPosition,
    /// CRC-32C between the mark before and this place.
    pub crc: u32,
    /// From where to where in the file the next mark goes, if one follows.
    pub mark: Option<(u64, u64)>,
}

/// What an increment holds, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedIncrement {
    /// The position before its first command of the stream.
    pub begin: AofPosition,
    /// The end of what is Weir's and sound.
    pub end: AofPosition,
    /// What is behind that.
    pub tail: Tail,
    /// Where what is wanted ends, if that is before the end.
    pub cut: Option<AofCut>,
    /// The first and the last time that it says, in seconds since 1970, of what is wanted.
    pub times: Option<(u64, u64)>,
}

/// Why a file can't be read as an increment.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The file can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not Weir's.
    #[error("it does not begin as Weir's files do")]
    NotWeirs,
}

/// Reads a file to its end.
///
/// # Errors
/// It can't be read, or its beginning is not Weir's.
pub fn scan(file: &mut impl BufRead) -> Result<ScannedIncrement, ScanError> {
    scan_until(file, Until::End)
}

/// Reads a file to its end, and finds where so much of it ends.
///
/// # Errors
/// It can't be read, or its beginning is not Weir's.
pub fn scan_until(file: &mut impl BufRead, until: Until) -> Result<ScannedIncrement, ScanError> {
    let mut scan = Scan::begin(file, until)?;
    let begin = scan.end;
    let trouble = scan.run(file)?;
    let tail = match trouble {
        None if scan.at == scan.end.at => Tail::None,
        None => scan.tail(),
        Some(why) => {
            let (at, is_middle) = (scan.at, mark_follows(file, &mut scan.at)?);
            if is_middle { Tail::Damaged(at, why) } else { scan.tail() }
        }
    };
    // What no mark is behind is not known to be sound.
    let cut = scan.cut.filter(|cut| scan.is_passed && cut.place.at <= scan.end.at);
    Ok(ScannedIncrement { begin, end: scan.end, tail, cut, times: scan.times })
}

struct Scan {
    tracker: Tracker,
    /// Bytes of the file that were read.
    at: u64,
    /// Bytes of the stream that were read.
    offset: u64,
    id: Id,
    keys: Option<Keys>,
    /// CRC-32C since the mark before.
    crc: u32,
    end: AofPosition,
    /// `SELECT`s up to the last mark.
    selects: u64,
    until: Until,
    /// What is wanted has ended.
    is_passed: bool,
    cut: Option<AofCut>,
    times: Option<(u64, u64)>,
}

impl Scan {
    /// Reads the first line, and the `SELECT` behind it.
    fn begin(file: &mut impl BufRead, until: Until) -> Result<Self, ScanError> {
        let mut line = Vec::new();
        let read = line_of(file, &mut line)?.then(|| Line::read(content(&line))).flatten();
        let Some(Line::Begin { id, offset, database }) = read else {
            return Err(ScanError::NotWeirs);
        };
        let mut select = Vec::new();
        put_select(&mut select, database);
        let mut found = vec![0; select.len()];
        let whole = io::Read::read_exact(file, &mut found);
        if whole.is_err() || found != select {
            return Err(ScanError::NotWeirs);
        }
        let at = (line.len() + select.len()) as u64;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&line), &select);
        let end = AofPosition { at, offset, id, database, keys: None };
        let (tracker, keys) = (Tracker::new(database), None);
        let (is_passed, cut, times, selects) = (false, None, None, 0);
        let mut scan =
            Self { tracker, at, offset, id, keys, crc, end, selects, until, is_passed, cut, times };
        scan.rested();
        Ok(scan)
    }

    fn here(&self) -> AofPosition {
        let Self { at, offset, id, keys, .. } = *self;
        AofPosition { at, offset, id, database: self.tracker.database(), keys }
    }

    /// A file may end here, if that is still within what is wanted.
    fn rested(&mut self) {
        self.is_passed |= matches!(self.until, Until::Offset(most) if self.offset > most);
        if !self.is_passed && self.until != Until::End {
            self.cut = Some(AofCut { place: self.here(), crc: self.crc, mark: None });
        }
    }

    /// Reads on until the file's end; gives what is wrong with what it has come to, if anything.
    fn run(&mut self, file: &mut impl BufRead) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            let bytes = file.fill_buf()?;
            let Some(first) = bytes.first() else { return Ok(None) };
            if *first == b'#' && self.tracker.is_between_commands() {
                line.clear();
                if !line_of(file, &mut line)? {
                    self.at += line.len() as u64;
                    // Else it is the file's end that cuts it.
                    let is_whole = line.len() > LINE_BYTES_MAX || line.ends_with(b"\n");
                    return Ok(is_whole.then(|| "a line has no end".into()));
                }
                if let Some(why) = self.line(&line) {
                    return Ok(Some(why));
                }
                continue;
            }
            let (taken, wrong) = match self.tracker.advance(bytes) {
                Ok(Some(len)) => (len, None),
                Ok(None) => (bytes.len(), None),
                Err(broken) => (1, Some(broken.to_string())),
            };
            self.crc = crc32c::crc32c_append(self.crc, bytes.get(..taken).unwrap_or_default());
            self.at += taken as u64;
            self.offset += taken as u64;
            file.consume(taken);
            if wrong.is_none() && self.tracker.is_at_rest() {
                self.rested();
            }
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
    }

    /// Takes a line of Weir's own; gives what is wrong with it.
    fn line(&mut self, line: &[u8]) -> Option<String> {
        let begun = self.at;
        self.at += line.len() as u64;
        match Line::read(content(line)) {
            Some(Line::Mark { offset, crc }) => {
                if (offset, crc) != (self.offset, self.crc) {
                    return Some(format!(
                        "the mark at offset {offset} of the stream is not of what lies before it"
                    ));
                }
                let (at, database) = (self.at, self.tracker.database());
                self.end = AofPosition { at, offset, id: self.id, database, keys: self.keys };
                self.crc = 0;
                self.selects = self.tracker.selects();
                if let Some(cut) = &mut self.cut {
                    cut.mark.get_or_insert((begun, self.at));
                }
                return None;
            }
            Some(Line::Renamed(id)) => self.id = id,
            Some(Line::Keys(keys)) => self.keys = Some(keys),
            Some(Line::Begin { .. }) => return Some("a second beginning".into()),
            Some(Line::Time(time)) => {
                self.is_passed |= matches!(self.until, Until::Time(most) if time > most);
                if !self.is_passed {
                    let (first, _) = self.times.unwrap_or((time, time));
                    self.times = Some((first, time));
                }
            }
            None => {}
        }
        self.crc = crc32c::crc32c_append(self.crc, line);
        None
    }

    /// What the bytes behind the last mark are.
    fn tail(&self) -> Tail {
        let len = self.at.saturating_sub(self.end.at);
        match self.tracker.selects() > self.selects {
            true => Tail::Servers(len),
            false => Tail::Torn(len),
        }
    }
}

/// Whether a whole mark follows somewhere; reads to the file's end and counts the bytes.
fn mark_follows(file: &mut impl BufRead, at: &mut u64) -> io::Result<bool> {
    let (mut line, mut found) = (Vec::new(), false);
    loop {
        line.clear();
        // In pieces: what is not a line of Weir's may be of any length.
        let is_line = line_of(file, &mut line)?;
        if line.is_empty() {
            return Ok(found);
        }
        *at += line.len() as u64;
        // The line may have begun within something else.
        let begins = line.windows(11).rposition(|part| part == b"#WEIR mark ");
        let mark = begins.and_then(|from| Line::read(content(line.get(from..)?)));
        found |= is_line && mark.is_some();
    }
}

/// Reads a line with its end, or as much as a line may be long; false where it has no end.
fn line_of(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let mut limited = io::Read::take(file, LINE_BYTES_MAX as u64 + 1);
    limited.read_until(b'\n', line)?;
    Ok(line.ends_with(b"\r\n"))
}

fn content(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r\n").unwrap_or(line)
}

/// The command that a file begins with.
pub fn put_select(out: &mut Vec<u8>, database: u32) {
    wire::resp::put_command(out, ["SELECT", &database.to_string()].iter());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::resp::put_command;

    use super::{Id, Line, ScanError, Tail, Until, put_select, scan, scan_until};

    /// A file of three groups, and where each ends.
    fn file() -> (Vec<u8>, Vec<usize>) {
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        let id = Id::read(&[b'1'; 40]).unwrap();
        Line::Begin { id, offset: 100, database: 2 }.put(&mut out);
        put_select(&mut out, 2);
        ends.push(out.len());
        let (mut from, mut offset) = (0, 100);
        for n in 0..3 {
            Line::Time(5).put(&mut out);
            let begun = out.len();
            put_command(&mut out, ["SET", &format!("k{n}"), "#WEIR"].iter());
            put_command(&mut out, ["PING"].iter());
            offset += (out.len() - begun) as u64;
            let crc = crc32c::crc32c(&out[from..]);
            Line::Mark { offset, crc }.put(&mut out);
            from = out.len();
            ends.push(from);
        }
        (out, ends)
    }

    #[test]
    fn a_file_cut_anywhere_is_torn_and_goes_on_from_the_mark_before() {
        let (all, ends) = file();
        for cut in ends[0]..=all.len() {
            let found = scan(&mut &all[..cut]).unwrap();
            let end = ends.iter().rfind(|end| **end <= cut).unwrap();
            assert_eq!(found.end.at, *end as u64, "cut at {cut}");
            let torn = (cut - end) as u64;
            let tail = if torn == 0 { Tail::None } else { Tail::Torn(torn) };
            assert_eq!(found.tail, tail, "cut at {cut}");
        }
        for cut in 0..ends[0] {
            assert!(matches!(scan(&mut &all[..cut]), Err(ScanError::NotWeirs)));
        }
    }

    #[test]
    fn a_damaged_middle_is_no_torn_tail() {
        let (all, ends) = file();
        for at in ends[0]..ends[2] {
            let mut bad = all.clone();
            bad[at] ^= 0x04;
            let found = scan(&mut &bad[..]).unwrap();
            // Where it is in the last mark but one, the last alone does not tell: pages of a group
            // that was not synced may reach the disk in any order.
            let is_told = matches!(found.tail, Tail::Damaged(..));
            assert!(is_told || at > ends[1], "byte {at}: {:?}", found.tail);
            assert!(found.end.at <= at as u64);
        }
    }

    #[test]
    fn what_a_server_wrote_is_recognised() {
        let (mut all, ends) = file();
        // A server cuts what is torn, and begins with SELECT.
        for cut in [ends[3], ends[3] - 1, ends[2] + 6] {
            let mut altered = all[..cut].to_vec();
            put_command(&mut altered, ["SELECT", "0"].iter());
            put_command(&mut altered, ["SET", "own", "1"].iter());
            let found = scan(&mut &altered[..]).unwrap();
            if cut == ends[3] {
                assert!(matches!(found.tail, Tail::Servers(_)), "cut at {cut}: {found:?}");
            }
        }
        all.extend([0; 64]);
        let found = scan(&mut &all[..]).unwrap();
        assert_eq!(found.tail, Tail::Torn(64));
    }

    #[test]
    fn it_is_cut_by_time_and_by_offset_and_never_within_a_transaction() {
        let (mut out, id) = (Vec::new(), Id::read(&[b'1'; 40]).unwrap());
        Line::Begin { id, offset: 100, database: 2 }.put(&mut out);
        put_select(&mut out, 2);
        let (mut from, mut offset, mut rests) = (0, 100, vec![100]);
        for time in 5..9 {
            Line::Time(time).put(&mut out);
            for words in [&["MULTI"][..], &["INCR", "n"], &["EXEC"], &["PING"]] {
                let begun = out.len();
                put_command(&mut out, words.iter());
                offset += (out.len() - begun) as u64;
                if matches!(words[0], "EXEC" | "PING") {
                    rests.push(offset);
                }
            }
            Line::Mark { offset, crc: crc32c::crc32c(&out[from..]) }.put(&mut out);
            from = out.len();
        }
        for wanted in 0..offset + 3 {
            let found = scan_until(&mut &out[..], Until::Offset(wanted)).unwrap();
            let rest = rests.iter().rfind(|rest| **rest <= wanted);
            let cut = found.cut.map(|cut| cut.place.offset);
            assert_eq!(cut, rest.copied().filter(|_| wanted < offset), "offset {wanted}");
            if let Some(cut) = found.cut {
                // What is cut there and marked is a whole file again.
                let mut whole = out[..cut.place.at as usize].to_vec();
                Line::Mark { offset: cut.place.offset, crc: cut.crc }.put(&mut whole);
                let again = scan(&mut &whole[..]).unwrap();
                assert_eq!((again.end.offset, again.tail), (cut.place.offset, Tail::None));
            }
        }
        for (time, passed) in [(4, Some(0)), (5, Some(1)), (7, Some(3)), (8, None), (99, None)] {
            let found = scan_until(&mut &out[..], Until::Time(time)).unwrap();
            let cut = found.cut.map(|cut| cut.place.offset);
            assert_eq!(cut, passed.map(|groups| rests[groups * 2]), "time {time}");
            let last = found.times.map(|(_, last)| last);
            assert_eq!(last, (time >= 5).then_some(time.min(8)), "time {time}");
        }
        // What no mark is behind is not known to be sound.
        let torn = &out[..out.len() - 5];
        assert_eq!(scan_until(&mut &torn[..], Until::Offset(offset - 1)).unwrap().cut, None);
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(bytes: Vec<u8>, at in 0..600_usize) {
            let _ = scan(&mut &bytes[..]);
            let (mut all, _) = file();
            let at = at.min(all.len());
            all.splice(at..at, bytes);
            let _ = scan(&mut &all[..]);
        }
    }
}
