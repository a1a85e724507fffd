//! The requests of a load, made ready before its clock starts: what is the same each time is bytes,
//! what is not has its gaps read and its names found.

use std::io::Write as _;

use super::check::{Check, Take};
use super::cookies::{CookieScope, Jar};
use super::data::Data;
use super::text::{Filling, Names, RequestPart, Text};
use super::{Head, Length, Request, RequestError};
use crate::chance::Chance;
use crate::recorder::OPERATIONS_MAX;
use crate::url::Url;

/// The most steps of a user.
pub const STEPS_MAX: usize = 1000;
/// The most bytes that are held of all requests.
const BYTES_MAX: usize = 1 << 30;
/// What the seed of one step's draws is away from that of the next.
const STEP_SALT: u64 = 0x5851_f42d_4c95_7f2d;

/// One request of a load, and what is wanted of its answer.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// What its results are called; without it the method and the path.
    pub name: Option<String>,
    /// Its target, or a URL of the same server; without it that of the load's URL.
    pub target: Option<String>,
    pub request: Request,
    /// What its answer has to be.
    pub checks: Vec<Check>,
    /// What later steps take from its answer.
    pub takes: Vec<Take>,
}

/// How the requests of a load follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// Each is somebody's own; they come in turn.
    InTurn,
    /// One user goes through all of them, with cookies and the values of answers.
    AsOneUser,
}

/// What a load is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// The requests of the load, in their order.
    pub steps: Vec<Step>,
    /// How they follow one another.
    pub sequence: Sequence,
    /// What gaps are filled from.
    pub data: Vec<Data>,
    /// What chance begins with.
    pub seed: u64,
    /// `{{` begins no gap.
    pub literal: bool,
    /// A connection ends after so many requests.
    pub per_connection: Option<u32>,
}

impl Options {
    /// One request, the same each time.
    pub fn of(request: Request) -> Self {
        Self {
            steps: vec![Step { request, ..Step::default() }],
            sequence: Sequence::InTurn,
            data: Vec::new(),
            seed: 1,
            literal: true,
            per_connection: None,
        }
    }
}

/// All requests of a load.
#[derive(Debug)]
pub struct Requests {
    pub each: Vec<PreparedRequest>,
    pub operations: Vec<String>,
    pub per_connection: Option<u32>,
    sequence: Sequence,
    data: Vec<Data>,
    seed: u64,
    host: String,
    is_tls: bool,
}

/// A request that is ready to be sent.
#[derive(Debug)]
pub struct PreparedRequest {
    pub operation: usize,
    pub is_head: bool,
    /// Its answer is looked into.
    pub looks: bool,
    /// It says by itself whether the connection lasts.
    pub says_connection: bool,
    pub checks: Vec<Check>,
    pub takes: Vec<Take>,
    /// Of the values that a user has, the place of the first one taken here.
    pub taken_before: usize,
    made: Made,
}

#[derive(Debug)]
enum Made {
    /// The same bytes each time.
    Whole(Vec<u8>),
    Parts(Box<Parts>),
}

#[derive(Debug)]
struct Parts {
    method: String,
    target: Text,
    /// From behind the target up to the length of the body.
    lines: Text,
    length: Length,
    body: Text,
    takes_cookies: bool,
}

/// What a user has while it goes through its steps.
#[derive(Debug, Clone, Default)]
pub struct User {
    pub number: u64,
    pub taken: Vec<Vec<u8>>,
    pub jar: Jar,
}

