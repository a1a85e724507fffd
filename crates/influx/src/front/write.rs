//! `/write` and `/api/v2/write`: from a request to a journal record, and to 204 once it is safe.

use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use journal::AckError;
use wire::line::{self, Precision};

use super::answer::{self, Answer};
use super::append::NotAdmitted;
use super::aside::LINES_AT_ONCE_MAX;
use super::body::Whole;
use super::credentials::Asker;
use super::destination::{Destination, Resolved};
use super::http::Connection;
use super::large::{Large, Read};
use super::parameters::{self, WriteParameters};
use super::stages::PARSE;
use super::{Front, POINTS_KEPT_MAX, body};

/// Which of InfluxDB's write endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/write`.
    V1,
    /// `/api/v2/write`, as InfluxDB 1.8 maps it.
    V2,
}

impl Api {
    /// The endpoint at a path.
    pub fn at(path: &str) -> Option<Self> {
        match path {
            "/write" => Some(Self::V1),
            "/api/v2/write" => Some(Self::V2),
            _ => None,
        }
    }
}

/// Answers a write.
pub async fn serve(
    front: &Front,
    connection: &Connection,
    api: Api,
    head: &Parts,
    body: Incoming,
) -> Answer {
    let query = head.uri.query().unwrap_or_default();
    let write = Write::new(front, connection, api, query, &head.headers);
    let done = write.answer(body).await;
    done.map_or_else(|refusal| refusal, |()| answer::empty(StatusCode::NO_CONTENT))
}

/// A write, from its head.
pub struct Write<'a> {
    front: &'a Front,
    connection: &'a Connection,
    api: Api,
    headers: &'a HeaderMap,
    parameters: WriteParameters<'a>,
}

/// What was read from a body. The points are in the worker's buffer.
struct Parsed {
    outcome: line::Outcome,
    begun: Instant,
    done: Instant,
}

/// A write whose good points, if it has any, the journal has taken.
pub struct Taken {
    ticket: Option<journal::Ticket>,
    parsed: Parsed,
}

impl Taken {
    /// Waits until the points are acknowledged.
    ///
    /// # Errors
    /// The answer where they can't be, or where InfluxDB has a 400 for what was not taken.
    pub async fn acknowledged(self, front: &Front) -> Result<(), Answer> {
        let settled = match self.ticket {
            Some(ticket) => front.appender.acknowledged(ticket).await,
            None => Ok(()),
        };
        self.settled(front, settled, Instant::now())
    }

    /// What the points, if there are any, are waited for by.
    pub fn ticket(&self) -> Option<journal::Ticket> {
        self.ticket
    }

    /// What to answer, from what the journal says at this moment.
    ///
    /// # Errors
    /// As [`acknowledged`](Self::acknowledged).
    pub fn settled(
        self,
        front: &Front,
        settled: Result<(), AckError>,
        now: Instant,
    ) -> Result<(), Answer> {
        let gateway = &front.gateway;
        settled.map_err(|error| gateway.unacknowledged(&error))?;
        let Parsed { outcome, begun, done } = self.parsed;
        if self.ticket.is_some() {
            gateway.metrics.acknowledged([begun, done, now], outcome.points);
        }
        match outcome.refusal() {
            None => Ok(()),
            Some(why) => Err(answer::error(StatusCode::BAD_REQUEST, &why)),
        }
    }
}

impl<'a> Write<'a> {
    /// A write with these parameters and headers.
    pub fn new(
        front: &'a Front,
        connection: &'a Connection,
        api: Api,
        query: &'a str,
        headers: &'a HeaderMap,
    ) -> Self {
        let parameters = WriteParameters::parse(query);
        Self { front, connection, api, headers, parameters }
    }

