//! `/write` and `/api/v2/write`: from a request to a journal record, and to 204 once it is safe.

use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use journal::AckError;
use wire::line::{self, Precision};

use super::answer::{self, Answer};
use super::auth::User;
use super::body::Whole;
use super::credentials::Asker;
use super::http::Connection;
use super::large::Large;
use super::parameters::{self, WriteParameters};
use super::stages::PARSE;
use super::writer::Writer;
use super::{Front, body};
use crate::admission::{Admitted, Destination, NameError, NotAdmitted, Points};
use crate::aside::LINES_AT_ONCE_MAX;

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

/// Answers a write once the journal has its points.
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
    query: &'a str,
    parameters: WriteParameters<'a>,
}

/// What was read from a body.
pub struct ParsedBody {
    pub points: Points,
    pub begun: Instant,
    pub done: Instant,
}

/// A write whose good points, if it has any, the journal has taken.
pub struct AdmittedWrite {
    admitted: Admitted,
    begun: Instant,
    done: Instant,
}

impl AdmittedWrite {
    /// What the points, if there are any, are waited for by.
    pub fn ticket(&self) -> Option<journal::Ticket> {
        self.admitted.ticket
    }

    /// What to answer, from what the journal says at this moment.
    ///
    /// # Errors
    /// The answer where the points are not known to be safe, or where InfluxDB has a 400 for what
    /// was not taken.
    pub fn settled(
        self,
        front: &Front,
        settled: Result<(), AckError>,
        now: Instant,
    ) -> Result<(), Answer> {
        settled.map_err(|error| front.gateway.refused(&error.into()))?;
        front.acknowledged(&self.admitted.outcome, [self.begun, self.done, now])
    }
}

