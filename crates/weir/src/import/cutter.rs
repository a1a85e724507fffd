//! A file of line protocol, cut into bodies; with the headers of `influx -import`.

use std::collections::VecDeque;
use std::io::{self, Read};

use bytes::Bytes;
use wire::line::line_end;

/// Lines of a body at most.
const LINES_MAX: u64 = 5_000;
/// Bytes of a body at most, unless one line alone is longer.
const BYTES_MAX: usize = 1 << 20;
/// A line that does not end within this many bytes has a quote too many: it is cut at its first
/// newline.
const LINE_BYTES_MAX: usize = 4 << 20;
const READ_BYTES: usize = 256 << 10;

/// The database and policy that points go to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The name of the database.
    pub db: String,
    /// The retention policy; empty is the default.
    pub rp: String,
}

/// Points of one write.
#[derive(Debug, PartialEq, Eq)]
pub struct Points {
    /// Where the points go.
    pub target: Target,
    /// The number in the file of the first line, from 1.
    pub first: u64,
    /// The number of its lines.
    pub lines: u64,
    /// The bytes of the lines.
    pub body: Bytes,
}

/// What is sent in one request.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// A statement of the part `# DDL`.
    Statement(String),
    /// Points of one target.
    Points(Points),
}

/// Cuts; an iterator of what is to be sent.
pub struct Cutter<R> {
    input: R,
    text: Vec<u8>,
    /// Where in `text` the next line begins.
    at: usize,
    ended: bool,
    /// Within the part of statements.
    ddl: bool,
    target: Target,
    /// Lines read so far.
    line: u64,
    first: u64,
    lines: u64,
    body: Vec<u8>,
    ready: VecDeque<Piece>,
}