    /// Takes a write for which nothing has to be waited for: neither to know who sends it nor
    /// where it goes, nor for room. `None` where something has, and where it is refused for its
    /// head: then [`serve`] finds out what to say.
    pub fn take_at_once(&self, body: &[u8]) -> Option<Result<Taken, Answer>> {
        let gateway = &self.front.gateway;
        let (name, password) = (self.parameters.user.clone(), self.parameters.password.clone());
        let precision = self.precision().ok()?;
        let (db, rp) = self.target().ok()?;
        if !gateway.auth.is_known_writer(name, password, self.headers, db)
            || gateway.backends.embedded().is_some_and(|embedded| !embedded.has_room())
        {
            return None;
        }
        let Resolved::To(destination) = gateway.lookup(db, rp).ok()? else {
            return None;
        };
        let unfolded;
        let mut body = body;
        if body::is_gzip(self.headers) {
            let (max, pulse) = (gateway.live().limits.decompressed_max, &self.front.worker.pulse);
            match body::unfolded_at_once(body, LINES_AT_ONCE_MAX, max, pulse) {
                Ok(whole) => unfolded = whole?,
                Err(refusal) => return Some(Err(refusal)),
            }
            body = &unfolded;
        }
        let mut parsed = self.parse(body, precision);
        let found = self.found(&parsed.outcome, rp, Some(&destination));
        let admitted = match found {
            Ok(None) => Ok(None),
            Ok(Some(to)) => self.admit(db, to, &mut parsed.outcome),
            Err(refusal) => Err(NotAdmitted::Refused(refusal)),
        };
        let taken = match admitted {
            Ok(ticket) => Ok(Taken { ticket, parsed: self.counted(parsed) }),
            Err(NotAdmitted::Refused(refusal)) => {
                self.counted(parsed);
                Err(refusal)
            }
            Err(NotAdmitted::Undecided) => return None,
        };
        Some(taken)
    }

    /// The checks stand in InfluxDB's order, so that a request with several faults hears of the
    /// same one from both.
    async fn answer(&self, body: Incoming) -> Result<(), Answer> {
        let gateway = &self.front.gateway;
        let (name, password) = (&self.parameters.user, &self.parameters.password);
        let (name, password) = (name.clone(), password.clone());
        // A password is checked in our time, not in that of the body.
        self.connection.progress.serving();
        let asker =
            Asker { peer: self.connection.peer, database: self.target().map_or("", |(db, _)| db) };
        let user = gateway.auth.user(name, password, self.headers, &asker).await?;
        self.connection.progress.body();
        let precision = self.precision()?;
        let (db, rp) = self.target()?;
        let destination = self.destination(db, rp).await?;
        if let Some(user) = user.filter(|user| !user.may_write(db)) {
            let name = &user.name;
            let message = format!("{name:?} user is not authorized to write to database {db:?}");
            return Err(answer::error(StatusCode::FORBIDDEN, &message));
        }
        let limits = gateway.live().limits;
        let whole = body::read(self.headers, body, limits, &gateway.bodies).await;
        let whole = whole.inspect_err(|refusal| self.count_refusal(refusal))?;
        let Some(body) = whole.at_once(LINES_AT_ONCE_MAX, &self.front.worker.pulse)? else {
            return self.answer_large(whole, precision, (db, rp), destination).await;
        };
        let mut parsed = self.counted(self.parse(&body, precision));
        drop((whole, body));
        let Some(to) = self.found(&parsed.outcome, rp, destination.as_ref())? else {
            return Taken { ticket: None, parsed }.acknowledged(self.front).await;
        };
        if parsed.outcome.points > 0 {
            self.front.room().await?;
        }
        match self.admit(db, to, &mut parsed.outcome) {
            Ok(ticket) => Taken { ticket, parsed }.acknowledged(self.front).await,
            Err(NotAdmitted::Refused(refusal)) => Err(refusal),
            Err(NotAdmitted::Undecided) => {
                let points = std::mem::take(&mut *self.front.points.borrow_mut());
                self.admit_aside(db, to, points, parsed).await
            }
        }
    }

    /// The same for what is too large for the worker.
    async fn answer_large(
        &self,
        body: Whole,
        precision: Precision,
        (db, rp): (&str, &str),
        destination: Option<Destination>,
    ) -> Result<(), Answer> {
        let gateway = Arc::clone(&self.front.gateway);
        self.connection.progress.serving();
        let large = Large {
            body,
            precision,
            stamp: self.connection.stamp.tags().to_vec(),
            unsigned: gateway.live().settings.unsigned_integers,
        };
        let reader = Arc::clone(&gateway);
        let read = gateway.aside.run(move || large.read(&reader)).await?;
        let Read { outcome, points, begun, done } =
            read.map_err(Answer::from).inspect_err(|refusal| self.count_refusal(refusal))?;
        let found = self.found(&outcome, rp, destination.as_ref())?.cloned();
        let parsed = Parsed { outcome, begun, done };
        let Some(to) = found.filter(|_| parsed.outcome.points > 0) else {
            return Taken { ticket: None, parsed }.settled(self.front, Ok(()), Instant::now());
        };
        self.front.room().await?;
        self.admit_aside(db, &to, points, parsed).await
    }