impl Front {
    /// What to answer to a write of which all points that are left are acknowledged.
    fn acknowledged(&self, outcome: &line::Outcome, times: [Instant; 3]) -> Result<(), Answer> {
        if outcome.points > 0 {
            self.gateway.metrics.acknowledged(times, outcome.points);
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
        Self { front, connection, api, headers, query, parameters }
    }

    /// Admits a write for which nothing has to be waited for: neither to know who sends it nor
    /// where it goes, nor for room. `None` where something has, and where it is refused for its
    /// head: then [`serve`] finds out what to say.
    pub fn admit_now(&self, body: &[u8]) -> Option<Result<AdmittedWrite, Answer>> {
        let Front { gateway, admission, worker, .. } = self.front;
        let (name, password) = (self.parameters.user.clone(), self.parameters.password.clone());
        let precision = self.precision().ok()?;
        let (db, rp) = self.target().ok()?;
        let user = gateway.auth.known_writer(name, password, self.headers, db).ok()?;
        self.connection.note_user(user.as_deref());
        let writer = self.writer(user.as_ref()).ok()?;
        let room = gateway.admission.room_now()?;
        let destination = gateway.find(db, rp).ok()?;
        let unfolded;
        let mut body = body;
        if body::is_gzip(self.headers) {
            let max = gateway.live().limits.decompressed_max;
            match body::unfolded_at_once(body, LINES_AT_ONCE_MAX, max, &worker.pulse) {
                Ok(whole) => unfolded = whole?,
                Err(refusal) => return Some(Err(refusal)),
            }
            body = &unfolded;
        }
        let ParsedBody { mut points, begun, done } = self.parse(body, precision, &writer);
        let bad_lines = points.outcome().bad;
        let admitted = match self.check(&points, rp, Some(&destination)) {
            Err(refusal) => Err(refusal),
            Ok(_) => match admission.admit_now(room, &destination, &mut points) {
                Ok(admitted) => Ok(AdmittedWrite { admitted, begun, done }),
                Err(NotAdmitted::Refused(refusal)) => Err(gateway.refused(&refusal)),
                Err(NotAdmitted::NotNow) => {
                    admission.recycle(points);
                    return None;
                }
            },
        };
        admission.recycle(points);
        // Not earlier: what is left to `serve` is read again.
        gateway.metrics.parsed(done - begun, bad_lines);
        Some(admitted)
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
        self.connection.note_user(user.as_deref());
        self.connection.progress.body();
        let precision = self.precision()?;
        let (db, rp) = self.target()?;
        let destination = self.destination(db, rp).await?;
        if let Some(user) = user.as_ref().filter(|user| !user.may_write(db)) {
            let name = &user.name;
            let message = format!("{name:?} user is not authorized to write to database {db:?}");
            return Err(answer::error(StatusCode::FORBIDDEN, &message));
        }
        let writer = self.writer(user.as_ref())?;
        let limits = gateway.live().limits;
        let whole = body::read(self.headers, body, limits, &gateway.memory.bodies).await;
        let whole = whole.inspect_err(|refusal| self.count_refusal(refusal))?;
        let Some(body) = whole.at_once(LINES_AT_ONCE_MAX, &self.front.worker.pulse)? else {
            return self.answer_large(whole, precision, writer, rp, destination).await;
        };
        let parsed = self.parse(&body, precision, &writer);
        drop((whole, body));
        let ParsedBody { points, begun, done } = parsed;
        gateway.metrics.parsed(done - begun, points.outcome().bad);
        let outcome = match self.check(&points, rp, destination.as_ref()) {
            Ok(Some(to)) => self.front.admission.admit(to, points).await,
            Ok(None) => {
                let outcome = points.outcome().clone();
                self.front.admission.recycle(points);
                Ok(outcome)
            }
            Err(refusal) => {
                self.front.admission.recycle(points);
                return Err(refusal);
            }
        };
        let outcome = outcome.map_err(|refusal| gateway.refused(&refusal))?;
        self.front.acknowledged(&outcome, [begun, done, Instant::now()])
    }

    /// The same for what is too large for the worker.
    async fn answer_large(
        &self,
        body: Whole,
        precision: Precision,
        writer: Writer<'_>,
        rp: &str,
        destination: Option<Destination<'_>>,
    ) -> Result<(), Answer> {
        let gateway = Arc::clone(&self.front.gateway);
        self.connection.progress.serving();
        let large = Large {
            body,
            precision,
            source: writer.source,
            stamp: writer.stamp.into_owned(),
            unsigned: gateway.live().writes.unsigned,
        };
        let reader = Arc::clone(&gateway);
        let read = gateway.aside.run(move || large.read(&reader)).await?;
        let ParsedBody { points, begun, done } =
            read.map_err(Answer::from).inspect_err(|refusal| self.count_refusal(refusal))?;
        let outcome = match self.check(&points, rp, destination.as_ref())? {
            Some(to) => gateway.admission.admit(to, points).await,
            None => Ok(points.into_outcome()),
        };
        let outcome = outcome.map_err(|refusal| gateway.refused(&refusal))?;
        self.front.acknowledged(&outcome, [begun, done, Instant::now()])
    }

    /// Counts what is refused for want of memory.
    fn count_refusal(&self, refusal: &Answer) {
        if refusal.status() == StatusCode::SERVICE_UNAVAILABLE {
            self.front.gateway.metrics.refused.memory.inc();
        }
    }

    /// Checks what InfluxDB checks once it has points: then there must be a `destination`, which
    /// there is none of where the database has no such policy.
    fn check<'d, 'n>(
        &self,
        points: &Points,
        rp: &str,
        destination: Option<&'d Destination<'n>>,
    ) -> Result<Option<&'d Destination<'n>>, Answer> {
        if points.count() + points.outcome().dropped == 0 {
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
    async fn destination<'d>(
        &self,
        db: &'d str,
        rp: &str,
    ) -> Result<Option<Destination<'d>>, Answer> {
        match self.front.gateway.resolve(db, rp).await {
            Ok(destination) => Ok(Some(destination)),
            Err(NameError::NoPolicy) => Ok(None),
            Err(NameError::NoDatabase) => {
                let message = format!("database not found: {db:?}");
                Err(answer::error(StatusCode::NOT_FOUND, &message))
            }
            Err(NameError::Refused(refusal)) => Err(self.front.gateway.refused(&refusal)),
        }
    }

    /// Who `user` is as a writer here.
    fn writer(&self, user: Option<&Arc<User>>) -> Result<Writer<'_>, Answer> {
        let stamp = self.connection.stamp.tags_for(user.map(|user| &*user.name), self.query);
        let stamp = stamp.map_err(|error| {
            let message = format!("the stamp of this write cannot be made: {error}");
            answer::error(StatusCode::BAD_REQUEST, &message)
        })?;
        let collisions = self.front.gateway.collisions.as_deref();
        let source = collisions.map(|collisions| self.connection.source.of(collisions, user));
        Ok(Writer { stamp, source })
    }

    /// Reads points into the worker's buffers, which are to be given back.
    fn parse(&self, body: &[u8], precision: Precision, writer: &Writer<'_>) -> ParsedBody {
        self.connection.progress.serving();
        let _stage = self.front.worker.pulse.enter_sized(&PARSE, body.len());
        let begun = Instant::now();
        let stamp = &writer.stamp;
        let unsigned = self.front.gateway.live().writes.unsigned;
        let options = line::Options { precision, now_ns: super::now_ns(), stamp, unsigned };
        let points = self.front.admission.points().read(body, &options, writer.source);
        ParsedBody { points, begun, done: Instant::now() }
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