impl Requests {
    /// Makes them ready for that server.
    ///
    /// # Errors
    /// One of them can't be sent.
    pub fn new(url: &Url, options: Options) -> Result<Self, RequestError> {
        let Options { steps, sequence, data, seed, literal, per_connection } = options;
        if sequence == Sequence::AsOneUser && steps.len() > STEPS_MAX {
            return Err(RequestError::Limit(format!("a user has {STEPS_MAX} steps at most")));
        }
        if steps.is_empty() || per_connection == Some(0) {
            let words = "there is at least one request, and one on each connection";
            return Err(RequestError::Limit(words.to_owned()));
        }
        let (mut operations, mut taken, mut bytes) = (Vec::new(), Vec::new(), 0);
        let is_alone = steps.len() == 1;
        let mut each = Vec::with_capacity(steps.len());
        for (at, step) in steps.into_iter().enumerate() {
            let name = match (&step.name, is_alone) {
                (None, true) => "request".to_owned(),
                _ => step.shown(url),
            };
            let names = Names { data: &data, taken: &taken, literal };
            let one = step.prepare(url, names, sequence).map_err(|source| match is_alone {
                true => source,
                false => RequestError::Step {
                    step: format!("{} ({name})", at + 1),
                    source: Box::new(source),
                },
            })?;
            bytes += one.len();
            if bytes > BYTES_MAX {
                let words = "all requests together have over 1 GiB, which is the most";
                return Err(RequestError::Limit(words.to_owned()));
            }
            taken.extend(one.takes.iter().map(|take| take.name.clone()));
            each.push(PreparedRequest { operation: number_of(&mut operations, name), ..one });
        }
        let (host, is_tls) = (url.host().to_owned(), url.tls().is_some());
        Ok(Self { each, operations, sequence, per_connection, data, seed, host, is_tls })
    }

    /// Whether one user goes through all of them.
    pub fn are_of_one_user(&self) -> bool {
        self.sequence == Sequence::AsOneUser
    }

    /// The request that a number begins with.
    pub fn first(&self, number: u64) -> usize {
        match self.sequence {
            Sequence::AsOneUser => 0,
            Sequence::InTurn => (number % self.each.len() as u64) as usize,
        }
    }

    /// How many requests, or users, there are data for.
    pub fn requests_max(&self) -> Option<u64> {
        self.data.iter().filter_map(Data::requests_max).min()
    }

    /// To whom cookies of a target go.
    pub fn asked<'a>(&'a self, target: &'a [u8]) -> CookieScope<'a> {
        CookieScope { host: &self.host, target, is_tls: self.is_tls }
    }