impl<R: Read> Cutter<R> {
    /// A cutter of points that go to `target` until the file says otherwise.
    pub fn new(input: R, target: Target) -> Self {
        Self {
            input,
            text: Vec::new(),
            at: 0,
            ended: false,
            ddl: false,
            target,
            line: 0,
            first: 0,
            lines: 0,
            body: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.text.drain(..self.at);
        self.at = 0;
        let length = self.text.len();
        self.text.resize(length + READ_BYTES, 0);
        let read = loop {
            match self.input.read(&mut self.text[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.text.truncate(length + read);
        self.ended = read == 0;
        if self.ended && self.text.last().is_some_and(|last| *last != b'\n') {
            self.text.push(b'\n');
        }
        Ok(())
    }

    /// The end of the next line, if all of it was read.
    fn next_end(&self) -> Option<usize> {
        let rest = &self.text[self.at..];
        let newline = |rest: &[u8]| rest.iter().position(|byte| *byte == b'\n');
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
        let comment = start.is_some_and(|start| rest[start] == b'#');
        // Only fields may have newlines within, and only behind a quote.
        let end =
            if self.ddl || comment { newline(rest).unwrap_or(rest.len()) } else { line_end(rest) };
        let whole = end < rest.len();
        let unended = self.ended || rest.len() > LINE_BYTES_MAX;
        let end = if whole { Some(end) } else { newline(rest).filter(|_| unended) };
        end.map(|end| self.at + end)
    }

    fn take(&mut self, end: usize) {
        let line = self.text[self.at..end].to_vec();
        self.at = (end + 1).min(self.text.len());
        self.line += 1;
        let number = self.line;
        self.line += line.iter().filter(|byte| **byte == b'\n').count() as u64;
        let trimmed = line.trim_ascii();
        match trimmed {
            [] => {}
            [b'#', comment @ ..] => self.header(&String::from_utf8_lossy(comment)),
            statement if self.ddl => {
                self.flush();
                let statement = String::from_utf8_lossy(statement).into_owned();
                self.ready.push_back(Piece::Statement(statement));
            }
            _point => self.point(number, &line),
        }
    }

    fn header(&mut self, comment: &str) {
        let comment = comment.trim();
        if let Some(db) = comment.strip_prefix("CONTEXT-DATABASE:") {
            self.flush();
            self.target = Target { db: db.trim().to_owned(), rp: String::new() };
        } else if let Some(rp) = comment.strip_prefix("CONTEXT-RETENTION-POLICY:") {
            self.flush();
            rp.trim().clone_into(&mut self.target.rp);
        } else if comment == "DDL" || comment == "DML" {
            self.ddl = comment == "DDL";
        }
    }

    fn point(&mut self, number: u64, line: &[u8]) {
        if self.lines == LINES_MAX || self.body.len() + line.len() >= BYTES_MAX {
            self.flush();
        }
        if self.lines == 0 {
            self.first = number;
        }
        self.body.extend_from_slice(line);
        self.body.push(b'\n');
        self.lines += 1;
    }

    fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        let body = Bytes::from(std::mem::take(&mut self.body));
        let points =
            Points { target: self.target.clone(), first: self.first, lines: self.lines, body };
        self.lines = 0;
        self.ready.push_back(Piece::Points(points));
    }
}

impl<R: Read> Iterator for Cutter<R> {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            if let Some(end) = self.next_end() {
                self.take(end);
            } else if self.ended {
                self.flush();
                break;
            } else if let Err(error) = self.fill() {
                self.ended = true;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<Piece> {
        let target = Target { db: "db".to_owned(), rp: String::new() };
        Cutter::new(text.as_bytes(), target).map(Result::unwrap).collect()
    }

    fn points(db: &str, rp: &str, first: u64, body: &str) -> Piece {
        let lines = body.lines().count() as u64;
        let target = Target { db: db.to_owned(), rp: rp.to_owned() };
        Piece::Points(Points {
            target,
            first,
            lines,
            body: Bytes::copy_from_slice(body.as_bytes()),
        })
    }

    #[test]
    fn plain_lines_go_to_the_database_of_the_command() {
        assert_eq!(
            cut("m f=1 1\n\n# a comment\nm f=2 2"),
            [points("db", "", 1, "m f=1 1\nm f=2 2\n")]
        );
        assert_eq!(cut(""), []);
    }

    #[test]
    fn headers_name_statements_databases_and_policies() {
        let text = "# DDL\nCREATE DATABASE a\nCREATE DATABASE b\n\n# DML\n\
                    # CONTEXT-DATABASE: a\nm f=1\n# CONTEXT-RETENTION-POLICY:two weeks\n\
                    m f=2\n#CONTEXT-DATABASE:b\nm f=3\n";
        let expected = [
            Piece::Statement("CREATE DATABASE a".to_owned()),
            Piece::Statement("CREATE DATABASE b".to_owned()),
            points("a", "", 7, "m f=1\n"),
            points("a", "two weeks", 9, "m f=2\n"),
            points("b", "", 11, "m f=3\n"),
        ];
        assert_eq!(cut(text), expected);
    }

    #[test]
    fn a_newline_in_a_string_ends_no_line() {
        let pieces = cut("m s=\"a\nb\" 1\nm s=\"c\" 2\n");
        let [Piece::Points(points)] = &pieces[..] else { panic!("{pieces:?}") };
        assert_eq!(points.lines, 2);
    }

    #[test]
    fn bodies_are_limited_by_lines_and_bytes() {
        let lines = |pieces: Vec<Piece>| -> Vec<u64> {
            let lines = pieces.iter().map(|piece| match piece {
                Piece::Points(points) => points.lines,
                Piece::Statement(_) => 0,
            });
            lines.collect()
        };
        assert_eq!(lines(cut(&"m f=1\n".repeat(12_000))), [5_000, 5_000, 2_000]);
        let long = format!("m f=\"{}\"\n", "x".repeat(400_000));
        assert_eq!(lines(cut(&long.repeat(3))), [2, 1]);
    }

    #[test]
    fn a_quote_too_many_does_not_swallow_the_file() {
        let text = format!("m f=\"x 1\n{}", "m f=1 1\n".repeat(1_000_000));
        let lines: u64 = cut(&text)
            .iter()
            .map(|piece| match piece {
                Piece::Points(points) => points.lines,
                Piece::Statement(_) => 0,
            })
            .sum();
        assert_eq!(lines, 1_000_001);
    }
}