    /// Takes points elsewhere, and waits until they are acknowledged.
    async fn admit_aside(
        &self,
        db: &str,
        to: &Destination,
        points: Vec<u8>,
        parsed: Parsed,
    ) -> Result<(), Answer> {
        let gateway = &self.front.gateway;
        let Parsed { outcome, begun, done } = parsed;
        let (outcome, ticket) = gateway.admit_aside(db, to, points, outcome).await?;
        let parsed = Parsed { outcome, begun, done };
        let settled = match ticket {
            Some(ticket) => gateway.acknowledged_aside(ticket).await,
            None => Ok(()),
        };
        Taken { ticket, parsed }.settled(self.front, settled, Instant::now())
    }

    /// Counts what is refused for want of memory.
    fn count_refusal(&self, refusal: &Answer) {
        if refusal.status() == StatusCode::SERVICE_UNAVAILABLE {
            self.front.gateway.metrics.refused.memory.inc();
        }
    }

    /// Puts the points in the worker's buffer into the journal.
    fn admit(
        &self,
        db: &str,
        to: &Destination,
        outcome: &mut line::Outcome,
    ) -> Result<Option<journal::Ticket>, NotAdmitted> {
        let mut points = self.front.points.borrow_mut();
        let ticket = self.front.admit(db, to, &mut points, outcome)?;
        if points.capacity() > POINTS_KEPT_MAX {
            *points = Vec::new();
        }
        Ok(ticket)
    }

    /// Notes what was read, which is not to be read again.
    fn counted(&self, parsed: Parsed) -> Parsed {
        let took = parsed.done - parsed.begun;
        self.front.gateway.metrics.parsed(took, &parsed.outcome);
        parsed
    }

    /// Where points go, if there are any; there is no `destination` where the database has no such
    /// policy.
    fn found<'d>(
        &self,
        outcome: &line::Outcome,
        rp: &str,
        destination: Option<&'d Destination>,
    ) -> Result<Option<&'d Destination>, Answer> {
        if outcome.points + outcome.dropped == 0 {
            return Ok(None);
        }
        self.consistency()?;
        if destination.is_none() {
            let message = format!("retention policy not found: {rp}");
            return Err(answer::error(StatusCode::INTERNAL_SERVER_ERROR, &message));
        }
        Ok(destination)
    }

    /// Where the points go; `None` where the database has no policy of that name.
    async fn destination(&self, db: &str, rp: &str) -> Result<Option<Destination>, Answer> {
        match self.front.gateway.resolve(db, rp).await? {
            Resolved::To(destination) => Ok(Some(destination)),
            Resolved::NoPolicy => Ok(None),
            Resolved::NoDatabase => {
                let message = format!("database not found: {db:?}");
                Err(answer::error(StatusCode::NOT_FOUND, &message))
            }
        }
    }

    /// Leaves the points in the worker's buffer, which nobody else uses before they are appended.
    fn parse(&self, body: &[u8], precision: Precision) -> Parsed {
        self.connection.progress.serving();
        let _stage = self.front.worker.pulse.enter_sized(&PARSE, body.len());
        let begun = Instant::now();
        let mut points = self.front.points.borrow_mut();
        points.clear();
        let stamp = self.connection.stamp.tags();
        let unsigned = self.front.gateway.live().settings.unsigned_integers;
        let options = line::Options { precision, now_ns: super::now_ns(), stamp, unsigned };
        let outcome = line::normalise(body, &options, &mut points);
        Parsed { outcome, begun, done: Instant::now() }
    }

    fn precision(&self) -> Result<Precision, Answer> {
        let text = &*self.parameters.precision;
        let (known, allowed) = match self.api {
            Api::V1 => (Precision::parse_v1(text), "n, u, ms, s, m or h"),
            Api::V2 => (Precision::parse_v2(text), "ns, us, ms or s"),
        };
        known.ok_or_else(|| {
            let message = format!("invalid precision {text:?} (use {allowed})");
            answer::error(StatusCode::BAD_REQUEST, &message)
        })
    }

    fn target(&self) -> Result<(&str, &str), Answer> {
        match self.api {
            Api::V1 if self.parameters.db.is_empty() => {
                Err(answer::error(StatusCode::BAD_REQUEST, "database is required"))
            }
            Api::V1 => Ok((&self.parameters.db, &self.parameters.rp)),
            Api::V2 => parameters::bucket(&self.parameters.bucket)
                .map_err(|why| answer::error(StatusCode::NOT_FOUND, &why)),
        }
    }

    /// Checked for its form only: how many copies there are is for the file to say.
    fn consistency(&self) -> Result<(), Answer> {
        match &*self.parameters.consistency.to_ascii_lowercase() {
            "" | "any" | "one" | "quorum" | "all" => Ok(()),
            _ => Err(answer::error(StatusCode::BAD_REQUEST, "invalid consistency level")),
        }
    }
}