    /// Appends a request of a user; `scratch` holds a part of it meanwhile. Gives its operation.
    pub fn put(&self, at: usize, user: &User, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> usize {
        let one = &self.each[at];
        match &one.made {
            Made::Whole(bytes) => out.extend_from_slice(bytes),
            Made::Parts(parts) => {
                let seed = self.seed ^ (at as u64).wrapping_mul(STEP_SALT);
                let mut filling = Filling {
                    number: user.number,
                    seed: self.seed,
                    chance: Chance::of(seed, user.number),
                    data: &self.data,
                    taken: &user.taken,
                };
                parts.put(self, &user.jar, &mut filling, scratch, out);
            }
        }
        one.operation
    }
}

impl Parts {
    fn put(
        &self,
        requests: &Requests,
        jar: &Jar,
        filling: &mut Filling<'_>,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        let begin = out.len();
        self.target.fill(RequestPart::Target, filling, out);
        let end = out.len();
        self.lines.fill(RequestPart::Header, filling, out);
        scratch.clear();
        if self.takes_cookies {
            jar.put(&requests.asked(&out[begin..end]), scratch);
            out.extend_from_slice(scratch);
            scratch.clear();
        }
        self.body.fill(RequestPart::Body, filling, scratch);
        self.length.put(scratch, out);
    }
}

impl PreparedRequest {
    /// How many bytes it holds.
    fn len(&self) -> usize {
        match &self.made {
            Made::Whole(bytes) => bytes.len(),
            Made::Parts(parts) => parts.target.len() + parts.lines.len() + parts.body.len(),
        }
    }
}

impl Step {
    /// What its results are called, where there are several.
    fn shown(&self, url: &Url) -> String {
        let target = self.target.as_deref().unwrap_or(url.target());
        let (path, _) = target.split_once('?').unwrap_or((target, ""));
        // Neither a password nor the server, which is the same for all.
        let path = path
            .split_once("://")
            .map_or(path, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
        self.name.clone().unwrap_or_else(|| format!("{} {path}", self.request.method))
    }

    fn prepare(
        self,
        url: &Url,
        names: Names<'_>,
        sequence: Sequence,
    ) -> Result<PreparedRequest, RequestError> {
        let Self { target, request, checks, takes, .. } = self;
        let own = target.as_deref().map(|target| resolved(url, target)).transpose()?;
        let (url, target) = own
            .as_ref()
            .map_or((url, url.target()), |(own, target)| (own.as_ref().unwrap_or(url), &**target));
        if sequence == Sequence::InTurn && !takes.is_empty() {
            return Err(RequestError::take(&takes[0].to_string(), "there is no step behind it"));
        }
        let text = Text::new(target.as_bytes(), names)?;
        if !text.plain_is(|byte| byte.is_ascii_graphic()) {
            let what = "it has blanks, or letters that must be percent-encoded";
            return Err(RequestError::Path { target: target.to_owned(), what });
        }
        let head = Head::new(url, "", &request.method, &request.headers)?;
        let of = |name: &str| request.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let (lines, body) =
            (Text::new(head.lines.as_bytes(), names)?, Text::new(&request.body, names)?);
        let is_user = sequence == Sequence::AsOneUser;
        let is_plain = text.is_plain() && lines.is_plain() && body.is_plain();
        let made = if is_plain && !is_user {
            let mut bytes = Vec::new();
            let head = Head { target: target.to_owned(), ..head };
            head.put(&request.body, &mut bytes);
            Made::Whole(bytes)
        } else {
            let takes_cookies = is_user && !of("cookie");
            let (method, length) = (request.method.clone(), head.length);
            Made::Parts(Box::new(Parts {
                method,
                target: text,
                lines,
                length,
                body,
                takes_cookies,
            }))
        };
        Ok(PreparedRequest {
            operation: 0,
            is_head: request.method == "HEAD",
            looks: is_user || !checks.is_empty() || !takes.is_empty(),
            says_connection: of("connection"),
            checks,
            takes,
            taken_before: names.taken.len(),
            made,
        })
    }
}

/// The URL of a target that has one, and the target itself.
fn resolved(url: &Url, target: &str) -> Result<(Option<Url>, String), RequestError> {
    if target.starts_with(['/', '{']) || target == "*" {
        return Ok((None, target.to_owned()));
    }
    let wrong = |what| RequestError::Path { target: Url::shown(target), what };
    if !target.contains("://") {
        return Err(wrong("it begins neither with / nor with http://"));
    }
    let own: Url = target.parse().map_err(RequestError::Url)?;
    if !own.is_same_server(url) {
        return Err(wrong("it leads to another server than the load's URL"));
    }
    let (has_name, target) = (own.user().or(own.password()).is_some(), own.target().to_owned());
    Ok((has_name.then_some(own), target))
}

/// The operation of that name; over so many as are told apart, the last.
fn number_of(operations: &mut Vec<String>, name: String) -> usize {
    if let Some(at) = operations.iter().position(|known| *known == name) {
        return at;
    }
    if operations.len() < OPERATIONS_MAX {
        operations.push(name);
    } else if operations.len() == OPERATIONS_MAX {
        operations.push("other".to_owned());
    }
    operations.len() - 1
}

impl Length {
    /// Puts the length of a body where it has to be said, the end of the head, and the body.
    pub fn put(self, body: &[u8], out: &mut Vec<u8>) {
        let is_said = match self {
            Self::Always => true,
            Self::OfBody => !body.is_empty(),
            Self::Own => false,
        };
        if is_said {
            // Writing to a vector does not fail.
            let _ = write!(out, "Content-Length: {}\r\n", body.len());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }
}
